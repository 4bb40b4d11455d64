"""Different rows of a person with one hash, which can be made as the key is public, break neither evenness nor lemma 2."""

from collections.abc import Sequence
from unittest import mock

import numpy as np
import pytest

from fastlloyd.base.arrays import IntArray
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.mechanisms import spread
from fastlloyd.mechanisms.spread import Words, person_hashes, row_hashes, shares_of, spread_key

KEY = spread_key(PublicSeed.from_int(1))
ID = b"patient-1"
MADE = np.array([[8259, 12465, 0], [10399, 47805, 48061]])  # found in 2**24 trials


def all_alike(persons: Words, X: IntArray) -> Words:
    return np.zeros(len(X), dtype=np.uint64)


def shares(X: IntArray, bits: int) -> IntArray:
    return shares_of([ID] * len(X), X, KEY, bits)[0].astype(np.int64)


def test_rows_of_one_hash_can_be_made() -> None:
    first, second = row_hashes(np.repeat(person_hashes([ID], KEY), 2, axis=0), MADE)
    assert first == second


@pytest.mark.parametrize("bits", [1, 3, 5])
def test_a_row_of_many_with_one_hash_takes_no_share_from_another_and_moves_no_more_than_its_own(bits: int) -> None:
    generator = np.random.default_rng(bits)
    with mock.patch.object(spread, "row_hashes", all_alike):
        for m in (2, 3, 30, 100):
            X = generator.permutation(m)[:, None] - m // 2
            before = shares(X, bits)
            assert before.sum() == 1 << bits
            for gone in range(m):
                raised = shares(np.delete(X, gone, axis=0), bits) - np.delete(before, gone)
                assert raised.min() >= 0
                assert raised.sum() == before[gone] <= -(-(1 << bits) // m)


def test_shares_of_rows_with_one_hash_do_not_depend_on_the_order_of_a_file() -> None:
    generator = np.random.default_rng(0)
    X = generator.integers(-2, 3, (60, 2))

    def found(order: Sequence[int]) -> list[tuple[list[int], int]]:
        return sorted(zip(X[order].tolist(), shares(X[order], 5).tolist(), strict=True))

    with mock.patch.object(spread, "row_hashes", all_alike):
        assert all(found(generator.permutation(60).tolist()) == found(range(60)) for _ in range(10))
