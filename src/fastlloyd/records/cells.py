"""Cells of text that are numbers, and cells that are missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

# in text files, in any case and with spaces around
WORDS = frozenset({"", "na", "nan", "null", "?"})


def is_missing(cell: str) -> bool:
    """Return whether the cell is empty, or has a word for a missing value."""
    return cell.isascii() and cell.strip().lower() in WORDS


def is_number(cell: str) -> bool:
    """Return whether the cell is decimal text."""
    with suppress(ValueError):
        return bool(list(floats([cell])))
    return False


def is_header(cells: Sequence[str]) -> bool:
    """Return whether a row names columns.

    A row does not if a cell is a number or has a word for a missing value, or if all cells are
    empty.
    """
    return not any(is_number(cell) or (cell and is_missing(cell)) for cell in cells) and any(cells)


def floats(cells: Sequence[str]) -> Iterator[float]:
    """Return the numbers that decimal text states. Raises ValueError.

    Text that only Python reads as a number is refused too, such as 1_000 or digits of other
    scripts.
    """
    if not is_plain("".join(cells)):
        raise ValueError
    return map(float, cells)


def is_plain(text: str) -> bool:
    """Return whether Python and Arrow read the text alike.

    They differ for text that only Python reads as a number, such as 1_000.
    """
    return "_" not in text and text.isascii()
