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
MANY_CENTROIDS = 32  # from here on it is worth remembering distances
BLOCKS = types.float64[:, :, ::1]
_UNDERFLOW = 2.0**-1000  # more than all products may have lost to it
_LOST = 2.0**-500  # and more than a root may have lost, then
_MORE, _LESS = 1.0 + 2.0**-40, 1.0 - 2.0**-40  # bounds stay bounds when rounded


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
    squares, nearest = _squares(blocks), np.full(weights.shape, np.inf)
    masses, candidates, losses = np.empty(len(blocks)), np.empty(T, np.int64), np.empty(T)
    e = weights.sum() * (r + 4) * 2.0**-49 * squares.max() + _UNDERFLOW
    for c in range(1, len(chosen)):
        _come_nearer(blocks, squares, weights, points[chosen[c - 1]], nearest, masses)
        total = masses.sum()
        slack = 8.0 * (e + (n + 2) * 2.0**-53 * total)
        for t in range(T):
            candidates[t] = _drawn(masses, weights, nearest, trials[c - 1, t] * total, slack)
            if candidates[t] < 0:
                return False
            losses[t] = _loss_with(blocks, squares, weights, points[candidates[t]], nearest)
        best = losses.argmin()
        for t in range(T):
            if candidates[t] != candidates[best] and losses[t] - losses[best] <= slack:
                return False
        chosen[c] = candidates[best]
    return True


@kernel(INTEGER(BLOCKS, TABLE, REALS, REALS, TABLE, TABLE, types.int64[::1], INTEGER), exact=False)
def lloyd_steps(
    blocks: FloatArray,
    points: FloatArray,
    lengths: FloatArray,
    weights: FloatArray,
    weighted: FloatArray,
    centroids: FloatArray,
    labels: IntArray,
    n_steps: int,
) -> int:
    """Make up to so many steps, which move the centroids (k, r) in place, and find the labels (n,) after the last.

    Returns how many steps were made, one more if the labels are found: it ends where one is not sure, and before a step with an
    empty cluster. A step that moves no centroid stands for all that would follow. points, weighted : (n, r), these being points
    times weights (n,). lengths : of points (n,).

    Where centroids are many, each point remembers how far its own is at most and all others are at least, and centroids tell
    how far they move (Hamerly 2010): most points need no distances in most steps.
    """
    (k, r), n = centroids.shape, len(points)
    sums, masses, moved = np.empty((k, r)), np.empty(k), np.empty(k)
    own, others = np.zeros(n), np.full(n, -1.0)
    for step in range(n_steps + 1):
        if k < MANY_CENTROIDS:
            is_sure = _find_labels(blocks, lengths, centroids, labels)
        else:
            is_sure = _find_changed_labels(points, lengths, centroids, labels, own, others)
        if not is_sure:
            return step
        if step == n_steps:
            return n_steps + 1
        _add_up(weights, weighted, labels, masses, sums)
        for c in range(k):
            if masses[c] == 0.0:
                return step
        farthest = _move(sums, masses, centroids, moved)
        if farthest == 0.0:
            return n_steps + 1
        for i in range(n):
            own[i] = (own[i] + moved[labels[i]]) * _MORE
            others[i] = (others[i] - farthest) * _LESS
    return n_steps


@rounded_helper
def _add_up(weights: FloatArray, weighted: FloatArray, labels: IntArray, masses: FloatArray, sums: FloatArray) -> None:
    """Add up the points of each cluster in their order, each sum rounded as NumPy does."""
    masses[:] = 0.0
    sums[:] = 0.0
    for i in range(len(labels)):
        masses[labels[i]] += weights[i]
        for j in range(weighted.shape[1]):
            sums[labels[i], j] += weighted[i, j]


@rounded_helper
def _move(sums: FloatArray, masses: FloatArray, centroids: FloatArray, moved: FloatArray) -> float:
    """Move centroids to the means, and say how far at most each was moved; returns the largest, 0 only if none was."""
    farthest = 0.0
    for c in range(len(centroids)):
        squared, moved[c] = 0.0, 0.0
        for j in range(centroids.shape[1]):
            mean = sums[c, j] / masses[c]
            squared += (mean - centroids[c, j]) * (mean - centroids[c, j])
            moved[c] += 0.0 if mean == centroids[c, j] else _LOST
            centroids[c, j] = mean
        moved[c] += np.sqrt(squared) * _MORE
        farthest = max(farthest, moved[c])
    return farthest


