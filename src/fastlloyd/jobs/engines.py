"""Engines, by the names that requests give them. An engine is a group of workers that read the
records.
"""

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
    """Raise PlanError unless `name` is the name of an engine."""
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
    """Context manager that starts the engine with this name, runs its block, and stops the engine.

    watch : function that receives events of the job.
    holds_keys : as in `DaskEngine.connected`.

    Raises PlanError for another name, and EngineError if the engine cannot be used.
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
