"""One iteration of k-means, and its loss, in plain NumPy integers. Tests compare the kernels with
it; read this file first.
"""

import numpy as np

from fastlloyd.base.arrays import GridArray, IntArray


def cluster_statistics(
    X: GridArray, centroids: IntArray, squared_radius: int | None
) -> tuple[IntArray, IntArray]:
    """Sum, per cluster, the offsets of the records within the radius of their nearest centroid.

    X : int (n_records, n_features) and centroids : int64 (n_clusters, n_features) in grid units.
    squared_radius : H2 in squared grid units, or None for no radius. A record belongs to the
    nearest centroid (ties: the lowest index) and is kept if its squared distance is at most H2
    (Section 5.1 of the paper). A cluster without records gets zeros.
    # Departs from the paper: Algorithm 1 prints "<", Eqn 4 "<="; ties are open there.
    Returns relative sums, int64 (n_clusters, n_features), and counts, int64 (n_clusters,).

    Adding or removing one record moves one row by at most sqrt(squared_radius) (L2) and one count
    by 1 [Theorem 5.1]. The bound is exact, because nothing is rounded after the test.
    """
    squared = ((X[:, None, :] - centroids) ** 2).sum(axis=2)
    labels = squared.argmin(axis=1)
    if squared_radius is not None:
        kept = squared.min(axis=1) <= squared_radius
        X, labels = X[kept], labels[kept]
    relative_sums = np.zeros(centroids.shape, dtype=np.int64)
    np.add.at(relative_sums, labels, X - centroids[labels])
    return relative_sums, np.bincount(labels, minlength=len(centroids)).astype(np.int64)


def clipped_loss(X: IntArray, centroids: IntArray, squared_cap: int, shift: int) -> int:
    """Sum, over records, the squared distance to the nearest centroid, in units of 2**shift squared
    grid units.

    X, centroids : as above. A record farther away than the square root of squared_cap, a multiple
    of 2**shift, counts as if it were at that distance. What a record adds is rounded half up before
    the sum, so it is an integer from 0 to squared_cap >> shift: adding, removing or replacing one
    record moves the sum by at most that.
    """
    squared = ((X[:, None, :] - centroids) ** 2).sum(axis=2).min(axis=1)
    half = (1 << shift) // 2
    return sum((min(s, squared_cap) + half) >> shift for s in squared.tolist())
