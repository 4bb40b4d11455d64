"""Ids in columns of Arrow: text, integers, and dictionaries of these."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fastlloyd.errors import DataError
from fastlloyd.records.ids import FLOATS, Ids, IntegerIds, TextIds

_TEXT = ("string", "large_string", "string_view")


def check_ids(kind: Any, name: str, source: str) -> str:
    """Return the kind of ids of an Arrow type, "integers" or "text".

    Raises DataError for any other type.

    name : name of the column, for error messages.
    """
    types = importlib.import_module("pyarrow.types")
    kind = kind.value_type if types.is_dictionary(kind) else kind
    if types.is_integer(kind):
        return IntegerIds.kind
    if str(kind) in _TEXT:
        return TextIds.kind
    if types.is_floating(kind):
        hint = (
            "; pandas turns integers into such numbers if one is missing"
            if source.startswith("pandas ")
            else ""
        )
        raise DataError(f"{source}: column {name!r} holds floating-point numbers; {FLOATS}{hint}")
    raise DataError(
        f"{source}: column {name!r} holds values of type {str(kind)[:40]}; ids must be"
        " integers or text"
    )


def ids_in(arrays: Sequence[Any]) -> Ids:
    """Return the ids in Arrow arrays of one type, in order. A null is a missing id."""
    pa = importlib.import_module("pyarrow")
    plain = [
        array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
        for array in arrays
    ]
    if pa.types.is_integer(plain[0].type):
        return IntegerIds.joined([_integers(pa, array) for array in plain])
    return TextIds.joined([texts_in(array) for array in plain])


def _integers(pa: Any, array: Any) -> IntegerIds:
    wide = array.cast(pa.uint64() if pa.types.is_unsigned_integer(array.type) else pa.int64())
    # which is refused anyway
    gone = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    return IntegerIds(_stored(wide, np.dtype(wide.type.to_pandas_dtype()), len(wide)), gone)


def texts_in(array: Any) -> TextIds:
    """Return the ids in an Arrow array of text."""
    pa = importlib.import_module("pyarrow")
    text = array.cast(pa.large_string())
    text = text.fill_null("") if text.null_count else text
    ends = _stored(text, np.dtype(np.int64), len(text) + 1 if len(text) else 0)
    letters = np.frombuffer(text.buffers()[2] or b"", dtype=np.uint8)
    return TextIds(letters[ends[0] : ends[-1]] if len(ends) else letters[:0], np.diff(ends))


def _stored(array: Any, dtype: np.dtype[Any], n: int) -> npt.NDArray[Any]:
    """Return the first n numbers in the memory of an array: its integers, or the positions at which
    its texts begin.
    """
    return (
        np.frombuffer(array.buffers()[1] or b"", dtype, n, array.offset * dtype.itemsize)
        if n
        else np.empty(0, dtype)
    )
