"""Number, mean and reach: what is known beforehand and what is measured, each weighted by how much
it can be trusted.
"""

import math

import msgspec
import numpy as np
import pytest

from designs import design_mechanism
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain
from fastlloyd.mechanisms.moment_lloyd import location, steps
from fastlloyd.mechanisms.moment_lloyd.mechanism import MomentMechanism
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD
from fastlloyd.mechanisms.moment_lloyd.state import NUMBER_BITS, Noisy, State

ONE = 1 << 16  # a half width
SURE, LOST = 1e-9, 1e15  # deviations


def mechanism(
    d: int, *, cap: int = 1000, n_expected: int = 800, epsilon: float = 1.0
) -> MomentMechanism:
    domain = Domain(features=tuple(f"x{i}" for i in range(d)), lower=(-1.0,) * d, upper=(1.0,) * d)
    return design_mechanism(
        MOMENTLLOYD,
        domain,
        n_clusters=3,
        n_records=cap,
        n_expected=n_expected,
        epsilon=epsilon,
        public_seed=PublicSeed.from_int(1),
    )


def counted(value: float, deviation: float) -> float:
    return location.number(mechanism(2), Noisy(np.array([[value]]), deviation))


def test_the_number_is_the_count_where_it_is_exact_and_the_expected_one_where_it_is_noise() -> None:
    assert counted(650.0, SURE) == pytest.approx(650)
    assert counted(650.0, LOST) == pytest.approx(800)


def test_between_the_two_the_number_weighs_by_precision() -> None:
    """At deviation 400, half of what is expected, both count the same."""
    assert counted(600.0, 400.0) == pytest.approx(700)


def test_the_number_is_one_at_least_and_the_cap_at_most() -> None:
    assert counted(-5000.0, 300.0) == 1
    assert counted(2.0**40, SURE) == 1000  # the cap


def test_few_records_are_few_however_many_were_expected() -> None:
    assert counted(37.0, SURE) == pytest.approx(37)
    assert counted(37.0, 10.0) == pytest.approx(37, abs=1)


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 20.0])
@pytest.mark.parametrize("number", [1, 40, 300, 5000])
def test_sums_are_divided_by_six_deviations_at_least_or_a_quarter_of_what_is_expected(
    epsilon: float, number: int
) -> None:
    """The number itself stays what it is."""
    m = mechanism(2, cap=5000, n_expected=4000, epsilon=epsilon)
    count = float(m.count_scales[0]) / 2**m.count_bits
    deviation = 1 / math.sqrt(1 / count**2 + 1 / 2000**2)
    state = msgspec.structs.replace(State.start(m), number=number << NUMBER_BITS)
    assert location.divisor(m, state) == pytest.approx(max(number, min(6 * deviation, 1000)))
    assert location.records(state) == number


def test_sizes_add_up_to_the_number_and_not_to_what_sums_are_divided_by() -> None:
    """Two hundred records under a cap of twenty times as many: moves are cautious, sizes are not
    made up.
    """
    m = mechanism(2, cap=4000, n_expected=4000, epsilon=0.3)
    state = msgspec.structs.replace(State.start(m), number=200 << NUMBER_BITS, spread=ONE**2)
    divisor = location.divisor(m, state)
    assert divisor > 2 * 200
    counts, sums = np.array([[100.0], [60.0], [40.0]]), np.full((3, 2), 60.0 * ONE)
    after = steps.step(m, state, Noisy(sums, SURE), Noisy(counts, SURE), in_directions=False)
    np.testing.assert_allclose(after.sizes / 2.0**NUMBER_BITS, counts.ravel(), rtol=1e-3)
    excess = counts - counts.mean()
    np.testing.assert_allclose(after.centroids, sums / (divisor / 3 + excess), rtol=1e-3)


