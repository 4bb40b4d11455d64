"""The GDP curve: every result on the private side, by two further routes (naive 1000-bit
arithmetic, dp_accounting).
"""

import math
from fractions import Fraction
from typing import Any
from unittest import mock

import mpmath
import numpy as np
import pytest
from dp_accounting import gaussian_mechanism
from dp_accounting.pld import privacy_loss_distribution
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from fastlloyd.dp import gdp
from fastlloyd.dp.gdp import compose, gdp_delta, gdp_epsilon, gdp_mu, mu_from_squared
from fastlloyd.errors import BudgetError

EPSILONS = st.floats(1e-6, 1e12)
DELTAS = st.one_of(st.floats(1e-300, 1 - 1e-12), st.floats(-300, -0.3).map(lambda x: 10.0**x))


def true_delta(mu: float | Fraction, epsilon: float, bits: int = 500) -> Any:
    """The textbook formula with so many bits that its cancellation does not matter: it takes at
    most a hundred.
    """
    with mpmath.workprec(bits):
        m = (
            mpmath.mpf(mu.numerator) / mu.denominator
            if isinstance(mu, Fraction)
            else mpmath.mpf(mu)
        )
        e = mpmath.mpf(epsilon)
        return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)


def random_targets(n: int) -> list[tuple[float, float]]:
    generator = np.random.default_rng(20)
    return [
        (float(10 ** generator.uniform(-3, 1)), float(10 ** generator.uniform(-12, -2)))
        for _ in range(n)
    ]


def float64_bisection(epsilon: float, delta: float) -> float:
    """What one would write first: the formula and the search in float64."""

    def float_delta(mu: float) -> float:
        return float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu))

    low, high = 1e-9, 1e3
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (middle, high) if float_delta(middle) <= delta else (low, middle)
    return low


# Golden values


@pytest.mark.parametrize(
    ("epsilon", "delta", "noise_multiplier", "places"),
    [(1, 1e-6, 4.2247, 4), (0.1, 1e-5, 30.750, 3)],
)
def test_noise_multipliers_are_the_published_ones(
    epsilon: float, delta: float, noise_multiplier: float, places: int
) -> None:
    assert round(1 / gdp_mu(epsilon, delta), places) == noise_multiplier


def test_delta_of_a_known_case() -> None:
    # sigma = 2, epsilon = 1, computed independently: the rounded Gaussian costs 6.83e-3 where the
    # discrete one is 7.25e-3
    assert gdp_delta(Fraction(1, 2), 1.0) == pytest.approx(6.83e-3, rel=1e-3)


# Private side


def test_no_mu_is_optimistic_where_float64_often_is() -> None:
    ours = theirs = 0
    for epsilon, delta in random_targets(300):
        ours += bool(true_delta(gdp_mu(epsilon, delta), epsilon) > delta)
        theirs += bool(true_delta(float64_bisection(epsilon, delta), epsilon) > delta)
    assert ours == 0
    assert theirs > 30


@settings(max_examples=100, deadline=None)
@given(EPSILONS, DELTAS)
def test_mu_is_the_last_float_within_the_target(epsilon: float, delta: float) -> None:
    mu = gdp_mu(epsilon, delta)
    assert true_delta(mu, epsilon) <= delta
    assert true_delta(math.nextafter(mu, math.inf), epsilon) > delta


@settings(max_examples=100, deadline=None)
@given(st.floats(-8, 6).map(lambda x: 10.0**x), DELTAS)
def test_epsilon_is_the_first_float_within_the_target(mu: float, delta: float) -> None:
    epsilon = gdp_epsilon(mu, delta)
    if epsilon == 0:
        assert true_delta(mu, 0.0) <= delta
    else:
        assert true_delta(mu, epsilon) <= delta
        assert true_delta(mu, math.nextafter(epsilon, 0.0)) > delta


