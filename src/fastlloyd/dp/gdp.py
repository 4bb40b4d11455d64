"""Conversion between Gaussian differential privacy (GDP) and (epsilon, delta).

Adding N(0, sigma^2) to a value of L2 sensitivity D is mu-GDP with mu = D / sigma. Every mu-GDP
release is (epsilon, delta)-DP for the points of the curve

    delta(epsilon) = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu).

Sources are Dong, Roth and Su, "Gaussian Differential Privacy" (arXiv:1905.02383), corollary 2.13,
and Balle and Wang (2018), theorem 8.

In float64 the two terms cancel. A search in float64 (the paper uses Balle and Wang's Algorithm 1)
often returns a mu that exceeds the target. Departs from the paper: here the curve has 50 correct
digits. Only the result becomes a float. It is rounded so that the guarantee still holds: delta and
epsilon up, mu down. Float64 only gives first guesses (`guesses.py`).
"""

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import lru_cache
from numbers import Real
from typing import Any

from fastlloyd.base.precision import (
    exact,
    greatest_float,
    least_float,
    round_up,
    secant,
    working_precision,
)
from fastlloyd.dp import guesses
from fastlloyd.errors import BudgetError

_BITS = 170  # 50 decimal digits, and some
# Phi(-40) < 2^-1074: from here on delta is below the least float, or above the greatest one under 1
_FAR = 40
_LARGE = 1000  # a pure epsilon from which on a simple bound is good enough


def gdp_delta(mu: float | Fraction, epsilon: float) -> float:
    """Return the smallest float delta such that every mu-GDP release is (epsilon, delta)-DP.

    The result is never below the true value. If the true value is just below a float F, by less
    than 2^-139 times F, the result may be the next float above F.

    Raises BudgetError unless epsilon is finite and above 0, and mu is finite and at least 0.
    """
    _check_mu(mu)
    _check_epsilon(epsilon)
    return _delta(mu, float(epsilon))


@lru_cache(maxsize=4096)
def gdp_mu(epsilon: float, delta: float) -> float:
    """Return the largest float mu such that every mu-GDP release is (epsilon, delta)-DP.

    The noise multiplier is 1/mu. Raises BudgetError unless epsilon is finite and above 0, and delta
    is between 0 and 1 (both excluded).
    """
    _check_epsilon(epsilon)
    _check_delta(delta)

    def mu_at(a: float) -> float:
        root = math.hypot(a, math.sqrt(2) * math.sqrt(epsilon))
        return root + a if a > 0 else epsilon / ((root - a) / 2)

    a = guesses.near(mu_at, delta)
    if math.isnan(a):
        a = _near(lambda a: (mu_at(a), epsilon), delta)
    return _greatest_mu(epsilon, delta, mu_at(a))


@lru_cache(maxsize=4096)
def gdp_epsilon(mu: float | Fraction, delta: float) -> float:
    """Return the smallest float epsilon >= 0 such that every mu-GDP release is (epsilon, delta)-DP.

    It is 0 if delta alone covers the release, and infinite if no float suffices. Raises BudgetError
    unless mu is finite and at least 0, and delta is between 0 and 1 (both excluded).
    """
    _check_mu(mu)
    _check_delta(delta)
    if mu == 0:
        return 0.0
    m = float(min(mu, 1e300))

    def epsilon_at(a: float) -> float:
        return max(0.0, m * (m / 2 - a))

    near = epsilon_at(_near(lambda a: (mu, epsilon_at(a)), delta))
    return least_float(lambda epsilon: _delta(mu, epsilon) <= delta, near)


@lru_cache(maxsize=4096)
def pure_mu_squared(epsilon: Fraction) -> Fraction:
    """Return m^2, rounded up, such that every epsilon-DP release is m-GDP.

    Here m = 2 Phi^-1(e^epsilon / (1 + e^epsilon)). The trade-off function of epsilon-DP is two
    lines that meet at 1 / (1 + e^epsilon). The trade-off function of m-GDP is convex and passes
    through this point and the lines' other ends. So it is nowhere above the lines
    (docs/proofs/ledger.md).

    Above epsilon 1000 the result is 8 epsilon, which is larger than m^2. Proof: at x = sqrt(2
    epsilon), Phi(-x) <= e^(-x^2/2) / 2 is at most 1 / (1 + e^epsilon), so m / 2 is at most x.
    Raises BudgetError if epsilon is below 0.
    """
    if epsilon < 0:
        raise BudgetError(f"epsilon must be at least 0, got {float(epsilon)}")
    if epsilon == 0:
        return Fraction(0)
    if epsilon > _LARGE:
        return 8 * epsilon
    with working_precision(_BITS) as mp:
        e = exact(mp, epsilon)
        if epsilon < 1:  # both sides near 0: 2 Phi(m/2) - 1 >= tanh(epsilon / 2)
            least = mp.tanh(e / 2) * (1 + mp.ldexp(1, -140))
            m = least_float(lambda x: math.isinf(x) or mp.erf(mp.mpf(x) / mp.sqrt(8)) >= least)
        else:  # both sides near 1: 2 Phi(-m/2) <= 2 / (1 + e^epsilon)
            most = 2 / (1 + mp.exp(e)) * (1 - mp.ldexp(1, -140))
            m = least_float(lambda x: x > 4 * _LARGE or mp.erfc(mp.mpf(x) / mp.sqrt(8)) <= most)
    return Fraction(m) ** 2


@lru_cache(maxsize=4096)
def mu_from_squared(mu_squared: Fraction) -> float:
    """Return the smallest float that is at least the square root of `mu_squared`, decided exactly.

    Raises BudgetError if `mu_squared` is below 0.
    """
    if mu_squared < 0:
        raise BudgetError(f"mu_squared must be at least 0, got {mu_squared}")
    return least_float(lambda mu: math.isinf(mu) or Fraction(mu) ** 2 >= mu_squared)


