"""Values outside the public bounds: clipped and counted, or refused.

Either way what happens to a record is decided by that record and the bounds. The count, and that or where a record was refused,
are exact and so private: for the owner's own screen.
"""

import enum
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from fastlloyd.clustering.domain import Domain
from fastlloyd.errors import DataError
from fastlloyd.records.column_block import ColumnBlock, FloatArray
from fastlloyd.records.table import numbered


class Outside(enum.Enum):
    """What becomes of a record with a value outside the bounds."""

    CLIP = "clip"  # the value moves to the nearer bound (`Domain.to_grid`), and the record is counted
    REFUSE = "refuse"  # the records are refused, and where the value stands is said


def records_outside(
    domain: Domain,
    X: ArrayLike | ColumnBlock,
    outside: Outside,
    *,
    source: str,
    first: int = 1,
    place: Callable[[int], str] = numbered,
) -> int:
    """How many records of a block have a value outside the bounds; to be added up over blocks.

    X : finite numbers (n, n_features), n >= 1, any real dtype and memory order. first : number of the block's first record.
    place : where the record of a number stands in the source, for messages. Raises DataError with `Outside.REFUSE`, naming the
    place of the first such record and its column and no value.
    """
    if isinstance(X, ColumnBlock) and all(map(_is_within, X.arrays, domain.lower, domain.upper)):
        return 0
    values = np.asarray(X)
    if (values.min(axis=0) >= domain.lower).all() and (values.max(axis=0) <= domain.upper).all():
        return 0
    beyond = (values < domain.lower) | (values > domain.upper)
    records = beyond.any(axis=1)
    if outside is Outside.REFUSE and records.any():
        record = int(records.argmax())
        column = domain.features[int(np.argmax(beyond[record]))]
        raise DataError(
            f"{source}, {place(first + record)}, column {column!r}: the value lies outside the bounds; correct it, state wider "
            "bounds from public knowledge, or clip such values with --outside clip"
        )
    return int(records.sum())


def _is_within(values: FloatArray, low: float, high: float) -> bool:
    return float(values.min()) >= low and float(values.max()) <= high  # NumPy would round a bound to float32 first
