"""k-means of *public* points: what follows from noisy answers, or from public draws. Never of records.

Ordinary float64 arithmetic, the same on one machine for the same draws; the last place may differ on another. The numbers of
steps and of draws are fixed beforehand, so that how long it takes says little of the points.
"""

from dataclasses import dataclass

import numpy as np

from fastlloyd.base.arrays import FloatArray, IntArray
from fastlloyd.base.randomness import Draws
from fastlloyd.clustering.plus_plus import first_centroids
from fastlloyd.errors import LocalProtocolError

BLOCK_STEPS = 1 << 18  # multiplications worked on together: few enough that BLAS does not wake its threads for each block
LARGEST = 2.0**400  # of a coordinate: sums of squares stay far from overflow
SMALLEST = 2.0**-400  # of a weight beside the largest: what it is multiplied by does not underflow
EARLY = 8  # all starts go the first of so many parts of the steps,
PROMISING = 5  # and so many the others: of twenty starts, this cost no .01 % of the loss in any of sixty trials


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicClusters:
    """k-means of public points.

    centroids : float64 (k, r). labels : int64 (n,), the nearest centroid of each point, the lowest index of several.
    loss : weighted mean of the squared distances of points to their centroids.
    """

    centroids: FloatArray
    labels: IntArray
    loss: float


def k_means(
    points: FloatArray, weights: FloatArray, n_clusters: int, draws: Draws, *, n_restarts: int, n_steps: int
) -> PublicClusters:
    """Cluster weighted points: the best of several starts by greedy k-means++ after `n_steps` of Lloyd's steps.

    points : float64 (n, r), n and r at least 1.
    weights : float64 (n,), none negative. Those below 2^-400 of the largest count as 0; if all are 0, all count the same.
    n_restarts : all of them go the first eighth of the steps; after it only the five with the least loss go on.

    Ties go to the lowest index: of centroids, of points, of restarts. Points without weight have labels and nothing else. A
    cluster that no point is nearest to gets the point that adds most to the loss. Of fewer than k distinct points some are
    repeated among the centroids.

    Raises
    ------
    LocalProtocolError : shapes that do not fit; a number that is not finite or beyond 2^400; a negative weight.
    """
    _check(points, weights, n_clusters, n_restarts, n_steps)
    weights = weights / weights.max() if weights.any() else np.ones(len(points))
    counted = weights > SMALLEST
    origin = weights @ points / weights.sum()  # scalar products lose the fewest digits around the mean
    points = points - origin
    best = _best(points[counted], weights[counted], n_clusters, draws, n_restarts, n_steps)
    labels = _labels(_with_ones(points), best)
    squared = _squared_distances(points, best, labels)
    return PublicClusters(centroids=best + origin, labels=labels, loss=float(weights @ squared / weights.sum()))


def nearest_points(sample: FloatArray, points: FloatArray) -> IntArray:
    """int64 (n,): of each in a sample (n, r) the index of the nearest of some points (m, r); the lowest of several."""
    origin = points.mean(axis=0)
    return _labels(_with_ones(sample - origin), points - origin)


def _best(points: FloatArray, weights: FloatArray, k: int, draws: Draws, n_restarts: int, n_steps: int) -> FloatArray:
    """Centroids (k, r) around the origin; weights are positive."""
    lloyd = _Lloyd(points, weights)
    early = n_steps // EARLY
    starts = [lloyd.after(early, C) for C in first_centroids(points, weights, k, draws, n_restarts)]
    promising = np.argsort([lloyd.loss(C) for C in starts], kind="stable")[:PROMISING]
    ends = [lloyd.after(n_steps - early, starts[i]) for i in sorted(promising)]
    return ends[int(np.argmin([lloyd.loss(C) for C in ends]))]


