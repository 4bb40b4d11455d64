"""Draws follow from a seed and a label alone. All seeds here are fixed, so that every run sees the
same numbers.
"""

import numpy as np

from fastlloyd.base.randomness import Draws, PublicSeed, PublicStream

N = 100_000
LABEL = b"fastlloyd/v1/test-of-draws"


def _draws(text: str) -> Draws:
    return Draws(PublicSeed.from_text(text), LABEL)


def test_the_same_seed_and_label_give_the_same_numbers_and_others_others() -> None:
    first, again = _draws("a"), _draws("a")
    others = _draws("b"), Draws(PublicSeed.from_text("a"), LABEL + b"2")
    for _ in range(2):
        numbers = first.normal((3, 2))
        assert np.array_equal(numbers, again.normal((3, 2)))
        assert not any(np.isin(numbers, other.normal((3, 2))).any() for other in others)


def test_numbers_are_made_of_the_words_of_the_public_stream() -> None:
    words = PublicStream(PublicSeed.from_text("a"), LABEL).words(5)
    assert _draws("a").uniform(0.0, 1.0, (5,)).tolist() == [
        (2 * (int(word) >> 12) + 1) / 2**53 for word in words
    ]


def test_uniform_numbers_fill_their_range_evenly() -> None:
    numbers = _draws("uniform").uniform(-3.0, 5.0, (N,))
    counts, _ = np.histogram(numbers, bins=20, range=(-3.0, 5.0))
    assert counts.sum() == N  # none outside
    assert (
        ((counts - N / 20) ** 2) / (N / 20)
    ).sum() < 80  # chi-square of 19 degrees: larger with probability 1e-9


def test_uniform_numbers_of_a_box_stay_between_its_corners_axis_by_axis() -> None:
    low, high = np.array([-3.0, 0.0, 7.0]), np.array([5.0, 1.0, 7.0])
    points = _draws("box").uniform(low, high, (100, 3))
    assert np.array_equal(points, low + (high - low) * _draws("box").uniform(0.0, 1.0, (100, 3)))
    assert (points >= low).all()
    assert (points <= high).all()


def test_normal_numbers_have_the_moments_of_the_normal_law() -> None:
    numbers = _draws("normal").normal((N,))
    # mean, variance, third and fourth moment within six standard errors; a deviation of 4 % would
    # be seen
    for power, expected, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs((numbers**power).mean() - expected) < 6 * np.sqrt(variance / N)


def test_integers_include_both_ends_and_a_permutation_holds_every_number_once() -> None:
    assert set(_draws("integers").integers(3, 6, (200,))) == {3, 4, 5, 6}
    order = _draws("order").permutation(1000)
    assert np.array_equal(np.sort(order), np.arange(1000))
    assert (order != np.arange(1000)).mean() > 0.9


def test_rotations_are_orthogonal_and_of_both_orientations() -> None:
    draws = _draws("rotation")
    large = draws.rotation(40)
    assert np.allclose(large @ large.T, np.eye(40), atol=1e-13)
    signs = [np.linalg.det(draws.rotation(2)) for _ in range(400)]
    assert 120 < (np.array(signs) > 0).sum() < 280  # eight standard deviations around the half


def test_where_an_axis_of_a_rotation_points_is_uniform_on_the_circle() -> None:
    draws = _draws("angles")
    angles = [np.arctan2(*draws.rotation(2)[:, 1]) for _ in range(4000)]
    counts, _ = np.histogram(angles, bins=8, range=(-np.pi, np.pi))
    assert (
        ((counts - 500) ** 2) / 500
    ).sum() < 55  # chi-square of 7 degrees: larger with probability 1e-9
