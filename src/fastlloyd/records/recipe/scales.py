"""Scales of features, which convert between the units of a column and the numbers that are
clustered, and natural logarithms that are the same on every machine.

A logarithm is rounded to the nearest multiple of 2**-32. The multiple is a function of the number
alone: the system's logarithm, whose last digits differ between machines, only proposes it. If the
proposal lies so close to a border between two multiples that its error could matter, decimal
arithmetic decides. No tie is possible, because the logarithm of a positive fraction other than 1 is
not rational.
"""

from __future__ import annotations

import decimal
import enum
from typing import Final

import numpy as np
import numpy.typing as npt


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


STEP: Final = 2.0**-32
"""Step of rounded logarithms: each is a multiple of it."""
# NumPy refuses changes with an error of 4 units in the last place or more; twice that is doubted
_DOUBTED: Final = 8
_DIGITS: Final = 60


def natural_log(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the natural logarithm of each number, rounded to a multiple of `STEP`.

    values : float64 (n,), finite and above 0.
    """
    scaled = np.log(values) / STEP
    steps = np.rint(scaled)
    from_border = 0.5 - np.abs(scaled - steps)
    doubted = from_border <= _DOUBTED * np.spacing(np.abs(scaled))
    distinct, places = np.unique(values[doubted], return_inverse=True)
    steps[doubted] = np.array(list(map(_steps, distinct.tolist())), dtype=np.float64)[places]
    return np.asarray(steps * STEP)


def exponential(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return e to the power of each value, float64 of the same shape. A number that is too large
    becomes infinite.
    """
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(values))


def _steps(value: float) -> int:
    """Return the logarithm of a number in units of `STEP`, rounded to the nearest integer."""
    digits = _DIGITS
    while True:
        with decimal.localcontext(prec=digits):
            scaled = decimal.Decimal(value).ln() * (1 << 32)
            steps = scaled.to_integral_value(decimal.ROUND_HALF_EVEN)
            from_border = abs(abs(scaled - steps) - decimal.Decimal("0.5"))
            # the error is below a unit of the last digit, of 13 before the point at most
            if from_border > decimal.Decimal(10) ** (16 - digits):
                return int(steps)
        digits *= 2
