"""Nearest centroid of every record with few features, up to `kernels.KEYED_FEATURES`.

Records are processed feature by feature in blocks that stay in the cache. So the compiler turns
every loop over records into vector instructions. A block is a whole number of vectors long, so no
record is processed singly. All numbers are integers below 2**53 in float64. Sums and products are
exact in any order. So the compiler may choose the order (its options "reassoc" and "contract")
without a change of the result.

Centroids are in groups of L, a power of two. The key of a record x and a centroid c orders the
centroids of a group by distance and then by index:

    key = L (|c|^2 - 2 x.c) + index of c in its group.

The smallest key is that of the nearest centroid (ties: lowest index), and its low digits are the
label. The rest of the key is the score. Of two groups, the later one is chosen only if its score is
smaller. L follows from the centroids and from the range in which records *may* lie, so that every
key is exact (`group_size`). So the code treats all records in the same way.
"""

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
    kernel,
    kernel_by_width,
    read,
)

_EXACT = float(1 << 53)
WIDTHS = (2, 4, 5, 6, 8)  # for so many features there are loops
Width = tuple[int, ...]  # of which only the length counts, for the compiler
# records that fill vectors of any size, several times; the compiler sees that loops leave none over
VECTORS = 64


@kernel(REAL(CENTROIDS, read(types.int64, 1)))
def group_size(centroids: IntArray, limits: IntArray) -> float:
    """Return the group size L for records x with |x_j| <= limits[j].

    L is the largest power of two with L (|c|^2 + 2 |x|.|c| + 1) <= 2**53 for every centroid c. This
    inequality bounds all keys, and all sums from which they are computed. L is at most the number
    of centroids, rounded up to a power of two. If `limits` is empty, only (|x| + |c|)^2 < 2**53 is
    known, and L is 1.

    limits : bounds of the coordinates, int64 (d,) or empty.
    """
    k, d = centroids.shape
    reach = 0.0
    for c in range(k):
        size = 0.0
        for j in range(len(limits)):
            x = np.abs(np.float64(centroids[c, j]))
            size += x * (x + 2.0 * np.float64(limits[j]))
        reach = max(reach, size)
    L = 1.0
    while len(limits) == d and k > L and 2.0 * L * (reach + 1.0) <= _EXACT:
        L *= 2.0
    return L


@kernel_by_width(
    WIDTHS,
    lambda width: types.void(
        RECORDS, INTEGER, INTEGER, CENTROIDS, REAL, REAL, INTEGER, LABELS, width
    ),
)
def feature_labels(
    XT: Points,
    start: int,
    stop: int,
    centroids: IntArray,
    L: float,
    squared_radius: float,
    rows: int,
    labels: Labels,
    width: Width,
) -> None:
    """Set the label of each record of XT[:, start:stop] to its nearest centroid, or to k beyond the
    radius.

    XT : records feature by feature, (d, n), processed in blocks of `rows` records.
    L : result of `group_size`.
    labels : output, (stop - start,).
    width : tuple of length `columns(d)`, from which the compiler knows the number of features.
    """
    A, constants, group = feature_keys(centroids, L)
    block, scratch = np.zeros((A.shape[1], whole(rows))), np.empty((4, whole(rows)))
    for first in range(start, stop, rows):
        m = min(rows, stop - first)
        load_features(XT, first, m, block, scratch[0])
        block_labels(
            block,
            scratch,
            A,
            constants,
            group,
            L,
            squared_radius,
            len(centroids),
            labels[first - start :],
            m,
            width,
        )


@helper
def feature_keys(centroids: IntArray, L: float) -> tuple[FloatArray, FloatArray, int]:
    """Return A, constants, and the number of rows in a group of centroids. The keys of a record x
    are A x + constants.

    Groups are padded with centroids whose keys are infinite, to a multiple of the number of rows
    that `least_keys` processes together. Centroids are padded with zeros to as many features as
    `block` has.
    """
    k, d = centroids.shape
    multiple, n_columns = 4 if d <= 2 else 2, columns(d)
    size = min(int(L), k)
    group = (size + multiple - 1) // multiple * multiple
    last = k - (k - 1) // size * size  # centroids in the last group
    n_rows = (k - 1) // size * group + (last + multiple - 1) // multiple * multiple
    A, constants = np.zeros((n_rows, n_columns)), np.full(n_rows, np.inf)
    for c in range(k):
        row, norm = c // size * group + c % size, 0.0
        for j in range(d):
            x = np.float64(centroids[c, j])
            A[row, j] = -2.0 * L * x
            norm += x * x
        constants[row] = L * norm + c % size
    return A, constants, group


@helper
def columns(d: int) -> int:
    """Return the smallest number of features, at least d, for which a loop exists."""
    return d if d == 5 else d + d % 2


