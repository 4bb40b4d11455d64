"""From options to whose rows are protected together, and from a column of ids to who answers."""

import enum
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from fastlloyd.base.names import choose
from fastlloyd.cli import terminal
from fastlloyd.clustering.grid_records import GridRecords
from fastlloyd.errors import PlanError
from fastlloyd.federation.dealing import deal_persons, deal_persons_in_passes
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.mechanisms.answering import AllRecords, Records, SharedRecords
from fastlloyd.mechanisms.mechanism import Mechanism
from fastlloyd.mechanisms.passes.records import PersonsInPasses
from fastlloyd.mechanisms.persons import Persons, max_clients
from fastlloyd.mechanisms.private_run import AnyRun
from fastlloyd.records import RecordFile, Table


class UnitKind(enum.Enum):
    """What is protected and counted."""

    RECORD = "record"
    PERSON = "person"


def given_persons(unit: str, name: str | None, max_clients: int | None) -> Persons | None:
    """Whose rows are protected together, by `--unit record` nobody's. Raises PlanError for an
    option without effect.
    """
    if choose(UnitKind, unit, "unit") is UnitKind.PERSON:
        if max_clients is None:
            raise PlanError(
                "--max-clients-per-person is missing: say at how many clients the rows of a person"
                " may be, 1 if everyone is at one only; the noise grows with it (`fastlloyd advise`"
                " says what that costs)"
            )
        return _persons(name, max_clients)
    for option, value in (("--unit-name", name), ("--max-clients-per-person", max_clients)):
        if value is not None:
            raise PlanError(
                f"{option} has no effect where single records are protected; say --unit person, or"
                " leave it out"
            )
    return None


def persons_in(
    column: str | None, name: str | None, max_clients: int | None = None
) -> Persons | None:
    """Whose rows are protected together where a column of the records says whose they are. Raises
    PlanError.

    max_clients None: each person is at one client.
    """
    for option, value in (("--unit-name", name), ("--max-clients-per-person", max_clients)):
        if column is None and value is not None:
            raise PlanError(
                f"{option} has no effect where single records are protected; name the column of"
                " ids, --unit-column"
            )
    return None if column is None else _persons(name, 1 if max_clients is None else max_clients)


def _persons(name: str | None, max_clients: int) -> Persons:
    return Persons.called(Persons().name if name is None else name, max_clients)


def cap_at_clients(n: int, of: Persons | None) -> int:
    """A cap on n records or persons of a simulation, each counted at each client it may be at."""
    return max_clients(of) * n


def check_alone(column: str | None, engine: str | None) -> None:
    """Refuse to have workers pass over the records of persons, whose shares are worked out in this
    process.
    """
    if column is not None and engine is not None:
        raise PlanError(
            "--unit-column has this process work out the shares of persons; leave --engine out"
        )


def check_agreed(plan: Plan, column: str | None) -> None:
    """Refuse a column of ids where a plan protects single records, and none where it protects
    persons.
    """
    m = plan.mechanism
    if m.persons is not None and column is None:
        raise PlanError(
            f"the plan protects {m.unit.many} with all their rows; name the column of your records"
            " that says whose each row is, with --unit-column"
        )
    if m.persons is None and column is not None:
        raise PlanError(
            "the plan protects single records, not persons; leave --unit-column out, or agree on a"
            " plan made with --unit person"
        )


def dealt(plan: Plan, records: Table | RecordFile, X: GridRecords) -> list[Records]:
    """The records of each client of a simulation: chance deals persons out, each to no more clients
    than the plan says.

    Raises DataError where there are more persons, each counted at every client it can be at, than
    the plan allows.
    """
    if (ids := ids_of(records)) is None:
        return deal_persons_in_passes(plan, X, records.source)
    (grid,) = X
    return deal_persons(plan, ids, grid)


def ids_of(records: Table | RecordFile) -> list[bytes] | None:
    """Whose the records are, None where that was not asked for, or they are read in passes."""
    return records.ids.texts() if isinstance(records, Table) and records.ids is not None else None


def has_ids(records: Table | RecordFile) -> bool:
    """Whether it was asked whose the records are."""
    return (records.ids if isinstance(records, Table) else records.unit) is not None


def answering(
    run: AnyRun,
    records: Table | RecordFile,
    X: GridRecords,
    *,
    behind_bar_of: Mechanism | None = None,
) -> AbstractContextManager[AllRecords] | None:
    """Who answers for persons: X, the records on the grid, with shares, in one block or read in
    passes; None without ids.

    behind_bar_of : whose rounds a bar shows, where there are passes.
    """
    if (ids := ids_of(records)) is not None:
        (grid,) = X
        return nullcontext(SharedRecords.of_persons(run, grid, ids))
    return _in_passes(run, X, records.source, behind_bar_of) if has_ids(records) else None


@contextmanager
def _in_passes(
    run: AnyRun, X: GridRecords, source: str, behind_bar_of: Mechanism | None
) -> Iterator[AllRecords]:
    with nullcontext(X) if behind_bar_of is None else terminal.passes(behind_bar_of, X) as watched:
        yield PersonsInPasses(watched, run, source=source)
