"""Records in the memory order that compiled code wants: feature by feature, or record by record."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fastlloyd.base.arrays import GridArray

COPIED_CELLS = 1 << 18  # of records that are copied at once: a megabyte

Piece = tuple[NDArray[np.int32], tuple[int, int], int]


def feature_major(X: GridArray, start: int, stop: int) -> Iterator[Piece]:
    """X[start:stop] as (XT, (first, last), place in X): int32 (d, n) in C order, copied in parts
    unless X is that already.
    """
    if _is_int32(X) and X.flags.f_contiguous:
        yield X.T, (start, stop), start
        return
    for first, last in _parts(X, start, stop):
        yield X[first:last].T.astype(np.int32, order="C"), (0, last - first), first


def row_major(X: GridArray, start: int, stop: int) -> Iterator[Piece]:
    """X[start:stop] as `feature_major` gives it, but with X (n, d) in C order."""
    if _is_int32(X) and X.flags.c_contiguous:
        yield X, (start, stop), start
        return
    for first, last in _parts(X, start, stop):
        yield X[first:last].astype(np.int32, order="C"), (0, last - first), first


def _is_int32(X: GridArray) -> bool:
    return X.dtype == np.int32 and X.flags.aligned


def _parts(X: GridArray, start: int, stop: int) -> Iterator[tuple[int, int]]:
    rows = max(1, COPIED_CELLS // X.shape[1])
    return ((first, min(first + rows, stop)) for first in range(start, stop, rows))
