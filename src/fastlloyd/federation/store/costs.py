"""What a run costs, exchange by exchange, and what of it counts for whom.

With A what an exchange costs where a unit of the run is added or removed, and R where one is
replaced (Gaussian: mu^2; Laplace: epsilon), the sums of a data set take

    what is asked                 a run for records    a run for persons
    record added or removed       A                    A
    record replaced               R                    4 A, of epsilon 2 A
    person added or removed       no bound             A
    person replaced               no bound             R

A row of somebody who stays moves no more shares than a person has (docs/proofs/persons.md); one
that is replaced may move from one person to another. There is a bound on persons only if they are
the same: "patient" says nothing of a "household".
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
    """What one exchange costs at most: it is sqrt(mu_squared)-GDP and pure_epsilon-DP, composed."""

    mu_squared: Fraction
    pure_epsilon: Fraction

    def at_most(self, more: Fraction) -> "Cost":
        """One that may be more by such a part, in mu^2."""
        return Cost(self.mu_squared * (1 + more), self.pure_epsilon)

    def covers(self, other: "Cost") -> bool:
        """Whether another cost is no more than this one."""
        return other.mu_squared <= self.mu_squared and other.pure_epsilon <= self.pure_epsilon

    def times(self, distance: Fraction) -> "Cost":
        """What it costs at most where neighbours are so many times as far apart."""
        return (
            self
            if distance == 1
            else Cost(distance**2 * self.mu_squared, distance * self.pure_epsilon)
        )


class ExchangeCost(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What one exchange costs where a unit, a record or a person, is added or removed (A), and
    where one is replaced (R).
    """

    added: Cost
    replaced: Cost

    def at_most(self, more: Fraction) -> "ExchangeCost":
        """One that may cost more by such a part, in mu^2."""
        return ExchangeCost(self.added.at_most(more), self.replaced.at_most(more))

    def covers(self, other: "ExchangeCost") -> bool:
        """Whether another exchange costs no neighbours more than this one."""
        return self.added.covers(other.added) and self.replaced.covers(other.replaced)

    def where(self, asked: Neighbours) -> Cost:
        """A or R, by the relation that is asked for."""
        return self.added if asked.adds else self.replaced


class RunCost(
    msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True
):
    """What a run may cost each record of a data set.

    neighboring_relation : the plan's. epsilon, delta : what it states. distance : tau, the total
    variation distance between the run and one whose noise is exactly that of its mechanism; 0
    unless noise is added in shares.
    """

    neighboring_relation: NeighboringRelation
    costs: Annotated[tuple[ExchangeCost, ...], Meta(min_length=1, max_length=MAX_EXCHANGES)]
    epsilon: Positive
    delta: Share
    distance: Fraction

    def under(self, asked: Neighbours) -> tuple[Cost | None, ...]:
        """What each exchange costs these neighbours; None where there is no bound."""
        return tuple(None if asked.unit else cost.where(asked) for cost in self.costs)

    def at_most(self, more: Fraction) -> Self:
        """A run whose every exchange may cost more than this one's, in mu^2, by such a part."""
        return msgspec.structs.replace(self, costs=tuple(cost.at_most(more) for cost in self.costs))

    def covers(self, other: "RunCost") -> bool:
        """Whether another run costs no neighbours more than this one, exchange by exchange."""
        return (
            len(other.costs) == len(self.costs)
            and other.distance <= self.distance
            and all(mine.covers(cost) for mine, cost in zip(self.costs, other.costs, strict=True))
        )


class PersonRunCost(RunCost, frozen=True, kw_only=True):
    """What a run that protects persons may cost each of them.

    unit : what a person is called. max_clients : the number of organisations at which a person may
    be (c) that the noise was made for; 0 where all records are in one place. one_row_each : every
    record is one person, who has no other.
    """

    unit: Name
    max_clients: Annotated[int, Meta(ge=0, le=MAX_CLIENTS)]
    one_row_each: bool

    def under(self, asked: Neighbours) -> tuple[Cost | None, ...]:
        """What each exchange costs these neighbours; None where there is no bound."""
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
