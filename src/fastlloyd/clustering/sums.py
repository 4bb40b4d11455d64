"""Records in the memory order that compiled code needs, and their sums by label."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fastlloyd.base.arrays import GridArray, IntArray

MASKED_CLUSTERS = 24  # up to here each vector is added to all sums, to those of others as 0


class ClusterSums:
    """Sums and counts (k, d + 1) of vectors by label. Partial sums have 32 bits.

    shape : number of labels k, and number of coordinates d.
    largest : largest absolute coordinate.
    by_feature : whether the vectors are stored feature by feature.
    """

    def __init__(self, shape: tuple[int, int], largest: int, *, by_feature: bool) -> None:
        from fastlloyd.clustering.compiled import sums

        k, d = shape
        self._by_label = (
            (sums.add_masked if k <= MASKED_CLUSTERS else sums.add_features)
            if by_feature
            else sums.add_rows
        )
        self._room = (max(1, ((1 << 31) - 1) // max(largest, 1)),) if by_feature else ()
        self._totals = np.zeros((k + 1, d + 1), dtype=np.int64)

    def add(self, Z: NDArray[np.int32], start: int, labels: NDArray[np.int32]) -> None:
        """Add vectors to the sums of their labels. Vectors with label k are ignored.

        Z : vectors (n, d), or (d, n) if stored feature by feature. They are used from `start` on.
        """
        self._by_label(Z, start, labels, self._totals, *self._room)

    def totals(self) -> IntArray:
        """Return the sums and counts of all vectors added so far."""
        return self._totals[:-1]


COPIED_CELLS = 1 << 18  # of records that are copied at once: a megabyte

Piece = tuple[NDArray[np.int32], tuple[int, int], int]


def feature_major(X: GridArray, start: int, stop: int) -> Iterator[Piece]:
    """Yield the records X[start:stop] in pieces (XT, (first, last), position).

    XT[:, first:last] are the records of X from `position` on. XT is int32 (d, n) in C order. X is
    copied in parts, unless it has this order already.
    """
    if _is_int32(X) and X.flags.f_contiguous:
        yield X.T, (start, stop), start
        return
    for first, last in _parts(X, start, stop):
        yield X[first:last].T.astype(np.int32, order="C"), (0, last - first), first


def row_major(X: GridArray, start: int, stop: int) -> Iterator[Piece]:
    """Yield the records X[start:stop] in pieces as `feature_major` does. But the first entry of a
    piece is an array (n, d) in C order.
    """
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
