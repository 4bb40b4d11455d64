"""Numbers of records and of values outside the bounds.

They are exact, so only the owner of the records may see them. No file, page, picture or log
contains the numbers, and no representation of an object shows them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from fastlloyd.base.arrays import IntArray

OFTEN = Fraction(2, 100)  # of the values of a feature: from here on its owner is warned


class OutsideMarks(NamedTuple):
    """Marks of values outside the bounds.

    records : whether each record has such a value, bool (n,).
    counts : number of such values of each feature, int64 (n_features,).
    """

    records: NDArray[np.bool_]
    counts: IntArray

    @classmethod
    def none(cls, n: int, n_features: int) -> Self:
        """Return marks of n records without a value outside the bounds."""
        return cls(np.zeros(n, dtype=np.bool_), np.zeros(n_features, dtype=np.int64))


@dataclass(frozen=True, slots=True, kw_only=True)
class Clipped:
    """Numbers of records and of values outside the bounds. Do not publish them.

    n_records : number of records.
    n_outside : number of records with a value outside the bounds.
    counts : number of values outside the bounds, for each feature. Empty before a record was read.
    """

    n_records: int = field(default=0, repr=False)
    n_outside: int = field(default=0, repr=False)
    counts: tuple[int, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, marks: OutsideMarks) -> Self:
        """Return the numbers of records and of values outside the bounds in one block."""
        return cls(
            n_records=len(marks.records),
            n_outside=int(np.count_nonzero(marks.records)),
            counts=tuple(marks.counts.tolist()),
        )

    def __add__(self, other: "Clipped") -> "Clipped":
        """Return the sums of the numbers in both objects."""
        if not self.counts or not other.counts:
            return self if self.counts else other
        return Clipped(
            n_records=self.n_records + other.n_records,
            n_outside=self.n_outside + other.n_outside,
            counts=tuple(a + b for a, b in zip(self.counts, other.counts, strict=True)),
        )

    def often(self, features: Sequence[str]) -> dict[str, float]:
        """Return the share of values outside the bounds, for each feature with 2 % or more
        of them.
        """
        return {
            name: count / self.n_records
            for name, count in zip(features, self.counts, strict=False)
            if count and Fraction(count, self.n_records) >= OFTEN
        }
