"""Nearest centroids of the records that `filter.py` cannot decide, by exact squared distances.

With few features, a doubtful record is compared with all centroids, and 64 doubtful records take as
long as one. With many features, the record is compared only with centroids whose scores show that
they may be the nearest. Several records are copied before their distances are computed, because a
processor waits for numbers that it has just written.
"""

from typing import Any

import numpy as np
from numba import types

from fastlloyd.base.arrays import FloatArray
from fastlloyd.base.jit import (
    INTEGER,
    LABELS,
    REAL,
    REALS,
    RECORDS,
    TABLE,
    Labels,
    Points,
    helper,
    kernel,
    kernel_by_width,
    read,
)
from fastlloyd.clustering.compiled.distances import VECTORS, Width, whole

# records that are worked on together, of up to 4 features, 8, or more
ASIDE = {4: 512, 8: 512, 9: 128}
PADDING = 8  # numbers between features, which then do not compete for the same lines of the cache
ASIDE_ROWS = 16  # records of many features
_F, _F4, _DOUBTFUL = types.float32[::1], types.float32[:, :, :, ::1], read(types.int32, 1)


@kernel_by_width(
    ASIDE,
    lambda width: types.void(
        RECORDS, INTEGER, _DOUBTFUL, TABLE, REALS, INTEGER, REAL, LABELS, INTEGER, width
    ),
)
def decide_columns(
    XT: Points,
    start: int,
    doubtful: Labels,
    C: FloatArray,
    norms: FloatArray,
    k: int,
    squared_radius: float,
    labels: Labels,
    aside: int,
    width: Width,
) -> None:
    """Set the labels of doubtful records exactly, from records that are stored feature by feature.

    The records are XT[:, start + i] for each i in `doubtful`.

    C, norms : centroids and their squared norms. Infinitely distant centroids fill them up to an
        even number. Zeros fill them up to 4 features or a multiple of eight.
    k : label of a record beyond the radius.
    labels : output. Only entries of doubtful records are set.
    aside : number of records that are processed together, which is `ASIDE` of the width.
    width : tuple whose length is a key of `ASIDE`, chosen by the number of features.

    Records are padded to a multiple of 64, and to at least 64. So 0 to 64 doubtful records take
    about the same time.
    """
    records, squares, scratch = (
        np.zeros((C.shape[1], aside + PADDING)),
        np.zeros(aside),
        np.empty((4, aside + PADDING)),
    )
    least, found = scratch[0], scratch[1]
    for first in range(0, max(len(doubtful), 1), aside):
        n = min(aside, len(doubtful) - first)
        for a in range(n):
            i, square = start + doubtful[first + a], 0.0
            for j in range(len(XT)):
                x = np.float64(XT[j, i])
                records[j, a] = -2.0 * x
                square += x * x
            squares[a] = square
        _nearest(records, C, norms, least, found, scratch[2], scratch[3], whole(max(n, 1)), width)
        for a in range(n):
            labels[doubtful[first + a]] = (
                np.int32(found[a]) if squares[a] + least[a] <= squared_radius else np.int32(k)
            )


@helper
def _nearest(
    x: FloatArray,
    C: FloatArray,
    norms: FloatArray,
    least: FloatArray,
    found: FloatArray,
    s: FloatArray,
    t: FloatArray,
    m: int,
    width: Width,
) -> None:
    """Find the centroid that is nearest to each of m records.

    Let r be a record. Set `least` to its smallest score |c|^2 - 2 r.c over the centroids c, and
    `found` to the index of that centroid.

    x : -2 r for each record r, (features, m).
    s, t : work arrays.
    """
    least[:m] = np.inf
    found[:m] = 0.0
    if len(width) == 4:
        for c in range(0, len(C), 2):
            _compare_four(x, C, c, norms, least, found, m)
    if len(width) == 8:
        for c in range(0, len(C), 2):
            _compare_eight(x, C, c, norms, least, found, m)
    if len(width) > 8:
        for c in range(0, len(C), 2):
            s[:m] = norms[c]
            t[:m] = norms[c + 1]
            for j in range(0, C.shape[1], 8):
                _add_eight(x, C, c, j, s, t, m)
            _keep_lesser(s, t, float(c), least, found, m)


