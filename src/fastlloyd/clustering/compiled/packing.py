"""Sphere packing as in `packing.py`, point by point."""

import numpy as np
from numba import types
from numpy.typing import NDArray

from fastlloyd.base.arrays import FloatArray, IntArray
from fastlloyd.base.jit import INTEGER, REAL, TABLE, helper, kernel, read


@kernel(INTEGER(read(types.uint64, 1), read(INTEGER, 1), TABLE, INTEGER, INTEGER, REAL))
def place(
    words: NDArray[np.uint64],
    reach: IntArray,
    points: FloatArray,
    first: int,
    attempts: int,
    squared_gap: float,
) -> int:
    """Place the points from index `first` onwards, as `packing._placed` does, until the words run
    out.

    Returns 1 if all points are placed, 0 if a point finds no place, or -1 if a word is rejected.

    words : random words.
    reach : largest coordinate of each feature.
    points : points (k, d). Those placed here are set.
    attempts : number of attempts for each point.
    squared_gap : smallest squared distance between two points.
    """
    d, w = len(reach), 0
    n, greatest = np.empty(d, np.uint64), np.empty(d, np.uint64)
    for j in range(d):
        n[j] = 2 * reach[j] + 1
        greatest[j] = np.uint64(2**64 - 1) - (np.uint64(2**64 - 1) % n[j] + np.uint64(1)) % n[j]
    for p in range(first, first + len(words) // (attempts * d)):
        for attempt in range(attempts):
            for j in range(d):
                if words[w + attempt * d + j] > greatest[j]:
                    return -1
        free = 0
        for attempt in range(attempts):
            if not free:
                for j in range(d):
                    points[p, j] = np.float64(words[w + attempt * d + j] % n[j]) - np.float64(
                        reach[j]
                    )
                free = _is_free(points, p, squared_gap)
        if not free:
            return 0
        w += attempts * d
    return 1


@helper
def _is_free(points: FloatArray, p: int, squared_gap: float) -> bool:
    """Return whether point p is far enough from all points before p."""
    for q in range(p):
        squared = 0.0
        for j in range(points.shape[1]):
            squared += (points[p, j] - points[q, j]) * (points[p, j] - points[q, j])
        if squared < squared_gap:
            return False
    return True
