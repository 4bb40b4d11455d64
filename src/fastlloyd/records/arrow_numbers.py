"""Numbers in arrays of Arrow as arrays of NumPy."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from fastlloyd.base import extras
from fastlloyd.errors import DataError

_EXACT = 1 << 53  # integers below are exact in float64; so are powers of ten up to 10**22


_LARGEST_POWER = 22


def load(name: str, source: str) -> Any:
    """Return a module of pyarrow. Raises DataError with the command that installs it.

    source : name of the records, for the error message.
    """
    try:
        return importlib.import_module(name)
    except Exception as error:  # noqa: BLE001 - a package may fail in any way
        raise DataError(
            f"{source}: this needs pyarrow, which {extras.why_not(error, 'data')}"
        ) from None


def numbers(array: Any) -> npt.NDArray[Any]:
    """Return the numbers of an Arrow array, (n,), of any real dtype, with NaN for null.

    Without null the cells are not copied.
    """
    pa = load("pyarrow", "Arrow")
    if pa.types.is_decimal(array.type):
        return _decimals(array)
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.uint8())
    if array.null_count or not len(array):
        values: npt.NDArray[Any] = array.to_numpy(zero_copy_only=False)
        return values
    return _stored(array)


def numbers_or_nan(array: Any) -> npt.NDArray[Any]:
    """Return the result of `numbers`. If the array can have nulls, every position is checked for
    null and the cells are copied, even if there is no null.
    """
    pa = load("pyarrow", "Arrow")
    if pa.types.is_decimal(array.type) or not len(array) or array.buffers()[1] is None:
        return numbers(array)
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.uint8())
    there, values = array.is_valid(), _stored(array)
    bits = np.unpackbits(
        np.frombuffer(there.buffers()[1], np.uint8),
        count=there.offset + len(there),
        bitorder="little",
    )
    found = values.astype(values.dtype if values.dtype.kind == "f" else np.float64)
    np.copyto(found, np.nan, where=bits[there.offset :] == 0)
    return found


def _stored(array: Any) -> npt.NDArray[Any]:
    """Return the cells as they are in memory, with an arbitrary value for null."""
    dtype = np.dtype(array.type.to_pandas_dtype())  # `to_numpy` would first import pandas
    return np.frombuffer(array.buffers()[1], dtype, len(array), array.offset * dtype.itemsize)


def _decimals(array: Any) -> npt.NDArray[np.float64]:
    """Return the nearest float64 to each decimal.

    A quotient or product of two integers that are exact in float64 is rounded once, so it is the
    nearest float. Other decimals are converted through text.
    """
    values = np.full(len(array), np.nan)
    left = array.is_valid().to_numpy(zero_copy_only=False)
    scale = array.type.scale
    if array.type.bit_width == 128 and abs(scale) <= _LARGEST_POWER and sys.byteorder == "little":
        words = np.frombuffer(array.buffers()[1], dtype=np.int64)[2 * array.offset :][
            : 2 * len(array)
        ].reshape(-1, 2)
        low, high = words.T
        short = left & (high == low >> 63) & (low > -_EXACT) & (low < _EXACT)
        power = float(10 ** abs(scale))
        values[short] = low[short] / power if scale >= 0 else low[short] * power
        left &= ~short
    for i in np.flatnonzero(left):
        values[i] = float(array[int(i)].as_py())
    return values