@helper
def _compare_four(
    x: FloatArray,
    C: FloatArray,
    c: int,
    norms: FloatArray,
    least: FloatArray,
    found: FloatArray,
    m: int,
) -> None:
    """Compare records of four features with centroids c and c + 1, in registers."""
    x0, x1, x2, x3 = x[0], x[1], x[2], x[3]
    a0, a1, a2, a3, n0, one = C[c, 0], C[c, 1], C[c, 2], C[c, 3], norms[c], float(c)
    b0, b1, b2, b3, n1, other = (
        C[c + 1, 0],
        C[c + 1, 1],
        C[c + 1, 2],
        C[c + 1, 3],
        norms[c + 1],
        float(c + 1),
    )
    for r in range(m // VECTORS * VECTORS):
        s = n0 + a0 * x0[r] + a1 * x1[r] + a2 * x2[r] + a3 * x3[r]
        t = n1 + b0 * x0[r] + b1 * x1[r] + b2 * x2[r] + b3 * x3[r]
        score, label = min(s, t), one if s <= t else other
        found[r] = label if score < least[r] else found[r]
        least[r] = min(score, least[r])


@helper
def _compare_eight(
    x: FloatArray,
    C: FloatArray,
    c: int,
    norms: FloatArray,
    least: FloatArray,
    found: FloatArray,
    m: int,
) -> None:
    """Compare records of eight features with two centroids, as `_compare_four` does for four.

    Each sum has two parts that a processor can compute at the same time.
    """
    x0, x1, x2, x3, x4, x5, x6, x7 = x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]
    a0, a1, a2, a3, n0, one = C[c, 0], C[c, 1], C[c, 2], C[c, 3], norms[c], float(c)
    a4, a5, a6, a7 = C[c, 4], C[c, 5], C[c, 6], C[c, 7]
    b0, b1, b2, b3, n1, other = (
        C[c + 1, 0],
        C[c + 1, 1],
        C[c + 1, 2],
        C[c + 1, 3],
        norms[c + 1],
        float(c + 1),
    )
    b4, b5, b6, b7 = C[c + 1, 4], C[c + 1, 5], C[c + 1, 6], C[c + 1, 7]
    for r in range(m // VECTORS * VECTORS):
        s = (n0 + a0 * x0[r] + a1 * x1[r] + a2 * x2[r] + a3 * x3[r]) + (
            a4 * x4[r] + a5 * x5[r] + a6 * x6[r] + a7 * x7[r]
        )
        t = (n1 + b0 * x0[r] + b1 * x1[r] + b2 * x2[r] + b3 * x3[r]) + (
            b4 * x4[r] + b5 * x5[r] + b6 * x6[r] + b7 * x7[r]
        )
        score, label = min(s, t), one if s <= t else other
        found[r] = label if score < least[r] else found[r]
        least[r] = min(score, least[r])


@helper
def _add_eight(
    x: FloatArray, C: FloatArray, c: int, j: int, s: FloatArray, t: FloatArray, m: int
) -> None:
    """Add the products of eight features with centroid c to s, and with centroid c + 1 to t."""
    x0, x1, x2, x3, x4, x5, x6, x7 = (
        x[j],
        x[j + 1],
        x[j + 2],
        x[j + 3],
        x[j + 4],
        x[j + 5],
        x[j + 6],
        x[j + 7],
    )
    a0, a1, a2, a3 = C[c, j], C[c, j + 1], C[c, j + 2], C[c, j + 3]
    a4, a5, a6, a7 = C[c, j + 4], C[c, j + 5], C[c, j + 6], C[c, j + 7]
    b0, b1, b2, b3 = C[c + 1, j], C[c + 1, j + 1], C[c + 1, j + 2], C[c + 1, j + 3]
    b4, b5, b6, b7 = C[c + 1, j + 4], C[c + 1, j + 5], C[c + 1, j + 6], C[c + 1, j + 7]
    for r in range(m // VECTORS * VECTORS):
        s[r] += (
            a0 * x0[r]
            + a1 * x1[r]
            + a2 * x2[r]
            + a3 * x3[r]
            + a4 * x4[r]
            + a5 * x5[r]
            + a6 * x6[r]
            + a7 * x7[r]
        )
        t[r] += (
            b0 * x0[r]
            + b1 * x1[r]
            + b2 * x2[r]
            + b3 * x3[r]
            + b4 * x4[r]
            + b5 * x5[r]
            + b6 * x6[r]
            + b7 * x7[r]
        )


@helper
def _keep_lesser(
    s: FloatArray, t: FloatArray, c: float, least: FloatArray, found: FloatArray, m: int
) -> None:
    for r in range(m // VECTORS * VECTORS):
        score, label = min(s[r], t[r]), c if s[r] <= t[r] else c + 1.0
        found[r] = label if score < least[r] else found[r]
        least[r] = min(score, least[r])


@kernel(types.void(RECORDS, INTEGER, _DOUBTFUL, INTEGER, _F4, _F, _F, TABLE, INTEGER, REAL, LABELS))
def decide_rows(
    X: Points,
    start: int,
    doubtful: Labels,
    first: int,
    products: Any,
    constants: Any,
    limits: Any,
    C: FloatArray,
    k: int,
    squared_radius: float,
    labels: Labels,
) -> None:
    """Set the labels of doubtful records exactly, from records that are stored row by row.

    The rows are X[start + i] for each i in `doubtful`. Unlike in `decide_columns`, centroids with
    scores above limits[i] are not compared.

    first : position of the record to which the first column of `products` belongs.
    products, constants : as in `filter.propose`.
    """
    chunks, _, size, R = products.shape
    records = np.zeros((ASIDE_ROWS, C.shape[1]))
    for begin in range(0, len(doubtful), ASIDE_ROWS):
        n = min(ASIDE_ROWS, len(doubtful) - begin)
        for a in range(n):
            i = start + doubtful[begin + a]
            for j in range(X.shape[1]):
                records[a, j] = np.float64(X[i, j])
        for a in range(n):
            i = np.int64(doubtful[begin + a])
            p, r, limit, least, label = (i - first) // R, (i - first) % R, limits[i], np.inf, k
            for chunk in range(chunks):
                for c in range(chunk * size, min((chunk + 1) * size, k)):
                    if products[chunk, p, c - chunk * size, r] + constants[c] <= limit:
                        square = 0.0
                        for j in range(C.shape[1]):
                            square += (records[a, j] - C[c, j]) * (records[a, j] - C[c, j])
                        label = c if square < least else label
                        least = min(square, least)
            labels[i] = np.int32(label if least <= squared_radius else k)
