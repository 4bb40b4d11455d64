"""Recipes in estimators: parameters that a recipe states, and records of raw tables."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array

from fastlloyd.base.arrays import FloatArray
from fastlloyd.base.names import shown
from fastlloyd.clustering.domain import Domain
from fastlloyd.clustering.grid_records import Outside
from fastlloyd.errors import PlanError
from fastlloyd.estimators.groups import person_ids
from fastlloyd.estimators.validation import (
    refuse_collection,
    refuse_lazy_frame,
    refuse_not_finite,
)
from fastlloyd.jobs.choices import seed_of
from fastlloyd.jobs.source import ArrayRecords, TableSource
from fastlloyd.records.in_memory import frame_of, guarded, taken_over
from fastlloyd.records.recipe import Here, Recipe
from fastlloyd.records.recipe.checks import UNUSABLE_RECIPE
from fastlloyd.records.recipe.feature import Feature
from fastlloyd.records.recipe.rows import Using
from fastlloyd.records.recipe_frames import FrameRecords, cells_of_column, frame_records

_CALLED: Final = {"loss": "estimate_loss", "iterations": "n_iter", "public_seed": "random_state"}
# of the job, of studies of several organisations, or said by the class of the estimator
_NO_PARAMETERS: Final = frozenset(
    {"unit", "unit_name", "max_clients_per_person", "outside", "algorithm"}
)


def stated_parameters(model: BaseEstimator, recipe: Any) -> dict[str, Any]:
    """Return the parameters that a recipe states for an estimator. Parameters that do not have
    their default value in the estimator are left out.

    Raises PlanError if `recipe` is not a recipe, if bounds are given too, or if the estimator lacks
    a parameter that the recipe states.
    """
    if not isinstance(recipe, Recipe):
        raise PlanError(
            f"recipe is {shown(recipe)}; expected a fastlloyd.Recipe, such as"
            " fastlloyd.Recipe.load('recipe.toml')",
            field="recipe",
        )
    given, defaults = model.get_params(deep=False), _defaults(model)
    for name in ("bounds", "value_range"):
        if given[name] is not None:
            raise PlanError(
                f"{name} and recipe are both given; the recipe has the bounds of each feature:"
                f" leave out {name}",
                field=name,
            )
    found = dict(_from_tables(recipe))
    for name in found.keys() - given.keys():
        raise PlanError(
            f"the recipe states {name}, which {type(model).__name__} does not have; leave it out,"
            " or take another estimator",
            code=UNUSABLE_RECIPE,
            field=name,
        )
    return {
        name: value for name, value in found.items() if _is_default(given[name], defaults[name])
    }


def _from_tables(recipe: Recipe) -> Iterator[tuple[str, Any]]:
    for name, value in (*recipe.privacy.items(), *recipe.clustering.items()):
        if name not in _NO_PARAMETERS:
            yield _CALLED.get(name, name), seed_of(value) if name == "public_seed" else value
    unit = recipe.privacy.get("unit")
    if unit is not None:
        yield "unit", recipe.privacy.get("unit_name", unit) if unit == "person" else unit
    if recipe.here.dataset is not None:
        yield "dataset", recipe.here.dataset


def _defaults(model: BaseEstimator) -> Mapping[str, Any]:
    signature = inspect.signature(type(model).__init__)
    return {name: each.default for name, each in signature.parameters.items()}


def _is_default(value: Any, default: Any) -> bool:
    return value is default or (type(value) is type(default) and bool(value == default))


def outside_of(recipe: Recipe | None) -> str:
    """Return the treatment of values outside the bounds: the treatment that a recipe states, or the
    default.
    """
    default = Outside.CLIP.value
    return default if recipe is None else str(recipe.privacy.get("outside", default))


def using_of(recipe: Any, domain: Domain | None = None) -> Using | None:
    """Return the features of a recipe, with the names of their columns. Return None without a
    recipe.

    domain : domain of a fit, whose features are then used, or None before a fit.
    """
    here = recipe.here if isinstance(recipe, Recipe) else Here()
    if domain is not None:
        return None if domain.recipe is None else Using(features=domain.recipe, here=here)
    return None if recipe is None else Using(features=recipe.features, here=here)


def groups_of(X: Any, using: Using, *, is_person: bool) -> Any:
    """Return the column of a table with the id of each row's person, or None if none is needed.

    is_person : whether persons are protected. Ids are also needed if the recipe makes one record of
        all rows of a person.

    Raises DataError if the table lacks the column, and PlanError if the recipe does not name it.
    """
    if not (is_person or using.is_per_person):
        return None
    name = using.here.unit_column
    if name is None:
        why = (
            "makes one record of all rows of a person"
            if using.is_per_person
            else "protects persons"
        )
        raise PlanError(
            f"the recipe {why}, which needs the id of each row's person; name the column of the ids"
            " as unit_column in the section [here] of the recipe, and pass it on by"
            " set_params(recipe=Recipe.load(FILE)); or pass groups to fit",
            field="unit_column",
        )
    return cells_of_column(X, name)


def raw_records(X: Any, using: Using, groups: Any = None) -> FrameRecords:
    """Return the records that a recipe makes of a raw table.

    X : data frame, table of Arrow, or array of numbers with the recipe's columns.
    groups : id of the person of each row, or None.

    Raises DataError if a column is missing, or if the recipe refuses a cell. No message shows a
    cell.
    """
    X = in_memory(X)
    ids = None if groups is None else person_ids(groups, guarded(lambda: len(X), "X"), X)
    return frame_records(X, using, ids)


class RawTable:
    """Raw table, which a request opens as the records of a recipe.

    X, groups : as in `raw_records`.
    using : features of the recipe, with the names of their columns.
    """

    def __init__(self, X: Any, using: Using, groups: Any) -> None:
        self._X, self._using, self._groups = X, using, groups
        self._rows: FrameRecords | None = None

    def open(self) -> TableSource:
        """Return the records that the recipe makes of the table. Raises DataError if the recipe
        refuses a cell.
        """
        return self.open_as(self._using.features)

    def open_as(self, features: tuple[Feature, ...]) -> TableSource:
        """Return the records, made with `features` in place of the recipe's own features. Raises
        DataError as `open` does.
        """
        using = replace(self._using, features=features)
        self._rows = rows = raw_records(self._X, using, self._groups)
        source = ArrayRecords(rows.values, rows.columns, rows.ids, refuse_not_finite, rows.place)
        return TableSource(source, drops_records=using.drops_records)

    def by_row(self, values: NDArray[Any], gone: Any) -> NDArray[Any]:
        """Return, for each row of the table, the value of its record, as `FrameRecords.by_row`
        does. The records are those that were opened last.
        """
        if self._rows is None:
            raise AssertionError("no records were opened")
        return self._rows.by_row(values, gone)


def in_memory(X: Any) -> Any:
    """Return a table in memory, which can be read more than once.

    Raises DataError for a table that is not in memory, and TypeError for a sparse one.
    """
    refuse_collection(X)
    refuse_lazy_frame(X)
    if issparse(X):
        check_array(X)  # which refuses it
    return taken_over(X)


def note_columns(model: Any, X: Any, using: Using) -> None:
    """Store the number and the names of the columns that the recipe reads, as scikit-learn does.

    model : estimator or transformer that is fitted.
    """
    model.n_features_in_ = len(using.names)
    has_names = hasattr(X, "columns") or guarded(lambda: frame_of(X), "X") is not None
    if has_names:
        model.feature_names_in_ = np.array(using.names, dtype=object)
    else:
        model.__dict__.pop("feature_names_in_", None)


def in_columns(domain: Domain, values: FloatArray) -> FloatArray:
    """Return numbers that are clustered, (n, n_features), in the units of the columns.

    A mean of logarithms becomes the typical value. A date stays a number of days since 1 January
    1970.
    """
    if domain.recipe is None:
        return values
    columns = Using(features=domain.recipe).columns
    scaled = [each.scale.to_column(values[:, i]) for i, each in enumerate(columns)]
    return np.stack(scaled, axis=1)