class _Lloyd:
    """Lloyd's steps on points (n, r) around the origin, with positive weights (n,)."""

    def __init__(self, points: FloatArray, weights: FloatArray) -> None:
        self._points, self._weights = points, weights
        self._with_ones = _with_ones(points)
        self._weighted = np.ascontiguousarray((weights[:, None] * points).T)

    def after(self, n_steps: int, centroids: FloatArray) -> FloatArray:
        """Where so many steps lead from centroids (k, r)."""
        for _ in range(n_steps):
            centroids = self._step(centroids)
        return centroids

    def loss(self, centroids: FloatArray) -> float:
        """Weighted sum of squared distances to the nearest centroids."""
        return float(self._weights @ _squared_distances(self._points, centroids, _labels(self._with_ones, centroids)))

    def _step(self, centroids: FloatArray) -> FloatArray:
        k = len(centroids)
        labels = _labels(self._with_ones, centroids)
        masses = np.bincount(labels, self._weights, k)
        if not masses.all():
            self._relocate(centroids, labels)
            masses = np.bincount(labels, self._weights, k)
        sums = np.stack([np.bincount(labels, row, k) for row in self._weighted], axis=1)
        filled = (masses > 0)[:, None]
        return np.where(filled, sums / np.where(filled, masses[:, None], 1.0), centroids)

    def _relocate(self, centroids: FloatArray, labels: IntArray) -> None:
        """Label the points that add most to the loss, one for each empty cluster, as its; none that adds nothing."""
        empty = np.flatnonzero(np.bincount(labels, minlength=len(centroids)) == 0)
        shares = self._weights * _squared_distances(self._points, centroids, labels)
        farthest = np.argsort(-shares, kind="stable")[: len(empty)]
        farthest = farthest[shares[farthest] > 0]
        labels[farthest] = empty[: len(farthest)]


def _labels(with_ones: FloatArray, centroids: FloatArray) -> IntArray:
    """Index of the nearest centroid, by |c|^2 - 2 x.c, the squared distance less |x|^2; points have a last column of 1."""
    keys = np.vstack([-2.0 * centroids.T, np.einsum("ij,ij->i", centroids, centroids)])
    labels = np.empty(len(with_ones), dtype=np.int64)
    rows = max(1, BLOCK_STEPS // keys.size)
    scores = np.empty((min(rows, len(labels)), len(centroids)))
    for start in range(0, len(labels), rows):
        block = with_ones[start : start + rows]
        np.matmul(block, keys, out=scores[: len(block)]).argmin(axis=1, out=labels[start : start + rows])
    return labels


def _with_ones(points: FloatArray) -> FloatArray:
    return np.hstack([points, np.ones((len(points), 1))])


def _squared_distances(points: FloatArray, centroids: FloatArray, labels: IntArray) -> FloatArray:
    """To the centroid of each point's label: (n,)."""
    offsets = points - centroids[labels]
    squared: FloatArray = np.einsum("ij,ij->i", offsets, offsets)
    return squared


def grid_points(low: FloatArray, high: FloatArray, m: int) -> FloatArray:
    """The regular grid of at most m >= 1 points in the box [low, high], both (d,): the centres of g^d equal cells, g^d <= m.

    float64 (g^d, d), the last axis fastest; g is the largest such number.
    """
    d = len(low)
    g = max(1, round(m ** (1 / d)))
    while g**d > m:
        g -= 1
    middles = (np.arange(g) + 0.5) / g
    axes = [a + (b - a) * middles for a, b in zip(low, high, strict=True)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, d)


def _check(points: FloatArray, weights: FloatArray, n_clusters: int, n_restarts: int, n_steps: int) -> None:
    if points.ndim != 2 or 0 in points.shape or weights.shape != points.shape[:1]:
        raise LocalProtocolError(
            f"points of shape {points.shape} with weights of shape {weights.shape}: (n, r) and (n,) were expected"
        )
    if min(n_clusters, n_restarts) < 1 or n_steps < 0:
        raise LocalProtocolError("n_clusters and n_restarts are at least 1, n_steps at least 0")
    if not (np.abs(points) < LARGEST).all():
        raise LocalProtocolError("a coordinate of a public point is not finite or beyond 2^400")
    if not (np.isfinite(weights) & (weights >= 0)).all():
        raise LocalProtocolError("a weight of a public point is negative or not finite")
