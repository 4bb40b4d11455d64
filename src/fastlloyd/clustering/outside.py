"""Numbers of records and of values outside the bounds: exact, so only for the owner of the records.

No file, page, picture or log contains them, and no representation of an object shows them.
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
    """Marks of records with a value outside the bounds, bool (n,), and numbers of such values,
    int64 (n_features,).
    """

    records: NDArray[np.bool_]
    counts: IntArray

    @classmethod
    def none(cls, n: int, n_features: int) -> Self:
        """Marks of n records, none of them outside."""
        return cls(np.zeros(n, dtype=np.bool_), np.zeros(n_features, dtype=np.int64))


@dataclass(frozen=True, slots=True, kw_only=True)
class Clipped:
    """Number of records, number with a value outside the bounds, and number of such values of each
    feature. Before any record is seen, it has no features.
    """

    n_records: int = field(default=0, repr=False)
    n_outside: int = field(default=0, repr=False)
    counts: tuple[int, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, marks: OutsideMarks) -> Self:
        """Numbers of one block of records."""
        return cls(
            n_records=len(marks.records),
            n_outside=int(np.count_nonzero(marks.records)),
            counts=tuple(marks.counts.tolist()),
        )

    def __add__(self, other: "Clipped") -> "Clipped":
        """Numbers of both."""
        if not self.counts or not other.counts:
            return self if self.counts else other
        return Clipped(
            n_records=self.n_records + other.n_records,
            n_outside=self.n_outside + other.n_outside,
            counts=tuple(a + b for a, b in zip(self.counts, other.counts, strict=True)),
        )

    def often(self, features: Sequence[str]) -> dict[str, float]:
        """Return the shares of values outside the bounds, for features with 2 % or more of them."""
        return {
            name: count / self.n_records
            for name, count in zip(features, self.counts, strict=False)
            if count and Fraction(count, self.n_records) >= OFTEN
        }
