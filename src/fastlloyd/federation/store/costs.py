"""What a run may cost a record, exchange by exchange, as a store keeps it: two records of it, an earlier one and that of today.

Both answer one question, `under`: what each exchange costs for neighbours by a relation. Costs of other units can join them.
"""

import math
from fractions import Fraction
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from fastlloyd.base.precision import exact, round_up, working_precision
from fastlloyd.dp.neighboring import NeighboringRelation

MAX_EXCHANGES: Final = 1000
_BITS = 170

Positive = Annotated[float, Meta(gt=0)]
Share = Annotated[float, Meta(ge=0, lt=1)]


class Cost(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What one exchange costs at most: it is sqrt(mu_squared)-GDP and pure_epsilon-DP, composed."""

    mu_squared: Fraction
    pure_epsilon: Fraction


class ExchangeCost(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What one exchange costs where a record is added or removed, and where one is replaced."""

    added: Cost
    replaced: Cost


class RunCost(msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True):
    """What a run may cost each record of a data set.

    neighboring_relation : the plan's. epsilon, delta : what it states. distance : tau, the total variation distance between the
    run and one whose noise is exactly that of its mechanism; 0 unless noise is added in shares.
    """

    neighboring_relation: NeighboringRelation
    costs: Annotated[tuple[ExchangeCost, ...], Meta(min_length=1, max_length=MAX_EXCHANGES)]
    epsilon: Positive
    delta: Share
    distance: Fraction

    def under(self, relation: NeighboringRelation) -> tuple[Cost | None, ...]:
        """What each exchange costs, for neighbours by this relation; None where nothing is known."""
        adding = relation is NeighboringRelation.ADD_OR_REMOVE_ONE
        return tuple(cost.added if adding else cost.replaced for cost in self.costs)


class EarlierRunCost(msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True):
    """As earlier versions kept it: for neighbours by the plan's relation alone.

    delta_slack : the part of delta that the plan sets aside for adding up rounded shares of noise, (1 + e^epsilon) tau.
    """

    neighboring_relation: NeighboringRelation
    costs: Annotated[tuple[Cost, ...], Meta(min_length=1, max_length=MAX_EXCHANGES)]
    epsilon: Positive
    delta: Share
    delta_slack: Share

    def under(self, relation: NeighboringRelation) -> tuple[Cost | None, ...]:
        """What each exchange costs, for neighbours by this relation; None where nothing is known.

        A replacement is a removal and an addition: twice the mu, twice the epsilon. The other way round a run of
        MomentLloyd for replaced records may have had a count that cost nothing; a run with Laplace noise has none such.
        """
        if relation is self.neighboring_relation:
            return self.costs
        if relation is NeighboringRelation.REPLACE_ONE:
            return tuple(Cost(4 * cost.mu_squared, 2 * cost.pure_epsilon) for cost in self.costs)
        return tuple(cost if cost.pure_epsilon else None for cost in self.costs)

    @property
    def distance(self) -> Fraction:
        """See `RunCost`; from the slack, rounded up."""
        if self.delta_slack == 0:
            return Fraction(0)
        with working_precision(_BITS) as mp:
            tau = exact(mp, self.delta_slack) / (1 + mp.exp(self.epsilon))
            return Fraction(math.nextafter(round_up(tau), math.inf))


AnyRunCost = RunCost | EarlierRunCost
