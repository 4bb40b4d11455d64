"""Sums and counts of the records of each cluster, for given labels.

For two features and few clusters no labels are needed.
"""

import numpy as np
from numba import types
from numpy.typing import NDArray

from fastlloyd.base.arrays import FloatArray, IntArray
from fastlloyd.base.jit import (
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
from fastlloyd.clustering.compiled.distances import feature_keys

_Unsigned = NDArray[np.uint32]  # labels of which the compiler need not expect that one is negative
# of sums: neighbouring records of one cluster go to different ones, so that none waits for the
# other
COPIES = 2
# of records: they, the pairs of eight of their features and their labels stay in the innermost
# cache
PAIRED_ROWS = 512
MASKED_ROWS = 2048  # of records: they, two features of theirs and their labels do
_GIVEN, _TOTALS = read(types.int32, 1), types.int64[:, ::1]


@kernel(types.void(RECORDS, INTEGER, _GIVEN, _TOTALS))
def add_rows(X: Points, start: int, labels: Labels, totals: IntArray) -> None:
    """Add each of the records X[start:] to the total of its label, and 1 to the total's last
    column.

    totals : int64 (k + 1, d + 1).
    """
    d = X.shape[1]
    for r in range(len(labels)):
        record, total = X[start + r], totals[labels[r]]
        for j in range(d):
            total[j] += np.int64(record[j])
        total[d] += 1


@kernel(types.void(RECORDS, INTEGER, _GIVEN, _TOTALS, INTEGER))
def add_features(XT: Points, start: int, labels: Labels, totals: IntArray, room: int) -> None:
    """Add records XT (d, n) to totals as `add_rows` does, two columns u and v at a time.

    The two columns are added as u + 2^32 v. The sums of u and of v follow from the sum of these
    numbers.

    room : number of coordinates whose sum fits 32 bits.
    """
    d, n_pairs, k = len(XT), len(XT) // 2 + 1, len(totals)
    pairs, block = np.zeros((COPIES, k, n_pairs), np.int64), np.empty((4, PAIRED_ROWS), np.int64)
    line, rows = pairs.reshape(pairs.size), min(PAIRED_ROWS, room)
    left = room
    for first in range(0, len(labels), rows):
        owners = labels[first : first + rows].view(np.uint32)
        here = start + first
        end = here + len(owners)
        for p in range(0, d // 2 - 3, 4):
            for i in range(4):
                _pair(XT[2 * (p + i), here:end], XT[2 * (p + i) + 1, here:end], block[i])
            _add_four_pairs(block, owners, line, k, n_pairs, p)
        for p in range(d // 8 * 4, d // 2):
            _pair(XT[2 * p, here:end], XT[2 * p + 1, here:end], block[0])
            _add_pair(block[0], owners, line, k, n_pairs, p)
        for r in range(len(owners)):
            block[0, r] = np.int64(XT[d - 1, here + r]) + (1 << 32) if d % 2 else 1
        _add_pair(block[0], owners, line, k, n_pairs, n_pairs - 1)
        left -= len(owners)
        if left < rows or first + rows >= len(labels):
            _add_pairs_up(pairs, totals)
            left = room


@helper
def _pair(u: Points, v: Points, block: IntArray) -> None:
    for r in range(len(u)):
        block[r] = np.int64(u[r]) + (np.int64(v[r]) << 32)


@helper
def _add_four_pairs(
    block: IntArray, owners: _Unsigned, line: IntArray, k: int, width: int, p: int
) -> None:
    b0, b1, b2, b3 = block[0], block[1], block[2], block[3]
    for r in range(len(owners)):
        place = (np.intp(owners[r]) + r % COPIES * k) * width + p
        u, v, w, z = b0[r], b1[r], b2[r], b3[r]
        line[place] += u
        line[place + 1] += v
        line[place + 2] += w
        line[place + 3] += z


@helper
def _add_pair(
    block: IntArray, owners: _Unsigned, line: IntArray, k: int, width: int, p: int
) -> None:
    for r in range(len(owners)):
        line[(np.intp(owners[r]) + r % COPIES * k) * width + p] += block[r]


@helper
def _add_pairs_up(pairs: IntArray, totals: IntArray) -> None:
    """Add the two sums of each pair to the totals, and set the pairs to 0."""
    k, width = totals.shape
    for c in range(k):
        for j in range(width):
            both = pairs[0, c, j // 2] + pairs[1, c, j // 2]
            u = np.int64(np.int32(both))
            totals[c, j] += (both - u) >> 32 if j % 2 else u
    pairs[:] = 0


@kernel(types.void(RECORDS, INTEGER, _GIVEN, _TOTALS, INTEGER))
def add_masked(XT: Points, start: int, labels: Labels, totals: IntArray, room: int) -> None:
    """Add records to totals, with the same result as `add_features`.

    Each record is added to the total of its cluster, and 0 to the totals of all other clusters. For
    few clusters this function is faster than `add_features`.
    """
    d, k, rows = len(XT), len(totals) - 1, min(MASKED_ROWS, room)
    for first in range(0, len(labels), rows):
        owners = labels[first : first + rows]
        here = start + first
        end = here + len(owners)
        for c in range(0, k, 4):
            for i in range(c, min(c + 4, k)):
                totals[i, d] += np.int64(_members(owners, np.int32(i)))
            for j in range(0, d, 2):
                last = min(j + 1, d - 1)
                found = _two_by_four(XT[j, here:end], XT[last, here:end], owners, c)
                for i in range(min(4, k - c)):
                    totals[c + i, j] += np.int64(found[i][0])
                    if last > j:
                        totals[c + i, last] += np.int64(found[i][1])


@helper
def _members(owners: Labels, c: np.int32) -> np.int32:
    """Return the number of records whose label is c."""
    n = np.int32(0)
    for r in range(len(owners)):
        n = np.int32(n + (np.int32(1) if owners[r] == c else np.int32(0)))
    return n


@helper
def _two_by_four(
    x: Points, y: Points, owners: Labels, c: int
) -> tuple[tuple[np.int32, np.int32], ...]:
    """Return the sums of two features over the records of the clusters c to c + 3."""
    x0, x1, x2, x3 = np.int32(0), np.int32(0), np.int32(0), np.int32(0)
    y0, y1, y2, y3 = np.int32(0), np.int32(0), np.int32(0), np.int32(0)
    c0, c1, c2, c3, none = (
        np.int32(c),
        np.int32(c + 1),
        np.int32(c + 2),
        np.int32(c + 3),
        np.int32(0),
    )
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


@kernel(types.int64[:, ::1](RECORDS, INTEGER, INTEGER, CENTROIDS, REAL, REAL))
def plane_statistics(
    XT: Points, start: int, stop: int, centroids: IntArray, L: float, squared_radius: float
) -> IntArray:
    """Return, for each cluster, the sums of two features and the number of records within the
    radius, int64 (k, 3). The records are XT[:, start:stop].

    The last column has the counts. The sums are of the records themselves, not of offsets.

    XT : records feature by feature, (2, n).
    centroids : centroids, at most 4 and at most L (`distances.group_size`).
    """
    A, constants, _ = feature_keys(centroids, L)
    totals, found = np.zeros((4, 3)), np.zeros((len(centroids), 3), np.int64)
    if len(centroids) <= 2:
        _add_two_clusters(
            XT[0, start:stop], XT[1, start:stop], A, constants, L, squared_radius, totals
        )
    else:
        _add_four_clusters(
            XT[0, start:stop], XT[1, start:stop], A, constants, L, squared_radius, totals
        )
    for c in range(len(centroids)):
        for j in range(3):
            found[c, j] = np.int64(totals[c, j])
    return found


@helper
def _add_two_clusters(
    x: Points,
    y: Points,
    A: FloatArray,
    constants: FloatArray,
    L: float,
    squared_radius: float,
    totals: FloatArray,
) -> None:
    """Set `totals` to sums and counts of two features for up to two clusters, all in registers.

    In the code, `in0` is 1 for a record of the first cluster, otherwise 0.
    """
    n0, n1, a0, a1, b0, b1, share = (
        constants[0],
        constants[1],
        A[0, 0],
        A[1, 0],
        A[0, 1],
        A[1, 1],
        1.0 / L,
    )
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
    x: Points,
    y: Points,
    A: FloatArray,
    constants: FloatArray,
    L: float,
    squared_radius: float,
    totals: FloatArray,
) -> None:
    """Set `totals` for three or four clusters, as `_add_two_clusters` does for two."""
    n0, n1, n2, n3, share = constants[0], constants[1], constants[2], constants[3], 1.0 / L
    a0, a1, a2, a3 = A[0, 0], A[1, 0], A[2, 0], A[3, 0]
    b0, b1, b2, b3 = A[0, 1], A[1, 1], A[2, 1], A[3, 1]
    x0, y0, c0, x1, y1, c1 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    x2, y2, c2, x3, y3, c3 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for r in range(len(x)):
        p, q = np.float64(x[r]), np.float64(y[r])
        square = p * p + q * q
        u, v, w, z = (
            n0 + a0 * p + b0 * q,
            n1 + a1 * p + b1 * q,
            n2 + a2 * p + b2 * q,
            n3 + a3 * p + b3 * q,
        )
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
