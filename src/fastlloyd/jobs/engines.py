"""Engines, by the name that a request gives them."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fastlloyd.errors import PlanError
from fastlloyd.jobs.watching import EngineStarted, StepBegan, Watch

if TYPE_CHECKING:
    from fastlloyd.mechanisms.engines.dask import DaskEngine
    from fastlloyd.mechanisms.engines.local import LocalEngine

_LOCAL = re.compile(r"local:([1-9][0-9]{0,2})")
_CLUSTER = re.compile(r"(dask|tls)://(\S+:[0-9]{1,5})")


def check_engine(name: str) -> None:
    """Raise PlanError unless the name is that of an engine."""
    if not (_LOCAL.fullmatch(name) or _CLUSTER.fullmatch(name)):
        raise PlanError(
            f"engine is {name!r:.80}; expected local:N, with 1 to 999 processes, dask://HOST:PORT"
            " or tls://HOST:PORT",
            field="engine",
        )


@contextmanager
def started(
    name: str, watch: Watch, *, holds_keys: bool = False
) -> "Iterator[LocalEngine | DaskEngine]":
    """Start the engine with this name, and stop it at the end.

    holds_keys : as in `DaskEngine.connected`.

    Raises PlanError for another name, EngineError if the engine cannot be used.
    """
    watch(StepBegan(what=f"starting {name}"))
    workers = engine(name, holds_keys=holds_keys)
    try:
        watch(
            EngineStarted(
                name=name, n_workers=workers.n_workers, is_elsewhere=not _LOCAL.fullmatch(name)
            )
        )
        yield workers
    finally:
        workers.close()


def engine(name: str, *, holds_keys: bool = False) -> "LocalEngine | DaskEngine":
    """Return the engine named local:N, dask://HOST:PORT, or tls://HOST:PORT, which requires TLS.

    Parameters and errors are those of `started`.
    """
    from fastlloyd.mechanisms.engines.dask import DaskEngine
    from fastlloyd.mechanisms.engines.local import LocalEngine

    check_engine(name)
    if found := _LOCAL.fullmatch(name):
        return LocalEngine(int(found[1]))
    scheme, address = name.split("://")
    return DaskEngine.connected(address, tls=scheme == "tls", holds_keys=holds_keys)
