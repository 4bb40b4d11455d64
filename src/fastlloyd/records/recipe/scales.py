"""Scales of features, which convert between the units of a column and the numbers that are
clustered.
"""

from __future__ import annotations

import enum

import numpy as np
import numpy.typing as npt

from fastlloyd.records.recipe.logarithm import exponential, natural_log


class Scale(enum.Enum):
    """Relation of a feature's numbers to the units of its column."""

    LINEAR = "linear"  # the number itself
    LOG = "log"  # the natural logarithm of the number
    DAYS = "days"  # the number of days since 1 January 1970

    def to_feature(self, values: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Convert numbers in the column's units to the numbers that are clustered, float64 (n,)."""
        numbers = np.asarray(values, dtype=np.float64)
        return natural_log(numbers) if self is Scale.LOG else numbers

    def to_column(self, values: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Convert numbers that are clustered back to the column's units, float64 of the same shape.

        A date stays a number of days; `dates.date_of` makes a date of it.
        """
        numbers = np.asarray(values, dtype=np.float64)
        return exponential(numbers) if self is Scale.LOG else numbers
