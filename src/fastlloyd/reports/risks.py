"""What a guarantee means: how certain anyone can become of a record, and what an organisation's totals are hidden by.

**Certainty.** Whoever knows everything but whether one record is in the data believes so with probability p, sees all that the
run reveals, and believes it with probability q. Let B be the outcomes after which the odds q / (1 - q) are more than r times
p / (1 - p): those with probability ratio above r. So Q(B) <= P(B) / r, P with the record, Q without it. Under epsilon-DP B is
empty for r = e^epsilon. Under mu-GDP no event is told better than by the best test of N(0, 1) against N(mu, 1), so
Phi^-1(P(B)) <= Phi^-1(Q(B)) + mu; with r = k / Phi(Phi^-1(k) - mu) it follows that P(B) <= k. Hence

    q <= p r / (1 - p + p r), but for a probability of at most k;   here k is the plan's delta.

On average over all outcomes, whoever believed one as much as the other guesses right with probability at most Phi(mu / 2), or
e^epsilon / (1 + e^epsilon).

Sources: Wood et al., "Differential Privacy: A Primer for a Non-Technical Audience" (2018), for epsilon; Kasiviswanathan and
Smith, "On the 'Semantics' of Differential Privacy" (2014), for what delta does to it; the bound for mu-GDP follows from its
definition (Dong, Roth and Su 2022). All are rounded up, by more than adding up shares of noise can move them.
"""

import math
from fractions import Fraction
from typing import Any

from fastlloyd.base.precision import exact, working_precision
from fastlloyd.dp.gdp import mu_from_squared
from fastlloyd.dp.noise import Noise
from fastlloyd.federation.plan.plan import Plan, TrustMode
from fastlloyd.mechanisms.mechanism import Mechanism

_BITS = 200


def certainty(m: Mechanism, before: float) -> float:
    """How certain of a record anyone becomes at most, who was so certain `before`, but for a probability of at most delta."""
    with working_precision(_BITS) as mp:
        p = exact(mp, before)
        odds = p / (1 - p) * _ratio(mp, m)
        return min(1.0, float(odds / (1 + odds)) * (1 + 2**-40))


def right_guesses(m: Mechanism) -> float:
    """How often anyone guesses right whether a record is there, who had no idea before: at most, of all that may come out."""
    with working_precision(_BITS) as mp:
        if m.noise is Noise.LAPLACE:
            return float(1 / (1 + mp.exp(-m.epsilon))) * (1 + 2**-40)
        return float(mp.ncdf(exact(mp, mu_from_squared(m.accountant().mu_squared)) / 2)) * (1 + 2**-40)


def _ratio(mp: Any, m: Mechanism) -> Any:
    """r, by which odds grow at most."""
    if m.noise is Noise.LAPLACE:
        return mp.exp(m.epsilon)
    mu, k = exact(mp, mu_from_squared(m.accountant().mu_squared)), exact(mp, m.delta)
    mp.prec += 2 * max(0, -mp.mag(k))
    quantile = -mp.sqrt(2) * mp.erfinv(1 - 2 * k)
    return k / mp.ncdf(quantile - mu)


def profile_deviation(plan: Plan) -> float:
    """How well the others know an organisation's number of records once they take their own away: a standard deviation.

    They know the records and the noise of all other clients, so that of it one share is left, or the server's. All answers that
    count every record are taken together, each weighted by its noise; where a radius leaves records out, by those within it.
    """
    m = plan.mechanism
    weights = Fraction(0)
    for round in m.rounds:
        if round.counts_records:
            scales = plan.share_scales(round) if plan.trust is TrustMode.CLIENT_NOISE else plan.total_scales(round)
            weights += 1 / (m.shape(round)[0] * scales[-1] ** 2)
    spread = math.sqrt(2) if m.noise is Noise.LAPLACE else 1.0
    return spread / math.sqrt(weights) / float(2**m.count_bits)
