"""Data frames of pandas and Polars, and tables of Arrow, as records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fastlloyd.errors import DataError
from fastlloyd.records.arrow import index_names, no_numbers
from fastlloyd.records.arrow_ids import check_ids, ids_in
from fastlloyd.records.arrow_numbers import load
from fastlloyd.records.columns import chosen, unit_place
from fastlloyd.records.declared import content
from fastlloyd.records.ids import BROKEN, Ids
from fastlloyd.records.in_memory import FrameColumn, columns_of, frame_of, guarded
from fastlloyd.records.reader import Missing, Reader
from fastlloyd.records.record_file import RecordFile
from fastlloyd.records.table import ColumnBlock, Table


def table_from_frame(
    frame: Any,
    columns: Sequence[str] | None = None,
    *,
    missing: Missing = Missing.REFUSE,
    unit: str | None = None,
) -> Table:
    """Return the records of a data frame.

    The frame is a pandas or Polars DataFrame, or an object with Arrow's C stream or array
    interface. The index of a pandas frame is not a column. Columns may be integers of any width,
    floats, booleans or decimals, nullable or not, or objects that are all such numbers. None, NaN,
    NA and null are missing cells. Names that are not text are converted by `str`.

    columns : names of the chosen columns, in their order, or None for all.
    missing : treatment of records with a missing cell.
    unit : name of the column of the ids, text or integers, which is not a feature. Ids need
        pyarrow.

    Raises DataError as `read_table` does. The message names record and column, and shows no value.
    """
    source = f"{type(frame).__module__.partition('.')[0]} {type(frame).__name__}"
    found = guarded(lambda: frame_of(frame), source)
    if found is None:
        raise DataError(
            f"{source}: expected a pandas or Polars DataFrame or an Arrow table (collect a"
            " LazyFrame first, by .collect()); NumPy arrays go straight to the estimators"
        )
    index = index_names(getattr(found, "schema", None))
    records = guarded(lambda: _Frame(columns_of(found), columns, unit, source, index), source)
    return RecordFile(records, source, missing, unit=unit).table()


class _Frame(Reader):
    """Chosen columns of a data frame, in one block.

    Raises DataError for a column that is not numbers.
    """

    n_ahead = 0

    def __init__(
        self,
        every: list[FrameColumn],
        columns: Sequence[str] | None,
        unit: str | None,
        source: str,
        index: frozenset[str],
    ) -> None:
        self.names = tuple(str(each.name) for each in every)
        self._every = dict(zip(self.names, every, strict=True))
        indices = chosen(self.names, columns, source, "header", unit=unit, index=index)
        self.columns = tuple(self.names[i] for i in indices)
        self._arrays = [
            self._numbers(name, source, choice=columns is None) for name in self.columns
        ]
        self.n_rows = len(self._arrays[0])
        at = unit_place(self.names, unit, source)
        self._ids = None if at is None else self._of_persons(self.names[at], source)

    def _numbers(self, name: str, source: str, *, choice: bool) -> Any:
        values, said = self._every[name].numbers()
        if values is None:
            kinds = {other: content(each.declared) for other, each in self._every.items()}
            numeric = [other for other, kind in kinds.items() if kind.is_numbers]
            raise no_numbers(source, name, said, numeric, choice=choice)
        wide = values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)
        return np.ascontiguousarray(wide)

    def _of_persons(self, name: str, source: str) -> Ids:
        pa = load("pyarrow", source)
        cells = self._every[name].cells
        fault = ""
        try:
            array = pa.array(cells, from_pandas=True) if hasattr(cells, "iloc") else cells
        except UnicodeEncodeError:
            fault = BROKEN
        except (pa.ArrowException, TypeError, ValueError, OverflowError, NotImplementedError):
            fault = (
                "ids of several kinds, or integers of more than 64 bits; convert them all to text"
            )
        # raised out here, where no exception is being handled that quotes the cell
        if fault:
            raise DataError(f"{source}: column {name!r} holds {fault}")
        array = array.to_arrow() if hasattr(array, "to_arrow") else array
        self.ids = check_ids(array.type, name, source)
        return ids_in(getattr(array, "chunks", [array]) or [pa.array([], array.type)])

    def blocks(self) -> Iterator[ColumnBlock]:
        """Yield all records in one block, if there are any."""
        if self.n_rows:
            yield ColumnBlock(self._arrays, self._ids)
