"""Guesses in float64: near where they are usually needed, and none where float64 has too few
digits.
"""

import math

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastlloyd.dp import guesses


@given(st.floats(-37, 37), st.floats(1e-30, 1e3))
def test_the_odds_are_those_of_the_curve_or_it_says_that_it_does_not_know(
    a: float, mu: float
) -> None:
    if not mu > a:  # epsilon below 0
        return
    with mpmath.workprec(1000):
        m = mpmath.mpf(mu)
        curve = mpmath.ncdf(a) - mpmath.exp((m / 2 - a) * m) * mpmath.ncdf(a - m)
        exact = float(mpmath.log(curve / (1 - curve)))
    found = guesses.log_odds(a, mu)
    assert math.isnan(found) or math.isclose(found, exact, rel_tol=1e-7, abs_tol=1e-7)


@pytest.mark.parametrize(
    ("a", "mu"), [(-4.0, 1e-3), (-4.0, 0.2), (-37.0, 2.0), (0.0, 1.0), (3.0, 8.0), (-0.0, 1e150)]
)
def test_where_it_is_usually_needed_it_knows(a: float, mu: float) -> None:
    assert math.isfinite(guesses.log_odds(a, mu))


def test_where_two_numbers_differ_in_their_last_digits_only_it_does_not_know() -> None:
    assert math.isnan(guesses.log_odds(-4.0, 1e-8))
    assert math.isnan(guesses.log_odds(1e-9, 3e-9))
    assert math.isnan(guesses.near(lambda _: math.nan, 1e-6))
