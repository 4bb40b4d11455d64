"""Total cost of rounds, and its comparison with a limit: a filter, proven in docs/proofs/ledger.md.

A round is one query of a run and its noisy answer. (The names in the store call it an exchange.)
The next run may be planned after a look at the answers so far. So it is not enough that a given
list of runs adds up to at most (E, delta): the rule that admits runs must keep to the limit for any
choice of runs. This rule does. Runs are admitted if

    all are pure, and their epsilons add up to at most E, or
    sum of mu^2 + sum of m(epsilon)^2 <= gdp_mu(E, delta - s)^2  and  (1 + e^E) sum of tau <= s.

Here m(epsilon) is the mu of a Gaussian round that covers an epsilon-DP round
(`dp.gdp.pure_mu_squared`). tau is the distance of a run with rounded shares of noise from one with
exact noise, and s = delta 2^-20. All numbers are rounded so that no cost is understated. The first
run of a data set was chosen before there was any answer. So it alone may use up a limit: its exact
cost then replaces the first bound, and the part of delta that it leaves replaces s.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

import msgspec

from fastlloyd.base.precision import exact, round_up, working_precision
from fastlloyd.dp.gdp import gdp_delta, gdp_epsilon, gdp_mu, mu_from_squared, pure_mu_squared
from fastlloyd.dp.neighboring import Neighbours
from fastlloyd.errors import BudgetError
from fastlloyd.federation.store.costs import Cost, PlannedCost
from fastlloyd.mechanisms.private_run import usable_delta

_BITS = 170
_LARGE = 1000  # at this epsilon no distance is small enough


class Spending(msgspec.Struct, frozen=True, kw_only=True):
    """Total cost of some rounds, for given neighbours.

    mu_squared : sum of mu^2 of the rounds with Gaussian noise, exact.
    pure_epsilon : sum of epsilon of the rounds with Laplace noise, exact.
    pure_mu_squared : sum of `dp.gdp.pure_mu_squared` of the rounds with Laplace noise, rounded up.
    distance : sum of tau (`RunCost.distance`) of the runs.
    n_unknown : number of rounds whose cost has no bound.
    delta : smallest delta of the plans with Gaussian noise, or 0 if there are none.
    """

    mu_squared: Fraction = Fraction(0)
    pure_epsilon: Fraction = Fraction(0)
    pure_mu_squared: Fraction = Fraction(0)
    distance: Fraction = Fraction(0)
    n_unknown: int = 0
    delta: float = 0.0

    @classmethod
    def of(
        cls,
        exchanges: Iterable[tuple[PlannedCost, Sequence[int] | Mapping[int, int]]],
        asked: Neighbours,
    ) -> "Spending":
        """Return the total cost of rounds of some runs.

        exchanges : for each run, its cost and the indices of the rounds that count, from 1. A
            mapping from indices to numbers of answers stands for several equal runs.
        asked : neighbours for which the cost is computed.
        """
        runs = [(cost, numbers) for cost, numbers in exchanges if numbers]
        costs: Counter[Cost | None] = Counter()
        for cost, numbers in runs:
            under = cost.under(asked)
            for number, n in Counter(numbers).items():
                costs[under[number - 1]] += n
        unknown = costs.pop(None, 0)
        known = [(cost, n) for cost, n in costs.items() if cost is not None]
        return cls(
            mu_squared=sum((n * cost.mu_squared for cost, n in known), Fraction(0)),
            pure_epsilon=sum((n * cost.pure_epsilon for cost, n in known), Fraction(0)),
            pure_mu_squared=sum(
                (n * pure_mu_squared(cost.pure_epsilon) for cost, n in known), Fraction(0)
            ),
            distance=sum((cost.distance for cost, _ in runs), Fraction(0)),
            n_unknown=unknown,
            delta=min((cost.delta for cost, _ in runs if cost.delta), default=0.0),
        )

    @property
    def is_pure(self) -> bool:
        """Return whether all rounds have Laplace noise."""
        return not (self.mu_squared or self.distance or self.n_unknown)

    @property
    def whole(self) -> Fraction:
        """Total cost, as mu^2 of Gaussian noise."""
        return self.mu_squared + self.pure_mu_squared

    def fits(self, epsilon: float, delta: float, first: "Spending") -> bool:
        """Return whether the total is within a limit, even if runs were chosen from earlier
        results.

        epsilon, delta : the limit, both finite.
        first : everything that the first run on the data set reserved, as in
            `ledger.Account.first_run`.
        """
        if self.is_pure and self.pure_epsilon <= Fraction(epsilon):
            return True
        return not self.n_unknown and self.whole <= self._room(epsilon, delta, first)

    def left(
        self,
        epsilon: float,
        delta: float,
        first: "Spending",
        *,
        n_runs: int = 1,
        at: float | None = None,
    ) -> float:
        """Return the largest epsilon that the limit allows for each of `n_runs` more runs with
        equal Gaussian noise, rounded down.

        epsilon, delta : the limit, both finite.
        first : as in `fits`.
        at : delta of these runs, or None for the delta of the limit.
        """
        planned = delta if at is None else at
        room = self._room(epsilon, delta, first) - self.whole
        if self.n_unknown or room <= 0 or planned == 0:
            return 0.0
        if first == Spending() and n_runs == 1:
            # the first run may use up all of the limit
            if planned == delta:
                return epsilon
            room = Fraction(gdp_mu(epsilon, delta)) ** 2
        mu = math.nextafter(mu_from_squared(room / n_runs), 0)
        return gdp_epsilon(mu, planned) * (1 - 2**-40)

    def left_pure(self, epsilon: float, n_runs: int = 1) -> float:
        """Return the largest epsilon that a limit allows for each of `n_runs` more runs with
        Laplace noise, rounded down.

        If an earlier round has other noise, the result is 0.

        epsilon : epsilon of the limit.
        """
        return (
            max(0.0, -round_up((self.pure_epsilon - Fraction(epsilon)) / n_runs))
            if self.is_pure
            else 0.0
        )

    def epsilon(self, delta: float) -> float:
        """Return an epsilon with which the total is (epsilon, delta)-DP, rounded up. It is infinite
        if no finite epsilon suffices.

        This guarantee holds if the number and the sizes of the runs were not chosen from results.
        """
        pure = round_up(self.pure_epsilon) if self.is_pure else math.inf
        if delta == 0 or self.n_unknown:
            return pure
        mu, slack = mu_from_squared(self.whole), 0.0
        if math.isinf(mu):
            return pure
        try:
            while True:
                gaussian = gdp_epsilon(mu, usable_delta(delta, slack))
                needed = self.slack(gaussian)
                if needed <= slack:
                    return min(pure, gaussian)
                slack = 2 * needed
        except BudgetError:  # no delta is left
            return pure

    def _room(self, epsilon: float, delta: float, first: "Spending") -> Fraction:
        """Return the largest sum of mu^2 that a limit allows. It is 0 if delta is 0, or if shares
        of noise use too much of delta.

        epsilon, delta : the limit.
        first : as in `fits`.
        """
        if delta == 0:
            return Fraction(0)
        aside = set_aside(delta)
        room = Fraction(gdp_mu(epsilon, usable_delta(delta, aside))) ** 2
        if first.whole > room and not first.n_unknown:
            # the first run was planned before any answer
            rest = Fraction(delta) - Fraction(gdp_delta(mu_from_squared(first.whole), epsilon))
            if first.slack(epsilon) <= rest:
                return first.whole if self.slack(epsilon) <= rest else Fraction(0)
        return room if self.slack(epsilon) <= aside else Fraction(0)

    def slack(self, epsilon: float) -> float:
        """Return (1 + e^epsilon) times the sum of tau (`distance`), rounded up, but at most 1."""
        if self.distance == 0:
            return 0.0
        if not epsilon < _LARGE:
            return 1.0
        with working_precision(_BITS) as mp:
            slack = (1 + mp.exp(epsilon)) * exact(mp, self.distance)
            return math.nextafter(round_up(slack), math.inf) if slack < 1 else 1.0


def set_aside(delta: float) -> float:
    """Return s, the part of a limit's delta that is reserved, about a millionth.

    It pays for a small error of all runs together: noise that is added up from shares differs
    slightly from the planned noise.
    """
    return math.ldexp(delta, -20)
