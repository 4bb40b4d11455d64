"""Units of the columns: the numbers that are clustered are converted back to what people wrote in
their tables.

A mean of logarithms is shown as a typical value (the geometric mean), and its interval by the two
ends. A date is shown as a date. Ends of an interval keep their order, so an interval in the units
of the column covers exactly what the interval of the numbers that are clustered covers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fastlloyd.base.precision import as_whole, decimals, measured, rounded, two_digits_up
from fastlloyd.clustering.domain import Domain
from fastlloyd.records.recipe.dates import date_of
from fastlloyd.records.recipe.scales import Scale

SIDES = 2.0
"""Half the length of an interval, in standard errors."""
_NICE = (1.0, 2.0, 5.0)
_MOST_PLACES = 9  # before or after the point


class Units:
    """Units of a column whose numbers are clustered as they are.

    The parameter `number` of a method is a number in the units in which the feature is clustered,
    such as a logarithm or a number of days. The parameter `error` is its standard error, and
    `difference` is a difference of two such numbers.
    """

    error_prefixes: tuple[str, ...] = ("se_",)
    size_prefix = ""

    def value(self, number: float) -> Any:
        """Return the value in the units of the column, unrounded. It is for programs, not for a
        screen.
        """
        return float(number)

    def text(self, number: float) -> str:
        """Return the value in the units of the column, for people."""
        return f"{number:g}"

    def tick(self, number: float) -> str:
        """Return the text next to a mark of an axis.

        number : position of the mark, in the units in which the feature is clustered.
        """
        return f"{number:,.7g}"

    def ticks(self, _low: float, _high: float, _most: int) -> list[float] | None:
        """Return the positions of the marks of an axis, in the units in which the feature is
        clustered. Return None for evenly spaced marks.
        """
        return None

    def measured(self, number: float, error: float) -> str:
        """Return the value and half the length of its interval, for people."""
        return measured(number, SIDES * error)

    def cell(self, number: float, error: float) -> Any:
        """Return the value with the digits that its error warrants, for a table."""
        return rounded(number, error)

    def errors(self, _number: float, error: float) -> list[Any]:
        """Return the uncertainty, for a table: a cell for each of `error_prefixes`."""
        return [rounded(error, error)]

    def brief(self, number: float, error: float) -> str:
        """Return the value, rounded at the first digit of its error, for readers who want few
        digits.
        """
        return _brief(number, _first_digit(error))

    def span(self, ends: tuple[float, float], _number: float, error: float) -> tuple[str, str]:
        """Return both ends of the interval of a centre, rounded outwards, for people.

        ends : ends, in the units in which the feature is clustered.
        """
        return _outwards(ends, _first_digit(error))

    def size(self, difference: float) -> float:
        """Return the size of a difference in the units of the column."""
        return abs(difference)

    def difference(self, size: float) -> float:
        """Return the difference of two clustered numbers for which `Units.size` returns this
        size.
        """
        return size

    def bar(self, half: float) -> str:
        """Return an error bar (half of an interval) as text for readers, rounded up to two
        significant digits.
        """
        return f"± {as_whole(size_up(self, half)):,g}"

    def beyond(self, difference: float) -> float:
        """Return a difference with its sign, rounded away from 0 to two significant digits."""
        return math.copysign(two_digits_up(abs(difference)), difference)


class LogUnits(Units):
    """Units of a column whose logarithms are clustered."""

    error_prefixes = ("lower_", "upper_")
    size_prefix = "factor_"

    def value(self, number: float) -> Any:
        """Return the typical value: e to the power of `number`."""
        return float(Scale.LOG.to_column(number))

    def text(self, number: float) -> str:
        """Return the typical value with four significant digits."""
        return f"{self.value(number):.4g}"

    def tick(self, number: float) -> str:
        """Return the text next to a mark of an axis.

        number : position of the mark, in the units in which the feature is clustered.
        """
        return f"{self.value(number):,.3g}"

    def ticks(self, low: float, high: float, most: int) -> list[float] | None:
        """Return marks at 1, 2 and 5 times the powers of ten, or at the powers alone if there would
        be too many. Return None if fewer than two are in the range.
        """
        tens = range(math.floor(low / math.log(10)) - 1, math.ceil(high / math.log(10)) + 2)
        for steps in (_NICE, _NICE[:1]):
            marks = [math.log(step) + ten * math.log(10) for ten in tens for step in steps]
            found = [mark for mark in marks if low <= mark <= high]
            if len(found) <= most:
                return found if len(found) > 1 else None
        return found[:: math.ceil(len(found) / most)]

    def measured(self, number: float, error: float) -> str:
        """Return the typical value, with both ends of its interval in brackets."""
        if not (math.isfinite(error) and error > 0):
            return self.text(number)
        lower, upper = (f"{end:g}" for end in self.errors(number, error))
        return f"{self.cell(number, error):g} ({lower} to {upper})"

    def cell(self, number: float, error: float) -> Any:
        """Return the typical value with the digits that the width of its interval warrants."""
        return rounded(self.value(number), self._width(number, error))

    def errors(self, number: float, error: float) -> list[Any]:
        """Return the ends of the interval."""
        width = self._width(number, error)
        return [
            as_whole(rounded(self.value(number + side * SIDES * error), width)) for side in (-1, 1)
        ]

    def brief(self, number: float, error: float) -> str:
        """Return the typical value, rounded at the first digit of its error."""
        return _brief(self.value(number), _first_digit(self._width(number, error)))

    def span(self, ends: tuple[float, float], number: float, error: float) -> tuple[str, str]:
        """Return both ends of the interval of a centre, rounded outwards."""
        low, high = map(self.value, ends)
        return _outwards((low, high), _first_digit(self._width(number, error)))

    def size(self, difference: float) -> float:
        """Return the factor between two values of the column whose logarithms differ by
        `difference`.
        """
        return float(Scale.LOG.to_column(abs(difference)))

    def difference(self, size: float) -> float:
        """Return the logarithm of the factor `size`."""
        return math.log(size)

    def bar(self, half: float) -> str:
        """Return an error bar: the factor between the middle of an interval and its ends."""
        return f"a factor of {two_digits_up(self.size(half) - 1) + 1:.3g}"

    def beyond(self, difference: float) -> float:
        """Return the factor between two values, below 1 if `difference` is negative. It is rounded
        away from 1.

        difference : difference of the logarithms of the values.
        """
        factor = two_digits_up(self.size(difference))
        return factor if difference >= 0 else rounded(1 / factor, 0.01 / factor)

    def _width(self, number: float, error: float) -> float:
        lower, upper = self.value(number - error), self.value(number + error)
        return float(upper - lower) / 2


class DayUnits(Units):
    """Units of a column of dates."""

    def value(self, number: float) -> Any:
        """Return the date as YYYY-MM-DD, or the number of days if no calendar has it."""
        date = date_of(number)
        return float(number) if date is None else date.isoformat()

    def text(self, number: float) -> str:
        """Return the date of a number of days."""
        return str(self.value(number))

    def tick(self, number: float) -> str:
        """Return the date at a mark of an axis."""
        return self.text(number)

    def measured(self, number: float, error: float) -> str:
        """Return the date, and half the length of its interval in days."""
        if not (math.isfinite(error) and error > 0):
            return self.text(number)
        days = as_whole(rounded(SIDES * error, SIDES * error))
        return f"{self.text(number)} ± {days:g} days"

    def cell(self, number: float, _error: float) -> Any:
        """Return the date of a number of days."""
        return self.text(number)

    def brief(self, number: float, _error: float) -> str:
        """Return the date of a number of days."""
        return self.text(number)

    def span(self, ends: tuple[float, float], _number: float, _error: float) -> tuple[str, str]:
        """Return the first and the last date of the interval of a centre."""
        return self.text(math.floor(ends[0])), self.text(math.ceil(ends[1]))

    def bar(self, half: float) -> str:
        """Return an error bar (half of an interval) in days."""
        return f"{super().bar(half)} days"


_UNITS = {Scale.LINEAR: Units(), Scale.LOG: LogUnits(), Scale.DAYS: DayUnits()}
EVERY = tuple(_UNITS.values())


def _first_digit(error: float) -> int | None:
    """Return the position of the first digit of an error, as a number of decimal places. Return
    None without an error.
    """
    places = decimals(error)
    return None if places is None else places - 1


def _brief(value: float, places: int | None) -> str:
    """Return a value with this number of decimal places, for people."""
    if places is None:
        return f"{value:,.4g}"
    if not -_MOST_PLACES <= places <= _MOST_PLACES:
        return f"{value:.3g}"
    return f"{round(value, places) + 0.0:,.{max(places, 0)}f}"


def _outwards(ends: tuple[float, float], places: int | None) -> tuple[str, str]:
    """Return an interval with this number of decimal places, never narrower than it is."""
    if places is None or not -_MOST_PLACES <= places <= _MOST_PLACES:
        low, high = (_brief(end, places) for end in ends)
        return low, high
    step = 10.0**-places
    first, last = math.floor(ends[0] / step) * step, math.ceil(ends[1] / step) * step
    return _brief(first, places), _brief(last, places)


def units_of(domain: Domain) -> tuple[Units, ...]:
    """Return the units of each feature."""
    return tuple(_UNITS[column.scale] for column in domain.columns)


def in_units(
    domain: Domain, centroid: Sequence[float], errors: Sequence[float] | None
) -> list[dict[str, Any]]:
    """Return a centroid in the units of its columns, as plain data (for JSON).

    errors : standard errors, or None if they are not known.
    """
    known = [math.nan] * len(centroid) if errors is None else errors
    found = []
    for units, number, error in zip(units_of(domain), centroid, known, strict=True):
        cell = {"value": units.value(number)}
        if np.isfinite(error):
            cell |= {
                "lower": units.value(number - SIDES * error),
                "upper": units.value(number + SIDES * error),
            }
        found.append(cell)
    return found


def size_up(units: Units, difference: float) -> float:
    """Return the size of a difference, rounded up to two significant digits."""
    return two_digits_up(units.size(difference))
