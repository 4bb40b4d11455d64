"""Random normal clusters with a specified degree of separation, records of them, and outliers (Qiu and Joe 2006).

Qiu and Joe's method as the R package clusterGeneration has it by default: covariances with eigenvalues uniform in [1, 10]
and eigenvectors uniform among all orthogonal matrices, centres on a randomly rotated grid of simplices (`placement.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fastlloyd.base.arrays import FloatArray, IntArray
from fastlloyd.base.randomness import Draws, PublicSeed
from fastlloyd.evaluation.datasets.placement import place, simplex_grid, touching_radius

OUTLIER = -1
"""Label of a record that belongs to no cluster."""

EIGENVALUES = (1.0, 10.0)
"""Range of the eigenvalues of covariances before clusters grow."""

OUTLIER_REACH = 4.0
"""Outliers lie within so many standard deviations of the mean of all other records, feature by feature."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture:
    """Normal clusters in d dimensions.

    means : (k, d); axes : (k, d, d), orthogonal, each cluster's eigenvectors as columns; deviations : (k, d), along the axes.
    """

    means: FloatArray
    axes: FloatArray
    deviations: FloatArray

    @property
    def covariances(self) -> FloatArray:
        """Covariance matrix of each cluster, float64 (k, d, d)."""
        return _covariances(self.axes, self.deviations)

    def records(self, sizes: IntArray, draws: Draws) -> tuple[FloatArray, IntArray]:
        """sizes[i] records of each cluster i, sorted by it: (n, d), and their labels (n,)."""
        parts = [
            mean + (draws.normal((int(size), len(mean))) * deviations) @ axes.T
            for size, mean, axes, deviations in zip(sizes, self.means, self.axes, self.deviations, strict=True)
        ]
        return np.concatenate(parts), np.repeat(np.arange(len(sizes), dtype=np.int64), sizes)


def draws_for(name: str) -> Draws:
    """Independent draws for every name: whatever is random about records of that name."""
    return Draws(PublicSeed.from_text(name), b"fastlloyd/v1/synthetic-records")


def random_mixture(k: int, d: int, separation: float, draws: Draws) -> Mixture:
    """Draw k >= 2 clusters in d >= 2 dimensions, each with this separation, in (-1, 1), from its nearest neighbour."""
    grid = simplex_grid(k, d) @ draws.rotation(d).T
    axes = np.stack([draws.rotation(d) for _ in range(k)])
    deviations = np.sqrt(draws.uniform(*EIGENVALUES, (k, d)))
    factor, sizes = place(grid, _covariances(axes, deviations), touching_radius(separation))
    return Mixture(means=factor * grid, axes=axes, deviations=sizes[:, None] * deviations)


def with_outliers(records: FloatArray, labels: IntArray, n_outliers: int, draws: Draws) -> tuple[FloatArray, IntArray]:
    """Add outliers, uniform within `OUTLIER_REACH` standard deviations of the records' mean in every feature."""
    mean, reach = records.mean(axis=0), OUTLIER_REACH * records.std(axis=0, ddof=1)
    outliers = mean + draws.uniform(-1.0, 1.0, (n_outliers, len(mean))) * reach
    return np.concatenate([records, outliers]), np.concatenate([labels, np.full(n_outliers, OUTLIER, dtype=np.int64)])


def _covariances(axes: FloatArray, deviations: FloatArray) -> FloatArray:
    scaled = axes * deviations[:, None, :]
    covariances: FloatArray = scaled @ scaled.transpose(0, 2, 1)
    return covariances
