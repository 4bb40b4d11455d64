"""Records of a job that are a collection of Dask."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from fastlloyd.base.arrays import FloatArray
from fastlloyd.clustering.domain import Domain
from fastlloyd.clustering.grid_records import Outside
from fastlloyd.clustering.outside import Clipped
from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.errors import PlanError
from fastlloyd.jobs.watching import Watch
from fastlloyd.mechanisms.answering import AllRecords
from fastlloyd.mechanisms.engines.collections import collection_records
from fastlloyd.mechanisms.engines.records import EngineRecords
from fastlloyd.mechanisms.persons import Unit
from fastlloyd.mechanisms.private_run import AnyRun
from fastlloyd.records.recipe.feature import Feature
from fastlloyd.records.recipe.rows import Using


class CollectionSource:
    """`Source` of a Dask collection. The records are read by the Dask cluster to which this process
    is connected, or by this process if it is connected to none.

    X : the collection.
    columns : names of the columns.
    has_names : whether the columns have names of their own.
    recipe : recipe whose features the records have, or None.
    """

    has_ids, dropped, others = False, 0, ()

    def __init__(
        self,
        X: Any,
        columns: Sequence[str],
        *,
        has_names: bool = True,
        recipe: Using | None = None,
    ) -> None:
        self._X, self.columns, self._recipe = X, tuple(columns), recipe
        self.drops_records = recipe is not None and recipe.drops_records
        self.names = self.columns if has_names else None
        self._records: EngineRecords | None = None

    def open(self) -> "CollectionSource":
        """Return this source, which is already open."""
        return self

    def open_as(self, features: tuple[Feature, ...]) -> "CollectionSource":
        """Return the same records, read with `features` in place of the features of their
        recipe.
        """
        if self._recipe is None:
            raise AssertionError("the records have no recipe")
        recipe = replace(self._recipe, features=features)
        return CollectionSource(self._X, recipe.row_names, recipe=recipe)

    def load(self) -> None:
        """Do nothing, because the workers have the records."""

    @property
    def clipped(self) -> Clipped:
        """Exact counts after a pass: the number of records, and the numbers of records and values
        outside the bounds. Do not publish them.
        """
        return Clipped() if self._records is None else self._records.clipped

    def count(self, domain: Domain) -> int:
        """Return the exact number of records. It takes one pass, on the grid of `domain`. Do not
        publish it.
        """
        return self._on(domain).count()

    def check_layout(self, relation: NeighboringRelation) -> None:
        """Do nothing, because a collection is not read from text files."""

    def check_number(self, cap: int, unit: Unit) -> None:
        """Do nothing, because the number is known only after a pass."""

    def extremes(self) -> tuple[FloatArray, FloatArray]:
        """Raise PlanError, because bounds cannot be taken from records that a Dask cluster
        holds.
        """
        raise PlanError(
            "bounds is missing: for a Dask collection X, state the smallest and largest value"
            " that each feature can have, from public knowledge",
            field="bounds",
        )

    @contextmanager
    def answering(self, run: AnyRun, outside: Outside, _watch: Watch) -> Iterator[AllRecords]:
        """Yield the object that answers the queries of a run.

        Raises PlanError unless values outside the bounds are clipped.
        """
        if outside is not Outside.CLIP:
            raise PlanError(
                "values of a Dask collection are always clipped; leave out the parameter 'outside'"
            )
        yield self._on(run.domain)

    def _on(self, domain: Domain) -> EngineRecords:
        if self._records is None or self._records.domain != domain:
            self._records = collection_records(self._X, domain, self._recipe)
        return self._records
