"""Labels, distances and score of records, by a fitted estimator. They are exact, so they are NOT
PRIVATE.
"""

# signatures in short: help and ? show what is written here, not what it stands for
from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClusterMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from fastlloyd.base.arrays import FloatArray, GridArray, IntArray
from fastlloyd.clustering import kernels
from fastlloyd.estimators.validation import on_grid, validate_records
from fastlloyd.mechanisms.mechanism import Mechanism


class Predicting(TransformerMixin, ClusterMixin, BaseEstimator):
    """Methods of a fitted estimator that read records again. Their results are NOT PRIVATE."""

    mechanism_: Mechanism
    _centroids: IntArray

    def predict(self, X: ArrayLike) -> IntArray:
        """Return the index of the centroid nearest to each record, int32 (n_samples,). NOT PRIVATE.

        Distances are those of the scaled domain.
        """
        grid = self._grid(X)
        return kernels.assign(
            grid, self._centroids, limits=self.mechanism_.domain.half_widths
        ).astype(np.int32)

    def transform(self, X: ArrayLike) -> FloatArray:
        """Return the distance of each record from each centroid, float64 (n_samples, n_clusters).
        NOT PRIVATE.

        Distances are in the scaled domain. The unit is half the width of a feature's bounds, or of
        the widest feature with scaling="common". The nearest centroid is the one that `predict`
        returns.
        """
        grid = self._grid(X)
        distances = np.empty((len(grid), len(self._centroids)))
        for start, stop, squared in self._squared_distances(grid):
            distances[start:stop] = np.sqrt(squared) / 2**self.mechanism_.domain.fraction_bits
        return distances

    # scikit-learn passes y
    def score(self, X: ArrayLike, y: object = None, **unknown: object) -> float:  # noqa: ARG002
        """Return minus the sum of squared distances to the nearest centroid in the scaled domain.

        The sum is exact for X, so it is NOT PRIVATE.
        """
        self._refuse("score", unknown)
        loss = sum(
            float(squared.min(axis=1).sum())
            for _, _, squared in self._squared_distances(self._grid(X))
        )
        return -loss / float(4**self.mechanism_.domain.fraction_bits)

    def _refuse(self, method: str, unknown: Mapping[str, object]) -> None:
        """Raise TypeError for an unknown keyword argument, in Python's words.

        method : name of the method in the message.
        unknown : unknown keyword arguments by name.
        """
        for name in unknown:
            why = (
                ": a weight would multiply what one record can change"
                if name == "sample_weight"
                else ""
            )
            raise TypeError(
                f"{type(self).__name__}.{method}() got an unexpected keyword argument {name!r}{why}"
            )

    def _squared_distances(self, grid: IntArray) -> Iterator[tuple[int, int, FloatArray]]:
        for start, stop in kernels.blocks(len(grid), max(self._centroids.shape), None):
            yield start, stop, kernels.squared_distances(grid[start:stop], self._centroids)

    def _grid(self, X: ArrayLike) -> GridArray:
        check_is_fitted(self)
        return on_grid(
            self.mechanism_.domain, validate_records(self, X, reset=False, ensure_all_finite=False)
        )[0]
