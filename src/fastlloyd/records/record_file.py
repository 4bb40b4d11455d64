"""A file of records that is read as often as needed, in blocks, always with the same outcome.

Readers put NaN where a cell is missing. Infinity is a value, and a wrong one: it is refused always.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fastlloyd.base.arrays import RealArray
from fastlloyd.errors import DataError
from fastlloyd.records import files
from fastlloyd.records.files import FileState
from fastlloyd.records.table import ColumnBlock, Table, joined, numbered

WORDS = frozenset({"", "na", "nan", "null", "?"})  # in text files, in any case and with spaces around
FEW = 32  # features that are looked at one by one, though they do not lie so in memory
DROP_HINT = " (--missing drop leaves out all such records)"
NOT_THERE = "the cell is missing; fill it in or take the record out" + DROP_HINT
NOT_FINITE = "not a finite number; correct the cell or take the record out"
BLOCK_CELLS = 1 << 21  # of a block: 8 MiB of float32, large enough that what a block costs beside its cells is nothing


class Missing(enum.Enum):
    """What becomes of a record with a missing cell. Either is decided for each record by that record alone."""

    REFUSE = "refuse"  # the file is refused, and where the cell is missing is said
    DROP = "drop"  # the record is left out, and counted


def complete(
    block: RealArray | ColumnBlock, columns: Sequence[str], missing: Missing, source: str, first: int
) -> RealArray | ColumnBlock:
    """The records of a block (n, n_features) in which no cell is missing (NaN); memory order is kept.

    `first` is the number of the block's first record. Raises DataError for the first record with an infinite cell, or with a
    missing one unless these are dropped.
    """
    arrays = block.arrays if isinstance(block, ColumnBlock) else (block,)
    if np.any([wrong_cells(array, missing).any() for array in arrays]):
        values = np.asarray(block)
        wrong = wrong_cells(values, missing)
        record = int(wrong.any(axis=1).argmax())
        column = int(wrong[record].argmax())
        fault = NOT_THERE if np.isnan(values[record, column]) else NOT_FINITE
        raise DataError(f"{source}, record {first + record}, column {columns[column]!r}: {fault}")
    if missing is Missing.REFUSE:
        return block
    # all records are copied, whether one is left out or none is: those that stay take the same path
    if isinstance(block, ColumnBlock):
        whole = ~_any_missing(block.arrays)
        return ColumnBlock([array[whole] for array in block.arrays])
    by_feature = block.flags.f_contiguous or block.shape[1] <= FEW
    kept = ~_any_missing(block.T) if by_feature else ~np.isnan(block).any(axis=1)
    if block.flags.f_contiguous:
        return np.array([column[kept] for column in block.T]).T
    return np.compress(kept, block, axis=0)


def wrong_cells(values: RealArray, missing: Missing) -> npt.NDArray[np.bool_]:
    """Which cells are refused: infinite ones, and missing ones unless these are dropped."""
    return np.isinf(values) if missing is Missing.DROP else ~np.isfinite(values)


def _any_missing(features: Iterable[RealArray]) -> npt.NDArray[np.bool_]:
    """Which records have NaN in one of the features, each (n,)."""
    gaps: npt.NDArray[np.bool_] = np.isnan(next(iter(features)))
    for values in features:
        gaps |= np.isnan(values)
    return gaps


class Reader(ABC):
    """What a format has to offer.

    names : of all columns. columns : of the chosen ones. n_rows : number of records, None where only reading tells. n_ahead :
    how many blocks are worth their memory before they are asked for.
    """

    names: tuple[str, ...]
    columns: tuple[str, ...]
    n_rows: int | None
    n_ahead = 1

    @abstractmethod
    def blocks(self) -> Iterator[RealArray | ColumnBlock]:
        """Read the file from its beginning: float32 or float64 (n_i, n_features), NaN where a cell is missing."""

    def place(self, record: int) -> str:
        """Where the record of a number, counted from 1, stands in the file, for messages."""
        return numbered(record)


class RecordFile:
    """Records in a file: chosen columns, known to be numbers where the format says so, and not yet read.

    columns : names of the chosen columns; others : those of the file that were not chosen; source : the file, for messages;
    n_rows : number of records before any is dropped, None where only reading tells; dropped : how many records a complete
    pass left out because a cell was missing, None before the first (a private number, as n_rows is); n_ahead : how many blocks
    another thread reads before they are asked for.

    `state` is that of the file before it was opened, None where the records do not come from a regular file.
    """

    def __init__(self, reader: Reader, source: str, state: FileState | None, missing: Missing) -> None:
        self.columns = reader.columns
        self.others = tuple(name for name in reader.names if name not in set(reader.columns))
        self.source = source
        self.n_rows = reader.n_rows
        self.n_ahead = reader.n_ahead
        self.dropped: int | None = None
        self._reader = reader
        self._state = state
        self._missing = missing
        self._rows_read = reader.n_rows

    def __repr__(self) -> str:
        """Show names, and no number of records."""
        return f"RecordFile(columns={self.columns!r}, source={self.source!r})"

    def blocks(self) -> Iterator[RealArray]:
        """Give `column_blocks` as arrays, all of one dtype."""
        return map(np.asarray, self.column_blocks())

    def table(self) -> Table:
        """Read all records at once."""
        values = joined(self.column_blocks(), len(self.columns))
        return Table(
            values=values,
            columns=self.columns,
            source=self.source,
            dropped=self.dropped or 0,
            others=self.others,
            place=self.place,
        )

    def column_blocks(self) -> Iterator[RealArray | ColumnBlock]:
        """Read the file from its beginning: finite float32 or float64 blocks (n_i, n_features), n_i >= 1.

        Blocks have about `BLOCK_CELLS` cells and any memory order (by columns where the format is). Raises DataError, naming
        record (in text files line) and column but never a value, if a cell is not a number, infinite, or missing and not to be
        dropped; if no record is left; and if the file is not what it was when it was opened, or in an earlier pass.
        """
        kept = 0
        for first, block in self._pass():
            records = complete(block, self.columns, self._missing, self.source, first)
            kept += len(records)
            if len(records):
                yield records
        if not kept:
            raise DataError(f"{self.source}: every record has a missing cell")
        self.dropped = (self._rows_read or 0) - kept

    def blocks_to_check(self) -> Iterator[tuple[int, RealArray | ColumnBlock]]:
        """As `column_blocks`, each with the number of its first record among those kept, for callers that look at every cell.

        What `column_blocks` refuses may still be in a block: hand a block with a cell that is not finite to `check`.
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
        """Raise what `column_blocks` raises for such a block."""
        complete(block, self.columns, self._missing, self.source, first)

    def blocks_with_gaps(self) -> Iterator[RealArray]:
        """Like `blocks`, but records with missing cells are not dropped: NaN stands for such a cell."""
        for first, block in self._pass():
            complete(block, self.columns, self._missing, self.source, first)  # refuses what `blocks` does
            yield np.asarray(block)

    def place(self, record: int) -> str:
        """Where a record stands in the file: its line, or its number. `record` counts from 1, without the dropped ones.

        The file is read again for it, as for every pass; of what came through a pipe only the number among those kept is known.
        """
        self._check_unchanged()
        if self._state is None:
            return numbered(record) + (" of those that were not dropped" if self.dropped else "")
        row = record if self._missing is Missing.REFUSE else self._row(record)
        return self._reader.place(row)

    def _row(self, record: int) -> int:
        """The number in the file of a record that was kept."""
        for first, block in self._pass():
            kept = np.flatnonzero(~np.isnan(np.asarray(block)).any(axis=1))
            if record <= len(kept):
                return first + int(kept[record - 1])
            record -= len(kept)
        raise AssertionError("a record that was kept stands in the file")

    def _pass(self) -> Iterator[tuple[int, RealArray | ColumnBlock]]:
        """All blocks of a pass, each with the number of its first record."""
        self._check_unchanged()
        n = 0
        for block in self._reader.blocks():
            yield n + 1, block
            n += len(block)
        self._check_unchanged(n)
        self._rows_read = n
        if not n:
            raise DataError(f"{self.source}: there are no records")

    def _check_unchanged(self, n_rows: int | None = None) -> None:
        """Raise DataError if the file is another one than before, or has another number of records than an earlier pass."""
        is_same_file = self._state is None or files.state(Path(self.source)) == self._state
        if not is_same_file or (self._rows_read is not None and n_rows not in (None, self._rows_read)):
            raise DataError(
                f"{self.source}: the file was changed while it was in use, and every pass must see the same records; copy it "
                "to where nobody writes, and start again"
            )
