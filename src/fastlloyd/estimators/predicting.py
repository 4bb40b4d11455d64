"""Labels, distances and score of records from a fitted estimator: exact, so NOT PRIVATE."""

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
    """Methods of a fitted estimator that read records again."""

    mechanism_: Mechanism
    _centroids: IntArray

    def predict(self, X: ArrayLike) -> IntArray:
        """Index of the nearest centroid of each record in the scaled domain, int32 (n_samples,).
        NOT PRIVATE.
        """
        grid = self._grid(X)
        return kernels.assign(
            grid, self._centroids, limits=self.mechanism_.domain.half_widths
        ).astype(np.int32)

    def transform(self, X: ArrayLike) -> FloatArray:
        """Distances to the centroids in the scaled domain, float64 (n_samples, n_clusters). NOT
        PRIVATE.

        Unit: half the width of a feature's bounds (of the widest one with scaling="common"); the
        nearest by `transform` is the one of `predict`.
        """
        grid = self._grid(X)
        distances = np.empty((len(grid), len(self._centroids)))
        for start, stop, squared in self._squared_distances(grid):
            distances[start:stop] = np.sqrt(squared) / 2**self.mechanism_.domain.fraction_bits
        return distances

    # scikit-learn passes y
    def score(self, X: ArrayLike, y: object = None, **unknown: object) -> float:  # noqa: ARG002
        """Minus the sum of squared distances to the nearest centroid in the scaled domain. Exact on
        X: NOT PRIVATE.
        """
        self._refuse("score", unknown)
        loss = sum(
            float(squared.min(axis=1).sum())
            for _, _, squared in self._squared_distances(self._grid(X))
        )
        return -loss / float(4**self.mechanism_.domain.fraction_bits)

    def _refuse(self, method: str, unknown: Mapping[str, object]) -> None:
        """Raise TypeError for a keyword as Python does, with the name of the public estimator."""
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
