"""A direction in which the records spread is found, and what is rounded never becomes longer than
1.
"""

import msgspec
import numpy as np
import pytest

from designs import design_mechanism
from fastlloyd.base.arrays import FloatArray
from fastlloyd.base.randomness import Draws, PublicSeed
from fastlloyd.clustering.domain import Domain
from fastlloyd.mechanisms.moment_lloyd.directions import basis, deviations, directions, used
from fastlloyd.mechanisms.moment_lloyd.mechanism import MomentMechanism
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD, SecondMomentRound
from fastlloyd.mechanisms.moment_lloyd.state import NUMBER_BITS, Noisy, State
from fastlloyd.mechanisms.queries.spaces import DIRECTION_BITS

N, LENGTH = 1000, 50_000


def mechanism(d: int) -> MomentMechanism:
    domain = Domain(features=tuple(f"x{i}" for i in range(d)), lower=(-1.0,) * d, upper=(1.0,) * d)
    return design_mechanism(
        MOMENTLLOYD,
        domain,
        n_clusters=3,
        n_records=N,
        epsilon=1.0,
        public_seed=PublicSeed.from_int(1),
    )


def found(m: MomentMechanism, M: FloatArray, deviation: float) -> State:
    """From a second moment per record, and the deviation of the noise in one entry of its
    diagonal.
    """
    d = m.n_features
    state = msgspec.structs.replace(State.start(m), number=N << NUMBER_BITS, length=LENGTH)
    (round,) = (round for round in m.rounds if isinstance(round, SecondMomentRound))
    diagonal = Noisy(N * M.diagonal()[None], N * deviation)
    above = Noisy(N * M[np.triu_indices(d, 1)][None], N * deviation * 0.5**0.5)
    return directions(m, state, round.radius, diagonal, above)


def planted(d: int, variances: list[float]) -> tuple[FloatArray, FloatArray]:
    """A second moment with these variances along random directions, and the directions."""
    Q = Draws(PublicSeed.from_int(d), b"test").rotation(d)[:, : len(variances)]
    return (Q * variances) @ Q.T, Q


@pytest.mark.parametrize("d", [4, 12, 40])
def test_planted_directions_are_found_where_there_is_no_noise(d: int) -> None:
    m, variances = mechanism(d), [LENGTH**2 * 0.5, LENGTH**2 * 0.2]
    M, Q = planted(d, variances)
    state = found(
        m, M, LENGTH**2 * 1e-5
    )  # nobody sees it, but eigenvalues below it are not believed
    assert used(state) == 2
    np.testing.assert_allclose(
        np.abs(basis(state).T @ Q), np.eye(2), atol=2 * d**0.5 * 2.0**-DIRECTION_BITS
    )
    assert deviations(state)[0] > deviations(state)[1] > 0
    if d <= 32:  # for a trace below the squared length, clipping is made to answer
        lost = 1.05 * LENGTH**2 / sum(variances)
        np.testing.assert_allclose(deviations(state) ** 2, lost * np.array(variances), rtol=1e-4)


@pytest.mark.parametrize("d", [4, 40])
def test_in_noise_alone_one_direction_is_kept(d: int) -> None:
    m = mechanism(d)
    state = found(m, np.zeros((d, d)), 1e6)
    assert used(state) == 1
    assert not state.directions[:, 1:].any()
    assert not state.variances[1:].any()


@pytest.mark.parametrize("d", [4, 7, 40])
@pytest.mark.parametrize("scale", [1.0, 1e6, 2.0**62])
def test_no_column_is_longer_than_1_whatever_the_answer(d: int, scale: float) -> None:
    m = mechanism(d)
    for i in range(5):
        A = scale * Draws(PublicSeed.from_int(i), b"test").normal((d, d))
        state = found(m, A + A.T, scale)
        V = state.directions.astype(object)
        assert ((V**2).sum(axis=0) <= 4**DIRECTION_BITS).all()
        assert (state.variances >= 0).all()
    for M in (
        np.eye(d),
        -np.eye(d),
        np.ones((d, d)),
        np.diag(np.arange(d) == 1) * scale,
    ):  # columns that are axes
        V = found(m, M.astype(np.float64), 1 / 3).directions.astype(object)
        assert ((V**2).sum(axis=0) <= 4**DIRECTION_BITS).all()
