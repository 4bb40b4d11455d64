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
from fastlloyd.records.cells import is_header, is_missing, is_number, is_plain
from fastlloyd.records.columns import NUMERIC, Columns, chosen, numbered, unit_place
from fastlloyd.records.files import is_pipe
from fastlloyd.records.ids import MISSING, TextIds
from fastlloyd.records.lines import Row, RowSplitter, chunks
from fastlloyd.records.reader import NOT_FINITE, NOT_THERE, Missing, Reader, wrong_cells
from fastlloyd.records.table import ColumnBlock, with_ids
from fastlloyd.records.text_cells import CellBlock, TextCells, cells_of

_ANSWERS = frozenset({"true", "false", "yes", "no", "t", "f", "y", "n"})
_COMMAS = re.compile(r"[-+]?[0-9][0-9. ]*(,[0-9]+)+")  # between digits: of decimals or of thousands

POINTS = (
    "; if cells are separated by semicolons, `tr , . <IN.csv >OUT.csv` turns decimal commas into"
    " points"
)
CHOOSE = "choose numeric columns with --columns"
EMPTY = "empty it if it stands for a missing value (--missing drop leaves out all such records)"
LOOKED_AT = 100  # records that tell what a column holds
# cells held as text at a time: Python's text takes many times the memory of the numbers
BLOCK_CELLS = 1 << 16

# of the chunk with the header, which Python's parser reads: few files need another
FIRST_BYTES = 1 << 16
CHUNK_BYTES, MOST_CHUNK_BYTES, CHUNK_ROWS = 1 << 20, 1 << 22, 1 << 9  # of the others
_CELL_BYTES = 8  # as a rule