@settings(max_examples=200, deadline=None)
@given(st.floats(-37, 37), EPSILONS)
def test_delta_is_the_first_float_not_below_the_curve(c: float, epsilon: float) -> None:
    mu = (
        math.sqrt(c * c + 2 * epsilon) - c
    )  # mu with epsilon/mu - mu/2 = c: where delta is neither 0 nor 1
    truth, delta = true_delta(mu, epsilon), gdp_delta(mu, epsilon)
    assert delta >= truth
    assert math.nextafter(delta, 0.0) < truth


@settings(max_examples=100, deadline=None)
@given(st.fractions(min_value=Fraction(1, 10**6), max_value=10**3), st.floats(1e-6, 1e5))
def test_delta_of_a_rational_mu_is_not_below_the_curve(mu: Fraction, epsilon: float) -> None:
    delta = gdp_delta(mu, epsilon)
    assert delta >= true_delta(mu, epsilon, bits=1000)
    assert 0 < delta <= 1


@pytest.mark.parametrize(
    ("mu", "epsilon", "delta"),
    [
        (0.0, 1.0, 0.0),
        (Fraction(0), 1e-6, 0.0),
        (5e-324, 1.0, 5e-324),
        (Fraction(1, 10**400), 1.0, 5e-324),
        (1e-3, 1e12, 5e-324),
        (1e3, 1.0, 1.0),
        (1.7e308, 1e12, 1.0),
        (Fraction(10) ** 400, 1.0, 1.0),
    ],
)
def test_delta_beyond_the_floats_is_rounded_up(
    mu: float | Fraction, epsilon: float, delta: float
) -> None:
    assert gdp_delta(mu, epsilon) == delta


def test_nothing_released_costs_nothing() -> None:
    assert gdp_epsilon(0.0, 1e-9) == 0
    assert compose([]) == 0
    assert mu_from_squared(Fraction(0)) == 0


def test_epsilon_is_infinite_where_no_float_suffices() -> None:
    assert gdp_epsilon(1e200, 0.5) == math.inf


@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 1.0, 1e3, 1e6, 1e12])
@pytest.mark.parametrize("delta", [1e-300, 1e-30, 1e-6, 0.5, 1 - 1e-12])
def test_the_whole_range_of_targets_is_served(epsilon: float, delta: float) -> None:
    mu = gdp_mu(epsilon, delta)
    assert 0 < mu < math.inf
    assert gdp_epsilon(mu, delta) <= epsilon
    assert gdp_delta(mu, epsilon) <= delta


@pytest.mark.parametrize("delta", [5e-324, 1e-9, 0.5])
def test_the_least_epsilon_is_served(delta: float) -> None:
    assert gdp_delta(gdp_mu(5e-324, delta), 5e-324) <= delta


def test_a_usual_target_takes_few_values_of_the_curve_and_not_one_for_each_bit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    curve = mock.Mock(wraps=gdp._curve)
    monkeypatch.setattr(gdp, "_curve", curve)
    targets = random_targets(40)
    mus = [gdp_mu.__wrapped__(epsilon, delta) for epsilon, delta in targets]
    assert curve.call_count == 40
    for mu, (_, delta) in zip(mus, targets, strict=True):
        gdp_epsilon.__wrapped__(mu, delta)
    assert curve.call_count <= 40 + 40 * 13


# The search


