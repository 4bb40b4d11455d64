"""Fast version of `reference.py`, in bounded memory and on all cores. Its results are equal bit for
bit.

The shapes choose one of three ways to the same integers (measured in docs/results/performance.md):

- few features: compiled loops over records, feature by feature, in float64
  (`compiled/distances.py`). For many points they use float32 first (`compiled/groups.py`).
- more features: a matrix product of each block by BLAS in float32, and exact decisions for doubtful
  records (`filter.py`). For many centroids and features, products of bytes by the processor's own
  instructions where it has them (`eight_bits.py`).
- small data, or without Numba: one matrix product of each block in float64, and NumPy for the rest.

Points on a grid of a few features, such as candidates for votes, need no distances. Each axis is
searched separately.

Squared distances in float64 are sums of products of integers. All are below 2**53, because d (B +
c_max)^2 < 2**53 (`Domain.saturation`). So they are exact for any order, block size, number of
threads and machine.

Shapes, centroids and the range in which records *may* lie choose the code path. The records' values
do not. So every record costs the same, with three exceptions. One is the exact decision about a
doubtful record (64 at a time with few features). Another is a record with many candidates in the
search by bytes: exact distances decide the first seven such records of a block, and float32
proposes centroids for six others at a time. The third is the processor, whose time may depend on
the bits of the numbers.
"""

import math

import numpy as np
from numpy.typing import NDArray

from fastlloyd.base.arrays import FloatArray, GridArray, IntArray
from fastlloyd.base.compiling import is_compiled
from fastlloyd.clustering.eight_bits import Search, bytewise
from fastlloyd.clustering.filter import Exact, Labels, Nearest, decide, relative_error
from fastlloyd.clustering.gridding import is_by_feature
from fastlloyd.clustering.parallel import (
    LEAST_RECORDS,
    NUMPY_STEPS,
    over_spans,
    sum_over_spans,
)
from fastlloyd.clustering.sums import ClusterSums, feature_major, row_major

# 2 MiB of float64 for the larger of the block's two matrices: stays in the cache
BLOCK_ELEMENTS = 1 << 18
MOST_AXES = 3  # of a grid: with more, no grid has few enough points
LEAST_POINTS = 64  # of a grid that is worth the search for its axes
AXIS_ROWS = 1 << 13  # records whose places on an axis stay in the cache
GROUPED_POINTS = 512  # from here on `compiled/groups.py` is faster than them
GROUPED_ROWS = 1024  # its block: 32 KB of records
RECORDS_PER_SUM = 4  # with so many records, one more array of sums is worth it
# up to here the loops of `compiled/distances.py` are the faster, or the more even where all records
# tie
KEYED_FEATURES = 8
LABELLED_ROWS = 1 << 15  # records that are labelled, then added up: they stay in the second cache
PLANE_CLUSTERS = 4  # of two features whose sums stay in registers
# of a block of the compiled loops with all that is computed of it, 49 KB: about the innermost cache
FEATURE_CELLS = 6144

_NO_LIMITS = np.zeros(0, dtype=np.int64)
Statistics = tuple[IntArray, IntArray]


def cluster_statistics(
    X: GridArray,
    centroids: IntArray,
    squared_radius: int | None,
    *,
    limits: IntArray | None = None,
    block_rows: int | None = None,
) -> Statistics:
    """Return relative sums and counts, the same integers as `reference.cluster_statistics`.

    X : grid points (n_records, n_features), also int32, in any memory order.
    limits : largest absolute coordinates of records, int64 (n_features,), from public knowledge.
        Smaller limits are faster. With None, the code uses only (|x| + |c|)^2 < 2**53 for all
        records x and centroids c, which must hold in any case.
    block_rows : number of records that are processed together, or None to choose it from the shape.

    No array of n_records x n_clusters is made.
    """
    centroids = np.ascontiguousarray(centroids, dtype=np.int64)
    radius = np.inf if squared_radius is None else float(squared_radius)
    compiled = _is_compiled(X, centroids)
    if (
        compiled
        and X.shape[1] == 2
        and len(centroids) <= min(PLANE_CLUSTERS, _group_size(centroids, limits))
    ):
        totals = _plane_statistics(X, centroids, limits, radius)
    elif compiled and X.shape[1] <= KEYED_FEATURES:
        totals = _feature_statistics(X, centroids, limits, radius, block_rows)
    elif compiled and (near := _nearest(X, centroids, limits, radius, block_rows)).is_certain:
        totals = _near_statistics(X, centroids, limits, near)
    else:
        totals = _plain_statistics(X, centroids, radius, block_rows)
    counts = totals[:, -1].copy()
    sums = counts[:, None] * centroids
    return np.subtract(totals[:, :-1], sums, out=sums), counts


