"""One iteration of k-means, and its loss, in plain NumPy integers.

Tests compare the kernels with this file. Read it first.
"""

import numpy as np

from fastlloyd.base.arrays import GridArray, IntArray


def cluster_statistics(
    X: GridArray, centroids: IntArray, squared_radius: int | None
) -> tuple[IntArray, IntArray]:
    """Return, for each cluster, the sum of its records' offsets, and their number.

    The sums are int64 (n_clusters, n_features), and the counts int64 (n_clusters,). A record
    belongs to the nearest centroid (ties: lowest index). It is kept if its squared distance is at
    most H2 (Section 5.1 of the paper). A cluster without records has zeros. Departs from the paper:
    Algorithm 1 prints "<", but Eqn 4 prints "<=". The paper does not say what happens with ties.

    X : records (n_records, n_features), in grid units.
    centroids : centroids, int64 (n_clusters, n_features), in grid units.
    squared_radius : H2 in squared grid units, or None for no radius.

    Adding or removing one record changes one row by at most sqrt(squared_radius) (L2) and one count
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
    """Return the sum over records of the squared distance to the nearest centroid.

    The unit is 2**shift squared grid units. A record farther away than sqrt(squared_cap) counts as
    if it were at that distance. Each summand is rounded half up, so it is an integer from 0 to
    squared_cap >> shift. Adding, removing or replacing one record changes the sum by at most this
    integer.

    X, centroids : as in `cluster_statistics`.
    squared_cap : largest squared distance that counts, a multiple of 2**shift.
    """
    squared = ((X[:, None, :] - centroids) ** 2).sum(axis=2).min(axis=1)
    half = (1 << shift) // 2
    return sum((min(s, squared_cap) + half) >> shift for s in squared.tolist())
