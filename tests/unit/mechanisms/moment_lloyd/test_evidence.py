"""What all rounds together show of where records are: by hand, on two features and one cluster or
two.
"""

import msgspec
import numpy as np
import pytest

from designs import design_mechanism
from fastlloyd.base.arrays import FloatArray, IntArray
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain
from fastlloyd.mechanisms.moment_lloyd.evidence import SHAPE, evidence, missing
from fastlloyd.mechanisms.moment_lloyd.mechanism import MomentMechanism
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD
from fastlloyd.mechanisms.moment_lloyd.state import (
    NUMBER_BITS,
    Noisy,
    Seen,
    State,
    Step,
    Total,
)

ONE = 1 << 16
N = 3000
R = 1000


def mechanism(k: int) -> MomentMechanism:
    domain = Domain(features=("x", "y"), lower=(-1.0, -1.0), upper=(1.0, 1.0))
    return design_mechanism(
        MOMENTLLOYD,
        domain,
        n_clusters=k,
        n_records=N,
        epsilon=1.0,
        public_seed=PublicSeed.from_int(1),
    )


def state(m: MomentMechanism, centroids: IntArray) -> State:
    return msgspec.structs.replace(
        State.start(m), number=N << NUMBER_BITS, centroids=centroids, spread=R * R
    )


def counts(*values: float) -> Noisy:
    """With so little noise that what is divided by is the count itself, to one part in a
    million.
    """
    return Noisy(np.array(values)[:, None], 1e-3)


def sums(values: list[list[float]], deviation: float) -> Noisy:
    return Noisy(np.array(values), deviation)


def test_steps_that_agree_are_weighted_by_their_precision() -> None:
    """Means of 3000 records at (10, 0) and (13, 4), with deviations 6 and 8: weights .64 and
    .36.
    """
    m, at = mechanism(1), np.array([[0, 0]])
    seen = (
        Seen()
        .with_step(at, sums([[30_000, 0]], 18_000), counts(N))
        .with_step(at, sums([[39_000, 12_000]], 24_000), counts(N))
    )
    found = evidence(m, state(m, at), R, seen)
    assert np.allclose(found.means, [[11.08, 1.44]], rtol=1e-5)
    assert np.allclose(found.deviations, 4.8, rtol=1e-5)
    assert not found.is_first


def test_of_steps_that_differ_by_more_than_noise_the_last_one_counts() -> None:
    m, at = mechanism(1), np.array([[0, 0]])
    seen = (
        Seen()
        .with_step(at, sums([[300_000, 0]], 18_000), counts(N))
        .with_step(at, sums([[39_000, 12_000]], 24_000), counts(N))
    )
    found = evidence(m, state(m, at), R, seen)
    assert np.allclose(found.means, [[13, 4]], rtol=1e-5)
    assert np.allclose(found.deviations, 8, rtol=1e-5)


def test_a_mean_does_not_depend_on_where_a_step_was_asked() -> None:
    m = mechanism(1)
    seen = Seen().with_step(np.array([[100, 50]]), sums([[-90 * N, -50 * N]], 18_000), counts(N))
    found = evidence(m, state(m, np.array([[100, 50]])), R, seen)
    assert np.allclose(found.means, [[10, 0]], atol=1e-4)
    assert found.is_first


def test_a_count_is_taken_for_less_where_it_is_noisy_or_all_may_be_alike() -> None:
    """45, 45, 45 and 125 with deviation 40 may all be 65: the last is taken for that, the others
    for the deviation.
    """
    m, at = mechanism(4), np.zeros((4, 2), dtype=np.int64)
    m = msgspec.structs.replace(m, n_records=260, n_expected=260)
    few, values = (
        msgspec.structs.replace(state(m, at), number=260 << NUMBER_BITS),
        [45.0, 45.0, 45.0, 125.0],
    )
    ones = [[1.0, 0.0]] * 4
    noisy = Seen().with_step(at, sums(ones, 1.0), Noisy(np.array(values)[:, None], 40.0))
    sure = Seen().with_step(at, sums(ones, 1.0), counts(*values))
    assert np.allclose(1 / evidence(m, few, R, noisy).means[:, 0], [40, 40, 40, 65])
    assert np.allclose(1 / evidence(m, few, R, sure).means[:, 0], values, rtol=1e-3)


