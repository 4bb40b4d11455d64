"""k-means of *public* points: what follows from noisy answers, or from public draws. Never of records.

Ordinary float64 arithmetic, the same on one machine for the same draws; the last place may differ on another. The numbers of
steps and of draws are fixed beforehand, so that how long it takes says little of the points.
"""

import math
from dataclasses import dataclass

import numpy as np

from fastlloyd.clustering.domain import FloatArray, IntArray
from fastlloyd.clustering.plus_plus import first_centroids
from fastlloyd.draws import Draws
from fastlloyd.errors import LocalProtocolError

BLOCK_ELEMENTS = 1 << 16  # scores worked on together: half a MiB, which stays in the cache
LARGEST = 2.0**500  # of a coordinate: sums of squares stay far from overflow


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
    """Cluster weighted points: the best of several starts by greedy k-means++, after `n_steps` of Lloyd's steps each.

    points : float64 (n, r), n and r at least 1. weights : float64 (n,), none negative; if all are 0, all count the same.
    Ties go to the lowest index: of centroids, of points, of restarts. Points without weight have labels and nothing else. A
    cluster that no point is nearest to gets the point with the largest weighted distance. Of fewer than k distinct points
    some are repeated among the centroids.

    Raises
    ------
    LocalProtocolError : shapes that do not fit; a number that is not finite or beyond 2^500; a negative weight.
    """
    _check(points, weights, n_clusters, n_restarts, n_steps)
    weights = weights / weights.max() if weights.any() else np.ones(len(points))
    counted = weights > 0
    kept, w = points[counted], weights[counted]
    origin = (w / w.sum()) @ kept  # scalar products lose the fewest digits around the mean
    kept = kept - origin
    starts = first_centroids(kept, w, n_clusters, draws, n_restarts)
    best = _lloyd(kept, w, starts, n_steps)
    labels = _labels(points - origin, best[None])[0]
    squared = _squared_distances(points - origin, best, labels)
    return PublicClusters(centroids=best + origin, labels=labels, loss=float(weights @ squared / weights.sum()))


def _lloyd(points: FloatArray, weights: FloatArray, starts: FloatArray, n_steps: int) -> FloatArray:
    """The centroids (k, r) of least loss, from starts (R, k, r)."""
    R = len(starts)
    centroids = starts
    weighted = np.ascontiguousarray(np.hstack([weights[:, None] * points, weights[:, None]]).T)
    for _ in range(n_steps):
        centroids = _step(points, weights, weighted, centroids)
    losses = [weights @ _squared_distances(points, C, labels) for C, labels in zip(centroids, _labels(points, centroids), strict=True)]
    return centroids[int(np.argmin(losses))]


def _step(points: FloatArray, weights: FloatArray, weighted: FloatArray, centroids: FloatArray) -> FloatArray:
    """One step of Lloyd's from each of centroids (R, k, r). weighted : (r + 1, n), weighted points and their weights."""
    R, k, r = centroids.shape
    labels = _labels(points, centroids)
    place = k * np.arange(R)[:, None]

    def totals(row: FloatArray) -> FloatArray:
        return np.bincount((labels + place).ravel(), np.tile(row, R), R * k).reshape(R, k)

    masses = totals(weighted[r])
    lacking = np.flatnonzero((masses == 0).any(axis=1))
    if len(lacking):
        for s in lacking:
            _relocate(points, weights, centroids[s], labels[s])
        masses = totals(weighted[r])
    sums = np.stack([totals(row) for row in weighted[:r]], axis=2)
    filled = (masses > 0)[:, :, None]
    return np.where(filled, sums / np.where(filled, masses[:, :, None], 1.0), centroids)


def _relocate(points: FloatArray, weights: FloatArray, centroids: FloatArray, labels: IntArray) -> None:
    """Give every empty cluster the point that adds most to the loss, each another; none while nothing adds to it."""
    empty = np.flatnonzero(np.bincount(labels, minlength=len(centroids)) == 0)
    shares = weights * _squared_distances(points, centroids, labels)
    farthest = np.argsort(-shares, kind="stable")[: len(empty)]
    farthest = farthest[shares[farthest] > 0]
    labels[farthest] = empty[: len(farthest)]


def _labels(points: FloatArray, centroids: FloatArray) -> IntArray:
    """The nearest of each of centroids (R, k, r): (R, n)."""
    R, k, r = centroids.shape
    n = len(points)
    rows = np.hstack([points, np.ones((n, 1))])
    keys = np.empty((r + 1, R * k))
    keys[:r] = -2.0 * centroids.reshape(R * k, r).T
    keys[r] = np.einsum("scj,scj->sc", centroids, centroids).ravel()
    labels = np.empty((n, R), dtype=np.int64)
    block = max(16, BLOCK_ELEMENTS // (R * k))
    scores = np.empty((min(n, block), R * k))
    for start in range(0, n, block):
        part = rows[start : start + block]
        np.matmul(part, keys, out=scores[: len(part)])
        scores[: len(part)].reshape(len(part), R, k).argmin(axis=2, out=labels[start : start + block])
    return np.ascontiguousarray(labels.T)


def _squared_distances(points: FloatArray, centroids: FloatArray, labels: IntArray) -> FloatArray:
    """To the centroid of each point's label: (n,)."""
    offsets = points - centroids[labels]
    squared: FloatArray = np.einsum("ij,ij->i", offsets, offsets)
    return squared


def _check(points: FloatArray, weights: FloatArray, n_clusters: int, n_restarts: int, n_steps: int) -> None:
    if points.ndim != 2 or 0 in points.shape or weights.shape != points.shape[:1]:
        raise LocalProtocolError(f"points of shape {points.shape} with weights of shape {weights.shape}: (n, r) and (n,) were expected")
    if min(n_clusters, n_restarts) < 1 or n_steps < 0:
        raise LocalProtocolError("n_clusters and n_restarts are at least 1, n_steps at least 0")
    if not (np.abs(points) < LARGEST).all():
        raise LocalProtocolError("a coordinate of a public point is not finite or beyond 2^500")
    if not (np.isfinite(weights) & (weights >= 0)).all():
        raise LocalProtocolError("a weight of a public point is negative or not finite")