def assign(
    X: GridArray,
    centroids: IntArray,
    *,
    limits: IntArray | None = None,
    block_rows: int | None = None,
) -> Labels:
    """Return, for each record, the index of the nearest centroid (ties: lowest), int32
    (n_records,).

    Parameters are as in `cluster_statistics`.
    """
    centroids = np.ascontiguousarray(centroids, dtype=np.int64)
    labels = np.zeros(len(X), dtype=np.int32)
    if len(centroids) == 1:
        return labels
    if axes := _axes(centroids):
        _grid_labels(X, axes, labels)
        return labels
    compiled = _is_compiled(X, centroids)
    if compiled and X.shape[1] <= KEYED_FEATURES:
        if len(centroids) >= GROUPED_POINTS:
            _group_labels(X, centroids, block_rows, labels)
        else:
            _feature_labels(X, centroids, _group_size(centroids, limits), block_rows, labels)
    elif compiled and (near := _nearest(X, centroids, limits, np.inf, block_rows)).is_certain:
        _near_labels(X, near, labels)
    else:
        _plain_labels(X, centroids, block_rows, labels)
    return labels


def clipped_loss(
    X: GridArray,
    centroids: IntArray,
    squared_cap: int,
    shift: int,
    *,
    block_rows: int | None = None,
) -> int:
    """Return the sum of the clipped squared distances to the nearest centroid
    (`reference.clipped_loss`).

    X : grid points (n_records, n_features), any signed integer dtype.
    block_rows : number of records that are processed together.
    """
    C = centroids.astype(np.float64)
    half = (1 << shift) >> 1
    total = 0
    for start, stop in blocks(len(X), max(C.shape), block_rows):
        _, squared = nearest(X[start:stop].astype(np.float64), C)
        kept = np.minimum(squared.astype(np.int64), squared_cap)
        total += int(((kept + half) >> shift).sum())
    return total


