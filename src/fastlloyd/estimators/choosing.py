"""Parameters of an estimator as choices for a job, and the records that the job reads."""

# signatures in short: help and ? show what is written here, not what it stands for
from __future__ import annotations

from typing import Any, ClassVar, Self

from sklearn.base import BaseEstimator

from fastlloyd.base.names import choose, shown
from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.dp.noise import Noise
from fastlloyd.errors import DataError, PlanError
from fastlloyd.estimators.groups import person_ids
from fastlloyd.estimators.recipes import note_columns, stated_parameters, using_of
from fastlloyd.estimators.validation import (
    public_seed,
    refuse_not_finite,
    validate_collection,
    validate_records,
)
from fastlloyd.jobs.choices import (
    FROM_DATA,
    PRIVATE,
    ClusteringChoices,
    RecipeFeatures,
    StatedBounds,
)
from fastlloyd.jobs.collection_source import CollectionSource
from fastlloyd.jobs.source import ArrayRecords, TableSource
from fastlloyd.mechanisms.engines.collections import is_collection, sample
from fastlloyd.mechanisms.persons import Persons
from fastlloyd.mechanisms.settings import AnyAlgorithm
from fastlloyd.records.bounds import given_bounds


class Choosing(BaseEstimator):
    """Base class of estimators. It converts an estimator's parameters to the choices of a job."""

    _algorithm: ClassVar[AnyAlgorithm]

    def _fraction_bits(self) -> int:
        """Return the default number of fraction bits."""
        return 16

    def _stated(self) -> Self:
        """Return this estimator. With a recipe, return a copy in which parameters that have their
        default value take the values of the recipe.

        Raises PlanError if the recipe cannot be used.
        """
        if self.recipe is None:
            return self
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__ | stated_parameters(self, self.recipe))
        return copy

    def _records(self, X: Any, groups: Any) -> TableSource | CollectionSource:
        """Return the records as a source for a job, after a check of their types.

        groups : id of the person of each row, or None.

        Raises DataError for records or ids that cannot be used. Raises PlanError if a Dask
        collection needs a public parameter that is missing.
        """
        if not is_collection(X):
            values = validate_records(self, X, reset=True, ensure_all_finite=self.bounds is None)
            ids = None if groups is None else person_ids(groups, len(values), X)
            records = ArrayRecords(values, self._columns, ids, refuse_not_finite)
            return TableSource(records, has_names=self._names is not None)
        if groups is not None:
            raise DataError(
                "groups cannot be used with a collection of Dask as X; pass both in memory, or"
                " cluster files by `fastlloyd fit --unit-column`"
            )
        source = self._collection(X)
        stated = self._stated()
        relation = choose(NeighboringRelation, stated.neighboring_relation, "neighboring_relation")
        if stated.n_records is None and relation is NeighboringRelation.ADD_OR_REMOVE_ONE:
            raise PlanError(
                "n_records is missing: for a Dask collection X, state a round number above the"
                " number of records"
            )
        return source

    def _collection(self, X: Any) -> CollectionSource:
        using = using_of(self.recipe)
        if using is None:
            validate_collection(self, X)
            source = CollectionSource(X, self._columns, has_names=self._names is not None)
            if self.bounds is None:
                source.extremes()  # which are not taken from records that are elsewhere
            return source
        if using.is_per_person:
            raise PlanError(
                "the recipe has per_person, and the rows of a person may lie in several partitions"
                " of X; pass X in memory",
                field="per_person",
            )
        note_columns(self, sample(X), using)
        names = [column.name for column in using.columns]
        return CollectionSource(X, names, recipe=using)

    @property
    def _columns(self) -> list[str]:
        return self._names or [f"x{i}" for i in range(self.n_features_in_)]

    @property
    def _names(self) -> list[str] | None:
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else [str(name) for name in names]

    def _persons(self, groups: object) -> Persons | None:
        """Return the persons that the fit protects, or None if it protects single rows.

        Raises PlanError if `unit` contradicts `groups`.
        """
        of_records = isinstance(self.unit, str) and self.unit == "record"
        named = self.unit is not None and not of_records
        if named and groups is None:
            raise PlanError(
                f"unit is {shown(self.unit)}, and fit was given no groups; pass groups, one id for"
                " each row of X"
            )
        if of_records and groups is not None:
            raise PlanError(
                "unit is 'record', and fit was given groups; leave groups out, or pass"
                " unit='person'"
            )
        if named and not isinstance(self.unit, str):
            raise PlanError(
                f"unit is {shown(self.unit)}; expected 'record', or a word for a person, such as"
                " 'patient'"
            )
        return (
            None if groups is None else Persons.called("person" if self.unit is None else self.unit)
        )

    def _choices(self, persons: Persons | None) -> ClusteringChoices:
        """Return the parameters as choices for a job, without those that the algorithm ignores.

        persons : persons that the fit protects, or None.
        """
        if isinstance(self.bounds, str) and self.bounds != PRIVATE:
            given_bounds(self.bounds, self._names, self.n_features_in_)  # which refuses it
        own = self._own_choices()
        noise = self._algorithm.varied(**own.get("varied", {})).noise
        bits = self._fraction_bits() if self.fraction_bits is None else int(self.fraction_bits)
        return ClusteringChoices(
            n_clusters=self.n_clusters,
            bounds=self._bounds(),
            value_range=self.value_range if self.recipe is None else self._features.ranges,
            n_records=FROM_DATA if self.n_records is None else self.n_records,
            epsilon=None if noise is Noise.NONE else self.epsilon,
            delta=self.delta if noise is Noise.GAUSSIAN else None,
            n_expected=self.n_expected,
            neighboring_relation=self.neighboring_relation,
            public_seed=public_seed(self.random_state),
            persons=persons,
            scaling=self.scaling,
            fraction_bits=bits,
            estimate_loss=self.estimate_loss,
            loss_share=None if noise is Noise.NONE else self.loss_share,
            **{"algorithm": self._algorithm} | own,
        )

    @property
    def _features(self) -> RecipeFeatures:
        return RecipeFeatures(self.recipe.features, self.recipe.searched)

    def _bounds(self) -> StatedBounds:
        if self.recipe is not None:
            return self._features
        return FROM_DATA if self.bounds is None else self.bounds

    def _own_choices(self) -> dict[str, Any]:
        """Return the choices that only this kind of estimator has."""
        return {}
