"""What reaches the terminal: tables that narrow screens hold too, JSON for programs, and something
that moves.

No number is broken or cut in a table; columns that do not fit beside the others stand below them.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from fastlloyd.base.files import to_json

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn

    from fastlloyd.clustering.domain import GridArray
    from fastlloyd.clustering.grid_records import GridRecords
    from fastlloyd.mechanisms.mechanism import Mechanism
    from fastlloyd.records.ids import Ids

MANY_CLUSTERS = 150  # placing so many takes about a second, and longer with more features
LARGE_WORK = (
    10**8
    # coordinates of records compared with coordinates of centroids: about a second where nothing is
    # compiled
)
_TEXT = 24  # the least width of text, which may be broken
_SHORT = 12  # a heading that is not worth breaking
_FRAME = 3  # a line and two spaces for each column


def console(*, stderr: bool = False) -> Console:
    """Return the console for people: it prints names as they are, never as markup."""
    return Console(stderr=stderr, markup=False, highlight=False, emoji=False)


def print_json(content: Any) -> None:
    """Print to stdout, for programs."""
    typer.echo(to_json(content), nl=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A heading, which may be broken between words, and cells, which may not; or text, which
    may.
    """

    heading: str
    cells: Sequence[str]
    justify: Literal["left", "right"] = "right"
    is_text: bool = False

    @property
    def natural(self) -> int:
        """The width that breaks nothing."""
        return max(map(cell_len, (self.heading, *self.cells)))

    @property
    def least(self) -> int:
        """The width that breaks no cell, no word of a heading and no short heading, and text not
        too often.
        """
        if self.is_text:
            return min(self.natural, _TEXT)
        return max(
            min(cell_len(self.heading), _SHORT),
            *map(cell_len, (*self.heading.split(), *self.cells)),
        )

    @property
    def narrowest(self) -> int:
        """The width that breaks no cell and no word of a heading."""
        return (
            self.least if self.is_text else max(map(cell_len, (*self.heading.split(), *self.cells)))
        )


def show(screen: Console, title: str, columns: Sequence[Column]) -> None:
    """Print a table; where the screen is too narrow several, each with the first column, which
    names the rows.
    """
    measures = map(attrgetter, ("natural", "least", "narrowest"))
    fitting = next(
        (width for width in measures if _width(list(map(width, columns))) <= screen.width), None
    )
    for number, part in enumerate([columns] if fitting else _parts(columns, screen.width)):
        width = fitting or attrgetter("least")
        table = Table(title=title if number == 0 else "(continued)")
        for column in part:
            table.add_column(
                column.heading,
                justify=column.justify,
                width=None if column.is_text else width(column),
                overflow="fold",
            )
        for row in zip(*(column.cells for column in part), strict=True):
            table.add_row(*row)
        screen.print(table)


def _parts(columns: Sequence[Column], width: int) -> list[list[Column]]:
    first, *others = columns
    parts = [[first]]
    for column in others:
        if len(parts[-1]) > 1 and _width([each.least for each in (*parts[-1], column)]) > width:
            parts.append([first])
        parts[-1].append(column)
    return parts


def _width(widths: Sequence[int]) -> int:
    return sum(widths) + _FRAME * len(widths) + 1


def placing(n_clusters: int) -> AbstractContextManager[None]:
    """Show a moving line while initial centroids are placed, if there are many."""
    return moving(
        f"placing {n_clusters:,} initial centroids", takes_long=n_clusters >= MANY_CLUSTERS
    )


def at_work(what: str, mechanism: "Mechanism") -> AbstractContextManager[None]:
    """Show a moving line during large work whose progress is not known."""
    return moving(what, takes_long=_is_large(mechanism))


@contextmanager
def moving(what: str, *, takes_long: bool = True) -> Iterator[None]:
    """Show a moving line on a terminal while something that takes long is done."""
    if not (takes_long and sys.stderr.isatty()):
        yield
        return
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    with progress(SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()) as shown:
        shown.add_task(what, total=None)
        yield


@contextmanager
def passes(mechanism: "Mechanism", X: "GridRecords") -> "Iterator[GridRecords | Watched]":
    """Yield the blocks behind a bar of rounds and of records read in the round (exact: NOT
    PRIVATE).

    Where persons are protected, a pass that finds their shares comes before the rounds.
    """
    if not (_is_large(mechanism) and sys.stderr.isatty()):
        yield X
        return
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn

    T, before = mechanism.n_rounds, int(mechanism.persons is not None)
    with progress(TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()) as shown:
        task = shown.add_task("reading", total=T + before)

        def report(done: int, n_records: int) -> None:
            what = (
                f"round {min(done - before + 1, T)} of {T}"
                if done >= before
                else f"shares of {mechanism.unit.many}"
            )
            shown.update(
                task,
                completed=done,
                description=f"{what}, {n_records:,} records (exact: NOT PRIVATE)",
            )

        yield Watched(X, report)


@contextmanager
def pieces(mechanism: "Mechanism") -> Iterator[Callable[[int, int], None]]:
    """Yield whom an engine tells how many pieces of a round are done, and of how many; on a
    terminal a bar shows it.
    """
    if not sys.stderr.isatty():
        yield lambda _done, _of: None
        return
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn

    T = mechanism.n_rounds
    with progress(TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()) as shown:
        task, complete = shown.add_task(f"round 1 of {T}", total=T), 0

        def report(done: int, of: int) -> None:
            nonlocal complete
            shown.update(
                task,
                completed=complete + done / of,
                description=f"round {complete + 1} of {T}, {done} of {of} pieces",
            )
            complete += done == of

        yield report


@contextmanager
def progress(*columns: "ProgressColumn", **options: Any) -> "Iterator[Progress]":
    """Show progress on stderr until the work is done."""
    from rich.progress import Progress

    with Progress(*columns, console=Console(stderr=True), transient=True, **options) as shown:
        yield shown


class Watched:
    """Records on the grid that report how many passes are complete and how many records of the
    present one were read.
    """

    def __init__(self, X: "GridRecords", report: Callable[[int, int], None]) -> None:
        self.domain, self._X, self._report, self._done = X.domain, X, report, 0

    @property
    def are_kept(self) -> bool:
        """As of the records."""
        return self._X.are_kept

    def with_ids(self) -> "Iterator[tuple[GridArray, Ids | None]]":
        """As of the records."""
        n = 0
        for block, ids in self._X.with_ids():
            yield block, ids
            n += len(block)
            self._report(self._done, n)
        self._done += 1
        self._report(self._done, n)

    def __iter__(self) -> "Iterator[GridArray]":
        return (block for block, _ in self.with_ids())


def _is_large(mechanism: "Mechanism") -> bool:
    size = mechanism.n_records * mechanism.n_clusters * mechanism.n_features * len(mechanism.rounds)
    return size >= LARGE_WORK
