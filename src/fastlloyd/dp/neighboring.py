"""Neighbouring relations: the pairs of data sets that the guarantee compares."""

import enum
from typing import Annotated, Self

import msgspec
from msgspec import Meta

from fastlloyd.base.names import NAME

MAX_CLIENTS = 10_000


class NeighboringRelation(enum.Enum):
    """Relation between two data sets whose releases must be hard to distinguish.

    One record is added, removed or replaced. If a mechanism protects persons, all records of one
    person are added, removed or replaced together.

    ADD_OR_REMOVE_ONE : one data set is the other plus one record. The guarantee covers the number
        of records, too.
    REPLACE_ONE : both data sets have the same number of records and differ in one of them. The
        number of records is public. A release that is mu-GDP under ADD_OR_REMOVE_ONE is 2 mu-GDP
        under this relation, and often less (see the query's sensitivity).
    """

    ADD_OR_REMOVE_ONE = "add_or_remove_one"
    REPLACE_ONE = "replace_one"


class Neighbours(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Neighbouring relation and unit for which privacy losses are added up, or limited.

    relation : neighbouring relation.
    unit : None for one record, otherwise a word such as "patient" for all records of one person.
    max_clients : largest number of organisations that may have records of the same person.
    """

    relation: NeighboringRelation
    unit: Annotated[str, Meta(pattern=rf"\A{NAME.pattern}\Z")] | None = None
    max_clients: Annotated[int, Meta(ge=1, le=MAX_CLIENTS)] = 1

    @property
    def adds(self) -> bool:
        """Return whether a neighbour has one unit more or less."""
        return self.relation is NeighboringRelation.ADD_OR_REMOVE_ONE

    @property
    def other(self) -> Self:
        """Neighbours with the same unit and the other relation."""
        adding, replacing = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE
        return type(self)(replacing if self.adds else adding, self.unit, self.max_clients)

    def __str__(self) -> str:
        """Return the relation in words, such as "one record replaced"."""
        unit, n = self.unit or "record", self.max_clients
        if n == 1:
            return f"one {unit} added or removed" if self.adds else f"one {unit} replaced"
        if self.adds:
            return f"one {unit} added or removed, with rows at up to {n} organisations"
        return f"one {unit} replaced, with rows at up to {n} organisations"