class DelimitedFile(Reader):
    """Numeric columns of a CSV file in UTF-8, plain or compressed with gzip.

    Cells are separated by commas. If the first line has no comma, they are separated by semicolons
    or tabs. The first line is a header if no cell of it is a number. Otherwise the columns are
    called x1, x2, ... Blank lines are skipped, except between the records of a table of one column,
    where they are missing cells. Every row must have the cells of all columns, chosen or not. A
    cell is missing if it is empty, NA, NaN, null or ?. An id is the cell's text without the spaces
    before it.

    path : path or address of the file.
    columns : names of the chosen columns, None for all columns, or NUMERIC.
    missing : treatment of a record with a missing cell.
    unit : name of the column of the ids, or None.
    text_columns : names of the chosen columns that are read as text. `cells` yields them.

    Raises DataError if the file cannot be read or has no records, or if a row has too few or too
    many cells. Also raises DataError for a chosen cell that is no finite number, or is missing and
    not to be dropped, and for a missing id. The message names file, line and column, and shows no
    value.
    """

    n_rows = None

    def __init__(
        self,
        path: str,
        columns: Columns,
        missing: Missing,
        unit: str | None = None,
        text_columns: frozenset[str] = frozenset(),
    ) -> None:
        self._text_columns = text_columns
        self._path, self._missing, self._once = path, missing, is_pipe(path)
        # who has chosen, or has a plan that did, cannot choose others
        self._way_out = CHOOSE if columns is None else EMPTY
        self._chunk_bytes = CHUNK_BYTES
        source = self._chunks()
        kept, coming = tee(source)
        with ExitStack() as at_the_end:
            at_the_end.callback(source.close)  # not whenever what is refused is forgotten
            self._look_at(coming, columns, unit)
            # what a pipe has given away does not come again
            self._kept = (kept, source) if self._once else None
            if self._once:
                at_the_end.pop_all()

    def _look_at(self, coming: Iterator[bytes], columns: Columns, unit: str | None) -> None:
        """Set the columns, which the first lines determine. Raises DataError."""
        path = self._path
        names, where, parser, rows = self._begin(coming)
        head = list(
            islice(chain(rows, parser.every(coming)), 1 + LOOKED_AT if columns is NUMERIC else 1)
        )
        if (
            where == path
            and head
            and not self._text_columns
            and not any(is_number(cell) or is_missing(cell) for cell in head[0][1])
        ):
            # only because nothing in it is a number does the first line pass for names, which
            # messages may show
            raise DataError(
                f"{path}: no cell of the first two lines is a number; separate cells by commas,"
                " semicolons or tabs, write decimals with a point, and give at least one column of"
                f" numbers{POINTS}"
            )

        def is_number_in_head(column: int) -> bool:
            cells = [cells[column] for _, cells in head if len(cells) == len(names)]
            return all(is_missing(cell) or is_number(cell) for cell in cells)

        self._chosen = chosen(names, columns, where, "header", is_number_in_head, unit)
        if not head:
            raise DataError(f"{path}: the file has a header and no records")
        self.names = tuple(names)
        self.columns = tuple(names[i] for i in self._chosen)
        self._texts = [i for i in self._chosen if names[i] in self._text_columns]
        self._measured = [i for i in self._chosen if names[i] not in self._text_columns]
        self._unit = unit_place(names, unit, where)
        self.ids = None if unit is None else TextIds.kind
        self._delimiter = parser.delimiter
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
        """Yield the records from the beginning, column by column."""
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
            _, _, parser, rows = self._begin(coming)
            yield from self._of_rows(rows)
            for chunk, following, numbers in self._parsed(coming):
                if numbers is None:
                    yield from self._of_rows(parser.of(chain([chunk], following)))
                else:
                    parser.skip(chunk)
                    yield numbers

    def place(self, record: int) -> str:
        """Return the number of the record's line. It is not known for a pipe."""
        with closing(self._chunks()) as coming:
            _, _, parser, rows = self._begin(coming)
            return f"line {next(islice(chain(rows, parser.every(coming)), record - 1, None))[0]}"

    def _chunks(self) -> Generator[bytes]:
        return chunks(self._path, chain([FIRST_BYTES], repeat(self._chunk_bytes)))

    def _begin(self, coming: Iterator[bytes]) -> tuple[list[str], str, RowSplitter, Iterator[Row]]:
        """Return names of the columns, their place in messages, the parser, and the rows of the
        first chunk.
        """
        parser = RowSplitter(self._path)
        rows = parser.of(coming)
        first = next(rows, None)
        if first is None:
            raise DataError(f"{self._path}: the file is empty")
        names = [cell.strip() for cell in first[1]]
        if names[0].lower() == "sep=":  # the rest of it is the separator
            raise DataError(
                f"{self._path}: the first line is a note for Excel, not a header; delete it"
            )
        if is_header(names):
            return names, self._path, parser, rows
        return (
            numbered(len(names)),
            f"{self._path} (no header in its first line)",
            parser,
            chain([first], rows),
        )

    def _parsed(self, coming: Iterator[bytes]) -> Iterator[Parsed]:
        """Yield further chunks as `ArrowText.parsed` does, if Arrow is installed.

        Otherwise the numbers are None. In a table of one column Arrow is not used, because blank
        lines have a meaning there.
        """
        for chunk in (
            coming
        ):  # not before there is one: to load Arrow takes longer than to read a short file
            further = chain([chunk], coming)
            if len(self.names) > 1 and extras.optional("pyarrow.csv") is not None:
                yield from ArrowText(
                    self._delimiter,
                    len(self.names),
                    self._chosen,
                    self._missing,
                    self._unit,
                    self._texts,
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
                    TextCells.of(cells[i] for _, cells in block) if i in self._texts else next(left)
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
        ids = TextIds.of([cells[self._unit].encode() for _, cells in rows])
        if ids.missing().any():
            raise DataError(next(self._faults(rows)))
        return ids

    def _numbers(self, rows: Sequence[Row]) -> npt.NDArray[np.float64]:
        """Return the chosen cells of numbers, float64 (n, number of columns), with NaN for a
        missing cell.

        Raises DataError for the first fault. A missing cell costs as much time as one exception,
        and does not change the time of other cells. So the time of a pass does not show where
        values are missing.
        """
        width, taken = len(self.names), self._measured
        fitting = [cells for _, cells in rows if len(cells) == width]
        picked = map(itemgetter(*taken), fitting) if taken else ()
        cells = list(picked if len(taken) == 1 else chain.from_iterable(picked))
        if len(fitting) < len(rows) or not is_plain("".join(cells)):
            raise DataError(next(self._faults(rows)))
        values, left = array("d"), iter(cells)
        while len(values) < len(cells):
            with suppress(ValueError):
                values.extend(map(float, left))  # keeps what came before the cell that is no number
                break
            if self._missing is not Missing.DROP or not is_missing(cells[len(values)]):
                raise DataError(next(self._faults(rows)))
            values.append(math.nan)
        numbers = np.frombuffer(values)
        if wrong_cells(numbers, self._missing).any():
            raise DataError(next(self._faults(rows)))
        return numbers.reshape(len(rows), len(taken))

    def _faults(self, rows: Sequence[Row]) -> Iterator[str]:
        """Yield a sentence for each fault, with its place, after a check of all cells."""
        for line, cells in rows:
            if len(cells) != len(self.names):
                decimals = (
                    ", or a decimal comma (write 3.14, not 3,14)"
                    if len(cells) > len(self.names)
                    else ""
                )
                yield (
                    f"{self._path}, line {line}: the row has {len(cells)} cell(s) and the first row"
                    f" {len(self.names)}; look for a missing or stray separator{decimals}"
                )
                continue
            hint = "; line 1 is a header only if none of its cells is a number" if line == 1 else ""
            for column in self._measured:
                if fault := self._fault(cells[column]):
                    yield f"{self._path}, line {line}, column {self.names[column]!r}: {fault}{hint}"
            if self._unit is not None and is_missing(cells[self._unit]):
                yield f"{self._path}, line {line}, column {self.names[self._unit]!r}: {MISSING}"

    def _fault(self, cell: str) -> str:
        if is_missing(cell):
            return "" if self._missing is Missing.DROP else NOT_THERE
        if not is_number(cell):
            return f"not a number; {_remedy(cell, self._way_out)}"
        return "" if math.isfinite(float(cell)) else NOT_FINITE


def _remedy(cell: str, way_out: str) -> str:
    """Return advice for a cell that is not a number. It depends on the kind of text and does not
    show it.
    """
    if cell.strip().lower() in _ANSWERS:
        return f"write yes and no, or true and false, as 1 and 0, or {way_out}"
    if _COMMAS.fullmatch(cell.strip()):
        return (
            "the number contains a comma: write decimals with a point (3.14) and thousands without"
            f" a separator (1234){POINTS}"
        )
    return f"{way_out}, or correct the cell"
