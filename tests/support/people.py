"""Persons of several rows: their shares worked out row by row in Python's integers, and how far one
of them moves an answer.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import msgspec
import numpy as np

import moment_situations as situations
from fastlloyd.base.arrays import IntArray
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain
from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.mechanisms.answering import SharedRecords
from fastlloyd.mechanisms.deal import Clients, RandomAssignment
from fastlloyd.mechanisms.persons import Persons
from fastlloyd.mechanisms.queries.query import InShares, Query, Question
from fastlloyd.mechanisms.queries.relative import ClippedLoss, Moments
from fastlloyd.mechanisms.queries.sensitivity import Corner
from fastlloyd.mechanisms.spread import (
    numbers_among_equals,
    person_hashes,
    row_hashes,
    shares_of,
    spread_key,
)

KEY = spread_key(PublicSeed.from_int(7))
WORD = (1 << 64) - 1
ADD, REPLACE = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE


def mixed(z: int) -> int:
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & WORD
    z = (z ^ z >> 27) * 0x94D049BB133111EB & WORD
    return z ^ z >> 31


def row_hash(person: bytes, row: Sequence[int], key: bytes) -> int:
    content = hashlib.blake2b(person, digest_size=16, key=key).digest()
    content += b"".join(number.to_bytes(8, "little", signed=True) for number in row)
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")


def expected_shares(ids: Sequence[bytes], X: IntArray, key: bytes, weight_bits: int) -> list[int]:
    """The shares of each row, by the words of docs/proofs/persons.md."""
    W, shares, rows_of = 1 << weight_bits, [0] * len(ids), defaultdict[bytes, list[int]](list)
    for number, person in enumerate(ids):
        rows_of[person].append(number)
    for person, numbers in rows_of.items():
        seen, places = Counter[int](), dict[int, int]()
        for number in numbers:
            hashed = row_hash(person, X[number].tolist(), key)
            seen[hashed] += 1
            places[number] = mixed(hashed + seen[hashed] * 0x9E3779B97F4A7C15 & WORD)
        for rank, number in enumerate(sorted(numbers, key=places.__getitem__)):
            shares[number] = W // len(numbers) + (rank < W % len(numbers))
    return shares


def questions(
    domain: Domain, *, units: int, count_bits: int, k: int, generator: np.random.Generator
) -> list[Question]:
    """Every kind of question there is."""
    radius = int(generator.integers(0, 4 * domain.squared_half_diagonal + 1))
    shift = int(generator.integers(0, 41))
    return [
        *situations.questions(domain, units=units, count_bits=count_bits, k=k),
        Moments(domain=domain, n_clusters=k, squared_radius=radius, count_bits=count_bits),
        Moments(domain=domain, n_clusters=k, squared_radius=None, count_bits=count_bits),
        ClippedLoss(
            domain=domain, n_clusters=k, cap=max(1, min(radius >> shift, 1 << 20)), shift=shift
        ),
    ]


def rows(domain: Domain, weight_bits: int, generator: np.random.Generator) -> IntArray:
    """The rows of a person at one client: none, a few, about as many as there are shares, or more;
    some of them alike.
    """
    W = 1 << weight_bits
    m = int(
        generator.choice(
            [0, 1, 2, 3, 5, W - 1, W, W + 1, 2 * W + 3] if W <= 16 else [0, 1, 2, 3, 5, 9]
        )
    )
    distinct = situations.records(domain, min(m, int(generator.integers(1, 5))), generator)
    return distinct[generator.integers(len(distinct), size=m)] if m else distinct[:0]


def shared(domain: Domain, ids: Sequence[bytes], X: IntArray, weight_bits: int) -> SharedRecords:
    shares, n = shares_of(ids, X, KEY, weight_bits)
    return SharedRecords(domain, X, shares, n_persons=n, share_bits=weight_bits)


def clients_of(
    deal: RandomAssignment, ids: Sequence[bytes], X: IntArray, key: bytes = KEY
) -> Clients:
    """The client of each row of persons that a simulation deals out."""
    persons = person_hashes(ids, key)
    hashes = row_hashes(persons, X)
    return deal.of_rows(persons, hashes, numbers_among_equals(persons, hashes))


def one_person(
    domain: Domain, at_clients: Sequence[IntArray], weight_bits: int
) -> list[SharedRecords]:
    """The records of a person with these rows at these clients."""
    return [shared(domain, [b"somebody"] * len(X), X, weight_bits) for X in at_clients]


def added(query: Query, person: Sequence[SharedRecords]) -> IntArray:
    """What a person adds to the sum of all clients' answers."""
    return np.asarray(
        sum((records.total(query)[0] for records in person), np.zeros(query.shape, dtype=np.int64))
    )


