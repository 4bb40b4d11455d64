"""Records that chance deals to the clients of a simulation, with a key that is drawn anew for each
run and kept nowhere.

Clients may be missing from rounds, so a sum depends on the client that a record is at. With a
`Deal` no record decides about the client of another one: the guarantee of the plan holds whoever is
missing (docs/proofs/deal.md). Chance also decides how many records a client has: the caps have room
for it, and the plan's `n_records` limits them all.
"""

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from fastlloyd.base.arrays import GridArray, IntArray
from fastlloyd.clustering.domain import Domain
from fastlloyd.clustering.grid_records import Rows
from fastlloyd.clustering.grouping import grouped
from fastlloyd.errors import DataError
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.mechanisms.answering import AllRecords, Records, SharedRecords, check_cap
from fastlloyd.mechanisms.deal import Deal, counted, rows_of_each
from fastlloyd.mechanisms.passes.records import DealtPersons
from fastlloyd.mechanisms.persons import max_clients
from fastlloyd.mechanisms.queries.query import Query
from fastlloyd.mechanisms.spread import (
    numbers_among_equals,
    person_hashes,
    row_hashes,
    spread_key,
)

RandomBytes = Callable[[int], bytes]

_TAIL: Final = 28.0  # a cap is exceeded with probability below e**-28
_SPAN: Final = 1 << 20  # records whose clients are counted at a time


