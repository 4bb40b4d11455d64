"""What exchanges cost together, and whether a limit set beforehand holds them: a filter, proven in
docs/proofs/ledger.md.

Whoever plans the next run has seen the answers of those before. So it is not enough that what was
done adds up to no more than (E, delta); the rule by which runs are let through must keep to it,
whatever is asked of it. This one does: let through if

    everything is pure, and its epsilons add up to at most E, or
    sum of mu^2 + sum of m(epsilon)^2 <= gdp_mu(E, delta - s)^2  and  (1 + e^E) sum of tau <= s,

m(epsilon) what makes an epsilon-DP exchange a Gaussian one (`dp.gdp.pure_mu_squared`), tau how far
adding up rounded shares of noise moves a run, and s = delta 2^-20. Everything is rounded to the
side of privacy. A data set's first run may use up a limit alone: it was chosen before there was any
answer, so what it needs may take the place of that bound, and what it leaves of delta that of s.
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
_LARGE = 1000  # an epsilon at which no distance is small enough


class Spending(msgspec.Struct, frozen=True, kw_only=True):
    """What some exchanges cost some neighbours together.

    mu_squared : of Gaussian noise, exact. pure_epsilon : of Laplace noise, exact. pure_mu_squared :
    the sum of m^2 of the exchanges with Laplace noise, rounded up. distance : the sum of the taus
    of their runs. n_unknown : of how many exchanges there is no bound on what they cost. delta :
    the smallest that one of their plans states with Gaussian noise, 0 without any.
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
        """Add up, per run, the exchanges of these numbers, counted from 1; or of each number so
        many.
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
        """Whether there is Laplace noise only."""
        return not (self.mu_squared or self.distance or self.n_unknown)

    @property
    def whole(self) -> Fraction:
        """Everything that was spent, counted as the mu^2 of Gaussian noise."""
        return self.mu_squared + self.pure_mu_squared

    def fits(self, epsilon: float, delta: float, first: "Spending") -> bool:
        """Whether a limit (epsilon, delta), both finite, holds all of it, whatever runs were chosen
        by.

        first : what the first run reserved on the data set, all of its exchanges, as
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
        """The largest epsilon, rounded down, of each of so many more runs with equal Gaussian noise
        that a limit holds.

        at : the delta that these runs are planned with; None: the limit's.
        """
        planned = delta if at is None else at
        room = self._room(epsilon, delta, first) - self.whole
        if self.n_unknown or room <= 0 or planned == 0:
            return 0.0
        if (
            first == Spending() and n_runs == 1
        ):  # it is the first run, and may use up all of the limit
            if planned == delta:
                return epsilon
            room = Fraction(gdp_mu(epsilon, delta)) ** 2
        mu = math.nextafter(mu_from_squared(room / n_runs), 0)
        return gdp_epsilon(mu, planned) * (1 - 2**-40)

    def left_pure(self, epsilon: float, n_runs: int = 1) -> float:
        """The largest epsilon, rounded down, of each of so many more runs with Laplace noise among
        such; 0 among others.
        """
        return (
            max(0.0, -round_up((self.pure_epsilon - Fraction(epsilon)) / n_runs))
            if self.is_pure
            else 0.0
        )

    def epsilon(self, delta: float) -> float:
        """An epsilon such that all of it is (epsilon, delta)-DP, if number and size of runs were
        not chosen from results.

        Rounded up; infinite where there is none.
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
        except BudgetError:  # no delta left
            return pure

    def _room(self, epsilon: float, delta: float, first: "Spending") -> Fraction:
        """What mu^2 may add up to under a limit; 0 where there is no delta, or shares of noise take
        too much of it.
        """
        if delta == 0:
            return Fraction(0)
        aside = set_aside(delta)
        room = Fraction(gdp_mu(epsilon, usable_delta(delta, aside))) ** 2
        if first.whole > room and not first.n_unknown:  # known before any answer
            rest = Fraction(delta) - Fraction(gdp_delta(mu_from_squared(first.whole), epsilon))
            if first.slack(epsilon) <= rest:
                return first.whole if self.slack(epsilon) <= rest else Fraction(0)
        return room if self.slack(epsilon) <= aside else Fraction(0)

    def slack(self, epsilon: float) -> float:
        """(1 + e^epsilon) sum of tau, rounded up; 1 where it is more."""
        if self.distance == 0:
            return 0.0
        if not epsilon < _LARGE:
            return 1.0
        with working_precision(_BITS) as mp:
            slack = (1 + mp.exp(epsilon)) * exact(mp, self.distance)
            return math.nextafter(round_up(slack), math.inf) if slack < 1 else 1.0


def set_aside(delta: float) -> float:
    """s, the part of a limit's delta, about a millionth, that is kept for adding up shares of noise
    in all runs together.
    """
    return math.ldexp(delta, -20)