@pytest.mark.parametrize("number", [1, 20, 150, 4000])
@pytest.mark.parametrize("deviation", [0.0, 20.0, 3000.0])
def test_the_sizes_that_are_told_add_up_to_the_number_however_noisy(
    number: int, deviation: float
) -> None:
    m = mechanism(2, cap=4000, n_expected=4000, epsilon=0.3)
    state = msgspec.structs.replace(State.start(m), number=number << NUMBER_BITS)
    counts = np.random.default_rng(number).normal(number / 3, deviation, (3, 1))
    sums = Noisy(np.zeros((3, 2)), 1.0)
    after = steps.step(m, state, sums, Noisy(counts, max(deviation, SURE)), in_directions=False)
    assert after.sizes.sum() / 2.0**NUMBER_BITS == pytest.approx(number, abs=1e-4)
    assert (after.sizes > 0).all()


def mean(d: int, sums: list[float], deviation: float) -> State:
    m = mechanism(d)
    return location.mean(
        m, State.start(m), Noisy(np.array([sums]), deviation), Noisy(np.array([[500.0]]), SURE)
    )


def test_the_mean_of_few_features_is_the_sum_over_the_number() -> None:
    state = mean(2, [5000.0, -10_000.0], 900.0)
    assert state.centre.tolist() == [10, -20]
    assert state.number == 500 << NUMBER_BITS


def test_a_mean_outside_the_box_is_brought_to_its_edge() -> None:
    assert mean(2, [2.0**60, -(2.0**60)], 1.0).centre.tolist() == [ONE, -ONE]


def test_the_mean_of_more_features_is_shrunk_as_james_and_stein_do() -> None:
    d, g = 6, np.array([1000.0, 2000.0, -3000.0, 0.0, 500.0, 4000.0])
    deviation = 500 * 1500.0
    factor = 1 - (d - 2) * 1500.0**2 / float(g @ g)
    np.testing.assert_allclose(mean(d, (500 * g).tolist(), deviation).centre, factor * g, atol=0.5)
    assert not mean(d, (500 * g).tolist(), 500 * 4000.0).centre.any()  # nothing but noise


def length(value: float, deviation: float) -> float:
    """In half diagonals."""
    m = mechanism(4)
    state = msgspec.structs.replace(State.start(m), number=500 << NUMBER_BITS)
    B = math.sqrt(m.domain.squared_half_diagonal)
    return (
        location.length(m, state, Noisy(np.array([[value * 500 * B]]), deviation * 500 * B)).length
        / B
    )


def test_the_typical_distance_is_the_noisy_one_a_guess_or_between_them() -> None:
    assert length(0.3, SURE) == pytest.approx(0.3, abs=1e-4)
    assert length(0.3, LOST) == pytest.approx(0.6, abs=1e-4)
    assert length(0.3, 0.2) == pytest.approx(0.45, abs=1e-4)  # the guess's own deviation is 0.2


def test_the_typical_distance_stays_in_its_range() -> None:
    assert length(-1e9, SURE) == pytest.approx(0.05, abs=1e-4)
    assert length(1e9, SURE) == pytest.approx(0.9, abs=1e-4)


def test_the_box_is_so_many_deviations_around_the_mean_and_within_the_bounds() -> None:
    m = mechanism(2)
    state = msgspec.structs.replace(
        State.start(m), number=500 << NUMBER_BITS, centre=np.array([0, ONE - 100])
    )
    squares = Noisy(np.array([[500 * 4000.0**2, 500 * 4000.0**2]]), SURE)
    low, high = location.box(m, state, squares, 50.0)
    reach = location.ZOOM * 4000 + 50
    np.testing.assert_allclose(low, [-reach, ONE - 100 - reach])
    np.testing.assert_allclose(high, [reach, ONE])


def test_a_box_of_noisy_squares_is_never_empty_nor_larger_than_the_bounds() -> None:
    m = mechanism(2)
    state = msgspec.structs.replace(State.start(m), number=500 << NUMBER_BITS)
    for value in (-(2.0**80), 2.0**80):
        low, high = location.box(m, state, Noisy(np.full((1, 2), value), 1.0), 0.0)
        assert (low < high).all()
        assert (np.abs([low, high]) <= ONE).all()
        assert math.isfinite(float(low.sum() + high.sum()))
