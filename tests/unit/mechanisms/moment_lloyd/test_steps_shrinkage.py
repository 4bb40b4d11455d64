"""Noisy counts and moves: what is shrunk goes towards what it is shrunk to, by the factor that the
noise demands.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from fastlloyd.base.arrays import FloatArray
from fastlloyd.mechanisms.moment_lloyd.state import Noisy
from fastlloyd.mechanisms.moment_lloyd.steps import shrunk, sizes

COUNTS = arrays.arrays(np.float64, st.integers(1, 9), elements=st.floats(-(2.0**40), 2.0**40))
MOVES = arrays.arrays(
    np.float64, st.tuples(st.integers(1, 5), st.integers(1, 4)), elements=st.floats(-1e6, 1e6)
)


def test_counts_without_noise_that_sum_up_to_n_stay() -> None:
    counts = np.array([[70.0], [25.0], [5.0]])
    np.testing.assert_allclose(sizes(Noisy(counts, 1e-9), 100.0), counts.ravel())


def test_counts_that_are_noise_become_equal_shares() -> None:
    np.testing.assert_allclose(
        sizes(Noisy(np.array([[70.0], [25.0], [5.0]]), 1e4), 99.0), [33.0] * 3
    )


def test_one_cluster_has_all_records_whatever_its_count() -> None:
    np.testing.assert_allclose(sizes(Noisy(np.array([[-12.0]]), 3.0), 50.0), [50.0])


@settings(max_examples=40)
@given(COUNTS, st.floats(1e-3, 1e6), st.floats(1.0, 1e6))
def test_sizes_have_a_floor_and_without_it_sum_up_to_n(
    counts: FloatArray, deviation: float, n: float
) -> None:
    k = len(counts)
    found = sizes(Noisy(counts[:, None], deviation), n)
    floor = max(1.0, 0.5 * min(deviation, n / k))
    assert (found >= floor).all()
    assert found.sum() >= n * (1 - 1e-9) - 1e-3  # cancellation among counts of 2**40
    factor = max(
        0.0, 1 - (k - 1) * deviation**2 / max(((counts - counts.mean()) ** 2).sum(), 1e-300)
    )
    by_hand = np.maximum(n / k + factor * (counts - counts.mean()), floor)
    np.testing.assert_allclose(found, by_hand, rtol=1e-9, atol=1e-3)


@settings(max_examples=100)
@given(MOVES, st.floats(1e-3, 1e6), st.data())
def test_moves_keep_their_direction_and_none_grows(
    moves: FloatArray, most: float, data: st.DataObject
) -> None:
    k, d = moves.shape
    of_clusters = arrays.arrays(np.float64, k, elements=st.floats(1e-3, 1e3))
    variances, sizes = data.draw(of_clusters), data.draw(of_clusters)
    found = np.average(np.maximum((moves**2).mean(axis=1) - variances, 0), weights=sizes)
    raised = (k * d * found + 8 * 1.5 * np.average(variances, weights=sizes)) / (k * d + 8)
    tau = min(max(found, raised), most)
    expected = (tau / (tau + variances))[:, None] * moves
    np.testing.assert_allclose(
        shrunk(moves, variances, sizes, d, most), expected, rtol=1e-9, atol=1e-300
    )


def test_large_clusters_say_more_of_how_much_moves_vary_than_small_ones() -> None:
    """10 variances in the large one, none in the small: nearly 10 together, whatever is likely."""
    moves, variances = np.array([[11.0**0.5], [0.0]]), np.ones(2)
    np.testing.assert_allclose(
        shrunk(moves, variances, np.array([999.0, 1.0]), 1, np.inf)[0] / moves[0], 9.99 / 10.99
    )
    # and the other way round: all but nothing found, so what is likely, half a variance and more
    tau = (2 * 0.01 + 8 * 1.5) / 10
    np.testing.assert_allclose(
        shrunk(moves, variances, np.array([1.0, 999.0]), 1, np.inf)[0] / moves[0], tau / (tau + 1)
    )


def test_noise_that_is_likely_is_that_of_large_clusters() -> None:
    """Nothing found: 1.5 variances of 1.001 in the mean over records, not of 501 in that over
    clusters.
    """
    variances, sizes = np.array([1.0, 1001.0]), np.array([1e6 - 1, 1.0])
    tau = 8 * 1.5 * 1.001 / 10
    found = shrunk(np.ones((2, 1)), variances, sizes, 1, np.inf).ravel()
    np.testing.assert_allclose(found, tau / (tau + variances))


def test_one_long_move_is_believed_though_less_was_likely() -> None:
    """50 variances in a single coordinate: raising tau must never lower it."""
    np.testing.assert_allclose(
        shrunk(np.full((1, 1), 51.0**0.5), np.ones(1), np.ones(1), 1, np.inf), 51**0.5 * 50 / 51
    )


def test_long_moves_stay_and_short_ones_are_made_in_part_as_far_as_noise_lets_tell() -> None:
    moves = np.array([[3.0, 4.0], [-4.0, 3.0]])
    np.testing.assert_allclose(shrunk(moves, np.full(2, 1e-12), np.ones(2), 2, np.inf), moves)
    # no longer than their noise: 8 coordinates of 1.5 variances each beside 4 of nothing make tau
    # one variance
    np.testing.assert_allclose(shrunk(moves, np.full(2, 12.5), np.ones(2), 2, np.inf), moves / 2)


@pytest.mark.parametrize("moves", [1.0, 1e3])
def test_in_noise_beyond_all_offsets_nothing_moves(moves: float) -> None:
    """However the noise fell: tau is no larger than an offset's mean square."""
    found = shrunk(
        moves * np.array([[3.0, 4.0], [-4.0, 3.0]]), np.full(2, 1e6), np.ones(2), 2, 1e-3
    )
    assert (np.abs(found) <= moves * 4 * 1e-9).all()


def test_many_moves_decide_alone() -> None:
    """Of 10,000 coordinates without any move: 8 more of them hardly count."""
    moves = np.sqrt(0.5) * np.ones((100, 100))
    assert np.abs(shrunk(moves, np.ones(100), np.ones(100), 100, np.inf)).max() < 2e-3


def test_the_noisier_of_two_moves_is_shrunk_more() -> None:
    moves = np.array([[3.0], [3.0]])
    found = shrunk(moves, np.array([0.5, 5.0]), np.ones(2), 1, np.inf).ravel()
    assert 0 < found[1] < found[0] < 3


@pytest.mark.parametrize("k", [1, 3])
def test_no_dimensions_no_moves(k: int) -> None:
    np.testing.assert_array_equal(
        shrunk(np.ones((k, 2)), np.ones(k), np.ones(k), 0, np.inf), np.zeros((k, 2))
    )
