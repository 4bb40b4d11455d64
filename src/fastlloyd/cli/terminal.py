"""Print on the terminal: tables that fit narrow screens, JSON for programs, and progress.

A table never breaks or cuts a number. If a number is too wide, rows and columns are swapped.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from fastlloyd.base.files import to_json

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn


_TEXT = 24  # the least width of text, which may be broken
_SHORT = 12  # a heading that is not worth breaking
_FRAME = 3  # a line and two spaces for each column


def console(*, stderr: bool = False, is_plain: bool = False) -> Console:
    """Return the console for people. It prints names unchanged, and never reads them as markup.

    is_plain : whether to print as to a pipe, even on a terminal.
    """
    plain = False if is_plain else None
    return Console(stderr=stderr, markup=False, highlight=False, emoji=False, force_terminal=plain)


def print_json(content: Any) -> None:
    """Print the content as JSON to stdout, for programs."""
    typer.echo(to_json(content), nl=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """Column of a table. The heading may break between words. Cells may break only if `is_text` is
    set.
    """

    heading: str
    cells: Sequence[str]
    justify: Literal["left", "right"] = "right"
    is_text: bool = False

    @property
    def natural(self) -> int:
        """Return the width at which no cell and no heading is broken into lines."""
        return max(map(cell_len, (self.heading, *self.cells)))

    @property
    def least(self) -> int:
        """Return the smallest width at which the column is still easy to read.

        No number, no word of the heading and no short heading is broken at this width. Long cells
        of a column of text may be broken.
        """
        if self.is_text:
            return min(self.natural, _TEXT)
        return max(
            min(cell_len(self.heading), _SHORT),
            *map(cell_len, (*self.heading.split(), *self.cells)),
        )

    @property
    def narrowest(self) -> int:
        """Return the smallest possible width. No number and no word of the heading is broken. Long
        cells of a column of text may be broken.
        """
        return (
            self.least if self.is_text else max(map(cell_len, (*self.heading.split(), *self.cells)))
        )


def show(screen: Console, title: str, columns: Sequence[Column]) -> None:
    """Print a table: with a frame on a terminal, otherwise as aligned text in which "-" marks an
    empty cell.

    If the screen is too narrow, rows and columns are swapped. If it is still too narrow, each row
    is printed as a list of headings and cells.
    """
    for shown in (columns, _transposed(columns)):
        for measure in map(attrgetter, ("natural", "least", "narrowest")):
            if _width(list(map(measure, shown))) <= screen.width:
                _print_table(screen, title, shown, measure)
                return
    screen.print(title)
    for row in zip(*(column.cells for column in columns), strict=True):
        screen.print(f"{columns[0].heading} {row[0]}:")
        for column, cell in zip(columns[1:], row[1:], strict=True):
            screen.print(f"  {column.heading}: {cell}")


def show_values(screen: Console, title: str, values: Mapping[str, str]) -> None:
    """Print names and values. On a terminal they have a frame, otherwise no value is broken into
    lines.
    """
    if not screen.is_terminal:
        screen.print(title)
        width = max(map(cell_len, values), default=0) + _FRAME - 1
        for name, value in values.items():
            lines = value.split("\n")
            for heading, line in zip([name, *[""] * (len(lines) - 1)], lines, strict=True):
                screen.print(f"{heading.ljust(width)}{line}".rstrip(), soft_wrap=True)
        return
    table = Table(title=title, show_header=False)
    table.add_column()
    table.add_column(overflow="fold")
    for name, value in values.items():
        table.add_row(name, value)
    screen.print(table)


def _print_table(
    screen: Console, title: str, columns: Sequence[Column], width: Callable[[Column], int]
) -> None:
    table = Table(title=title)
    if not screen.is_terminal:
        screen.print(title)
        table = Table(box=None, pad_edge=False, padding=(0, _FRAME - 1, 0, 0))
    for column in columns:
        table.add_column(
            column.heading,
            justify=column.justify,
            width=None if column.is_text else width(column),
            overflow="fold",
        )
    for row in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*(row if screen.is_terminal else (cell or "-" for cell in row)))
    screen.print(table)


def _transposed(columns: Sequence[Column]) -> list[Column]:
    """Return the transposed table. The first column becomes the headings."""
    first, *others = columns
    names = Column(
        heading=first.heading,
        cells=[column.heading for column in others],
        justify="left",
        is_text=True,
    )
    rows = zip(*(column.cells for column in others), strict=True)
    return [
        names,
        *(Column(heading=name, cells=row) for name, row in zip(first.cells, rows, strict=True)),
    ]


def _width(widths: Sequence[int]) -> int:
    return sum(widths) + _FRAME * len(widths) + 1


@contextmanager
def moving(what: str, *, takes_long: bool = True) -> Iterator[None]:
    """Context manager that shows a moving line on a terminal during long work.

    what : text of the line.
    takes_long : False to show nothing.
    """
    if not (takes_long and sys.stderr.isatty()):
        yield
        return
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    with progress(SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()) as shown:
        shown.add_task(what, total=None)
        yield


@contextmanager
def progress(*columns: "ProgressColumn", **options: Any) -> "Iterator[Progress]":
    """Context manager that shows progress on stderr until the work is done."""
    from rich.progress import Progress

    with Progress(*columns, console=Console(stderr=True), transient=True, **options) as shown:
        yield shown


def utc(seconds: int) -> str:
    """Return a time for people, such as "2026-11-26 23:40:11 UTC"."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"


def iso(seconds: int) -> str:
    """Return a time for programs, in ISO 8601, such as "2026-11-26T23:40:11Z"."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}Z"
