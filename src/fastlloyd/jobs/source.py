"""Records of a job. Files and arrays are read through one interface."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from fastlloyd.base.arrays import FloatArray, GridArray
from fastlloyd.base.names import choose
from fastlloyd.clustering.domain import Domain
from fastlloyd.clustering.grid_records import GridRecords, Outside, unreported
from fastlloyd.clustering.grid_records import Report as PassReport
from fastlloyd.clustering.outside import Clipped
from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.errors import DataError, PlanError
from fastlloyd.federation.dealing import deal, deal_persons, deal_persons_in_passes
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.jobs.engines import check_engine, started
from fastlloyd.jobs.watching import PassEnded, PassProgressed, Watch
from fastlloyd.mechanisms.answering import (
    AllRecords,
    LocalRecords,
    Records,
    SharedRecords,
    check_cap,
)
from fastlloyd.mechanisms.engines.engine import Engine
from fastlloyd.mechanisms.engines.records import EngineRecords, Report
from fastlloyd.mechanisms.passes.records import PersonsInPasses
from fastlloyd.mechanisms.passes.spread import count_persons
from fastlloyd.mechanisms.persons import Unit
from fastlloyd.mechanisms.private_run import AnyRun
from fastlloyd.records import Layout, Missing, RecordFile, Table, open_records
from fastlloyd.records.bounds import data_bounds
from fastlloyd.records.declared import LAYOUT
from fastlloyd.records.ids import Ids
from fastlloyd.records.person_rows import persons_of
from fastlloyd.records.reading import STANDARD_INPUT, at_once_if_few
from fastlloyd.records.recipe.feature import Feature
from fastlloyd.records.recipe.rows import Using
from fastlloyd.records.record_file import Block, SeenRecords
from fastlloyd.records.table import ids_of, numbered

S_co = TypeVar("S_co", bound="Source", covariant=True)
UNKNOWN = Domain(features=("x",), lower=(-1.0,), upper=(1.0,))
"""Placeholder for a domain that is not known yet."""


class Source(Protocol):
    """Records that a job reads in passes.

    columns : name of each feature: x1, x2, ... if the columns of the records have no names.
    names : the same names, or None if the columns of the records have no names.
    others : names of columns that are not used.
    has_ids : whether each row has the id of its person.
    drops_records : whether a record with a missing cell is left out.
    clipped : after a pass, exact numbers of records and values outside the bounds. Do not publish
        them.
    dropped : after a pass, exact number of records that were left out. Do not publish it.
    """

    @property
    def columns(self) -> tuple[str, ...]: ...  # noqa: D102 - see the class
    @property
    def names(self) -> tuple[str, ...] | None: ...  # noqa: D102
    @property
    def others(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def has_ids(self) -> bool: ...  # noqa: D102
    @property
    def drops_records(self) -> bool: ...  # noqa: D102
    @property
    def clipped(self) -> Clipped: ...  # noqa: D102
    @property
    def dropped(self) -> int: ...  # noqa: D102

    def load(self) -> None:
        """Read the records into memory if they are few. Raises DataError if a record is invalid."""

    def count(self, domain: Domain) -> int:
        """Return the exact number of records, or of persons if rows have ids. Do not publish it.

        domain : domain that the first pass uses.
        """

    def check_layout(self, relation: NeighboringRelation) -> None:
        """Raise DataError if a replaced record could change how a text file is split into cells."""

    def check_number(self, cap: int, unit: Unit) -> None:
        """Raise DataError if there are more records, or persons, than the cap. If their number is
        not known without a pass, do nothing.

        unit : unit that is counted, for the error message.
        """

    def extremes(self) -> tuple[FloatArray, FloatArray]:
        """Return the exact smallest and largest value of each feature, float64 (n_features,) each.
        Do not publish them.
        """

    def answering(
        self, run: AnyRun, outside: Outside, watch: Watch
    ) -> AbstractContextManager[AllRecords]:
        """Return a context that yields the object that answers the queries of a run. If rows have
        ids, each person counts once.

        run : mechanism of the run. Records become grid points of its domain.
        outside : treatment of a value outside the bounds.
        watch : function that receives events of the job.
        """


class Openable(Protocol[S_co]):
    """Records that a request names, and that can be opened."""

    def open(self) -> S_co:
        """Return the opened records. Raises DataError or PlanError if they cannot be used."""

    def open_as(self, features: tuple[Feature, ...]) -> S_co:
        """Return the records, read with `features` in place of the features of their recipe. Raises
        the errors of `open`.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSource:
    """Records of a file, a folder or a pattern, as a request names them.

    path : path of the records, as `open_records` takes it.
    features : names of the columns to use, or None for all.
    missing : treatment of a record with a missing cell, "refuse" or "drop".
    unit_column : name of the column with the id of each row's person, or None.
    engine : name of the engine whose workers read the records, or None to read them in this
        process.
    holds_keys : as in `engines.started`.
    recipe : recipe whose features the records have, or None. It says what a missing cell means, so
        `missing` then has no effect.
    layout : what is stated about the format of text files, or None if nothing is stated.
    """

    path: str
    features: Sequence[str] | None = None
    missing: str = "refuse"
    unit_column: str | None = None
    engine: str | None = None
    holds_keys: bool = False
    recipe: Using | None = None
    layout: Layout | None = None

    def open(self) -> "TableSource":
        """Return the opened records. If they are few, `load` of the result reads them into memory.

        Raises DataError or PlanError if they cannot be used.
        """
        treatment = choose(Missing, self.missing, "missing")
        if self.engine is not None:
            check_engine(self.engine)
            if self.unit_column is not None:
                raise PlanError(
                    "unit_column cannot be used with an engine, because only this process puts"
                    " the rows of a person together; leave out --engine",
                    field="engine",
                )
        file = open_records(
            self.path,
            self.features,
            missing=treatment,
            unit=self.unit_column,
            recipe=self.recipe,
            layout=self.layout,
        )
        drops_records = treatment is Missing.DROP
        if self.recipe is not None:
            drops_records = self.recipe.drops_records
            if self.recipe.is_per_person:
                self._check_per_person()
                return TableSource(
                    persons_of(file, self.recipe),
                    drops_records=drops_records,
                    has_fixed_separator=file.has_fixed_separator,
                )
        return TableSource(
            file,
            engine=self.engine,
            drops_records=drops_records,
            holds_keys=self.holds_keys,
            has_fixed_separator=file.has_fixed_separator,
        )

    def open_as(self, features: tuple[Feature, ...]) -> "TableSource":
        """Return the records, read with `features` in place of the features of their recipe. Raises
        the errors of `open`, and DataError for standard input.
        """
        if self.recipe is None:
            raise AssertionError("the records have no recipe")
        if self.path == STANDARD_INPUT or Path(self.path).is_fifo():
            raise DataError(
                f"{self.path} can be read once, but a search for bounds with a recipe reads the"
                " records again; write them to a file first"
            )
        again = replace(self, recipe=replace(self.recipe, features=features)).open()
        again.load()
        return again

    def _check_per_person(self) -> None:
        if self.engine is not None:
            raise PlanError(
                "per_person makes one record of all rows of a person, which only this process can"
                " do; leave out --engine",
                field="engine",
            )
        if self.unit_column is None:
            raise PlanError(
                "the recipe has per_person, which needs the ids of the persons; write unit ="
                ' "person" in [privacy] and the name of their column in [here], or pass'
                " --unit-column",
                field="unit_column",
            )


