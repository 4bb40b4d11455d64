"""Loops before and after the matrix products of `clustering/filter.py`.

They convert records to float32, and scores to labels. Records are in parts of R records each. A
part is stored feature by feature (parts, d, R) or record by record (parts, R, d). Loops over the
records of a part have no branches, so the compiler can use vector instructions. A doubtful record
is processed singly.
"""

from typing import Any

import numpy as np
from numba import types

from fastlloyd.base.jit import (
    INTEGER,
    LABELS,
    REAL,
    RECORDS,
    Labels,
    Points,
    helper,
    inlined,
    kernel,
)

_F, _F3, _F4 = types.float32[::1], types.float32[:, :, ::1], types.float32[:, :, :, ::1]
# records and features that are turned together: as many records as make a line of the cache
TILE, TILE_FEATURES = 16, 64


@kernel(types.void(RECORDS, INTEGER, INTEGER, _F3, _F))
def load_features(XT: Points, start: int, m: int, block: Any, squares: Any) -> None:
    """Set `block` (parts, d, R) to the records XT[:, start:start + m], and `squares` to their
    squared norms.
    """
    parts, d, R = block.shape
    squares[:] = 0
    if m < parts * R:
        block[:] = 0
    for j in range(0, d - 3, 4):
        for first in range(0, m, R):
            n, p = min(R, m - first), first // R
            _load_four(
                XT[j : j + 4], start + first, block[p, j : j + 4], squares[first : first + n]
            )
    for j in range(d // 4 * 4, d):
        for first in range(0, m, R):
            feature, target, norms = (
                XT[j, start + first : start + m],
                block[first // R, j],
                squares[first : first + R],
            )
            for r in range(min(R, m - first)):
                x = np.float32(feature[r])
                target[r] = x
                norms[r] += x * x


@helper
def _load_four(XT: Points, start: int, target: Any, norms: Any) -> None:
    n = len(norms)
    x0, x1, x2, x3 = (
        XT[0, start : start + n],
        XT[1, start : start + n],
        XT[2, start : start + n],
        XT[3, start : start + n],
    )
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
    """Set `block` (parts, R, d) to the records X[start:start + m], and `squares` to their squared
    norms.
    """
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
    """Set `block` (parts, d, R), feature by feature, to the records X[start:start + m].

    squares : output, squared norms of the records, (parts R,).
    """
    _, d, R = block.shape
    tile = np.zeros((TILE, TILE_FEATURES), np.float32)
    squares[:] = 0
    if m < len(squares):
        block[:] = 0
    for first in range(0, len(squares), R):
        for some in range(first, min(first + R, m), TILE):
            n = min(TILE, first + R - some, m - some)
            for j in range(0, d, TILE_FEATURES):
                width = min(TILE_FEATURES, d - j)
                for r in range(n):
                    squares[some + r] += _load_part(X[start + some + r, j : j + width], tile[r])
                _turn(tile, block[first // R, j : j + width, some - first : some - first + n])


@inlined
def _load_part(record: Any, row: Any) -> Any:
    square = np.float32(0)
    for j in range(len(record)):
        x = np.float32(record[j])
        row[j] = x
        square += x * x
    return square


@inlined
def _turn(tile: Any, target: Any) -> None:
    """Set `target` (features, n) to the transpose of n rows of the tile."""
    for j in range(len(target)):
        column = target[j]
        if len(column) == TILE:  # a number that the compiler knows
            for r in range(TILE):
                column[r] = tile[r, j]
        else:
            for r in range(len(column)):
                column[r] = tile[r, j]


@kernel(
    types.int64(
        INTEGER, INTEGER, _F4, _F, _F, INTEGER, REAL, REAL, REAL, LABELS, _F, LABELS, INTEGER
    ),
    exact=False,
)
def propose(
    first: int,
    m: int,
    products: Any,
    constants: Any,
    squares: Any,
    k: int,
    squared_radius: float,
    share: float,
    most: float,
    labels: Labels,
    limits: Any,
    doubtful: Labels,
    n: int,
) -> int:
    """Label the records of a block with their nearest centroids, and list the doubtful records.

    A record is doubtful if rounding could change its label. The function appends doubtful records
    to the first n entries of `doubtful`, and returns the new number of entries.

    first : position of the first record of this call in `squares`, `labels` and `limits`.
    m : number of records in the block. The rest of the last part is padding.
    products : A X^T, float32 (chunks, parts, centroids of a chunk, R), for R records in each part.
    constants : constant of each centroid. A score is the product plus this constant.
    squares : |x|^2 of each record.
    k : number of centroids, and the label of a record outside the radius.
    squared_radius : square of the radius.
    share : bound e of the relative rounding error.
    most : 4 e times the largest |c|^2.
    labels : output, the label of each record.
    limits : output, the largest score that the nearest centroid of each record may have.
    doubtful : output, positions of doubtful records.
    n : number of entries that `doubtful` has before the call.
    """
    chunks, parts, size, R = products.shape
    scratch, integers = np.empty((2, R), np.float32), np.empty((2, R), np.int32)
    best, second, found, doubts = scratch[0], scratch[1], integers[0], integers[1]
    radius, top, none, zero = (
        np.float32(squared_radius),
        np.float32(most),
        np.int32(k),
        np.float32(0),
    )
    two, wide = np.float32(2.02 * share), np.float32(8.4 * share)
    for p in range(parts):
        best[:] = np.inf
        second[:] = np.inf
        found[:] = 0
        for chunk in range(chunks):
            of_chunk = constants[chunk * size : (chunk + 1) * size]
            _least_two(products[chunk, p], of_chunk, chunk * size, best, second, found)
        start = first + p * R
        norms, mine, highest = (
            squares[start : start + R],
            labels[start : start + R],
            limits[start : start + R],
        )
        for r in range(R):
            distance = norms[r] + best[r]
            margin = two * norms[r] + min(top, wide * (norms[r] + max(distance, zero)))
            gap = min(second[r] - best[r], abs(distance - radius))
            doubts[r] = np.int32(1) if gap < margin else np.int32(0)
            mine[r] = none if distance > radius else found[r]
            highest[r] = best[r] + margin
        for r in range(min(R, m - start)):
            doubtful[n] = np.int32(start + r)
            n += doubts[r]
    return n


@helper
def _least_two(
    products: Any, constants: Any, start: int, best: Any, second: Any, found: Labels
) -> None:
    """Update the two smallest scores of each record with the scores of further centroids.

    products : products of these centroids, (centroids, R). A score is products + constants.
    start : index of the first of these centroids.
    best, second, found : smallest score, second smallest score, and centroid with the smallest
        score.
    """
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
