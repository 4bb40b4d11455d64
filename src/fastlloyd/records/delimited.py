"""Text files: cells between commas, semicolons or tabs."""

from __future__ import annotations

import csv
import math
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fastlloyd.base.arrays import RealArray
from fastlloyd.errors import DataError
from fastlloyd.records.columns import NUMERIC, Columns, chosen, numbered
from fastlloyd.records.files import opened
from fastlloyd.records.record_file import NOT_FINITE, NOT_THERE, WORDS, Missing, Reader, wrong_cells

_ANSWERS = frozenset({"true", "false", "yes", "no", "t", "f", "y", "n"})
_COMMAS = re.compile(r"[-+]?[0-9][0-9. ]*(,[0-9]+)+")  # between digits: of decimals or of thousands

POINTS = "; where cells are separated by semicolons, `tr , . <IN.csv >OUT.csv` turns decimal commas into points"
CHOOSE = "choose numeric columns with --columns"
EMPTY = "empty it if it stands for a missing value (--missing drop leaves out all such records)"
LOOKED_AT = 100  # records that tell what a column holds
BLOCK_CELLS = 1 << 16  # cells held as text at a time: Python's text takes many times the memory of the numbers

HEADER_LENGTH = 1 << 14  # characters of a header that spans lines, looked at for the delimiter

_QUOTED = re.compile(r'(?:^|(?<=[,;\t\r\n])) *"[^"]*(?:""[^"]*)*(?:"|(?P<open>\Z))')  # a cell between quotation marks
_LINE_END = re.compile(r"\r\n|\r|\n")
_OPEN = (
    "the row does not end in its line, because a quotation mark stays open; take the mark out or close it, or, if a column of "
    "text has line breaks, export without that column, or as Parquet"
)

_Row = tuple[int, list[str]]  # line number, cells


