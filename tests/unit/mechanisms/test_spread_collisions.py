"""Different rows of a person with one hash: plain arithmetic under a public key lets anyone make
them, and many move shares.
"""

from unittest import mock

import numpy as np

from fastlloyd.base.arrays import IntArray
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.mechanisms import spread
from fastlloyd.mechanisms.spread import Words, person_hashes, row_hashes, shares_of, spread_key
from people import mixed

KEY = spread_key(PublicSeed.from_int(1))
PERSON = person_hashes([b"patient-1"], KEY)
# found among 2**24 rows; one more such pair behind it, and another, and 2**n rows of 3 n features
# have one hash
MADE = np.array([[8259, 12465, 0], [10399, 47805, 48061]])


def by_plain_arithmetic(row: list[int]) -> int:
    """SplitMix64's finaliser after each word: in a chain, what was made equal stays equal."""
    state = 0
    for word in (*PERSON[0].tolist(), *row):
        state = mixed(state ^ word) if state else word
    return state


def test_rows_that_were_made_to_have_one_hash_by_plain_arithmetic_have_two() -> None:
    assert len(set(map(by_plain_arithmetic, MADE.tolist()))) == 1
    assert len(set(row_hashes(np.repeat(PERSON, 2, axis=0), MADE).tolist())) == 2


def most_moved(m: int, bits: int, n_alike: int) -> int:
    """How many shares move at most if one of m rows is taken away, each of which has its hash in
    common with so many.
    """

    def alike(_persons: Words, X: IntArray) -> Words:
        return np.random.default_rng(bits).permutation(m).astype(np.uint64)[
            X[:, 0] // n_alike
        ] << np.uint64(40)

    def found(X: IntArray) -> IntArray:
        return shares_of([b"patient-1"] * len(X), X, KEY, bits)[0].astype(np.int64)

    X = np.arange(m)[:, None]
    with mock.patch.object(spread, "row_hashes", alike):
        before = found(X)
        after = (np.insert(found(np.delete(X, gone, axis=0)), gone, 0) for gone in range(m))
        return max(int(np.maximum(before - each, 0).sum()) for each in after)


def test_pairs_of_rows_with_one_hash_move_no_more_than_a_row_has() -> None:
    for bits in (1, 3, 5):
        for m in (2, 3, 7, 30, 100):
            assert most_moved(m, bits, 2) <= -(-(1 << bits) // m)


def test_many_rows_with_one_hash_would_move_most_shares() -> None:
    assert most_moved(100, 5, 100) > 16
