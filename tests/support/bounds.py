"""What the errors of an attacker say about epsilon.

No test between the worlds of a mu-GDP release has errors below its trade-off curve (Dong, Roth and
Su 2022, section 2), so

    mu >= Phi^-1(1 - false positive rate) - Phi^-1(false negative rate).

With both rates at their one-sided 95 % Clopper-Pearson upper bounds this is a lower bound on mu,
and with `gdp_epsilon` one on epsilon. An attacker that uses the privacy loss to the full makes it
exceed the true value in 1 % of all audits (both errors must be lucky at once); so a claim counts as
refuted when five independent audits in a row exceed it: below 1e-9.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri
from scipy.stats import beta, binom

from auditing import DELTA, FloatArray, Observations
from fastlloyd.dp.gdp import gdp_epsilon

CONFIDENCE = 0.95
N_TRIES = 5


class Claim(Protocol):
    """What is audited, and the epsilon that a plan states for it."""

    @property
    def epsilon(self) -> float: ...


C = TypeVar("C", bound=Claim)


@dataclass(frozen=True, kw_only=True)
class Audit:
    """What one audit found."""

    n_per_side: int
    false_alarms: int
    misses: int

    @classmethod
    def of(cls, observations: Observations) -> "Audit":
        """The audit of these observations."""
        o = observations
        return cls(n_per_side=o.n_per_side, false_alarms=o.false_alarms, misses=o.misses)

    @property
    def mu(self) -> float:
        """Lower bound on mu; negative where the attacker does worse than a coin."""
        return float(mu_bound(self.false_alarms, self.misses, self.n_per_side))

    @property
    def epsilon(self) -> float:
        """Lower bound on epsilon at DELTA."""
        return gdp_epsilon(max(self.mu, 0.0), DELTA)


def upper_bound(events: ArrayLike, n: int, confidence: float = CONFIDENCE) -> FloatArray:
    """One-sided Clopper-Pearson upper bound on the probability of what happened `events` times in
    n.
    """
    x = np.asarray(events)
    return np.where(x >= n, 1.0, beta.ppf(confidence, x + 1, np.maximum(n - x, 1)))


def lower_bound(events: ArrayLike, n: int, confidence: float = CONFIDENCE) -> FloatArray:
    """One-sided Clopper-Pearson lower bound on the probability of what happened `events` times in
    n.
    """
    return 1.0 - upper_bound(n - np.asarray(events), n, confidence)


def mu_bound(false_alarms: ArrayLike, misses: ArrayLike, n: int) -> FloatArray:
    """Lower bound on mu from errors in n trials on each side."""
    return np.asarray(-ndtri(upper_bound(false_alarms, n)) - ndtri(upper_bound(misses, n)))


@cache
def _quantiles(n: int) -> FloatArray:
    """What 0 to n errors bound mu by, each on its side: decreasing."""
    return np.asarray(-ndtri(upper_bound(np.arange(n + 1), n)))


def exceedance(mu: float, claimed: float, n: int) -> float:
    """Probability that one audit of a mu-GDP release, attacked to the full, bounds mu above
    `claimed`.
    """
    quantiles = _quantiles(n)
    probabilities = binom.pmf(np.arange(n + 1), n, ndtr(-mu / 2))
    # for a misses, the largest number of false alarms that still exceeds
    n_allowed = np.searchsorted(-quantiles, quantiles - claimed, side="left")
    below = np.concatenate([[0.0], np.cumsum(probabilities)])
    return float((probabilities * below[n_allowed]).sum())


def typical_epsilon(mu: float, n: int, deviations: float) -> float:
    """The bound when both error counts are what mu makes them; `deviations` above 0: that much less
    lucky.
    """
    p = float(ndtr(-mu / 2))
    errors = round(
        n * p + deviations * (n * p * (1 - p) / 2) ** 0.5
    )  # two equal errors vary as one of half the variance
    return Audit(n_per_side=n, false_alarms=errors, misses=errors).epsilon


def detectable_factor(attained: float, claimed: float, n: int) -> float:
    """The least factor by which noise can be too small and be refuted with probability 99.9 %, to
    0.01.
    """
    factors = np.arange(1.01, 10.0, 0.01)
    return next(
        float(f) for f in factors if exceedance(attained * f, claimed, n) ** N_TRIES >= 0.999
    )


def audits_until_one_holds(
    setting: C,
    n_per_side: int,
    *,
    observe: Callable[[C, int], Observations],
    first: Audit | None = None,
) -> list[Audit]:
    """Independent audits, at most N_TRIES, up to the first whose bound is not above the plan's
    epsilon.
    """
    audits = [first or Audit.of(observe(setting, n_per_side))]
    while len(audits) < N_TRIES and audits[-1].epsilon > setting.epsilon:
        audits.append(Audit.of(observe(setting, n_per_side)))
    return audits


def refute(audits: list[Audit], setting: Claim) -> bool:
    """Whether N_TRIES audits in a row bounded epsilon above what the plan promises."""
    return len(audits) == N_TRIES and audits[-1].epsilon > setting.epsilon