def within(
    question: Question, change: IntArray, corners: Sequence[Corner], entries: Sequence[int]
) -> bool:
    """Whether entries are no larger than said, and the squared lengths of the parts lie below the
    corners' hull.
    """
    parts = list(situations.by_part(question, change))
    if any(abs(v) > most for part, most in zip(parts, entries, strict=True) for v in part):
        return False
    lengths = tuple(sum(v * v for v in part) for part in parts)
    return all(
        priced(lengths, price) <= max(priced(corner, price) for corner in corners)
        for price in prices(corners)
    )


def prices(corners: Sequence[Corner]) -> Iterator[tuple[int, ...]]:
    """Those of the edges of the corners' hull, and more."""
    if len(corners[0]) == 1:
        yield (1,)
        return
    yield from [(1, 0), (0, 1), (1, 1), (1, 2), (3, 10**9), (10**9, 3)]
    for (a, b), (c, d) in combinations(corners, 2):
        if (a - c) * (b - d) < 0:
            yield abs(b - d), abs(a - c)


def priced(squares: Corner, price: tuple[int, ...]) -> int:
    return sum(s * p for s, p in zip(squares, price, strict=True))


@dataclass(frozen=True)
class Situation:
    """Questions with parameters, and two persons, each with rows at `max_clients` clients or at
    fewer.
    """

    domain: Domain
    persons: Persons
    queries: list[Query]
    person: list[IntArray]
    other: list[IntArray]

    @classmethod
    def draw(cls, domain: Domain, generator: np.random.Generator) -> "Situation":
        bits, c = int(generator.choice([1, 2, 3, 4, 10])), int(generator.integers(1, 4))
        units = int(generator.choice([2, 6, 98, 2**12, 2**16]))
        asked = questions(
            domain,
            units=units,
            count_bits=int(generator.choice([0, 3, 20])),
            k=int(generator.integers(1, 5)),
            generator=generator,
        )
        return cls(
            domain,
            Persons(max_clients=c, weight_bits=bits),
            [situations.query(question, generator) for question in asked],
            *([rows(domain, bits, generator) for _ in range(c)] for _ in range(2)),
        )

    @property
    def n_changes(self) -> int:
        """How many changes `all_hold` looks at."""
        return len(self.queries) * (3 if any(len(X) >= 2 for X in self.person) else 2)

    def all_hold(self) -> bool:
        """Lemmas 1 and 2, for every question: added or removed, replaced, and one row of a person
        who stays.
        """
        bits, X = (
            self.persons.weight_bits,
            next((rows for rows in self.person if len(rows) >= 2), None),
        )
        kept = [] if X is None else [X, np.delete(X, len(X) // 2, axis=0)]
        one, other, whole, less = (
            one_person(self.domain, rows, bits)
            for rows in (self.person, self.other, kept[:1], kept[1:])
        )
        return all(
            self._holds(
                query,
                added(query, one),
                added(query, other),
                added(query, whole) - added(query, less),
            )
            for query in self.queries
        )

    def _holds(self, query: Query, one: IntArray, other: IntArray, of_a_row: IntArray) -> bool:
        asked = InShares(question=query.question, persons=self.persons)
        alone = InShares(
            question=query.question, persons=msgspec.structs.replace(self.persons, max_clients=1)
        ).sensitivity
        stated, c = asked.sensitivity, self.persons.max_clients
        return (
            within(
                query.question, one, stated.corners(ADD), [c * entry for entry in stated.entries]
            )
            and within(
                query.question,
                other - one,
                stated.corners(REPLACE),
                [2 * c * entry for entry in stated.entries],
            )
            and within(query.question, of_a_row, alone.corners(ADD), alone.entries)
        )