class DelimitedFile(Reader):
    """Numeric columns of a CSV file in UTF-8, plain or compressed with gzip, with or without a header.

    Cells are separated by commas, or by semicolons or tabs if the first line has these and no comma. The first line is
    a header if no cell of it is a number; otherwise the columns are called x1, x2, ... Blank lines are passed over,
    except between the records of a table of one column, where they are missing cells. Every row must have the cells of all
    columns, chosen or not. A cell is missing if it is empty, NA, NaN, null or ?.

    Raises DataError, naming file, line and column but never a value, if the file cannot be read or holds no records,
    if a row has too few or too many cells, or if a chosen cell is not a number or not finite, or missing and not to be dropped.
    """

    n_rows = None

    def __init__(self, path: Path, columns: Columns, missing: Missing) -> None:
        self._path, self._columns, self._missing, self._once = path, columns, missing, not path.is_file()
        self._way_out = CHOOSE if columns is None else EMPTY  # who has chosen, or has a plan that did, cannot choose others
        names, where, head, rows = self._begin()

        def is_number(column: int) -> bool:
            cells = [cells[column] for _, cells in head if len(cells) == len(names)]
            return all(_is_missing(cell) or _is_number(cell) for cell in cells)

        self._chosen = chosen(names, columns, where, "header", is_number)
        if not head:
            raise DataError(f"{path}: the file has a header and no records")
        self.names = tuple(names)
        self.columns = tuple(names[i] for i in self._chosen)
        # what a pipe has given away does not come again
        self._rows: Iterator[_Row] | None = chain(head, rows) if self._once else None

    def blocks(self) -> Iterator[RealArray]:
        """Read the file from its beginning: float64 (n_i, n_features), NaN where a cell is missing."""
        rows, self._rows = self._rows, None
        if rows is None:
            if self._once:
                raise DataError(f"{self._path}: what comes through a pipe can be read only once; write it to a file")
            rows = self._all_rows()
        n = max(1, BLOCK_CELLS // len(self.names))
        while block := list(islice(rows, n)):
            yield self._numbers(block)

    def place(self, record: int) -> str:
        """Give the number of its line; not for what comes through a pipe."""
        return f"line {next(islice(self._all_rows(), record - 1, None))[0]}"

    def _all_rows(self) -> Iterator[_Row]:
        _, _, head, rows = self._begin()
        return chain(head, rows)

    def _begin(self) -> tuple[list[str], str, list[_Row], Iterator[_Row]]:
        """Names of the columns and where they stand, the first rows, which tell what columns hold, and the further rows."""
        source = str(self._path)
        rows = _rows(self._path)
        first = next(rows, None)
        if first is None:
            raise DataError(f"{source}: the file is empty")
        names = [cell.strip() for cell in first[1]]
        if names[0].lower() == "sep=":  # the rest of it is the separator
            raise DataError(f"{source}: the first line is a note for Excel, not a header; delete it")
        if _is_header(names):
            where, head = source, list(islice(rows, 1))
            if head and not any(_is_number(cell) or _is_missing(cell) for cell in head[0][1]):
                # only because nothing in it is a number does the first line pass for names, which messages may show
                raise DataError(
                    f"{source}: no cell of the first two lines is a number; separate cells by commas, semicolons or tabs, "
                    f"write decimals with a point, and give at least one column of numbers{POINTS}"
                )
        else:
            where, head = f"{source} (no header in its first line)", [first]
            names = numbered(len(names))
        if self._columns is NUMERIC:
            head += islice(rows, LOOKED_AT)
        return names, where, head, rows

    def _numbers(self, rows: Sequence[_Row]) -> npt.NDArray[np.float64]:
        """Return the chosen cells, float64 (n, n_chosen), NaN where one is missing. Raises DataError for the first fault.

        A missing cell costs what one exception costs, and changes nothing for the cells around it: who watches the time of a
        pass does not see where values are missing.
        """
        width, several = len(self.names), len(self._chosen) > 1
        picked = map(itemgetter(*self._chosen), [cells for _, cells in rows if len(cells) == width])
        cells = list(chain.from_iterable(picked) if several else picked)
        if len(cells) < len(rows) * len(self._chosen) or not _is_plain("".join(cells)):
            raise DataError(next(self._faults(rows)))
        values, left = array("d"), iter(cells)
        while len(values) < len(cells):
            with suppress(ValueError):
                values.extend(map(float, left))  # keeps what came before the cell that is no number
                break
            if self._missing is not Missing.DROP or not _is_missing(cells[len(values)]):
                raise DataError(next(self._faults(rows)))
            values.append(math.nan)
        numbers = np.frombuffer(values)
        if wrong_cells(numbers, self._missing).any():
            raise DataError(next(self._faults(rows)))
        return numbers.reshape(len(rows), len(self._chosen))

    def _faults(self, rows: Sequence[_Row]) -> Iterator[str]:
        """Look at all cells again: where something is wrong, and what."""
        for line, cells in rows:
            if len(cells) != len(self.names):
                decimals = ", or a decimal comma (write 3.14, not 3,14)" if len(cells) > len(self.names) else ""
                yield (
                    f"{self._path}, line {line}: the row has {len(cells)} cell(s) and the first row "
                    f"{len(self.names)}; look for a missing or stray separator{decimals}"
                )
                continue
            hint = "; line 1 is a header only if none of its cells is a number" if line == 1 else ""
            for column in self._chosen:
                if fault := self._fault(cells[column]):
                    yield f"{self._path}, line {line}, column {self.names[column]!r}: {fault}{hint}"

    def _fault(self, cell: str) -> str:
        if _is_missing(cell):
            return "" if self._missing is Missing.DROP else NOT_THERE
        if not _is_number(cell):
            return f"not a number; {_remedy(cell, self._way_out)}"
        return "" if math.isfinite(float(cell)) else NOT_FINITE


def _rows(path: Path) -> Iterator[_Row]:
    """Split a text file into rows of cells, each with its line, without the blank lines. Raises DataError.

    A record is one line: where a quotation mark stays open, a reader of CSV takes the records that follow for text of that
    cell, up to the next quotation mark, and nobody would notice. Only a header may go on in further lines.
    """
    with opened(path) as text:
        start = _first_row(text)
        unquoted = _QUOTED.sub("", "".join(start))
        delimiter = next((character for character in ",;\t" if character in unquoted), ",")
        reader = csv.reader(chain(start, text), delimiter=delimiter, skipinitialspace=True, strict=True)
        width = blank = last = 0
        try:
            for cells in reader:
                line, last = last + 1, reader.line_num
                if not cells:
                    blank = line
                    continue
                if last > line and (width or not _is_long_header(cells, delimiter)):
                    raise DataError(f"{path}, line {line}: {_OPEN}")
                if blank and width == 1:
                    yield blank, [""]  # in a table of one column a blank line between records is a missing cell
                yield line, cells
                width, blank = width or len(cells), 0
        except csv.Error:
            fault = _OPEN if reader.line_num > last + 1 else "a quotation mark has no partner, or a cell is far too long"
            raise DataError(f"{path}, line {last + 1}: {fault}") from None


def _first_row(text: Iterable[str]) -> list[str]:
    """The lines up to the end of the first row that is not blank, which tells the delimiter; of a long one the first lines."""
    lines: list[str] = []
    row = ""
    for line in text:
        lines.append(line)
        row += line if row or line.strip() else ""
        is_open = any(cell["open"] is not None for cell in _QUOTED.finditer(row))
        if (row and not is_open) or len(row) > HEADER_LENGTH:
            break
    return lines


def _is_long_header(cells: Sequence[str], delimiter: str) -> bool:
    """Whether a first row that spans lines is a header, and none of its lines a record that a quotation mark swallowed.

    A record that was swallowed brings its delimiters along, or, in a table of one column, a number or a missing cell.
    """
    if not _is_header(cells):
        return False
    long = [cell for cell in cells if _LINE_END.search(cell)]
    if len(cells) > 1:
        return not any(delimiter in cell for cell in long)
    further = [line for cell in long for line in _LINE_END.split(cell)[1:]]
    return not any(_is_number(line) or _is_missing(line) or set(line) & set(",;\t") for line in further)


def _remedy(cell: str, way_out: str) -> str:
    """What to do about a cell that is no number, by its kind and without showing it."""
    if cell.strip().lower() in _ANSWERS:
        return f"write yes and no, or true and false, as 1 and 0, or {way_out}"
    if _COMMAS.fullmatch(cell.strip()):
        return f"a comma stands in it: write decimals with a point (3.14) and thousands without a separator (1234){POINTS}"
    return f"{way_out}, or correct the cell"


def _is_header(cells: Sequence[str]) -> bool:
    return not any(_is_number(cell) or (cell and _is_missing(cell)) for cell in cells) and any(cells)


def _is_missing(cell: str) -> bool:
    return cell.isascii() and cell.strip().lower() in WORDS


def _is_number(cell: str) -> bool:
    with suppress(ValueError):
        return bool(list(floats([cell])))
    return False


def floats(cells: Sequence[str]) -> Iterator[float]:
    """Convert decimal text; ValueError also for what only Python reads as a number: 1_000 and other scripts' digits."""
    if not _is_plain("".join(cells)):
        raise ValueError
    return map(float, cells)


def _is_plain(text: str) -> bool:
    """Whether the text has nothing, such as 1_000, that only Python reads as a number."""
    return "_" not in text and text.isascii()
