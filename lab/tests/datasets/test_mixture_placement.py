"""Tests that each ellipsoid touches another, and none overlap, by an index that is computed in
another way.
"""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastlloyd_lab.datasets.mixture import (
    grown_size,
    place,
    simplex_grid,
    touching_radius,
    touching_size,
)
from separation_index import nearest_separations, separation


@given(st.integers(2, 40), st.integers(2, 12))
def test_the_nearest_centres_of_the_grid_are_two_apart_and_nobody_is_without_such_a_neighbour(
    k: int, d: int
) -> None:
    grid = simplex_grid(k, d)
    distances = np.linalg.norm(grid[:, None] - grid, axis=2) + np.diag(np.full(k, np.inf))
    assert grid.shape == (k, d)
    assert distances.min(axis=1) == pytest.approx(np.full(k, 2.0), abs=1e-12)
    if k <= d + 1:  # a simplex
        assert distances[np.triu_indices(k, 1)] == pytest.approx(
            np.full(k * (k - 1) // 2, 2.0), abs=1e-12
        )


def test_in_the_plane_the_grid_is_a_strip_of_triangles() -> None:
    height = np.sqrt(3)
    assert simplex_grid(6, 2) == pytest.approx(
        np.array([[-1, 0], [1, 0], [0, height], [3, 0], [2, height], [5, 0]], dtype=float),
        abs=1e-14,
    )


def shapes(seed: int, k: int, d: int, condition: float) -> npt.NDArray[np.float64]:
    rng = np.random.default_rng(seed)
    axes = np.linalg.qr(rng.normal(size=(k, d, d)))[0]
    covariances: npt.NDArray[np.float64] = (
        axes * rng.uniform(1.0, condition, (k, 1, d))
    ) @ axes.transpose(0, 2, 1)
    return covariances


@settings(max_examples=40)  # each measures all pairs
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([(2, 2), (3, 2), (7, 3), (12, 5), (4, 9)]),
    st.floats(-0.5, 0.95),
)
def test_every_cluster_has_the_asked_separation_from_its_nearest_neighbour(
    seed: int, size: tuple[int, int], asked: float
) -> None:
    grid, covariances = simplex_grid(*size), shapes(seed, *size, 10.0)
    factor, sizes = place(grid, covariances, touching_radius(asked))
    nearest = nearest_separations(factor * grid, sizes[:, None, None] ** 2 * covariances)
    assert nearest == pytest.approx(np.full(size[0], asked), abs=1e-9)
    assert sizes.min() == 1  # the two that touched first; nobody shrinks


@given(st.integers(0, 2**32 - 1), st.floats(1.0, 5.0))
def test_the_size_found_by_steps_is_the_one_the_index_has_also_for_needles_that_cross(
    seed: int, second_size: float
) -> None:
    first, second = np.diag([1.0, 100.0]), np.diag([100.0, 1.0])
    difference = np.random.default_rng(seed).normal(size=2)
    radius = touching_size(difference, first, second, difference)
    assert radius == pytest.approx(touching_radius(separation(difference, first, second)), rel=1e-9)
    # now the second is larger, and they stand so far apart that they do not overlap yet
    apart = 1.5 * second_size / radius * difference
    grown = grown_size(apart, first, second, second_size, difference)
    assert grown > 1
    assert touching_radius(
        separation(apart, grown**2 * first, second_size**2 * second)
    ) == pytest.approx(1, rel=1e-9)
