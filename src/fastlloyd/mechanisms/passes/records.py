"""Persons whose rows are read anew in every pass."""

import numpy as np

from fastlloyd.base.arrays import IntArray
from fastlloyd.clustering.domain import GridArray
from fastlloyd.clustering.grid_records import Rows
from fastlloyd.clustering.grouping import grouped
from fastlloyd.mechanisms.answering import Asked
from fastlloyd.mechanisms.passes.numbers import NumbersOnDisk
from fastlloyd.mechanisms.passes.rows import SealedRows
from fastlloyd.mechanisms.passes.spread import spread_in_passes
from fastlloyd.mechanisms.private_run import AnyRun
from fastlloyd.mechanisms.queries.query import Query
from fastlloyd.mechanisms.spread import Shares, spread_key


class PersonsInPasses:
    """`AllRecords` of persons whose rows are read in blocks with ids, in memory that does not grow with their number.

    The first pass finds the shares of each row, which wait on disk. Every pass after it answers, unless its rows are not those
    of the first. A pass raises what reading the rows raises, and DataError. source : of the rows, for messages.
    """

    def __init__(self, rows: Rows, run: AnyRun, *, source: str) -> None:
        self.domain, self.share_bits = rows.domain, run.share_bits
        self._rows, self._key = SealedRows(rows, source), spread_key(run.seed)
        self._spread: tuple[NumbersOnDisk, int] | None = None

    @property
    def n(self) -> int | None:
        """The number of persons, None before the first pass: private."""
        return None if self._spread is None else self._spread[1]

    def answer(self, query: Query) -> tuple[IntArray, int]:
        """See `answering.Records`."""
        return self.total(query)

    def count(self) -> int:
        """See `answering.AllRecords`: the number of persons."""
        return self._first()[1]

    def total(self, asked: Asked) -> tuple[IntArray, int]:
        """See `answering.AllRecords`; rows have no numbers."""
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
        """The shares of all rows, and the number of persons: one pass, the first time."""
        self._spread = self._spread or spread_in_passes(self._rows.first(), self._key, self.share_bits)
        return self._spread


def in_shares(asked: Asked, X: GridArray, shares: Shares) -> IntArray:
    """What is asked of rows X, added up once for each of their shares."""
    total = np.zeros(asked.shape, dtype=np.int64)
    for share, rows in grouped(X, shares):
        if share:
            total += share * asked.evaluate(rows, 0)
    return total
