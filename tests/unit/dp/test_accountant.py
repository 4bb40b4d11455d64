"""The accountant integrates the privacy loss; gdp.py evaluates a closed formula. Neither may be
optimistic.
"""

import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastlloyd.dp.accountant import Accountant, GaussianRelease, GeometricRelease
from fastlloyd.dp.gdp import compose, gdp_epsilon
from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.errors import BudgetError, PlanError


def account(*releases: GaussianRelease | GeometricRelease) -> Accountant:
    return Accountant(NeighboringRelation.ADD_OR_REMOVE_ONE).compose(releases)


def gaussian(mu: float | Fraction) -> GaussianRelease:
    return GaussianRelease(Fraction(mu) ** 2, Fraction(1))


def geometric(epsilon: Fraction) -> GeometricRelease:
    return GeometricRelease(epsilon, Fraction(1))


# Two routes


def test_the_plan_and_the_account_meet_at_a_known_case() -> None:
    # eight rounds of noise 4.2247 sqrt(8) cost epsilon 1 at delta 1e-6
    rounds = [GaussianRelease(Fraction(1), Fraction(42247**2 * 8, 10**8))] * 8
    assert account(*rounds).get_epsilon(1e-6) == pytest.approx(1.0, rel=1e-5)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.fractions(0, 100), st.fractions(Fraction(1, 100), 100)), max_size=6))
def test_composition_is_exact_and_does_not_depend_on_order(
    pairs: list[tuple[Fraction, Fraction]],
) -> None:
    releases = [GaussianRelease(square, variance) for square, variance in pairs]
    together, backwards = account(*releases), account(*reversed(releases))
    assert (
        together.mu_squared
        == backwards.mu_squared
        == compose(release.mu_squared for release in releases)
    )
    assert together.pure_epsilon == 0


def test_composing_in_steps_equals_composing_at_once() -> None:
    releases: list[GaussianRelease | GeometricRelease] = [
        gaussian(Fraction(1, 3)),
        geometric(Fraction(1, 7)),
        gaussian(Fraction(1, 5)),
    ]
    steps = account()
    for release in releases:
        steps.compose([release])
    at_once = account(*releases)
    assert (steps.mu_squared, steps.pure_epsilon) == (at_once.mu_squared, at_once.pure_epsilon)
    assert at_once.mu_squared == Fraction(1, 9) + Fraction(1, 25)
    assert at_once.pure_epsilon == Fraction(1, 7)


def test_a_refused_release_leaves_the_account_as_it_was() -> None:
    accountant = account(gaussian(1))
    with pytest.raises(PlanError, match=r"^variance must"):
        accountant.compose(GaussianRelease(Fraction(1), Fraction(variance)) for variance in (1, 0))
    assert accountant.mu_squared == 1


# Pure and mixed


def test_pure_releases_cost_their_epsilon_whatever_the_delta() -> None:
    accountant = account(
        GeometricRelease(Fraction(3), Fraction(9)), GeometricRelease(Fraction(1), Fraction(9))
    )
    assert accountant.pure_epsilon == Fraction(4, 9)
    for delta in (1e-300, 1e-6, 0.5):
        epsilon = accountant.get_epsilon(delta)
        assert Fraction(epsilon) >= Fraction(4, 9)
        assert epsilon == pytest.approx(4 / 9, rel=1e-15)


def test_a_pure_epsilon_just_above_a_float_is_rounded_up() -> None:
    assert account(geometric(1 + Fraction(1, 2**200))).get_epsilon(1e-6) == math.nextafter(1.0, 2.0)
    assert account(geometric(1 - Fraction(1, 2**200))).get_epsilon(1e-6) >= 1


def test_pure_releases_need_no_delta_from_their_epsilon_on() -> None:
    accountant = account(geometric(Fraction(1, 2)))
    assert accountant.get_delta(0.5) == 0
    assert accountant.get_delta(3.0) == 0
    # below it, randomised response needs tanh((eps_pure - epsilon) / 2) or less; the bound stated
    # is 1 - e^(...)
    assert math.tanh(0.2) <= accountant.get_delta(0.1) <= -math.expm1(-0.4) * (1 + 1e-12)


