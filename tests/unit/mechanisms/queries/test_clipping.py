"""Clipping: what stays, what is shortened, and the ends of the range."""

import math

import numpy as np
import pytest

import query_reference as reference
from fastlloyd.errors import PlanError
from fastlloyd.mechanisms.queries import clipping


@pytest.mark.parametrize("units", [1, 3, 0, -2, 2**16 + 2, 4.0, True])
def test_an_integer_radius_that_is_odd_or_out_of_range_is_refused(units: int) -> None:
    with pytest.raises(PlanError, match=r"even.*2 to 65536"):
        clipping.check_units(units)


def test_a_vector_within_the_radius_is_only_normalised() -> None:
    Z = np.array([[3.0, -4.0], [0.0, 0.0], [5.0, 0.0], [0.0, -1.0]])
    assert clipping.clip(Z.copy(), 5, 10).tolist() == [[6, -8], [0, 0], [10, 0], [0, -2]]
    assert clipping.clipped_lengths(Z, 5, 10).tolist() == [10, 0, 10, 2]


def test_a_longer_vector_keeps_its_direction_and_gets_the_length_of_the_radius() -> None:
    assert clipping.clip(np.array([[30.0, -40.0]]), 5, 10).tolist() == [[6, -8]]
    clipped = clipping.clip(np.array([[-(2.0**25), 2.0**25]]), 1, 2**16)
    assert clipped.tolist() == [[-46340, 46340]]  # 2**16 / sqrt(2) = 46340.95
    assert clipping.clipped_lengths(np.array([[-(2.0**25), 2.0**25]]), 1, 2**16).tolist() == [2**16]


def test_rounding_goes_towards_zero_on_both_sides() -> None:
    assert clipping.clip(np.array([[7.0, -7.0, 1.0, -1.0]]), 100, 30).tolist() == [[2, -2, 0, 0]]


@pytest.mark.parametrize("d", [1, 2, 3, 784])
@pytest.mark.parametrize("radius", [1, 2, 65_537, 2**26])
def test_the_longest_vectors_of_the_range_become_what_the_reference_says(
    d: int, radius: int
) -> None:
    most = math.isqrt((2**53 - 1) // d)  # d coordinates of it are just below 2**53
    generator = np.random.default_rng(d)
    Z = np.array(
        [
            [most] * d,
            [-most] * d,
            [most - j % 2 for j in range(d)],
            [0] * d,
            [most] + [0] * (d - 1),
            [1] * d,
        ]
    )
    Z = np.vstack([Z, generator.integers(-most, most + 1, (3, d))])
    for units in (2, 2**16):
        expected = [reference.clip(z, radius, units) for z in Z.tolist()]
        assert clipping.clip(Z.astype(np.float64), radius, units).tolist() == expected
        assert max(sum(v * v for v in z) for z in expected) <= units**2
        lengths = [reference.clipped_length(z, radius, units) for z in Z.tolist()]
        assert clipping.clipped_lengths(Z.astype(np.float64), radius, units).tolist() == lengths


def test_little_is_lost_by_rounding_the_norm_up() -> None:
    # 1 / |z| of the length at most, and one unit per coordinate
    generator = np.random.default_rng(2)
    Z = generator.integers(-1000, 1001, (500, 4)).astype(np.float64)
    norms = np.linalg.norm(Z, axis=1)
    shrunk = np.linalg.norm(clipping.clip(Z.copy(), 1, 2**16), axis=1) / 2**16
    assert (shrunk >= 1 - 1 / norms - 2 / 2**16).all()
