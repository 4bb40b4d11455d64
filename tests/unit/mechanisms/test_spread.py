"""How a person's shares are spread over the rows: evenly, the same whatever the order of a file,
and by no value's favour.
"""

from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fastlloyd.base.arrays import IntArray
from fastlloyd.mechanisms import spread
from fastlloyd.mechanisms.spread import Words, shares_of, spread_evenly
from people import KEY, expected_shares

SEEDS = st.integers(0, 2**63)


def some_rows(seed: int, most: int = 60) -> tuple[list[bytes], IntArray]:
    """Ids and rows of a few persons, in any order, many of them alike; at most so many rows
    each.
    """
    generator = np.random.default_rng(seed)
    sizes = generator.integers(1, most, generator.integers(1, 6))
    ids = [b"%d" % person for person, n in enumerate(sizes.tolist()) for _ in range(n)]
    X = generator.integers(-2, 3, (len(ids), int(generator.integers(1, 4))))
    order = generator.permutation(len(ids))
    return [ids[i] for i in order], X[order]


@settings(max_examples=100)
@given(SEEDS, st.integers(1, 6))
def test_a_person_gives_all_shares_and_no_row_more_than_one_above_another(
    seed: int, bits: int
) -> None:
    ids, X = some_rows(seed)
    shares, n = shares_of(ids, X, KEY, bits)
    assert shares.dtype == np.uint16
    assert n == len(set(ids))
    assert shares.tolist() == expected_shares(ids, X, KEY, bits)
    for person in set(ids):
        mine = shares[[each == person for each in ids]]
        assert mine.sum() == 1 << bits
        assert int(mine.max()) - int(mine.min()) <= 1


def is_a_function_of_each_multiset(seed: int, bits: int) -> bool:
    """Whether rows keep their shares, but for equal rows, in another order and without the other
    persons.
    """
    ids, X = some_rows(seed)

    def found(order: Sequence[int]) -> list[tuple[bytes, list[int], int]]:
        shares, _ = shares_of([ids[i] for i in order], X[list(order)], KEY, bits)
        return sorted(
            (ids[i], X[i].tolist(), share) for i, share in zip(order, shares.tolist(), strict=True)
        )

    whole, alone = found(range(len(ids))), [i for i, person in enumerate(ids) if person == ids[0]]
    shuffled = np.random.default_rng(seed).permutation(len(ids)).tolist()
    return found(shuffled) == whole and found(alone) == [row for row in whole if row[0] == ids[0]]


@settings(max_examples=60)
@given(SEEDS, st.integers(1, 6))
def test_shares_do_not_depend_on_the_order_of_a_file_nor_on_others_in_it(
    seed: int, bits: int
) -> None:
    assert is_a_function_of_each_multiset(seed, bits)


def keeps_the_others(seed: int, bits: int) -> bool:
    """Whether a row that is taken away from a person of different rows lowers no other, and moves
    no more than its shares.
    """
    generator = np.random.default_rng(seed)
    m = int(generator.integers(2, 3 << bits))
    X, gone, ids = generator.permutation(m)[:, None], int(generator.integers(m)), [b"somebody"] * m
    before, _ = shares_of(ids, X, KEY, bits)
    after, _ = shares_of(ids[1:], np.delete(X, gone, axis=0), KEY, bits)
    raised = after.astype(int) - np.delete(before, gone)
    return bool(raised.min() >= 0 and raised.sum() == before[gone] <= -(-(1 << bits) // m))


@settings(max_examples=100)
@given(SEEDS, st.integers(1, 6))
def test_a_row_taken_away_lowers_no_other_and_moves_no_more_than_its_own_shares(
    seed: int, bits: int
) -> None:
    assert keeps_the_others(seed, bits)


def parts_of_two_values(m: int, n_persons: int = 300) -> NDArray[np.float64]:
    """The part of each person's shares that the first of two values gets, which half of the m rows
    have.
    """
    ids = [b"%d" % person for person in range(n_persons) for _ in range(m)]
    X = np.tile(np.array([[-100], [100]]), (n_persons * m // 2, 1))
    shares, _ = shares_of(ids, X, KEY, 10)
    return np.asarray(shares[X[:, 0] < 0].reshape(n_persons, -1).sum(axis=1) / 1024)


def test_no_rows_are_no_persons() -> None:
    shares, n = shares_of([], np.zeros((0, 3), dtype=np.int32), KEY, 10)
    assert (shares.shape, shares.dtype, n) == ((0,), np.dtype(np.uint16), 0)


# Mistakes that these tests must notice


def by_row_number(hashes: Words, numbers: IntArray) -> Words:
    return np.arange(len(hashes), dtype=np.uint64)


def as_they_stand(persons: Words, X: IntArray) -> Words:
    return np.arange(len(X), dtype=np.uint64)


GENUINE_ROW_HASHES = spread.row_hashes


def whoever_it_is(persons: Words, X: IntArray) -> Words:
    return GENUINE_ROW_HASHES(np.zeros_like(persons), X)


def by_point(persons: Words, X: IntArray) -> Words:
    return X[:, 0].astype(np.int64).view(np.uint64) + np.uint64(1 << 40)


def by_first_hash(hashes: Words, numbers: IntArray) -> Words:
    return hashes


def cumulated(ranks: IntArray, sizes: IntArray, weight_bits: int) -> NDArray[np.uint16]:
    """floor((r + 1) W / m) - floor(r W / m), which moves many shares when a row is taken away."""
    W = 1 << weight_bits
    return np.asarray((ranks + 1) * W // sizes - ranks * W // sizes).astype(np.uint16)


def patched(name: str, wrong: Callable[..., Any]) -> Any:
    return mock.patch.object(spread, name, wrong)


def test_an_order_by_row_numbers_is_noticed() -> None:
    with (
        patched("numbered_hashes", by_row_number),
        patched("row_hashes", as_they_stand),
    ):
        assert not all(is_a_function_of_each_multiset(seed, 3) for seed in range(20))


@pytest.mark.parametrize("m", [700, 2000])
def test_an_order_by_values_alone_is_noticed(m: int) -> None:
    with patched("row_hashes", by_point), patched("numbered_hashes", by_first_hash):
        assert abs(parts_of_two_values(m, 20).mean() - 0.5) > 0.15


def test_an_order_that_is_the_same_for_everybody_is_noticed() -> None:
    with patched("row_hashes", whoever_it_is):
        parts = parts_of_two_values(2000, 20)
        assert parts.std() == 0


def test_shares_by_cumulated_quotients_are_noticed() -> None:
    assert all(keeps_the_others(seed, 5) for seed in range(40))
    with patched("spread_evenly", cumulated):
        assert not all(keeps_the_others(seed, 5) for seed in range(40))


@given(st.integers(1, 5000), st.integers(1, 15))
def test_shares_of_any_number_of_rows_add_up(m: int, bits: int) -> None:
    shares = spread_evenly(np.arange(m), np.full(m, m), bits)
    assert shares.sum() == 1 << bits