@pytest.mark.parametrize("delta", [1e-9, 1e-5])
def test_a_mixture_costs_the_sum(delta: float) -> None:
    pure = Fraction(1, 3)
    mixture = account(gaussian(Fraction(1, 4)), geometric(pure))
    expected = Fraction(gdp_epsilon(0.25, delta)) + pure
    epsilon = mixture.get_epsilon(delta)
    assert Fraction(epsilon) >= expected
    assert epsilon == pytest.approx(float(expected), rel=1e-9)
    assert mixture.get_delta(epsilon) == pytest.approx(delta, rel=1e-9)


def test_the_mixture_bound_holds_for_a_mixture_enumerated_in_full() -> None:
    # the exact hockey stick of (two-sided geometric, Gaussian), its Gaussian half in closed form
    # per geometric outcome
    pure, mu, epsilon = 0.5, 0.5, 1.0
    ratio = math.exp(-pure)
    truth = 0.0
    for x in range(-200, 201):
        p, q = ((1 - ratio) / (1 + ratio) * ratio ** abs(y) for y in (x, x - 1))
        shifted = epsilon - math.log(p / q)
        truth += p * float(
            mpmath.ncdf(mu / 2 - shifted / mu)
            - mpmath.exp(shifted) * mpmath.ncdf(-mu / 2 - shifted / mu)
        )
    bound = account(gaussian(mu), geometric(Fraction(1, 2))).get_delta(epsilon)
    assert truth <= bound <= 2 * truth


def test_an_empty_account_costs_nothing() -> None:
    assert account().get_epsilon(1e-6) == 0
    assert account().get_delta(1e-6) == 0


def test_results_beyond_the_floats_are_rounded_up() -> None:
    assert account(gaussian(1e-3)).get_delta(1e6) == 5e-324
    assert account(gaussian(1e3)).get_delta(1.0) == 1.0
    assert account(gaussian(1e-3)).get_epsilon(0.5) == 0.0
    assert (
        account(gaussian(10**160)).get_epsilon(0.5)
        == account(gaussian(10**400)).get_epsilon(1e-9)
        == math.inf
    )


@pytest.mark.parametrize("relation", ["x", "add_or_remove", None, 3])
def test_what_is_no_neighbouring_relation_is_refused(relation: Any) -> None:
    expected = "expected one of: add_or_remove_one, replace_one$"
    with pytest.raises(PlanError, match=f"^neighboring_relation {relation!r} is.*{expected}"):
        Accountant(relation)


def test_the_neighbouring_relation_is_kept_for_the_report() -> None:
    assert (
        Accountant(NeighboringRelation.REPLACE_ONE).neighboring_relation
        is NeighboringRelation.REPLACE_ONE
    )
    assert NeighboringRelation("add_or_remove_one") is NeighboringRelation.ADD_OR_REMOVE_ONE


# Refusals


@pytest.mark.parametrize("delta", [0.0, 1.0, math.nan, -1.0])
def test_an_impossible_delta_is_refused(delta: float) -> None:
    with pytest.raises(BudgetError, match=f"delta must.*got {delta}"):
        account(gaussian(1)).get_epsilon(delta)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf])
def test_an_impossible_epsilon_is_refused(epsilon: float) -> None:
    with pytest.raises(BudgetError, match=f"epsilon must.*got {epsilon}"):
        account(gaussian(1)).get_delta(epsilon)


def test_a_release_without_noise_is_refused() -> None:
    with pytest.raises(PlanError, match=r"^variance must.*above 0"):
        GaussianRelease(Fraction(1), Fraction(0))
    with pytest.raises(PlanError, match=r"^scale must.*above 0"):
        GeometricRelease(Fraction(1), Fraction(-1))
    with pytest.raises(PlanError, match=r"^sensitivity must.*least 0"):
        GeometricRelease(Fraction(-2), Fraction(1))
    with pytest.raises(PlanError, match=r"^squared_sensitivity must.*least 0"):
        GaussianRelease(Fraction(-2), Fraction(1))


def test_what_was_asked_before_answers_no_other_question() -> None:
    asked = account(gaussian(0.5))
    before = asked.get_delta(1.0), asked.get_epsilon(1e-6)
    asked.compose([gaussian(0.5), geometric(Fraction(1, 10))])
    assert asked.get_delta(1.0) > before[0]
    assert asked.get_epsilon(1e-6) > before[1]
    assert (
        account(gaussian(0.5)).get_delta(1.0),
        account(gaussian(0.5)).get_epsilon(np.float64(1e-6)),
    ) == before
