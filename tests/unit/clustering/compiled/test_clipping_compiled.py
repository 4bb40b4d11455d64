"""Compiled clipping multiplies where the definition divides: the same integers, at their hardest
too.
"""

import math

import numpy as np
import pytest

import query_reference as reference
from clipping_cases import LONGEST, compiled, hardest, multiplied
from fastlloyd.base import compiling
from fastlloyd.base.arrays import IntArray
from fastlloyd.mechanisms.queries import clipping, nearest

numba = pytest.importorskip("numba")

UNITS = [2, 6, 2**13, 2**16 - 2, 2**16]


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    assert compiling.is_compiled(1 << 40)


def many_lengths() -> IntArray:
    """The least ones, the greatest ones, those beside powers of two, and some between."""
    powers = 2 ** np.arange(2, 27)
    ends = np.concatenate([np.arange(1, 400), LONGEST - np.arange(400)])
    return np.concatenate(
        [ends, powers - 1, powers, powers + 1, np.random.default_rng(0).integers(1, LONGEST, 500)]
    )


@pytest.mark.parametrize("units", UNITS)
def test_coordinates_next_to_an_integer_are_rounded_as_the_definition_says(units: int) -> None:
    Z = hardest(many_lengths(), units, np.random.default_rng(units))
    found = compiled(Z, 1, units).tolist()
    assert found == [reference.clip(z, 1, units) for z in Z.tolist()]
    assert found == clipping.clip(Z.astype(np.float64), 1, units).tolist()


def test_a_factor_that_is_not_too_large_or_far_too_large_would_be_found_out() -> None:
    Z = hardest(many_lengths(), 2**16, np.random.default_rng(0))
    right = clipping.clip(Z.astype(np.float64), 1, 2**16)
    wrong = {
        slack: int((multiplied(Z, 2**16, slack) != right).sum())
        for slack in (0.0, 2.0**-48, 2.0**-40)
    }
    assert wrong[2.0**-48] == 0
    assert wrong[0.0] > 100  # integers that a quotient rounded down misses
    assert wrong[2.0**-40] > 100


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 7, 16, 784])
@pytest.mark.parametrize("radius", [1, 2, 65_537, 2**26, 2**27])
def test_vectors_of_the_whole_range_become_what_the_definition_says(d: int, radius: int) -> None:
    generator = np.random.default_rng(d)
    most = math.isqrt((2**53 - 1) // d)
    n = 1100 if d < 784 else 40
    Z = generator.integers(-most, most, (n, d), endpoint=True) // 2 ** generator.integers(
        0, 27, (n, 1)
    )
    Z[:3] = [[most], [-most], [0]]
    for units in (2, 2**13, 2**16):
        assert np.array_equal(
            compiled(Z, radius, units), clipping.clip(Z.astype(np.float64), radius, units)
        )


def test_sums_beyond_32_bits_are_exact() -> None:
    n = 70_000  # each 2**16 long
    X, labels = np.full((n, 2), [2**15, 0]), np.arange(n, dtype=np.int32) % 2
    found = nearest._compiled_sums(X, labels, np.zeros((2, 2), dtype=np.int64), 1, 2**16)
    assert found.tolist() == [[n // 2 * 2**16, 0, n // 2]] * 2
