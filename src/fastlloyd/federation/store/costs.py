"""Cost of a run, round by round, and the cost that counts for given neighbours.

A round is one query of a run and its noisy answer. (The names in the store call it an exchange.)
Let A be its cost if one unit that the run protects is added or removed, and R if one is replaced.
The cost is mu^2 for Gaussian noise, and epsilon for Laplace noise. The accounts of a data set then
count

    account for                   run for records      run for persons
    record added or removed       A                    A
    record replaced               R                    4 A (see below)
    person added or removed       no bound             A
    person replaced               no bound             R

4 A is for Gaussian noise. For Laplace noise it is 2 A.

Each person has a fixed number of shares, spread over the person's rows. If a person who stays gains
or loses a row, no more shares move than one person has (docs/proofs/persons.md). So the cost is A.
A replaced row may move from one person to another, so the cost is that of two such changes. The
bound for persons holds only for the same unit: a run for "patient" bounds nothing for "household".
"""

from fractions import Fraction
from typing import Annotated, Final, Self

import msgspec
from msgspec import Meta

from fastlloyd.dp.neighboring import MAX_CLIENTS, NeighboringRelation, Neighbours
from fastlloyd.federation.protocol.messages import Name

MAX_EXCHANGES: Final = 1000

Positive = Annotated[float, Meta(gt=0)]
Share = Annotated[float, Meta(ge=0, lt=1)]


class Cost(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Upper bound on the cost of one round: the composition of sqrt(mu_squared)-GDP and
    pure_epsilon-DP.
    """

    mu_squared: Fraction
    pure_epsilon: Fraction

    def at_most(self, more: Fraction) -> "Cost":
        """Return this cost with mu^2 multiplied by 1 + `more`."""
        return Cost(self.mu_squared * (1 + more), self.pure_epsilon)

    def covers(self, other: "Cost") -> bool:
        """Return whether `other` costs at most as much as this."""
        return other.mu_squared <= self.mu_squared and other.pure_epsilon <= self.pure_epsilon

    def times(self, distance: Fraction) -> "Cost":
        """Return the cost for neighbours that are `distance` times as far apart."""
        return (
            self
            if distance == 1
            else Cost(distance**2 * self.mu_squared, distance * self.pure_epsilon)
        )


class ExchangeCost(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Cost of one round under both relations.

    added : A, the cost if a unit (a record or a person) is added or removed.
    replaced : R, the cost if a unit is replaced.
    """

    added: Cost
    replaced: Cost

    def at_most(self, more: Fraction) -> "ExchangeCost":
        """Return this cost with mu^2 multiplied by 1 + `more`."""
        return ExchangeCost(self.added.at_most(more), self.replaced.at_most(more))

    def covers(self, other: "ExchangeCost") -> bool:
        """Return whether `other` costs at most as much as this, under both relations."""
        return self.added.covers(other.added) and self.replaced.covers(other.replaced)

    def where(self, asked: Neighbours) -> Cost:
        """Return `added` if the neighbours `asked` differ by an added or removed unit, and
        `replaced` if they differ by a replaced one.
        """
        return self.added if asked.adds else self.replaced


class RunCost(
    msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True
):
    """Cost of a run that protects records.

    neighboring_relation : neighbouring relation of the plan.
    costs : cost of each round, in order.
    epsilon, delta : guarantee that the plan states.
    distance : tau, the total variation distance of the run from a run with exactly the mechanism's
        noise. It is 0 unless noise is added in shares.
    """

    neighboring_relation: NeighboringRelation
    costs: Annotated[tuple[ExchangeCost, ...], Meta(min_length=1, max_length=MAX_EXCHANGES)]
    epsilon: Positive
    delta: Share
    distance: Fraction

    def under(self, asked: Neighbours) -> tuple[Cost | None, ...]:
        """Return the cost of each round under the neighbouring relation `asked`, or None for a
        round whose cost has no bound under it.
        """
        return tuple(None if asked.unit else cost.where(asked) for cost in self.costs)

    def at_most(self, more: Fraction) -> Self:
        """Return this cost with the mu^2 of every round multiplied by 1 + `more`."""
        return msgspec.structs.replace(self, costs=tuple(cost.at_most(more) for cost in self.costs))

    def covers(self, other: "RunCost") -> bool:
        """Return whether `other` has the same number of rounds, costs at most as much in each
        round, under both relations, and has at most the same distance.
        """
        return (
            len(other.costs) == len(self.costs)
            and other.distance <= self.distance
            and all(mine.covers(cost) for mine, cost in zip(self.costs, other.costs, strict=True))
        )


class PersonRunCost(RunCost, frozen=True, kw_only=True):
    """Cost of a run that protects persons.

    unit : name of the unit, such as patient.
    max_clients : c, the number of organisations that may have rows of one person, for which the
        noise was made. It is 0 if all records are in one place.
    one_row_each : whether each record is a different person.
    """

    unit: Name
    max_clients: Annotated[int, Meta(ge=0, le=MAX_CLIENTS)]
    one_row_each: bool

    def under(self, asked: Neighbours) -> tuple[Cost | None, ...]:
        """Return the cost of each round under the neighbouring relation `asked`, or None for a
        round whose cost has no bound under it.
        """
        return tuple(self._of(cost, asked) for cost in self.costs)

    def _of(self, cost: ExchangeCost, asked: Neighbours) -> Cost | None:
        if asked.unit is None:
            return (
                cost.where(asked)
                if asked.adds or self.one_row_each
                else cost.added.times(Fraction(2))
            )
        if asked.unit != self.unit:
            return None
        more = Fraction(asked.max_clients, self.max_clients or asked.max_clients)
        return cost.where(asked).times(max(Fraction(1), more))


PlannedCost = RunCost | PersonRunCost
