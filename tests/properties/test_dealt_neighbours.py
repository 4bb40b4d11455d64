"""Neighbouring data sets that a simulation deals to clients lie no farther apart than planned,
whoever is missing in whichever round.

A few hundred pairs; 100,000 in `make campaign`.
"""

import math
from collections.abc import Callable
from itertools import permutations, product
from typing import Any
from unittest import mock

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from dealt import CAP, Situation
from fastlloyd.base.arrays import IntArray
from fastlloyd.mechanisms.deal import Clients, RandomAssignment
from fastlloyd.mechanisms.spread import Words, numbered

N_PAIRS = 200


def attained(number: int) -> float:
    """The part of the planned mu that the pair of that number attains."""
    return Situation.draw(np.random.default_rng([number, 1])).attained()


def test_no_pair_attains_more_than_planned_whoever_is_missing() -> None:
    assert 0.7 < max(map(attained, range(N_PAIRS))) <= 1 + 1e-12


# The theorem in numbers: a mixture of pairs

SIGMA = 1.5
LOSSES = (0.1, 0.5, 1.0, 2.0, 4.0)
OUTPUTS = np.linspace(-40, 40, 16_001)


def law_by_chance(values: tuple[int, ...], there: set[int], n_clients: int) -> NDArray[np.float64]:
    """The density of a noisy sum of the records of the clients that are there, if each record goes
    to a client by chance.
    """
    clients = product(range(n_clients), repeat=len(values))
    return _density(
        [
            sum(v for v, client in zip(values, whose, strict=True) if client in there)
            for whose in clients
        ]
    )


def law_in_equal_parts(
    values: tuple[int, ...], there: set[int], n_clients: int
) -> NDArray[np.float64]:
    """The same if the words of the records are sorted, and parted equally."""
    of_rank = [
        int(c)
        for c, part in enumerate(np.array_split(np.arange(len(values)), n_clients))
        for _ in part
    ]
    return _density(
        [
            sum(values[i] for i, client in zip(order, of_rank, strict=True) if client in there)
            for order in permutations(range(len(values)))
        ]
    )


def _density(sums: list[int]) -> NDArray[np.float64]:
    found, times = np.unique(sums, return_counts=True)
    return np.asarray(
        stats.norm.pdf(OUTPUTS[:, None], found, SIGMA) @ (times / times.sum()), dtype=np.float64
    )


def excess(
    law: Callable[..., NDArray[np.float64]],
    one: tuple[int, ...],
    other: tuple[int, ...],
    moved: int,
) -> float:
    """How much farther apart two data sets lie than mu-GDP allows, in delta, where a sum moves by
    so much for one record; negative if they do not.
    """
    mu, step, most = moved / SIGMA, OUTPUTS[1] - OUTPUTS[0], -math.inf
    for there in ({0}, {1}, {0, 2}):
        laws = [law(values, there, 3) for values in (one, other)]
        for (p, q), loss in product((laws, laws[::-1]), LOSSES):
            delta = float(np.maximum(p - math.exp(loss) * q, 0).sum() * step)
            allowed = stats.norm.cdf(mu / 2 - loss / mu) - math.exp(loss) * stats.norm.cdf(
                -mu / 2 - loss / mu
            )
            most = max(most, delta - float(allowed))
    return most


PAIRS = [
    ((-1, -1, -1, -1), (1, -1, -1, -1, -1), 1),
    ((1, 1, 1), (1, 1, 1, 1), 1),
    ((1, -1, 0, 1), (1, -1, 0, 1, -1), 1),
    ((1, 1, 1, 1), (-1, 1, 1, 1), 2),
]


@pytest.mark.parametrize(("one", "other", "moved"), PAIRS)
def test_all_outcomes_together_are_as_private_as_one_record_with_the_clients_fixed(
    one: tuple[int, ...], other: tuple[int, ...], moved: int
) -> None:
    """All assignments of four or five records to three clients, by numerical integration."""
    assert excess(law_by_chance, one, other, moved) < 1e-9


def test_equal_parts_in_an_order_by_chance_are_noticed() -> None:
    assert excess(law_in_equal_parts, *PAIRS[0]) > 1e-3


# Mistakes that these tests must notice


def by_position(self: RandomAssignment, first: int, n: int) -> Clients:
    return ((first + np.arange(n)) % self.n_clients).astype(np.uint16)


def by_rank(self: RandomAssignment, first: int, n: int) -> Clients:
    """In equal parts, in the order of the words."""
    words = self._words.of(0, CAP)
    ranks = np.argsort(np.argsort(words, kind="stable"), kind="stable")
    return (ranks[first : first + n] * self.n_clients // len(words)).astype(np.uint16)


def by_turns(self: RandomAssignment, persons: Words, hashes: Words, numbers: IntArray) -> Clients:
    """Persons in turn, in the order of their hashes."""
    order, found = np.lexsort(persons.T[::-1]), np.empty(len(persons), dtype=np.int64)
    found[order] = numbered(persons[order])
    return ((found + numbers % self.max_clients) % self.n_clients).astype(np.uint16)


def by_place_in_the_file(
    self: RandomAssignment, persons: Words, hashes: Words, numbers: IntArray
) -> Clients:
    return (np.arange(len(persons)) % self.n_clients).astype(np.uint16)


GENUINE = RandomAssignment.of_rows


def anywhere(self: RandomAssignment, persons: Words, hashes: Words, numbers: IntArray) -> Clients:
    """A person at all clients, however few it may be at."""
    self.max_clients = self.n_clients
    return GENUINE(self, persons, hashes, numbers)


MISTAKES: dict[str, tuple[str, Callable[..., Any]]] = {
    "by position": ("of_records", by_position),
    "by the rank of words": ("of_records", by_rank),
    "persons by the rank of hashes": ("of_rows", by_turns),
    "rows of persons by position": ("of_rows", by_place_in_the_file),
    "persons at too many clients": ("of_rows", anywhere),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistaken_deal_is_noticed(name: str) -> None:
    what, wrong = MISTAKES[name]
    with mock.patch.object(RandomAssignment, what, wrong):
        assert any(attained(number) > 1.05 for number in range(2 * N_PAIRS))
