"""Engines on the command line: the one that is named, what its owner must know, and who answers
with it or without.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from fastlloyd.base.names import choose
from fastlloyd.cli import screen, terminal
from fastlloyd.clustering.grid_records import GridRecords, Outside
from fastlloyd.errors import PlanError
from fastlloyd.mechanisms.answering import AllRecords, LocalRecords
from fastlloyd.mechanisms.mechanism import Mechanism
from fastlloyd.records import RecordFile, Table

if TYPE_CHECKING:
    from fastlloyd.mechanisms.engines.dask import DaskEngine
    from fastlloyd.mechanisms.engines.engine import Engine
    from fastlloyd.mechanisms.engines.local import LocalEngine


@contextmanager
def named(
    text: str | None, say: Callable[[str], None] = screen.on_stderr, *, holds_keys: bool = False
) -> "Iterator[Engine | None]":
    """Yield the engine that an option names, None for this process alone; it lets go of its workers
    in the end.

    holds_keys : whether this process does.
    """
    if text is None:
        yield None
        return
    with terminal.moving(f"starting {text}"):
        workers = engine(text, holds_keys=holds_keys)
    try:
        if not text.startswith("local:"):
            n = workers.n_workers
            say(
                f"Engine: {text}, {n} worker{'s' * (n != 1)}. Scheduler, workers, their logs and"
                " disks handle your records and exact sums: they must be yours alone."
            )
        yield workers
    finally:
        workers.close()


def engine(text: str, *, holds_keys: bool = False) -> "LocalEngine | DaskEngine":
    """The engine named local:N, or dask://HOST:PORT or tls://HOST:PORT, which insists on TLS.

    holds_keys : see `DaskEngine.connected`. Raises PlanError for another name, EngineError where it
    cannot be used.
    """
    from fastlloyd.mechanisms.engines.dask import DaskEngine
    from fastlloyd.mechanisms.engines.local import LocalEngine

    if found := re.fullmatch(r"local:([1-9][0-9]{0,2})", text):
        return LocalEngine(int(found[1]))
    if found := re.fullmatch(r"(dask|tls)://(\S+:[0-9]{1,5})", text):
        return DaskEngine.connected(found[2], tls=found[1] == "tls", holds_keys=holds_keys)
    raise PlanError(
        f"--engine is {text!r:.80}; expected local:N, with 1 to 999 processes, dask://HOST:PORT or"
        " tls://HOST:PORT"
    )


@contextmanager
def answering(
    records: Table | RecordFile,
    X: GridRecords,
    outside: str,
    workers: "Engine | None",
    *,
    behind_bar_of: Mechanism | None = None,
) -> Iterator[AllRecords]:
    """Yield who answers: the workers of an engine, or X, the records on the grid, in this process.

    behind_bar_of : whose rounds a bar shows. In the end X says either way how many records were
    outside the bounds, and the records how many were dropped.
    """
    if workers is None or isinstance(records, Table):
        with (
            nullcontext(X) if behind_bar_of is None else terminal.passes(behind_bar_of, X)
        ) as watched:
            yield LocalRecords(X.domain, watched)
        return
    from fastlloyd.mechanisms.engines.records import EngineRecords, silent

    with nullcontext(silent) if behind_bar_of is None else terminal.pieces(behind_bar_of) as report:
        far = EngineRecords.of_files(
            records, X.domain, choose(Outside, outside, "outside"), workers, report
        )
        yield far
    X.clipped, records.dropped = far.clipped, far.dropped
