"""Cells of text that are numbers, and cells that are missing."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from typing import NamedTuple

# in text files, in any case and with spaces around
WORDS = frozenset({"", "na", "nan", "null", "?"})
_DIGITS = re.compile(r"[-+]?[.,' ]*[0-9][0-9.,' ]*(?:[eE][-+]?[0-9]+)?")
_NO_NUMBER = "x"  # Python reads it as no number


class Notation(NamedTuple):
    """Notation of numbers and of missing cells in a text file.

    decimal : decimal mark, "." or ",".
    thousands : mark between groups of three digits before the decimal mark, or "".
    words : words that stand for a missing cell (`as_words`), besides the usual ones.
    """

    decimal: str = "."
    thousands: str = ""
    words: frozenset[str] = frozenset()

    def is_missing(self, cell: str) -> bool:
        """Return whether the cell is empty, or has a word for a missing value."""
        return is_missing(cell) or (bool(self.words) and as_word(cell) in self.words)

    def is_number(self, cell: str) -> bool:
        """Return whether the cell is decimal text in this notation, and not a word for a missing
        value.
        """
        return is_number(self.in_python([cell])[0]) and not self.is_missing(cell)

    def in_python(self, cells: Sequence[str]) -> Sequence[str]:
        """Return the cells in Python's notation. A word for a missing value that the layout states
        becomes "nan".

        Text that is a number only in Python's notation, such as 1.5 in a file with decimal commas,
        becomes text that is not read as a number.
        """
        if self.words:
            cells = ["nan" if as_word(cell) in self.words else cell for cell in cells]
        if self.thousands:
            grouped, mark = _grouped(self.thousands, self.decimal), self.thousands
            cells = [
                cell
                if mark not in cell.strip()
                else (cell.replace(mark, "") if grouped.fullmatch(cell.strip()) else _NO_NUMBER)
                for cell in cells
            ]
        if self.decimal == ",":
            cells = [
                _NO_NUMBER if "." in cell and not is_missing(cell) else cell.replace(",", ".")
                for cell in cells
            ]
        return cells


PLAIN = Notation()


@cache
def _grouped(thousands: str, decimal: str) -> re.Pattern[str]:
    """Return the regular expression of a number whose digits are in groups of three."""
    mark, point = re.escape(thousands), re.escape(decimal)
    return re.compile(
        rf"[-+]?[0-9]{{1,3}}(?:{mark}[0-9]{{3}})+(?:{point}[0-9]*)?(?:[eE][-+]?[0-9]+)?"
    )


def plain(text: str) -> str:
    """Return a text in the form in which texts are compared: without spaces around it, in Unicode's
    form NFC.
    """
    return unicodedata.normalize("NFC", text.strip())


def as_word(text: str) -> str:
    """Return a text in the form in which it is compared with words for a missing cell: `plain`, in
    lower case.
    """
    return plain(text).lower()


def as_words(texts: Iterable[str]) -> frozenset[str]:
    """Return the words for a missing cell that a layout states, in the form in which they are
    compared.
    """
    return frozenset(map(as_word, texts))


def is_missing(cell: str) -> bool:
    """Return whether the cell is empty, or has a usual word for a missing value."""
    return cell.isascii() and cell.strip().lower() in WORDS


def is_number(cell: str) -> bool:
    """Return whether the cell is decimal text."""
    with suppress(ValueError):
        return bool(list(floats([cell])))
    return False


def has_digits(cell: str) -> bool:
    """Return whether the cell is a number in digits, in whatever notation, and not Inf or NaN.

    Only such a cell shows that a first line is a record, because Na, Inf and null can be names of
    columns. The result is the same for all notations. Otherwise `1,5;2,5` would be a record with
    decimal commas, but a header with decimal points.
    """
    return bool(_DIGITS.fullmatch(cell.strip()))


def is_header(cells: Sequence[str]) -> bool:
    """Return whether a row can name columns: at least one cell is not empty, and no cell is a
    number.

    Words such as nan and inf do not count as numbers here.
    """
    return not any(map(has_digits, cells)) and any(cells)


def floats(cells: Sequence[str]) -> Iterator[float]:
    """Return the numbers that decimal text states. Raises ValueError if a cell is not decimal text.

    Text that only Python reads as a number is refused too, such as 1_000 or digits of other
    scripts.
    """
    if not is_plain("".join(cells)):
        raise ValueError
    return map(float, cells)


def is_plain(text: str) -> bool:
    """Return whether Python and Arrow read the same numbers in the text.

    They differ for text that only Python reads as a number, such as 1_000.
    """
    return "_" not in text and text.isascii()
