"""The GDP curve by further routes, at every magnitude."""

import math
from fractions import Fraction
from typing import Any
from unittest import mock

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastlloyd.base.precision import greatest_float
from fastlloyd.dp import gdp, guesses
from fastlloyd.dp.gdp import gdp_delta, gdp_mu

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


def exact_mu(c: Any, epsilon: float, bits: int) -> Fraction:
    """The mu with epsilon/mu - mu/2 = c, as a multiple of 2^-bits."""
    with mpmath.workprec(bits + 500):
        root = mpmath.sqrt(mpmath.mpf(c) ** 2 + 2 * mpmath.mpf(epsilon)) - c
        return Fraction(int(mpmath.ldexp(root, bits)), 2**bits)


@settings(max_examples=50, deadline=None)
@given(st.floats(-37, 37), st.floats(-300, 300).map(lambda x: 10.0**x))
def test_delta_is_right_at_every_magnitude_of_epsilon(c: float, epsilon: float) -> None:
    mu = exact_mu(c, epsilon, bits=2500)
    truth, delta = true_delta(mu, epsilon, bits=5000), gdp_delta(mu, epsilon)
    assert delta >= truth
    with mpmath.workprec(200):
        assert math.nextafter(delta, 0.0) < truth * (1 + mpmath.ldexp(1, -139))


@pytest.mark.parametrize("epsilon", [1e-30, 1e-6, 1.0, 1e12])
@pytest.mark.parametrize("delta", [1e-30, 1e-6, 0.5])
def test_delta_is_decided_to_2_to_the_minus_100(epsilon: float, delta: float) -> None:
    # mu such that the curve passes the float `delta` at a relative distance of 2^-100, below it and
    # above it
    for side, rounded in ((-1, delta), (1, math.nextafter(delta, 1.0))):
        with mpmath.workprec(700):
            target = delta * (1 + side * mpmath.ldexp(1, -100))
            inside, outside = mpmath.mpf(40), mpmath.mpf(-40)
            for _ in range(230):
                middle = (inside + outside) / 2
                if true_delta(exact_mu(middle, epsilon, bits=600), epsilon, bits=700) < target:
                    inside = middle
                else:
                    outside = middle
            mu = exact_mu(outside, epsilon, bits=600)
            assert abs(true_delta(mu, epsilon, bits=700) / target - 1) < mpmath.ldexp(1, -110)
        assert gdp_delta(mu, epsilon) == rounded


WIDE = st.one_of(st.floats(5e-324, 1.7e308), st.floats(-323, 308).map(lambda x: 10.0**x))


def without_a_guess(epsilon: float, delta: float) -> float:
    """The search by halves, where every step asks for the rounded curve."""
    return greatest_float(lambda mu: gdp._delta(mu, epsilon) <= delta)


@settings(max_examples=60, deadline=None)
@given(st.one_of(EPSILONS, WIDE), DELTAS)
def test_a_search_that_begins_at_a_guess_finds_what_one_without_finds(
    epsilon: float, delta: float
) -> None:
    assert gdp_mu.__wrapped__(epsilon, delta) == without_a_guess(epsilon, delta)


@settings(max_examples=60, deadline=None)
@given(
    st.floats(0.01, 100),
    st.floats(-12, -0.1).map(lambda x: 10.0**x),
    st.one_of(st.floats(), st.floats(-50, 50)),
)
def test_a_wrong_guess_makes_the_search_longer_and_finds_the_same(
    epsilon: float, delta: float, a: float
) -> None:
    expected = gdp_mu(epsilon, delta)
    with mock.patch.object(guesses, "near", return_value=a):
        assert gdp_mu.__wrapped__(epsilon, delta) == expected
