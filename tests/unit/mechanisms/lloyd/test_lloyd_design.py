"""The planner's closed forms against the formulas of the error analysis in plain floats, and its
radius exactly.
"""

import inspect
import math
from fractions import Fraction

import msgspec
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from designs import design_mechanism
from fastlloyd.base.precision import exact, fifty_decimals
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain, Scaling
from fastlloyd.clustering.radius import squared_radius
from fastlloyd.dp.gdp import gdp_mu
from fastlloyd.dp.noise import Noise
from fastlloyd.errors import PlanError
from fastlloyd.mechanisms.lloyd import design
from fastlloyd.mechanisms.lloyd.algorithm import (
    FASTLLOYD,
    GLLOYD,
    LLOYD,
    SULLOYD,
    Algorithm,
    RadiusSchedule,
)
from fastlloyd.mechanisms.loss import scale_up
from fastlloyd.mechanisms.rounds import SCALE_UNITS

RHO = 0.225
DIMENSIONS = pytest.mark.parametrize("d", [1, 2, 3, 13, 64, 784, 1024])


def cube(d: int, q: int = 16) -> Domain:
    return Domain(
        features=tuple(f"f{i}" for i in range(d)),
        lower=(-1.0,) * d,
        upper=(1.0,) * d,
        fraction_bits=q,
    )


def count_share(algorithm: Algorithm, d: int) -> float:
    with fifty_decimals() as digits:
        return float(design.count_share(digits, algorithm, d))


# Splits between sums and counts


@DIMENSIONS
def test_fastlloyds_split_is_equation_five_and_spends_the_whole_budget(d: int) -> None:
    sigma_R, sigma_C = (
        math.sqrt(1 + math.sqrt(4 * d)) / (4 * d) ** 0.25,
        math.sqrt(1 + math.sqrt(4 * d)),
    )
    share = count_share(FASTLLOYD, d)
    assert share == pytest.approx(1 / sigma_C**2, rel=1e-14)
    assert 1 - share == pytest.approx(1 / sigma_R**2, rel=1e-14)
    assert sigma_C == pytest.approx((4 * d) ** 0.25 * sigma_R, rel=1e-14)


@DIMENSIONS
def test_glloyds_split_is_that_of_appendix_b1(d: int) -> None:
    total = math.sqrt(2 * RHO + math.sqrt(d))
    sigma_S, sigma_C = total / d**0.25, total / math.sqrt(2 * RHO)
    share = count_share(GLLOYD, d)
    assert share == pytest.approx(1 / sigma_C**2, rel=1e-14)
    assert 1 - share == pytest.approx(1 / sigma_S**2, rel=1e-14)


@DIMENSIONS
def test_sulloyds_split_is_d_to_the_cube_root(d: int) -> None:
    share = count_share(SULLOYD, d)
    assert (1 - share) / share == pytest.approx(d / (4 * d * RHO**2) ** (1 / 3), rel=1e-13)


@pytest.mark.parametrize("d", [1, 2, 5, 40])
def test_the_splits_minimise_the_error_they_were_derived_from(d: int) -> None:
    """Second route: numerical minimisation of the mean squared error of Section 4.4, Appendix B.1,
    and Su et al.
    """
    errors = {
        "fastlloyd": lambda w: (
            1 / w + 4 * d / (1 - w)
        ),  # sigma_C^2 + 4 d sigma_R^2, in units of eta^2
        "glloyd": lambda w: (
            d * d / (1 - w) + 4 * RHO**2 * d / w
        ),  # d var(sum) + 4 rho^2 d var(count), sensitivity sqrt d
        "sulloyd": lambda w: (
            d * d**2 / (1 - w) ** 2 + 4 * RHO**2 * d / w**2
        ),  # Laplace: variance as 1 / share^2
    }
    for algorithm in (FASTLLOYD, GLLOYD, SULLOYD):
        best = minimize_scalar(
            errors[algorithm.name],
            bounds=(1e-9, 1 - 1e-9),
            method="bounded",
            options={"xatol": 1e-12},
        ).x
        assert count_share(algorithm, d) == pytest.approx(best, rel=1e-4)


# Radii


@pytest.mark.parametrize("d", [1, 2, 3])
@given(
    st.integers(1, 1000),
    st.fractions(Fraction(1, 100), 4, max_denominator=1000),
    st.integers(4, 16),
)
def test_the_squared_radius_is_the_floor_of_eta_squared(
    d: int, k: int, alpha: Fraction, q: int
) -> None:
    eta2_to_d = (alpha**2 * d * 4**q) ** d / Fraction(k) ** 2  # (eta^2)^d, exact
    assume(eta2_to_d >= 1)
    H2 = squared_radius(cube(d, q), k, alpha)
    assert H2**d <= eta2_to_d < (H2 + 1) ** d
    assert Fraction(H2, 4**q) == pytest.approx(
        (float(alpha) * math.sqrt(d) / k ** (1 / d)) ** 2, abs=1.01 / 4**q, rel=1e-12
    )


