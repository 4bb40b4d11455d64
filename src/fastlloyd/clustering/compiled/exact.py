"""The nearest centroid of records of which float32 left a doubt, by exact squared distances."""

import numpy as np
from numba import types

from fastlloyd.base.arrays import FloatArray
from fastlloyd.clustering.compiled.jit import INTEGER, LABELS, REAL, REALS, Labels, Points, helper, kernel, read

WIDTH = 8  # centroids side by side

_ANY, _GIVEN = read(types.int32, 2, "A"), read(types.int32, 1)


@kernel(types.void(_ANY, INTEGER, _GIVEN, REALS, INTEGER, REAL, LABELS))
def settle(
    XT: Points, start: int, doubtful: Labels, table: FloatArray, k: int, squared_radius: float, labels: Labels
) -> None:
    """Set the labels of the doubtful records to the lowest of their nearest centroids, or to k beyond the radius.

    XT : (d, n). doubtful : places of records in `labels`; record i stands in column start + i. table : the k centroids, see
    `side_by_side`. |x - c|^2 < 2**53. Each of these records is compared with every centroid.
    """
    d = len(XT)
    d4 = (d + 3) // 4 * 4
    record, scratch = np.zeros(d4), np.empty(3 * WIDTH)
    size = WIDTH * (d4 + 1)
    for i in doubtful:
        square = 0.0
        for j in range(d):
            record[j] = np.float64(XT[j, start + i])
            square += record[j] * record[j]
        scratch[:] = np.inf
        for block in range(len(table) // size):
            _compare(record, table[block * size : (block + 1) * size], float(block * WIDTH), scratch)
        least = scratch[0]
        for c in range(1, WIDTH):
            least = min(least, scratch[c])
        label = np.inf
        for c in range(WIDTH):
            if scratch[c] == least:
                label = min(label, scratch[WIDTH + c] + c)
        labels[i] = np.int32(label if square + least <= squared_radius else k)


@helper
def _compare(x: FloatArray, table: FloatArray, first: float, scratch: FloatArray) -> None:
    """Take the scores |c|^2 - 2 x.c of some centroids into account: scratch holds the least scores, where, and new ones."""
    for c in range(WIDTH):
        scratch[2 * WIDTH + c] = table[c]
    for j in range(len(x) // 4):
        t = table[(4 * j + 1) * WIDTH : (4 * j + 5) * WIDTH]
        x0, x1, x2, x3 = x[4 * j], x[4 * j + 1], x[4 * j + 2], x[4 * j + 3]
        for c in range(WIDTH):
            scratch[2 * WIDTH + c] += x0 * t[c] + x1 * t[WIDTH + c] + x2 * t[2 * WIDTH + c] + x3 * t[3 * WIDTH + c]
    for c in range(WIDTH):
        score = scratch[2 * WIDTH + c]
        scratch[WIDTH + c] = first if score < scratch[c] else scratch[WIDTH + c]
        scratch[c] = min(score, scratch[c])


def side_by_side(C: FloatArray) -> FloatArray:
    """Centroids C (k, d), eight by eight: their |c|^2, and -2 c feature by feature, which are padded with zeros.

    Behind the last stand centroids that are infinitely far away.
    """
    k, d = C.shape
    table = np.zeros((-(-k // WIDTH) * WIDTH, -(-d // 4) * 4 + 1))
    table[k:, 0] = np.inf
    table[:k, 0] = np.einsum("ij,ij->i", C, C)
    table[:k, 1 : d + 1] = -2.0 * C
    return np.ascontiguousarray(table.reshape(-1, WIDTH, table.shape[1]).transpose(0, 2, 1)).ravel()
