"""Proposal of a layout, made from the first lines of a text file, for its owner to check.

Only this module lets the majority of lines decide about a layout, and tries another encoding if
UTF-8 fails. A proposal depends on records. So it is written down in a recipe for the owner to
check, and a run uses only a layout that is stated.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from itertools import islice
from typing import NamedTuple

from fastlloyd.errors import DataError
from fastlloyd.records.cells import has_digits
from fastlloyd.records.files import unpacked
from fastlloyd.records.first_line import judge
from fastlloyd.records.layout import NO, YES, Layout, readings
from fastlloyd.records.lines import chunks

LOOKED_AT = 100  # rows
_BYTES = 1 << 16
_MARKS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", " ": "spaces"}
_COMMA = re.compile(r"[-+]?[0-9]+,[0-9]+")
_POINT = re.compile(r"[-+]?[0-9]+\.[0-9]+")
_GROUPED = {
    ".": re.compile(r"[-+]?[0-9]{1,3}(\.[0-9]{3})+(,[0-9]+)?"),
    ",": re.compile(r"[-+]?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?"),
}
_YEAR = re.compile(r"(18|19|20|21)[0-9]{2}")
_ENCODINGS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
_LATIN = "cp1252"


class LayoutProposal(NamedTuple):
    """Layout for the owner to check.

    layout : proposed layout, with every field that the reader needs.
    doubts : a sentence for each guess. No sentence shows a cell.
    """

    layout: Layout
    doubts: list[str]


def propose(path: str) -> LayoutProposal:
    """Return a layout that fits the first 100 rows of a text file. Raises DataError if the file is
    empty, or cannot be read.

    path : path or address of the file.
    """
    doubts = list[str]()
    encoding = _encoding(path, doubts)
    lines = _first_lines(path, encoding)
    if not any(map(str.strip, lines)):
        raise DataError(f"{path}: the file is empty")
    separator, rows = _separated(lines, path, doubts)
    width, skipped = _table(rows, doubts)
    table = [cells for number, cells in rows if number > skipped and len(cells) == width]
    decimal, thousands = _marks(table, separator, doubts)
    known = Layout(
        separator=separator,
        decimal=decimal,
        thousands=thousands,
        encoding=encoding,
        skip_lines=skipped,
    )
    header = _header(table, known, doubts)
    return LayoutProposal(
        Layout(
            separator=separator,
            decimal=decimal,
            thousands=thousands,
            encoding=encoding,
            header=header,
            skip_lines=skipped,
        ),
        doubts,
    )


def _encoding(path: str, doubts: list[str]) -> str:
    with unpacked(path) as stream:
        start = stream.read(_BYTES)
    for mark, name in _ENCODINGS.items():
        if start.startswith(mark):
            return name
    try:
        # a character may be cut in two at the end
        start.decode() if len(start) < _BYTES else start[: start.rfind(b"\n") + 1].decode()
    except UnicodeDecodeError:
        doubts.append(
            f"The text is not UTF-8. encoding = {_LATIN} is a guess: check letters such as umlauts"
            " in the names of columns."
        )
        return _LATIN
    return "utf-8"


def _first_lines(path: str, encoding: str) -> list[str]:
    with closing(chunks(path, [_BYTES], encoding)) as coming:
        text = next(coming, b"").decode(errors="replace")
    return list(islice(io.StringIO(text, newline=""), LOOKED_AT + 1))


def _separated(
    lines: Sequence[str], path: str, doubts: list[str]
) -> tuple[str, list[tuple[int, list[str]]]]:
    """Return the separator that gives the most lines the same number of cells, and the rows that it
    makes.
    """
    stated = readings(Layout(), path)[0]
    found = dict[str, list[tuple[int, list[str]]]]()
    scores = dict[str, tuple[int, float, int]]()
    for mark in [stated.separator] if stated.is_stated else _MARKS:
        rows = list(_rows(lines, mark))
        widths = Counter(len(cells) for _, cells in rows if len(cells) > 1)
        width, n = max(widths.items(), key=lambda of: (of[1], of[0]), default=(1, 0))
        cells = [cell for _, row in rows if len(row) == width for cell in row]
        numbers = sum(map(has_digits, cells)) / max(1, len(cells))
        found[mark], scores[mark] = rows, (n, numbers, width)
    best = max(scores, key=lambda mark: scores[mark])
    if scores[best][0] == 0:
        doubts.append("No separator was found, so the file is taken for one column.")
        return ";", list(_rows(lines, ";"))
    rivals = [mark for mark in scores if mark != best and scores[mark][:2] == scores[best][:2]]
    if rivals:
        others = " and by ".join(_MARKS[mark] for mark in rivals)
        doubts.append(
            f"Cells are taken to be separated by {_MARKS[best]}. Separation by {others} fits just"
            " as many lines."
        )
    return best, found[best]


def _rows(lines: Sequence[str], separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield, for each row that is not blank, the line number of its first line, and its cells."""
    reader, before = csv.reader(lines, delimiter=separator, skipinitialspace=separator != " "), 0
    with suppress(csv.Error):
        for cells in reader:
            if any(map(str.strip, cells)):
                yield before + 1, cells
            before = reader.line_num


