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
from fastlloyd.estimators.recipes import groups_of, in_memory, raw_records, using_of
from fastlloyd.estimators.validation import on_grid, validate_records
from fastlloyd.mechanisms.mechanism import Mechanism
from fastlloyd.records.recipe import Recipe
from fastlloyd.records.recipe_frames import FrameRecords

NO_RECORD = -1
"""Label of a row that the recipe drops because of a missing value."""


class Predicting(TransformerMixin, ClusterMixin, BaseEstimator):
    """Methods of a fitted estimator that read records again. Their results are NOT PRIVATE."""

    mechanism_: Mechanism
    # of models that were pickled before there were recipes
    recipe: Recipe | None = None
    _centroids: IntArray

    def predict(self, X: ArrayLike) -> IntArray:
        """Return the index of the centroid nearest to each record, int32 (n_samples,). NOT PRIVATE.

        Distances are those of the scaled domain. A row that the recipe drops because of a missing
        cell has -1.
        """
        grid, records = self._grid(X)
        labels = self._labels(grid)
        return labels if records is None else records.by_row(labels, NO_RECORD)

    def transform(self, X: ArrayLike) -> FloatArray:
        """Return the distance of each record from each centroid, float64 (n_samples, n_clusters).
        NOT PRIVATE.

        Distances are in the scaled domain. The unit is half the width of a feature's bounds, or of
        the widest feature with scaling="common". The nearest centroid is the one that `predict`
        returns. A row that the recipe drops because of a missing cell has NaN.
        """
        grid, records = self._grid(X)
        distances = np.empty((len(grid), len(self._centroids)))
        for start, stop, squared in self._squared_distances(grid):
            distances[start:stop] = np.sqrt(squared) / 2**self.mechanism_.domain.fraction_bits
        return distances if records is None else records.by_row(distances, np.nan)

    # scikit-learn passes y
    def score(self, X: ArrayLike, y: object = None, **unknown: object) -> float:  # noqa: ARG002
        """Return minus the sum of squared distances to the nearest centroid in the scaled domain.

        The sum is exact for X, so it is NOT PRIVATE. With a recipe it is over the records that the
        recipe makes of the rows.
        """
        self._refuse("score", unknown)
        loss = sum(
            float(squared.min(axis=1).sum())
            for _, _, squared in self._squared_distances(self._grid(X)[0])
        )
        return -loss / float(4**self.mechanism_.domain.fraction_bits)

    def _refuse(self, method: str, unknown: Mapping[str, object]) -> None:
        """Raise TypeError for an unknown keyword argument, in Python's words.

        method : name of the method, for the error message.
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

    def _labels(self, grid: GridArray) -> IntArray:
        """Return, for each grid point, the index of the nearest centroid, int32 (n,)."""
        limits = self.mechanism_.domain.half_widths
        return kernels.assign(grid, self._centroids, limits=limits).astype(np.int32)

    def _grid(self, X: ArrayLike) -> tuple[GridArray, FrameRecords | None]:
        """Return the records as grid points. Also return the records that the recipe makes of the
        rows, or None without a recipe.
        """
        check_is_fitted(self)
        domain = self.mechanism_.domain
        if (records := self._raw(X)) is not None:
            return on_grid(domain, records.values)[0], records
        values = validate_records(self, X, reset=False, ensure_all_finite=False)
        return on_grid(domain, values)[0], None

    def _raw(self, X: ArrayLike) -> FrameRecords | None:
        """Return the records that the recipe of the fit makes of a raw table, or None without a
        recipe.
        """
        using = using_of(self.recipe, self.mechanism_.domain)
        if using is None:
            return None
        table = in_memory(X)
        return raw_records(table, using, groups_of(table, using, is_person=False))
