"""Measures of a partition, in which each record belongs to the cluster of its nearest centroid.

The measures are BCSS, silhouette, Davies-Bouldin, Calinski-Harabasz and Dunn. All except BCSS stay
the same if records and centroids are moved or scaled together. Empty clusters are ignored. As in
`fastlloyd.evaluation.metrics`, every measure is computed from records without noise, so it is NEVER
private. It raises `DataError` if it is not defined.
"""

from dataclasses import dataclass, field
from typing import Self

import numpy as np
import numpy.typing as npt

from fastlloyd.base.arrays import FloatArray
from fastlloyd.errors import DataError
from fastlloyd.evaluation.metrics import assign, finite, finite_matrix, records_and_centroids

_BLOCK_CELLS = 1 << 18  # of float64 in a temporary array (2 MiB), which fits a cache


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SilhouetteSample:
    """Sample of records for silhouettes, with the distances among them. It can be used for many
    clusterings.

    records : rows in X, ascending, intp (m,).
    distances : Euclidean distances, float64 (m, m). They are exact, so NEVER private.
    """

    records: npt.NDArray[np.intp] = field(repr=False)
    distances: FloatArray = field(repr=False)

    @classmethod
    def of(cls, X: npt.ArrayLike, *, n_records: int | None = None, seed: int = 0) -> Self:
        """Return a sample of `n_records` records of X, or of all. The same seed gives the same
        sample.

        It takes 8 m^2 bytes of memory for m records. Raises the errors of `silhouette`.
        """
        from sklearn.metrics import pairwise_distances

        X = _unit_box(finite_matrix("X", X))
        records = np.arange(len(X))
        if n_records is not None and n_records < len(X):
            if n_records < 1:
                raise DataError(
                    f"a silhouette needs at least one record, got n_records = {n_records}"
                )
            records = np.sort(np.random.default_rng(seed).choice(len(X), n_records, replace=False))
        return cls(records=records, distances=pairwise_distances(X[records]))


def bcss(X: npt.ArrayLike, centroids: npt.ArrayLike) -> float:
    """Return the between-cluster sum of squares, in squared units of the features.

    It is the sum of squared distances from each centroid to the mean of all records, each times the
    number of its records. If each centroid is the mean of its records, WCSS + BCSS is the total sum
    of squares. Exact, so NEVER private. Shapes and errors are those of `assign`.
    """
    X, centroids = records_and_centroids(X, centroids)
    counts = np.bincount(assign(X, centroids), minlength=len(centroids))
    occupied = counts > 0
    with np.errstate(over="ignore", invalid="ignore"):
        deviations = centroids[occupied] - X.mean(axis=0)
        return finite(float(counts[occupied] @ (deviations * deviations).sum(axis=1)))


def silhouette(
    X: npt.ArrayLike, centroids: npt.ArrayLike, sample: SilhouetteSample | None = None
) -> float:
    """Return the mean silhouette (Rousseeuw 1987), from -1 to 1. Higher is better.

    The silhouette of a record is (b - a) / max(a, b). Here a is its mean distance from the other
    records of its cluster, and b its mean distance from the records of the nearest other cluster.
    The silhouette of a record that is alone in its cluster is 0. The mean is -1, by convention, if
    all records are in one cluster. Time is O(n_records^2), so pass a `sample` of X if there are
    many records. The mean then covers the records of the sample, compared with each other. Exact,
    so NEVER private. Shapes and errors are those of `assign`.
    """
    from sklearn.metrics import silhouette_score

    X, centroids = records_and_centroids(X, centroids)
    if sample is not None and sample.records[-1] >= len(X):
        raise DataError(
            f"the sample has record {sample.records[-1] + 1}, and X has only {len(X)}; draw the"
            " sample from the same records"
        )
    labels = assign(X if sample is None else X[sample.records], centroids)
    n_clusters = len(np.unique(labels))
    if n_clusters == 1:
        return -1.0
    if n_clusters == len(labels):
        return 0.0
    if sample is None:
        return float(silhouette_score(_unit_box(X), labels))
    return float(silhouette_score(sample.distances, labels, metric="precomputed"))


