"""Total cost of a list of releases by a second method, which integrates the privacy loss.

`fastlloyd.dp.gdp` plans the noise by a closed formula. The accountant receives the releases and
never uses that formula. The privacy loss of composed Gaussian releases is L ~ N(mu^2 / 2, mu^2).
The accountant integrates the hockey-stick divergence (Balle and Wang 2018, theorem 5) numerically:

    delta(epsilon) = E[(1 - e^(epsilon - L))_+]

The tests check that both methods agree to 1e-9. This method takes up to about half a second,
because it is a check and not a planning tool.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Self

from fastlloyd.base.names import choose
from fastlloyd.base.precision import exact, least_float, round_up, secant, working_precision
from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.errors import BudgetError, PlanError

_BITS = 100
_MARGIN = Fraction(1, 2**60)
"""Relative amount that is added to every delta, to cover the error of the quadrature. No bound on
the error is proven, but it was below 1e-20 in every check.
"""

# Phi(-40) < 2^-1074: beyond, delta is below the least float, or above the greatest one under 1
_FAR = 40


@dataclass(frozen=True)
class GaussianRelease:
    """Vector released with (rounded) Gaussian noise in each entry.

    squared_sensitivity : square of the L2 sensitivity, in squared units of the noise's grid.
    variance : square of the noise scale, in the same unit.

    Raises PlanError if the sensitivity is below 0, or the variance is not above 0.
    """

    squared_sensitivity: Fraction
    variance: Fraction

    def __post_init__(self) -> None:
        _check_release("squared_sensitivity", self.squared_sensitivity, "variance", self.variance)

    @property
    def mu_squared(self) -> Fraction:
        """Exact mu^2 of the release, which is mu-GDP."""
        return Fraction(self.squared_sensitivity) / self.variance


@dataclass(frozen=True)
class GeometricRelease:
    """Vector of integers released with two-sided geometric noise in each entry.

    sensitivity : L1 sensitivity, in units of the noise's grid.
    scale : the b of P(x) proportional to exp(-|x| / b), in the same unit.

    Raises PlanError if the sensitivity is below 0, or the scale is not above 0.
    """

    sensitivity: Fraction
    scale: Fraction

    def __post_init__(self) -> None:
        _check_release("sensitivity", self.sensitivity, "scale", self.scale)

    @property
    def pure_epsilon(self) -> Fraction:
        """Exact epsilon of the release, which is epsilon-DP."""
        return Fraction(self.sensitivity) / self.scale


class Accountant:
    """Privacy cost of adaptively composed releases about the same records, rounded up.

    Gaussian releases add their mu^2, geometric releases their epsilon. A mixture is

        (eps_GDP(mu, delta) + eps_pure, delta)-DP.

    Proof: let P1 <= e^eps_pure Q1 bound the pure part. Then P1 P2 - e^eps Q1 Q2 <= P1 (P2 - e^(eps
    - eps_pure) Q2). So the mixture costs at most the delta of the Gaussian part at eps - eps_pure.
    The costs of the releases must be fixed beforehand. If costs are chosen from answers, the rule
    in `spending.py` applies.

    neighboring_relation : relation for which the sensitivities in all releases were computed.
    mu_squared : exact mu^2 of all Gaussian releases together, which are mu-GDP.
    pure_epsilon : exact epsilon of all geometric releases together, which are epsilon-DP.
    """

    def __init__(self, neighboring_relation: NeighboringRelation) -> None:
        """Raise PlanError if `neighboring_relation` is not a neighbouring relation."""
        self.neighboring_relation = choose(
            NeighboringRelation, neighboring_relation, "neighboring_relation"
        )
        self.mu_squared = self.pure_epsilon = Fraction(0)

    def compose(self, releases: Iterable[GaussianRelease | GeometricRelease]) -> Self:
        """Add all releases to the account, or none of them if one is refused. Return the
        accountant.
        """
        gaussian, pure = Fraction(0), Fraction(0)
        for release in releases:
            if isinstance(release, GaussianRelease):
                gaussian += release.mu_squared
            else:
                pure += release.pure_epsilon
        self.mu_squared += gaussian
        self.pure_epsilon += pure
        return self

    def get_epsilon(self, delta: float) -> float:
        """Return an epsilon for which all releases together are (epsilon, delta)-DP.

        Raises BudgetError unless delta is between 0 and 1 (both excluded).
        """
        if not 0 < delta < 1:
            raise BudgetError(f"delta must be above 0 and below 1, got {delta!r}")
        return _epsilon(
            Fraction(self.mu_squared),
            Fraction(self.pure_epsilon),
            Fraction(*delta.as_integer_ratio()),
        )

    def get_delta(self, epsilon: float) -> float:
        """Return a delta for which all releases together are (epsilon, delta)-DP.

        Raises BudgetError unless epsilon is finite and above 0.
        """
        if not 0 < epsilon < math.inf:
            raise BudgetError(f"epsilon must be a finite number above 0, got {epsilon!r}")
        return _delta(Fraction(self.mu_squared), Fraction(epsilon) - self.pure_epsilon)


# fits with the same settings ask the same, and an integral takes longer than the clustering of a
# few records
@lru_cache
def _epsilon(mu_squared: Fraction, pure_epsilon: Fraction, delta: Fraction) -> float:
    with working_precision(_BITS) as mp:
        gaussian = _gaussian_epsilon(mp, mu_squared, delta)
        return round_up((exact(mp, pure_epsilon) + gaussian) * (1 + mp.ldexp(1, 8 - _BITS)))


@lru_cache
def _delta(mu_squared: Fraction, epsilon: Fraction) -> float:
    with working_precision(_BITS) as mp:
        return _gaussian_delta(mp, mu_squared, epsilon)


def _gaussian_delta(mp: Any, mu_squared: Fraction, epsilon: Fraction) -> float:
    """Return E[(1 - e^(epsilon - L))_+] for the privacy loss L of Gaussian releases, rounded up to
    a float. Here epsilon may be negative or 0.
    """
    return min(1.0, round_up(_expected_excess(mp, mu_squared, epsilon)))


def _expected_excess(mp: Any, mu_squared: Fraction, epsilon: Fraction) -> Any:
    """Return E[(1 - e^(epsilon - L))_+] for the privacy loss L of Gaussian releases, before
    rounding. The result is not below the true value, and above it by a relative error of at most
    _MARGIN.

    If the value is too near to 0 or to 1 for a float, the result is 2^-1075 or 1.
    """
    if mu_squared == 0:
        return max(mp.zero, -mp.expm1(exact(mp, epsilon)) * (1 + exact(mp, _MARGIN)))
    mu = mp.sqrt(exact(mp, mu_squared))
    # the loss exceeds epsilon when its standard normal exceeds c
    c = exact(mp, epsilon - mu_squared / 2) / mu
    if abs(c) > _FAR:
        return mp.ldexp(1, -1075) if c > 0 else mp.one
    return _hockey_stick(mp, mu, c) * (1 + exact(mp, _MARGIN)) * mp.npdf(c)


def _hockey_stick(mp: Any, mu: Any, c: Any) -> Any:
    """Return the integral over s > 0 of (1 - e^(-mu s)) e^(-c s - s^2/2).

    The tail that is cut off is bounded from above. With L = epsilon + mu s, the expectation of
    `_expected_excess` is the integral times the normal density at c. Every factor is positive, and
    computed without cancellation, because 1 - e^(-x) is 2 e^(-x/2) sinh(x/2).
    """
    end = mp.sqrt(c * c + 200) - c
    points = [mp.zero]
    step = 1 / (1 + abs(c) + mu)
    while (
        points[-1] < end
    ):  # short steps where 1 - e^(-mu s) bends, then doubled up to the width of a bell
        points.append(points[-1] + step)
        step = min(2 * step, mp.mpf(4))
    half = mu / 2
    body = 2 * mp.quad(
        lambda s: mp.sinh(half * s) * mp.exp(-(c + half + s / 2) * s),
        points,
        method="gauss-legendre",
    )
    # 1 - e^(-mu s) <= mu s, and s <= 2 (s + c) from here on
    rest = 2 * mu * mp.exp(-c * points[-1] - points[-1] ** 2 / 2)
    return body + rest


def _gaussian_epsilon(mp: Any, mu_squared: Fraction, delta: Fraction) -> float:
    """Return the smallest float epsilon >= 0 at which the rounded-up delta is at most `delta`."""
    if mu_squared == 0 or _gaussian_delta(mp, mu_squared, Fraction(0)) <= delta:
        return 0.0
    m = float(mp.sqrt(exact(mp, min(mu_squared, Fraction(1 << 1000)))))
    # no delta that is a float is between it and `delta`
    target = exact(mp, max(-round_up(-exact(mp, delta)), math.ulp(0.0)))

    def epsilon_at(a: float) -> float:
        return max(0.0, m * (m / 2 - a))

    def excess(a: float) -> float:
        found = _expected_excess(mp, mu_squared, Fraction(epsilon_at(a)))
        return float(mp.log(found / max(1 - found, mp.ldexp(1, -90)) * (1 - target) / target))

    # the normal quantile of the target is nearer to 0
    tail = float(mp.sqrt(-2 * mp.log(min(target, 1 - target))))
    start = -tail if target < 0.5 else tail
    near = epsilon_at(secant(excess, start - 0.1, start))
    return least_float(lambda e: _gaussian_delta(mp, mu_squared, Fraction(e)) <= delta, near)


def _check_release(
    sensitivity_name: str, sensitivity: Fraction, noise_name: str, noise: Fraction
) -> None:
    if sensitivity < 0:
        raise PlanError(f"{sensitivity_name} must be at least 0, got {sensitivity}")
    if noise <= 0:
        raise PlanError(
            f"{noise_name} must be above 0, got {noise}: without noise nothing is private"
        )
