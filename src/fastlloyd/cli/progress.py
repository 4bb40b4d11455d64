"""Something that moves on the terminal while a long computation runs. How many records were read is exact: NOT PRIVATE."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from fastlloyd.clustering.domain import GridArray
from fastlloyd.mechanisms.mechanism import Mechanism

MANY_CLUSTERS = 150  # placing so many takes about a second, and longer with more features
LARGE_WORK = 10**8  # coordinates of records compared with coordinates of centroids: about a second where nothing is compiled


def placing(n_clusters: int) -> AbstractContextManager[None]:
    """A moving line while settings are designed: many initial centroids take long to place."""
    return _moving(f"placing {n_clusters:,} initial centroids", n_clusters >= MANY_CLUSTERS and sys.stderr.isatty())


def at_work(what: str, mechanism: Mechanism) -> AbstractContextManager[None]:
    """A moving line, where nothing tells how far the work has come."""
    return _moving(what, _is_shown(mechanism))


def moving(what: str) -> AbstractContextManager[None]:
    """A moving line on a terminal."""
    return _moving(what, sys.stderr.isatty())


@contextmanager
def _moving(what: str, is_shown: bool) -> Iterator[None]:
    if not is_shown:
        yield
        return
    with Progress(
        SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=Console(stderr=True), transient=True
    ) as progress:
        progress.add_task(what, total=None)
        yield


@contextmanager
def passes(mechanism: Mechanism, X: Iterable[GridArray]) -> Iterator[Iterable[GridArray]]:
    """The same blocks, with a bar over the rounds and the records of the round that were read."""
    if not _is_shown(mechanism):
        yield X
        return
    T = len(mechanism.exchanges)
    with Progress(
        TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), console=Console(stderr=True), transient=True
    ) as progress:
        task = progress.add_task(f"round 1 of {T}", total=T)

        def report(done: int, n_records: int) -> None:
            progress.update(
                task, completed=done, description=f"round {min(done + 1, T)} of {T}, {n_records:,} records (exact: NOT PRIVATE)"
            )

        yield _Watched(X, report)


class _Watched:
    """Blocks that say how many passes are complete and how many records of the present one were taken."""

    def __init__(self, X: Iterable[GridArray], report: Callable[[int, int], None]) -> None:
        self._X, self._report, self._done = X, report, 0

    def __iter__(self) -> Iterator[GridArray]:
        n = 0
        for block in self._X:
            yield block
            n += len(block)
            self._report(self._done, n)
        self._done += 1
        self._report(self._done, n)


def _is_shown(mechanism: Mechanism) -> bool:
    size = mechanism.n_records * mechanism.n_clusters * mechanism.n_features * len(mechanism.clustering_rounds)
    return size >= LARGE_WORK and sys.stderr.isatty()
