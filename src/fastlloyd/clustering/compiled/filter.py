"""The inner loops of `clustering/filter.py`: records to float32, scores of few features, and scores to labels.

Records stand in parts of R, feature by feature (parts, d, R) or record by record (parts, R, d). Loops over the records of a
part have no branches, so that the compiler makes vector instructions of them. A record in doubt is looked at on its own.
"""

from typing import Any

import numpy as np
from numba import types

from fastlloyd.base.arrays import FloatArray
from fastlloyd.clustering.compiled.distances import VECTORS
from fastlloyd.clustering.compiled.jit import (
    INTEGER,
    LABELS,
    REAL,
    RECORDS,
    TABLE,
    Labels,
    Points,
    helper,
    kernel,
    read,
    rounded_helper,
)

_F, _F2, _F3, _F4 = types.float32[::1], types.float32[:, ::1], types.float32[:, :, ::1], types.float32[:, :, :, ::1]
_ANY = read(types.int32, 2, "A")
_GIVEN = read(types.int32, 1)


@kernel(types.void(RECORDS, INTEGER, INTEGER, _F3, _F))
def load_features(XT: Points, start: int, m: int, block: Any, squares: Any) -> None:
    """Set block (parts, d, R) to the records XT[:, start:start + m], and squares (parts R,) to their squared norms."""
    _load_features(XT, start, m, block, squares)


