"""Candidates far away: where they are, how many, and that noise among them counts for nothing."""

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from designs import design_mechanism
from fastlloyd.base.randomness import Draws, PublicSeed
from fastlloyd.clustering.domain import Domain
from fastlloyd.mechanisms.moment_lloyd import start
from fastlloyd.mechanisms.moment_lloyd.mechanism import MomentMechanism
from fastlloyd.mechanisms.moment_lloyd.rounds import MAX_CANDIDATES, MOMENTLLOYD
from fastlloyd.mechanisms.moment_lloyd.start import weights
from fastlloyd.mechanisms.moment_lloyd.state import Noisy, State

SEED = PublicSeed.from_int(1)


def mechanism(d: int, k: int, n: int, epsilon: float) -> MomentMechanism:
    domain = Domain(features=tuple(f"x{i}" for i in range(d)), lower=(-1.0,) * d, upper=(1.0,) * d)
    return design_mechanism(
        MOMENTLLOYD, domain, n_clusters=k, n_records=n, epsilon=epsilon, public_seed=SEED
    )


@given(st.integers(1, 10**5))
def test_of_all_candidates_a_quarter_is_far_away(near: int) -> None:
    n = start.with_far(near)
    assert n - n // start.FAR_PART == near


@pytest.mark.parametrize(("k", "epsilon"), [(2, 1.0), (5, 20.0), (1500, 20.0)])
def test_near_candidates_are_at_least_twice_the_clusters_and_all_within_the_limit(
    k: int, epsilon: float
) -> None:
    m = mechanism(5, k, 10**6, epsilon)
    assert 0 < start.number_far(m) < m.n_candidates <= max(MAX_CANDIDATES, 4 * k)
    assert m.n_candidates - start.number_far(m) >= 2 * k


def test_with_few_features_none_is_far_away() -> None:
    assert start.number_far(mechanism(3, 2, 5000, 1.0)) == 0


def by_quadrature(ratio: float) -> float:
    """Mean of |cos| over that of |sin| of the angle of (ratio a, b), a and b normal."""
    angle = (np.arange(1000) + 0.5) / 1000 * np.pi / 2  # of (a, b): uniform
    x, y = ratio * np.cos(angle), np.sin(angle)
    return float((x / np.hypot(x, y)).mean() / (y / np.hypot(x, y)).mean())


def test_they_lie_at_their_distances_and_more_of_them_where_records_spread() -> None:
    m = mechanism(6, 2, 5000, 1.0)
    variances = np.zeros(m.n_directions, dtype=np.int64)
    directions = np.zeros((6, m.n_directions), dtype=np.int64)
    for i, variance in enumerate((4_000_000, 1_000_000)):
        directions[i, i], variances[i] = 1 << 20, variance
    state = msgspec.structs.replace(
        State.start(m), length=1000, directions=directions, variances=variances
    )
    y = start.far_candidates(state, Draws(SEED, b"test"), 3001)
    np.testing.assert_allclose(
        np.linalg.norm(y, axis=1), np.resize(1000 * np.array(start.FAR_LENGTHS), 3001)
    )
    longer, shorter = np.abs(y / np.linalg.norm(y, axis=1)[:, None]).mean(axis=0)
    assert longer / shorter == pytest.approx(by_quadrature(2.0), rel=0.1)
    flat = msgspec.structs.replace(state, variances=np.zeros_like(variances))
    assert not start.far_candidates(flat, Draws(SEED, b"test"), 5).any()


HOSTILE = st.lists(
    st.sampled_from([0.0, 1.0, -1.0, 30.0, 2.0**40, -(2.0**40), 2.0**62]), min_size=4, max_size=12
)


@settings(max_examples=40)
@given(HOSTILE, st.floats(1.0, 1e4), st.sampled_from([1e-3, 1.0, 1e12]), st.booleans())
def test_weights_are_finite_not_negative_and_no_more_than_all(
    h: list[float], n: float, deviation: float, drawn: bool
) -> None:
    expected = np.full(len(h), float(drawn))
    w = start.weighed(Noisy(np.array(h)[:, None], deviation), expected, n, len(h) // 4)
    assert np.isfinite(w).all()
    assert (w >= 0).all()
    assert w.sum() <= n * (1 + 1e-9)


def test_where_nothing_is_far_away_weights_are_those_of_the_histogram() -> None:
    h, expected = np.array([[90.0], [10.0], [-3.0], [5.0]]), np.array([1.0, 2.0, 3.0, 2.0])
    for deviation in (0.1, 20.0):
        expected_weights = weights(Noisy(h, deviation), expected * (102 / 8), 102.0)
        np.testing.assert_allclose(
            start.weighed(Noisy(h, deviation), expected, 102.0, 0), expected_weights
        )


def test_votes_far_away_that_noise_explains_change_nothing() -> None:
    near, noise = np.array([[60.0], [25.0], [15.0]]), np.array([[39.0], [-39.0], [3.0]])
    w = start.weighed(Noisy(np.concatenate([near, noise]), 10.0), np.ones(6), 100.0, 3)
    np.testing.assert_array_equal(w[3:], 0)
    np.testing.assert_allclose(w[:3], weights(Noisy(near, 10.0), np.full(3, 100 / 3), 100.0))
    seen = start.weighed(Noisy(np.concatenate([near, 2 * noise]), 10.0), np.ones(6), 100.0, 3)
    np.testing.assert_array_equal(seen[3:] > 0, [True, False, False])