class ArrayRecords:
    """Records of an array, in the form that `GridRecords` reads.

    values : real numbers (n, n_features).
    columns : names of the columns.
    ids : id of each row's person, or None.
    check_finite : function that raises DataError for NaN or infinite values.
    place : function that returns the place of a record for error messages, given the record's
        number from 1.
    """

    n_ahead, dropped, others, source = 0, 0, (), "X"

    def __init__(
        self,
        values: NDArray[Any],
        columns: Sequence[str],
        ids: list[bytes] | None,
        check_finite: Callable[[NDArray[Any]], None],
        place: Callable[[int], str] = numbered,
    ) -> None:
        self.values, self.columns, self.ids = values, tuple(columns), ids
        self._check_finite, self.place = check_finite, place

    @property
    def n_rows(self) -> int:
        """Exact number of rows. Do not publish it."""
        return len(self.values)

    def blocks(self) -> Iterator[NDArray[Any]]:
        """Yield all records in one block."""
        yield self.values

    def blocks_to_check(self) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield one pair: the number of the first record, 1, and all records in one block."""
        yield 1, self.values

    def check(self, block: Any, _first: int, /) -> None:
        """Raise DataError if a value of the block is not finite."""
        self._check_finite(block)


class TableSource:
    """`Source` of records in memory, or in a file that is read again in each pass.

    records : the records.
    grid : all records as grid points (n, n_features), or None if no run had them in memory.

    Parameters
    ----------
    engine : name of the engine whose workers read the records, or None.
    drops_records : whether a record with a missing cell is left out.
    has_names : whether the columns have names of their own.
    holds_keys : as in `engines.started`.
    has_fixed_separator : as in `RecordFile`.
    """

    def __init__(
        self,
        records: Table | RecordFile | ArrayRecords,
        *,
        engine: str | None = None,
        drops_records: bool = False,
        has_names: bool = True,
        holds_keys: bool = False,
        has_fixed_separator: bool = True,
    ) -> None:
        self.records, self._engine, self.drops_records = records, engine, drops_records
        self._has_fixed_separator = has_fixed_separator
        self._holds_keys = holds_keys
        self.columns, self.others = tuple(records.columns), tuple(records.others)
        self.names = self.columns if has_names else None
        self.grid: GridArray | None = None
        self._rows: GridRecords | None = None
        self._far: EngineRecords | None = None
        self._workers: Engine | None = None

    def open(self) -> "TableSource":
        """Return this source, which is already open."""
        return self

    def open_as(self, features: tuple[Feature, ...]) -> "TableSource":  # noqa: ARG002
        """Raise AssertionError, because the records of a recipe are opened by a request."""
        raise AssertionError("these records have no recipe")

    def load(self) -> None:
        """Read the records into memory if they are few and no engine reads them. Raises DataError
        if a record is invalid.
        """
        if isinstance(self.records, RecordFile) and self._engine is None:
            self.records = at_once_if_few(self.records)

    def check_layout(self, relation: NeighboringRelation) -> None:
        """Raise DataError if a replaced record could change how a text file is split into cells.

        If one record is added or removed, the file is read in the same way, or is refused. If one
        record is replaced, the file could be read in another way. This cannot happen if the
        separator is stated, or follows from the header.
        """
        if relation is NeighboringRelation.REPLACE_ONE and not self._has_fixed_separator:
            raise DataError(
                "separator must be stated for neighboring_relation replace_one, because a replaced"
                " record could change how all others are read",
                code=LAYOUT,
                field="separator",
            )

    @property
    def has_ids(self) -> bool:
        """Return whether each row has the id of its person."""
        records = self.records
        return (records.unit if isinstance(records, RecordFile) else records.ids) is not None

    @property
    def clipped(self) -> Clipped:
        """Exact numbers of records and values outside the bounds in the last run. Do not publish
        them.
        """
        found = self._far or self._rows
        return Clipped() if found is None else found.clipped

    @property
    def dropped(self) -> int:
        """Exact number of records that were left out because of missing cells. Do not publish
        it.
        """
        return (self.records.dropped or 0) if self._far is None else self._far.dropped

    def count(self, domain: Domain) -> int:  # noqa: ARG002 - counted without a grid
        """Return the exact number of records, or of persons if rows have ids. Do not publish it."""
        records = self.records
        if not isinstance(records, RecordFile):
            ids = self._texts
            return records.n_rows if ids is None else len(set(ids))
        if records.unit is None:
            return sum(np.shape(block)[0] for block in records.blocks())
        blocks = map(ids_of, records.column_blocks())
        return count_persons(ids for ids in blocks if ids is not None)

    def check_number(self, cap: int, unit: Unit) -> None:
        """Raise DataError if there are more records, or persons, than the cap. For a file, do
        nothing, because the number is known only after a pass.

        unit : unit that is counted, for the error message.
        """
        if not isinstance(self.records, RecordFile):
            check_cap(self.count(UNKNOWN), cap, unit)

    def extremes(self) -> tuple[FloatArray, FloatArray]:
        """Return the exact smallest and largest value of each feature. Do not publish them."""
        return data_bounds(self.records.blocks())

    def on_grid(
        self,
        domain: Domain,
        outside: Outside,
        report: PassReport = unreported,
        see: Callable[[Block], None] | None = None,
    ) -> GridRecords:
        """Return the records as grid points, for passes in this process.

        domain : bounds and grid of the features.
        outside : treatment of a value outside the bounds.
        report : as in `GridRecords`.
        see : function that is called with each block of the first pass, in original units.
        """
        records = self.records
        if see is not None and not isinstance(records, ArrayRecords):
            seen = SeenRecords(records, see)
            self._rows = GridRecords(seen, domain, outside, source=records.source, report=report)
        else:
            self._rows = GridRecords(records, domain, outside, source=records.source, report=report)
        return self._rows

    @contextmanager
    def working(self, watch: Watch) -> "Iterator[Engine | None]":
        """Start the workers of the engine, and yield the engine. Without an engine, yield None.

        watch : function that receives events of the job.

        Raises EngineError if the engine cannot be used.
        """
        if self._engine is None or self._workers is not None:
            yield self._workers
            return
        with started(self._engine, watch, holds_keys=self._holds_keys) as workers:
            self._workers = workers
            try:
                yield workers
            finally:
                self._workers = None

    @contextmanager
    def answering(
        self,
        run: AnyRun,
        outside: Outside,
        watch: Watch,
        see: Callable[[Block], None] | None = None,
    ) -> Iterator[AllRecords]:
        """Yield the object that answers the queries of a run. If rows have ids, each person counts
        once.

        run, outside, watch : as in `Source.answering`.
        see : as in `on_grid`. Workers of an engine never call it.
        """
        records, self._far = self.records, None
        if self._engine is not None and isinstance(records, RecordFile):
            with self.working(watch) as workers:
                if workers is None:
                    raise AssertionError("an engine was named")
                self._far = EngineRecords.of_files(
                    records, run.domain, outside, workers, _pieces_to(watch)
                )
                yield self._far
            return
        rows = self.on_grid(run.domain, outside, _passes_to(watch), see)
        if isinstance(records, RecordFile):
            yield (
                PersonsInPasses(rows, run, source=records.source)
                if self.has_ids
                else LocalRecords(run.domain, rows)
            )
            return
        (self.grid,), ids = rows, self._texts
        yield (
            LocalRecords(run.domain, self.grid)
            if ids is None
            else SharedRecords.of_persons(run, self.grid, ids)
        )

    @contextmanager
    def dealt(self, plan: Plan, outside: Outside, watch: Watch) -> Iterator[list[Records]]:
        """Yield the records of each client of a simulation, in the order of the plan.

        plan : plan of the simulation.
        outside : treatment of a value outside the bounds.
        watch : function that receives events of the job.
        """
        if not self.has_ids:
            with self.answering(plan.mechanism, outside, watch) as whole:
                yield deal(plan, whole)
            return
        rows = self.on_grid(plan.mechanism.domain, outside, _passes_to(watch))
        if (ids := self._texts) is None:
            yield deal_persons_in_passes(plan, rows, self.records.source)
            return
        (self.grid,) = rows
        yield deal_persons(plan, ids, self.grid)

    @property
    def _texts(self) -> list[bytes] | None:
        """Ids of the rows as texts, or None if the rows are not in memory or have no ids."""
        ids = None if isinstance(self.records, RecordFile) else self.records.ids
        return ids.texts() if isinstance(ids, Ids) else ids


def _passes_to(watch: Watch) -> PassReport:
    return lambda number, n: watch(
        PassEnded() if n is None else PassProgressed(number=number, n_records=n)
    )


def _pieces_to(watch: Watch) -> Report:
    number = 0

    def report(done: int, of: int) -> None:
        nonlocal number
        number += done == 0
        watch(PassProgressed(number=number, n_pieces=done, n_all_pieces=of))
        if done == of:
            watch(PassEnded())

    return report
