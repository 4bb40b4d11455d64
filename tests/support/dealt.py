"""Pairs of neighbouring data sets that a simulation deals to clients, of whom others are missing in
every round; how far the answers of the clients that are there lie apart.

Chance deals both of a pair. The proof (docs/proofs/deal.md) couples it: records that both data sets
have get the same word. So both are dealt here by such words, and what is attained is compared with
what is planned.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from unittest import mock

import numpy as np
from numpy.typing import NDArray

import moment_situations as situations
from designs import design_plan
from fastlloyd.base.arrays import IntArray
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain
from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.federation import dealing
from fastlloyd.federation.plan.plan import Client, Masks, Plan, TrustMode
from fastlloyd.mechanisms import deal
from fastlloyd.mechanisms.answering import LocalRecords, Records
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD, GLLOYD
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD
from fastlloyd.mechanisms.persons import Persons
from fastlloyd.mechanisms.queries.query import Query

CAP = 120
BOX = Domain(features=("x", "y"), lower=(-1.0,) * 2, upper=(1.0,) * 2, fraction_bits=8)
ALGORITHMS = (MOMENTLLOYD, FASTLLOYD, GLLOYD)
MOST_EQUAL = 0.95

Words = NDArray[np.uint64]
NO_WORDS: Words = np.empty(0, dtype=np.uint64)


@cache
def plan_of(
    algorithm: int, relation: NeighboringRelation, trust: TrustMode, n_clients: int, c: int | None
) -> Plan:
    """A simulation in which all but two clients may be missing; c : at how many a person is, None
    for records.
    """
    return design_plan(
        ALGORITHMS[algorithm],
        BOX,
        clients=tuple(Client(name=f"c{i}", max_records=CAP) for i in range(n_clients)),
        run_id=bytes(16),
        n_clusters=2,
        n_records=CAP,
        epsilon=1.0,
        public_seed=PublicSeed.from_int(1),
        neighboring_relation=relation,
        trust=trust,
        max_dropouts=n_clients - 2,
        estimate_loss=True,
        masks=Masks.GROUP,
        persons=None if c is None else Persons(max_clients=c, weight_bits=3),
        simulated=True,
    )


@dataclass(frozen=True)
class _Given:
    """Words that stand in for those of a secret key."""

    words: Words

    def of(self, first: int, n: int) -> Words:
        return self.words[first : first + n]


@contextmanager
def words_of_records(words: Words) -> Iterator[None]:
    """Deal records by these words."""
    with mock.patch.object(deal, "SecretWords", return_value=_Given(words)):
        yield


@dataclass(frozen=True)
class Rows:
    """A data set: grid points in their order, whose they are (persons only), and the words of the
    deal (records only).
    """

    X: IntArray
    ids: list[bytes]
    words: Words

    def dealt(self, plan: Plan, key: bytes) -> list[Records]:
        """The records of each client."""
        if plan.mechanism.persons is not None:
            return dealing.deal_persons(plan, self.ids, self.X, random_bytes=lambda _: key)
        with words_of_records(self.words):
            return dealing.deal(plan, LocalRecords(BOX, self.X), random_bytes=lambda _: key)


@dataclass(frozen=True)
class Situation:
    """Two neighbours, queries with parameters anywhere in their range, and the clients that are
    there, for each round.
    """

    plan: Plan
    key: bytes
    pair: tuple[Rows, Rows]
    queries: list[Query]
    included: list[list[int]]

    @classmethod
    def draw(cls, generator: np.random.Generator) -> "Situation":
        c = [None, 1, 2, 3][generator.integers(4)]
        relation = list(NeighboringRelation)[generator.integers(2)]
        trust = list(TrustMode)[generator.integers(2)]
        n_clients = int(generator.integers(max(3, c or 3), 7))
        plan = plan_of(int(generator.integers(3)), relation, trust, n_clients, c)
        m = plan.mechanism
        return cls(
            plan,
            generator.bytes(32),
            (records_of if c is None else persons_of)(relation, generator),
            [situations.query(round.question(m), generator) for round in m.all_rounds],
            _present(n_clients, len(m.all_rounds), generator),
        )

    def attained(self) -> float:
        """Return mu of this pair, as dealt, as a part of the plan's."""
        one, other = (rows.dealt(self.plan, self.key) for rows in self.pair)
        m, squares = self.plan.mechanism, 0.0
        for round, query, there in zip(m.all_rounds, self.queries, self.included, strict=True):
            change = _sum(query, one, there) - _sum(query, other, there)
            parts = situations.by_part(round.question(m), change)
            deviations = self.plan.deviations(round, len(there))
            for part, deviation in zip(parts, deviations, strict=True):
                squares += sum(v * v for v in part) / deviation**2
        return math.sqrt(squares / float(m.accountant().mu_squared))


