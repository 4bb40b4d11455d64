"""Data frames, tables of Arrow and arrays as the features of a recipe.

The cells of a column become numbers, text or dates, which are then treated like those of a file. So
equal values have equal features.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fastlloyd.base.arrays import FloatArray, RealArray
from fastlloyd.base.names import refuse_repeated
from fastlloyd.errors import DataError
from fastlloyd.records.columns import place
from fastlloyd.records.frame_cells import own_cells
from fastlloyd.records.ids import TextIds
from fastlloyd.records.in_memory import FrameColumn, columns_of, frame_of, guarded, matrix
from fastlloyd.records.person_rows import records_of_persons
from fastlloyd.records.reader import Missing, Reader
from fastlloyd.records.recipe.rows import RecipeReader, Using
from fastlloyd.records.record_file import RecordFile
from fastlloyd.records.table import ColumnBlock, numbered
from fastlloyd.records.text_cells import CellBlock


class FrameRecords(NamedTuple):
    """Records of a table in memory.

    values : features of each record, float64 (n_records, n_features).
    of_rows : for each row of the table, the index of its record, from 0, int64 (n_rows,). It is -1
        if the record was dropped because of a missing cell.
    ids : id of the person of each record, or None.
    columns : names of the features.
    """

    values: FloatArray
    of_rows: npt.NDArray[np.int64]
    ids: list[bytes] | None
    columns: tuple[str, ...]

    def __repr__(self) -> str:
        """Return a text without any cell."""
        return "FrameRecords(...)"

    def place(self, record: int, /) -> str:
        """Return the position of a record's first row, for error messages.

        record : number of the record, from 1.
        """
        return numbered(int(np.argmax(self.of_rows == record - 1)) + 1)

    def by_row(self, values: npt.NDArray[Any], gone: Any) -> npt.NDArray[Any]:
        """Return the value of each row's record, (n_rows, ...).

        values : value of each record, (n_records, ...).
        gone : value for each row whose record was dropped.
        """
        found = np.full((len(self.of_rows), *values.shape[1:]), gone, dtype=values.dtype)
        there = self.of_rows >= 0
        found[there] = values[self.of_rows[there]]
        return found


def frame_records(
    X: Any, using: Using, ids: Sequence[bytes] | None = None, source: str = "X"
) -> FrameRecords:
    """Return the records of a data frame of pandas or Polars, a table of Arrow or an array.

    X : table with the columns that the features need, and perhaps others. An array of numbers has
        exactly these columns, in the order of the features.
    using : features, and where their columns are.
    ids : id of the person of each row, or None.
    source : name of the table, for error messages.

    Raises DataError if a column is missing, or if the recipe refuses a cell. The message names row
    and column, and shows no cell.
    """
    reader = RecipeReader(_Cells(X, using, ids, source), using, source)
    gaps = using.drops_records or using.is_per_person
    file = RecordFile(
        reader, source, Missing.DROP if gaps else Missing.REFUSE, unit=None if ids is None else "id"
    )
    columns = tuple(column.name for column in using.columns)
    if using.is_per_person:
        values, of_rows, ids = records_of_persons(file, using)
    else:
        values = np.concatenate(list(file.blocks_with_gaps()))
        of_rows = np.arange(len(values))
    kept = np.logical_not(np.isnan(values).any(axis=1))
    names = None
    if ids is not None:
        names = [name for name, keep in zip(ids, kept, strict=True) if keep]
    numbers = np.where(kept, np.cumsum(kept) - 1, -1)
    return FrameRecords(values[kept], numbers[of_rows], names, columns)


def cells_of_column(X: Any, name: str, source: str = "X") -> Any:
    """Return a column of a data frame, an object of its library. Raises DataError if there is no
    such column.
    """
    return guarded(lambda: _columns(X, (), source, name)[0].cells, source)


class _Cells(Reader):
    """Cells of the columns that a recipe needs, in one block."""

    n_ahead = 0

    def __init__(self, X: Any, using: Using, ids: Sequence[bytes] | None, source: str) -> None:
        self.names = self.columns = using.names
        self._cells = guarded(
            lambda: [
                own_cells(column, source)
                for column in _columns(X, using.names, source, *using.names)
            ],
            source,
        )
        self.n_rows = len(self._cells[0])
        self._ids = None if ids is None else TextIds.of(list(ids))
        self.ids = None if ids is None else TextIds.kind

    def blocks(self) -> Iterator[RealArray | ColumnBlock]:
        """Raise AssertionError, because `cells` reads the columns."""
        raise AssertionError("columns of a recipe are read by `cells`")

    def cells(self) -> Iterator[CellBlock]:
        """Yield all cells in one block, if there are any."""
        if self.n_rows:
            yield CellBlock(self._cells, self._ids)


def _columns(X: Any, of_array: Sequence[str], source: str, *names: str) -> list[FrameColumn]:
    """Return the columns of a table.

    of_array : names of the columns if the table is an array.
    """
    frame = frame_of(X)
    columns = _of_array(X, of_array, source) if frame is None else columns_of(frame)
    known = [str(each.name) for each in columns]
    refuse_repeated(known, source)
    return [columns[place(known, name, source)] for name in names]


def _of_array(X: Any, names: Sequence[str], source: str) -> list[FrameColumn]:
    values = matrix(X, source)
    if values.ndim != 2:
        raise DataError(
            f"{source} is an array of {values.ndim} dimensions. Reshape your data to (n_samples,"
            " n_features), or pass a data frame"
        )
    if values.shape[1] != len(names):
        raise DataError(  # in the words of scikit-learn
            f"{source} has {values.shape[1]} features, but Recipe is expecting"
            f" {len(names)} features as input. Columns without names must be in the order of the"
            " recipe; otherwise pass a data frame"
        )
    return [
        FrameColumn(name, values.dtype, column, partial(np.asarray, column))
        for name, column in zip(names, values.T, strict=True)
    ]
