"""The engine that a text names."""

import re

from fastlloyd.errors import PlanError
from fastlloyd.mechanisms.engines.dask import DaskEngine
from fastlloyd.mechanisms.engines.local import LocalEngine


def engine(text: str, *, holds_keys: bool = False) -> LocalEngine | DaskEngine:
    """The engine named local:N, or dask://HOST:PORT or tls://HOST:PORT, which insists on TLS.

    holds_keys : see `DaskEngine.connected`. Raises PlanError for another name, EngineError where it cannot be used.
    """
    if found := re.fullmatch(r"local:([1-9][0-9]{0,2})", text):
        return LocalEngine(int(found[1]))
    if found := re.fullmatch(r"(dask|tls)://(\S+:[0-9]{1,5})", text):
        return DaskEngine.connected(found[2], tls=found[1] == "tls", holds_keys=holds_keys)
    raise PlanError(f"--engine is {text!r:.80}; expected local:N, with 1 to 999 processes, dask://HOST:PORT or tls://HOST:PORT")
