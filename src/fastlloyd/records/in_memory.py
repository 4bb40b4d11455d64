"""Tables in memory of any library: their columns, declared types, and cells as numbers.

Tables are recognised by their interfaces, without an import of pandas, Polars or Dask. An object of
the caller may raise any error when it is asked for cells, and the message of this error may quote
cells. No message of this module repeats it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from fastlloyd.base import extras
from fastlloyd.base.names import listing
from fastlloyd.errors import DataError, FastLloydError
from fastlloyd.records.arrow_numbers import load, numbers_or_nan
from fastlloyd.records.declared import (
    ANOTHER_ORDER,
    MISSING,
    RAGGED,
    UNREADABLE,
    Content,
    Holds,
    content,
    numbers_in,
)

T = TypeVar("T")
Cells = npt.NDArray[Any]


class FrameColumn(NamedTuple):
    """Column of a data frame.

    name : name in the frame, text or not.
    declared : declared type.
    cells : the column, an object of its library.
    read : function that returns the cells as a NumPy array, (n,), of numbers or of objects.
    """

    name: Any
    declared: Any
    cells: Any
    read: Callable[[], Cells]

    def numbers(self) -> tuple[Cells | None, Content]:
        """Return the cells, (n,), of any real dtype, with NaN for a missing cell, and the content.

        The cells are None if the content is not numbers.
        """
        said = content(self.declared)
        if said.holds not in (Holds.NUMBERS, Holds.OBJECTS):
            return None, said
        values = self.read()
        if values.dtype.kind != "O":
            return values, said
        found, told = numbers_in(values.tolist())
        if said.is_numbers and told.holds is Holds.NOTHING:  # numbers that are all missing
            return np.full(len(values), np.nan), said
        return found, told


def guarded(read: Callable[[], T], what: str) -> T:
    """Return the result of `read`. Any error of the caller's object becomes DataError.

    Only FastLloydError passes unchanged. The words of other errors may quote cells.

    what : name of the object, for the error message.
    """
    try:
        return read()
    except FastLloydError:
        raise
    except MemoryError:
        fault = f"{what} does not fit into memory a second time; pass an array of float64"
    except Exception:  # noqa: BLE001 - its words may be cells
        fault = (
            f"{what} cannot be read: an error was raised when its cells were asked for; convert it"
            " to a NumPy array of numbers"
        )
    # raised out here, where no exception is being handled that would be kept as context
    raise DataError(fault, code=UNREADABLE)


def frame_of(X: Any) -> Any:
    """Return X if it is a data frame of pandas or Polars, or a table of Arrow.

    Any other object with Arrow's interface is returned as a table of Arrow. Returns None if X
    offers no table.
    """
    if isinstance(X, np.ndarray | list | tuple):
        return None
    if _is_pandas(X) or _is_polars(X) or _is_arrow(X):
        return X
    offers = hasattr(X, "__arrow_c_stream__") or hasattr(X, "__arrow_c_array__")
    if offers and getattr(X, "ndim", 2) == 2 and extras.is_installed("data"):
        pa = load("pyarrow", "Arrow")
        try:
            return pa.table(X)
        except (pa.ArrowException, TypeError, ValueError, NotImplementedError):
            return None  # one column, as a rule
    return None


def _is_pandas(X: Any) -> bool:
    return hasattr(X, "iloc") and hasattr(X, "dtypes") and hasattr(X, "columns")


def _is_polars(X: Any) -> bool:
    return hasattr(X, "get_columns") and hasattr(X, "schema")


def _is_arrow(X: Any) -> bool:
    return hasattr(X, "column_names") and hasattr(X, "combine_chunks")


def columns_of(frame: Any) -> list[FrameColumn]:
    """Return the columns of a frame that `frame_of` returned."""
    if _is_pandas(frame):
        declared = zip(frame.columns, frame.dtypes, strict=True)
        return [_of_pandas(frame.iloc[:, i], *said) for i, said in enumerate(declared)]
    if _is_polars(frame):
        return [
            FrameColumn(each.name, each.dtype, each, partial(_polars, each))
            for each in frame.get_columns()
        ]
    described = zip(frame.column_names, frame.schema.types, frame.columns, strict=True)
    return [FrameColumn(name, kind, each, partial(_arrow, each)) for name, kind, each in described]


def _of_pandas(column: Any, name: Any, declared: Any) -> FrameColumn:
    if hasattr(declared, "pyarrow_dtype"):
        return FrameColumn(name, declared, column, lambda: _arrow(column.array.__arrow_array__()))
    if isinstance(declared, np.dtype):
        return FrameColumn(name, declared, column, column.to_numpy)
    read = partial(column.to_numpy, dtype=np.float64, na_value=np.nan)  # nullable, or sparse
    return FrameColumn(name, declared, column, read)


def _polars(column: Any) -> Cells:
    if not str(column.dtype).endswith("Int128"):  # which NumPy has not
        values = np.asarray(column.to_numpy())
        if values.dtype.kind != "O":
            return values
    cells = column.to_list()  # objects, decimals, and booleans with nulls, too
    found = np.empty(len(cells), dtype=object)
    for place, cell in enumerate(cells):  # at once, NumPy would look into sequences
        found[place] = cell
    return found


def _arrow(column: Any) -> Cells:
    # every place is looked at for null, whether there is one or not
    return np.concatenate([np.empty(0, np.bool_), *map(numbers_or_nan, column.chunks)])


def matrix(X: Any, what: str = "X") -> Cells:
    """Return the cells of a table in memory as an array of any real dtype, with NaN for a missing
    cell.

    The array is (n, n_features), unless X has other dimensions. If X is an array of numbers, X
    itself is returned.

    X : an array, nested sequences, a data frame, or anything that NumPy converts.
    what : name of X, for error messages.

    Raises DataError if cells are not numbers. The `code` of the error is that of `Holds`, and its
    `field` the column of a data frame.
    """
    if type(X) is np.ndarray and X.dtype.kind in "biuf":
        return X
    return guarded(partial(_matrix, X, what), what)


def _matrix(X: Any, what: str) -> Cells:
    frame = frame_of(X)
    if frame is None:
        return _of_array(X, what)
    columns = columns_of(frame)
    kinds = [each.declared for each in columns]
    if (
        _is_pandas(frame)
        and kinds
        and all(isinstance(kind, np.dtype) for kind in kinds)
        and all(kind == kinds[0] and kind.kind in "biuf" for kind in kinds)
    ):
        return np.asarray(frame.to_numpy())  # as it lies in memory
    arrays = [_feature(each, what) for each in columns]
    if not arrays:
        return np.empty((len(frame), 0))
    together = np.empty((len(arrays), len(arrays[0])), dtype=np.result_type(*arrays))
    for row, array in zip(together, arrays, strict=True):
        row[:] = array
    return together.T


def _feature(column: FrameColumn, what: str) -> Cells:
    values, said = column.numbers()
    if values is None:
        name = str(column.name)
        raise refusal(f"column {name!r:.80} of {what}", said, name)
    return values


def _of_array(X: Any, what: str) -> Cells:
    if isinstance(X, np.ma.MaskedArray | list | tuple) and _hides(X):
        raise DataError(
            f"{what} has masked entries; remove these records or fill the values in", code=MISSING
        )
    try:
        values = np.asarray(X)
    except ValueError as error:
        if type(error) is not ValueError or "inhomogeneous" not in str(error.args[:1]):
            raise
        values = None
    if values is None:
        raise DataError(
            f"the rows of {what} have different lengths; give every record a value for every"
            " feature",
            code=RAGGED,
        )
    said = content(values.dtype)
    if said.holds is Holds.OBJECTS:
        found, said = numbers_in(values.ravel().tolist())
        values = values if found is None else found.reshape(values.shape)
    if said.holds is Holds.COMPLEX:
        raise refusal(f"Complex data not supported: {what}", said, None)
    if not said.is_numbers:
        raise refusal(what, said, None)
    return values


def _hides(X: Any) -> bool:
    """Return whether an array, or an array in a sequence, has masked entries.

    NumPy would discard the mask.
    """
    if isinstance(X, np.ma.MaskedArray):
        return bool(np.ma.is_masked(X))
    return any(isinstance(row, np.ma.MaskedArray) and np.ma.is_masked(row) for row in X)


def taken_over(X: Any, what: str = "X") -> Any:
    """Return X as a data frame if X is one or can be read as one, otherwise X itself.

    Some objects can be read only once, so the caller keeps the data frame.

    what : name of X, for error messages.
    """
    frame = guarded(partial(frame_of, X), what)
    return X if frame is None else frame


def names_of(X: Any, what: str = "X") -> tuple[str, ...] | None:
    """Return the names of the columns of X, or None if X has none.

    Also returns None if a name is not text.

    what : name of X, for error messages.
    """
    frame = guarded(partial(frame_of, X), what)
    if frame is None:
        return None
    names = tuple(frame.column_names if _is_arrow(frame) else frame.columns)
    return names if names and all(isinstance(name, str) for name in names) else None


def refuse_other_columns(X: Any, what: str, other: Any, other_what: str) -> None:
    """Raise DataError if two tables in memory have different names of columns, or a different
    order.

    Columns are matched by position. A table without names is not compared.

    what, other_what : names of the tables, for the error message.
    """
    names, others = names_of(X, what), names_of(other, other_what)
    if names is not None and others is not None and names != others:
        raise DataError(
            f"the columns of {what} and {other_what} differ, or their order does ({listing(names)}"
            f" and {listing(others)}); choose the same columns in the same order",
            code=ANOTHER_ORDER,
        )


def refusal(where: str, said: Content, field: str | None) -> DataError:
    """Return the error for content that is not numbers, with the remedy.

    where : name of the table or column, for the error message.
    said : words for the content.
    field : name of the column, or None.
    """
    return DataError(
        f"{where} holds {said.words}; select numeric columns{_REMEDY.get(said.holds, '')}",
        code=said.holds.value,
        field=field,
    )


_REMEDY = dict.fromkeys(
    (Holds.TEXT, Holds.BYTES, Holds.CATEGORIES),
    ", or convert text that stands for a quantity with astype(float)",
)
