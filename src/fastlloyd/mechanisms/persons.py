"""Protection of persons with several rows.

Every person has the same number of shares, which are divided among the person's rows. A query is a
sum over rows. Each term is the row's number of shares times the row's contribution, all exact
integers. So the most that one person can change the sum is the most that one record with all shares
can (docs/proofs/persons.md). A mechanism without `Persons` protects single records.
"""

from typing import Final, NamedTuple

import msgspec

from fastlloyd.base.names import NAME, is_plural
from fastlloyd.dp.neighboring import MAX_CLIENTS
from fastlloyd.errors import PlanError

# with 0 a person has one share, which may move to another row if a row is removed
MIN_WEIGHT_BITS: Final = 1
MAX_WEIGHT_BITS: Final = 15
WEIGHT_BITS: Final = 10


class Unit(NamedTuple):
    """Singular and plural of the word for a unit, in which protection, caps and counts are
    stated.
    """

    one: str
    many: str

    @classmethod
    def called(cls, name: str) -> "Unit":
        """Return the unit of protection "all records of a person", in which a person is called
        `name`. Raises PlanError if the name is a plural, or if a field is out of its range.

        name : singular word, such as "patient". Messages make the plural from it.
        """
        if name.endswith(("s", "x", "ch", "sh")):
            return cls(name, f"{name}es")
        return cls(
            name,
            f"{name[:-1]}ies" if name.endswith("y") and name[-2:-1] not in "aeiou" else f"{name}s",
        )

    @property
    def a(self) -> str:
        """Singular with its article, such as "an employee"."""
        return f"{'an' if self.one[0] in 'aeiouAEIOU' else 'a'} {self.one}"


RECORD: Final = Unit.called("record")


class Persons(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Unit of protection: all rows of one person together. Raises PlanError if a field is out of
    its range.

    name : word for a person, such as "patient".
    max_clients : number c of clients that may have rows of one person. Each client gives the person
        all shares, so the noise grows with c.
    weight_bits : base-2 logarithm of the number of shares of a person at one client.
    """

    name: str = "person"
    max_clients: int = 1
    weight_bits: int = WEIGHT_BITS

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise PlanError(
                f"the name of the unit is {self.name!r:.80}; expected a word such as patient"
            )
        if type(self.max_clients) is not int or not 1 <= self.max_clients <= MAX_CLIENTS:
            raise PlanError(f"max_clients is {self.max_clients!r:.40}; expected 1 to {MAX_CLIENTS}")
        if (
            type(self.weight_bits) is not int
            or not MIN_WEIGHT_BITS <= self.weight_bits <= MAX_WEIGHT_BITS
        ):
            raise PlanError(
                f"weight_bits is {self.weight_bits!r:.40}; expected {MIN_WEIGHT_BITS} to"
                f" {MAX_WEIGHT_BITS}"
            )

    @classmethod
    def called(cls, name: str, max_clients: int = 1) -> "Persons":
        """Return the unit of protection with this name for a person. Raises PlanError if the name
        is a plural, or if a field is out of its range.

        name : singular word, such as "patient". Messages make the plural from it.
        """
        persons = cls(name=name, max_clients=max_clients)
        if is_plural(name):
            raise PlanError(
                f"the name of the unit is {name!r:.80}; expected the singular, such as patient"
            )
        return persons

    @property
    def unit(self) -> Unit:
        """Words for one person and for several."""
        return Unit.called(self.name)

    @property
    def shares(self) -> int:
        """Number of shares that every person has at one client: W."""
        return 1 << self.weight_bits

    @property
    def reach(self) -> int:
        """Number of shares of a person with rows at all c = `max_clients` clients: c times
        `shares`.
        """
        return self.max_clients * self.shares


def unit(persons: Persons | None) -> Unit:
    """Return the words for the unit of protection and counting."""
    return RECORD if persons is None else persons.unit


def max_clients(persons: Persons | None) -> int:
    """Return the number of clients that may have rows of one person, c, or 1 for records."""
    return 1 if persons is None else persons.max_clients


def share_bits(persons: Persons | None) -> int:
    """Return the base-2 logarithm of a person's number of shares, or 0 if records are protected."""
    return 0 if persons is None else persons.weight_bits


def reach(persons: Persons | None) -> int:
    """Return a ratio: the most that one protected unit can change an answer, divided by the most
    that one record can.

    If persons are protected, it is the number of a person's shares at all clients
    (`Persons.reach`). Otherwise it is 1.
    """
    return 1 if persons is None else persons.reach
