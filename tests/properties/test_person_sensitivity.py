"""One person with all rows moves an answer by no more than stated, at one client or at several, for
every kind of question.

Per domain 18 pairs of persons, of whom every question is asked: some 3,000 changes, 1,000,000 in
`make campaign`.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from unittest import mock

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import moment_situations as situations
from fastlloyd.base.arrays import GridArray, IntArray
from fastlloyd.clustering.domain import Domain
from fastlloyd.mechanisms.answering import Asked, LocalRecords, SharedRecords
from fastlloyd.mechanisms.persons import Persons
from fastlloyd.mechanisms.queries.centred import ClippedLengths, ClippedSquares, SecondMoment
from fastlloyd.mechanisms.queries.nearest import ClippedOffsets, Votes
from fastlloyd.mechanisms.queries.query import InShares, Question, ask
from fastlloyd.mechanisms.queries.relative import ClippedLoss, Moments
from fastlloyd.mechanisms.queries.sensitivity import Sensitivity
from fastlloyd.mechanisms.queries.spaces import Features
from people import ADD, KEY, REPLACE, Situation, added, expected_shares, one_person, shared

NAMES = [
    f"{domain.n_features} features, {domain.fraction_bits} bits" for domain in situations.DOMAINS
]
EACH_DOMAIN = pytest.mark.parametrize("domain", situations.DOMAINS, ids=NAMES)
SEEDS = st.integers(0, 2**63)


@EACH_DOMAIN
@settings(max_examples=18)
@given(SEEDS)
def test_no_person_moves_an_answer_by_more_than_the_stated_integers(
    domain: Domain, seed: int
) -> None:
    assert Situation.draw(domain, np.random.default_rng(seed)).all_hold()


@EACH_DOMAIN
@settings(max_examples=8)
@given(SEEDS, st.integers(0, 7))
def test_records_with_shares_answer_as_row_by_row(
    domain: Domain, seed: int, n_persons: int
) -> None:
    """Whatever the order of the rows and whoever else is there, and parts that keep persons whole
    add up.
    """
    generator = np.random.default_rng(seed)
    situation = Situation.draw(domain, generator)
    bits = situation.persons.weight_bits
    numbers = generator.integers(0, 12, n_persons)
    ids = [b"%d" % person for person, n in enumerate(numbers.tolist()) for _ in range(n)]
    pool = situations.records(domain, 4, generator)
    X = pool[generator.integers(len(pool), size=len(ids))]
    order = generator.permutation(len(ids))
    mixed, of_mixed = X[order], [ids[i] for i in order]
    is_here = np.array([int(i) % 2 == 0 for i in ids], dtype=bool)
    parts = [
        shared(domain, [ids[i] for i in np.flatnonzero(mine)], X[mine], bits)
        for mine in (is_here, ~is_here)
    ]
    shares = expected_shares(ids, X, KEY, bits)
    for query in situation.queries:
        expected = sum(
            (w * query.evaluate(x[None]) for w, x in zip(shares, X, strict=True)),
            np.zeros(query.shape, np.int64),
        )
        answer, n = shared(domain, ids, X, bits).answer(query)
        assert np.array_equal(answer, expected)
        assert n == np.count_nonzero(numbers)
        assert np.array_equal(shared(domain, of_mixed, mixed, bits).answer(query)[0], expected)
        assert np.array_equal(sum(part.answer(query)[0] for part in parts), expected)


# The bounds are attained

BOX = Domain(features=("x", "y"), lower=(-1.0,) * 2, upper=(1.0,) * 2, fraction_bits=8)
B, U = 256, 64
MIDDLE = np.zeros(2, dtype=np.int64)
ONE, TWO = MIDDLE[None], np.array([[B, B], [-B, -B]])
ATTAINING: dict[str, tuple[Question, dict[str, Any], list[int], list[int]]] = {
    "lengths": (ClippedLengths(domain=BOX, units=U), {"centre": MIDDLE, "radius": B}, [B, 0], [0, 0]),
    "squares": (ClippedSquares(domain=BOX, units=U), {"centre": MIDDLE, "radius": B}, [B, 0], [0, B]),
    "second moment": (SecondMoment(domain=BOX, units=U), {"centre": MIDDLE, "radius": B}, [B, 0], [0, B]),
    "votes": (Votes(space=Features(domain=BOX), n_candidates=2, count_bits=3), {"candidates": TWO}, [B, B], [-B, -B]),
    "offsets of one": (
        ClippedOffsets(space=Features(domain=BOX), n_clusters=1, units=U, count_bits=3),
        {"centroids": ONE, "radius": B}, [B, 0], [-B, 0],
    ),
    "offsets of two": (
        ClippedOffsets(space=Features(domain=BOX), n_clusters=2, units=U, count_bits=3),
        {"centroids": TWO, "radius": B}, [B, 0], [-B, 0],
    ),
    "sums": (Moments(domain=BOX, n_clusters=1, squared_radius=None, count_bits=3), {"centroids": ONE}, [B, B], [-B, -B]),
    "sums within a radius": (
        Moments(domain=BOX, n_clusters=1, squared_radius=B**2, count_bits=3), {"centroids": ONE}, [B, 0], [-B, 0],
    ),
    "loss": (ClippedLoss(domain=BOX, n_clusters=1, cap=B**2, shift=0), {"centroids": ONE}, [B, 0], [0, 0]),
}  # fmt: skip


@pytest.mark.parametrize("name", ATTAINING)
@pytest.mark.parametrize("c", [1, 3])
def test_the_dearest_price_is_attained_by_a_person_of_one_row_and_by_one_of_equal_rows(
    name: str, c: int
) -> None:
    """At prices at which the corner of these records is the dearest: for add and remove all parts
    cost something.
    """
    question, parameters, first, second = ATTAINING[name]
    query, persons = ask(question, **parameters), Persons(max_clients=c)
    stated = InShares(question=question, persons=persons).sensitivity

    def lengths(change: IntArray) -> tuple[int, ...]:
        return tuple(sum(v * v for v in part) for part in situations.by_part(question, change))

    for m in (1, 7, 3000):
        one, other = (
            added(query, one_person(BOX, [np.array([x] * m)] * c, persons.weight_bits))
            for x in (first, second)
        )
        assert lengths(one) in stated.added
        assert lengths(one - other) in stated.corners(REPLACE) or name == "offsets of two"
        assert max(map(abs, one.ravel().tolist())) <= c * max(stated.entries)
    assert stated.corners(ADD) == tuple(
        tuple((c << 10) ** 2 * a for a in corner) for corner in question.sensitivity.corners(ADD)
    )


# Mistakes that these tests must notice


def holds() -> bool:
    """Whether nothing is noticed in some situations in each domain."""
    each = (
        (domain, np.random.default_rng(seed)) for seed in range(3) for domain in situations.DOMAINS
    )
    return all(Situation.draw(domain, generator).all_hold() for domain, generator in each)


def one_share_more(ranks: IntArray, sizes: IntArray, weight_bits: int) -> NDArray[np.uint16]:
    least, left = np.divmod(np.int64((1 << weight_bits) + 1), sizes)
    return (least + (ranks < left)).astype(np.uint16)


def as_if_at_one_client(self: Sensitivity, persons: Persons) -> Sensitivity:
    return OF_PERSONS(self, msgspec.structs.replace(persons, max_clients=1))


def without_those_of_added(self: Sensitivity, relation: object) -> Sequence[tuple[int, ...]]:
    return self.added if relation is ADD else self.replaced


OF_PERSONS = Sensitivity.of_persons
MISTAKES: dict[str, tuple[str, Callable[..., Any]]] = {
    "one share too many": ("spread.spread_evenly", one_share_more),
    "the number of clients forgotten": (
        "queries.sensitivity.Sensitivity.of_persons",
        as_if_at_one_client,
    ),
    "a person replaced has as many rows": (
        "queries.sensitivity.Sensitivity.corners",
        without_those_of_added,
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_shares_or_sensitivities_is_noticed(name: str) -> None:
    where, wrong = MISTAKES[name]
    with mock.patch(f"fastlloyd.mechanisms.{where}", wrong):
        assert not holds()


def test_without_a_mistake_nothing_is_noticed() -> None:
    assert holds()


def test_shares_that_multiply_rows_and_not_their_integers_are_noticed() -> None:
    """Before clipping and rounding a share is no share of what the row adds."""

    class Early(SharedRecords):
        def total(self, asked: Asked) -> tuple[IntArray, int]:
            total, B = np.zeros(asked.shape, dtype=np.int64), self.domain.half_widths
            for shares, rows in self._groups:
                total += LocalRecords(self.domain, np.clip(shares * rows._X, -B, B)).total(asked)[0]  # type: ignore[operator]
            return total, self.count()

    X: GridArray = np.array([[30, 1], [200, -7], [3, 3]])
    query = ask(ClippedLengths(domain=BOX, units=U), centre=MIDDLE, radius=B)
    right, wrong = (
        kind(BOX, X, np.array([4, 3, 3], dtype=np.uint16), n_persons=1, share_bits=3).answer(query)[
            0
        ]
        for kind in (SharedRecords, Early)
    )
    expected = sum(w * query.evaluate(x[None]) for w, x in zip((4, 3, 3), X, strict=True))
    assert np.array_equal(right, expected)
    assert not np.array_equal(wrong, expected)


def test_a_situation_has_persons_of_unequal_totals() -> None:
    """Else a person replaced by one without rows would not be looked at."""
    drawn = [Situation.draw(BOX, np.random.default_rng(seed)) for seed in range(200)]
    totals = [[sum(len(X) > 0 for X in each) for each in (s.person, s.other)] for s in drawn]
    assert sum(a != b for a, b in totals) > 50
    assert {s.persons.max_clients for s in drawn} == {1, 2, 3}
    assert replace(drawn[0], person=[], other=[]).all_hold()
