"""Certainty about one record for an observer who sees everything that a run reveals.

The observer knows everything except whether one record is in the data. Let p be the probability
that the observer gives to the record before the run, and q the probability after it. Let P be the
distribution of outcomes with the record, and Q without it. Let B be the set of outcomes after which
the odds q / (1 - q) are more than r times p / (1 - p). In B the probability ratio is above r, so
Q(B) <= P(B) / r. Under epsilon-DP, B is empty for r = e^epsilon. Under mu-GDP no test beats the
best test of N(0, 1) against N(mu, 1), so Phi^-1(P(B)) <= Phi^-1(Q(B)) + mu. With r = k /
Phi(Phi^-1(k) - mu) it follows that P(B) <= k. Hence

    q <= p r / (1 - p + p r), except with probability at most k,   where k is the plan's delta.

An observer with p = 1/2 guesses right, on average over all outcomes, with probability at most
Phi(mu / 2), or e^epsilon / (1 + e^epsilon).

Sources: Wood et al., "Differential Privacy: A Primer for a Non-Technical Audience" (2018), for
epsilon. Kasiviswanathan and Smith, "On the 'Semantics' of Differential Privacy" (2014), for the
effect of delta. The bound for mu-GDP follows from its definition (Dong, Roth and Su 2022). All
numbers are rounded up, by more than the addition of noise shares can change them.
"""

import math
from typing import Any, NamedTuple, Self

from fastlloyd.base.precision import delta_up, exact, working_precision
from fastlloyd.dp.gdp import mu_from_squared
from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.dp.noise import Noise
from fastlloyd.mechanisms.facts import Fact
from fastlloyd.mechanisms.private_run import AnyRun

_BITS = 200  # of precision


class Odds(NamedTuple):
    """Odds of an observer, from the guarantee of one or more runs together.

    mu : mu of the Gaussian noise, or None for Laplace noise.
    epsilon : epsilon of the guarantee.
    delta : delta of the guarantee, 0 for Laplace noise.
    """

    mu: float | None
    epsilon: float
    delta: float

    @classmethod
    def of_run(cls, m: AnyRun) -> Self:
        """Return the odds after a run with these settings."""
        laplace = m.noise is Noise.LAPLACE
        mu = None if laplace else mu_from_squared(m.accountant().mu_squared)
        return cls(mu, m.epsilon, m.delta)

    def certainty(self, before: float) -> float:
        """Return the largest probability that an observer can give to a record after the run.

        The bound holds except with probability delta.

        before : probability that the observer gave to the record before the run.
        """
        with working_precision(_BITS) as mp:
            p = exact(mp, before)
            odds = p / (1 - p) * self._ratio(mp)
            return min(1.0, float(odds / (1 + odds)) * (1 + 2**-40))

    def right_guesses(self) -> float:
        """Return the largest probability that an observer guesses correctly whether a record is in
        the data.

        The observer thinks both answers equally likely before the run.
        """
        with working_precision(_BITS) as mp:
            if self.mu is None:
                return float(1 / (1 + mp.exp(-self.epsilon))) * (1 + 2**-40)
            return float(mp.ncdf(exact(mp, self.mu) / 2)) * (1 + 2**-40)

    def _ratio(self, mp: Any) -> Any:
        """Return r, the largest factor by which a run can multiply an observer's odds."""
        if self.mu is None:
            return mp.exp(self.epsilon)
        mu, k = exact(mp, self.mu), exact(mp, self.delta)
        mp.prec += 2 * max(0, -mp.mag(k))
        quantile = -mp.sqrt(2) * mp.erfinv(1 - 2 * k)
        return k / mp.ncdf(quantile - mu)


def certainties(m: AnyRun) -> tuple[Fact, list[Fact], list[Fact]]:
    """Return facts about an observer's certainty: the question, the answers, and further facts.

    The answers give the largest certainty after the run for 1, 10, 50 and 90 % before it. The
    further facts give the probability of an exception, and of a right guess.
    """
    odds, question = Odds.of_run(m), "certainty_of_presence"
    if m.neighboring_relation is NeighboringRelation.REPLACE_ONE:
        question = "certainty_of_a_value" if m.persons is None else "certainty_of_rows"
    rows = [
        Fact.of("certain_afterwards", before=before, after=_percent(odds.certainty(before / 100)))
        for before in (1, 10, 50, 90)
    ]
    guesses = Fact.of("right_guesses", share=_percent(odds.right_guesses()))
    but = [Fact.of("but_for_delta", delta=delta_up(m.delta))] if m.delta else []
    return Fact.of(question), rows, [*but, guesses]


def _percent(share: float) -> float:
    """Return a share in percent, rounded up to one digit after the point."""
    return math.ceil(share * 1000) / 10
