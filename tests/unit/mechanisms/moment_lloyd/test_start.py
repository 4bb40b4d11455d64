"""Where the clustering starts: candidates cover what they should, and k means of what is known are
near what is there.
"""

import msgspec
import numpy as np
import pytest

from designs import design_mechanism
from fastlloyd.base.arrays import FloatArray
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain
from fastlloyd.mechanisms.moment_lloyd import location, start
from fastlloyd.mechanisms.moment_lloyd.mechanism import MomentMechanism
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD
from fastlloyd.mechanisms.moment_lloyd.state import NUMBER_BITS, Noisy, State
from fastlloyd.mechanisms.queries.spaces import DIRECTION_BITS

ONE, N = 1 << 16, 5000


def mechanism(d: int, k: int, epsilon: float) -> MomentMechanism:
    domain = Domain(features=tuple(f"x{i}" for i in range(d)), lower=(-1.0,) * d, upper=(1.0,) * d)
    return design_mechanism(
        MOMENTLLOYD,
        domain,
        n_clusters=k,
        n_records=N,
        epsilon=epsilon,
        public_seed=PublicSeed.from_int(1),
    )


def in_a_line(m: MomentMechanism, deviation: float) -> State:
    """One direction, along the first feature."""
    V = np.zeros((m.n_features, m.n_directions), dtype=np.int64)
    V[0, 0] = 1 << DIRECTION_BITS
    variances = np.zeros(m.n_directions, dtype=np.int64)
    variances[0] = round(deviation**2)
    return msgspec.structs.replace(
        State.start(m),
        number=N << NUMBER_BITS,
        length=round(deviation),
        directions=V,
        variances=variances,
    )


@pytest.mark.parametrize("epsilon", [0.1, 5.0])
def test_candidates_of_a_box_lie_in_it_and_cover_it(epsilon: float) -> None:
    m = mechanism(2, 4, epsilon)
    low, high = np.array([-1000.0, 200.0]), np.array([5000.0, 800.0])
    points = start.box_candidates(m, State.start(m), low, high).candidates
    assert len(points) == m.n_candidates
    assert ((points >= low) & (points <= high)).all()
    for corner in (low, high):
        assert (np.abs(points - corner) / (high - low)).sum(axis=1).min() < 0.5
    assert len(np.unique(points, axis=0)) == len(points)


def test_candidates_of_a_gaussian_lie_along_the_directions_found() -> None:
    m = mechanism(5, 3, 5.0)
    state = start.gaussian_candidates(m, in_a_line(m, 10_000.0))
    assert not state.candidates[:, 1:].any()
    near, distant = np.split(state.candidates[:, 0], [-start.number_far(m)])
    wider = (
        start.WIDER * (1 + (start.FARTHER**2 - 1) / start.OUTER_PART) ** 0.5
    )  # some of them are farther out
    assert near.std() == pytest.approx(wider * 10_000, rel=0.1)
    assert set(np.abs(distant)) == {round(length * state.length) for length in start.FAR_LENGTHS}


