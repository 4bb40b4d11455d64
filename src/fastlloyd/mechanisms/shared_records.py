"""Records of persons: every row answers once for each of its shares."""

from collections.abc import Sequence

import numpy as np

from fastlloyd.base.arrays import IntArray
from fastlloyd.clustering.domain import Domain, GridArray
from fastlloyd.clustering.grouping import grouped
from fastlloyd.errors import DataError
from fastlloyd.mechanisms.answering import Asked, LocalRecords
from fastlloyd.mechanisms.private_run import AnyRun
from fastlloyd.mechanisms.queries.query import Query
from fastlloyd.mechanisms.spread import Shares, shares_of, spread_key


class SharedRecords:
    """`AllRecords` of persons: rows X, grid points (n, n_features), with so many shares each, in memory.

    An answer is linear in the shares. So rows with equal shares are kept together, each such group answers as records do, and
    its answer is multiplied: the same exact integers as row by row, by the code that answers for records. There are at most
    about 2**(share_bits / 2 + 1) groups where shares are spread evenly over a person's rows.

    n : the number of persons.
    """

    __slots__ = ("_groups", "domain", "n", "share_bits")

    def __init__(self, domain: Domain, X: GridArray, shares: Shares, *, n_persons: int, share_bits: int) -> None:
        """shares : uint16 (n,), of the rows in their order; rows without any may be left out before."""
        self.domain, self.share_bits = domain, share_bits
        self.n: int | None = n_persons
        self._groups = [(w, LocalRecords(domain, rows)) for w, rows in grouped(X, shares) if w]

    @classmethod
    def of_persons(cls, mechanism: AnyRun, X: GridArray, ids: Sequence[bytes]) -> "SharedRecords":
        """All rows of persons who are told apart by ids, as of `spread.person_hashes`, with the shares of the mechanism.

        Raises DataError for a mechanism that protects single records: ids would give some of them none.
        """
        if mechanism.persons is None:
            raise DataError("the mechanism protects single records, not persons; leave the ids out, or design it for persons")
        key, bits = spread_key(mechanism.seed), mechanism.share_bits
        shares, n_persons = shares_of(ids, X, key, bits)
        return cls(mechanism.domain, X, shares, n_persons=n_persons, share_bits=bits)

    def answer(self, query: Query) -> tuple[IntArray, int]:
        """See `answering.Records`."""
        return self.total(query)

    def total(self, asked: Asked) -> tuple[IntArray, int]:
        """See `answering.AllRecords`; rows have no numbers."""
        total = np.zeros(asked.shape, dtype=np.int64)
        for shares, rows in self._groups:
            total += shares * rows.total(asked)[0]
        return total, self.count()

    def count(self) -> int:
        """The number of persons."""
        return self.n or 0