def nearest(X: FloatArray, C: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return, for each record, the index of the nearest centroid and the exact squared distance to
    it.

    X, C : records and centroids, which are integers in float64.
    """
    # squared distance minus |x|^2, which is the same for all centroids
    scores = X @ (-2.0 * C.T) + (C**2).sum(axis=1)
    labels = scores.argmin(axis=1)
    squared = np.einsum("ij,ij->i", X, X) + scores[np.arange(len(X)), labels]
    return labels, squared


def squared_distances(X: GridArray, C: IntArray) -> FloatArray:
    """Return the exact squared distances between all rows of X and C, float64 (len(X), len(C)).

    Both are small matrices of integers.
    """
    x, c = X.astype(np.float64), C.astype(np.float64)
    squared: FloatArray = (x**2).sum(axis=1)[:, None] - 2.0 * (x @ c.T) + (c**2).sum(axis=1)
    return squared


def blocks(n_records: int, width: int, block_rows: int | None) -> list[tuple[int, int]]:
    """Return the ranges [start, stop) of records that are processed together."""
    rows = block_rows or max(256, BLOCK_ELEMENTS // width)
    return [(start, min(start + rows, n_records)) for start in range(0, n_records, rows)]


def _plain_statistics(
    X: GridArray, centroids: IntArray, squared_radius: float, block_rows: int | None
) -> IntArray:
    """Return absolute sums and, in the last column, counts, int64 (k, d + 1).

    They are the matrix product of memberships and records.
    """
    k, d = centroids.shape
    C = centroids.astype(np.float64)
    totals = np.zeros((k, d + 1), dtype=np.int64)
    for start, stop in blocks(len(X), max(k, d), block_rows):
        block = X[start:stop].astype(np.float64)
        labels, squared = nearest(block, C)
        members = np.zeros((stop - start, k))
        members[np.arange(stop - start), labels] = squared <= squared_radius
        totals[:, :d] += (members.T @ block).astype(np.int64)
        totals[:, d] += members.sum(axis=0).astype(np.int64)
    return totals


def _feature_statistics(
    X: GridArray,
    centroids: IntArray,
    limits: IntArray | None,
    squared_radius: float,
    block_rows: int | None,
) -> IntArray:
    """Return absolute sums and counts, int64 (k, d + 1), from the labels of
    `compiled/distances.py`.
    """
    from fastlloyd.clustering.compiled.distances import feature_labels

    group, rows, width = (
        _group_size(centroids, limits),
        block_rows or _feature_rows(X.shape[1]),
        _width(X.shape[1]),
    )
    find = feature_labels[len(width)]

    def of_span(start: int, stop: int) -> IntArray:
        sums = ClusterSums(centroids.shape, _largest(centroids, limits), by_feature=True)
        labels = np.empty(min(LABELLED_ROWS, stop - start), dtype=np.int32)
        for XT, (first, last), _ in feature_major(X, start, stop):
            for begin, end in blocks(last - first, 1, LABELLED_ROWS):
                find(
                    XT,
                    first + begin,
                    first + end,
                    centroids,
                    group,
                    squared_radius,
                    rows,
                    labels,
                    width,
                )
                sums.add(XT, first + begin, labels[: end - begin])
        return sums.totals()

    return sum_over_spans(of_span, X, len(centroids))


def _plane_statistics(
    X: GridArray, centroids: IntArray, limits: IntArray | None, squared_radius: float
) -> IntArray:
    """Return absolute sums and counts, int64 (k, 3), for two features and few clusters, without
    labels.
    """
    from fastlloyd.clustering.compiled.sums import plane_statistics

    group = _group_size(centroids, limits)

    def of_span(start: int, stop: int) -> IntArray:
        totals = np.zeros((len(centroids), 3), dtype=np.int64)
        for XT, span, _ in feature_major(X, start, stop):
            totals += plane_statistics(XT, *span, centroids, group, squared_radius)
        return totals

    return sum_over_spans(of_span, X, len(centroids))


def _near_statistics(
    X: GridArray, centroids: IntArray, limits: IntArray | None, near: Search
) -> IntArray:
    """Return absolute sums and counts, int64 (k, d + 1), from the labels of a search."""
    records = feature_major if near.by_feature else row_major

    def of_span(start: int, stop: int) -> IntArray:
        sums = ClusterSums(centroids.shape, _largest(centroids, limits), by_feature=near.by_feature)
        for Z, span, _ in records(X, start, stop):
            for place, labels, _ in near.labels(Z, *span):
                sums.add(Z, place, labels)
        return sums.totals()

    return sum_over_spans(
        of_span, X, near.k, least=max(LEAST_RECORDS, RECORDS_PER_SUM * near.k), blas=True
    )


def _largest(centroids: IntArray, limits: IntArray | None) -> int:
    """Return a bound on the absolute coordinates of records.

    Without limits, the bound follows from centroids. A coordinate of a record differs from that of
    a centroid by less than 2**27.
    """
    return int((1 << 27) + np.abs(centroids).max() if limits is None else limits.max())


def _axes(centroids: IntArray) -> list[IntArray]:
    """Return the coordinates along each axis if the centroids are all points of a grid, otherwise
    [].

    The last axis must vary fastest.
    """
    k, d = centroids.shape
    if d > MOST_AXES or k < LEAST_POINTS:
        return []
    axes = [np.unique(column) for column in centroids.T]
    if math.prod(map(len, axes)) != k:
        return []
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(k, d)
    return axes if np.array_equal(points, centroids) else []


def _grid_labels(X: GridArray, axes: list[IntArray], labels: Labels) -> None:
    """Set each label to the nearest point of a grid (ties: lowest).

    If several points are equally near, the one with the lowest index has the lowest of the nearest
    coordinates along each axis. A coordinate x is at most halfway from a to b if x <= floor((a + b)
    / 2).
    """
    halves = [(axis[:-1] + axis[1:]) // 2 for axis in axes]

    def label(start: int, stop: int) -> None:
        for first, last in blocks(stop - start, 1, AXIS_ROWS):
            found = np.zeros(last - first, dtype=np.intp)
            for j, axis in enumerate(axes):
                found *= len(axis)
                found += _number_below(X[start + first : start + last, j], halves[j])
            labels[start + first : start + last] = found

    over_spans(label, X, NUMPY_STEPS)


def _number_below(x: GridArray, ascending: IntArray) -> NDArray[np.intp]:
    """Return how many of the ascending numbers are below each x. The steps of the search do not
    depend on x.

    NumPy's `searchsorted` is not used: it begins where its last search ended, so the steps for one
    record would depend on the record before it.
    """
    n_steps = len(ascending).bit_length()
    padded = np.full((1 << n_steps) - 1, np.iinfo(np.int64).max)
    padded[: len(ascending)] = ascending
    below = np.zeros(len(x), dtype=np.intp)
    for step in (1 << i for i in reversed(range(n_steps))):
        below += (padded.take(below + (step - 1)) < x) * step
    return below


def _plain_labels(
    X: GridArray, centroids: IntArray, block_rows: int | None, labels: Labels
) -> None:
    C = centroids.astype(np.float64)
    for start, stop in blocks(len(X), max(centroids.shape), block_rows):
        labels[start:stop], _ = nearest(X[start:stop].astype(np.float64), C)


def _feature_labels(
    X: GridArray, centroids: IntArray, group: float, block_rows: int | None, labels: Labels
) -> None:
    from fastlloyd.clustering.compiled.distances import feature_labels

    rows, width = block_rows or _feature_rows(X.shape[1]), _width(X.shape[1])
    find = feature_labels[len(width)]

    def label(start: int, stop: int) -> None:
        for XT, span, first in feature_major(X, start, stop):
            find(XT, *span, centroids, group, np.inf, rows, labels[first:], width)

    over_spans(label, X, len(centroids))


def _group_labels(
    X: GridArray, centroids: IntArray, block_rows: int | None, labels: Labels
) -> None:
    from fastlloyd.clustering.compiled.groups import group_labels

    error, exact, width = relative_error(X.shape[1]), Exact(centroids), _width(X.shape[1])
    rows, find = block_rows or GROUPED_ROWS, group_labels[len(width)]

    def label(start: int, stop: int) -> None:
        doubtful = np.empty(min(LABELLED_ROWS, stop - start), dtype=np.int32)
        for XT, (first, last), place in feature_major(X, start, stop):
            for begin, end in blocks(last - first, 1, LABELLED_ROWS):
                here = labels[place + begin : place + end]
                n = find(
                    XT, first + begin, first + end, centroids, error, rows, here, doubtful, width
                )
                decide(XT, first + begin, doubtful[:n], exact, np.inf, here)

    over_spans(label, X, len(centroids))


def _near_labels(X: GridArray, near: Search, labels: Labels) -> None:
    records = feature_major if near.by_feature else row_major

    def label(start: int, stop: int) -> None:
        for Z, (first, last), place in records(X, start, stop):
            for at, found, _ in near.labels(Z, first, last):
                labels[place + at - first :][: len(found)] = found

    over_spans(label, X, near.k, blas=True)


def _is_compiled(X: GridArray, centroids: IntArray) -> bool:
    # it would cut off the digits of what is no integer
    return X.dtype.kind == "i" and is_compiled(X.size * len(centroids))


def _nearest(
    X: GridArray,
    centroids: IntArray,
    limits: IntArray | None,
    squared_radius: float,
    block_rows: int | None,
) -> Search:
    by_feature = is_by_feature(X)
    found = None if by_feature else bytewise(centroids, squared_radius, len(X), limits, block_rows)
    return found or Nearest(centroids, squared_radius, by_feature=by_feature, block_rows=block_rows)


def _group_size(centroids: IntArray, limits: IntArray | None) -> float:
    """Return the number of centroids that one key of compiled code can distinguish.

    The key is exact for all records within the limits.
    """
    from fastlloyd.clustering.compiled.distances import group_size

    return group_size(
        centroids, _NO_LIMITS if limits is None else np.ascontiguousarray(limits, dtype=np.int64)
    )


def _width(d: int) -> tuple[int, ...]:
    """Return a tuple whose length is the number of features of a compiled loop: the smallest that
    is at least d.
    """
    from fastlloyd.clustering.compiled.distances import WIDTHS

    return (0,) * min(width for width in WIDTHS if width >= d)


def _feature_rows(d: int) -> int:
    """Return the number of records in a block, which follows from the memory of one record.

    A record takes one number for each feature, a 1, zeros up to a multiple of four, and four more
    numbers.
    """
    return FEATURE_CELLS // (d // 4 * 4 + 8)
