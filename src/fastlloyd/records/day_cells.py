"""Cells that are dates, as days since 1 January 1970."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fastlloyd.errors import DataError
from fastlloyd.records.declared import Holds

_UNITS_OF_A_DAY: Final = {
    "s": 86_400,
    "ms": 86_400 * 10**3,
    "us": 86_400 * 10**6,
    "ns": 86_400 * 10**9,
}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DayCells:
    """Cells of one column as days. The repr shows no cell.

    days : float64 (n,), NaN for a missing cell. A time of the day is a fraction of the day.
    """

    days: npt.NDArray[np.float64]

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self.days)

    @property
    def gaps(self) -> npt.NDArray[np.float64]:
        """Array (n,) with NaN for each missing cell, and some number for any other."""
        return self.days

    @classmethod
    def of_times(cls, times: npt.NDArray[Any]) -> DayCells:
        """Return the cells of an array of datetime64, (n,), with NaT for a missing cell."""
        unit, count = np.datetime_data(times.dtype)
        if unit not in _UNITS_OF_A_DAY:
            times, unit, count = times.astype("datetime64[s]"), "s", 1
        # a whole day and a part of it, so that the sum is that of a date in text
        days, part = np.divmod(times.astype(np.int64) * count, _UNITS_OF_A_DAY[unit])
        return cls(np.where(np.isnat(times), np.nan, days + part / _UNITS_OF_A_DAY[unit]))


def day_cells(array: Any, name: str, source: str) -> DayCells:
    """Return the cells of an Arrow array of dates, or of times without a zone.

    name : name of the column, for error messages.

    Raises DataError for times with a zone, which are on two dates at once.
    """
    if getattr(array.type, "tz", None) is not None:
        raise DataError(
            f"{source}: column {name!r} holds times with a zone; convert them to dates, or to times"
            " without a zone",
            code=Holds.DATES.value,
            field=name,
        )
    return DayCells.of_times(array.to_numpy(zero_copy_only=False))
