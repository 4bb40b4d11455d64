"""Weights of candidates: the nearest possible histogram, the largest entries, and votes shrunk
towards what was expected.
"""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from fastlloyd.base.arrays import FloatArray
from fastlloyd.mechanisms.moment_lloyd.start import (
    SURE,
    largest,
    outstanding,
    projection,
    shrunk,
    weights,
)
from fastlloyd.mechanisms.moment_lloyd.state import Noisy

H = arrays.arrays(np.float64, st.integers(1, 12), elements=st.floats(-1e4, 1e4))
N = st.floats(1.0, 1e4)
HOSTILE = arrays.arrays(
    np.float64,
    st.integers(1, 12),
    elements=st.sampled_from([0.0, 1.0, -1.0, 2.0**40, -(2.0**40), 2.0**62, -(2.0**62)]),
)


def by_bisection(h: FloatArray, n: float) -> FloatArray:
    """The same projection by another route: max(h - t, 0) with the t at which it sums up to n."""
    low, high = h.min() - n, h.max()
    for _ in range(60):
        t = (low + high) / 2
        low, high = (t, high) if np.maximum(h - t, 0).sum() > n else (low, t)
    return np.asarray(np.maximum(h - high, 0))


@settings(max_examples=40)
@given(H, N)
def test_the_projection_is_possible_and_no_possible_histogram_is_nearer(
    h: FloatArray, n: float
) -> None:
    w = projection(h, n)
    assert (w >= 0).all()
    np.testing.assert_allclose(w.sum(), n, rtol=1e-9)
    np.testing.assert_allclose(w, by_bisection(h, n), atol=1e-6)
    # the optimality condition: <h - w, v - w> <= 0 for every vertex v of the possible histograms
    assert ((h - w) @ w >= n * (h - w).max() - 1e-6 * n * (1 + np.abs(h).max())).all()


@settings(max_examples=40)
@given(H, N)
def test_the_largest_entries_are_kept_until_they_sum_up_to_n(h: FloatArray, n: float) -> None:
    w = largest(h, n)
    positive = np.maximum(h, 0)
    assert ((w >= 0) & (w <= positive)).all()
    np.testing.assert_allclose(w.sum(), min(n, positive.sum()), rtol=1e-9, atol=1e-9)
    kept, dropped = h[w > 0], positive[w < positive]
    assert not len(kept) or not len(dropped) or dropped.max() <= kept.min()
    assert ((w > 0) & (w < positive)).sum() <= 1


@settings(max_examples=40)
@given(H, st.floats(0.1, 1e3))
def test_shrunk_votes_lie_between_the_votes_and_what_was_expected(
    h: FloatArray, deviation: float
) -> None:
    expected = np.full(len(h), 3.0)
    moved, factor = shrunk(Noisy(h[:, None], deviation), expected)
    assert 0 <= factor <= 1
    np.testing.assert_allclose(moved, (1 - factor) * expected + factor * h, atol=1e-9)


def test_votes_without_noise_are_believed_and_votes_of_noise_are_not() -> None:
    h, expected = np.array([[90.0], [10.0], [0.0], [0.0]]), np.full(4, 25.0)
    np.testing.assert_array_equal(weights(Noisy(h, 1e-9), expected, 100.0), h.ravel())
    np.testing.assert_allclose(weights(Noisy(h, 1e6), expected, 100.0), expected)


@settings(max_examples=40)
@given(HOSTILE, N)
def test_weights_of_any_votes_are_finite_and_none_is_negative(h: FloatArray, n: float) -> None:
    for deviation in (1e-3, 1.0, 1e12):
        w = weights(Noisy(h[:, None], deviation), np.full(len(h), n / len(h)), n)
        assert np.isfinite(w).all()
        assert (w >= 0).all()


@settings(max_examples=40)
@given(HOSTILE, N, st.floats(0.1, 1e3))
def test_outstanding_votes_are_kept_up_to_half_of_all_and_the_others_are_nothing(
    h: FloatArray, n: float, deviation: float
) -> None:
    w = outstanding(Noisy(h[:, None], deviation), n)
    high = h > SURE * deviation
    assert not w[~high].any()
    np.testing.assert_allclose(w.sum(), min(n / 2, h[high].sum()), rtol=1e-9)
    np.testing.assert_allclose(w[high] * h[high].sum(), h[high] * w.sum(), rtol=1e-9)
