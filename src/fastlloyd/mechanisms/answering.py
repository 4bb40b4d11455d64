"""Answers to queries about records. The number of records is first compared with its cap.

Queries may be answered from records on this machine, or by any other object that can answer them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import ClassVar, Protocol

import numpy as np

from fastlloyd.base.arrays import GridArray, IntArray
from fastlloyd.clustering.domain import Domain
from fastlloyd.clustering.grid_records import GridRecords
from fastlloyd.clustering.grouping import grouped
from fastlloyd.errors import DataError
from fastlloyd.mechanisms.persons import RECORD, Unit
from fastlloyd.mechanisms.private_run import AnyRun
from fastlloyd.mechanisms.queries.query import MAX_BLOCK_RECORDS, Query
from fastlloyd.mechanisms.spread import Shares, shares_of, spread_key


class Records(Protocol):
    """Records of one organisation: grid points of `domain`, which answer queries with integers.

    An answer does not depend on how the records are divided into blocks.

    n : number of records, or of persons, or None until a pass has counted them. Do not publish it.
    share_bits : base-2 logarithm of a person's number of shares (`persons.py`), or 0 if single
        records are protected.
    """

    @property
    def domain(self) -> Domain: ...  # noqa: D102 - see the class
    @property
    def n(self) -> int | None: ...  # noqa: D102
    @property
    def share_bits(self) -> int: ...  # noqa: D102

    def answer(self, query: Query) -> tuple[IntArray, int]:
        """Return the exact answer, and the number of records or persons.

        The answer is int64, with the shape of the query's question.
        """


class Asked(Protocol):
    """Function of one record. Its values are summed over records. It consists of plain data, which
    can be sent to other processes.

    shape : shape of the sum.
    """

    @property
    def shape(self) -> tuple[int, ...]: ...  # noqa: D102 - see the class

    def evaluate(self, X: GridArray, first: int, /) -> IntArray:
        """Return the sum over the grid points X, int64.

        first : position of the first point of X in the pass, from 0.
        """


class _Nothing:
    """Empty sum, for a pass that only counts the records."""

    shape = (0,)

    def evaluate(self, _X: GridArray, _first: int, /) -> IntArray:
        return np.zeros(0, dtype=np.int64)


NOTHING: Asked = _Nothing()


class AllRecords(Records, Protocol):
    """Interface `Records`, with two more calls: one counts the records, and one sums any function
    of them.
    """

    def total(self, asked: Asked) -> tuple[IntArray, int]:
        """Return the sum of `asked` over the records, and the number of records, in one pass."""

    def count(self) -> int:
        """Return the number of records, by a pass that only counts.

        Call it before any sum that depends on the positions of records in the pass.
        """


class LocalRecords:
    """Records on this machine, with the interface of `AllRecords`.

    X : grid points (n, n_features) in one array, or an iterable of blocks that is read again for
        each query.

    An array is checked once and must not change. Blocks are checked in each pass, unless they are
    `GridRecords` with the same domain. Raises DataError unless X contains grid points of the
    domain.
    """

    __slots__ = ("_X", "domain", "n")
    share_bits: ClassVar[int] = 0

    def __init__(self, domain: Domain, X: GridArray | Iterable[GridArray]) -> None:
        self.domain, self._X = domain, X
        self.n: int | None = None
        if isinstance(X, np.ndarray):
            domain.check_grid(X)
            self.n = len(X)

    def answer(self, query: Query) -> tuple[IntArray, int]:
        """Return the exact answer and the number of records, in one pass.

        Raises any error of the blocks' reader.
        """
        return self.total(query)

    def total(self, asked: Asked, first: int = 0) -> tuple[IntArray, int]:
        """Return the sum of `asked` over the records, and the number of records.

        first : position of the first record in the pass, if these records are one piece of many.
        """
        n, total = 0, np.zeros(asked.shape, dtype=np.int64)
        for block in self._blocks():
            total += asked.evaluate(block, first + n)
            n += len(block)
        self.n = n
        return total, n

    def count(self) -> int:
        """Return the number of records, in one pass."""
        return self.total(NOTHING)[1]

    def _blocks(self) -> Iterator[GridArray]:
        """Yield the grid points (n_i, n_features) of all records. Raises any error of their
        reader.
        """
        if isinstance(self._X, np.ndarray):
            for start in range(0, len(self._X), MAX_BLOCK_RECORDS):
                yield self._X[start : start + MAX_BLOCK_RECORDS]
            return
        is_grid = isinstance(self._X, GridRecords) and self._X.domain == self.domain
        for block in self._X:
            if not is_grid:
                self.domain.check_grid(block)
            yield block


class SharedRecords:
    """Rows of persons in memory, with the interface of `AllRecords`. Each person has the same
    number of shares, divided among the person's rows (`persons.py`).

    In an answer, each row is multiplied by its number of shares (its weight among the rows of its
    person). Rows with the same number of shares form a group. A query is answered for each group,
    and the answer is multiplied by the group's number of shares. The result has the same integers
    as an answer row by row. If shares are spread evenly over a person's rows, there are at most
    about 2**(share_bits / 2 + 1) groups.

    n : number of persons.
    """

    __slots__ = ("_groups", "domain", "n", "share_bits")

    def __init__(
        self, domain: Domain, X: GridArray, shares: Shares, *, n_persons: int, share_bits: int
    ) -> None:
        """Group the rows X, grid points (n, n_features), by their number of shares.

        shares : number of shares of each row, uint16 (n,). Rows without shares may be left out.
        """
        self.domain, self.share_bits = domain, share_bits
        self.n: int | None = n_persons
        self._groups = [(w, LocalRecords(domain, rows)) for w, rows in grouped(X, shares) if w]

    @classmethod
    def of_persons(cls, mechanism: AnyRun, X: GridArray, ids: Sequence[bytes]) -> "SharedRecords":
        """Return all rows of some persons, each row with its number of shares.

        mechanism : mechanism that states the number of shares of a person.
        ids : id of the person of each row, as in `spread.person_hashes`.

        Raises DataError if the mechanism protects single records, because it then gives persons no
        shares.
        """
        if mechanism.persons is None:
            raise DataError(
                "the mechanism protects single records, not persons; leave the ids out, or design"
                " it for persons"
            )
        key, bits = spread_key(mechanism.seed), mechanism.share_bits
        shares, n_persons = shares_of(ids, X, key, bits)
        return cls(mechanism.domain, X, shares, n_persons=n_persons, share_bits=bits)

    def answer(self, query: Query) -> tuple[IntArray, int]:
        """Return the exact answer and the number of persons. Each row is multiplied by its number
        of shares (its weight among the rows of its person).
        """
        return self.total(query)

    def total(self, asked: Asked) -> tuple[IntArray, int]:
        """Return the sum of `asked` over the rows, and the number of persons. Each row is
        multiplied by its number of shares (its weight among the rows of its person).

        `asked` must not depend on the positions of rows in the pass.
        """
        total = np.zeros(asked.shape, dtype=np.int64)
        for shares, rows in self._groups:
            total += shares * rows.total(asked)[0]
        return total, self.count()

    def count(self) -> int:
        """Return the number of persons."""
        return self.n or 0


class CappedRecords:
    """Records that answer the queries of a mechanism.

    The records are grid points of the mechanism's domain, and persons have the mechanism's number
    of shares. The number of records is at most the cap, and is the same in every pass.

    check_cap : function that raises an error if a number of records exceeds the cap.

    Raises DataError if the domain or the number of shares differs from the mechanism's, and any
    error of check_cap.
    """

    __slots__ = ("_check_cap", "_n", "_records", "_unit")

    def __init__(
        self, records: Records, mechanism: AnyRun, check_cap: Callable[[int], None]
    ) -> None:
        if records.domain != mechanism.domain:
            raise DataError("the records are grid points of another domain than the mechanism's")
        if records.share_bits != mechanism.share_bits:
            raise DataError(
                "the mechanism and the records do not fit together: one is for persons, the other"
                " for single records"
            )
        self._records, self._check_cap, self._n, self._unit = (
            records,
            check_cap,
            records.n,
            mechanism.unit,
        )
        if self._n is not None:
            check_cap(self._n)

    def answer(self, query: Query) -> IntArray:
        """Return the exact answer, int64, with the shape of the query's question.

        Raises DataError if the number of records has changed since the last answer.
        """
        answer, n = self._records.answer(query)
        self._check_cap(n)
        if self._n not in (None, n):
            raise DataError(
                f"the number of {self._unit.many} changed between two passes; leave the file alone"
                " while it is read"
            )
        self._n = n
        return answer


def check_cap(n: int, cap: int, unit: Unit = RECORD) -> None:
    """Raise DataError if the number of records, or of persons, exceeds the cap.

    The message does not contain the number n.
    """
    if n > cap:
        raise DataError(
            f"there are more {unit.many} than the cap of {cap}, n_records; state a larger"
            f" round number, or leave {unit.many} out at random, independently of each"
            " other"
        )
