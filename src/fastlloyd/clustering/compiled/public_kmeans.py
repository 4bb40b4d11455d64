"""Loops over public points: k-means to the bits of `public_kmeans.py`, as far as they are sure.

BLAS may round a distance otherwise than it is rounded here, by no more than a bound. Where the two nearest centroids of a point
differ by more than that, both find the same one; where they do not, the step is left to the caller. So it is with the points
that k-means++ draws and chooses. Lloyd's sums over points are added up in the order of the points, as NumPy does.
"""

import numpy as np
from numba import types

from fastlloyd.base.arrays import FloatArray, IntArray
from fastlloyd.clustering.compiled.jit import INTEGER, REALS, TABLE, helper, kernel, rounded_helper

WIDTH = 256
BLOCKS = types.float64[:, :, ::1]
_UNDERFLOW = 2.0**-1000  # more than all products may have lost to it


def blocks_of(points: FloatArray) -> FloatArray:
    """Points (n, r) feature by feature in blocks (n_blocks, r, WIDTH), the last one filled up with zeros."""
    n, r = points.shape
    blocks = np.zeros((-(-n // WIDTH), WIDTH, r))
    blocks.reshape(-1, r)[:n] = points
    return np.ascontiguousarray(blocks.transpose(0, 2, 1))


@kernel(types.boolean(BLOCKS, TABLE, TABLE, TABLE, types.int64[::1]))
def add_centroids(blocks: FloatArray, points: FloatArray, weights: FloatArray, trials: FloatArray, chosen: IntArray) -> bool:
    """Choose points for one start of greedy k-means++ behind the first, chosen[0]; False if one is not sure.

    points : (n, r) around the origin. weights : (n_blocks, WIDTH), 0 behind the last point. trials : uniform numbers
    (k - 1, T).

    With u = 2**-53 and M the largest |x|^2, the squared distance to the nearest centroid is known up to g = (r + 4) 2**-49 M,
    here and there; a sum S of such distances by weights W up to e = W g + (n + 2) u S, in whatever order it is added up. Of two
    sums that differ by more than 8 e here, the same one is less there.
    """
    (n, r), T = points.shape, trials.shape[1]
    squares, nearest, scores = np.empty(weights.shape), np.empty(weights.shape), np.empty(WIDTH)
    masses, candidates, losses = np.empty(len(blocks)), np.empty(T, np.int64), np.empty(T)
    e = _begin(blocks, weights, squares, nearest) * (r + 4) * 2.0**-49 + _UNDERFLOW
    for c in range(1, len(chosen)):
        total, best = _come_nearer(blocks, squares, weights, points[chosen[c - 1]], nearest, masses, scores), 0
        slack = 8.0 * (e + (n + 2) * 2.0**-53 * total)
        for t in range(T):
            candidates[t] = _drawn(masses, weights, nearest, trials[c - 1, t] * total, slack)
            if candidates[t] < 0:
                return False
            losses[t] = _loss_with(blocks, squares, weights, points[candidates[t]], nearest, scores)
            best = t if losses[t] < losses[best] else best
        for t in range(T):
            if candidates[t] != candidates[best] and losses[t] - losses[best] <= slack:
                return False
        chosen[c] = candidates[best]
    return True


@kernel(INTEGER(BLOCKS, REALS, REALS, TABLE, TABLE, types.int64[::1], INTEGER), exact=False)
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
        _add_up(weights, weighted, labels, masses, sums)
        for c in range(k):
            if masses[c] == 0.0:
                return step
        for c in range(k):
            for j in range(r):
                centroids[c, j] = sums[c, j] / masses[c]
    return n_steps


@rounded_helper
def _add_up(weights: FloatArray, weighted: FloatArray, labels: IntArray, masses: FloatArray, sums: FloatArray) -> None:
    """Add up the points of each cluster in their order, each sum rounded as NumPy does."""
    k, r = sums.shape
    for c in range(k):
        masses[c] = 0.0
        for j in range(r):
            sums[c, j] = 0.0
    for i in range(len(labels)):
        masses[labels[i]] += weights[i]
        for j in range(r):
            sums[labels[i], j] += weighted[i, j]


@helper
def _find_labels(blocks: FloatArray, lengths: FloatArray, centroids: FloatArray, labels: IntArray) -> bool:
    """Find the nearest centroids; False if one is not sure."""
    r, n, farthest = centroids.shape[1], len(lengths), _farthest(centroids)
    best, second, nearest = np.empty(WIDTH), np.empty(WIDTH), np.empty(WIDTH, np.int64)
    for b in range(len(blocks)):
        _find_two_nearest(blocks[b], centroids, best, second, nearest)
        first, sure = b * WIDTH, 0
        m = min(WIDTH, n - first)
        for i in range(m):
            sure += second[i] - best[i] > _doubt(lengths[first + i], farthest, r)
            labels[first + i] = nearest[i]
        if sure < m:
            return False
    return True


@helper
def _find_two_nearest(
    block: FloatArray, centroids: FloatArray, best: FloatArray, second: FloatArray, nearest: IntArray
) -> None:
    """The two least scores of each point of a block, and the centroid of the least."""
    k, scores, more = len(centroids), np.empty(WIDTH), np.empty(WIDTH)
    for i in range(WIDTH):
        best[i] = second[i] = np.inf
    for c in range(0, k, 2):  # two at a time: fewer loads and stores
        _score(block, centroids[c], scores)
        if c + 1 < k:
            _score(block, centroids[c + 1], more)
        for i in range(WIDTH):
            more[i] = more[i] if c + 1 < k else np.inf
            least, nearer = min(scores[i], more[i]), c + 1 if more[i] < scores[i] else c
            second[i] = min(second[i], max(scores[i], more[i]), max(least, best[i]))
            nearest[i] = nearer if least < best[i] else nearest[i]
            best[i] = min(least, best[i])


@helper
def _doubt(length: float, farthest: float, r: int) -> float:
    """How much scores must differ, for a point x of this length and centroids with |c|^2 up to the farthest one's.

    With u = 2**-53, |c|^2 - 2 x.c is known up to g = 2 (r + 1) u (2 |x| |c| + |c|^2), here and there: of two that differ by
    more than 4 g here, the same one is less there.
    """
    return float((r + 2) * 2.0**-49 * (2.0 * length * np.sqrt(farthest) + farthest) + _UNDERFLOW)


@helper
def _farthest(centroids: FloatArray) -> float:
    """The largest |c|^2, but no less than underflow may have taken from it: a far point's products with c are large still."""
    largest = _UNDERFLOW
    for c in range(len(centroids)):
        square = 0.0
        for j in range(centroids.shape[1]):
            square += centroids[c, j] * centroids[c, j]
        largest = max(largest, square)
    return largest


@helper
def _begin(blocks: FloatArray, weights: FloatArray, squares: FloatArray, nearest: FloatArray) -> float:
    """Set |x|^2 of the points x of all blocks (n_blocks, WIDTH), and distances to no centroid; return W M."""
    whole = largest = 0.0
    for b in range(len(blocks)):
        for i in range(WIDTH):
            squares[b, i], nearest[b, i] = 0.0, np.inf
        for j in range(blocks.shape[1]):
            for i in range(WIDTH):
                squares[b, i] += blocks[b, j, i] * blocks[b, j, i]
        for i in range(WIDTH):
            largest = max(largest, squares[b, i])
            whole += weights[b, i]
    return whole * largest


@helper
def _come_nearer(
    blocks: FloatArray,
    squares: FloatArray,
    weights: FloatArray,
    centroid: FloatArray,
    nearest: FloatArray,
    masses: FloatArray,
    scores: FloatArray,
) -> float:
    """Take one more centroid into squared distances to the nearest; return their weighted sum, and set those of blocks."""
    total = 0.0
    for b in range(len(blocks)):
        _score(blocks[b], centroid, scores)
        mass = 0.0
        for i in range(WIDTH):
            nearest[b, i] = max(min(nearest[b, i], squares[b, i] + scores[i]), 0.0)
            mass += weights[b, i] * nearest[b, i]
        masses[b] = mass
        total += mass
    return total


@helper
def _loss_with(
    blocks: FloatArray, squares: FloatArray, weights: FloatArray, centroid: FloatArray, nearest: FloatArray, scores: FloatArray
) -> float:
    """The weighted sum of squared distances to the nearest centroid if this one were one of them."""
    loss = 0.0
    for b in range(len(blocks)):
        _score(blocks[b], centroid, scores)
        for i in range(WIDTH):
            loss += weights[b, i] * min(nearest[b, i], squares[b, i] + scores[i])
    return loss


@helper
def _drawn(masses: FloatArray, weights: FloatArray, nearest: FloatArray, target: float, slack: float) -> int:
    """Index of the first point up to which weights times distances exceed the target; -1 if it is not sure.

    All blocks are looked at, and all points of one: where it is takes no more time than elsewhere.
    """
    b, first, total = 0, 0.0, 0.0
    for other in range(len(masses)):
        total += masses[other]
        is_before = total <= target
        b, first = (other + 1, total) if is_before else (b, first)
    found, sure, after = 0, target - first > slack, first
    b = min(b, len(masses) - 1)
    for i in range(WIDTH):
        after += weights[b, i] * nearest[b, i]
        found += after <= target
        sure &= abs(after - target) > slack
    return b * WIDTH + found if sure and found < WIDTH else -1


@helper
def _score(block: FloatArray, centroid: FloatArray, scores: FloatArray) -> None:
    """|c|^2 - 2 x.c for the points x of a block (r, WIDTH) and a centroid c (r,)."""
    r, square = len(centroid), 0.0
    for j in range(r):
        square += centroid[j] * centroid[j]
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
