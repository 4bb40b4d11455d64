"""The records that an estimator is given: where they lie, and who answers for them on the grid of a
mechanism.
"""

from typing import Any, Protocol

from numpy.typing import NDArray

from fastlloyd.clustering.domain import Domain, GridArray
from fastlloyd.clustering.outside import Clipped, OutsideMarks
from fastlloyd.errors import DataError
from fastlloyd.estimators.validation import refuse_not_finite
from fastlloyd.mechanisms.answering import AllRecords, LocalRecords, SharedRecords
from fastlloyd.mechanisms.engines.collections import collection_records
from fastlloyd.mechanisms.engines.records import EngineRecords
from fastlloyd.mechanisms.private_run import AnyRun


class Held(Protocol):
    """values : (n, n_features), None where they lie elsewhere. grid : their grid points, where they
    are here.

    clipped : numbers of records and values outside the bounds, after a pass: private.
    """

    values: NDArray[Any] | None
    grid: GridArray | None

    @property
    def clipped(self) -> Clipped: ...  # noqa: D102 - see the class

    def count(self, domain: Domain) -> int:
        """How many records there are, or persons: private. domain : of the first pass."""

    def on(self, mechanism: AnyRun) -> AllRecords:
        """Who answers the queries of this mechanism. Raises DataError where a value is not
        finite.
        """


class InMemory:
    """`Held` in an array; ids : of their persons, a row each, None where each record stands for
    itself.
    """

    def __init__(self, values: NDArray[Any], ids: list[bytes] | None) -> None:
        self.values: NDArray[Any] | None = values
        self._ids, self._X = ids, values
        self.grid: GridArray | None = None
        self.clipped = Clipped()

    def count(self, domain: Domain) -> int:  # noqa: ARG002 - it is known
        """See `Held`."""
        return len(self._X) if self._ids is None else len(set(self._ids))

    def on(self, mechanism: AnyRun) -> AllRecords:
        """See `Held`."""
        self.grid, marks = on_grid(mechanism.domain, self._X)
        self.clipped = Clipped.of(marks)
        if self._ids is None:
            return LocalRecords(mechanism.domain, self.grid)
        return SharedRecords.of_persons(mechanism, self.grid, self._ids)


class OnCluster:
    """`Held` in a collection of Dask, by the cluster that this process is connected to."""

    def __init__(self, X: Any) -> None:
        self.values: NDArray[Any] | None = None
        self.grid: GridArray | None = None
        self._X = X
        self._records: EngineRecords | None = None

    @property
    def clipped(self) -> Clipped:
        """Numbers of records and values outside the bounds, after a pass: private."""
        return Clipped() if self._records is None else self._records.clipped

    def count(self, domain: Domain) -> int:
        """See `Held`: a pass."""
        return self._on(domain).count()

    def on(self, mechanism: AnyRun) -> AllRecords:
        """See `Held`."""
        return self._on(mechanism.domain)

    def _on(self, domain: Domain) -> EngineRecords:
        if self._records is None or self._records.domain != domain:
            self._records = collection_records(self._X, domain)
        return self._records


def on_grid(domain: Domain, values: NDArray[Any]) -> tuple[GridArray, OutsideMarks]:
    """`Domain.to_grid_and_outside`, which sees what is not finite; that is refused as validation
    refuses it.
    """
    try:
        return domain.to_grid_and_outside(values)
    except DataError as error:
        refused = error
    refuse_not_finite(values)
    raise refused
