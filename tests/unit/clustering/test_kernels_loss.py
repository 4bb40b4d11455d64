"""The fast loss is the plain one, whatever the blocks, the order and the dtype; and the plain one
is the definition.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastlloyd.base.arrays import IntArray
from fastlloyd.clustering import reference
from fastlloyd.clustering.domain import Domain
from fastlloyd.clustering.kernels import clipped_loss


def by_definition(X: IntArray, centroids: IntArray, squared_cap: int, shift: int) -> int:
    """In Python integers, one record at a time; half up is floor(x + 1/2)."""
    total = 0
    for x in X.tolist():
        squared = min(
            sum((a - b) ** 2 for a, b in zip(x, c, strict=True)) for c in centroids.tolist()
        )
        total += (2 * min(squared, squared_cap) + 2**shift) // 2 ** (shift + 1)
    return total


@st.composite
def situations(draw: st.DrawFn) -> tuple[IntArray, IntArray, int, int]:
    """Records, centroids (coincident and saturated ones among them), a cap and a shift."""
    n, k, d = draw(st.integers(0, 40)), draw(st.integers(1, 6)), draw(st.integers(1, 40))
    box = Domain(
        features=tuple(map(str, range(d))),
        lower=(-1.0,) * d,
        upper=(1.0,) * d,
        fraction_bits=draw(st.integers(1, 16)),
    )
    B, c = 2**box.fraction_bits, box.saturation
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    X = generator.integers(-B, B, (n, d), endpoint=True)
    centroids = generator.integers(-B, B, (k, d), endpoint=True)
    centroids = np.where(
        generator.random((k, d)) < draw(st.sampled_from([0.0, 0.3, 1.0])), c, centroids
    )
    largest = 4 * box.squared_half_diagonal
    shift = draw(st.integers(0, largest.bit_length() - 1))
    return X, centroids, draw(st.integers(1, largest >> shift)) << shift, shift


@settings(max_examples=300)
@given(
    situation=situations(), block_rows=st.sampled_from([None, 1, 3, 1000]), seed=st.integers(0, 99)
)
def test_the_fast_loss_is_the_plain_one_and_the_plain_one_is_the_definition(
    situation: tuple[IntArray, IntArray, int, int], block_rows: int | None, seed: int
) -> None:
    X, centroids, squared_cap, shift = situation
    expected = by_definition(X, centroids, squared_cap, shift)
    assert reference.clipped_loss(X, centroids, squared_cap, shift) == expected
    assert clipped_loss(X, centroids, squared_cap, shift, block_rows=block_rows) == expected
    shuffled = np.random.default_rng(seed).permutation(X)
    assert clipped_loss(np.asfortranarray(shuffled), centroids, squared_cap, shift) == expected
    assert (
        clipped_loss(X.astype(np.int32), centroids, squared_cap, shift) == expected
    )  # a narrower grid


@given(situation=situations(), cut=st.integers(0, 40))
def test_the_losses_of_two_parts_add_up(
    situation: tuple[IntArray, IntArray, int, int], cut: int
) -> None:
    X, centroids, squared_cap, shift = situation
    first, second, whole = (
        clipped_loss(part, centroids, squared_cap, shift) for part in (X[:cut], X[cut:], X)
    )
    assert whole == first + second


@pytest.mark.parametrize(
    ("distance", "expected"), [(0, 0), (1, 0), (2, 1), (3, 2), (6, 9), (8, 16), (9, 16), (1000, 16)]
)
def test_a_record_counts_its_squared_distance_rounded_half_up_and_never_more_than_the_cap(
    distance: int, expected: int
) -> None:
    # units of 4 squared grid units: 1/4 -> 0, 4/4 -> 1, 9/4 -> 2; the cap is 64/4
    assert clipped_loss(np.array([[distance]]), np.array([[0]]), 64, 2) == expected


def test_half_a_unit_is_rounded_up() -> None:
    assert clipped_loss(np.array([[2, 0]]), np.array([[0, 0]]), 64, 3) == 1


def test_nobody_has_no_loss() -> None:
    assert (
        clipped_loss(np.zeros((0, 2), dtype=np.int64), np.zeros((3, 2), dtype=np.int64), 64, 2) == 0
    )
