"""The nearest of many centroids of few features: they stand in boxes, and boxes that are too far away are not looked into.

float32 proposes, as in `filter.py`, and says of which records it leaves a doubt. What is done with a record depends on that
record and the centroids: records that look into the same box are only worked on side by side.
"""

from typing import Any

import numpy as np
from numba import types

from fastlloyd.base.arrays import IntArray
from fastlloyd.clustering.compiled.jit import INTEGER, LABELS, REAL, RECORDS, Labels, Points, helper, kernel

FEATURES = 8  # those that a record has not are 0
ROWS = 2048  # of records worked on together
VECTOR = 16  # to a multiple of which a list of records is filled up

_F2, _F3, _I3, _NAMES = types.float32[:, ::1], types.float32[:, :, ::1], types.int32[:, :, ::1], types.int32[:, ::1]


@kernel(types.int64(RECORDS, INTEGER, INTEGER, _F3, _F3, _F2, _I3, _NAMES, REAL, REAL, LABELS, LABELS))
def nearest_in_boxes(
    XT: Points,
    start: int,
    stop: int,
    boxes: Any,
    A: Any,
    constants: Any,
    fours: Any,
    names: Any,
    share: float,
    most: float,
    labels: Labels,
    doubtful: Labels,
) -> int:
    """Set labels (stop - start,) to the nearest centroids of XT[:, start:stop]; return how many records are in doubt.

    boxes : (n, 2, FEATURES), lower and upper corners, rounded outwards. A (n, size, FEATURES), constants (n, size) : -2 c and
    |c|^2 of the centroids in each box, which is filled up with such as are infinitely far away. fours (n size / 4, d, 4), names
    (n size / 4, 4) : the same centroids, exactly, and their indices. share, most : e, and 4 e times the largest |c|^2. The
    places of the records in doubt are put into `doubtful`.
    """
    n_boxes, size, n_doubts = len(boxes), A.shape[1], 0
    points, some = np.zeros((FEATURES, ROWS), np.float32), np.zeros((FEATURES, ROWS), np.float32)
    bounds, scratch = np.empty((n_boxes, ROWS), np.float32), np.empty((6, ROWS), np.float32)
    numbers, order, ends = np.empty((3, ROWS), np.int32), np.empty(ROWS + 1, np.int32), np.empty(n_boxes, np.int64)
    extra = np.empty(ROWS, np.float32)
    rule = np.float32(2.02 * share), np.float32(8.4 * share), np.float32(most), np.float32(1.0 + 2.0 * share)
    for first in range(start, stop, ROWS):
        m = min(ROWS, stop - first)
        squares, best, second, limits = scratch[0, :m], scratch[1, :m], scratch[2, :m], scratch[3, :m]
        least_limits=extra[:m]
        found, home = numbers[0, :m], numbers[1, :m]
        _load(XT, first, points, squares)
        best[:] = np.inf
        for b in range(n_boxes):
            _find_bounds(points, boxes[b], bounds[b, :m])
            _keep_least(bounds[b, :m], np.int32(b), best, home)
        for r in range(m):
            least_limits[r]=(squares[r]+rule[0]*squares[r]+rule[2])*rule[3]
        _sort(home, bounds, ends, order)
        best[:] = np.inf
        second[:] = np.inf
        found[:] = 0
        begin = 0
        for b in range(n_boxes):
            those = order[begin : ends[b]]
            _look_into(A[b], constants[b], b * size // 4, points, those, some, scratch[4:], numbers[2])
            _keep_two(those, scratch[4:], numbers[2], least_limits, best, second, limits, found, rule)
            begin = ends[b]
        for b in range(n_boxes):
            those = order[: _within(bounds[b, :m], limits, order)]
            _look_into(A[b], constants[b], b * size // 4, points, those, some, scratch[4:], numbers[2])
            _keep_two(those, scratch[4:], numbers[2], least_limits, best, second, limits, found, rule)
        for r in range(m):
            i = first - start + r
            labels[i] = _lowest_of_four(XT, first + r, fours[found[r]], names[found[r]])
            doubtful[n_doubts] = np.int32(i)
            n_doubts += np.int64(second[r] - best[r] < _margin(squares[r], max(squares[r] + best[r], np.float32(0)), rule))
    return n_doubts


@helper
def _load(XT: Points, first: int, points: Any, squares: Any) -> None:
    """Set points to the features of some records as float32, and squares (m,) to their squared norms."""
    squares[:] = 0
    for j in range(len(XT)):
        feature, target = XT[j, first : first + len(squares)], points[j]
        for r in range(len(squares)):
            x = np.float32(feature[r])
            target[r] = x
            squares[r] += x * x


@helper
def _find_bounds(points: Any, box: Any, bounds: Any) -> None:
    """Set bounds (m,) to the squared distances of the points (FEATURES, m) from a box: to its nearest place."""
    _add_bounds(points[:4], box[0, :4], box[1, :4], np.float32(0), bounds)
    _add_bounds(points[4:], box[0, 4:], box[1, 4:], np.float32(1), bounds)


@helper
def _add_bounds(x: Any, low: Any, high: Any, kept: Any, bounds: Any) -> None:
    """Set bounds to what they were, or to 0 times that, and what four features add."""
    x0, x1, x2, x3 = x[0], x[1], x[2], x[3]
    low0, low1, low2, low3, high0, high1, high2, high3 = low[0], low[1], low[2], low[3], high[0], high[1], high[2], high[3]
    for r in range(len(bounds)):
        s, t = x0[r] - min(max(x0[r], low0), high0), x1[r] - min(max(x1[r], low1), high1)
        u, v = x2[r] - min(max(x2[r], low2), high2), x3[r] - min(max(x3[r], low3), high3)
        bounds[r] = s * s + t * t + u * u + v * v + kept * bounds[r]


@helper
def _keep_least(bounds: Any, b: np.int32, least: Any, home: Labels) -> None:
    """Remember of each record the box that is nearest."""
    for r in range(len(bounds)):
        home[r] = b if bounds[r] < least[r] else home[r]
        least[r] = min(bounds[r], least[r])


@helper
def _sort(home: Labels, bounds: Any, ends: IntArray, order: Labels) -> None:
    """Put the records into the order of their nearest boxes, which are too far away for a second look; ends : of each box."""
    ends[:] = 0
    for r in range(len(home)):
        ends[home[r]] += 1
        bounds[home[r], r] = np.inf
    end = 0
    for b in range(len(ends)):
        end += ends[b]
        ends[b] = end - ends[b]
    for r in range(len(home)):
        order[ends[home[r]]] = r
        ends[home[r]] += 1


@helper
def _within(bounds: Any, limits: Any, order: Labels) -> int:
    """Set the first places of `order` to the records whose bounds are within their limits; return how many there are."""
    n = 0
    for r in range(len(bounds)):
        order[n] = r
        n += np.int64(bounds[r] <= limits[r])
    return n


@helper
def _look_into(A: Any, constants: Any, four: int, points: Any, those: Labels, some: Any, scores: Any, found: Labels) -> None:
    """Find, for those records, the least score in a box, the least of its other fours, and the four of the first.

    four : the number of the first four in the box. scores (2, ROWS), found : of those records.
    """
    n = len(those)
    for j in range(FEATURES):
        feature, target = points[j], some[j]
        for r in range(n):
            target[r] = feature[those[r]]
    m = (n + VECTOR - 1) // VECTOR * VECTOR
    best, second, which = scores[0, :m], scores[1, :m], found[:m]
    best[:] = np.inf
    second[:] = np.inf
    which[:] = 0
    for c in range(0, len(A), 4):
        _score_four(some, A[c : c + 4], constants[c : c + 4], np.int32(four + c // 4), best, second, which)


@helper
def _score_four(x: Any, A: Any, constants: Any, four: np.int32, best: Any, second: Any, found: Labels) -> None:
    """Take the least of four scores, |c|^2 - 2 x.c, into account."""
    x0, x1, x2, x3, x4, x5, x6, x7 = x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]
    a, b, c, d, n0, n1, n2, n3 = A[0], A[1], A[2], A[3], constants[0], constants[1], constants[2], constants[3]
    a0, a1, a2, a3, a4, a5, a6, a7 = a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]
    b0, b1, b2, b3, b4, b5, b6, b7 = b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]
    c0, c1, c2, c3, c4, c5, c6, c7 = c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7]
    d0, d1, d2, d3, d4, d5, d6, d7 = d[0], d[1], d[2], d[3], d[4], d[5], d[6], d[7]
    for r in range(len(best)):
        p, q, s, t = x0[r], x1[r], x2[r], x3[r]
        u, v, w, z = x4[r], x5[r], x6[r], x7[r]
        e = n0 + a0 * p + a1 * q + a2 * s + a3 * t + a4 * u + a5 * v + a6 * w + a7 * z
        f = n1 + b0 * p + b1 * q + b2 * s + b3 * t + b4 * u + b5 * v + b6 * w + b7 * z
        g = n2 + c0 * p + c1 * q + c2 * s + c3 * t + c4 * u + c5 * v + c6 * w + c7 * z
        h = n3 + d0 * p + d1 * q + d2 * s + d3 * t + d4 * u + d5 * v + d6 * w + d7 * z
        least = min(min(e, f), min(g, h))  # noqa: PLW3301 - a tree: two of them at the same time
        second[r] = min(second[r], max(least, best[r]))
        found[r] = four if least < best[r] else found[r]
        best[r] = min(least, best[r])


