"""Random assignment of records, or of rows of persons, to the clients of a simulation.

A secret key is drawn for one run and never stored. The record with number i goes to client floor(M
u / 2**64), where u is a 64-bit word that the key assigns to i. The assignment does not depend on
any record's values or on the number of records. So adding or replacing a record leaves all others
at their clients. The guarantee of a run with missing clients needs this (docs/proofs/deal.md). If
the clients got equal numbers of records instead, one more record would move others.

The first client of a person is floor(M h), where h in [0, 1) is a keyed hash of the id. The
person's rows may be at this client and the c - 1 following ones, modulo M. A keyed hash chooses one
of these c clients for each row. It is computed from the person, the row, and the row's index among
equal rows of the person.
"""

import os
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fastlloyd.base.arrays import IntArray
from fastlloyd.base.randomness import KEY_BYTES, SecretWords, derive
from fastlloyd.errors import PlanError
from fastlloyd.mechanisms.spread import Words, hashed, numbered, ranks

Clients = NDArray[np.uint16]

_MOST_CLIENTS: Final = 1 << 15  # for which no product below leaves 64 bits
_LABEL: Final = b"fastlloyd/v1/simulation/deal/"
_HALF: Final = np.uint64(32)  # bits of half a word


class RandomAssignment:
    """Random assignment of records, or of rows of persons, to clients, the same in every pass.

    The object contains the key. Only workers that scan the records receive a copy of the object.

    n_clients : number of clients, M.
    max_clients : largest number of clients, c, that may have rows of the same person.
    random_bytes : random source of the system. Only tests and studies pass another.
    """

    __slots__ = ("_person_key", "_row_key", "_words", "max_clients", "n_clients")

    def __init__(
        self,
        n_clients: int,
        max_clients: int = 1,
        random_bytes: Callable[[int], bytes] = os.urandom,
    ) -> None:
        if not 1 <= max_clients <= n_clients <= _MOST_CLIENTS:
            raise PlanError(
                f"n_clients is {n_clients} and max_clients is {max_clients}; expected n_clients"
                f" from 1 to {_MOST_CLIENTS}, and max_clients from 1 to n_clients"
            )
        key = random_bytes(KEY_BYTES)
        self.n_clients, self.max_clients = n_clients, max_clients
        self._words = SecretWords(key, _LABEL + b"records")
        self._person_key, self._row_key = (derive(key, _LABEL + of) for of in (b"persons", b"rows"))

    def of_records(self, first: int, n: int) -> Clients:
        """Return the index of the client to which each of the n records first, first + 1, ... is
        dealt, uint16 (n,). Clients are counted from 0.
        """
        return _scaled(self._words.of(first, n), self.n_clients)

    def of_rows(self, persons: Words, hashes: Words, numbers: IntArray) -> Clients:
        """Return the index of the client to which each row is dealt, uint16 (n,), for rows that
        belong to persons. Clients are counted from 0.

        persons, hashes : results of `spread.person_hashes` and `spread.row_hashes`.
        numbers : result of `spread.numbers_among_equals`, int64 (n,).
        """
        order = np.lexsort(persons.T[::-1])
        whose, begins = numbered(persons[order]), np.empty(len(order), dtype=np.uint16)
        each = persons[order[np.flatnonzero(ranks(whose) == 0)]]
        begins[order] = _scaled(hashed(each, self._person_key), self.n_clients)[whose]
        if self.max_clients == 1:
            return begins
        rows = np.column_stack([persons, hashes, numbers.view(np.uint64)])
        further = _scaled(hashed(rows, self._row_key), self.max_clients)
        return (begins + further) % np.uint16(self.n_clients)


def rows_of_each(persons: Words) -> IntArray:
    """Return the number of rows of each person, int64 (n_persons,).

    persons : result of `spread.person_hashes`.
    """
    return np.bincount(numbered(persons[np.lexsort(persons.T[::-1])]))


def counted(n_rows: IntArray, max_clients: int) -> int:
    """Return the number of persons, each counted once for every client that may have one of the
    person's rows.

    n_rows : number of rows of each person, int64 (n_persons,).

    The result does not depend on a key, so chance does not decide whether it exceeds a cap.
    """
    return int(np.minimum(n_rows, max_clients).sum())


def _scaled(words: Words, n: int) -> Clients:
    """Return floor(n w / 2**64) for each word w. For n up to 2**15 no product exceeds 64 bits."""
    low, of = words & np.uint64(2**32 - 1), np.uint64(n)
    return (((words >> _HALF) * of + (low * of >> _HALF)) >> _HALF).astype(np.uint16)
