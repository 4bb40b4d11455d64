"""Nearest of many points, for records of few features.

Numbers in float32 find the group of sixteen points that contains the nearest point. Exact numbers
find the point in the group. The score of a group is the smallest score of its points
(`clustering/filter.py`). If the two smallest scores of groups differ by more than the margin of
docs/proofs/filter.md, the first group contains the nearest point. Otherwise the record is doubtful,
and `doubts.py` compares it with all points.
"""

from typing import Any

import numpy as np
from numba import types

from fastlloyd.base.arrays import FloatArray, IntArray
from fastlloyd.base.jit import (
    CENTROIDS,
    INTEGER,
    LABELS,
    REAL,
    RECORDS,
    Labels,
    Points,
    helper,
    kernel_by_width,
)
from fastlloyd.clustering.compiled.distances import (
    WIDTHS,
    Width,
    columns,
    least_keys,
    load_features,
    whole,
)

SIZE = 16  # of a group: numbers that fill one or two vectors
_FEATURES = 8  # the most


@kernel_by_width(
    WIDTHS,
    lambda width: types.int64(
        RECORDS, INTEGER, INTEGER, CENTROIDS, REAL, INTEGER, LABELS, LABELS, width
    ),
)
def group_labels(
    XT: Points,
    start: int,
    stop: int,
    points: IntArray,
    error: float,
    rows: int,
    labels: Labels,
    doubtful: Labels,
    width: Width,
) -> int:
    """Set the labels of the records XT[:, start:stop] to their nearest points. Return the number of
    doubtful records.

    XT : records feature by feature, (d, n), processed in blocks of `rows` records. d is at most 8.
    error : bound e of docs/proofs/filter.md.
    labels : output, (stop - start,). The label of a doubtful record may be wrong.
    doubtful : output, which begins with the positions of the doubtful records.
    width : as in `distances.feature_labels`.
    """
    A, constants, C, norms, most = _grouped(points, error)
    block, scratch = (
        np.zeros((A.shape[1], whole(rows)), np.float32),
        np.empty((4, whole(rows)), np.float32),
    )
    squares, best, second, least = scratch[0], scratch[1], scratch[2], scratch[3]
    found, record, n = np.empty(whole(rows), np.int32), np.zeros(_FEATURES), 0
    for first in range(start, stop, rows):
        m = min(rows, stop - first)
        load_features(XT, first, m, block, squares)
        best[:] = np.inf
        second[:] = np.inf
        for g in range(len(C)):
            least_keys(
                block,
                A[g * SIZE : (g + 1) * SIZE],
                constants[g * SIZE : (g + 1) * SIZE],
                least,
                m,
                width,
            )
            _keep_two(least, np.int32(g), best, second, found, m)
        _widen(squares, best, np.float32(error), np.float32(most), m)
        for r in range(m):
            i = first - start + r
            labels[i] = _label_in_group(XT, first + r, C, norms, found[r], record)
            doubtful[n] = np.int32(i)
            n += 1 if second[r] - best[r] < squares[r] else 0
    return n


@helper
def _grouped(points: IntArray, error: float) -> tuple[Any, Any, FloatArray, FloatArray, float]:
    """Return A, constants, C, norms and slack, for points in groups of 16.

    From A and constants, both float32, the rounded scores of points are computed. From C (groups,
    8, 16) and norms, both exact, the exact scores are computed. The slack is 4 e max |c|^2, over
    points c and with e = `error`. The last group is filled up with infinitely distant points.
    """
    k, d = points.shape
    n_groups, most = (k + SIZE - 1) // SIZE, 0.0
    A, constants = (
        np.zeros((n_groups * SIZE, columns(d)), np.float32),
        np.full(n_groups * SIZE, np.inf, np.float32),
    )
    C, norms = np.zeros((n_groups, _FEATURES, SIZE)), np.full((n_groups, SIZE), np.inf)
    for c in range(k):
        norm = 0.0
        for j in range(d):
            x = np.float64(points[c, j])
            A[c, j] = np.float32(-2.0 * x)
            C[c // SIZE, j, c % SIZE] = -2.0 * x
            norm += x * x
        constants[c] = np.float32(norm * (1.0 - 2.0 * error))
        norms[c // SIZE, c % SIZE] = norm
        most = max(most, norm)
    return A, constants, C, norms, 4.0 * error * most


@helper
def _keep_two(least: Any, g: np.int32, best: Any, second: Any, found: Labels, m: int) -> None:
    """Update the two smallest scores of each record with its scores in group g."""
    for r in range(whole(m)):
        score = least[r]
        second[r] = min(second[r], max(best[r], score))
        found[r] = g if score < best[r] else found[r]
        best[r] = min(best[r], score)


@helper
def _widen(squares: Any, best: Any, error: np.float32, most: np.float32, m: int) -> None:
    """Replace the squared norm of each record by its margin (docs/proofs/filter.md).

    squares : squared norms, replaced here.
    best : smallest score of each record.
    error : bound e of the relative error.
    most : 4 e times the largest |c|^2.
    """
    two, wide, zero = np.float32(2.02) * error, np.float32(8.4) * error, np.float32(0)
    for r in range(whole(m)):
        squares[r] = two * squares[r] + min(
            most, wide * (squares[r] + max(squares[r] + best[r], zero))
        )


@helper
def _label_in_group(
    XT: Points, i: int, C: FloatArray, norms: FloatArray, g: int, record: FloatArray
) -> int:
    """Return the point of group g that is nearest to record i (ties: lowest index), by exact
    scores.
    """
    for j in range(len(XT)):
        record[j] = np.float64(XT[j, i])
    least, label = np.inf, 0
    for c in range(SIZE):
        score = norms[g, c]
        for j in range(_FEATURES):
            score += record[j] * C[g, j, c]
        label = c if score < least else label
        least = min(least, score)
    return g * SIZE + label
