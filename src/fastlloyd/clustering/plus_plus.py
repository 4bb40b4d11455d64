"""Greedy k-means++ (Arthur and Vassilvitskii 2007, section 2.2) on weighted public points, many starts at once.

Every centroid is a point, drawn with probability proportional to its weight times its squared distance to the nearest centroid
so far. Greedy: a few are drawn, and the one that lowers the loss the most is kept.
"""

import math

import numpy as np

from fastlloyd.base.arrays import FloatArray, IntArray
from fastlloyd.base.randomness import Draws

BLOCK_ELEMENTS = 1 << 17  # distances worked on together: 1 MiB of float64


def n_trials(n_clusters: int) -> int:
    """How many points are drawn for one centroid: 2 + floor(log k), as in scikit-learn."""
    return 2 + math.floor(math.log(n_clusters))


def first_centroids(points: FloatArray, weights: FloatArray, n_clusters: int, draws: Draws, n_starts: int) -> FloatArray:
    """Return centroids (n_starts, n_clusters, r) among the points (n, r), whose weights (n,) are positive.

    How many numbers are drawn follows from the shapes alone. Where all points are centroids already, points are repeated.
    """
    n, T = len(points), n_trials(n_clusters)
    firsts = draws.uniform(0.0, 1.0, (n_starts,))
    trials = draws.uniform(0.0, 1.0, (n_starts, n_clusters - 1, T))
    chosen = np.empty((n_starts, n_clusters), dtype=np.int64)
    chosen[:, 0] = _drawn(np.broadcast_to(weights, (1, n)), firsts[None, :])[0]
    lifted = _lifted(points)
    starts_together = max(1, BLOCK_ELEMENTS // (n * T))
    for s in range(0, n_starts, starts_together):
        _go_on(lifted, weights, trials[s : s + starts_together], chosen[s : s + starts_together])
    return points[chosen]


def _go_on(lifted: tuple[FloatArray, FloatArray], weights: FloatArray, trials: FloatArray, chosen: IntArray) -> None:
    """Fill chosen[:, 1:] for a few starts. trials : (starts, k - 1, T) uniform numbers."""
    S, k = chosen.shape
    T, n = trials.shape[2], len(weights)
    rows, columns = lifted
    nearest = np.maximum(rows[chosen[:, 0]] @ columns, 0.0)  # (S, n) squared distances to the nearest centroid so far
    distances = np.empty((S, T, n))
    for c in range(1, k):
        candidates = _drawn(nearest * weights, trials[:, c - 1])
        np.matmul(rows[candidates.ravel()], columns, out=distances.reshape(S * T, n))
        np.minimum(distances, nearest[:, None, :], out=distances)
        best = (distances @ weights).argmin(axis=1)
        chosen[:, c] = candidates[np.arange(S), best]
        np.maximum(distances[np.arange(S), best], 0.0, out=nearest)  # a rounded distance of 0 may lie below


def _drawn(masses: FloatArray, uniform: FloatArray) -> IntArray:
    """Indices (S, T) drawn from each row of masses (S, n) by inversion of uniform numbers (S, T); the last where all are 0."""
    sums = masses.cumsum(axis=1)
    found = [row.searchsorted(u * row[-1], side="right") for row, u in zip(sums, uniform, strict=True)]
    drawn: IntArray = np.minimum(np.stack(found), masses.shape[1] - 1)
    return drawn


def _lifted(points: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Matrices (n, r + 2) and (r + 2, n) whose product holds all squared distances: |x|^2 - 2 x.y + |y|^2."""
    squares = np.einsum("ij,ij->i", points, points)[:, None]
    ones = np.ones_like(squares)
    return np.hstack([-2.0 * points, squares, ones]), np.ascontiguousarray(np.hstack([points, ones, squares]).T)
