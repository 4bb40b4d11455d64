"""Text files whose cells are separated by commas, semicolons or tabs."""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from itertools import chain, islice, repeat, tee
from operator import itemgetter

import numpy as np
import numpy.typing as npt

from fastlloyd.base import extras
from fastlloyd.base.arrays import RealArray
from fastlloyd.errors import DataError
from fastlloyd.records.arrow_csv import ArrowText, Parsed
from fastlloyd.records.cells import is_plain
from fastlloyd.records.columns import Columns, unit_place
from fastlloyd.records.files import is_pipe
from fastlloyd.records.ids import MISSING, TextIds
from fastlloyd.records.layout import Layout
from fastlloyd.records.lines import Row, RowSplitter, chunks
from fastlloyd.records.reader import NOT_FINITE, NOT_THERE, Missing, Reader, wrong_cells
from fastlloyd.records.table import ColumnBlock, with_ids
from fastlloyd.records.text_cells import CellBlock, TextCells, cells_of
from fastlloyd.records.trials import Trial, Wanted, begun, settled

_ANSWERS = frozenset({"true", "false", "yes", "no", "t", "f", "y", "n"})
_COMMAS = re.compile(r"[-+]?[0-9][0-9. ]*(,[0-9]+)+")  # between digits: of decimals or of thousands

POINTS = (
    "; if commas are decimal marks, cells must be separated by semicolons or tabs, and all numbers"
    " must use the decimal comma; state a mark of thousands with --thousands"
)
_HEADER_HINT = "; if the first line names the columns, pass --header yes"
CHOOSE = "choose numeric columns with --columns"
EMPTY = (
    "if the cell stands for a missing value, clear it or name its text with --missing-words (in a"
    " recipe: here.missing_words). Without a recipe, also pass --missing drop to leave out such"
    " records"
)
# cells held as text at a time: Python's text takes many times the memory of the numbers
BLOCK_CELLS = 1 << 16

# of the chunk with the header, which Python's parser reads: few files need another
FIRST_BYTES = 1 << 16
CHUNK_BYTES, MOST_CHUNK_BYTES, CHUNK_ROWS = 1 << 20, 1 << 22, 1 << 9  # size of the other chunks
_CELL_BYTES = 8  # as a rule