@helper
def whole(m: int) -> int:
    """Return the smallest number of records, at least m, that fills whole vectors."""
    return (m + VECTORS - 1) // VECTORS * VECTORS


@helper
def load_features(XT: Points, start: int, m: int, block: FloatArray, squares: FloatArray) -> None:
    """Copy m records to `block` (features, rows), and their squared norms to `squares`."""
    squares[:m] = 0.0
    for j in range(XT.shape[0]):
        feature, target = XT[j, start : start + m], block[j]
        for r in range(m):
            x = np.float64(feature[r])
            target[r] = x
            squares[r] += x * x


@helper
def block_labels(
    block: FloatArray,
    scratch: FloatArray,
    A: FloatArray,
    constants: FloatArray,
    group: int,
    L: float,
    squared_radius: float,
    k: int,
    labels: Labels,
    m: int,
    width: Width,
) -> None:
    """Set the labels of the first m records of `block` (features, rows).

    The number of rows fills whole vectors.

    scratch : work array, whose first row contains the squared norms of the records.
    A, constants, group : results of `feature_keys`.
    """
    squares, best, scores, found = scratch[0], scratch[1], scratch[2], scratch[3]
    if group == len(constants):
        least_keys(block, A, constants, best, m, width)
        _labels_within(best, squares, L, squared_radius, k, labels, m)
        return
    scores[:m] = np.inf
    start = 0.0
    for first in range(0, len(constants), group):
        least_keys(
            block, A[first : first + group], constants[first : first + group], best, m, width
        )
        _keep_lesser(best, L, start, scores, found, m)
        start += L
    _found_within(scores, found, squares, squared_radius, k, labels, m)


@helper
def least_keys(
    block: FloatArray, A: FloatArray, constants: FloatArray, best: FloatArray, m: int, width: Width
) -> None:
    """Set best[r] to the smallest key of record r, for m records. The entries that fill the last
    vector are set, too.

    A, constants : results of `feature_keys`, or rows of one group of them.
    """
    n = whole(m)
    best[:n] = np.inf
    if len(width) == 2:
        _plane(block[0], block[1], A, constants, best, n)
    if len(width) == 4:
        for c in range(0, len(constants), 2):
            _four_features(block, constants[c], constants[c + 1], A[c], A[c + 1], best, n)
    if len(width) == 5:
        for c in range(0, len(constants), 2):
            _five_features(block, constants[c], constants[c + 1], A[c], A[c + 1], best, n)
    if len(width) == 6:
        for c in range(0, len(constants), 2):
            _six_features(block, constants[c], constants[c + 1], A[c], A[c + 1], best, n)
    if len(width) == 8:
        for c in range(0, len(constants), 2):
            _eight_features(block, constants[c], constants[c + 1], A[c], A[c + 1], best, n)


