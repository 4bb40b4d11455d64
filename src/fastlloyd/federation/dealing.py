"""Dealing of records to the clients of a simulation, at random. The random key is drawn for each
run and never stored.

Clients may miss rounds, so a sum depends on which client has a record. With a `RandomAssignment`,
no record influences which client gets another record. So the plan's guarantee holds whichever
clients are missing (docs/proofs/deal.md). The number of records of a client is random too. Each
client's cap leaves room for that, and the plan's `n_records` limits the number of all records
together.
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
from fastlloyd.mechanisms.deal import RandomAssignment, counted, rows_of_each
from fastlloyd.mechanisms.passes.records import DealtPersons
from fastlloyd.mechanisms.persons import max_clients
from fastlloyd.mechanisms.queries.query import Query
from fastlloyd.mechanisms.spread import numbers_among_equals, person_hashes, row_hashes, spread_key

RandomBytes = Callable[[int], bytes]

_TAIL: Final = 28.0  # a cap is exceeded with a probability below e**-28
_SPAN: Final = 1 << 20  # number of records that are counted at a time


def cap_of_each(n_records: int, n_clients: int) -> int:
    """Return the cap on the number of records of one client: N/M + t, with N = `n_records`, M =
    `n_clients` and t about sqrt(56 N/M).

    Let X be the number of records, or persons, that one client gets. X is a sum of independent
    numbers 0 and 1, with mean and variance of at most N/M. By Bernstein's inequality P(X > N/M + t)
    <= exp(-t**2 / 2 / (N/M + t/3)). That is e**-28 at t = a + sqrt(a**2 + 56 N/M) with a = 28/3.
    The cap never exceeds N.
    """
    a = _TAIL / 3
    room = math.ceil(a + math.sqrt(a * a + 2 * _TAIL * n_records / n_clients))
    return min(n_records, -(-n_records // n_clients) + room)


def deal(
    plan: Plan, records: AllRecords, *, random_bytes: RandomBytes = os.urandom
) -> list[Records]:
    """Return the records of each client, in the order of the plan.

    The clients' records are never all in memory: one pass over the file answers a query for all
    clients.

    random_bytes : source of the key. Only tests and studies pass another source.

    Raises DataError if the records belong to persons, or if there are more records than the plan or
    a client's cap allows. Errors in reading the records pass through.
    """
    if records.share_bits:
        raise DataError(
            "these records belong to persons, and dealing records one by one would separate the"
            " records of one person"
        )
    n = records.count() if records.n is None else records.n
    passes = _SharedPasses(
        _DealtRecords(records, n, RandomAssignment(plan.n_clients, 1, random_bytes))
    )
    return _checked(plan, n, [_Part(passes, client) for client in range(plan.n_clients)])


def deal_persons(
    plan: Plan, ids: Sequence[bytes], X: GridArray, *, random_bytes: RandomBytes = os.urandom
) -> list[Records]:
    """Return the records of each client, in the order of the plan, for rows in memory that belong
    to persons.

    ids : id of each row's person.
    X : grid points (n, n_features).
    random_bytes : as in `deal`.

    Raises DataError if there are more persons than the plan or a client's cap allows. A person
    counts at every client that may have rows of the person.
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
    """Return the result of `deal_persons` for rows that are read in passes: one pass now, and one
    for each query.

    rows : the rows, which can be read again and again.
    source : name of the rows, for error messages.
    random_bytes : as in `deal`.

    Raises DataError as `deal_persons` does. Errors in reading the rows pass through.
    """
    dealt = DealtPersons(rows, plan.mechanism, _deal_of(plan, random_bytes), source=source)
    passes = _SharedPasses(dealt)
    parts: list[Records] = [_Part(passes, client) for client in range(plan.n_clients)]
    return _checked(plan, dealt.n_counted, parts)


def _deal_of(plan: Plan, random_bytes: RandomBytes) -> RandomAssignment:
    return RandomAssignment(plan.n_clients, max_clients(plan.mechanism.persons), random_bytes)


def _checked(plan: Plan, n: int, parts: Sequence[Records]) -> list[Records]:
    """Return `parts`, the records of each client. Raises DataError if there are more than n_records
    together, or if a client exceeds its cap.

    n : number of records, or persons, of all clients together.
    """
    unit = plan.mechanism.unit
    check_cap(n, plan.mechanism.n_records, unit)
    for client, part in zip(plan.clients, parts, strict=True):
        client.check_cap(part.n or 0, unit)
    return list(parts)


@dataclass(frozen=True, slots=True)
class _ByClient:
    """Query that is answered separately for each client: one row of the answer for each."""

    query: Query
    deal: RandomAssignment

    @property
    def shape(self) -> tuple[int, int]:
        """Number of clients, and number of entries in the answer of one client."""
        return self.deal.n_clients, math.prod(self.query.shape)

    def evaluate(self, X: GridArray, first: int) -> IntArray:
        """Return the answer of each client, int64 of shape `shape`.

        X : grid points of consecutive records.
        first : position of the first of these records among all records, from 0.
        """
        found = np.zeros(self.shape, dtype=np.int64)
        for client, mine in grouped(X, self.deal.of_records(first, len(X))):
            found[client] = self.query.evaluate(mine).ravel()
        return found


class _Dealt(Protocol):
    """Records that were dealt to clients. One pass answers a query for all clients.

    sizes : number of records, or persons, of each client.
    """

    @property
    def domain(self) -> Domain: ...
    @property
    def share_bits(self) -> int: ...
    @property
    def sizes(self) -> tuple[int, ...]: ...
    def answers(self, query: Query) -> list[IntArray]: ...


class _DealtRecords:
    """Records that were dealt to clients one by one, by their positions in the pass."""

    share_bits = 0

    def __init__(self, records: AllRecords, n: int, deal: RandomAssignment) -> None:
        self.domain, self._records, self._deal = records.domain, records, deal
        found = np.zeros(deal.n_clients, dtype=np.int64)
        for first in range(0, n, _SPAN):
            clients = deal.of_records(first, min(_SPAN, n - first))
            found += np.bincount(clients, minlength=deal.n_clients)
        self.sizes: tuple[int, ...] = tuple(found.tolist())

    def answers(self, query: Query) -> list[IntArray]:
        """Return the answer of each client, in the order of the plan.

        Raises DataError if the number of records changed since the first pass.
        """
        found, n = self._records.total(_ByClient(query, self._deal))
        if n != sum(self.sizes):
            raise DataError(
                "the number of records changed between two passes; leave the file alone while it is"
                " read"
            )
        return [row.reshape(query.shape) for row in found]


class _SharedPasses:
    """Answers of all clients to the latest query. One pass over the records gives all of them."""

    def __init__(self, dealt: _Dealt) -> None:
        self.dealt = dealt
        self._asked: tuple[object, bytes] | None = None
        self._answers: list[IntArray] = []

    def answers(self, query: Query) -> list[IntArray]:
        """Return the answer of each client. The answers are kept until the next query, because each
        client of the simulation asks the same query.
        """
        if self._asked != (query.question, query.digest):
            self._answers, self._asked = self.dealt.answers(query), (query.question, query.digest)
        return self._answers


class _Part:
    """Records of one client of a simulation."""

    def __init__(self, passes: _SharedPasses, client: int) -> None:
        self.domain, self.share_bits, self.n = (
            passes.dealt.domain,
            passes.dealt.share_bits,
            passes.dealt.sizes[client],
        )
        self._passes, self._client = passes, client

    def answer(self, query: Query) -> tuple[IntArray, int]:
        """Return the client's answer, and its number of records or persons."""
        return self._passes.answers(query)[self._client], self.n
