"""Data frames of pandas and Polars, and tables of Arrow, recognised without importing pandas or
Polars.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastlloyd.errors import DataError
from fastlloyd.records.arrow import ArrowRecords, load
from fastlloyd.records.columns import chosen, unit_place
from fastlloyd.records.ids import BROKEN
from fastlloyd.records.reader import Missing
from fastlloyd.records.record_file import RecordFile
from fastlloyd.records.table import Table

_ROWS = 1 << 16  # of an Arrow table, taken over at a time


def table_from_frame(
    frame: Any,
    columns: Sequence[str] | None = None,
    *,
    missing: Missing = Missing.REFUSE,
    unit: str | None = None,
) -> Table:
    """The records of a pandas DataFrame, a Polars DataFrame, or whatever else offers Arrow's C
    stream or array interface.

    `columns` chooses columns by name and gives their order (None: all); names that are not text are
    spelled as `str` does. The index of a pandas frame is no column. Columns may be integers of any
    width, floats, booleans or decimals, nullable or not; None, NaN, NA and null are missing cells.
    `unit` is the column of the ids, text or integers, which is no feature. Needs pyarrow. Raises
    DataError, naming record and column but never a value, as `read_table` does.
    """
    source = f"{type(frame).__module__.partition('.')[0]} {type(frame).__name__}"
    pa = load("pyarrow", source)
    is_pandas = (
        source.startswith("pandas ") and hasattr(frame, "iloc") and hasattr(frame, "columns")
    )
    table = (
        _of_pandas(pa, frame, columns, unit, source) if is_pandas else _of_arrow(pa, frame, source)
    )
    records = ArrowRecords.of(
        table.schema,
        columns,
        lambda names: table.select(list(names)).to_batches(max_chunksize=_ROWS),
        source=source,
        what="a frame that Arrow can take over",
        n_rows=table.num_rows,
        missing=missing,
        unit=unit,
    )
    return RecordFile(records, source, missing, unit=unit).table()


def _of_arrow(pa: Any, frame: Any, source: str) -> Any:
    if not (hasattr(frame, "__arrow_c_stream__") or hasattr(frame, "__arrow_c_array__")):
        raise DataError(
            f"{source}: expected a pandas or Polars DataFrame or an Arrow table (collect a"
            " LazyFrame first, by .collect()); NumPy arrays go straight to the estimators"
        )
    try:
        return pa.table(frame)
    except (pa.ArrowException, TypeError, ValueError, NotImplementedError):
        raise DataError(
            f"{source}: Arrow cannot take it over; select the numeric columns first"
        ) from None


def _of_pandas(
    pa: Any, frame: Any, columns: Sequence[str] | None, unit: str | None, source: str
) -> Any:
    """A table with the chosen columns as Arrow infers them, and nulls in place of the others, which
    may hold anything.
    """
    names = [str(name) for name in frame.columns]
    picked = set(chosen(names, columns, source, "header", unit=unit))
    of_ids = unit_place(names, unit, source)
    arrays = []
    for i, name in enumerate(names):
        try:
            arrays.append(
                pa.array(frame.iloc[:, i], from_pandas=True)
                if i in picked or i == of_ids
                else pa.nulls(len(frame))
            )
            continue
        except UnicodeEncodeError:
            of_id = BROKEN
        except (pa.ArrowException, TypeError, ValueError, OverflowError, NotImplementedError):
            of_id = (
                "ids of several kinds, or integers of more than 64 bits; convert them all to text"
            )
        # raised out here, where no exception is being handled that quotes the cell
        fault = of_id if i == of_ids else "no plain numbers; choose numeric columns or convert it"
        raise DataError(f"{source}: column {name!r} holds {fault}")
    return pa.table(arrays, names=names)