@helper
def _load_features(XT: Points, start: int, m: int, block: Any, squares: Any) -> None:
    parts, d, R = block.shape[0], len(XT), block.shape[2]
    squares[:] = 0
    if m < parts * R:
        block[:] = 0
    for j in range(0, d - 3, 4):
        for first in range(0, m, R):
            n, p = min(R, m - first), first // R
            _load_four(XT[j : j + 4], start + first, block[p, j : j + 4], squares[first : first + n])
    for j in range(d // 4 * 4, d):
        for first in range(0, m, R):
            feature, target, norms = XT[j, start + first : start + m], block[first // R, j], squares[first : first + R]
            for r in range(min(R, m - first)):
                x = np.float32(feature[r])
                target[r] = x
                norms[r] += x * x


@helper
def _load_four(XT: Points, start: int, target: Any, norms: Any) -> None:
    n = len(norms)
    x0, x1, x2, x3 = XT[0, start : start + n], XT[1, start : start + n], XT[2, start : start + n], XT[3, start : start + n]
    t0, t1, t2, t3 = target[0], target[1], target[2], target[3]
    for r in range(n):
        a, b, c, d = np.float32(x0[r]), np.float32(x1[r]), np.float32(x2[r]), np.float32(x3[r])
        t0[r] = a
        t1[r] = b
        t2[r] = c
        t3[r] = d
        norms[r] += a * a + b * b + c * c + d * d


@kernel(types.void(RECORDS, INTEGER, INTEGER, _F3, _F))
def load_rows(X: Points, start: int, m: int, block: Any, squares: Any) -> None:
    """Set block (parts, R, d) to the records X[start:start + m], and squares (parts R,) to their squared norms."""
    d = block.shape[2]
    rows = block.reshape(len(squares), d)
    for i in range(m):
        record, row, square = X[start + i], rows[i], np.float32(0)
        for j in range(d):
            x = np.float32(record[j])
            row[j] = x
            square += x * x
        squares[i] = square
    rows[m:] = 0
    squares[m:] = 0


@kernel(types.void(RECORDS, INTEGER, INTEGER, _F3, _F))
def turn_rows(X: Points, start: int, m: int, block: Any, squares: Any) -> None:
    """Set block (parts, d, R), feature by feature, to the records X[start:start + m], and squares to their squared norms."""
    _, d, R = block.shape
    squares[:] = 0
    if m < len(squares):
        block[:] = 0
    for first in range(0, len(squares), R):
        for some in range(first, min(first + R, m), 16):  # as many as make a line of the cache
            n = min(16, first + R - some, m - some)
            norms = squares[some : some + n]
            for j in range(d):
                target = block[first // R, j, some - first : some - first + n]
                for r in range(n):
                    x = np.float32(X[start + some + r, j])
                    target[r] = x
                    norms[r] += x * x


@kernel(types.int64(_ANY, INTEGER, INTEGER, INTEGER, _F4, _F, _F, TABLE, REAL, REAL, REAL, LABELS), exact=False)
def decide(
    XT: Points,
    start: int,
    first: int,
    m: int,
    products: Any,
    constants: Any,
    squares: Any,
    C: FloatArray,
    squared_radius: float,
    share: float,
    most: float,
    labels: Labels,
) -> int:
    """Set labels to the nearest centroids of some records, or to k beyond the radius; return how many were in doubt.

    XT : (d, n); record i stands in column start + i. first : the first record. m : the number of records of the block, which is
    that of `squares` and `labels`. products : A X^T (chunks, parts, centroids of a chunk, R). C : the centroids (k, d).
    share, most : e, and 4 e times the largest |c|^2.
    """
    _, parts, _, R = products.shape
    scratch, integers, record, n = np.empty((3, R), np.float32), np.empty((2, R), np.int32), np.empty(len(XT)), 0
    for p in range(parts):
        n += _decide_part(
            XT, start, first + p * R, m, products[:, p], constants, squares[first + p * R : first + (p + 1) * R], C,
            squared_radius, share, most, labels, scratch, integers, record,
        )  # fmt: skip
    return n


@kernel(types.int64(RECORDS, INTEGER, INTEGER, _F2, _F, TABLE, REAL, REAL, REAL, INTEGER, LABELS), exact=False)
def few_labels(
    XT: Points,
    start: int,
    m: int,
    A: Any,
    constants: Any,
    C: FloatArray,
    squared_radius: float,
    share: float,
    most: float,
    R: int,
    labels: Labels,
) -> int:
    """Do all that happens between records and labels, R records after the other, for few centroids of few features.

    A : (an even number of centroids, a multiple of 4 features). R : a multiple of 64. The rest is as in `decide`.
    """
    k, d = A.shape
    block, products, squares = np.zeros((1, d, R), np.float32), np.empty((1, k, R), np.float32), np.empty(R, np.float32)
    scratch, integers, record, n = np.empty((3, R), np.float32), np.empty((2, R), np.int32), np.empty(len(XT)), 0
    for first in range(0, m, R):
        _load_features(XT, start + first, min(R, m - first), block, squares)
        _multiply(A, block[0], products[0])
        n += _decide_part(
            XT, start, first, m, products, constants, squares, C, squared_radius, share, most, labels, scratch, integers, record
        )
    return n


@helper
def _multiply(A: Any, X: Any, products: Any) -> None:
    """Set products (k, R) to A X: two centroids and eight features at a time, then what is left."""
    k, d = A.shape
    for c in range(0, k, 2):
        s, t = products[c], products[c + 1]
        _open_eight(A[c, :8], A[c + 1, :8], X[:8], s, t)
        for j in range(8, d - 7, 8):
            _add_eight(A[c, j : j + 8], A[c + 1, j : j + 8], X[j : j + 8], s, t)
        if d % 8:
            _add_four(A[c, d - 4 :], A[c + 1, d - 4 :], X[d - 4 :], s, t)


@helper
def _open_eight(a: Any, b: Any, x: Any, s: Any, t: Any) -> None:
    x0, x1, x2, x3, x4, x5, x6, x7 = x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]
    a0, a1, a2, a3, a4, a5, a6, a7 = a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]
    b0, b1, b2, b3, b4, b5, b6, b7 = b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]
    for r in range(len(s) // VECTORS * VECTORS):
        s[r] = (a0 * x0[r] + a1 * x1[r] + a2 * x2[r] + a3 * x3[r]) + (a4 * x4[r] + a5 * x5[r] + a6 * x6[r] + a7 * x7[r])
        t[r] = (b0 * x0[r] + b1 * x1[r] + b2 * x2[r] + b3 * x3[r]) + (b4 * x4[r] + b5 * x5[r] + b6 * x6[r] + b7 * x7[r])


@helper
def _add_eight(a: Any, b: Any, x: Any, s: Any, t: Any) -> None:
    x0, x1, x2, x3, x4, x5, x6, x7 = x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]
    a0, a1, a2, a3, a4, a5, a6, a7 = a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]
    b0, b1, b2, b3, b4, b5, b6, b7 = b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]
    for r in range(len(s) // VECTORS * VECTORS):
        u, v = s[r] + a0 * x0[r] + a1 * x1[r] + a2 * x2[r] + a3 * x3[r], a4 * x4[r] + a5 * x5[r] + a6 * x6[r] + a7 * x7[r]
        w, z = t[r] + b0 * x0[r] + b1 * x1[r] + b2 * x2[r] + b3 * x3[r], b4 * x4[r] + b5 * x5[r] + b6 * x6[r] + b7 * x7[r]
        s[r], t[r] = u + v, w + z


@helper
def _add_four(a: Any, b: Any, x: Any, s: Any, t: Any) -> None:
    x0, x1, x2, x3 = x[0], x[1], x[2], x[3]
    a0, a1, a2, a3, b0, b1, b2, b3 = a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]
    for r in range(len(s) // VECTORS * VECTORS):
        s[r] += a0 * x0[r] + a1 * x1[r] + a2 * x2[r] + a3 * x3[r]
        t[r] += b0 * x0[r] + b1 * x1[r] + b2 * x2[r] + b3 * x3[r]


@rounded_helper
def _decide_part(
    XT: Points,
    start: int,
    first: int,
    m: int,
    products: Any,
    constants: Any,
    norms: Any,
    C: FloatArray,
    squared_radius: float,
    share: float,
    most: float,
    labels: Labels,
    scratch: Any,
    integers: Any,
    record: FloatArray,
) -> int:
    """Do as `decide` for the records from `first` on, whose products are (chunks, centroids of a chunk, R) and norms (R,)."""
    chunks, size, R = products.shape
    best, second, margin, found, doubts = scratch[0], scratch[1], scratch[2], integers[0], integers[1]
    radius, top, none, zero = np.float32(squared_radius), np.float32(most), np.int32(len(C)), np.float32(0)
    two, wide = np.float32(2.02 * share), np.float32(8.4 * share)
    best[:] = np.inf
    second[:] = np.inf
    found[:] = 0
    for chunk in range(chunks):
        _least_two(products[chunk], constants[chunk * size : (chunk + 1) * size], chunk * size, best, second, found)
    for r in range(R):
        distance = norms[r] + best[r]
        margin[r] = two * norms[r] + min(top, wide * (norms[r] + max(distance, zero)))
        gap = min(second[r] - best[r], abs(distance - radius))
        doubts[r] = np.int32(1) if gap < margin[r] else np.int32(0)
        found[r] = none if distance > radius else found[r]
    n = 0
    for r in range(min(R, m - first)):
        labels[first + r] = found[r]
        if doubts[r]:
            n += 1
            for j in range(len(record)):
                record[j] = np.float64(XT[j, start + first + r])
            labels[first + r] = _exact_label(record, products[:, :, r], constants, best[r] + margin[r], C, squared_radius)
    return n


@helper
def _exact_label(record: FloatArray, products: Any, constants: Any, limit: float, C: FloatArray, squared_radius: float) -> int:
    """Label by squared distances, which are exact integers, to the centroids whose scores are at most `limit`."""
    least, label = np.inf, len(C)
    chunks, size = products.shape
    for chunk in range(chunks):
        for i in range(min(size, len(C) - chunk * size)):
            c = chunk * size + i
            if products[chunk, i] + constants[c] <= limit:
                centroid, square = C[c], 0.0
                for j in range(len(record)):
                    square += (record[j] - centroid[j]) * (record[j] - centroid[j])
                if square < least:
                    least, label = square, c
    return label if least <= squared_radius else len(C)


@helper
def _least_two(products: Any, constants: Any, start: int, best: Any, second: Any, found: Labels) -> None:
    """Take the scores products + constants (centroids, R) of further centroids, from the `start`-th on, into account."""
    last = len(products) // 4 * 4
    for c in range(0, last, 4):
        p0, p1, p2, p3 = products[c], products[c + 1], products[c + 2], products[c + 3]
        n0, n1, n2, n3 = constants[c], constants[c + 1], constants[c + 2], constants[c + 3]
        i0 = np.int32(start + c)
        i1, i2, i3 = np.int32(i0 + 1), np.int32(i0 + 2), np.int32(i0 + 3)
        for r in range(len(best)):
            s, t, u, v = p0[r] + n0, p1[r] + n1, p2[r] + n2, p3[r] + n3
            low, high, a = min(s, t), max(s, t), i0 if s <= t else i1
            less, more, b = min(u, v), max(u, v), i2 if u <= v else i3
            lowest, label = min(low, less), a if low <= less else b
            next_one = min(max(low, less), high, more)
            second[r] = min(second[r], next_one, max(best[r], lowest))
            found[r] = label if lowest < best[r] else found[r]
            best[r] = min(best[r], lowest)
    for c in range(last, len(products)):
        row, constant, i = products[c], constants[c], np.int32(start + c)
        for r in range(len(best)):
            s = row[r] + constant
            second[r] = min(second[r], max(best[r], s))
            found[r] = i if s < best[r] else found[r]
            best[r] = min(best[r], s)
