"""Values outside the public bounds: clipped and counted, or refused.

Either way what happens to a record is decided by that record and the bounds. The count, and that or where a record was refused,
are exact and so private: for the owner's own screen.
"""

import enum
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from fastlloyd.clustering.domain import Domain, GridArray
from fastlloyd.errors import DataError
from fastlloyd.records.table import ColumnBlock, numbered


class Outside(enum.Enum):
    """What becomes of a record with a value outside the bounds."""

    CLIP = "clip"  # the value moves to the nearer bound (`Domain.to_grid`), and the record is counted
    REFUSE = "refuse"  # the records are refused, and where the value stands is said


def to_grid(
    domain: Domain,
    X: ArrayLike | ColumnBlock,
    outside: Outside,
    *,
    source: str,
    first: int = 1,
    place: Callable[[int], str] = numbered,
) -> tuple[GridArray, int]:
    """Grid points of a block, and how many of its records have a value outside the bounds, found in the same pass.

    X : as of `Domain.to_grid`. first : number of the block's first record. place : where the record of a number stands in the
    source, for messages. Raises what `Domain.to_grid` raises; DataError with `Outside.REFUSE`, naming the place of the first
    such record and its column and no value.
    """
    grid, beyond = domain.to_grid_and_outside(X)
    n = int(np.count_nonzero(beyond))
    if n and outside is Outside.REFUSE:
        record = int(beyond.argmax())
        values = np.asarray(X)[record]
        column = domain.features[int(np.argmax((values < domain.lower) | (values > domain.upper)))]
        raise DataError(
            f"{source}, {place(first + record)}, column {column!r}: the value lies outside the bounds; correct it, state wider "
            "bounds from public knowledge, or clip such values with --outside clip"
        )
    return grid, n
