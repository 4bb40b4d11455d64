"""Tables for narrow screens, too: no number is broken or cut; columns that do not fit beside the others stand below them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

_TEXT = 24  # the least width of text, which may be broken
_SHORT = 12  # a heading that is not worth breaking
_FRAME = 3  # a line and two spaces for each column


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A heading, which may be broken between words, and cells, which may not; or text, which may."""

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
        """The width that breaks no cell, no word of a heading and no short heading, and text not too often."""
        if self.is_text:
            return min(self.natural, _TEXT)
        return max(min(cell_len(self.heading), _SHORT), *map(cell_len, (*self.heading.split(), *self.cells)))


def show(screen: Console, title: str, columns: Sequence[Column]) -> None:
    """Print a table; where the screen is too narrow several, each with the first column, which names the rows."""
    fits = _width([column.natural for column in columns]) <= screen.width
    for number, part in enumerate([columns] if fits else _parts(columns, screen.width)):
        table = Table(title=title if number == 0 else "(continued)")
        for column in part:
            width = None if column.is_text else column.natural if fits else column.least
            table.add_column(column.heading, justify=column.justify, width=width, overflow="fold")
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