def compose(mus_squared: Iterable[Fraction]) -> Fraction:
    """Return mu^2 of adaptively composed releases: the sum of the mu^2 of each release.

    Source: Dong et al. 2022, corollary 3.3. Raises BudgetError if a mu^2 is below 0.
    """
    squares = list(mus_squared)
    for square in squares:
        if square < 0:
            raise BudgetError(f"mu_squared must be at least 0, got {square}")
    return sum(squares, Fraction(0))


def _greatest_mu(epsilon: float, delta: float, near: float) -> float:
    """Return the largest float mu for which delta(epsilon) of mu-GDP is at most `delta`.

    The search begins at the guess `near`. Let a = mu/2 - epsilon/mu, which grows with mu. The
    derivative of delta(epsilon) with respect to mu is the normal density at a. Let two values of mu
    have the numbers a and b, both on the same side of 0. Between these values, delta(epsilon) grows
    by their distance times a number between the two densities. The quotient of the densities is
    exp((a^2 - b^2) / 2), which differs from 1 by less than |a^2 - b^2| if that is below 1. If this
    bound does not decide, delta(epsilon) itself is computed.
    """

    def holds(mu: float) -> bool:
        return _delta(mu, epsilon) <= delta

    if not 0 < near < math.inf:
        return greatest_float(holds, near)
    with working_precision(_BITS) as mp:
        left = mp.mpf(delta) - _curve(mp, near, epsilon)  # which leaves us the bits that a needs
        left, slack = left * mp.sqrt(2 * mp.pi), mp.ldexp(delta, -120)
        here, e = mp.mpf(near), mp.mpf(epsilon)
        a = here / 2 - e / here
        if abs(a) > _FAR:
            return greatest_float(holds, near)
        # all times sqrt(2 pi)
        density, below, above = mp.exp(-a * a / 2), left - slack, left + slack

        def holds_surely(mu: float) -> bool:
            if not 0 < mu < math.inf:
                return holds(mu)
            there = mp.mpf(mu)
            b, growth = there / 2 - e / there, (there - here) * density
            off = abs(a * a - b * b)
            if (a < 0) is (b < 0) and off < 1:
                if growth + abs(growth) * off < below:
                    return True
                if growth - abs(growth) * off > above:
                    return False
            return holds(mu)

        return greatest_float(holds_surely, float(here + left / density))


def _near(along: Callable[[float], tuple[float | Fraction, float]], delta: float) -> float:
    """Let a = mu/2 - epsilon/mu. Return an approximation of the value of `a` at which the exact
    delta(epsilon) of mu-GDP equals `delta`. `guesses.near` does the same in float64.

    along : function that returns the pair (mu, epsilon) for a given a.
    """

    def excess(a: float) -> float:
        mu, epsilon = along(a)
        if not mu or math.isinf(epsilon):  # no guess is wanted that near the end of floats
            return -math.inf
        with working_precision(_BITS) as mp:
            curve = _curve(mp, mu, epsilon)
            return float(
                mp.log(curve / max(1 - curve, mp.ldexp(1, -90)) * (1 - mp.mpf(delta)) / delta)
            )

    return secant(excess, *guesses.starts(delta))


def _delta(mu: float | Fraction, epsilon: float) -> float:
    """Return delta(epsilon) of mu-GDP, rounded up to a float. Here epsilon may also be 0 or
    infinite, and mu may be infinite.
    """
    if mu == 0 or math.isinf(epsilon):
        return 0.0
    if isinstance(mu, float) and math.isinf(mu):
        return 1.0
    with working_precision(_BITS) as mp:
        return min(1.0, round_up(_curve(mp, mu, epsilon) * (1 + mp.ldexp(1, -140))))


def _curve(mp: Any, mu: float | Fraction, epsilon: float) -> Any:
    """Return delta(epsilon) of mu-GDP with a relative error of 2^-140.

    The result is 2^-1075 if delta(epsilon) is below the smallest float. It is 1 if delta(epsilon)
    is above the largest float below 1.
    """
    m, e = exact(mp, mu), mp.mpf(epsilon)
    # Bits for what cancels between epsilon/mu and mu/2, and for what exp() loses to the size of its
    # argument.
    mp.prec += 2 * max(0, mp.mag(e / m), mp.mag(m))
    a = exact(mp, mu) / 2 - e / exact(mp, mu)
    if a < -_FAR:
        return mp.ldexp(1, -1075)
    if a > _FAR:
        return mp.one
    # Bits for the difference of the two terms: within these bounds it is about mu/40 of either, or
    # more.
    mp.prec += 2 * max(0, -mp.mag(m))
    m = exact(mp, mu)
    return mp.ncdf(m / 2 - e / m) - mp.exp(e) * mp.ncdf(-m / 2 - e / m)


def _check_epsilon(epsilon: float) -> None:
    if not (_is_number(epsilon) and 0 < epsilon < math.inf):
        raise BudgetError(f"epsilon must be a finite number above 0, got {epsilon!r}")


def _check_delta(delta: float) -> None:
    if not (_is_number(delta) and 0 < delta < 1):
        raise BudgetError(f"delta must be above 0 and below 1, got {delta!r}")


def _check_mu(mu: float | Fraction) -> None:
    if not (_is_number(mu) and 0 <= mu < math.inf):
        raise BudgetError(f"mu must be a finite number of at least 0, got {mu!r}")


def _is_number(value: object) -> bool:
    return isinstance(value, Real)
