"""From options to whose rows are protected together."""

import enum

from fastlloyd.base.names import choose
from fastlloyd.errors import PlanError
from fastlloyd.mechanisms.persons import Persons


class UnitKind(enum.Enum):
    """What is protected and counted."""

    RECORD = "record"
    PERSON = "person"


def given_persons(unit: str, name: str | None, max_clients: int | None) -> Persons | None:
    """Whose rows are protected together, by `--unit record` nobody's. Raises PlanError for an option without effect."""
    if choose(UnitKind, unit, "unit") is UnitKind.PERSON:
        if max_clients is None:
            raise PlanError(
                "--max-clients-per-person is missing: say at how many clients the rows of a person may be, 1 if everyone is at "
                "one only; the noise grows with it (`fastlloyd advise` says what that costs)"
            )
        return Persons(name=Persons().name if name is None else name, max_clients=max_clients)
    for option, value in (("--unit-name", name), ("--max-clients-per-person", max_clients)):
        if value is not None:
            raise PlanError(f"{option} has no effect where single records are protected; say --unit person, or leave it out")
    return None


def persons_in(column: str | None, name: str | None, max_clients: int = 1) -> Persons | None:
    """Whose rows are protected together where a column of the records says whose they are. Raises PlanError."""
    if column is not None:
        return Persons(name=Persons().name if name is None else name, max_clients=max_clients)
    if name is not None:
        raise PlanError("--unit-name has no effect where single records are protected; name the column of ids, --unit-column")
    return None
