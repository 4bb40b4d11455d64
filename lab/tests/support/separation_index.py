"""Separation index of Qiu and Joe, a measure of the distance between clusters.

Project two clusters with means m1, m2 and covariances S1, S2 onto a direction a, and cut alpha/2
off each tail of each projection. The separation along a is the distance between the inner ends,
divided by the distance between the outer ends:

    J(a) = (a'(m2 - m1) - z (s1 + s2)) / (a'(m2 - m1) + z (s1 + s2)),   si = sqrt(a'Si a),  z =
    z_(alpha/2),  alpha = 0.05.

J(a) is 0 if the cut projections touch, negative if they overlap, and at most 1. The separation of
two clusters is the largest J(a). It equals J if and only if the ellipsoids around m1 and m2 with
the Mahalanobis radius z (1 + J) / (1 - J) just touch.

Sources: W. Qiu and H. Joe, "Separation index and partial membership for clustering", Computational
Statistics and Data Analysis 50 (2006) 585-603. The best direction is that of T. W. Anderson and R.
R. Bahadur, "Classification into two multivariate normal distributions with different covariance
matrices", Annals of Mathematical Statistics 33 (1962) 420-431. All functions compute exact numbers
from the records, without privacy.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from fastlloyd.base.arrays import FloatArray
from fastlloyd.errors import DataError
from fastlloyd_lab.datasets.mixture import Z


def separation_along(
    direction: FloatArray, difference: FloatArray, first: FloatArray, second: FloatArray
) -> float:
    """Return the separation of two clusters along a direction, in [-1, 1].

    direction : vector (d,) that is not zero. Its sign does not matter.
    difference : m2 - m1, (d,).
    first, second : covariances of the clusters, (d, d), positive definite.
    """
    gap = abs(float(direction @ difference))
    widths = Z * (
        math.sqrt(direction @ first @ direction) + math.sqrt(direction @ second @ direction)
    )
    return (gap - widths) / (gap + widths)


def best_direction(difference: FloatArray, first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the direction (d,) along which two clusters are separated most.

    It is a = (c S1 + (1 - c) S2)^-1 (m2 - m1) for the only c in (0, 1) with c s1(a) = (1 - c)
    s2(a). The left side grows with c, and the right side falls. The separation is stationary at
    `a`, so an error e of c changes it only by the order of e^2.

    Raises DataError if a covariance is not positive definite.
    """
    from scipy.linalg import LinAlgError, cho_factor, cho_solve
    from scipy.optimize import brentq

    def direction(c: float) -> FloatArray:
        try:
            return np.asarray(
                cho_solve(cho_factor(c * first + (1 - c) * second), difference), dtype=np.float64
            )
        except LinAlgError:
            raise DataError(
                "a covariance is not positive definite, so the separation of its cluster is not"
                " defined"
            ) from None

    def imbalance(c: float) -> float:
        a = direction(c)
        return c * math.sqrt(a @ first @ a) - (1 - c) * math.sqrt(a @ second @ a)

    return direction(float(brentq(imbalance, 0.0, 1.0, xtol=1e-12)))


def separation(difference: FloatArray, first: FloatArray, second: FloatArray) -> float:
    """Return the separation of two clusters along the best direction, in [-1, 1). It is -1 if their
    means are equal.

    Parameters and errors are those of `separation_along` and `best_direction`.
    """
    if not difference.any():
        return -1.0
    return separation_along(best_direction(difference, first, second), difference, first, second)


def separations(means: FloatArray, covariances: FloatArray) -> FloatArray:
    """Return the separations of all pairs, (k, k). The diagonal is 1, because a cluster is not its
    own neighbour.

    means : (k, d).
    covariances : (k, d, d), positive definite.
    """
    k = len(means)
    matrix = np.ones((k, k))
    for i in range(k):
        for j in range(i):
            matrix[i, j] = matrix[j, i] = separation(
                means[j] - means[i], covariances[i], covariances[j]
            )
    return matrix


def nearest_separations(means: FloatArray, covariances: FloatArray) -> FloatArray:
    """Return the separation of each cluster from its nearest neighbour, (k,). The nearest neighbour
    is the cluster from which it is separated least.
    """
    nearest: FloatArray = separations(means, covariances).min(axis=1)
    return nearest


def sample_separations(records: FloatArray, labels: npt.NDArray[np.int64]) -> FloatArray:
    """Return the separation of each cluster of records from its nearest neighbour, (k,), by the
    means and covariances of the records.

    records : (n, d).
    labels : cluster of each record, from 0 to k - 1, (n,), or a negative number for a record
        without a cluster.

    Raises DataError if there are fewer than two clusters, or if a cluster has not more records than
    there are features.
    """
    d = records.shape[1]
    counts = np.bincount(labels[labels >= 0])
    if len(counts) < 2 or counts.min() <= d:
        raise DataError(
            f"separations need two or more clusters of more than {d} records each, as there are {d}"
            " features"
        )
    groups = [records[labels == cluster] for cluster in range(len(counts))]
    covariances = np.stack([np.atleast_2d(np.cov(group, rowvar=False)) for group in groups])
    return nearest_separations(np.stack([group.mean(axis=0) for group in groups]), covariances)
