"""Loops over public points: Lloyd's steps, to the bits of `public_kmeans.py`, as far as they are sure; sphere packing.

BLAS may round a distance otherwise than it is rounded here, by no more than a bound. Where the two nearest centroids of a point
differ by more than that, both find the same one; where they do not, the step is left to the caller. Sums over points are added
up in the order of the points, as NumPy does.
"""

import numpy as np
from numba import types
from numpy.typing import NDArray

from fastlloyd.base.arrays import FloatArray, IntArray
from fastlloyd.clustering.compiled.jit import INTEGER, REAL, REALS, TABLE, helper, kernel, read

WIDTH = 256
_UNDERFLOW = 2.0**-1000  # more than all products may have lost to it


def blocks_of(points: FloatArray) -> FloatArray:
    """Points (n, r) feature by feature in blocks (n_blocks, r, WIDTH), the last one filled up with zeros."""
    n, r = points.shape
    blocks = np.zeros((-(-n // WIDTH), WIDTH, r))
    blocks.reshape(-1, r)[:n] = points
    return np.ascontiguousarray(blocks.transpose(0, 2, 1))


@kernel(INTEGER(types.float64[:, :, ::1], REALS, REALS, TABLE, TABLE, types.int64[::1], INTEGER), exact=False)
def lloyd_steps(
    blocks: FloatArray,
    lengths: FloatArray,
    weights: FloatArray,
    weighted: FloatArray,
    centroids: FloatArray,
    labels: IntArray,
    n_steps: int,
) -> int:
    """Make up to so many steps, which move the centroids (k, r) in place, and find the labels (n,) after the last.

    Returns how many steps were made, one more if the labels are found: it ends where one is not sure, and before a step with an
    empty cluster. lengths (n,) : of points; weighted : (n, r), points times weights (n,).
    """
    k, r = centroids.shape
    sums, masses = np.empty((k, r)), np.empty(k)
    for step in range(n_steps + 1):
        if not _find_labels(blocks, lengths, centroids, labels):
            return step
        if step == n_steps:
            return n_steps + 1
        masses[:] = 0.0
        sums[:] = 0.0
        for i in range(len(labels)):
            masses[labels[i]] += weights[i]
            for j in range(r):
                sums[labels[i], j] += weighted[i, j]
        for c in range(k):
            if masses[c] == 0.0:
                return step
        for c in range(k):
            for j in range(r):
                centroids[c, j] = sums[c, j] / masses[c]
    return n_steps


@kernel(INTEGER(read(types.uint64, 1), read(INTEGER, 1), TABLE, INTEGER, INTEGER, REAL))
def place(words: NDArray[np.uint64], reach: IntArray, points: FloatArray, first: int, attempts: int, squared_gap: float) -> int:
    """Place points (k, d) from the first on, as many as the words are for, as `packing._placed` does.

    Returns 1; 0 if one finds no place, -1 if a word is rejected.
    """
    d, w = len(reach), 0
    n, greatest = np.empty(d, np.uint64), np.empty(d, np.uint64)
    for j in range(d):
        n[j] = 2 * reach[j] + 1
        greatest[j] = np.uint64(2**64 - 1) - (np.uint64(2**64 - 1) % n[j] + np.uint64(1)) % n[j]
    for p in range(first, first + len(words) // (attempts * d)):
        for i in range(attempts * d):
            if words[w + i] > greatest[i % d]:
                return -1
        free = 0
        for attempt in range(attempts):
            if not free:
                for j in range(d):
                    points[p, j] = np.float64(words[w + attempt * d + j] % n[j]) - np.float64(reach[j])
                free = _is_free(points, p, squared_gap)
        if not free:
            return 0
        w += attempts * d
    return 1


@helper
def _find_labels(blocks: FloatArray, lengths: FloatArray, centroids: FloatArray, labels: IntArray) -> bool:
    """Find the nearest centroids; False if one is not sure.

    With u = 2**-53, |c|^2 - 2 x.c is known up to g = 2 (r + 1) u (2 |x| |c| + |c|^2), here and there: of two that differ by
    more than 4 g here, the same one is less there.
    """
    (k, r), farthest = centroids.shape, 0.0
    squares, nearest = np.zeros(k), np.empty(WIDTH, np.int64)
    scores, best, second = np.empty(WIDTH), np.empty(WIDTH), np.empty(WIDTH)
    for c in range(k):
        for j in range(r):
            squares[c] += centroids[c, j] * centroids[c, j]
        farthest = max(farthest, squares[c])
    for b in range(len(blocks)):
        for i in range(WIDTH):
            best[i] = second[i] = np.inf
        for c in range(k):
            _score(blocks[b], centroids[c], squares[c], scores)
            for i in range(WIDTH):
                second[i] = min(second[i], max(scores[i], best[i]))
                nearest[i] = c if scores[i] < best[i] else nearest[i]
                best[i] = min(scores[i], best[i])
        first, sure = b * WIDTH, 0
        m = min(WIDTH, len(lengths) - first)
        for i in range(m):
            reach = 2.0 * lengths[first + i] * np.sqrt(farthest) + farthest
            sure += second[i] - best[i] > (r + 2) * 2.0**-49 * reach + _UNDERFLOW
            labels[first + i] = nearest[i]
        if sure < m:
            return False
    return True


@helper
def _is_free(points: FloatArray, p: int, squared_gap: float) -> bool:
    """Whether the point of that number is far enough from all before it."""
    for q in range(p):
        squared = 0.0
        for j in range(points.shape[1]):
            squared += (points[p, j] - points[q, j]) * (points[p, j] - points[q, j])
        if squared < squared_gap:
            return False
    return True


@helper
def _score(block: FloatArray, centroid: FloatArray, square: float, scores: FloatArray) -> None:
    """|c|^2 - 2 x.c for the points x of a block (r, WIDTH), a centroid c and its square."""
    r = len(centroid)
    for i in range(WIDTH):
        scores[i] = square
    for j in range(0, r - 3, 4):  # four at a time: fewer loads and stores
        a, b, c, d = -2.0 * centroid[j], -2.0 * centroid[j + 1], -2.0 * centroid[j + 2], -2.0 * centroid[j + 3]
        for i in range(WIDTH):
            scores[i] += a * block[j, i] + b * block[j + 1, i] + c * block[j + 2, i] + d * block[j + 3, i]
    for j in range(r // 4 * 4, r):
        a = -2.0 * centroid[j]
        for i in range(WIDTH):
            scores[i] += a * block[j, i]