def test_the_squared_radius_of_whole_roots_is_met_exactly() -> None:
    # k = 16 in two dimensions: eta = 4/5 sqrt 2 / 4, so eta^2 = 2/25 of B^2
    assert squared_radius(cube(2), 16, Fraction(4, 5)) == 2 * 4**16 // 25
    assert squared_radius(cube(1), 4, Fraction(1)) == 4**14
    assert squared_radius(cube(3), 27, Fraction(1)) == 3 * 4**16 // 9
    assert squared_radius(cube(1), 1, Fraction(1)) == 4**16


@pytest.mark.parametrize(("d", "k"), [(784, 10), (1024, 100), (1024, 65536)])
def test_the_squared_radius_of_many_dimensions_agrees_with_floats(d: int, k: int) -> None:
    expected = 0.64 * d * 4**16 / k ** (2 / d)
    assert squared_radius(cube(d), k, Fraction(4, 5)) == pytest.approx(expected, abs=1.1)


def test_the_radius_uses_the_real_box_under_common_scaling() -> None:
    box = Domain(
        features=("a", "b"),
        lower=(0.0, 0.0),
        upper=(4.0, 1.0),
        scaling=Scaling.COMMON,
        fraction_bits=10,
    )
    assert squared_radius(box, 1, Fraction(1)) == 1024**2 + 256**2


def test_schedules_step_from_half_the_diagonal_or_stay_constant() -> None:
    box = cube(2)
    final = squared_radius(box, 5, FASTLLOYD.alpha)
    half_diagonal = 2 * 4**16
    constant = msgspec.structs.replace(FASTLLOYD, radius=RadiusSchedule.CONSTANT)
    assert design.squared_radii(FASTLLOYD, box, 5, 4) == [half_diagonal, final, final, final]
    assert design.squared_radii(FASTLLOYD, box, 5, 1) == [half_diagonal]
    assert design.squared_radii(constant, box, 5, 3) == [final] * 3
    assert (
        design.squared_radii(GLLOYD, box, 5, 2)
        == design.squared_radii(SULLOYD, box, 5, 2)
        == [None] * 2
    )


def test_a_radius_below_one_grid_unit_is_refused_and_says_what_to_change() -> None:
    assert squared_radius(cube(1, 1), 2, Fraction(4, 5)) == 0
    assert squared_radius(cube(1, 2), 2, Fraction(4, 5)) == 2
    settings = {
        "n_clusters": 2,
        "n_records": 10,
        "epsilon": 1.0,
        "public_seed": PublicSeed.from_int(0),
    }
    for T in (None, 3):
        with pytest.raises(PlanError, match=r"radius.*one grid unit"):
            design_mechanism(FASTLLOYD, cube(1, 1), n_iterations=T, **settings)
        design_mechanism(GLLOYD, cube(1, 1), n_iterations=T, **settings)  # it uses no radius


# Number of iterations


def formula(algorithm: Algorithm, d: int, k: int, N: int, epsilon: float, mu: float) -> float:
    """The rule before it is rounded and limited, in floats, as in the error analysis."""
    sigma = 1 / mu
    if algorithm.noise is Noise.LAPLACE:
        smallest = math.sqrt(500 * k**3 / N**2 * (d + (4 * d * RHO**2) ** (1 / 3)) ** 3)
        return epsilon / smallest
    if algorithm.radius is RadiusSchedule.NONE:
        return 0.004 * N**2 / (k**3 * d * (2 * RHO + math.sqrt(d)) ** 2 * sigma**2)
    eta: float = 0.8 * 2 * math.sqrt(d) / (2 * k ** (1 / d))
    return 0.004 * 4 * N**2 / (k**3 * eta**2 * sigma**2 * (1 + math.sqrt(4 * d)) ** 2)


