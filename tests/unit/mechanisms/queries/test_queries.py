"""Queries answer what the reference computes, on the grid of the plan, and their sensitivities are
the stated integers.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastlloyd.base.arrays import IntArray
from fastlloyd.clustering import reference
from fastlloyd.clustering.domain import Domain, Scaling
from fastlloyd.mechanisms.queries.relative import ClippedLoss, Moments
from lloyd_queries import Bounds, cube, moments, sensitivity


def arrays(seed: int, n: int, k: int, d: int) -> tuple[IntArray, IntArray]:
    generator = np.random.default_rng(seed)
    return generator.integers(-(2**16), 2**16, (n, d)), generator.integers(-(2**16), 2**16, (k, d))


@given(
    st.integers(0, 2**32),
    st.integers(0, 30),
    st.integers(1, 5),
    st.integers(1, 5),
    st.integers(0, 32),
    st.integers(0, 2**35),
)
def test_relative_moments_are_the_offsets_and_scaled_counts_of_the_reference(
    seed: int, n: int, k: int, d: int, count_bits: int, squared_radius: int
) -> None:
    X, centroids = arrays(seed, n, k, d)
    answer = moments(centroids, squared_radius, count_bits).evaluate(X)
    sums, counts = reference.cluster_statistics(X, centroids, squared_radius)
    assert answer.dtype == np.int64
    assert answer.shape == (k, d + 1)
    assert np.array_equal(answer[:, :-1], sums)
    assert answer[:, -1].tolist() == [c * 2**count_bits for c in counts.tolist()]


@given(
    st.integers(0, 2**32),
    st.integers(0, 30),
    st.integers(1, 5),
    st.integers(1, 5),
    st.integers(0, 32),
)
def test_moments_are_the_sums_of_the_records_themselves(
    seed: int, n: int, k: int, d: int, count_bits: int
) -> None:
    X, centroids = arrays(seed, n, k, d)
    answer = moments(centroids, None, count_bits).evaluate(X)
    squared = ((X[:, None, :] - centroids) ** 2).sum(axis=2)
    labels = squared.argmin(axis=1)
    for j in range(k):
        assert answer[j, :-1].tolist() == X[labels == j].sum(axis=0).tolist()
        assert int(answer[j, -1]) == int((labels == j).sum()) << count_bits


def test_with_a_radius_that_covers_everything_the_two_queries_differ_by_the_centroids_only() -> (
    None
):
    X, centroids = arrays(0, 200, 4, 3)
    relative, absolute = moments(centroids, 2**52).evaluate(X), moments(centroids, None).evaluate(X)
    assert np.array_equal(relative[:, -1], absolute[:, -1])
    assert np.array_equal(relative[:, :-1] + relative[:, -1:] * centroids, absolute[:, :-1])


@given(st.integers(1, 1024), st.integers(0, 2**53), st.integers(0, 32))
def test_sensitivity_with_a_radius_is_the_radius_in_three_norms(
    d: int, squared_radius: int, count_bits: int
) -> None:
    s = sensitivity(cube(d, 8), squared_radius, count_bits)
    assert s.squared_l2 == squared_radius
    assert s.coordinate**2 <= squared_radius < (s.coordinate + 1) ** 2
    assert s.l1**2 <= d * squared_radius < (s.l1 + 1) ** 2
    assert s.count == 2**count_bits
    # the norms stand in their order
    assert s.coordinate <= math.isqrt(s.squared_l2) <= s.l1


@pytest.mark.parametrize(("d", "q"), [(1, 25), (2, 16), (64, 16), (1024, 16)])
def test_sensitivity_without_a_radius_is_the_corner_of_the_box(d: int, q: int) -> None:
    B = 2**q
    assert sensitivity(cube(d, q), None, 3) == Bounds(
        squared_l2=d * B**2, l1=d * B, coordinate=B, count=8
    )


@pytest.mark.parametrize("squared_radius", [None, 10])
def test_a_replacement_moves_the_sums_of_one_row_twice_or_two_rows_once(
    squared_radius: int | None,
) -> None:
    several, alone = (
        Moments(
            domain=cube(2), n_clusters=k, squared_radius=squared_radius, count_bits=3
        ).sensitivity
        for k in (2, 1)
    )
    S, l1 = several.added[0][0], several.l1_added[0]
    assert several.added == alone.added == ((S, 8**2),)
    assert several.replaced == ((4 * S, 0), (2 * S, 2 * 8**2))
    assert alone.replaced == ((4 * S, 0),)
    assert (several.l1_added, several.l1_replaced) == ((l1, 8), (2 * l1, 16))


def test_a_replacement_moves_the_loss_no_farther_than_a_record_added() -> None:
    s = ClippedLoss(domain=cube(2), n_clusters=2, cap=7, shift=3).sensitivity
    assert (s.entries, s.added, s.replaced, s.l1_added, s.l1_replaced) == (
        (7,),
        ((49,),),
        ((49,),),
        (7,),
        (7,),
    )


def test_common_scaling_narrows_the_box_and_with_it_the_sensitivity() -> None:
    box = Domain(
        features=("a", "b"),
        lower=(0.0, 0.0),
        upper=(16.0, 2.0),
        scaling=Scaling.COMMON,
        fraction_bits=10,
    )
    assert sensitivity(box, None, 0) == Bounds(1024**2 + 128**2, 1024 + 128, 1024, 1)
    assert Fraction(box.squared_half_diagonal, 4**10) == 1 + Fraction(1, 64)


def test_w26_a_count_of_48842_is_that_count() -> None:
    # scaled by 2**16 into 32 bits, 32,768 became -32,768 and 48,842 became -16,694
    X = np.zeros((48_842, 1), dtype=np.int64)
    for squared_radius in (1, None):
        assert moments(np.zeros((1, 1), dtype=np.int64), squared_radius).evaluate(X).tolist() == [
            [0, 48_842]
        ]
    assert moments(np.zeros((1, 1), dtype=np.int64), 1, 16).evaluate(X)[0, 1] == 48_842 * 2**16