class DelimitedFile(Reader):
    """Numeric columns of a CSV file, plain or compressed with gzip.

    A file is read as its layout states. What is not stated must follow from all lines (`trials`),
    and it must be clear whether the first line is a header (`first_line`). Without a header, the
    columns are called x1, x2, ... Blank lines are skipped. In a table of one column, a blank line
    between records is a missing cell. Every row must have the cells of all columns, chosen or not.
    A cell is missing if it is empty, NA, NaN, null, ? or a stated word. An id is the cell's text
    without the spaces before it.

    path : path or address of the file.
    columns : names of the chosen columns, None for all columns, or NUMERIC.
    missing : treatment of a record with a missing cell.
    unit : name of the column of the ids, or None.
    text_columns : names of the chosen columns that are read as text. `cells` yields them.
    layout : statements about the format, or None if nothing is stated.

    Raises DataError if the file cannot be read or has no records, or if a row has too few or too
    many cells. Also raises DataError for a chosen cell that is not a finite number, or is missing
    and not to be dropped, and for a missing id. The message names file, line and column, and shows
    no value.
    """

    n_rows = None

    def __init__(
        self,
        path: str,
        columns: Columns,
        missing: Missing,
        unit: str | None = None,
        text_columns: frozenset[str] = frozenset(),
        layout: Layout | None = None,
    ) -> None:
        wanted = Wanted(
            columns=columns,
            unit=unit,
            text_columns=text_columns,
            layout=Layout() if layout is None else layout,
        )
        self._path, self._missing, self._once = path, missing, is_pipe(path)
        self._layout = wanted.layout
        # who has chosen, or has a plan that did, cannot choose others
        self._way_out = CHOOSE if columns is None else EMPTY
        self._chunk_bytes = CHUNK_BYTES
        source = self._chunks()
        with ExitStack() as at_the_end:
            at_the_end.callback(source.close)  # not whenever what is refused is forgotten
            kept, coming = tee(source) if self._once else (iter(()), source)
            self._set(settled(path, wanted, coming, once=self._once), unit)
            # what a pipe has given away does not come again
            self._kept = (kept, source) if self._once else None
            if self._once:
                at_the_end.pop_all()

    def _set(self, trial: Trial, unit: str | None) -> None:
        """Set the columns and the reading to those of a trial, the only one left. Raises DataError
        if there is no column of ids `unit`.
        """
        names = trial.first.names
        self._reading, self._is_header = trial.reading, trial.first.is_header
        self._notation = trial.reading.notation
        self.has_fixed_separator = (
            trial.reading.is_stated
            or bool(trial.reading.barred)
            or (trial.first.is_header and trial.is_alone)
        )
        self.names = tuple(names)
        self._chosen, self._measured = trial.chosen, trial.measured
        self.columns = tuple(names[i] for i in self._chosen)
        self._texts = [i for i in self._chosen if i not in set(self._measured)]
        where = self._path if self._is_header else f"{self._path} (no header in its first line)"
        self._unit = unit_place(names, unit, where)
        self.ids = None if unit is None else TextIds.kind
        self._chunk_bytes = min(
            max(CHUNK_BYTES, CHUNK_ROWS * len(names) * _CELL_BYTES), MOST_CHUNK_BYTES
        )

    def blocks(self) -> Iterator[RealArray | ColumnBlock]:
        """Yield the records from the beginning, float64 (n_i, n_features), with NaN for a missing
        cell.
        """
        for block in self._pass():
            if isinstance(block, CellBlock):
                raise AssertionError("columns of text are read by `cells`")  # noqa: TRY004
            yield block

    def cells(self) -> Iterator[CellBlock]:
        """Yield the records from the beginning as blocks of columns, which may be text."""
        yield from map(cells_of, self._pass())

    def _pass(self) -> Iterator[RealArray | ColumnBlock | CellBlock]:
        source = self._chunks()
        coming: Iterator[bytes] = source
        if self._once:
            if self._kept is None:
                raise DataError(
                    f"{self._path}: a pipe can be read only once; write its content to a file"
                )
            (coming, source), self._kept = self._kept, None
        with closing(source):
            coming, parser, rows = self._begin(coming)
            yield from self._of_rows(rows)
            for chunk, following, numbers in self._parsed(coming):
                if numbers is None:
                    yield from self._of_rows(parser.of(chain([chunk], following)))
                else:
                    parser.skip(chunk)
                    yield numbers

    def place(self, record: int) -> str:
        """Return the place of a record as text, such as "line 17". The file is read again to find
        it, so it must not be a pipe.
        """
        with closing(self._chunks()) as source:
            coming, parser, rows = self._begin(source)
            return f"line {next(islice(chain(rows, parser.every(coming)), record - 1, None))[0]}"

    def _chunks(self) -> Generator[bytes]:
        return chunks(
            self._path, chain([FIRST_BYTES], repeat(self._chunk_bytes)), self._layout.encoding
        )

    def _begin(self, source: Iterator[bytes]) -> tuple[Iterator[bytes], RowSplitter, Iterator[Row]]:
        """Return the chunks after the first one, the parser, and the records of the first chunk."""
        coming, parser = begun(self._path, self._reading, self._layout, source)
        rows = parser.of(coming)
        if self._is_header:
            next(rows, None)
        return coming, parser, rows

    def _parsed(self, coming: Iterator[bytes]) -> Iterator[Parsed]:
        """Yield the chunks in `coming` as `ArrowText.parsed` does, if Arrow is installed.

        Otherwise the numbers are None. In a table of one column Arrow is not used, because blank
        lines have a meaning there.
        """
        for chunk in (
            coming
        ):  # not before there is one: to load Arrow takes longer than to read a short file
            further = chain([chunk], coming)
            if (
                len(self.names) > 1
                and not self._notation.thousands
                and extras.optional("pyarrow.csv") is not None
            ):
                yield from ArrowText(
                    self._reading.separator,
                    len(self.names),
                    self._chosen,
                    self._missing,
                    self._unit,
                    self._texts,
                    self._notation,
                ).parsed(further)
            else:
                yield from ((chunk, coming, None) for chunk in further)

    def _of_rows(self, rows: Iterator[Row]) -> Iterator[RealArray | ColumnBlock | CellBlock]:
        n = max(1, BLOCK_CELLS // len(self.names))
        while block := list(islice(rows, n)):
            numbers, ids = self._numbers(block), self._ids(block)
            if not self._texts:
                yield with_ids(numbers, ids)
                continue
            left = iter(np.ascontiguousarray(numbers.T))
            yield CellBlock(
                [
                    TextCells.of((cells[i] for _, cells in block), self._notation.words)
                    if i in self._texts
                    else next(left)
                    for i in self._chosen
                ],
                ids,
            )

    def _ids(self, rows: Sequence[Row]) -> TextIds | None:
        """Return the ids of checked records, or None without ids. Raises DataError for a missing
        id.
        """
        if self._unit is None:
            return None
        texts = [cells[self._unit] for _, cells in rows]
        ids = TextIds.of([text.encode() for text in texts])
        if ids.missing().any() or (
            self._notation.words and any(map(self._notation.is_missing, texts))
        ):
            raise DataError(next(self._faults(rows)))
        return ids

    def _numbers(self, rows: Sequence[Row]) -> npt.NDArray[np.float64]:
        """Return the chosen cells of numbers, float64 (n, number of columns), with NaN for a
        missing cell.

        Raises DataError for the first fault. Each missing cell adds the same time, that of one
        exception. So the time of a pass does not show where values are missing.
        """
        width, taken = len(self.names), self._measured
        fitting = [cells for _, cells in rows if len(cells) == width]
        picked = map(itemgetter(*taken), fitting) if taken else ()
        cells = list(picked if len(taken) == 1 else chain.from_iterable(picked))
        numbers_in = self._notation.in_python(cells)
        text = "".join(numbers_in)
        if len(fitting) < len(rows) or not is_plain(text) or self._is_barred(fitting):
            raise DataError(next(self._faults(rows)))
        values, left = array("d"), iter(numbers_in)
        while len(values) < len(cells):
            with suppress(ValueError):
                values.extend(map(float, left))  # keeps what came before the cell that is no number
                break
            if self._missing is not Missing.DROP or not self._notation.is_missing(
                cells[len(values)]
            ):
                raise DataError(next(self._faults(rows)))
            values.append(math.nan)
        numbers = np.frombuffer(values)
        if wrong_cells(numbers, self._missing).any():
            raise DataError(next(self._faults(rows)))
        return numbers.reshape(len(rows), len(taken))

    def _is_barred(self, rows: Sequence[Sequence[str]]) -> bool:
        """Return whether, in a table of one column, a cell contains a character that could separate
        cells.
        """
        barred = self._reading.barred
        return bool(barred) and any(mark in cell for (cell, *_) in rows for mark in barred)

    def _faults(self, rows: Sequence[Row]) -> Iterator[str]:
        """Check all cells, and yield a sentence for each fault, with its line and column."""
        for line, cells in rows:
            if len(cells) == len(self.names) and self._is_barred([cells]):
                yield (
                    f"{self._path}, line {line}: the row could have several cells, and the first"
                    " row has one; look for a missing or stray separator, or pass --separator"
                )
            if len(cells) != len(self.names):
                decimals = (
                    ", or a decimal comma (write 3.14, not 3,14), or separate cells by semicolons"
                    if len(cells) > len(self.names)
                    else ""
                )
                yield (
                    f"{self._path}, line {line}: the row has {len(cells)} cell(s) and the first row"
                    f" {len(self.names)}; look for a missing or stray separator{decimals}"
                )
                continue
            hint = _HEADER_HINT if line == self._layout.skip_lines + 1 else ""
            for column in self._measured:
                if fault := self._fault(cells[column]):
                    yield f"{self._path}, line {line}, column {self.names[column]!r}: {fault}{hint}"
            if self._unit is not None and self._notation.is_missing(cells[self._unit]):
                yield f"{self._path}, line {line}, column {self.names[self._unit]!r}: {MISSING}"

    def _fault(self, cell: str) -> str:
        if self._notation.is_missing(cell):
            return "" if self._missing is Missing.DROP else NOT_THERE
        if not self._notation.is_number(cell):
            decimal = self._layout.decimal
            if decimal == "." and _COMMAS.fullmatch(cell.strip()):
                return (
                    'not a number; --decimal is stated as ".", but the cell has a comma: if commas'
                    ' are decimal marks, pass --decimal "," (in a recipe: here.decimal = ",")'
                )
            return f"not a number; {_remedy(cell, self._way_out)}"
        (number,) = self._notation.in_python([cell])
        return "" if math.isfinite(float(number)) else NOT_FINITE


def _remedy(cell: str, way_out: str) -> str:
    """Return advice for a cell that is not a number. It depends on the kind of text and does not
    show the text.

    way_out : words for another way in which the user may proceed.
    """
    if cell.strip().lower() in _ANSWERS:
        return f"write yes and no, or true and false, as 1 and 0, or {way_out}"
    if _COMMAS.fullmatch(cell.strip()):
        return (
            "the number contains a comma: write decimals with a point (3.14) and thousands without"
            f" a mark (1234){POINTS}"
        )
    return f"correct the cell, or {way_out}"
