"""Chance deals records and persons to the clients of a simulation: by a secret key and a record's
number, or by a person's own rows, and by nothing else.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from command_line import PUBLIC, Command
from dealt import words_of_records
from fastlloyd.base.arrays import IntArray
from fastlloyd.base.randomness import derive
from fastlloyd.errors import DataError, PlanError
from fastlloyd.federation.dealing import cap_of_each, deal, deal_persons
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.mechanisms.deal import RandomAssignment, counted, rows_of_each
from fastlloyd.mechanisms.persons import Persons
from fastlloyd.mechanisms.spread import person_hashes
from federation import CAP, entropy, make_plan
from people import KEY, clients_of

WORDS = st.lists(st.integers(0, 2**64 - 1), max_size=20)
FALSE_ALARM = 1e-10


@given(words=WORDS, n_clients=st.integers(1, 1000))
def test_a_record_goes_to_the_client_that_its_word_names(words: list[int], n_clients: int) -> None:
    given_words = [*words, 0, 2**64 - 1, 2**64 // n_clients - 1]
    with words_of_records(np.array(given_words, dtype=np.uint64)):
        found = RandomAssignment(n_clients).of_records(0, len(given_words))
    assert found.tolist() == [n_clients * word >> 64 for word in given_words]


@given(n=st.integers(0, 400), cuts=st.lists(st.integers(0, 400), max_size=6), key=st.text())
def test_every_pass_deals_alike_however_it_is_cut(n: int, cuts: list[int], key: str) -> None:
    dealt = RandomAssignment(7, random_bytes=entropy(key))
    ends = [0, *sorted(min(cut, n) for cut in cuts), n]
    pieces = [dealt.of_records(a, b - a) for a, b in pairwise(ends)]
    assert np.array_equal(np.concatenate(pieces), dealt.of_records(0, n))


@pytest.mark.parametrize("n_clients", [2, 7, 1000])
def test_all_clients_are_equally_likely_and_neighbours_independent(n_clients: int) -> None:
    """A million records; chi-squared, for single ones and for pairs that follow each other. A
    client that gets 2 % too many of a thousandth would be noticed in half of all tests.
    """
    found = RandomAssignment(n_clients).of_records(0, 1_000_000)
    assert _p(np.bincount(found, minlength=n_clients)) > FALSE_ALARM
    few = (found % 7).astype(np.int64)
    expected = np.bincount(np.arange(n_clients) % 7) / n_clients
    pairs = np.bincount(few[:-1:2] * 7 + few[1::2], minlength=49)
    joint = np.outer(*[np.resize(expected, 7) * (np.arange(7) < len(expected))] * 2).ravel()
    assert _p(pairs[joint > 0], joint[joint > 0]) > FALSE_ALARM


def _p(counts: NDArray[np.intp], law: NDArray[np.float64] | None = None) -> float:
    expected = None if law is None else counts.sum() * law / law.sum()
    return float(stats.chisquare(counts, expected).pvalue)


def test_each_run_draws_a_key_of_its_own_which_nothing_shows() -> None:
    drawn = list[bytes]()

    def random_bytes(n: int) -> bytes:
        drawn.append(entropy(f"{len(drawn)}")(n))
        return drawn[-1]

    one, other = RandomAssignment(5, 2, random_bytes), RandomAssignment(5, 2, random_bytes)
    assert [len(key) for key in drawn] == [32, 32]
    assert not np.array_equal(one.of_records(0, 200), other.of_records(0, 200))
    assert not np.array_equal(
        RandomAssignment(5).of_records(0, 200), RandomAssignment(5).of_records(0, 200)
    )
    assert repr(one).startswith("<fastlloyd.")
    assert not hasattr(one, "__dict__")


def test_no_record_decides_about_the_client_of_any() -> None:
    plan, X = make_plan(4), np.random.default_rng(0).integers(-100, 100, (80, 2))
    sizes = [
        [part.n for part in deal(plan, LocalRecords(plan.mechanism.domain, each), random_bytes=entropy("a"))]
        for each in (X, X[::-1].copy(), np.zeros_like(X))
    ]  # fmt: skip
    assert sizes[0] == sizes[1] == sizes[2]


@settings(max_examples=40)
@given(
    n_records=st.integers(1, 2**40), n_clients=st.integers(1, 1000), c=st.sampled_from([1, 2, 5])
)
def test_chance_exceeds_a_cap_with_probability_below_e_28(
    n_records: int, n_clients: int, c: int
) -> None:
    cap, mean = cap_of_each(n_records, n_clients), n_records / n_clients
    assert cap <= n_records
    assert cap <= mean + (56 * mean) ** 0.5 + 20
    if cap < n_records:
        assert stats.binom.logsf(cap, n_records, 1 / n_clients) < -28
        persons, at = n_records // c, min(c / n_clients, 1.0)  # of c clients each
        assert stats.binom.logsf(cap, persons, at) < -28


def test_n_records_alone_limits_all_clients_together() -> None:
    """Client by client their caps allow more."""
    plan = make_plan(4)
    n = plan.mechanism.n_records
    assert n == 4 * CAP
    domain = plan.mechanism.domain
    with pytest.raises(DataError, match=f"records.*cap of {n}"):
        deal(plan, LocalRecords(domain, np.zeros((n + 1, 2), dtype=np.int64)))
    with (
        words_of_records(np.zeros(n, dtype=np.uint64)),
        pytest.raises(DataError, match=r"'c0'.*records.*its cap"),
    ):
        deal(plan, LocalRecords(domain, np.zeros((CAP + 1, 2), dtype=np.int64)))


def some_rows(seed: int) -> tuple[list[bytes], IntArray]:
    """Rows of persons, many of them alike, in any order."""
    rng = np.random.default_rng(seed)
    ids = rng.permutation(np.repeat(np.arange(12), rng.integers(1, 9, 12)))
    return [b"%d" % i for i in ids], rng.integers(0, 2, (len(ids), 2))


def dealt(
    deal: RandomAssignment, ids: Sequence[bytes], X: IntArray
) -> Counter[tuple[bytes, bytes, int]]:
    """How many rows of which person and grid point each client has."""
    clients = clients_of(deal, ids, X).tolist()
    return Counter(zip(ids, [x.tobytes() for x in X], clients, strict=True))


@settings(max_examples=50)
@given(seed=st.integers(0, 2**32), n_clients=st.integers(1, 9), c=st.integers(1, 4))
def test_a_person_is_at_clients_that_follow_each_other_whatever_the_order_and_the_others(
    seed: int, n_clients: int, c: int
) -> None:
    c = min(c, n_clients)
    ids, X = some_rows(seed)
    found = RandomAssignment(n_clients, c, entropy(f"{seed}"))
    whole = dealt(found, ids, X)
    for person in set(ids):
        begin = int(
            clients_of(RandomAssignment(n_clients, 1, entropy(f"{seed}")), [person], X[:1])[0]
        )
        window = {(begin + further) % n_clients for further in range(c)}
        assert {client for who, _, client in whole if who == person} <= window
    order = np.random.default_rng(seed).permutation(len(ids))
    assert dealt(found, [ids[i] for i in order], X[order]) == whole
    mine = [i for i, person in enumerate(ids) if person == ids[0]]
    alone = dealt(found, [ids[0]] * len(mine), X[mine])
    assert alone == Counter({k: n for k, n in whole.items() if k[0] == ids[0]})
    assert (whole - dealt(found, ids[1:], X[1:])).total() == 1


def test_persons_and_their_rows_are_spread_over_all_clients_that_they_may_be_at() -> None:
    """Of 20,000 persons with 4 equal rows; chi-squared."""
    n, ids = 20_000, [b"%d" % i for i in range(20_000) for _ in range(4)]
    found = clients_of(RandomAssignment(7, 3), ids, np.zeros((4 * n, 1), dtype=np.int64)).reshape(
        n, 4
    )
    begins = clients_of(RandomAssignment(7, 1), ids[::4], np.zeros((n, 1), dtype=np.int64))
    assert _p(np.bincount(begins, minlength=7)) > FALSE_ALARM
    assert _p(np.bincount(found[:, 0], minlength=7)) > FALSE_ALARM
    further = (found[:, 1] - found[:, 0].astype(np.int64)) % 7
    n_of = np.bincount(further, minlength=7)
    assert _p(n_of[[0, 1, 2, 5, 6]], np.array([3, 2, 1, 1, 2]) / 9) > FALSE_ALARM
    assert n_of[[3, 4]].tolist() == [0, 0]


def test_persons_are_counted_at_as_many_clients_as_their_rows_can_be_at() -> None:
    """Whatever the key, so that no chance decides whether there are too many."""
    ids = [b"a"] * 5 + [b"b"] * 2 + [b"c"]
    assert sorted(rows_of_each(person_hashes(ids, KEY)).tolist()) == [1, 2, 5]
    assert [counted(np.array([1, 2, 5]), c) for c in (1, 2, 3)] == [3, 5, 6]
    plan, X = (
        make_plan(3, persons=Persons(max_clients=3)),
        np.zeros((3 * CAP + 3, 2), dtype=np.int64),
    )
    for n, accepted in ((CAP, True), (CAP + 1, False)):
        ids = [b"%d" % i for i in range(n) for _ in range(3)]
        if accepted:
            assert len(deal_persons(plan, ids, X[: len(ids)])) == 3
            continue
        with pytest.raises(DataError, match="persons than the"):
            deal_persons(plan, ids, X[: len(ids)])


def test_nobody_deals_to_no_client_or_a_person_to_more_than_there_are() -> None:
    for n_clients, c in ((0, 1), (3, 4), (3, 0), (1 << 16, 1)):
        with pytest.raises(PlanError, match=r"n_clients is.*max_clients is"):
            RandomAssignment(n_clients, c)


def test_no_file_of_a_simulation_holds_the_key(fastlloyd: Command, here: Path) -> None:
    keys = list[bytes]()

    def seen(key: bytes, info: bytes) -> bytes:
        keys.extend([key, derive(key, info)])
        return keys[-1]

    with mock.patch("fastlloyd.mechanisms.deal.derive", seen):
        options = ("--clients", "3", "--drop", "2@1", "--out", "result")
        code, out, err = fastlloyd("simulate", "data.csv", *PUBLIC, *options)
    assert (code, len(set(keys))) == (0, 3), err
    files = [path for path in here.rglob("*") if path.is_file()]
    assert len(files) > 4
    for secret in keys:
        for written in (out.encode(), err.encode(), *(path.read_bytes() for path in files)):
            assert secret not in written
            assert secret.hex().encode() not in written
