"""The function of `reference.py`, fast and in bounded memory, and equal to it bit for bit.

Squared distances come from one matrix product in float64. All its terms are integers, and d (B + c_max)^2 < 2**53
(`Domain.saturation`), so products, sums and their order are exact whatever BLAS, block size or number of threads.
"""

import numpy as np

from fastlloyd.clustering.domain import FloatArray, IntArray

BLOCK_ELEMENTS = 1 << 18  # 2 MiB of float64 for the larger of the block's two matrices: stays in the cache


def cluster_statistics(
    X: IntArray, centroids: IntArray, squared_radius: int | None, *, block_rows: int | None = None
) -> tuple[IntArray, IntArray]:
    """Relative sums and counts of `reference.cluster_statistics`; same arguments, same integers.

    Works on blocks of `block_rows` records (chosen from the shape when None): no array of n_records x n_clusters exists.
    """
    k, d = centroids.shape
    C = centroids.astype(np.float64)
    sums = np.zeros((k, d), dtype=np.int64)
    counts = np.zeros(k, dtype=np.int64)
    for start, stop in blocks(len(X), max(k, d), block_rows):
        block = X[start:stop].astype(np.float64)
        labels, squared = nearest(block, C)
        members = np.zeros((stop - start, k))
        members[np.arange(stop - start), labels] = 1.0 if squared_radius is None else squared <= squared_radius
        sums += (members.T @ block).astype(np.int64)
        counts += members.sum(axis=0).astype(np.int64)
    return sums - counts[:, None] * centroids, counts


def assign(X: IntArray, centroids: IntArray, *, block_rows: int | None = None) -> IntArray:
    """Index of the nearest centroid of every record, int64 (n_records,); ties go to the lowest index."""
    C = centroids.astype(np.float64)
    labels = np.empty(len(X), dtype=np.int64)
    for start, stop in blocks(len(X), max(centroids.shape), block_rows):
        labels[start:stop], _ = nearest(X[start:stop].astype(np.float64), C)
    return labels


def nearest(X: FloatArray, C: FloatArray) -> tuple[IntArray, FloatArray]:
    """Index of, and exact squared distance to, the nearest centroid; X and C hold integers."""
    scores = X @ (-2.0 * C.T) + (C**2).sum(axis=1)  # squared distance minus |x|^2, which is the same for all centroids
    labels = scores.argmin(axis=1)
    squared = np.einsum("ij,ij->i", X, X) + scores[np.arange(len(X)), labels]
    return labels, squared


def squared_distances(X: IntArray, C: IntArray) -> FloatArray:
    """Exact squared distances between all rows of two small integer matrices, float64 (len(X), len(C))."""
    x, c = X.astype(np.float64), C.astype(np.float64)
    squared: FloatArray = (x**2).sum(axis=1)[:, None] - 2.0 * (x @ c.T) + (c**2).sum(axis=1)
    return squared


def blocks(n_records: int, width: int, block_rows: int | None) -> list[tuple[int, int]]:
    """The [start, stop) ranges of records that are worked on together."""
    rows = block_rows or max(256, BLOCK_ELEMENTS // width)
    return [(start, min(start + rows, n_records)) for start in range(0, n_records, rows)]