@helper
def _find_labels(blocks: FloatArray, lengths: FloatArray, centroids: FloatArray, labels: IntArray) -> bool:
    """Find the nearest centroids; False if one is not sure."""
    r, n = centroids.shape[1], len(lengths)
    squares = _squares_of(centroids)
    farthest = squares.max()
    best, second, nearest = np.empty(WIDTH), np.empty(WIDTH), np.empty(WIDTH, np.int64)
    for b in range(len(blocks)):
        _find_two_nearest(blocks[b], centroids, squares, best, second, nearest)
        first, sure = b * WIDTH, 0
        m = min(WIDTH, n - first)
        for i in range(m):
            sure += second[i] - best[i] > _doubt(lengths[first + i], farthest, r)
            labels[first + i] = nearest[i]
        if sure < m:
            return False
    return True


@helper
def _find_changed_labels(
    points: FloatArray, lengths: FloatArray, centroids: FloatArray, labels: IntArray, own: FloatArray, others: FloatArray
) -> bool:
    """The same, but points keep labels of which they are sure by bounds of distances to their own centroid and to all others.

    The bounds hold for these centroids and labels, and are renewed; others < own where there are none yet.
    """
    n, r = points.shape
    squares, some, m = _squares_of(centroids), np.empty(WIDTH, np.int64), 0
    farthest = squares.max()
    for i in range(n):
        doubt = _doubt(lengths[i], farthest, r)
        if not _is_settled(own[i], others[i], doubt) and others[i] > 0.0:  # one distance may do
            own[i] = np.sqrt(_squared_distance(points[i], centroids[labels[i]])) * _MORE + _LOST
        if not _is_settled(own[i], others[i], doubt):
            some[m] = i
            m += 1
        if m == WIDTH or i == n - 1:
            if not _find_some_labels(points, lengths, centroids, squares, some[:m], labels, own, others):
                return False
            m = 0
    return True


@helper
def _find_some_labels(
    points: FloatArray,
    lengths: FloatArray,
    centroids: FloatArray,
    squares: FloatArray,
    some: IntArray,
    labels: IntArray,
    own: FloatArray,
    others: FloatArray,
) -> bool:
    """The labels and bounds of up to WIDTH points, whose indices are given; False if one label is not sure."""
    r, farthest, sure = points.shape[1], squares.max(), 0
    block = np.zeros((r, WIDTH))
    best, second, nearest = np.empty(WIDTH), np.empty(WIDTH), np.empty(WIDTH, np.int64)
    for i in range(len(some)):
        for j in range(r):
            block[j, i] = points[some[i], j]
    _find_two_nearest(block, centroids, squares, best, second, nearest)
    for i in range(len(some)):
        p = some[i]
        sure += second[i] - best[i] > _doubt(lengths[p], farthest, r)
        labels[p] = nearest[i]
        square, error = lengths[p] * lengths[p], _error(lengths[p], farthest, r)
        own[p] = np.sqrt(max(square + best[i], 0.0) + error) * _MORE
        others[p] = np.sqrt(max(square + second[i] - error, 0.0)) * _LESS
    return sure == len(some)


@helper
def _find_two_nearest(
    block: FloatArray, centroids: FloatArray, squares: FloatArray, best: FloatArray, second: FloatArray, nearest: IntArray
) -> None:
    """The two least scores of each point of a block, and the centroid of the least; squares : |c|^2 (k,)."""
    k, scores, more = len(centroids), np.empty(WIDTH), np.empty(WIDTH)
    for i in range(WIDTH):
        best[i] = second[i] = np.inf
    for c in range(0, k - 1, 2):  # two at a time: fewer loads and stores
        _score(block, centroids[c], squares[c], scores)
        _score(block, centroids[c + 1], squares[c + 1], more)
        for i in range(WIDTH):
            least, nearer = min(scores[i], more[i]), c + 1 if more[i] < scores[i] else c
            second[i] = min(second[i], max(scores[i], more[i]), max(least, best[i]))
            nearest[i] = nearer if least < best[i] else nearest[i]
            best[i] = min(least, best[i])
    if k % 2:
        _score(block, centroids[k - 1], squares[k - 1], scores)
        for i in range(WIDTH):
            second[i] = min(second[i], max(scores[i], best[i]))
            nearest[i] = k - 1 if scores[i] < best[i] else nearest[i]
            best[i] = min(scores[i], best[i])


@rounded_helper
def _is_settled(own: float, others: float, doubt: float) -> bool:
    """Whether the own centroid is nearer than all others, by more than the doubt in squares."""
    return others > own and (others - own) * (others + own) > 2.0 * doubt


@helper
def _doubt(length: float, farthest: float, r: int) -> float:
    """How much scores must differ, for a point x of this length and centroids with |c|^2 up to the farthest one's.

    With u = 2**-53, |c|^2 - 2 x.c is known up to g = 2 (r + 1) u (2 |x| |c| + |c|^2), here and there: of two that differ by
    more than 4 g here, the same one is less there.
    """
    return float((r + 2) * 2.0**-49 * (2.0 * length * np.sqrt(farthest) + farthest) + _UNDERFLOW)