@helper
def _plane(
    x: FloatArray, y: FloatArray, A: FloatArray, constants: FloatArray, best: FloatArray, m: int
) -> None:
    """Compute the smallest keys for two features, four centroids at a time, all in registers."""
    for c in range(0, len(constants), 4):
        n0, n1, n2, n3 = constants[c], constants[c + 1], constants[c + 2], constants[c + 3]
        a0, a1, a2, a3 = A[c, 0], A[c + 1, 0], A[c + 2, 0], A[c + 3, 0]
        b0, b1, b2, b3 = A[c, 1], A[c + 1, 1], A[c + 2, 1], A[c + 3, 1]
        for r in range(m // VECTORS * VECTORS):
            u, v = n0 + a0 * x[r] + b0 * y[r], n1 + a1 * x[r] + b1 * y[r]
            w, z = n2 + a2 * x[r] + b2 * y[r], n3 + a3 * x[r] + b3 * y[r]
            # a tree: two of them at the same time
            best[r] = min(best[r], min(min(u, v), min(w, z)))  # noqa: PLW3301


@helper
def _four_features(
    x: FloatArray, u: float, v: float, a: FloatArray, b: FloatArray, best: FloatArray, m: int
) -> None:
    """Compute the smallest keys for four features and two centroids, in registers.

    u, v : constants of the two centroids.
    """
    x0, x1, x2, x3 = x[0], x[1], x[2], x[3]
    a0, a1, a2, a3, b0, b1, b2, b3 = a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]
    for r in range(m // VECTORS * VECTORS):
        s = u + a0 * x0[r] + a1 * x1[r] + a2 * x2[r] + a3 * x3[r]
        t = v + b0 * x0[r] + b1 * x1[r] + b2 * x2[r] + b3 * x3[r]
        best[r] = min(best[r], s, t)


@helper
def _five_features(
    x: FloatArray, u: float, v: float, a: FloatArray, b: FloatArray, best: FloatArray, m: int
) -> None:
    """Compute the smallest keys for five features, as `_four_features` does for four."""
    x0, x1, x2, x3, x4 = x[0], x[1], x[2], x[3], x[4]
    a0, a1, a2, a3, a4, b0, b1, b2, b3, b4 = (
        a[0],
        a[1],
        a[2],
        a[3],
        a[4],
        b[0],
        b[1],
        b[2],
        b[3],
        b[4],
    )
    for r in range(m // VECTORS * VECTORS):
        s = u + a0 * x0[r] + a1 * x1[r] + a2 * x2[r] + a3 * x3[r] + a4 * x4[r]
        t = v + b0 * x0[r] + b1 * x1[r] + b2 * x2[r] + b3 * x3[r] + b4 * x4[r]
        best[r] = min(best[r], s, t)


@helper
def _six_features(
    x: FloatArray, u: float, v: float, a: FloatArray, b: FloatArray, best: FloatArray, m: int
) -> None:
    """Compute the smallest keys for six features, as `_four_features` does for four."""
    x0, x1, x2, x3, x4, x5 = x[0], x[1], x[2], x[3], x[4], x[5]
    a0, a1, a2, a3, a4, a5 = a[0], a[1], a[2], a[3], a[4], a[5]
    b0, b1, b2, b3, b4, b5 = b[0], b[1], b[2], b[3], b[4], b[5]
    for r in range(m // VECTORS * VECTORS):
        s = u + a0 * x0[r] + a1 * x1[r] + a2 * x2[r] + a3 * x3[r] + a4 * x4[r] + a5 * x5[r]
        t = v + b0 * x0[r] + b1 * x1[r] + b2 * x2[r] + b3 * x3[r] + b4 * x4[r] + b5 * x5[r]
        best[r] = min(best[r], s, t)


@helper
def _eight_features(
    x: FloatArray, u: float, v: float, a: FloatArray, b: FloatArray, best: FloatArray, m: int
) -> None:
    """Compute the smallest keys for eight features, as `_four_features` does for four.

    Each sum has two parts that a processor can compute at the same time.
    """
    x0, x1, x2, x3, x4, x5, x6, x7 = x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]
    a0, a1, a2, a3, a4, a5, a6, a7 = a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]
    b0, b1, b2, b3, b4, b5, b6, b7 = b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]
    for r in range(m // VECTORS * VECTORS):
        s = (u + a0 * x0[r] + a1 * x1[r] + a2 * x2[r] + a3 * x3[r]) + (
            a4 * x4[r] + a5 * x5[r] + a6 * x6[r] + a7 * x7[r]
        )
        t = (v + b0 * x0[r] + b1 * x1[r] + b2 * x2[r] + b3 * x3[r]) + (
            b4 * x4[r] + b5 * x5[r] + b6 * x6[r] + b7 * x7[r]
        )
        best[r] = min(best[r], min(s, t))  # noqa: PLW3301 - a tree, as above


@helper
def _labels_within(
    best: FloatArray,
    squares: FloatArray,
    L: float,
    squared_radius: float,
    k: int,
    labels: Labels,
    m: int,
) -> None:
    """Set each label from the smallest key of its record, or to k for a record beyond the radius.

    A record out of range, which no caller should pass, has an arbitrary label. No label exceeds k,
    because other code uses labels as positions at which it writes.
    """
    share, beyond, last = 1.0 / L, float(k), k - 1.0  # exact: L is a power of two
    for r in range(m):
        score = np.floor(best[r] * share)
        label = min(best[r] - score * L, last)
        labels[r] = np.int32(label if squares[r] + score <= squared_radius else beyond)


@helper
def _keep_lesser(
    best: FloatArray, L: float, start: float, scores: FloatArray, found: FloatArray, m: int
) -> None:
    """Update the smallest score of each of m records, and its centroid, from one group of
    centroids.

    best : smallest score in the group and its centroid, as one number per record: L times the
        score, plus the centroid's position in the group.
    L : number of centroids in a group.
    start : index of the group's first centroid among all centroids.
    scores : smallest scores so far, updated here.
    found : centroids with the smallest scores so far, updated here.
    """
    share = 1.0 / L
    for r in range(m):
        score = np.floor(best[r] * share)
        label = best[r] - score * L + start
        found[r] = label if score < scores[r] else found[r]
        scores[r] = min(score, scores[r])


@helper
def _found_within(
    scores: FloatArray,
    found: FloatArray,
    squares: FloatArray,
    squared_radius: float,
    k: int,
    labels: Labels,
    m: int,
) -> None:
    """Set each label to the centroid found, or to k for a record beyond the radius."""
    beyond, last = float(k), k - 1.0
    for r in range(m):
        labels[r] = np.int32(
            min(found[r], last) if squares[r] + scores[r] <= squared_radius else beyond
        )
