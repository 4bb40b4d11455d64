"""Persons whose rows are read again in every pass.

The rows belong to one organisation, or are dealt to the clients of a simulation.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np

from fastlloyd.base.arrays import GridArray, IntArray
from fastlloyd.clustering.grid_records import Rows
from fastlloyd.clustering.grouping import grouped
from fastlloyd.mechanisms.answering import Asked
from fastlloyd.mechanisms.deal import RandomAssignment, counted, rows_of_each
from fastlloyd.mechanisms.passes.rows import SealedRows
from fastlloyd.mechanisms.passes.scratch import (
    N_PARTS,
    Collected,
    NumbersOnDisk,
    Scratch,
    Spill,
    Words,
)
from fastlloyd.mechanisms.passes.spread import (
    HASH,
    PERSON,
    ROW,
    WIDTH,
    RowsOnDisk,
    Spreading,
    spread_in_passes,
    waiting,
)
from fastlloyd.mechanisms.private_run import AnyRun
from fastlloyd.mechanisms.queries.query import Query
from fastlloyd.mechanisms.spread import Shares, numbers_among_equals, spread_key


class PersonsInPasses:
    """Persons whose rows are read in blocks, with the interface of `AllRecords`.

    The memory used does not grow with the number of persons. Each person has the same number of
    shares, divided among the person's rows (`persons.py`). The first pass finds the number of
    shares of each row, and stores these numbers on disk. Later passes use the stored numbers. A
    pass raises DataError if its rows differ from those of the first pass, and any error of the
    reader.

    rows : blocks of grid points with ids.
    run : mechanism that gives the number of shares of a person and the seed.
    source : name of the rows, for error messages.
    """

    def __init__(self, rows: Rows, run: AnyRun, *, source: str) -> None:
        self.domain, self.share_bits = rows.domain, run.share_bits
        self._rows, self._key = SealedRows(rows, source), spread_key(run.seed)
        self._spread: tuple[NumbersOnDisk, int] | None = None

    @property
    def n(self) -> int | None:
        """Number of persons, or None before the first pass. Do not publish it."""
        return None if self._spread is None else self._spread[1]

    def answer(self, query: Query) -> tuple[IntArray, int]:
        """Return the exact answer and the number of persons, in one pass. Each row is multiplied by
        its number of shares (its weight among the rows of its person).
        """
        return self.total(query)

    def count(self) -> int:
        """Return the number of persons."""
        return self._first()[1]

    def total(self, asked: Asked) -> tuple[IntArray, int]:
        """Return the sum of `asked` over the rows, and the number of persons. Each row is
        multiplied by its number of shares (its weight among the rows of its person).

        `asked` must not depend on the positions of rows in the pass.
        """
        shares, n = self._first()
        total, n_shares = np.zeros(asked.shape, dtype=np.int64), 0
        for first, X in self._rows.again():
            of_rows = shares.of(first, len(X))
            total += in_shares(asked, X, of_rows)
            n_shares += int(of_rows.sum(dtype=np.int64))
        if n_shares != n << self.share_bits:
            raise self._rows.changed()
        return total, n

    def _first(self) -> tuple[NumbersOnDisk, int]:
        """Return the number of shares of each row, and the number of persons. The first call reads
        all rows and keeps the result for later calls.
        """
        self._spread = self._spread or spread_in_passes(
            self._rows.first(), self._key, self.share_bits
        )
        return self._spread


class DealtPersons:
    """Persons whose rows are read in passes, each with rows at one or more clients of a simulation.

    A person has the full number of shares at every client, divided among the person's rows there.
    The first pass is made when the object is made.

    sizes : number of persons of each client.
    n_counted : upper bound on the sum of `sizes`. Each person counts once for every client that may
        have one of the person's rows.
    domain, share_bits : as in `answering.Records`.

    Raises DataError if a later pass reads other rows or the disk is full, and any error of the
    rows' reader.
    """

    def __init__(self, rows: Rows, run: AnyRun, deal: RandomAssignment, *, source: str) -> None:
        self.domain, self.share_bits = rows.domain, run.share_bits
        self._rows = SealedRows(rows, source)
        key = spread_key(run.seed)
        scratch = Scratch()
        try:
            n_rows, parts = waiting(scratch, self._rows.first(), key)
            dealing = _Dealing(scratch, n_rows, self.share_bits, deal)
            for part in parts:
                dealing.settle(part, 1)
        finally:
            scratch.close()
        self.sizes: tuple[int, ...] = tuple(dealing.sizes.tolist())
        self.n_counted = dealing.n_counted
        self._shares, self._clients = dealing.shares.on_disk(), dealing.clients.on_disk()

    def answers(self, query: Query) -> list[IntArray]:
        """Return the exact answer of each client, in one pass.

        Each is int64, with the shape of the query's question.
        """
        found, n_shares = [np.zeros(query.shape, dtype=np.int64) for _ in self.sizes], 0
        for first, X in self._rows.again():
            shares, clients = (
                numbers.of(first, len(X)) for numbers in (self._shares, self._clients)
            )
            of_clients = grouped(shares.astype(np.int32)[:, np.newaxis], clients)
            for (client, rows), (_, of_rows) in zip(grouped(X, clients), of_clients, strict=True):
                found[client] += in_shares(query, rows, of_rows[:, 0].astype(np.uint16))
            n_shares += int(shares.sum(dtype=np.int64))
        if n_shares != sum(self.sizes) << self.share_bits:
            raise self._rows.changed()
        return found


class _Dealing(Spreading):
    """Deals the rows of persons to clients: finds the client of each row, and the number of shares
    that the row has there.

    clients : receives the index of the client of each row.
    sizes : number of persons that each client has so far, int64 (n_clients,).
    n_counted : as in `DealtPersons`.
    """

    def __init__(
        self, scratch: Scratch, n_rows: int, weight_bits: int, deal: RandomAssignment
    ) -> None:
        super().__init__(scratch, Collected(n_rows), weight_bits)
        self.clients, self.sizes = Collected(n_rows), np.zeros(deal.n_clients, dtype=np.int64)
        self.n_counted = 0
        self._deal, self._dealt = deal, scratch

    def whole_persons(self, words: Words) -> int:
        """Find the client and the number of shares of each of these rows, which are all rows of
        some persons. Return the number of persons.
        """
        persons, hashes = words[:, PERSON], words[:, HASH]
        clients = self._deal.of_rows(persons, hashes, numbers_among_equals(persons, hashes))
        for client in np.unique(clients):
            mine = words[clients == client]
            self.sizes[client] += super().whole_persons(mine)
            self._note(client, mine)
        n_rows = rows_of_each(persons)
        self.n_counted += counted(n_rows, self._deal.max_clients)
        return len(n_rows)

    def one_person(self, part: RowsOnDisk) -> int:
        """Choose the client of each row of a person with many rows, and compute the row's number of
        shares. Return the number of persons in the part, 1.
        """
        dealt, found = Spill(self._dealt, WIDTH + 1), set[int]()
        for words, numbers in self.numbered(part):
            clients = self._deal.of_rows(words[:, PERSON], words[:, HASH], numbers)
            found.update(np.unique(clients).tolist())
            dealt.add(
                (clients % N_PARTS).astype(np.uint8),
                np.column_stack([words, clients.astype(np.uint64)]),
            )
        for client in sorted(found):
            pieces = partial(_of_client, dealt, client)
            self.sizes[client] += super().one_person(RowsOnDisk(sum(map(len, pieces())), pieces))
            for mine in pieces():
                self._note(client, mine)
        self.n_counted += counted(np.array([part.n_rows]), self._deal.max_clients)
        return 1

    def _note(self, client: int, words: Words) -> None:
        self.clients.add(words[:, ROW], np.full(len(words), client, dtype=np.uint16))


def _of_client(dealt: Spill, client: int) -> Iterator[Words]:
    """Yield those of one person's rows that were dealt to one client."""
    for words in dealt.rows(client % N_PARTS):
        mine = words[words[:, -1] == client, :-1]
        if len(mine):
            yield mine


def in_shares(asked: Asked, X: GridArray, shares: Shares) -> IntArray:
    """Return the sum of `asked` over the rows X. Each row is multiplied by its number of shares
    (its weight among the rows of its person).
    """
    total = np.zeros(asked.shape, dtype=np.int64)
    for share, rows in grouped(X, shares):
        if share:
            total += share * asked.evaluate(rows, 0)
    return total
