"""Sums of clipped offsets, as `moments/offsets.py` asks for them.

Every operation is rounded as it is written, none is left out or merged with another: with IEEE 754's roots and quotients the
integers are those of `clipping.clip`, whose proof they share.
"""

from typing import Any

import numpy as np
from numba import types

from fastlloyd.base.arrays import FloatArray
from fastlloyd.clustering.compiled.jit import INTEGER, REAL, TABLE, Labels, kernel, read

_REST = (read(types.int32, 1), INTEGER, INTEGER, read(REAL, 2), REAL, REAL, TABLE)


@kernel(*(REAL(read(x, 2, "A"), *_REST) for x in (types.int32, types.int64)), exact=False)
def add_clipped_offsets(
    X: Any, labels: Labels, start: int, stop: int, centroids: FloatArray, radius: float, units: float, sums: FloatArray
) -> float:
    """Add clip(x - centroid) of the records X[start:stop] to the sums (k, d) of their labels; the largest squared norm of one.

    X : int32 or int64 (n, d), of any memory order. All sums are integers below 2**53, exact in any order.
    """
    d = centroids.shape[1]
    z = np.empty(d)
    largest = 0.0
    for r in range(start, stop):
        centroid, total = centroids[labels[r]], sums[labels[r]]
        square = 0.0
        for j in range(d):
            z[j] = np.float64(X[r, j]) - centroid[j]
            square += z[j] * z[j]
        root = np.floor(np.sqrt(square))  # the integer root or one more: then the square is no square, and this is its ceiling
        if root * root < square:
            root += 1.0
        length = max(root, radius)
        square = 0.0
        for j in range(d):
            clipped = np.trunc(z[j] * units / length)
            total[j] += clipped
            square += clipped * clipped
        largest = max(largest, square)
    return largest
