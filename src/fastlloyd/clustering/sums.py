"""Sums of integer vectors by label, which compiled code adds up."""

import numpy as np
from numpy.typing import NDArray

from fastlloyd.base.arrays import IntArray

MASKED_CLUSTERS = 24  # up to here each vector is added to all sums, to those of others as 0


class ClusterSums:
    """Sums and counts (k, d + 1) of vectors with coordinates up to `largest`; on the way, sums of
    some of them are of 32 bits.

    shape : k and d. by_feature : how the vectors lie in memory.
    """

    def __init__(self, shape: tuple[int, int], largest: int, *, by_feature: bool) -> None:
        from fastlloyd.clustering.compiled import sums

        k, d = shape
        self._by_label = (
            (sums.add_masked if k <= MASKED_CLUSTERS else sums.add_features)
            if by_feature
            else sums.add_rows
        )
        self._room = (max(1, ((1 << 31) - 1) // max(largest, 1)),) if by_feature else ()
        self._totals = np.zeros((k + 1, d + 1), dtype=np.int64)

    def add(self, Z: NDArray[np.int32], start: int, labels: NDArray[np.int32]) -> None:
        """Add the vectors of Z, (n, d) or by feature (d, n), from `start` on; those labelled k
        count nowhere.
        """
        self._by_label(Z, start, labels, self._totals, *self._room)

    def totals(self) -> IntArray:
        """Sums and counts of all that was added."""
        return self._totals[:-1]
