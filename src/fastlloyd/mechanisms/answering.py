"""Who answers queries: the records of one holder, however they are held, and never more of them than the cap."""

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import numpy as np

from fastlloyd.base.arrays import IntArray
from fastlloyd.clustering.domain import Domain, GridArray
from fastlloyd.clustering.grid_records import GridRecords
from fastlloyd.errors import DataError
from fastlloyd.mechanisms.queries.query import MAX_BLOCK_RECORDS, Query


class Records(Protocol):
    """Records of one holder, grid points of `domain`, which answer queries: integers, which no split of the records changes.

    n : how many records there are, None until a pass has counted them (a private number).
    """

    @property
    def domain(self) -> Domain: ...  # noqa: D102 - see the class
    @property
    def n(self) -> int | None: ...  # noqa: D102

    def answer(self, query: Query) -> tuple[IntArray, int]:
        """The exact answer, int64 of the shape of its question, and how many records gave it."""


class LocalRecords:
    """`Records` on this machine: grid points X (n, n_features) in one array, or in blocks that are read anew for each query.

    An array is looked at once and must stay as it is; blocks are looked at each time, except those of `GridRecords` under the
    same domain, which are grid points by the way they are made. Raises DataError when X is not made of grid points.
    """

    __slots__ = ("_X", "domain", "n")

    def __init__(self, domain: Domain, X: GridArray | Iterable[GridArray]) -> None:
        self.domain, self._X = domain, X
        self.n: int | None = None
        if isinstance(X, np.ndarray):
            domain.check_grid(X)
            self.n = len(X)

    def answer(self, query: Query) -> tuple[IntArray, int]:
        """See `Records`: one pass. Raises what reading the blocks raises."""
        n, answer = 0, np.zeros(query.question.shape, dtype=np.int64)
        for block in self.blocks():
            answer += query.evaluate(block)
            n += len(block)
        self.n = n
        return answer, n

    def count(self) -> int:
        """How many records there are, by a pass that answers nothing. Raises what reading the blocks raises."""
        self.n = sum(map(len, self.blocks()))
        return self.n

    def blocks(self) -> Iterator[GridArray]:
        """Grid points (n_i, n_features) of all records. Raises what reading them raises."""
        if isinstance(self._X, np.ndarray):
            for start in range(0, len(self._X), MAX_BLOCK_RECORDS):
                yield self._X[start : start + MAX_BLOCK_RECORDS]
            return
        is_grid = isinstance(self._X, GridRecords) and self._X.domain == self.domain
        for block in self._X:
            if not is_grid:
                self.domain.check_grid(block)
            yield block


class CappedRecords:
    """Records that answer a mechanism: grid points of its domain, no more than the cap, and as many in every pass.

    check_cap : raises for a number of records above the cap. Raises DataError, and whatever check_cap raises.
    """

    __slots__ = ("_check_cap", "_n", "_records")

    def __init__(self, records: Records, domain: Domain, check_cap: Callable[[int], None]) -> None:
        if records.domain != domain:
            raise DataError("the records are grid points of another domain than that of the mechanism")
        self._records, self._check_cap, self._n = records, check_cap, records.n
        if self._n is not None:
            check_cap(self._n)

    def answer(self, query: Query) -> IntArray:
        """The exact answer, int64 of the shape of its question. DataError if the number of records changed since the last."""
        answer, n = self._records.answer(query)
        self._check_cap(n)
        if self._n not in (None, n):
            raise DataError("the number of records changed between two passes; leave the file alone while it is read")
        self._n = n
        return answer


def check_cap(n: int, cap: int) -> None:
    """Refuse more records than the cap; the message does not say how many there are."""
    if n > cap:
        raise DataError(
            f"there are more records than the cap of {cap}; agree on a higher cap (n_records), or leave records out at random"
        )
