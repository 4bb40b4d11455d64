"""Compiled loops over public points. Their results have the same bits as those of
`public_kmeans.py`.

BLAS may round a distance differently from this code, by at most a known bound. If the distances of
a point to its two nearest centroids differ by more than the bound, both programs find the same
centroid. Otherwise a loop does not decide, and the caller computes the step with NumPy. The same
holds for the points that k-means++ draws and chooses. Lloyd's sums over points are added up in the
order of the points, as NumPy does.
"""

import math

import numpy as np
from numba import types

from fastlloyd.base.arrays import FloatArray, IntArray
from fastlloyd.base.jit import (
    INTEGER,
    REAL,
    REALS,
    TABLE,
    helper,
    inlined,
    kernel,
    rounded_helper,
)

WIDTH = 256
PART = 64  # a running sum is kept after this number of points of a block
CACHE_LINE = 8  # numbers that begin at one are read at once
FEW, SOME, MORE = 3, 5, 8  # features: up to these, loops over points do all of them in one go
BLOCKS = types.float64[:, :, ::1]
_UNDERFLOW = 2.0**-1000  # more than all products may have lost to it


def blocks_of(points: FloatArray) -> FloatArray:
    """Return points (n, r), feature by feature, in blocks (n_blocks, width, WIDTH) with padding."""
    n, r = points.shape
    blocks = aligned(-(-n // WIDTH), _width(r), WIDTH)
    whole, rest = divmod(n, WIDTH)
    blocks[:whole, :r] = points[: n - rest].reshape(whole, WIDTH, r).transpose(0, 2, 1)
    if rest:
        blocks[whole, :r, :rest] = points[n - rest :].T
    return blocks


def row_blocks_of(numbers: FloatArray) -> FloatArray:
    """Return numbers (n,) in blocks (n_blocks, WIDTH), padded with zeros."""
    blocks = aligned(-(-len(numbers) // WIDTH), WIDTH)
    blocks.reshape(-1)[: len(numbers)] = numbers
    return blocks


def weighted_rows(points: FloatArray, weights: FloatArray) -> FloatArray:
    """Return points (n, r) times weights (n,), in rows (n, width + 1) whose last entry is the
    weight.
    """
    n, r = points.shape
    rows = np.zeros((n, _width(r) + 1))
    np.multiply(points, weights[:, None], out=rows[:, :r])
    rows[:, -1] = weights
    return rows


def squares_of(blocks: FloatArray) -> FloatArray:
    """Return |x|^2 of each point x in blocks, (n_blocks, WIDTH)."""
    squares = aligned(len(blocks), WIDTH)
    np.einsum("bji,bji->bi", blocks, blocks, out=squares)
    return squares


def aligned(*shape: int) -> FloatArray:
    """Return an array of zeros that begins at a cache line.

    Reading across two cache lines takes twice as long.
    """
    size = math.prod(shape)
    numbers = np.zeros(size + CACHE_LINE)
    first = -numbers.ctypes.data // numbers.itemsize % CACHE_LINE
    return numbers[first : first + size].reshape(shape)


def room_for_choice(
    blocks: FloatArray, n_trials: int
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, IntArray]:
    """Return the work arrays of `add_centroids`.

    They are, in this order: distances of the points (and one block of scores), running sums of
    weighted distances, keys of candidates (`_set_key`), losses with each candidate, and candidates.
    """
    n_blocks, width, _ = blocks.shape
    pairs = n_trials + n_trials % 2
    of_points, before = aligned(n_blocks + 1, WIDTH), np.zeros(n_blocks * WIDTH // PART + 1)
    return (
        of_points,
        before,
        np.zeros((pairs, width + 1)),
        np.zeros(pairs),
        np.zeros(n_trials, dtype=np.int64),
    )


def room_for_steps(rows: FloatArray, k: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the work arrays of `lloyd_steps`.

    The first has the keys of centroids (`_set_key`), by which the nearest centroid is found. The
    second has sums of rows. The third has four numbers for each point of a block, in a single
    array, so that the compiler knows that their memory does not overlap. Keys are processed in
    pairs. If k is odd, the last pair is filled up with the key of a dummy centroid, which is
    nearest to no point.
    """
    keys, sums = np.zeros((k + k % 2, rows.shape[1])), np.zeros((k, rows.shape[1]))
    keys[-1, -1] = np.inf
    return keys, sums, aligned(4 * WIDTH)


def _width(r: int) -> int:
    return next((most for most in (FEW, SOME, MORE) if r <= most), r)


@kernel(
    types.boolean(
        BLOCKS,
        TABLE,
        TABLE,
        TABLE,
        REAL,
        TABLE,
        REALS,
        TABLE,
        REALS,
        types.int64[::1],
        TABLE,
        types.int64[::1],
    )
)
def add_centroids(
    blocks: FloatArray,
    squares: FloatArray,
    points: FloatArray,
    weights: FloatArray,
    scale: float,
    of_points: FloatArray,
    before: FloatArray,
    keys: FloatArray,
    losses: FloatArray,
    candidates: IntArray,
    trials: FloatArray,
    chosen: IntArray,
) -> bool:
    """Choose all points after the first for one start of greedy k-means++.

    Returns False if rounding could change a choice.

    blocks : points in blocks of columns, padded.
    squares : result of `squares_of`.
    points : points around the origin, (n, r).
    weights : (n_blocks, WIDTH), 0 after the last point.
    scale : the sum of weights W times the largest square M.
    of_points, before, keys, losses, candidates : work arrays of `room_for_choice`.
    trials : uniform numbers, (k - 1, T).
    chosen : indices of the chosen points. chosen[0] is given, and the others are set.

    With u = 2**-53, the squared distance to the nearest centroid is known up to g = (r + 4) 2**-49
    M, in this code and in NumPy. A weighted sum S of these distances is known up to e = W g + (n +
    2) u S, in any order of addition. If two sums differ by more than 8 e in this code, the sum that
    is smaller here is also smaller in NumPy.
    """
    (n, r), T, n_blocks = points.shape, trials.shape[1], len(blocks)
    nearest, scores, e = (
        of_points[:n_blocks],
        of_points[n_blocks],
        scale * (r + 4) * 2.0**-49 + _UNDERFLOW,
    )
    for b in range(n_blocks):
        for i in range(WIDTH):
            nearest[b, i] = np.inf
    for c in range(1, len(chosen)):
        best = 0
        _set_key(points[chosen[c - 1]], keys[best])
        total = _come_nearer(blocks, squares, weights, keys[best], nearest, before, scores)
        slack = 8.0 * (e + (n + 2) * 2.0**-53 * total)
        for t in range(T):
            candidates[t] = _drawn(before, weights, nearest, trials[c - 1, t] * total, slack)
            if candidates[t] < 0:
                return False
            _set_key(points[candidates[t]], keys[t])
        _add_losses(blocks, squares, weights, keys, nearest, losses, scores)
        for t in range(T):
            best = t if losses[t] < losses[best] else best
        for t in range(T):
            if candidates[t] != candidates[best] and losses[t] - losses[best] <= slack:
                return False
        chosen[c] = candidates[best]
    return True


@kernel(
    INTEGER(BLOCKS, REALS, TABLE, TABLE, TABLE, REALS, TABLE, types.int64[::1], INTEGER),
    exact=False,
)
def lloyd_steps(
    blocks: FloatArray,
    lengths: FloatArray,
    rows: FloatArray,
    keys: FloatArray,
    sums: FloatArray,
    room: FloatArray,
    centroids: FloatArray,
    labels: IntArray,
    n_steps: int,
) -> int:
    """Make up to `n_steps` steps of Lloyd's algorithm, and set the labels after the last one.

    Returns the number of steps made, plus one if the labels were set. The function stops if a
    decision is not certain, and before a step with an empty cluster.

    lengths : Euclidean norms of the points, (n,).
    rows : result of `weighted_rows`.
    keys, sums, room : work arrays of `room_for_steps`.
    centroids : centroids (k, r), moved in place.
    labels : output, (n,).
    """
    k, r = centroids.shape
    for step in range(n_steps + 1):
        for c in range(k):
            _set_key(centroids[c], keys[c])
        if not _find_labels(blocks, lengths, keys, room, labels, r):
            return step
        if step == n_steps:
            return n_steps + 1
        _add_up(rows, labels, sums)
        for c in range(k):
            if sums[c, -1] == 0.0:
                return step
        for c in range(k):
            for j in range(r):
                centroids[c, j] = sums[c, j] / sums[c, -1]
    return n_steps


@rounded_helper
def _add_up(rows: FloatArray, labels: IntArray, sums: FloatArray) -> None:
    """Set `sums` to the sum of the rows of each cluster. Rows are added in their order, and each
    addition is rounded as in NumPy.
    """
    k, width = sums.shape
    for c in range(k):
        for j in range(width):
            sums[c, j] = 0.0
    if width == FEW + 1:
        _add_rows(rows, labels, sums, FEW + 1)
    elif width == SOME + 1:
        _add_rows(rows, labels, sums, SOME + 1)
    elif width == MORE + 1:
        _add_rows(rows, labels, sums, MORE + 1)
    else:
        _add_rows(rows, labels, sums, width)


@inlined
def _add_rows(rows: FloatArray, labels: IntArray, sums: FloatArray, width: int) -> None:
    for i in range(len(labels)):
        c = np.uint64(labels[i])  # never negative, which would count from the end
        for j in range(width):
            sums[c, j] += rows[i, j]


@helper
def _find_labels(
    blocks: FloatArray,
    lengths: FloatArray,
    keys: FloatArray,
    room: FloatArray,
    labels: IntArray,
    r: int,
) -> bool:
    """Set each label to the nearest centroid. Return False if a label is not certain.

    room : work array of four numbers for each point of a block. They are the smallest score, the
        second smallest, the centroid of the smallest, and another score.
    """
    n, width, farthest = len(lengths), blocks.shape[1], _farthest(keys)
    for b in range(len(blocks)):
        for i in range(WIDTH):
            room[i] = room[WIDTH + i] = np.inf
        if width == FEW:
            _find_two_nearest(blocks[b], keys, room, FEW)
        elif width == SOME:
            _find_two_nearest(blocks[b], keys, room, SOME)
        elif width == MORE:
            _find_two_nearest(blocks[b], keys, room, MORE)
        else:
            _find_two_nearest_of_many_features(blocks[b], keys, room)
        first, sure = b * WIDTH, 0
        m = min(WIDTH, n - first)
        for i in range(m):
            sure += room[WIDTH + i] - room[i] > _doubt(lengths[first + i], farthest, r)
            labels[first + i] = int(room[2 * WIDTH + i])
        if sure < m:
            return False
    return True


@inlined
def _find_two_nearest(block: FloatArray, keys: FloatArray, room: FloatArray, width: int) -> None:
    """Set the two smallest scores of each point of a block, and the centroid of the smallest.

    width : width of the block, as a constant.
    """
    for c in range(0, len(keys), 2):  # two at a time: fewer loads and stores
        first = float(c)
        for i in range(WIDTH):
            one, other = keys[c, width], keys[c + 1, width]
            for j in range(width):
                one += keys[c, j] * block[j, i]
                other += keys[c + 1, j] * block[j, i]
            least, nearer = min(one, other), first + 1.0 if other < one else first
            room[WIDTH + i] = min(room[WIDTH + i], max(one, other), max(least, room[i]))
            room[2 * WIDTH + i] = nearer if least < room[i] else room[2 * WIDTH + i]
            room[i] = min(least, room[i])


@inlined
def _find_two_nearest_of_many_features(
    block: FloatArray, keys: FloatArray, room: FloatArray
) -> None:
    for c in range(len(keys)):
        _score(block, keys[c], room[3 * WIDTH :])
        for i in range(WIDTH):
            score = room[3 * WIDTH + i]
            room[WIDTH + i] = min(room[WIDTH + i], max(score, room[i]))
            room[2 * WIDTH + i] = float(c) if score < room[i] else room[2 * WIDTH + i]
            room[i] = min(score, room[i])


@helper
def _doubt(length: float, farthest: float, r: int) -> float:
    """Return the difference of two scores above which their order is certain.

    With u = 2**-53, |c|^2 - 2 x.c is known up to g = 2 (r + 1) u (2 |x| |c| + |c|^2), in this code
    and in NumPy. If two scores differ by more than 4 g in this code, the score that is smaller here
    is also smaller in NumPy.

    length : |x| of the point.
    farthest : largest |c|^2 of a centroid.
    """
    return float((r + 2) * 2.0**-49 * (2.0 * length * np.sqrt(farthest) + farthest) + _UNDERFLOW)


@helper
def _farthest(keys: FloatArray) -> float:
    """Return the largest |c|^2 of a centroid, or a small number if all |c|^2 are below it.

    A smaller |c|^2 may have lost its digits by underflow, although |x| |c| is not small for a far
    point x.
    """
    largest = _UNDERFLOW
    for c in range(len(keys)):
        square = keys[c, -1]
        largest = square if largest < square < np.inf else largest
    return largest


@helper
def _come_nearer(
    blocks: FloatArray,
    squares: FloatArray,
    weights: FloatArray,
    key: FloatArray,
    nearest: FloatArray,
    before: FloatArray,
    scores: FloatArray,
) -> float:
    """Update the squared distance of each point to its nearest centroid for one more centroid.

    Returns the weighted sum of the updated distances.

    key : key of the new centroid (`_set_key`).
    before : output, the weighted sum over all points before each part of a block.
    """
    total, part = 0.0, 0
    for b in range(len(blocks)):
        _score(blocks[b], key, scores)
        for i in range(WIDTH):
            nearest[b, i] = max(min(nearest[b, i], squares[b, i] + scores[i]), 0.0)
        for first in range(0, WIDTH, PART):
            before[part], part = total, part + 1
            mass = 0.0
            for i in range(first, first + PART):
                mass += weights[b, i] * nearest[b, i]
            total += mass
    before[part] = total
    return total


@helper
def _add_losses(
    blocks: FloatArray,
    squares: FloatArray,
    weights: FloatArray,
    keys: FloatArray,
    nearest: FloatArray,
    losses: FloatArray,
    scores: FloatArray,
) -> None:
    """Set `losses` to the loss with each of several new centroids.

    A loss is the weighted sum of squared distances to the nearest centroid.
    """
    width = blocks.shape[1]
    for t in range(len(losses)):
        losses[t] = 0.0
    for b in range(len(blocks)):
        if width == FEW:
            _add_losses_of_block(blocks[b], squares[b], weights[b], keys, nearest[b], losses, FEW)
        elif width == SOME:
            _add_losses_of_block(blocks[b], squares[b], weights[b], keys, nearest[b], losses, SOME)
        elif width == MORE:
            _add_losses_of_block(blocks[b], squares[b], weights[b], keys, nearest[b], losses, MORE)
        else:
            for t in range(len(keys)):
                loss = 0.0
                _score(blocks[b], keys[t], scores)
                for i in range(WIDTH):
                    loss += weights[b, i] * min(nearest[b, i], squares[b, i] + scores[i])
                losses[t] += loss


@inlined
def _add_losses_of_block(
    block: FloatArray,
    squares: FloatArray,
    weights: FloatArray,
    keys: FloatArray,
    nearest: FloatArray,
    losses: FloatArray,
    width: int,
) -> None:
    for t in range(0, len(keys), 2):  # two at a time: fewer loads
        loss, other_loss = 0.0, 0.0
        for i in range(WIDTH):
            one, other = squares[i] + keys[t, width], squares[i] + keys[t + 1, width]
            for j in range(width):
                one += keys[t, j] * block[j, i]
                other += keys[t + 1, j] * block[j, i]
            loss += weights[i] * min(nearest[i], one)
            other_loss += weights[i] * min(nearest[i], other)
        losses[t] += loss
        losses[t + 1] += other_loss


@helper
def _drawn(
    before: FloatArray, weights: FloatArray, nearest: FloatArray, target: float, slack: float
) -> int:
    """Return the index of the point at which the running sum of weighted distances first exceeds
    the target.

    Returns -1 if rounding could change this index. All parts are scanned, and all points of one
    part, so the time does not depend on the index.
    """
    part, last = -1, len(before) - 2
    for other in range(len(before)):
        part += before[other] <= target
    part = min(part, last)
    b, first, after = part * PART // WIDTH, part * PART % WIDTH, before[part]
    found, sure = 0, target - after > slack
    for i in range(first, first + PART):
        after += weights[b, i] * nearest[b, i]
        found += after <= target
        sure &= abs(after - target) > slack
    return part * PART + found if sure and found < PART else -1


@helper
def _set_key(centroid: FloatArray, key: FloatArray) -> None:
    """Set the key of a centroid c (r,), which is -2 c, with |c|^2 as its last number."""
    square = 0.0
    for j in range(len(centroid)):
        key[j] = -2.0 * centroid[j]
        square += centroid[j] * centroid[j]
    key[len(key) - 1] = square


@helper
def _score(block: FloatArray, key: FloatArray, scores: FloatArray) -> None:
    """Set `scores` to |c|^2 - 2 x.c for the points x of a block (width, WIDTH).

    key : key of the centroid c (`_set_key`).
    """
    width = len(block)
    for i in range(WIDTH):
        scores[i] = key[width]
    for j in range(0, width - 3, 4):  # four at a time: fewer loads and stores
        a, b, c, d = key[j], key[j + 1], key[j + 2], key[j + 3]
        for i in range(WIDTH):
            scores[i] += (
                a * block[j, i] + b * block[j + 1, i] + c * block[j + 2, i] + d * block[j + 3, i]
            )
    for j in range(width // 4 * 4, width):
        a = key[j]
        for i in range(WIDTH):
            scores[i] += a * block[j, i]