def davies_bouldin(X: npt.ArrayLike, centroids: npt.ArrayLike) -> float:
    """Return the Davies-Bouldin index (1979), from 0. Lower is better.

    It is the mean over clusters i of the largest (s_i + s_j) / m_ij. s_i is the mean distance of a
    cluster's records from their mean. m_ij is the distance between two such means. The means are
    those of the records, not the centroids. The index is infinite if all records are in one
    cluster. Exact, so NEVER private. Shapes and errors are those of `assign`.
    """
    from sklearn.metrics import davies_bouldin_score

    X, labels = _partition(X, centroids)
    n_clusters = len(np.unique(labels))
    if n_clusters == 1:
        return float("inf")
    if n_clusters == len(X):  # every record is its own mean
        return 0.0
    return float(davies_bouldin_score(X, labels))


def calinski_harabasz(X: npt.ArrayLike, centroids: npt.ArrayLike) -> float:
    """Return the Calinski-Harabasz index (1974), from 0. Higher is better.

    It is B / (k - 1) divided by W / (n - k). B and W are the sums of squares between and within the
    k occupied clusters, about the means of their records. The index is 0 if all records are in one
    cluster. It is infinite if there are several clusters, and each is a single point. Exact, so
    NEVER private. Shapes and errors are those of `assign`.
    """
    from sklearn.metrics import calinski_harabasz_score

    X, labels = _partition(X, centroids)
    clusters = np.unique(labels)
    if len(clusters) == 1:
        return 0.0
    if all(np.ptp(X[labels == cluster], axis=0).max() == 0 for cluster in clusters):
        return float("inf")
    return float(calinski_harabasz_score(X, labels))


def dunn(X: npt.ArrayLike, centroids: npt.ArrayLike) -> float:
    """Return the Dunn index (1974), from 0. Higher is better.

    It is the smallest distance between records of different clusters, divided by the largest
    distance between records of the same cluster. It is 0 if all records are in one cluster. It is
    infinite if there are several clusters, and each is a single point. It takes time O(n_records^2)
    and bounded memory. Exact, so NEVER private. Shapes and errors are those of `assign`.
    """
    from scipy.spatial.distance import cdist

    X, labels = _partition(X, centroids)
    separation, diameter = np.inf, 0.0
    start = 0
    while start < len(X):
        rows = slice(start, start + max(1, _BLOCK_CELLS // (len(X) - start)))
        distances = cdist(X[rows], X[start:])
        together = labels[rows, None] == labels[None, start:]
        diameter = max(diameter, float(distances.max(where=together, initial=0.0)))
        separation = min(separation, float(distances.min(where=~together, initial=np.inf)))
        start = rows.stop
    if separation == np.inf:
        return 0.0
    return separation / diameter if diameter > 0 else float("inf")


def _partition(
    X: npt.ArrayLike, centroids: npt.ArrayLike
) -> tuple[FloatArray, npt.NDArray[np.intp]]:
    """Return the records moved and scaled into a box around 0 with widths below 1, and their
    labels.

    It is for measures that do not depend on place and scale.
    """
    X, centroids = records_and_centroids(X, centroids)
    return _unit_box(X), assign(X, centroids)


def _unit_box(X: FloatArray) -> FloatArray:
    """Return the records moved to the middle of their range, and scaled to widths below 1.

    The factor is a power of two, so scaling rounds nothing. scikit-learn compares with absolute
    tolerances, and computes distances from products. It therefore needs numbers that are centred at
    0, and not much larger or smaller than 1.
    """
    lower, upper = X.min(axis=0), X.max(axis=0)
    with np.errstate(over="ignore"):
        width = float((upper - lower).max())
        finite(width * width * X.shape[1])
    return np.asarray(np.ldexp(X - (lower + (upper - lower) / 2), -np.frexp(width)[1]))
