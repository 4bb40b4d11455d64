"""Decision about the first line of a text file: it names the columns, or is a record, or is not
clear.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from typing import NamedTuple

from fastlloyd.errors import DataError
from fastlloyd.records.cells import Notation, has_digits
from fastlloyd.records.columns import numbered
from fastlloyd.records.declared import LAYOUT
from fastlloyd.records.layout import YES, Layout

_LINE_BREAKS = re.compile(r"\s*[\r\n]\s*")
_LETTER = re.compile(r"[^\W\d_]")
_NUMBERED = re.compile(r"x[1-9][0-9]*")
_YEARS = range(1800, 2200)
_COUNTED = 3  # with so many columns, 0, 1, 2 or 1, 2, 3 looks like positions of columns
_ASK = "pass --header yes if it names the columns, or --header no if it is a record"


class FirstLine(NamedTuple):
    """Decision about the first line of a file.

    names : names of the columns.
    is_header : the first line names the columns.
    doubt : reason to refuse the file until the header is stated, or "".
    """

    names: list[str]
    is_header: bool
    doubt: str = ""


def judge(
    cells: Sequence[str],
    below: Sequence[Sequence[str]],
    layout: Layout,
    notation: Notation,
) -> FirstLine:
    """Return the names of the columns, and the decision about the first line.

    If no header is stated, a line without any number is a header, and a line of numbers and missing
    cells is a record. A number has digits, so Na, Inf and null can be names. The line is doubtful
    if it mixes names with numbers, or with signs for a missing cell such as ?. It is also doubtful
    if it has only missing cells, or if it numbers the columns. A line of consecutive years is
    doubtful if no line below has years. The lines below are records. They may make the answer
    doubtful, but never change it (see also `misplaced`).

    cells, below : cells of the first line, and of some lines below.
    """
    names = [_LINE_BREAKS.sub(" ", cell.strip()) for cell in cells]
    plain = numbered(len(names))
    if layout.header is not None:
        is_header = layout.header == YES
        return FirstLine(names if is_header else plain, is_header)
    digits = [has_digits(cell) for cell in cells]
    gaps = [
        not digit and (notation.is_missing(cell) or notation.is_number(cell))
        for cell, digit in zip(cells, digits, strict=True)
    ]
    words = [not digit and not gap for digit, gap in zip(digits, gaps, strict=True)]
    if any(digits):
        doubt = "mixes names and numbers" if any(words) else _counts(names, below)
        return FirstLine(plain, False, doubt)
    doubt = ""
    if not any(words):
        doubt = "has only empty cells or words such as NA, which may be missing values or names"
    elif any(
        gap and cell.strip() and not _LETTER.search(cell)
        for gap, cell in zip(gaps, cells, strict=True)
    ):
        doubt = "mixes names and missing cells"
    return FirstLine(names, True, doubt)


def misplaced(first: FirstLine, used: Sequence[int]) -> FirstLine:
    """Return the decision about the first line. It is doubtful if the header calls the used columns
    x1, x2, ..., but these numbers are not the columns' positions, counted from 1.

    In a file without a header, the reader itself calls the columns x1, x2, ... by their positions.

    used : positions of the columns that are chosen or have ids, from 0.
    """
    used_names = [first.names[i] for i in used]
    if (
        first.is_header
        and all(map(_NUMBERED.fullmatch, used_names))
        and used_names != [f"x{i + 1}" for i in used]
    ):
        return first._replace(
            doubt="has names such as x1 and x2 at positions that do not match their numbers"
        )
    return first


def _counts(names: Sequence[str], below: Sequence[Sequence[str]]) -> str:
    """Return a doubt if a first line of numbers may number the columns or have years as their
    names, or "" otherwise.
    """
    d = len(names)
    if not all(name.isascii() and name.isdigit() for name in names):
        return ""
    values = [int(name) for name in names]
    if d >= _COUNTED and values in (list(range(d)), list(range(1, d + 1))):
        return "counts the columns"
    is_years = d > 1 and values == list(range(values[0], values[0] + d)) and values[0] in _YEARS
    if is_years and not any(_are_years(row) for row in below):
        return "has consecutive years, unlike the lines below"
    return ""


def _are_years(cells: Sequence[str]) -> bool:
    return all(cell.isascii() and cell.strip().isdigit() and int(cell) in _YEARS for cell in cells)


def check_header(first: FirstLine, path: str, line: int) -> None:
    """Raise DataError if the first line is doubtful. The message shows no part of the line."""
    if first.doubt:
        raise DataError(
            f"{path}, line {line}: the first line {first.doubt}; {_ASK}",
            code=LAYOUT,
            field="header",
        )


def shape_fault(lines: Sequence[tuple[int, list[str]]]) -> str:
    """Return the reason why the first row is shorter than all rows below, or "".

    lines : for each of the first rows, its line number and its cells.
    """
    (_, first), *others = [row for row in lines if any(row[1])] or [(0, [])]
    widths = {len(cells) for _, cells in others}
    if len(widths) != 1 or (width := widths.pop()) <= len(first):
        return ""
    if width == len(first) + 1 and len(first) > 1 and _are_row_names([row[0] for _, row in others]):
        return (
            f"the first line has {len(first)} cells, but the lines below have {width}: R writes row"
            " names like this; write the table with row.names=FALSE, or add a name for the first"
            " column"
        )
    if len(first) > 1 and any(map(has_digits, others[0][1])):
        return ""
    return (
        f"the first line has {len(first)} cell(s) and the lines from line {others[0][0]} have"
        f" {width}, so it is not their header; if there is a title above the table, delete it or"
        f" pass --skip-lines {others[0][0] - 1}"
    )


def _are_row_names(cells: Sequence[str]) -> bool:
    """Return whether cells are names or numbers of rows, as R writes them."""
    counted = [str(number) for number in range(1, len(cells) + 1)]
    return list(cells) == counted or not any(map(has_digits, cells))


def spaces_fault(lines: Sequence[str]) -> str:
    """Return the reason why lines of one cell seem to have cells separated by spaces, or ""."""
    try:
        rows = [row for row in csv.reader(lines, delimiter=" ", strict=True) if row]
    except csv.Error:
        return ""
    widths = {len(row) for row in rows[1:]}
    if len(widths) != 1 or min(widths) == 1 or not any(map(has_digits, rows[1])):
        return ""
    if len(rows[0]) not in (width := min(widths), width - 1):
        return ""
    return (
        "the cells seem to be separated by spaces; write commas, semicolons or tabs between them"
        " (in R, write.csv with row.names=FALSE), or pass --separator space"
    )
