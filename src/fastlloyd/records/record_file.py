"""Records in one or more files, which are read in blocks as often as needed, with the same
result.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Literal, overload

import numpy as np

from fastlloyd.base.arrays import RealArray
from fastlloyd.errors import DataError
from fastlloyd.records import files
from fastlloyd.records.files import FileState
from fastlloyd.records.ids import MISSING, SHORTENED, Ids
from fastlloyd.records.pieces import Piece
from fastlloyd.records.reader import Missing, Reader, complete
from fastlloyd.records.table import ColumnBlock, Table, ids_of, joined, numbered
from fastlloyd.records.text_cells import CellBlock

Block = RealArray | ColumnBlock


class _Array(Reader):
    """Array that is read in one block."""

    n_ahead = 0

    def __init__(self, values: RealArray, columns: Sequence[str]) -> None:
        self.names = self.columns = tuple(columns)
        self.n_rows, self._values = len(values), values

    def blocks(self) -> Iterator[RealArray]:
        if len(self._values):
            yield self._values


class RecordFile:
    """Chosen columns of records in files, which are not read yet.

    If the format has types, the columns are known to be numbers. Do not publish `n_rows` or
    `dropped`.

    columns : names of the chosen columns.
    others : names of the columns that were not chosen.
    source : file, folder or pattern, for error messages.
    pieces : pieces of the source, sorted by path, or () if the records come from no regular file.
    n_rows : number of records before any is dropped, or None if it is known only after reading.
    dropped : number of records that a complete pass left out because of a missing cell, or None
        before the first pass.
    n_ahead : number of blocks that another thread reads ahead.
    unit : name of the column of ids, or None without ids. If it is given, every block has the ids.
    has_fixed_separator : as in `Reader`, for all files together.

    reader : reader of the first piece.
    states : states of all files of the source before any was opened.
    """

    def __init__(
        self,
        reader: Reader,
        source: str,
        missing: Missing,
        pieces: Sequence[Piece] = (),
        states: Mapping[str, FileState | None] | None = None,
        unit: str | None = None,
    ) -> None:
        self.columns = reader.columns
        self.others = tuple(name for name in reader.names if name not in set(reader.columns))
        self.source = source
        self.unit = unit
        self.pieces = tuple(pieces)
        sizes = [piece.n_rows for piece in pieces] or [reader.n_rows]
        known = [size for size in sizes if size is not None]
        self.n_rows = sum(known) if len(known) == len(sizes) else None
        self.n_ahead = reader.n_ahead
        self.has_fixed_separator = all(each.has_fixed_separator for each in (pieces or (reader,)))
        self.dropped: int | None = None
        self._reader = reader
        self._states = states
        self._missing = missing
        self._rows_read = self.n_rows
        self._least = 1  # smallest number of records
        self._begins = [0]  # for each piece, how many records stand before it

    @classmethod
    def of_piece(cls, piece: Piece) -> RecordFile:
        """Return the records of one piece alone, on any machine. The piece may have no records.
        Raises DataError if it cannot be read.
        """
        file = cls(
            piece.open(), piece.path, piece.missing, [piece], {piece.path: piece.state}, piece.unit
        )
        file._least = 0
        return file

    @classmethod
    def of_array(cls, values: RealArray, columns: Sequence[str], source: str) -> RecordFile:
        """Return records in memory, float32 or float64 (n, number of columns). The array may have
        no records.
        """
        file = cls(_Array(values, columns), source, Missing.REFUSE)
        file._least = 0
        return file

    def __repr__(self) -> str:
        """Return a text with names, and without the number of records."""
        return f"RecordFile(columns={self.columns!r}, source={self.source!r})"

    def blocks(self) -> Iterator[RealArray]:
        """Yield the blocks of `column_blocks` as arrays, all of one dtype."""
        return map(np.asarray, self.column_blocks())

    def table(self) -> Table:
        """Return all records at once. Raises the errors of `column_blocks`."""
        ids = list[Ids]()
        values = joined(_noting(self.column_blocks(), ids), len(self.columns))
        return Table(
            values=values,
            columns=self.columns,
            source=self.source,
            dropped=self.dropped or 0,
            others=self.others,
            place=self.place,
            ids=type(ids[0]).joined(ids) if ids else None,
        )

    def column_blocks(self) -> Iterator[RealArray | ColumnBlock]:
        """Yield the records from the beginning, in finite float32 or float64 blocks (n_i,
        n_features).

        Blocks have at least one record, about `BLOCK_CELLS` cells, and any memory order. If the
        format stores columns, blocks do so too.

        Raises DataError for a cell that is not a number, is infinite, or is missing and not to be
        dropped. The message names record (line of a text file) and column, and shows no value. Also
        raises DataError if no record is left. The same error is raised if the file has changed
        since it was opened, or since an earlier pass.
        """
        kept = 0
        for first, block in self._pass():
            records = complete(block, self.columns, self._missing, self._where, first)
            kept += len(records)
            if len(records):
                yield records
        if kept < self._least:
            raise DataError(f"{self.source}: every record has a missing cell")
        self.dropped = (self._rows_read or 0) - kept

    def cell_blocks(self) -> Iterator[CellBlock]:
        """Yield the records from the beginning as blocks of columns, which may be text.

        Missing cells are NaN in numbers, and the code -1 in texts. Unlike `column_blocks`, this
        method also yields the records that are to be dropped because of a missing cell. Raises the
        errors of `column_blocks`. If missing cells are refused, a missing text raises an error too.
        """
        for first, block in self._pass(cells=True):
            for name, cells in zip(self.columns, block.cells, strict=True):
                gaps = cells if isinstance(cells, np.ndarray) else cells.gaps
                complete(gaps[:, np.newaxis], [name], self._missing, self._where, first)
            yield block

    def blocks_to_check(self) -> Iterator[tuple[int, RealArray | ColumnBlock]]:
        """Yield the blocks of `column_blocks`, each with the number of its first record, counted
        without dropped records.

        A block may contain cells that `column_blocks` refuses. So the caller looks at every cell,
        and passes a block with a cell that is not finite to `check`.
        """
        if self._missing is Missing.REFUSE:
            yield from self._pass()
            self.dropped = 0
            return
        first = 1
        for block in self.column_blocks():
            yield first, block
            first += len(block)

    def check(self, block: RealArray | ColumnBlock, first: int) -> None:
        """Raise the errors that `column_blocks` would raise for this block.

        first : number of the block's first record.
        """
        complete(block, self.columns, self._missing, self._where, first)

    def blocks_with_gaps(self) -> Iterator[RealArray]:
        """Yield blocks as `blocks` does, but keep records with missing cells, which are NaN."""
        return map(np.asarray, self.column_blocks_with_gaps())

    def column_blocks_with_gaps(self) -> Iterator[RealArray | ColumnBlock]:
        """Yield blocks as `column_blocks` does, but keep records with missing cells, which are NaN.
        Refuses the same cells as `column_blocks`.
        """
        for first, block in self._pass():
            # refuses what `blocks` does
            complete(block, self.columns, self._missing, self._where, first)
            yield block

    def place(self, record: int) -> str:
        """Return the place of a record in the source, for error messages.

        It is the line or the number of the record, and the file if there are several. The files are
        read again to find it. For a pipe, only the number among the kept records is known.

        record : number of the record from 1, without dropped records. A pass must have reached it.
        """
        self.check_unchanged()
        if self._states is None:
            return numbered(record) + (
                " of the records that were not dropped" if self.dropped else ""
            )
        index, row = self._stands(record if self._missing is Missing.REFUSE else self._row(record))
        place = (self.pieces[index].open() if index else self._reader).place(row)
        return place if self._path(index) == self.source else f"{self._path(index)}, {place}"

    def _row(self, record: int) -> int:
        """Return the position in the source of a record that was kept. Dropped records are counted
        too.

        record : number of the record, counted without dropped records.
        """
        for first, block in self._pass():
            kept = np.flatnonzero(~np.isnan(np.asarray(block)).any(axis=1))
            if record <= len(kept):
                return first + int(kept[record - 1])
            record -= len(kept)
        raise AssertionError("a record that was kept is not in the source")

    def _stands(self, row: int) -> tuple[int, int]:
        """Return the index of the piece that contains a record, and the record's position in the
        piece.

        row : position of the record in the last pass.
        """
        index = bisect_right(self._begins, row - 1) - 1
        return index, row - self._begins[index] + (self.pieces[index].before if self.pieces else 0)

    def _where(self, row: int) -> str:
        index, row = self._stands(row)
        return f"{self._path(index)}, {numbered(row)}"

    def _path(self, index: int) -> str:
        return self.pieces[index].path if self.pieces else self.source

    @overload
    def _pass(self) -> Iterator[tuple[int, RealArray | ColumnBlock]]: ...
    @overload
    def _pass(self, *, cells: Literal[True]) -> Iterator[tuple[int, CellBlock]]: ...

    def _pass(self, *, cells: bool = False) -> Iterator[tuple[int, Any]]:
        """Yield, for each block of one pass, the number of its first record and the block.

        cells : whether to yield the blocks of `Reader.cells` instead of those of `Reader.blocks`.
        """
        self.check_unchanged()
        n, begins = 0, list[int]()
        self._begins = begins  # where each piece begins in this pass
        for reader in chain([self._reader], map(Piece.open, self.pieces[1:])):
            begins.append(n)
            for block in reader.cells() if cells else reader.blocks():
                self._check_ids(getattr(block, "ids", None), n + 1)
                yield n + 1, block
                n += len(block)
        self.check_unchanged(n)
        self._rows_read = n
        if n < self._least:
            raise DataError(f"{self.source}: there are no records")

    def _check_ids(self, ids: Ids | None, first: int) -> None:
        """Raise DataError if an id is missing or shortened.

        A record without an id is refused even if records with other missing cells are dropped.
        """
        if ids is None:
            return
        if (missing := ids.missing()).any():
            raise DataError(
                f"{self._where(first + int(missing.argmax()))}, column {self.unit!r}: {MISSING}"
            )
        if len(shortened := ids.shortened()):
            raise DataError(
                f"{self._where(first + int(shortened[0]))}, column {self.unit!r}: {SHORTENED}"
            )

    def check_unchanged(self, n_rows: int | None = None) -> None:
        """Raise DataError if a file, or the number of records, differs from an earlier pass.

        n_rows : number of records of this pass, or None if it is not known.
        """
        found = None if self._states is None else files.find(self.source)
        if found != self._states or (
            self._rows_read is not None and n_rows not in (None, self._rows_read)
        ):
            changed = {path for path, _ in (found or {}).items() ^ (self._states or {}).items()}
            raise DataError(
                f"{min(changed, default=self.source)}: the file was changed while it was in use,"
                " and every pass must see the same records; copy it to a folder where no program"
                " changes it, and start again"
            )


def _noting(
    blocks: Iterator[RealArray | ColumnBlock], ids: list[Ids]
) -> Iterator[RealArray | ColumnBlock]:
    """Yield the blocks. Add their ids, if they have any, to the list `ids`."""
    for block in blocks:
        if (found := ids_of(block)) is not None:
            ids.append(found)
        yield block


class SeenRecords:
    """Wrapper of records that shows each block of the next pass to a callback.

    see : callback, which receives the blocks in original units, or None.
    """

    def __init__(
        self, records: Table | RecordFile, see: Callable[[Block], None] | None = None
    ) -> None:
        self._records, self.see = records, see
        self.n_rows, self.n_ahead, self.check, self.place = (
            records.n_rows,
            records.n_ahead,
            records.check,
            records.place,
        )

    def blocks_to_check(self) -> Iterator[tuple[int, Block]]:
        """Yield the blocks of the records' own `blocks_to_check`, each with the number of its first
        record.

        The first iteration also passes each block to `see`.
        """
        see, self.see = self.see, None
        for first, block in self._records.blocks_to_check():
            if see is not None:
                see(block)
            yield first, block