def _table(rows: Sequence[tuple[int, list[str]]], doubts: list[str]) -> tuple[int, int]:
    """Return the number of cells that most rows have, and the number of lines above the table."""
    widths = Counter(len(cells) for _, cells in rows)
    width = max(widths, key=lambda each: (widths[each], each))
    first = next(number for number, cells in rows if len(cells) == width)
    skipped = first - 1 if first > rows[0][0] else 0
    if skipped:
        doubts.append(
            f"skip_lines = {skipped}: the lines above line {skipped + 1} have another number of"
            " cells, and are taken for a title."
        )
    if odd := sum(n for each, n in widths.items() if each != width) - bool(skipped):
        doubts.append(
            f"{odd} of the first rows have another number of cells than the table, and will be"
            " refused."
        )
    return width, skipped


def _marks(
    table: Sequence[Sequence[str]], separator: str, doubts: list[str]
) -> tuple[str, str | None]:
    """Return the decimal mark and the mark of thousands that most numbers have."""
    cells = [cell.strip() for row in table for cell in row]
    commas, points = (sum(_has_decimals(cell, mark) for cell in cells) for mark in ",.")
    decimal = "," if commas > points and separator != "," else "."
    if commas and points:
        doubts.append(
            f"decimal = {decimal!r}: some numbers of the first rows have a comma, and some a point."
        )
    other = "." if decimal == "," else ","
    if other == separator:
        return decimal, None
    grouped = [cell for cell in cells if _GROUPED[other].fullmatch(cell)]
    n_others = points if other == "." else commas
    if not grouped or len(grouped) < n_others:
        return decimal, None
    doubts.append(
        f"thousands = {other!r}: some numbers have this mark before three digits. If it is the"
        " decimal mark, remove the line `thousands`."
    )
    return decimal, other


def _has_decimals(cell: str, mark: str) -> bool:
    """Return whether a cell is a number with this decimal mark."""
    plain, grouped = (_COMMA, _GROUPED["."]) if mark == "," else (_POINT, _GROUPED[","])
    return bool(plain.fullmatch(cell)) or (mark in cell and bool(grouped.fullmatch(cell)))


def _header(table: Sequence[Sequence[str]], layout: Layout, doubts: list[str]) -> str:
    """Return "yes" if the first row of the table names the columns, otherwise "no". If that is a
    guess, add a sentence to `doubts`.
    """
    first, *below = table
    found = judge(first, below, layout, readings(layout, "")[0].notation)
    if not found.doubt:
        return YES if found.is_header else NO
    # names stand above numbers more often than text does
    columns = list(zip(*below, strict=True))
    names = any(
        (not has_digits(cell) and any(map(has_digits, column)))
        or (_YEAR.fullmatch(cell.strip()) and not any(_YEAR.fullmatch(c.strip()) for c in column))
        for cell, column in zip(first, columns, strict=False)
    )
    header = YES if names or "counts" in found.doubt or "years" in found.doubt else NO
    doubts.append(f"header = {header} is a guess, because the first line {found.doubt}.")
    return header
