"""The engine that a text names."""

import re

from fastlloyd.errors import PlanError
from fastlloyd.mechanisms.engines.dask import DaskEngine
from fastlloyd.mechanisms.engines.engine import Engine
from fastlloyd.mechanisms.engines.local import LocalEngine


def engine(text: str) -> Engine:
    """The engine named local:N or dask://HOST:PORT. Raises PlanError for another name, EngineError where it cannot be used."""
    if found := re.fullmatch(r"local:([1-9][0-9]{0,2})", text):
        return LocalEngine(int(found[1]))
    if found := re.fullmatch(r"dask://(\S+:[0-9]{1,5})", text):
        return DaskEngine.connected(found[1])
    raise PlanError(f"--engine is {text!r:.80}; expected local:N, with N processes, or dask://HOST:PORT")
