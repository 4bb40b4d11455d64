"""Options about persons whose rows are protected together: --unit, or a column of ids."""

import enum

from fastlloyd.base.names import choose
from fastlloyd.errors import PlanError
from fastlloyd.mechanisms.persons import Persons


class UnitKind(enum.Enum):
    """Unit that is protected and counted: records or persons."""

    RECORD = "record"
    PERSON = "person"


def given_persons(unit: str, name: str | None, max_clients: int | None) -> Persons | None:
    """Return the persons that a plan protects, or None if it protects single records.

    unit : text of --unit.
    name : text of --unit-name, or None.
    max_clients : number in --max-clients-per-person, or None.

    Raises PlanError if an option is missing, or has no effect.
    """
    if choose(UnitKind, unit, "unit") is UnitKind.PERSON:
        if max_clients is None:
            raise PlanError(
                "--max-clients-per-person is missing; state the largest number of clients that"
                " may have rows of the same person, or 1 if each person has rows at one client"
                " only. The noise grows with this number (`fastlloyd advise` shows how much)"
            )
        return _persons(name, max_clients)
    for option, value in (("--unit-name", name), ("--max-clients-per-person", max_clients)):
        if value is not None:
            raise PlanError(
                f"{option} has no effect if single records are protected; pass --unit person, or"
                " leave it out"
            )
    return None


def persons_in(
    column: str | None, name: str | None, max_clients: int | None = None
) -> Persons | None:
    """Return the persons that a run on a file protects, or None if it protects single records.

    column : column of ids, or None.
    name : text of --unit-name, or None.
    max_clients : number in --max-clients-per-person. None means that each person has rows at one
        client.

    Raises PlanError if an option has no effect without a column.
    """
    for option, value in (("--unit-name", name), ("--max-clients-per-person", max_clients)):
        if column is None and value is not None:
            raise PlanError(
                f"{option} has no effect if single records are protected; name the column of ids,"
                " --unit-column"
            )
    return None if column is None else _persons(name, 1 if max_clients is None else max_clients)


def _persons(name: str | None, max_clients: int) -> Persons:
    return Persons.called(Persons().name if name is None else name, max_clients)