@pytest.mark.parametrize("off", [-(2**20), -50, -2, -1, 0, 1, 2, 50, 2**20])
def test_a_guess_that_is_off_by_some_floats_takes_one_value_of_the_curve(
    off: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    curve = mock.Mock(wraps=gdp._curve)
    monkeypatch.setattr(gdp, "_curve", curve)
    for epsilon, delta in random_targets(20):
        expected = gdp_mu(epsilon, delta)
        curve.reset_mock()
        assert gdp._greatest_mu(epsilon, delta, expected + off * math.ulp(expected)) == expected
        assert curve.call_count == 1


# Shape


@settings(max_examples=50, deadline=None)
@given(st.floats(0.01, 100), st.floats(1e-12, 0.5), st.floats(1.01, 10))
def test_mu_grows_with_epsilon_and_with_delta(epsilon: float, delta: float, factor: float) -> None:
    assert gdp_mu(epsilon, delta) < gdp_mu(epsilon * factor, delta)
    assert gdp_mu(epsilon, delta) < gdp_mu(epsilon, min(delta * factor, 0.99))


# Composition


@given(st.lists(st.fractions(min_value=0, max_value=10**6), max_size=8))
def test_composition_adds_the_squares_exactly(squares: list[Fraction]) -> None:
    assert compose(squares) == sum(squares)


@given(st.fractions(min_value=0, max_value=10**40))
def test_mu_from_squared_is_the_first_float_not_below_the_root(square: Fraction) -> None:
    mu = mu_from_squared(square)
    assert Fraction(mu) ** 2 >= square
    assert mu == 0 or Fraction(math.nextafter(mu, 0.0)) ** 2 < square


def test_four_equal_rounds_double_mu() -> None:
    assert mu_from_squared(compose([Fraction(9, 4)] * 4)) == 3.0


# Against dp_accounting


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-9, 1e-6, 1e-3])
def test_the_gaussian_mechanism_of_dp_accounting_agrees(epsilon: float, delta: float) -> None:
    # its searches stop at 1e-12 absolute, so 1e-9 relative is within its own precision here
    mu = gdp_mu(epsilon, delta)
    assert 1 / mu == pytest.approx(gaussian_mechanism.get_sigma_gaussian(epsilon, delta), rel=1e-9)
    assert gdp_epsilon(mu, delta) == pytest.approx(
        gaussian_mechanism.get_epsilon_gaussian(1 / mu, delta), rel=1e-9
    )


@pytest.mark.parametrize(("sigma", "epsilon"), [(4.0, 1.0), (30.0, 0.1), (1.0, 3.0)])
def test_the_privacy_loss_distribution_of_dp_accounting_agrees(
    sigma: float, epsilon: float
) -> None:
    # an upper bound made of a discretised loss, hence only near
    loss = privacy_loss_distribution.from_gaussian_mechanism(
        sigma, value_discretization_interval=1e-3
    )
    delta = gdp_delta(1 / sigma, epsilon)
    assert loss.get_delta_for_epsilon(epsilon) == pytest.approx(delta, rel=1e-6)
    assert loss.get_epsilon_for_delta(delta) == pytest.approx(epsilon, rel=1e-6)


# Refusals


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf, -math.inf, "1"])
def test_an_impossible_epsilon_is_refused_by_name_and_value(epsilon: float) -> None:
    with pytest.raises(BudgetError, match=f"epsilon must.*got {epsilon!r}"):
        gdp_mu(epsilon, 1e-6)
    with pytest.raises(BudgetError, match=f"epsilon must.*got {epsilon!r}"):
        gdp_delta(1.0, epsilon)


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-9, 1.5, math.nan, math.inf, "0.1"])
def test_an_impossible_delta_is_refused_by_name_and_value(delta: float) -> None:
    with pytest.raises(BudgetError, match=f"delta must.*got {delta!r}"):
        gdp_mu(1.0, delta)
    with pytest.raises(BudgetError, match=f"delta must.*got {delta!r}"):
        gdp_epsilon(1.0, delta)


@pytest.mark.parametrize("mu", [-1.0, math.nan, math.inf, Fraction(-1, 3)])
def test_an_impossible_mu_is_refused_by_name(mu: float | Fraction) -> None:
    with pytest.raises(BudgetError, match="mu must be"):
        gdp_delta(mu, 1.0)
    with pytest.raises(BudgetError, match="mu must be"):
        gdp_epsilon(mu, 1e-6)


def test_a_negative_square_is_refused() -> None:
    with pytest.raises(BudgetError, match=r"mu_squared must.*got -1"):
        mu_from_squared(Fraction(-1))
    with pytest.raises(BudgetError, match=r"mu_squared must.*got -1/2"):
        compose([Fraction(1), Fraction(-1, 2)])
