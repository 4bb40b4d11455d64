"""Greedy k-means++. All draws are fixed."""

import numpy as np
import pytest

from fastlloyd.base.randomness import Draws, PublicSeed
from fastlloyd.clustering.public_kmeans import _drawn, first_centroids, n_trials


def _draws(number: int) -> Draws:
    return Draws(PublicSeed.from_int(number), b"fastlloyd/v1/test-of-plus-plus")


def test_as_many_points_are_tried_as_in_scikit_learn() -> None:
    assert [n_trials(k) for k in (1, 2, 3, 7, 8, 20, 21, 100, 400)] == [2, 2, 3, 3, 4, 4, 5, 6, 7]


def test_a_uniform_number_falls_on_the_index_whose_share_it_is_in() -> None:
    masses = np.array([[1.0, 0.0, 2.0, 1.0], [0.0, 4.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    uniform = np.array([[0.1, 0.25, 0.7, 0.8]] * 3)
    assert _drawn(masses, uniform).tolist() == [[0, 2, 2, 3], [1, 1, 1, 1], [3, 3, 3, 3]]


def test_the_first_centroid_is_drawn_by_weight() -> None:
    points, weights = np.arange(4.0)[:, None], np.array([1.0, 2.0, 3.0, 4.0])
    counts = np.bincount(
        first_centroids(points, weights, 1, _draws(1), 5000)[:, 0, 0].astype(int), minlength=4
    )
    expected = 500 * weights
    assert (
        (counts - expected) ** 2 / expected
    ).sum() < 45  # chi-square of 3 degrees: larger with probability 1e-9


def test_the_second_centroid_is_the_better_of_two_drawn_by_weight_times_squared_distance() -> None:
    # The first is 0, which has nearly all weight. Masses of the others are then 4, 9 and 49; with 1
    # a loss of 4 + 36 is left, with 3 one of 4 + 16, with 7 one of 4 + 9. So 7 is kept if one of
    # two is 7, and 1 only if both are 1.
    points, weights = np.array([0.0, 1.0, 3.0, 7.0])[:, None], np.array([1e9, 4.0, 1.0, 1.0])
    p1, p3 = 4 / 62, 9 / 62
    expected = 5000 * np.array([p1**2, (p1 + p3) ** 2 - p1**2, 1 - (p1 + p3) ** 2])
    seconds = first_centroids(points, weights, 2, _draws(2), 5000)[:, 1, 0]
    counts = (seconds[:, None] == [1.0, 3.0, 7.0]).sum(axis=0)
    assert counts.sum() == 5000
    assert (
        (counts - expected) ** 2 / expected
    ).sum() < 45  # chi-square of 2 degrees: larger with probability 1e-9


@pytest.mark.parametrize("n_starts", [1, 40])
def test_starts_hold_distinct_points_as_long_as_there_are_any(n_starts: int) -> None:
    points = np.repeat(_draws(3).normal((12, 3)), 2, axis=0)
    starts = first_centroids(points, np.ones(24), 15, _draws(4), n_starts)
    assert starts.shape == (n_starts, 15, 3)
    for start in starts:
        assert len(np.unique(start[:12], axis=0)) == len(np.unique(start, axis=0)) == 12
