"""Transformer that applies a recipe to each row, and learns nothing."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags

from fastlloyd.base.arrays import FloatArray
from fastlloyd.clustering.domain import Domain, Scaling
from fastlloyd.errors import PlanError
from fastlloyd.estimators.recipes import in_memory, note_columns, raw_records, using_of
from fastlloyd.records.recipe import Recipe
from fastlloyd.records.recipe.checks import UNUSABLE_RECIPE
from fastlloyd.records.recipe.rows import Using


class RecipeTransformer(TransformerMixin, BaseEstimator):
    r"""Features of a recipe, for pipelines of scikit-learn.

    The features of a row depend on this row and the recipe alone. So a fit learns nothing from the
    records and spends no privacy budget. A feature of weight w is between -w and w: its bounds
    become these two numbers. Give bounds=(-1, 1) to the estimator after this transformer. The
    estimator's grid is then the same as with the recipe. But the noise is made for ranges from -1
    to 1. So if weights are below 1, the parameter `recipe` of the estimator gives less noise.

    Parameters
    ----------
    recipe : Recipe
        Recipe without per_person, because each row of the table becomes one row of features. A row
        that is dropped because of a missing cell has NaN.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns that the recipe reads.
    feature_names_in_ : ndarray of str (n_features_in_,), only where X had column names
        Names of the columns that the recipe reads.

    Examples
    --------
    >>> import pandas as pd
    >>> from fastlloyd import Recipe, RecipeTransformer
    >>> recipe = Recipe.from_toml("[features.age]\nbounds = [0, 100]\n")
    >>> RecipeTransformer(recipe).fit_transform(pd.DataFrame({"age": [0.0, 50.0, 100.0]})).ravel()
    array([-1.,  0.,  1.])
    """

    def __init__(self, recipe: Recipe | None = None) -> None:
        self.recipe = recipe

    def fit(self, X: ArrayLike, y: object = None) -> Self:  # noqa: ARG002 - scikit-learn passes y
        """Check the table, and return this transformer. It keeps nothing but names of columns.

        X : raw table, as in `transform`.

        Raises DataError for a table that the recipe cannot read. The message shows no cell.
        """
        table = in_memory(X)
        raw_records(table, self._using)
        note_columns(self, table, self._using)
        return self

    def transform(self, X: ArrayLike) -> FloatArray:
        """Return the features of each row, float64 (n_samples, n_features). NOT PRIVATE.

        X : data frame of pandas or Polars, table of Arrow, or array of numbers with the columns of
            the recipe in their order.

        Raises DataError if a column is missing, or if the recipe refuses a cell. The message shows
        no cell.
        """
        records, domain = raw_records(in_memory(X), self._using), self._domain
        values = np.clip(records.values, domain.lower, domain.upper)
        scaled = (values - domain.centre) / domain.units / 2**domain.fraction_bits
        limits = domain.half_widths / 2**domain.fraction_bits
        return records.by_row(np.clip(scaled, -limits, limits), np.nan)

    def get_feature_names_out(self, input_features: object = None) -> Any:  # noqa: ARG002
        """Return the names of the features, such as "ward=surgery", ndarray of str."""
        return np.array(self._domain.features, dtype=object)

    @property
    def _using(self) -> Using:
        using = using_of(self.recipe) if isinstance(self.recipe, Recipe) else None
        if using is None:
            raise PlanError(
                "recipe is missing; pass a fastlloyd.Recipe, such as"
                " fastlloyd.Recipe.load('recipe.toml')",
                field="recipe",
            )
        if isinstance(self.recipe, Recipe) and self.recipe.searched:
            raise PlanError(
                "the recipe has ranges, in which bounds are still to be found; pass recipe= to an"
                " estimator, which finds them, or a recipe with bounds",
                code=UNUSABLE_RECIPE,
                field="range",
            )
        if using.is_per_person:
            raise PlanError(
                "the recipe has per_person, which makes one record of the rows of a person; pass"
                " recipe= to the estimator instead",
                code=UNUSABLE_RECIPE,
                field="per_person",
            )
        return using

    @property
    def _domain(self) -> Domain:
        return Domain.of_recipe(self._using.features, scaling=Scaling.PER_FEATURE)

    def __sklearn_tags__(self) -> Tags:
        """Return the tags of scikit-learn: no fit is needed, and tables may have text and missing
        cells.
        """
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        return tags
