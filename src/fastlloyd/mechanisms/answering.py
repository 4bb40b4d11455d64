"""Answers to queries from records on one machine or in any other form, at most as many as the
cap.
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
    """Records of one organisation, grid points of `domain`, which answer queries with integers.

    No split of the records changes an answer.

    n : number of records, or of persons, None until a pass has counted them (a private number).
    share_bits : a person has 2**share_bits shares, or 0 if single records are protected.
    """

    @property
    def domain(self) -> Domain: ...  # noqa: D102 - see the class
    @property
    def n(self) -> int | None: ...  # noqa: D102
    @property
    def share_bits(self) -> int: ...  # noqa: D102

    def answer(self, query: Query) -> tuple[IntArray, int]:
        """Return the exact answer, int64 of the shape of its question, and the number of records,
        or persons, in it.
        """


class Asked(Protocol):
    """Function to sum over records, as plain data. shape : of the sum."""

    @property
    def shape(self) -> tuple[int, ...]: ...  # noqa: D102 - see the class

    def evaluate(self, X: GridArray, first: int, /) -> IntArray:
        """Return the sum over grid points X, int64.

        first : number of the first point in a pass, from 0.
        """


class _Nothing:
    """Request for nothing but the number of records."""

    shape = (0,)

    def evaluate(self, _X: GridArray, _first: int, /) -> IntArray:
        return np.zeros(0, dtype=np.int64)


NOTHING: Asked = _Nothing()


class AllRecords(Records, Protocol):
    """`Records` that can be asked more than queries."""

    def total(self, asked: Asked) -> tuple[IntArray, int]:
        """Return the sum over the records in one pass, and the number of records."""

    def count(self) -> int:
        """Return the number of records, by a pass that asks for nothing else. Requests that need
        this number come after it.
        """


class LocalRecords:
    """`AllRecords` on this machine: grid points X (n, n_features) in one array, or in blocks that
    are read again for each query.

    An array is checked once and must not change. Blocks are checked each time, except those of
    `GridRecords` under the same domain, which are grid points already. Raises DataError if X is not
    made of grid points.
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
        """Return the exact answer and the number of records, in one pass. Errors in reading the
        blocks pass through.
        """
        return self.total(query)

    def total(self, asked: Asked, first: int = 0) -> tuple[IntArray, int]:
        """Return the sum over the records, and their number.

        first : number of the first record, if these are a piece of others.
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
        """Yield grid points (n_i, n_features) of all records. Errors in reading them pass
        through.
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
    """`AllRecords` of persons: rows X, grid points (n, n_features), in memory. Each row counts once
    for each of its shares.

    An answer is linear in the shares. So rows with equal shares are kept together, each such group
    answers as records do, and its answer is multiplied: the same exact integers as row by row, by
    the code that answers for records. There are at most about 2**(share_bits / 2 + 1) groups if
    shares are spread evenly over a person's rows.

    n : the number of persons.
    """

    __slots__ = ("_groups", "domain", "n", "share_bits")

    def __init__(
        self, domain: Domain, X: GridArray, shares: Shares, *, n_persons: int, share_bits: int
    ) -> None:
        """shares : uint16 (n,), of the rows in their order; rows without shares may be omitted."""
        self.domain, self.share_bits = domain, share_bits
        self.n: int | None = n_persons
        self._groups = [(w, LocalRecords(domain, rows)) for w, rows in grouped(X, shares) if w]

    @classmethod
    def of_persons(cls, mechanism: AnyRun, X: GridArray, ids: Sequence[bytes]) -> "SharedRecords":
        """Return all rows of persons, told apart by ids as in `spread.person_hashes`, with the
        shares of the mechanism.

        Raises DataError for a mechanism that protects single records: some rows would get no share.
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
        """Return the exact answer, with each row counted once for each of its shares, and the
        number of persons.
        """
        return self.total(query)

    def total(self, asked: Asked) -> tuple[IntArray, int]:
        """Return the sum over the rows, each counted once for each of its shares; rows have no
        numbers.
        """
        total = np.zeros(asked.shape, dtype=np.int64)
        for shares, rows in self._groups:
            total += shares * rows.total(asked)[0]
        return total, self.count()

    def count(self) -> int:
        """Return the number of persons."""
        return self.n or 0


class CappedRecords:
    """Records that answer `mechanism`: grid points of its domain, with its shares, at most as many
    as the cap, and the same number in every pass.

    check_cap : raises an error for a number of records above the cap. Raises DataError, and any
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
                "the mechanism protects persons and the records have no shares of persons, or the"
                " other way round"
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
        """Return the exact answer, int64 of the shape of its question.

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
    """Raise DataError if there are more records, or persons, than the cap. The message does not
    tell their number.
    """
    if n > cap:
        raise DataError(
            f"there are more {unit.many} than the cap of {cap}, n_records; state a larger"
            f" round number, or leave {unit.many} out at random, independently of each"
            " other"
        )