def cap_of_each(n_records: int, n_clients: int) -> int:
    """The cap of one client: N/M + t, N = `n_records` and M = `n_clients`, t about sqrt(56 N/M).

    Let X be the number of records, or persons, that chance deals to a client. It is a sum of
    independent numbers 0 and 1, with mean and variance of at most N/M. Bernstein:
    P(X > N/M + t) <= exp(-t**2 / 2 / (N/M + t/3)), which is e**-28 at t = a + sqrt(a**2 + 56 N/M)
    with a = 28/3. No more than N come anyway.
    """
    a = _TAIL / 3
    room = math.ceil(a + math.sqrt(a * a + 2 * _TAIL * n_records / n_clients))
    return min(n_records, -(-n_records // n_clients) + room)


def deal(
    plan: Plan, records: AllRecords, *, random_bytes: RandomBytes = os.urandom
) -> list[Records]:
    """The records of each client, in the order of the plan: parts of records that are never held at
    once, as one pass answers for all clients.

    random_bytes : another source only in tests and studies. Raises DataError for records of
    persons, for more records than the plan allows, or a client of it, and what reading them raises.
    """
    if records.share_bits:
        raise DataError(
            "these are records of persons, and one by one they would be parted from the others of"
            " their person"
        )
    n = records.count() if records.n is None else records.n
    passes = _SharedPasses(_DealtRecords(records, n, Deal(plan.n_clients, 1, random_bytes)))
    return _checked(plan, n, [_Part(passes, client) for client in range(plan.n_clients)])


def deal_persons(
    plan: Plan, ids: Sequence[bytes], X: GridArray, *, random_bytes: RandomBytes = os.urandom
) -> list[Records]:
    """The records of each client, in the order of the plan, of rows X, grid points (n, n_features),
    in memory.

    ids : of each row. Raises DataError for more persons than the plan allows, or a client of it,
    each counted at every client where the rows of the person can be.
    """
    m = plan.mechanism
    numbers: dict[bytes, int] = {}
    places = np.fromiter(
        (numbers.setdefault(each, len(numbers)) for each in ids), dtype=np.intp, count=len(ids)
    )
    persons = person_hashes(list(numbers), spread_key(m.seed))[places]
    hashes = row_hashes(persons, X)
    dealt = _deal_of(plan, random_bytes).of_rows(
        persons, hashes, numbers_among_equals(persons, hashes)
    )
    parts: list[Records] = []
    for client in range(plan.n_clients):
        rows = np.flatnonzero(dealt == client)
        parts.append(SharedRecords.of_persons(m, X[rows], [ids[row] for row in rows.tolist()]))
    return _checked(plan, counted(rows_of_each(persons), max_clients(m.persons)), parts)


def deal_persons_in_passes(
    plan: Plan, rows: Rows, source: str, *, random_bytes: RandomBytes = os.urandom
) -> list[Records]:
    """Return what `deal_persons` does, for rows that are read in passes: one pass at once, and one
    for each query.

    source : of the rows, for messages. Raises DataError as well, and what reading the rows raises.
    """
    dealt = DealtPersons(rows, plan.mechanism, _deal_of(plan, random_bytes), source=source)
    passes = _SharedPasses(dealt)
    parts: list[Records] = [_Part(passes, client) for client in range(plan.n_clients)]
    return _checked(plan, dealt.n_counted, parts)


def _deal_of(plan: Plan, random_bytes: RandomBytes) -> Deal:
    return Deal(plan.n_clients, max_clients(plan.mechanism.persons), random_bytes)


def _checked(plan: Plan, n: int, parts: Sequence[Records]) -> list[Records]:
    """The parts, if all together have no more than n_records, and no client more than its cap."""
    unit = plan.mechanism.unit
    check_cap(n, plan.mechanism.n_records, unit)
    for client, part in zip(plan.clients, parts, strict=True):
        client.check_cap(part.n or 0, unit)
    return list(parts)


@dataclass(frozen=True, slots=True)
class _ByClient:
    """A query answered for each client, a row each."""

    query: Query
    deal: Deal

    @property
    def shape(self) -> tuple[int, int]:
        """Clients, and the entries of an answer."""
        return self.deal.n_clients, math.prod(self.query.shape)

    def evaluate(self, X: GridArray, first: int) -> IntArray:
        """See `Asked`."""
        found = np.zeros(self.shape, dtype=np.int64)
        for client, mine in grouped(X, self.deal.of_records(first, len(X))):
            found[client] = self.query.evaluate(mine).ravel()
        return found


class _Dealt(Protocol):
    """Records of all clients, of which each pass answers for all: how many each has, and the
    answers.
    """

    @property
    def domain(self) -> Domain: ...
    @property
    def share_bits(self) -> int: ...
    @property
    def sizes(self) -> tuple[int, ...]: ...
    def answers(self, query: Query) -> list[IntArray]: ...


class _DealtRecords:
    """`_Dealt` of n records, each by its number."""

    share_bits = 0

    def __init__(self, records: AllRecords, n: int, deal: Deal) -> None:
        self.domain, self._records, self._deal = records.domain, records, deal
        found = np.zeros(deal.n_clients, dtype=np.int64)
        for first in range(0, n, _SPAN):
            clients = deal.of_records(first, min(_SPAN, n - first))
            found += np.bincount(clients, minlength=deal.n_clients)
        self.sizes: tuple[int, ...] = tuple(found.tolist())

    def answers(self, query: Query) -> list[IntArray]:
        """See `_Dealt`."""
        found, n = self._records.total(_ByClient(query, self._deal))
        if n != sum(self.sizes):
            raise DataError(
                "the number of records changed between two passes; leave the file alone while it is"
                " read"
            )
        return [row.reshape(query.shape) for row in found]


class _SharedPasses:
    """The answers of all clients to a query, in one pass."""

    def __init__(self, dealt: _Dealt) -> None:
        self.dealt = dealt
        self._asked: tuple[object, bytes] | None = None
        self._answers: list[IntArray] = []

    def answers(self, query: Query) -> list[IntArray]:
        """Each client's answer, kept for the others, who ask the same in a round."""
        if self._asked != (query.question, query.digest):
            self._answers, self._asked = self.dealt.answers(query), (query.question, query.digest)
        return self._answers


class _Part:
    """`Records` of one client of a simulation."""

    def __init__(self, passes: _SharedPasses, client: int) -> None:
        self.domain, self.share_bits, self.n = (
            passes.dealt.domain,
            passes.dealt.share_bits,
            passes.dealt.sizes[client],
        )
        self._passes, self._client = passes, client

    def answer(self, query: Query) -> tuple[IntArray, int]:
        """See `Records`."""
        return self._passes.answers(query)[self._client], self.n