def test_two_means_of_a_gaussian_are_those_of_the_normal_law() -> None:
    """They lie at sqrt(2 / pi) deviations to either side, and leave 1 - 2 / pi of the variance."""
    m = mechanism(5, 2, 0.05)
    state = start.from_gaussian(m, in_a_line(m, 10_000.0))
    expected = 10_000 * (2 / np.pi) ** 0.5
    np.testing.assert_allclose(np.sort(state.centroids[:, 0]), [-expected, expected], rtol=0.05)
    assert not state.centroids[:, 1:].any()
    np.testing.assert_array_equal(state.sizes, [(N << NUMBER_BITS) // 2] * 2)
    assert state.inner_spread == pytest.approx(1e8 * (1 - 2 / np.pi), rel=0.05)


def voted(m: MomentMechanism, state: State, votes: FloatArray) -> State:
    return start.from_votes(m, state, Noisy(votes[:, None], 1e-6))


def test_two_groups_of_votes_become_two_centroids() -> None:
    m = mechanism(2, 2, 5.0)
    state = msgspec.structs.replace(State.start(m), number=N << NUMBER_BITS)
    state = start.box_candidates(m, state, np.array([-ONE, -ONE]), np.array([ONE, ONE]))
    corners = np.array([[-ONE, -ONE], [ONE, ONE]]) * 0.8
    near = ((state.candidates[:, None] - corners) ** 2).sum(axis=2).argmin(axis=0)
    votes = np.zeros(m.n_candidates)
    votes[near] = N / 2
    found = voted(m, state, votes).centroids
    np.testing.assert_array_equal(found[np.argsort(found[:, 0])], state.candidates[near])


@pytest.mark.parametrize("d", [2, 5])
def test_votes_for_fewer_candidates_than_clusters_still_give_k_centroids(d: int) -> None:
    m = mechanism(d, 4, 5.0)
    if d == 2:
        state = msgspec.structs.replace(State.start(m), number=N << NUMBER_BITS)
        state = start.box_candidates(m, state, np.array([-ONE, -ONE]), np.array([ONE, ONE]))
    else:
        state = start.gaussian_candidates(m, in_a_line(m, 10_000.0))
    for votes in (
        np.zeros(m.n_candidates),
        np.full(m.n_candidates, -1e9),
        np.eye(m.n_candidates)[3] * N,
    ):
        assert voted(m, state, votes).centroids.shape == (4, d)


@pytest.mark.parametrize("epsilon", [1.0, 5.0])
def test_a_small_cluster_far_away_that_votes_show_is_a_centroid(epsilon: float) -> None:
    m = mechanism(5, 3, epsilon)
    state = start.gaussian_candidates(m, in_a_line(m, 3_000.0))
    assert (m.n_candidates - start.number_far(m) <= start.FEW_CANDIDATES) == (epsilon == 1.0)
    votes = np.zeros(m.n_candidates)
    votes[np.abs(state.candidates[:, 0]) < 6_000] = 1.0
    votes *= 0.98 * N / votes.sum()
    one = m.n_candidates - start.number_far(m) + start.FAR_LENGTHS.index(5.0)
    votes[one] = 0.02 * N
    centroids = voted(m, state, votes).centroids
    np.testing.assert_allclose(
        np.abs(centroids - state.candidates[one] @ state.directions.T / 2**20).sum(axis=1).min(),
        0,
        atol=3,
    )


def test_the_same_state_and_votes_give_the_same_start() -> None:
    m = mechanism(3, 4, 5.0)
    state = msgspec.structs.replace(State.start(m), number=N << NUMBER_BITS)
    one, other = (
        start.box_candidates(m, state, np.full(3, -9.0 * 10**3), np.full(3, 9.0 * 10**3))
        for _ in range(2)
    )
    np.testing.assert_array_equal(one.candidates, other.candidates)
    votes = np.arange(m.n_candidates, dtype=np.float64)
    np.testing.assert_array_equal(voted(m, one, votes).centroids, voted(m, other, votes).centroids)


def test_a_box_with_candidates_to_spare_is_wider() -> None:
    """At the same noisy squares: more candidates per cluster, more deviations, within the
    bounds.
    """
    widths = []
    for k in (900, 30, 3):
        m = mechanism(1, k, 20.0)
        state = msgspec.structs.replace(State.start(m), number=N << NUMBER_BITS)
        low, high = location.box(m, state, Noisy(np.full((1, 1), N * 90.0**2), 1e-6), 0.0)
        widths.append(float((high - low)[0]))
    assert widths[0] == pytest.approx(2 * location.ZOOM * 90)
    assert widths == sorted(widths)
    assert widths[0] < widths[1] < widths[2] <= 2 * ONE


def test_a_cluster_within_one_cell_has_the_extent_of_the_cell() -> None:
    """All votes for one of few candidates: the records lie anywhere in its cell, and k centroids
    share it.
    """
    m = mechanism(2, 3, 0.2)
    state = msgspec.structs.replace(State.start(m), number=N << NUMBER_BITS)
    state = start.box_candidates(m, state, np.array([-ONE, -ONE]), np.array([ONE, ONE]))
    assert m.n_candidates <= start.FEW_CANDIDATES
    votes = np.zeros(m.n_candidates)
    votes[0] = N
    found = voted(m, state, votes)
    side = 2 * ONE / m.n_candidates**0.5
    assert (
        0.2 < found.spread / (2 * side**2 / 12 / 3) < 2
    )  # three of them in a square leave about a third of its variance
    assert len(np.unique(found.centroids, axis=0)) == 3
    assert (np.abs(found.centroids - state.candidates[0]) < side).all()
