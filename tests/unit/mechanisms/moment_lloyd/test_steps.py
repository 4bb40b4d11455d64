"""A step moves every centroid by its records' mean offset, shrunk by what noise there is, and never
out of the box.
"""

import msgspec
import numpy as np
import pytest

from designs import design_mechanism
from fastlloyd.base.arrays import FloatArray
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain
from fastlloyd.mechanisms.moment_lloyd import steps
from fastlloyd.mechanisms.moment_lloyd.mechanism import MomentMechanism
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD
from fastlloyd.mechanisms.moment_lloyd.state import NUMBER_BITS, Noisy, State
from fastlloyd.mechanisms.queries.spaces import DIRECTION_BITS

ONE, N = 1 << 16, 600
MOVES = np.array([[100.0, -50.0], [0.0, 300.0]])
COUNTS = np.array([400.0, 200.0])


def mechanism(d: int) -> MomentMechanism:
    domain = Domain(features=tuple(f"x{i}" for i in range(d)), lower=(-1.0,) * d, upper=(1.0,) * d)
    return design_mechanism(
        MOMENTLLOYD,
        domain,
        n_clusters=2,
        n_records=N,
        epsilon=1.0,
        public_seed=PublicSeed.from_int(1),
    )


def known(m: MomentMechanism) -> State:
    V = np.zeros((m.n_features, m.n_directions), dtype=np.int64)
    if m.n_directions:
        V[:2, :2] = np.eye(2) * (1 << DIRECTION_BITS)
    return msgspec.structs.replace(
        State.start(m), number=N << NUMBER_BITS, directions=V, spread=ONE**2, inner_spread=ONE**2
    )


def stepped(
    m: MomentMechanism, state: State, moves: FloatArray, deviation: float, *, inner: bool = False
) -> State:
    """deviation : of the noise in each coordinate of the sums."""
    sums, counts = Noisy(moves * COUNTS[:, None], deviation), Noisy(COUNTS[:, None], 1e-9)
    return steps.step(m, state, sums, counts, in_directions=inner)


def test_without_noise_centroids_follow_their_records() -> None:
    m = mechanism(2)
    state = stepped(m, known(m), MOVES, 1e-6)
    np.testing.assert_array_equal(state.centroids, MOVES)
    np.testing.assert_array_equal(state.sizes, COUNTS * 2**NUMBER_BITS)


def test_moves_that_are_noise_are_not_made() -> None:
    m = mechanism(2)
    assert not stepped(m, known(m), MOVES, 1e12).centroids.any()


def test_what_moves_along_the_directions_is_shrunk_apart_from_the_rest() -> None:
    """Noise of 75 and 150 per coordinate: the moves along the directions stand out of it, those
    elsewhere do not.
    """
    m = mechanism(6)
    moves = np.zeros((2, 6))
    moves[:, :2] = 4000.0
    moves[:, 2:] = 50.0
    state = stepped(m, known(m), moves, 100.0 * 300)
    assert (state.centroids[:, 2:] < 35).all()
    assert (state.centroids[:, :2] > 3900).all()


@pytest.mark.parametrize("inner", [False, True])
def test_no_move_is_believed_to_be_longer_than_offsets_are(*, inner: bool) -> None:
    """Moves that stand out of noise that is far longer than offsets: believed as far as offsets
    reach, in each kind of step.
    """
    m = mechanism(40)
    spread, inner_spread = 40 * 300.0**2, 2 * 150.0**2  # two directions are used
    state = msgspec.structs.replace(known(m), spread=int(spread), inner_spread=int(inner_spread))
    moves = np.zeros((2, m.n_directions if inner else 40))
    moves[:, :2] = 1e5
    noise = 1e4
    after = stepped(m, state, moves, noise * 300, inner=inner)
    tau, n = (150.0 if inner else 300.0) ** 2, np.array([400.0, 200.0])
    factor = tau / (tau + (noise * 300 / n) ** 2)
    expected = np.rint(np.outer(1e5 * factor, [1, 1]))
    assert expected.min() >= 10
    np.testing.assert_allclose(after.centroids[:, :2], expected, atol=1)
    assert not after.centroids[:, 2:].any()


def test_how_far_offsets_reach_in_a_coordinate_and_at_least() -> None:
    m = mechanism(2)
    assert steps._most(m, 4 * ONE**2, 4) == ONE**2
    assert steps._most(m, 0, 1) == pytest.approx((ONE / 1000) ** 2)
    assert steps._most(m, 0, 4) == pytest.approx((ONE / 1000) ** 2 / 4)
    assert steps._most(m, 9, 0) == pytest.approx((ONE / 1000) ** 2)


def test_a_step_in_the_directions_moves_points_and_centroids_alike() -> None:
    m = mechanism(40)
    moves = np.zeros((2, m.n_directions))
    moves[:, :2] = MOVES
    state = stepped(m, known(m), moves, 1e-6, inner=True)
    np.testing.assert_array_equal(state.points[:, :2], MOVES)
    np.testing.assert_array_equal(state.centroids[:, :2], MOVES)
    assert not state.points[:, 2:].any()
    assert not state.centroids[:, 2:].any()


@pytest.mark.parametrize("size", [2.0**40, 2.0**60])
def test_centroids_stay_in_the_box(size: float) -> None:
    m = mechanism(2)
    state = stepped(m, known(m), np.array([[size, -size], [-size, size]]), 1.0)
    np.testing.assert_array_equal(state.centroids, [[ONE, -ONE], [-ONE, ONE]])