@helper
def _error(length: float, farthest: float, r: int) -> float:
    """How far a score with |x|^2 added to it may be from the squared distance: less than 4 (r + 2) u (|x| + |c|)^2."""
    return float((r + 2) * 2.0**-49 * (length + np.sqrt(farthest)) ** 2 + _UNDERFLOW)


@helper
def _come_nearer(
    blocks: FloatArray, squares: FloatArray, weights: FloatArray, centroid: FloatArray, nearest: FloatArray, masses: FloatArray
) -> None:
    """Take one more centroid into the squared distances to the nearest, and into the weighted sum of each block's."""
    scores, square = np.empty(WIDTH), _square(centroid)
    for b in range(len(blocks)):
        _score(blocks[b], centroid, square, scores)
        mass = 0.0
        for i in range(WIDTH):
            nearest[b, i] = max(min(nearest[b, i], squares[b, i] + scores[i]), 0.0)
            mass += weights[b, i] * nearest[b, i]
        masses[b] = mass


@helper
def _loss_with(
    blocks: FloatArray, squares: FloatArray, weights: FloatArray, centroid: FloatArray, nearest: FloatArray
) -> float:
    """The weighted sum of squared distances to the nearest centroid if this one were one of them."""
    scores, square, loss = np.empty(WIDTH), _square(centroid), 0.0
    for b in range(len(blocks)):
        _score(blocks[b], centroid, square, scores)
        for i in range(WIDTH):
            loss += weights[b, i] * min(nearest[b, i], squares[b, i] + scores[i])
    return loss


@helper
def _drawn(masses: FloatArray, weights: FloatArray, nearest: FloatArray, target: float, slack: float) -> int:
    """Index of the first point up to which weights times distances exceed the target; -1 if it is not sure."""
    b, before = 0, 0.0
    while b < len(masses) - 1 and before + masses[b] <= target:
        before += masses[b]
        b += 1
    for i in range(WIDTH):
        after = before + weights[b, i] * nearest[b, i]
        if after > target:
            is_sure = before < target - slack and after > target + slack
            return b * WIDTH + i if is_sure else -1
        before = after
    return -1


@helper
def _squares(blocks: FloatArray) -> FloatArray:
    """|x|^2 of the points x of all blocks, (n_blocks, WIDTH)."""
    squares = np.zeros((len(blocks), WIDTH))
    for b in range(len(blocks)):
        for j in range(blocks.shape[1]):
            for i in range(WIDTH):
                squares[b, i] += blocks[b, j, i] * blocks[b, j, i]
    return squares


@helper
def _squared_distance(x: FloatArray, c: FloatArray) -> float:
    squared = 0.0
    for j in range(len(x)):
        squared += (x[j] - c[j]) * (x[j] - c[j])
    return squared


@helper
def _squares_of(centroids: FloatArray) -> FloatArray:
    """|c|^2 (k,)."""
    squares = np.empty(len(centroids))
    for c in range(len(centroids)):
        squares[c] = _square(centroids[c])
    return squares


@helper
def _square(point: FloatArray) -> float:
    """|x|^2 of one point."""
    square = 0.0
    for j in range(len(point)):
        square += point[j] * point[j]
    return square


@helper
def _score(block: FloatArray, centroid: FloatArray, square: float, scores: FloatArray) -> None:
    """|c|^2 - 2 x.c for the points x of a block (r, WIDTH), a centroid c and its square."""
    r = len(centroid)
    odd = r % 4
    a = -2.0 * centroid[0]
    b, c = -2.0 * centroid[min(1, r - 1)], -2.0 * centroid[min(2, r - 1)]
    if odd == 0:
        for i in range(WIDTH):
            scores[i] = square
    elif odd == 1:
        for i in range(WIDTH):
            scores[i] = square + a * block[0, i]
    elif odd == 2:
        for i in range(WIDTH):
            scores[i] = square + a * block[0, i] + b * block[1, i]
    else:
        for i in range(WIDTH):
            scores[i] = square + a * block[0, i] + b * block[1, i] + c * block[2, i]
    for j in range(odd, r, 4):  # four at a time: fewer loads and stores
        a, b, c, d = -2.0 * centroid[j], -2.0 * centroid[j + 1], -2.0 * centroid[j + 2], -2.0 * centroid[j + 3]
        for i in range(WIDTH):
            scores[i] += a * block[j, i] + b * block[j + 1, i] + c * block[j + 2, i] + d * block[j + 3, i]