@helper
def _keep_two(
    those: Labels, scores: Any, which: Labels, least_limits: Any, best: Any, second: Any, limits: Any, found: Labels, rule: Any
) -> None:
    """Take what was found in a box into account, and what it says of the distance beyond which boxes are too far away."""
    for i in range(len(those)):
        r, least = those[i], scores[0, i]
        second[r] = min(second[r], scores[1, i], max(least, best[r]))
        found[r] = which[i] if least < best[r] else found[r]
        best[r] = min(least, best[r])
        limits[r] = best[r] * rule[3] + least_limits[r]


@helper
def _margin(square: Any, distance: Any, rule: Any) -> Any:
    """By how much two scores differ of which the greater is surely the greater."""
    return rule[0] * square + min(rule[2], rule[1] * (square + distance))


@helper
def _lowest_of_four(XT: Points, i: int, four: Any, names: Labels) -> np.int32:
    """The nearest of four centroids (d, 4), the lowest of several."""
    s, t, u, v = 0.0, 0.0, 0.0, 0.0
    for j in range(len(XT)):
        x, c = XT[j, i], four[j]
        p, q, w, z = np.float64(np.int32(x - c[0])), np.float64(np.int32(x - c[1])), np.float64(np.int32(x - c[2])), np.float64(np.int32(x - c[3]))
        s += p * p
        t += q * q
        u += w * w
        v += z * z
    least, name = s, names[0]
    for square, other in ((t, names[1]), (u, names[2]), (v, names[3])):
        name = other if (square < least) | ((square == least) & (other < name)) else name
        least = min(least, square)
    return name
