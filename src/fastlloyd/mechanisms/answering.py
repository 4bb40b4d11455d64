"""Who answers queries: the records of one holder, in an array or in blocks of a file, never more than the cap."""

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from fastlloyd.base.arrays import IntArray
from fastlloyd.clustering.domain import Domain, GridArray
from fastlloyd.clustering.grid_records import GridRecords
from fastlloyd.errors import DataError
from fastlloyd.mechanisms.queries.query import MAX_BLOCK_RECORDS, Query


class Records:
    """Grid points (n, n_features) of one holder: one array, or blocks of them that are read anew for each query.

    An array is looked at once and must stay as it is; blocks are looked at each time, except those of `GridRecords` under the
    same domain, which are grid points by the way they are made. check_cap : refuses a number of records above the cap. Raises
    DataError when X is not made of grid points of the domain, and whatever check_cap raises.
    """

    __slots__ = ("_X", "_check_cap", "_domain", "_n")

    def __init__(self, domain: Domain, X: GridArray | Iterable[GridArray], check_cap: Callable[[int], None]) -> None:
        self._domain, self._X, self._check_cap = domain, X, check_cap
        self._n: int | None = None
        if isinstance(X, np.ndarray):
            domain.check_grid(X)
            check_cap(len(X))

    def answer(self, query: Query) -> IntArray:
        """The exact answer, int64 of the shape of its question. DataError if the number of records changed since the last."""
        n, answer = 0, np.zeros(query.question.shape, dtype=np.int64)
        for block in self._blocks():
            answer += query.evaluate(block)
            n += len(block)
            self._check_cap(n)
        if self._n not in (None, n):
            raise DataError("the number of records changed between two passes; leave the file alone while it is read")
        self._n = n
        return answer

    def _blocks(self) -> Iterator[GridArray]:
        if isinstance(self._X, np.ndarray):
            for start in range(0, len(self._X), MAX_BLOCK_RECORDS):
                yield self._X[start : start + MAX_BLOCK_RECORDS]
            return
        is_grid = isinstance(self._X, GridRecords) and self._X.domain == self._domain
        for block in self._X:
            if not is_grid:
                self._domain.check_grid(block)
            yield block


def check_cap(n: int, cap: int) -> None:
    """Refuse more records than the cap; the message does not say how many there are."""
    if n > cap:
        raise DataError(
            f"there are more records than the cap of {cap}; agree on a higher cap (n_records), or leave records out at random"
        )
