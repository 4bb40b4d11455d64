"""Engines on the command line: the one that is named, what its owner must know, and who answers with it or without."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fastlloyd.base.names import choose
from fastlloyd.cli import screen, terminal
from fastlloyd.clustering.grid_records import GridRecords, Outside
from fastlloyd.mechanisms.answering import LocalRecords, Records
from fastlloyd.mechanisms.mechanism import Mechanism
from fastlloyd.records import RecordFile, Table

if TYPE_CHECKING:
    from fastlloyd.mechanisms.engines.engine import Engine


@contextmanager
def named(text: str | None) -> "Iterator[Engine | None]":
    """Yield the engine that an option names, None for this process alone; it lets go of its workers in the end."""
    if text is None:
        yield None
        return
    from fastlloyd.mechanisms.engines.named import engine

    with terminal.moving(f"starting {text}"):
        workers = engine(text)
    try:
        if text.startswith("dask:"):
            n = workers.n_workers
            screen.on_stderr(
                f"Engine: {text}, {n} worker{'s' * (n != 1)}. Scheduler, workers, their logs and disks handle your records and "
                "exact sums: they must be yours alone."
            )
        yield workers
    finally:
        workers.close()


@contextmanager
def answering(
    mechanism: Mechanism, records: Table | RecordFile, X: GridRecords, outside: str, workers: "Engine | None"
) -> Iterator[Records]:
    """Yield who answers the mechanism behind a bar: the workers of an engine, or X, the records on the grid, in this process.

    In the end X says either way how many records were outside the bounds.
    """
    if workers is None or not isinstance(records, RecordFile):
        with terminal.passes(mechanism, X) as watched:
            yield LocalRecords(X.domain, watched)
        return
    from fastlloyd.mechanisms.engines.records import EngineRecords

    with terminal.pieces(mechanism) as report:
        far = EngineRecords(records, X.domain, choose(Outside, outside, "outside"), workers, report)
        yield far
        X.n_outside = far.n_outside