@pytest.mark.parametrize("deviation", [1e-6, 100.0])
def test_votes_beyond_the_radius_hide_what_they_exceed_it_by_as_far_as_noise_does_not_explain_it(
    deviation: float,
) -> None:
    """600 of 3000 votes at three radii to the right: the mean misses 600 / 3000 of two radii."""
    m, at = mechanism(1), np.array([[0, 0]])
    candidates: IntArray = np.array([[0, 0], [3 * R, 0]])
    votes: FloatArray = np.array([[2400.0], [600.0]])
    step = Seen().with_step(at, sums([[0.0, 0.0]], 1.0), counts(N))
    found = evidence(m, state(m, at), R, step.with_votes(candidates, Noisy(votes, deviation)))
    noise = deviation * 2 * R / N
    assert np.allclose(found.hidden, [[np.hypot(400 - noise, SHAPE * R), SHAPE * R]], rtol=1e-3)
    assert found.crowded.tolist() == [0.4 - 2 * deviation * 2 / N > 0.1]
    assert not evidence(m, state(m, at), R, step).crowded.any()


def test_votes_within_the_radius_hide_nothing() -> None:
    m, at = mechanism(1), np.array([[0, 0]])
    seen = Seen().with_step(at, sums([[0.0, 0.0]], 1.0), counts(N))
    seen = seen.with_votes(np.array([[0, 0], [R, 0]]), Noisy(np.array([[2400.0], [600.0]]), 1.0))
    assert np.allclose(evidence(m, state(m, at), R, seen).hidden, SHAPE * R)


def test_the_first_sum_shows_what_the_last_step_has_cut_and_votes_show_it_too() -> None:
    """600 of 3000 records lie at three radii to the right: cut to one they miss 400 units of the
    mean, of which the votes see 400 or, with candidates half as far out, 100.
    """
    m, at = mechanism(1), np.array([[0, 0]])
    step = Seen().with_step(at, sums([[600.0 * R, 0.0]], 1e-3), counts(N))
    known = step.with_total(sums([[600.0 * 3 * R, 0.0]], 1e-3), counts(N))
    votes = Noisy(np.array([[2400.0], [600.0]]), 1e-6)
    for seen, place, expected in ((known, 1.5, 400), (known, 3, 400)):
        candidates: IntArray = np.array([[0, 0], [round(place * R), 0]])
        found = evidence(m, state(m, at), R, seen.with_votes(candidates, votes))
        assert found.above is not None
        assert found.below is not None
        assert np.allclose(found.above, [[expected, 0]], atol=0.01)
        assert np.allclose(found.below, 0, atol=0.01)
        assert np.allclose(found.hidden[0, 0], np.hypot((place - 1) * R / 5, SHAPE * R), rtol=1e-3)
    for seen in (step, step.with_votes(np.array([[0, 0], [3 * R, 0]]), votes)):
        assert evidence(m, state(m, at), R, seen).above is None


def test_the_figure_of_a_mean_has_one_deviation_of_noise_and_ends_at_three_radii() -> None:
    """The mean of 100 records is one of sums with deviation 3000 and 4000: 50 together."""
    m, at = mechanism(1), np.array([[0, 0]])
    seen = (
        Seen()
        .with_total(sums([[0.0, 5e9]], 4000.0), counts(100))
        .with_step(at, sums([[0.0, 0.0]], 3000.0), counts(100))
        .with_votes(np.array([[0, 0], [1, 1]]), Noisy(np.array([[50.0], [50.0]]), 1e-6))
    )
    found = evidence(m, state(m, at), R, seen)
    assert found.above is not None
    assert found.below is not None
    assert np.allclose(found.above, [[50, 3 * R]], rtol=1e-3)
    assert np.allclose(found.below, [[50, 0]], rtol=1e-3)


def test_what_a_step_has_cut_does_not_depend_on_where_the_clusters_are() -> None:
    """Two clusters with means at 1000 and -3000, and 10 units a record missing in all: each may be
    the one that misses them.
    """
    total = Total(sums([[N * (10 - 1000.0), 0.0]], 1e-3), counts(N))
    here = [[1000.0 * N / 2, 0.0], [0.0, 0.0]]
    last = Step(np.array([[0, 0], [-3000, 0]]), sums(here, 1e-3), counts(N / 2, N / 2))
    assert np.allclose(missing(total, last).values, [[20, 0], [20, 0]], atol=0.01)
    dropped = Total(sums([[2 * N * (10 - 1000.0), 0.0]], 1e-3), counts(2 * N))
    assert np.allclose(missing(dropped, last).values, [[20, 0], [20, 0]], atol=0.01)
