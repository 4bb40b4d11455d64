"""The accountant beside the closed formula, at many settings."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from fastlloyd.dp.accountant import Accountant, GaussianRelease, GeometricRelease
from fastlloyd.dp.gdp import gdp_delta, gdp_epsilon
from fastlloyd.dp.neighboring import NeighboringRelation


def account(*releases: GaussianRelease | GeometricRelease) -> Accountant:
    return Accountant(NeighboringRelation.ADD_OR_REMOVE_ONE).compose(releases)


def gaussian(mu: float | Fraction) -> GaussianRelease:
    return GaussianRelease(Fraction(mu) ** 2, Fraction(1))


def test_delta_agrees_with_the_closed_formula_and_is_never_below_it() -> None:
    generator = np.random.default_rng(5)
    for _ in range(60):
        mu, c = 10 ** generator.uniform(-6, 5), generator.uniform(-36, 36)
        epsilon = mu * (mu / 2 + c)
        if epsilon <= 0:
            epsilon = mu * mu / 2
        delta, closed = account(gaussian(mu)).get_delta(epsilon), gdp_delta(mu, epsilon)
        assert delta == pytest.approx(closed, rel=1e-9, abs=0)
        with mpmath.workprec(1000):
            m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
            assert delta >= mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)


@pytest.mark.parametrize("mu", [1e-4, 0.2367, 1.0, 7.0])
@pytest.mark.parametrize("delta", [1e-15, 1e-6, 1e-5])
def test_epsilon_agrees_with_the_closed_formula_and_is_never_below_it(
    mu: float, delta: float
) -> None:
    epsilon, closed = account(gaussian(mu)).get_epsilon(delta), gdp_epsilon(mu, delta)
    assert closed <= epsilon
    assert epsilon == pytest.approx(closed, rel=1e-9, abs=0)


def test_a_delta_is_taken_exactly_as_it_is_given() -> None:
    below_one = Fraction(2**60 - 1, 2**60)  # the nearest float is 1, at which no epsilon is needed
    # a Fraction is one of the numbers
    assert account(gaussian(50)).get_epsilon(below_one) > 800  # type: ignore[arg-type]
    single = np.float32(1e-6)  # a little below
    asked: float = account(gaussian(1)).get_epsilon(single)  # type: ignore[arg-type]  # the same
    assert (
        asked
        == account(gaussian(1)).get_epsilon(float(single))
        > account(gaussian(1)).get_epsilon(1e-6)
    )
