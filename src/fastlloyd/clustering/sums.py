"""Sums of integer vectors by label, which compiled code adds up."""

import numpy as np
from numpy.typing import NDArray

from fastlloyd.base.arrays import IntArray

MASKED_CLUSTERS = 20  # up to here each vector is added to all sums, to those of others as 0


class ClusterSums:
    """Sums and counts (k, d + 1) of vectors with coordinates up to `largest`, in int32 as long as they fit.

    shape : k and d. by_feature : how the vectors lie in memory.
    """

    def __init__(self, shape: tuple[int, int], largest: int, *, by_feature: bool) -> None:
        from fastlloyd.clustering.compiled import sums

        k, d = shape
        self._by_label = (sums.add_masked if k <= MASKED_CLUSTERS else sums.add_features) if by_feature else sums.add_rows
        self._part, self._others = np.zeros((k + 1, d + 1), dtype=np.int32), list[IntArray]()
        self._room = self._left = max(1, ((1 << 31) - 1) // max(largest, 1))

    def add(self, Z: NDArray[np.int32], start: int, labels: NDArray[np.int32]) -> None:
        """Add the vectors of Z, (n, d) or by feature (d, n), from `start` on; those labelled k count nowhere."""
        for first in range(0, len(labels), self._room):
            some = labels[first : first + self._room]
            if self._left < len(some):
                self._others = [self._whole()]
                self._part[:] = 0
                self._left = self._room
            self._left -= len(some)
            self._by_label(Z, start + first, some, self._part)

    def totals(self) -> IntArray:
        """Sums and counts of all that was added."""
        return self._whole()[:-1]

    def _whole(self) -> IntArray:
        return sum(self._others, start=self._part.astype(np.int64))