@pytest.mark.parametrize("algorithm", [FASTLLOYD, GLLOYD, SULLOYD], ids=lambda a: a.name)
def test_the_number_of_iterations_is_the_rule_in_floats_limited_to_two_and_seven(
    algorithm: Algorithm,
) -> None:
    generator = np.random.default_rng(0)
    seen: set[int] = set()
    for _ in range(1000):
        d, k = int(generator.integers(1, 30)), int(generator.integers(1, 20))
        N = int(10 ** generator.uniform(1.5, 5))
        epsilon = float(10 ** generator.uniform(-1, 1))
        mu = 0.25 * epsilon
        affordable = formula(algorithm, d, k, N, epsilon, mu)
        T = design.n_iterations(algorithm, cube(d), k, N, epsilon=epsilon, mu=mu)
        # the formula has the real radius, the planner the one on the grid, smaller by 1e-4 where it
        # is short
        assert T in {max(2, min(7, math.floor(affordable * factor))) for factor in (1, 1 + 1e-4)}
        seen.add(T)
    assert seen == {2, 3, 4, 5, 6, 7}


@pytest.mark.parametrize(
    ("algorithm", "d", "k", "N", "epsilon", "T"),
    [
        (FASTLLOYD, 2, 15, 5000, 1.0, 5),
        (FASTLLOYD, 2, 3, 1000, 1.0, 6),
        (GLLOYD, 4, 3, 150, 1.0, 2),
        (GLLOYD, 2, 3, 10_000, 1.0, 7),
        (SULLOYD, 2, 3, 1000, 1.0, 2),
        (SULLOYD, 2, 3, 10_000, 1.0, 7),
        (LLOYD, 2, 3, 10, 1.0, 7),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_numbers_of_iterations_of_known_cases(
    algorithm: Algorithm, d: int, k: int, N: int, epsilon: float, T: int
) -> None:
    mu = gdp_mu(epsilon, 1 / (100 * N)) if algorithm.noise is Noise.GAUSSIAN else None
    assert design.n_iterations(algorithm, cube(d), k, N, epsilon=epsilon, mu=mu) == T


def test_extreme_budgets_stay_within_two_and_seven() -> None:
    for algorithm in (FASTLLOYD, GLLOYD, SULLOYD):
        for N, k, d in ((1, 1, 1), (2**40, 1, 1), (2**40, 65536, 1024), (1, 65536, 1024)):
            for epsilon in (1e-300, 1e-6, 1e12, 1e300):
                assert (
                    2
                    <= design.n_iterations(algorithm, cube(d), k, N, epsilon=epsilon, mu=epsilon)
                    <= 7
                )
    assert design.n_iterations(FASTLLOYD, cube(1), 1, 1, epsilon=1e-300, mu=1e-300) == 2
    assert design.n_iterations(FASTLLOYD, cube(1), 1, 1, epsilon=1e300, mu=1e300) == 7


# Public inputs only


def test_w23_iterations_delta_and_noise_are_functions_of_public_settings() -> None:
    # T from the private number of records flipped from 2 to 3 near N = 1,025 (k = 3, d = 2, eps =
    # .5): messages told N.
    assert set(inspect.signature(design.n_iterations).parameters) == {
        "algorithm", "domain", "n_clusters", "n_expected", "epsilon", "mu", "share",
    }  # fmt: skip
    public = {
        "n_clusters": 3,
        "n_records": 2000,
        "epsilon": 0.5,
        "public_seed": PublicSeed.from_int(0),
    }
    first = design_mechanism(FASTLLOYD, cube(2), **public)
    second = design_mechanism(FASTLLOYD, cube(2), **public)
    assert first == second
    # the cap sets the default delta; the expectation, another public number, sets T
    flips = [
        len(
            design_mechanism(
                FASTLLOYD,
                cube(2),
                n_clusters=3,
                n_records=2000,
                n_expected=N,
                epsilon=0.5,
                public_seed=PublicSeed.from_int(0),
            ).rounds
        )
        for N in (500, 1000, 1500, 2000)
    ]
    assert flips == sorted(flips)
    assert flips[0] < flips[-1]


# Exact rounding


@given(st.fractions(min_value=0, max_value=10**30))
def test_a_scale_is_rounded_up_and_not_in_floats(value: Fraction) -> None:
    with fifty_decimals() as digits:
        scale = scale_up(digits, exact(digits, value))
    units = value * SCALE_UNITS
    assert scale * SCALE_UNITS in {
        max(1, math.ceil(units)),
        max(1, math.ceil(units * (1 + Fraction(1, 10**39)))),
    }
    assert scale >= value


def test_rounding_up_sees_what_a_float_would_lose() -> None:
    with fifty_decimals() as digits:
        # with a margin of 1e-40 of itself
        assert scale_up(digits, digits.mpf(2**60 + 100) / SCALE_UNITS) * SCALE_UNITS == 2**60 + 101
        assert (
            scale_up(digits, (5 + exact(digits, Fraction(1, 10**30))) / SCALE_UNITS) * SCALE_UNITS
            == 6
        )
