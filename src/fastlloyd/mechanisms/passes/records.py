"""Persons whose rows are read anew in every pass."""

from collections.abc import Callable, Iterator

import numpy as np

from fastlloyd.base.arrays import IntArray
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import GridArray
from fastlloyd.clustering.grid_records import GridRecords
from fastlloyd.clustering.grouping import grouped
from fastlloyd.errors import DataError
from fastlloyd.mechanisms.answering import Asked
from fastlloyd.mechanisms.mechanism import Mechanism
from fastlloyd.mechanisms.passes.seal import Seal
from fastlloyd.mechanisms.passes.shares import SharesOnDisk
from fastlloyd.mechanisms.passes.spread import spread_in_passes
from fastlloyd.mechanisms.queries.query import Query
from fastlloyd.mechanisms.spread import Shares, spread_key
from fastlloyd.records.ids import Ids

Report = Callable[[int], None]


def silent(_n_rows: int) -> None:
    """Tell nobody."""


class PersonsInPasses:
    """`AllRecords` of persons: rows on the grid, which are read in blocks with ids, in memory that does not grow with them.

    The first pass finds the shares of each row, which wait on disk. Every pass after it answers, unless its rows are not those
    of the first. A pass raises what reading the rows raises, what `report` raises, and DataError.

    Parameters
    ----------
    rows : read with a column of ids.
    mechanism : whose shares are spread.
    source : of the rows, for messages.
    report : is told how many rows of a pass were read.
    """

    def __init__(self, rows: GridRecords, mechanism: Mechanism, *, source: str, report: Report = silent) -> None:
        self.domain, self.share_bits = rows.domain, mechanism.share_bits
        self._rows, self._source, self._report = rows, source, report
        self._seal = Seal(source)
        self._key = spread_key(PublicSeed.from_hex(mechanism.public_seed))
        self._spread: tuple[SharesOnDisk, int] | None = None

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
        for X, of_rows in self._later_pass(shares):
            for share, rows in grouped(X, of_rows):
                if share:
                    total += share * asked.evaluate(rows, 0)
            n_shares += int(of_rows.sum(dtype=np.int64))
        if n_shares != n << self.share_bits:
            raise self._seal.broken()
        return total, n

    def _first(self) -> tuple[SharesOnDisk, int]:
        """The shares of all rows, and the number of persons: one pass, the first time."""
        self._spread = self._spread or spread_in_passes(self._first_pass(), self._key, self.share_bits)
        return self._spread

    def _first_pass(self) -> Iterator[tuple[GridArray, Ids]]:
        """All rows, which are sealed, and whose they are."""
        sealing, n_rows = self._seal.over(), 0
        for X, ids in self._rows.with_ids():
            if ids is None:
                raise DataError(f"{self._source}: the mechanism protects persons, and the records were read without ids")
            sealing.add(X, ids)
            n_rows += len(X)
            self._report(n_rows)
            yield X, ids
        sealing.close()

    def _later_pass(self, shares: SharesOnDisk) -> Iterator[tuple[GridArray, Shares]]:
        """All rows, each with its shares. Raises DataError in the end if they are not those of the first pass."""
        sealing, n_rows = self._seal.over(), 0
        for X, ids in self._rows.with_ids():
            if ids is not None:  # else the points are those of the first pass, kept
                sealing.add(X, ids)
            if n_rows + len(X) > shares.n_rows:
                raise self._seal.broken()
            yield X, shares.of(n_rows, len(X))
            n_rows += len(X)
            self._report(n_rows)
        if not self._rows.are_kept:
            sealing.close()
