"""Cells of text: which of them are numbers, and which are missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

# in text files, in any case and with spaces around
WORDS = frozenset({"", "na", "nan", "null", "?"})


def is_missing(cell: str) -> bool:
    """Return whether the cell is empty, or a word that says that a value is missing."""
    return cell.isascii() and cell.strip().lower() in WORDS


def is_number(cell: str) -> bool:
    """Return whether the cell is decimal text."""
    with suppress(ValueError):
        return bool(list(floats([cell])))
    return False


def is_header(cells: Sequence[str]) -> bool:
    """Return whether a row names columns: no cell is a number or says that it is missing, and not
    all are empty.
    """
    return not any(is_number(cell) or (cell and is_missing(cell)) for cell in cells) and any(cells)


def floats(cells: Sequence[str]) -> Iterator[float]:
    """Convert decimal text; ValueError also for what only Python reads as a number: 1_000 and other
    scripts' digits.
    """
    if not is_plain("".join(cells)):
        raise ValueError
    return map(float, cells)


def is_plain(text: str) -> bool:
    """Return whether Python and Arrow read the text alike: it contains nothing, such as 1_000, that
    only Python reads as a number.
    """
    return "_" not in text and text.isascii()
