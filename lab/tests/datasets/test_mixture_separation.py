"""Tests of the separation index: cases computed by hand, invariances, and a proof for each case
that the best direction is best.
"""

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastlloyd.errors import DataError
from fastlloyd_lab.datasets.mixture import Z, touching_radius
from separation_index import (
    best_direction,
    nearest_separations,
    sample_separations,
    separation,
    separation_along,
    separations,
)

FloatArray = npt.NDArray[np.float64]
SEEDS = st.integers(0, 2**32 - 1)


def clusters(seed: int, k: int = 2, d: int = 3) -> tuple[FloatArray, FloatArray]:
    """Return means (k, d) and positive definite covariances (k, d, d), with condition numbers up to
    some hundreds.
    """
    rng = np.random.default_rng(seed)
    roots = rng.normal(size=(k, d, d))
    return rng.normal(size=(k, d)) * 5, roots @ roots.transpose(0, 2, 1) + 0.1 * np.eye(d)


@pytest.mark.parametrize(("gap", "expected"), [(4, 0.01011020), (6, 0.2096862), (8, 0.34229)])
def test_two_normal_laws_of_variance_one_have_the_indices_that_are_quoted_for_them(
    gap: float, expected: float
) -> None:
    """Qiu and Joe call distances of 4, 6 and 8 standard deviations close, separated and well
    separated.
    """
    one = np.eye(1)
    assert separation(np.array([gap]), one, one) == pytest.approx(expected, abs=5e-7)


def test_spherical_clusters_are_separated_most_along_the_line_through_their_means() -> None:
    difference = np.array([3.0, 4.0, 12.0])  # of length 13
    first, second = 4.0 * np.eye(3), 0.25 * np.eye(3)
    expected = (13 - 2.5 * Z) / (13 + 2.5 * Z)
    assert separation(difference, first, second) == pytest.approx(expected, abs=1e-14)
    assert np.allclose(np.cross(best_direction(difference, first, second), difference), 0)


def test_of_proportional_covariances_the_best_direction_is_fishers() -> None:
    _, (shape, _) = clusters(1)
    difference = np.array([1.0, -2.0, 7.0])
    mahalanobis = math.sqrt(difference @ np.linalg.solve(shape, difference))
    # in the units of the shape both are spherical, with deviations 1 and 3
    expected = (mahalanobis - 4 * Z) / (mahalanobis + 4 * Z)
    assert separation(difference, shape, 9 * shape) == pytest.approx(expected, abs=1e-13)


@given(SEEDS)
def test_at_the_touching_radius_the_two_ellipsoids_share_a_point_and_a_tangent(seed: int) -> None:
    """This proves that the direction is best: if the ellipsoids share a tangent plane, no other
    direction separates the clusters more.
    """
    (m1, m2), (s1, s2) = clusters(seed)
    a = best_direction(m2 - m1, s1, s2)
    radius = touching_radius(separation(m2 - m1, s1, s2))
    # where the first has the normal a, and the second -a
    of_first = m1 + radius * s1 @ a / math.sqrt(a @ s1 @ a)
    of_second = m2 - radius * s2 @ a / math.sqrt(a @ s2 @ a)
    assert np.allclose(of_first, of_second, rtol=0, atol=1e-6 * np.linalg.norm(m2 - m1))


@given(SEEDS)
def test_no_random_direction_separates_more_than_the_best(seed: int) -> None:
    (m1, m2), (s1, s2) = clusters(seed)
    best = separation(m2 - m1, s1, s2)
    directions = np.random.default_rng(seed).normal(size=(200, 3))
    assert max(separation_along(a, m2 - m1, s1, s2) for a in directions) <= best + 1e-12


@given(SEEDS)
def test_the_separation_is_that_of_affine_geometry(seed: int) -> None:
    """The separation does not change under shifts, scales, rotations and other invertible linear
    maps, or if the two clusters are swapped.
    """
    (m1, m2), (s1, s2) = clusters(seed)
    expected = separation(m2 - m1, s1, s2)
    (shift, _), (spd, _) = clusters(seed + 1)
    for matrix in (np.eye(3), 7.5 * np.eye(3), np.linalg.qr(spd)[0], spd):
        image = matrix @ (m2 + shift) - matrix @ (m1 + shift)
        assert separation(image, matrix @ s1 @ matrix.T, matrix @ s2 @ matrix.T) == pytest.approx(
            expected, abs=1e-7
        )
    assert separation(m1 - m2, s2, s1) == pytest.approx(expected, abs=1e-9)


def test_separation_grows_with_distance_and_falls_with_width() -> None:
    (m1, m2), (s1, s2) = clusters(3)
    by_distance = [separation(factor * (m2 - m1), s1, s2) for factor in (0.0, 0.1, 1.0, 10.0, 1e6)]
    assert by_distance[0] == -1
    assert (np.diff(by_distance) > 0).all()
    assert by_distance[-1] < 1
    assert (np.diff([separation(m2 - m1, width * s1, s2) for width in (0.1, 1.0, 10.0)]) < 0).all()


def test_the_nearest_neighbour_is_the_one_separated_least() -> None:
    line = np.array([[0.0, 0.0], [6.0, 0.0], [14.0, 0.0]])
    unit = np.broadcast_to(np.eye(2), (3, 2, 2))
    matrix = separations(line, unit)
    assert np.array_equal(matrix, matrix.T)
    assert np.array_equal(np.diag(matrix), [1, 1, 1])
    near, far = ((gap - 2 * Z) / (gap + 2 * Z) for gap in (6, 8))
    assert nearest_separations(line, unit) == pytest.approx([near, near, far], abs=1e-14)


def test_of_records_means_and_covariances_are_measured_and_outliers_left_out() -> None:
    # corners of squares: covariance (4/3) h^2 I with half width h
    corners = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    records = np.concatenate([corners, 2 * corners + [20.0, 0.0], [[1000.0, 1000.0]]])
    labels = np.array([0] * 4 + [1] * 4 + [-1])
    widths = 3 * math.sqrt(4 / 3) * Z
    assert sample_separations(records, labels) == pytest.approx(
        [(20 - widths) / (20 + widths)] * 2, abs=1e-12
    )


@pytest.mark.parametrize("labels", [[0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 2, 2], [-1, -1, -1, -1]])
def test_too_few_records_to_measure_are_refused(labels: list[int]) -> None:
    with pytest.raises(DataError, match=r"more clusters.*than 2"):
        sample_separations(np.arange(8.0).reshape(4, 2) ** 2, np.array(labels))


def test_a_covariance_that_is_none_is_refused() -> None:
    with pytest.raises(DataError, match="not positive definite"):
        separation(np.array([1.0, 1.0]), np.diag([1.0, -1.0]), np.eye(2))
