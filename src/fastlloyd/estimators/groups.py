"""Ids of persons: one for each row of X, read from any container as bytes."""

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from typing import Any

import numpy as np

from fastlloyd.errors import DataError
from fastlloyd.mechanisms.engines.collections import is_collection
from fastlloyd.records.cells import is_missing
from fastlloyd.records.ids import BROKEN, in_utf8
from fastlloyd.records.in_memory import guarded
from fastlloyd.records.labels import refuse_other_rows

_NOTHING = ("NoneType", "NAType", "NaTType")  # of Python and pandas
_ONE_EACH = "pass as groups one id for each row of X: text or integers"


def person_ids(groups: Any, n_samples: int, X: Any = None) -> list[bytes]:
    """Return the id of each row as bytes: text in UTF-8, or an integer in decimal.

    groups : ids of the rows, text or integers, (n_samples,): a sequence, or an array or column of
        NumPy, pandas, Polars or Arrow.
    n_samples : number of rows of X.
    X : records. If X and groups are both pandas objects, their indexes must be equal.

    Raises DataError if groups has another form, another length than X, or a missing id. The message
    shows no id.
    """
    return guarded(lambda: _person_ids(groups, n_samples, X), "groups")


def _person_ids(groups: Any, n_samples: int, X: Any) -> list[bytes]:
    if is_collection(groups):
        raise DataError(
            "groups is a Dask collection, but ids of persons are compared in memory only; pass X"
            " and groups in memory"
        )
    cells = _cells(groups)
    if len(cells) != n_samples:
        raise DataError(f"groups has another length than X; {_ONE_EACH}")
    refuse_other_rows(X, groups, "groups")
    kinds = set(map(type, cells))
    if any(kind.__name__ in _NOTHING for kind in kinds):
        raise _missing()
    _check_kinds(kinds, cells)
    if any(issubclass(kind, str) for kind in kinds):
        if any(map(is_missing, cells)):
            raise _missing()
        ids, fault = in_utf8(cells), BROKEN
    else:
        ids, fault = (
            _in_decimal(cells),
            f"integers of more than {sys.get_int_max_str_digits()} digits; give shorter ids",
        )
    if ids is None:
        raise DataError(f"groups holds {fault}")
    return ids


def _cells(groups: Any) -> Sequence[Any]:
    """Return each id as a Python object. Raises DataError if groups is not a single column."""
    if (
        getattr(groups, "ndim", 1) != 1
        or hasattr(groups, "columns")
        or isinstance(groups, str | bytes)
    ):
        raise DataError(f"groups is not a single column; {_ONE_EACH}")
    for name in ("to_pylist", "to_list", "tolist"):  # of Arrow, of pandas and Polars, of NumPy
        if hasattr(groups, name):
            return _listed(getattr(groups, name))
    if not isinstance(groups, Iterable) or isinstance(groups, Mapping | Set):
        raise DataError(f"groups is a {type(groups).__name__:.40}; {_ONE_EACH}")
    return list(groups)


def _listed(as_list: Callable[[], Iterable[Any]]) -> list[Any]:
    """Return the ids that `as_list` returns, as a list.

    Raises DataError for text that Arrow can store but Python cannot decode.
    """
    with suppress(UnicodeDecodeError):
        return list(as_list())
    raise DataError(f"groups holds {BROKEN}")


def _in_decimal(integers: Sequence[int]) -> list[bytes] | None:
    """Return each integer in decimal, or None if an integer has more digits than Python converts to
    text.
    """
    try:
        return [b"%d" % integer for integer in integers]
    except ValueError:
        return None


def _check_kinds(kinds: set[type], cells: Sequence[Any]) -> None:
    """Raise DataError unless all ids are text, or all ids are integers.

    kinds : types of the ids.
    cells : ids.
    """
    text = {kind for kind in kinds if issubclass(kind, str)}
    integers = {kind for kind in kinds if issubclass(kind, int | np.integer) and kind is not bool}
    others = kinds - text - integers
    if any(issubclass(kind, float) for kind in others):
        if (text or integers) and all(
            math.isnan(cell) for cell in cells if isinstance(cell, float)
        ):
            raise _missing()
        raise DataError(
            "groups contains floating-point numbers, which cannot be ids: 7 and 7.0 would be two"
            " persons; convert the numbers to integers, or to the text in the source (pandas makes"
            " integers floating-point if an id is missing: fill it in first)"
        )
    if others:
        raise DataError(
            f"groups holds values of type {min(kind.__name__ for kind in others):.40}; {_ONE_EACH}"
        )
    if text and integers:
        raise DataError(
            "groups mixes text and integers, so one person could have two ids ('7' and 7); convert"
            " all ids to text"
        )


def _missing() -> DataError:
    return DataError("an id is missing in groups; fill it in, or leave the row out")
