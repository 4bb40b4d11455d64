"""Sums and counts of the records of each cluster, by the labels of `distances.py` or by given ones."""

import numpy as np
from numba import types
from numpy.typing import NDArray

from fastlloyd.base.arrays import FloatArray, IntArray
from fastlloyd.clustering.compiled.distances import block_labels, feature_keys, load_features, whole
from fastlloyd.clustering.compiled.jit import (
    CENTROIDS,
    INTEGER,
    REAL,
    RECORDS,
    Labels,
    Points,
    helper,
    kernel,
    read,
)

Totals = NDArray[np.int32]
_Unsigned = NDArray[np.uint32]  # labels of which the compiler need not expect that one is negative
COPIES = 2
PAIRED_ROWS = 512  # of records whose pairs stay there, too
MASKED_ROWS = 2048  # of records: they, two features of theirs and their labels stay in the innermost cache
_GIVEN, _TOTALS = read(types.int32, 1), types.int32[:, ::1]


@kernel(types.int64[:, ::1](RECORDS, INTEGER, INTEGER, CENTROIDS, REAL, REAL, INTEGER))
def feature_statistics(
    XT: Points, start: int, stop: int, centroids: IntArray, L: float, squared_radius: float, rows: int
) -> IntArray:
    """Absolute sums and, in the last column, counts (k, d + 1) of the records of XT[:, start:stop] within the radius.

    XT : int32 (d, n), worked on in blocks of `rows` records.
    A feature that is 1 for all records stands behind the last one: its sums are the counts.
    """
    k, d = centroids.shape
    A, constants, group = feature_keys(centroids, L)
    totals = np.zeros((d // 4 + 1, 4, k + 1, 4))  # four copies; index k takes the records beyond the radius
    if d == 2 and k <= 2 and group == len(constants):
        _add_two_clusters(XT[0, start:stop], XT[1, start:stop], A, constants, L, squared_radius, totals[0, 0])
        return _integers(totals, k, d)
    if d == 2 and k <= 4 and group == len(constants):
        _add_four_clusters(XT[0, start:stop], XT[1, start:stop], A, constants, L, squared_radius, totals[0, 0])
        return _integers(totals, k, d)
    width = whole(rows)
    block, scratch = np.zeros((d // 4 * 4 + 4, width)), np.empty((4, width))
    block[d] = 1.0
    points, labels = block[: A.shape[1]], np.empty(width, np.int32)
    for first in range(start, stop, rows):
        m = min(rows, stop - first)
        load_features(XT, first, m, block, scratch[0])
        block_labels(points, scratch, A, constants, group, L, squared_radius, k, labels, m)
        labels[m : (m + 3) // 4 * 4] = k  # what an earlier block left behind the last record
        for four in range(d // 4):
            _add_four(block[4 * four : 4 * four + 4], labels.view(np.uint32), totals[four].reshape(totals[four].size), m)
        _add_rest(block[d // 4 * 4 :], labels.view(np.uint32), totals[d // 4].reshape(totals[d // 4].size), d % 4, m)
    return _integers(totals, k, d)


@kernel(types.void(RECORDS, INTEGER, _GIVEN, _TOTALS))
def add_rows(X: Points, start: int, labels: Labels, totals: Totals) -> None:
    """Add the records X[start:] to the totals (k + 1, d + 1) of their labels, and 1 to their last column."""
    d = X.shape[1]
    for r in range(len(labels)):
        record, total = X[start + r], totals[labels[r]]
        for j in range(d):
            total[j] = np.int32(total[j] + record[j])
        total[d] = np.int32(total[d] + 1)


@kernel(types.void(RECORDS, INTEGER, _GIVEN, _TOTALS))
def add_features(XT: Points, start: int, labels: Labels, totals: Totals) -> None:
    """Do as `add_rows` with records XT (d, n), two columns at a time: as u + 2^32 v, whose sums tell those of u and of v."""
    d, n_pairs = len(XT), len(XT) // 2 + 1
    pairs, block = np.zeros((COPIES, len(totals), n_pairs), np.int64), np.empty((4, PAIRED_ROWS), np.int64)
    line, size = pairs.reshape(pairs.size), len(totals)
    for first in range(0, len(labels), PAIRED_ROWS):
        owners = labels[first : first + PAIRED_ROWS].view(np.uint32)
        here = start + first
        end = here + len(owners)
        for p in range(0, d // 2 - 3, 4):
            for i in range(4):
                _pair(XT[2 * (p + i), here:end], XT[2 * (p + i) + 1, here:end], block[i])
            _add_four_pairs(block, owners, line, size, n_pairs, p)
        for p in range(d // 8 * 4, d // 2):
            _pair(XT[2 * p, here:end], XT[2 * p + 1, here:end], block[0])
            _add_pair(block[0], owners, line, size, n_pairs, p)
        for r in range(len(owners)):
            block[0, r] = np.int64(XT[d - 1, here + r]) + (1 << 32) if d % 2 else 1
        _add_pair(block[0], owners, line, size, n_pairs, n_pairs - 1)
    for c in range(len(totals)):
        for j in range(d + 1):
            both = pairs[0, c, j // 2] + pairs[1, c, j // 2]
            u = np.int64(np.int32(both))  # sums fit 32 bits
            totals[c, j] = np.int32(totals[c, j] + ((both - u) >> 32 if j % 2 else u))


@helper
def _pair(u: Points, v: Points, block: IntArray) -> None:
    for r in range(len(u)):
        block[r] = np.int64(u[r]) + (np.int64(v[r]) << 32)


@helper
def _add_four_pairs(block: IntArray, owners: _Unsigned, line: IntArray, size: int, width: int, p: int) -> None:
    b0, b1, b2, b3 = block[0], block[1], block[2], block[3]
    for r in range(len(owners)):
        place = (np.intp(owners[r]) + r % COPIES * size) * width + p
        u, v, w, z = b0[r], b1[r], b2[r], b3[r]
        line[place] += u
        line[place + 1] += v
        line[place + 2] += w
        line[place + 3] += z


@helper
def _add_pair(block: IntArray, owners: _Unsigned, line: IntArray, size: int, width: int, p: int) -> None:
    for r in range(len(owners)):
        line[(np.intp(owners[r]) + r % COPIES * size) * width + p] += block[r]


@kernel(types.void(RECORDS, INTEGER, _GIVEN, _TOTALS))
def add_masked(XT: Points, start: int, labels: Labels, totals: Totals) -> None:
    """Do as `add_features`, but add 0 to the totals of other clusters than a record's own: faster for few clusters."""
    d, k = len(XT), len(totals) - 1
    for first in range(0, len(labels), MASKED_ROWS):
        owners = labels[first : first + MASKED_ROWS]
        here = start + first
        end = here + len(owners)
        for c in range(0, k, 4):
            for i in range(c, min(c + 4, k)):
                totals[i, d] = np.int32(totals[i, d] + _members(owners, np.int32(i)))
            for j in range(0, d, 2):
                last = min(j + 1, d - 1)
                found = _two_by_four(XT[j, here:end], XT[last, here:end], owners, c)
                for i in range(min(4, k - c)):
                    totals[c + i, j] = np.int32(totals[c + i, j] + found[i][0])
                    if last > j:
                        totals[c + i, last] = np.int32(totals[c + i, last] + found[i][1])


@helper
def _members(owners: Labels, c: np.int32) -> np.int32:
    """How many records belong to a cluster."""
    n = np.int32(0)
    for r in range(len(owners)):
        n = np.int32(n + (np.int32(1) if owners[r] == c else np.int32(0)))
    return n


@helper
def _two_by_four(x: Points, y: Points, owners: Labels, c: int) -> tuple[tuple[np.int32, np.int32], ...]:
    """Sums of two features over the records of the clusters c to c + 3, in registers."""
    x0, x1, x2, x3 = np.int32(0), np.int32(0), np.int32(0), np.int32(0)
    y0, y1, y2, y3 = np.int32(0), np.int32(0), np.int32(0), np.int32(0)
    c0, c1, c2, c3, none = np.int32(c), np.int32(c + 1), np.int32(c + 2), np.int32(c + 3), np.int32(0)
    for r in range(len(owners)):
        owner, u, v = owners[r], x[r], y[r]
        x0 = np.int32(x0 + (u if owner == c0 else none))
        x1 = np.int32(x1 + (u if owner == c1 else none))
        x2 = np.int32(x2 + (u if owner == c2 else none))
        x3 = np.int32(x3 + (u if owner == c3 else none))
        y0 = np.int32(y0 + (v if owner == c0 else none))
        y1 = np.int32(y1 + (v if owner == c1 else none))
        y2 = np.int32(y2 + (v if owner == c2 else none))
        y3 = np.int32(y3 + (v if owner == c3 else none))
    return (x0, y0), (x1, y1), (x2, y2), (x3, y3)


@helper
def _integers(totals: FloatArray, k: int, d: int) -> IntArray:
    """Add up the copies of all totals: int64 (k, d + 1)."""
    found = np.zeros((k, d + 1), np.int64)
    for c in range(k):
        for copy in range(4):
            for j in range(d + 1):
                found[c, j] += np.int64(totals[j // 4, copy, c, j % 4])
    return found


@helper
def _add_four(x: FloatArray, labels: _Unsigned, totals: FloatArray, m: int) -> None:
    """Add four features of each record to the total of its label.

    x : (4, rows), rows a multiple of 4, and labels up to the next multiple of m. totals : (4, k + 1, 4) as one line.
    Neighbouring records of one cluster go to different copies of its total, so that none waits for another.
    """
    x0, x1, x2, x3 = x[0], x[1], x[2], x[3]
    size = len(totals) // 4
    for r in range(0, m, 4):
        for copy in range(4):
            place = copy * size + 4 * np.intp(labels[r + copy])
            totals[place] += x0[r + copy]
            totals[place + 1] += x1[r + copy]
            totals[place + 2] += x2[r + copy]
            totals[place + 3] += x3[r + copy]


@helper
def _add_rest(x: FloatArray, labels: _Unsigned, totals: FloatArray, n: int, m: int) -> None:
    """Add the last n features, 0 to 3, and the 1 that stands behind them, as `_add_four` adds four."""
    x0, x1, x2, x3 = x[0], x[1], x[2], x[3]
    size = len(totals) // 4
    for r in range(0, m, 4):
        for copy in range(4):
            place = copy * size + 4 * np.intp(labels[r + copy])
            totals[place] += x0[r + copy]
            if n > 0:
                totals[place + 1] += x1[r + copy]
            if n > 1:
                totals[place + 2] += x2[r + copy]
            if n > 2:
                totals[place + 3] += x3[r + copy]


@helper
def _add_two_clusters(
    x: Points, y: Points, A: FloatArray, constants: FloatArray, L: float, squared_radius: float, totals: FloatArray
) -> None:
    """Set the sums and counts of two features and up to two clusters in totals (k + 1, 4), all within registers.

    `in0` is 1 for a record of the first cluster, otherwise 0.
    """
    n0, n1, a0, a1, b0, b1, share = constants[0], constants[1], A[0, 0], A[1, 0], A[0, 1], A[1, 1], 1.0 / L
    x0, y0, c0, x1, y1, c1 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for r in range(len(x)):
        p, q = np.float64(x[r]), np.float64(y[r])
        square, u, v = p * p + q * q, n0 + a0 * p + b0 * q, n1 + a1 * p + b1 * q
        best = min(u, v)
        within = 1.0 if square + np.floor(best * share) <= squared_radius else 0.0
        in0, in1 = within if u == best else 0.0, within if v == best else 0.0
        x0 += in0 * p
        y0 += in0 * q
        c0 += in0
        x1 += in1 * p
        y1 += in1 * q
        c1 += in1
    totals[0, 0], totals[0, 1], totals[0, 2] = x0, y0, c0
    totals[1, 0], totals[1, 1], totals[1, 2] = x1, y1, c1


@helper
def _add_four_clusters(
    x: Points, y: Points, A: FloatArray, constants: FloatArray, L: float, squared_radius: float, totals: FloatArray
) -> None:
    """Set the sums and counts of two features and three or four clusters, as `_add_two_clusters` does."""
    n0, n1, n2, n3, share = constants[0], constants[1], constants[2], constants[3], 1.0 / L
    a0, a1, a2, a3 = A[0, 0], A[1, 0], A[2, 0], A[3, 0]
    b0, b1, b2, b3 = A[0, 1], A[1, 1], A[2, 1], A[3, 1]
    x0, y0, c0, x1, y1, c1 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    x2, y2, c2, x3, y3, c3 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for r in range(len(x)):
        p, q = np.float64(x[r]), np.float64(y[r])
        square = p * p + q * q
        u, v, w, z = n0 + a0 * p + b0 * q, n1 + a1 * p + b1 * q, n2 + a2 * p + b2 * q, n3 + a3 * p + b3 * q
        best = min(min(u, v), min(w, z))  # noqa: PLW3301 - a tree: two of them at the same time
        within = 1.0 if square + np.floor(best * share) <= squared_radius else 0.0
        in0, in1 = within if u == best else 0.0, within if v == best else 0.0
        in2, in3 = within if w == best else 0.0, within if z == best else 0.0
        x0 += in0 * p
        y0 += in0 * q
        c0 += in0
        x1 += in1 * p
        y1 += in1 * q
        c1 += in1
        x2 += in2 * p
        y2 += in2 * q
        c2 += in2
        x3 += in3 * p
        y3 += in3 * q
        c3 += in3
    totals[0, 0], totals[0, 1], totals[0, 2] = x0, y0, c0
    totals[1, 0], totals[1, 1], totals[1, 2] = x1, y1, c1
    totals[2, 0], totals[2, 1], totals[2, 2] = x2, y2, c2
    totals[3, 0], totals[3, 1], totals[3, 2] = x3, y3, c3