def _sum(query: Query, parts: Sequence[Records], there: Sequence[int]) -> IntArray:
    """The exact answer of the clients that are there."""
    return np.asarray(sum(parts[client].answer(query)[0] for client in there))


def _present(n_clients: int, n_rounds: int, generator: np.random.Generator) -> list[list[int]]:
    """Of each round two clients or more: others every time, the same all the time, or every
    second.
    """

    def some() -> list[int]:
        n = int(generator.integers(2, n_clients + 1))
        return sorted(generator.permutation(n_clients)[:n].tolist())

    match int(generator.integers(3)):
        case 0:
            return [some() for _ in range(n_rounds)]
        case 1:
            return [some()] * n_rounds
        case _:
            return [list(range(0, n_clients, 2))] * n_rounds


def _records(n: int, generator: np.random.Generator) -> IntArray:
    """n records: about 95 % the same, each drawn alone, or all at corners of the box."""
    usual, others = situations.records(BOX, 1, generator), situations.records(BOX, n, generator)
    match int(generator.integers(3)):
        case 0:
            others = np.where(generator.random((n, 1)) < MOST_EQUAL, usual, others)
        case 1:
            others = BOX.half_widths * generator.choice([-1, 1], (n, 1))
        case _:
            pass
    return others.reshape(n, BOX.n_features).astype(np.int64)


def records_of(relation: NeighboringRelation, generator: np.random.Generator) -> tuple[Rows, Rows]:
    """Two data sets of records, one of which has another record, or one more: first, last, or
    between others.
    """
    n = int(generator.choice([0, 1, 2, 20, 20, 60]))
    X, odd = _records(n, generator), _records(2, generator)
    at = int(generator.choice([0, n // 2, n]))
    words = generator.integers(0, 2**64, n + 1, dtype=np.uint64)
    with_one = Rows(np.insert(X, at, odd[0], axis=0), [], words)
    if relation is NeighboringRelation.ADD_OR_REMOVE_ONE:
        return Rows(X, [], np.delete(words, at)), with_one
    return Rows(np.insert(X, at, odd[1], axis=0), [], words), with_one


def persons_of(relation: NeighboringRelation, generator: np.random.Generator) -> tuple[Rows, Rows]:
    """Two data sets of persons, one of which has another person, or one more; the rows in any
    order.
    """
    n_rows = generator.integers(1, 6, int(generator.integers(0, 12)))
    ids = [b"%d" % person for person, n in enumerate(n_rows.tolist()) for _ in range(n)]
    X = _records(len(ids), generator)
    names = [b"somebody", b"somebody" if generator.random() < 0.5 else b"somebody else"]
    odd = [_records(int(generator.choice([1, 2, 8, 9, 20])), generator) for _ in names]

    def with_rows(name: bytes, rows: IntArray) -> Rows:
        order = generator.permutation(len(ids) + len(rows))
        all_ids = ids + [name] * len(rows)
        return Rows(np.concatenate([X, rows])[order], [all_ids[i] for i in order], NO_WORDS)

    if relation is NeighboringRelation.ADD_OR_REMOVE_ONE:
        odd[0] = odd[0][:0]
    one, other = (with_rows(name, rows) for name, rows in zip(names, odd, strict=True))
    return one, other
