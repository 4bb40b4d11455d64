"""Ways from the cells of a column to the numbers that are clustered.

A way makes one or more columns of the grid: the columns that are clustered. `found` and `numbers`
return values in the column's units. `Scale` converts them to the numbers that are clustered. Each
row's numbers depend on that row alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

import numpy as np

from fastlloyd.base.arrays import FloatArray
from fastlloyd.records.cells import Notation, floats
from fastlloyd.records.recipe.cells import CellNumbers, ColumnCells
from fastlloyd.records.recipe.checks import BOUND, COUNTS, DROP, LIMIT, LOG, MIDDLE, NONE, REFUSE
from fastlloyd.records.recipe.dates import day_of, reader_of
from fastlloyd.records.recipe.feature import Feature
from fastlloyd.records.recipe.scales import Scale

HALF = math.sqrt(0.5)
"""Weight of a category's column. It makes two categories one full range apart."""


class GridColumn(NamedTuple):
    """Column of the grid: one number of a record that is clustered.

    name : name of the column.
    lower, upper : bounds of the numbers that are clustered.
    weight : factor of distances.
    scale : scale on which the numbers of the records' column are clustered, linear or logarithmic.
    """

    name: str
    lower: float
    upper: float
    weight: float
    scale: Scale

    def clustered(self, values: FloatArray) -> FloatArray:
        """Return the numbers that are clustered, (n,), for numbers in the column's units.

        A number without a logarithm (0 or less) is below the lower bound. It becomes a number that
        is also below the lower bound. NaN and infinity stay as they are.
        """
        if self.scale is not Scale.LOG:
            return values
        found = np.full(len(values), self.lower - 1)
        unusable = ~np.isfinite(values)
        found[unusable] = values[unusable]
        there = (values > 0) & ~unusable
        found[there] = self.scale.to_feature(values[there])
        return found


class TextFormat(NamedTuple):
    """Local form of numbers and dates in text.

    decimal : decimal mark.
    thousands : mark between thousands, or "".
    dates : format of a feature's dates, by the feature's key, if it differs from the format in the
        recipe.
    gone : numbers that stand for a missing cell, such as -999.
    """

    decimal: str = "."
    thousands: str = ""
    dates: Mapping[str, str] = {}
    gone: frozenset[float] = frozenset()

    def number(self, text: str) -> float | None:
        """Return the number that a text writes. Return NaN for +nan and for a missing cell, and
        None for any other text.
        """
        try:
            (number,) = floats(Notation(self.decimal, self.thousands).in_python([text]))
        except ValueError:
            return None
        return None if math.isinf(number) else math.nan if number in self.gone else number


class Way(Protocol):
    """Conversion of one feature's cells to the numbers that are clustered."""

    @property
    def columns(self) -> tuple[GridColumn, ...]:
        """Columns of the grid that the feature has."""

    def found(self, cells: Mapping[str, ColumnCells], form: TextFormat) -> CellNumbers:
        """Return a number for each cell. For categories it is the index of the category. Raises
        DataError if the feature cannot have cells of this kind.

        cells : cells of each feature's column, by the key of the feature.
        """

    def numbers(self, found: FloatArray) -> list[FloatArray]:
        """Return the values for each column of the grid, in the column's units.

        found : result of `found`.
        """

    def gap(self) -> list[float] | None:
        """Return the numbers that are clustered in place of a missing cell, one for each column of
        the grid. Return None if missing cells are not filled in.
        """


class _Quantity:
    """Number, on a linear or a logarithmic scale."""

    def __init__(self, feature: Feature) -> None:
        self._feature = feature
        self._scale = Scale.LOG if feature.transform == LOG else Scale.LINEAR
        self._lower, self._upper = self._ends()

    def _ends(self) -> tuple[float, float]:
        lower, upper = self._feature.bounds or (0.0, 1.0)
        return float(lower), float(upper)

    @property
    def columns(self) -> tuple[GridColumn, ...]:
        lower, upper = self._scale.to_feature([self._lower, self._upper]).tolist()
        return (GridColumn(self._feature.key, lower, upper, self._feature.weight, self._scale),)

    def found(self, cells: Mapping[str, ColumnCells], form: TextFormat) -> CellNumbers:
        below = {None: None, BOUND: self._lower}.get(self._feature.below, math.nan)

        def value_of(text: str) -> float | None:
            if below is not None and text.startswith("<"):
                limit = form.number(text[1:].strip())
                return limit if limit is None or self._feature.below == LIMIT else below
            return form.number(text)

        return cells[self._feature.key].numbers(value_of)

    def numbers(self, found: FloatArray) -> list[FloatArray]:
        return [found]

    def gap(self) -> list[float] | None:
        missing, column = self._feature.missing, self.columns[0]
        if missing == MIDDLE:
            return [column.lower + (column.upper - column.lower) / 2]
        stated = self._stated(missing)
        return None if stated is None else column.clustered(np.array([stated])).tolist()

    def _stated(self, missing: float | str) -> float | None:
        return None if isinstance(missing, str) else missing


class _Date(_Quantity):
    """Date, as a number of days, or the time from it to another date."""

    def __init__(self, feature: Feature) -> None:
        super().__init__(feature)
        if feature.until is None:
            self._scale = Scale.DAYS

    def _ends(self) -> tuple[float, float]:
        if self._feature.until is not None:
            return super()._ends()
        lower, upper = self._feature.bounds or ("1970-01-01", "1970-01-02")
        return day_of(str(lower)), day_of(str(upper))

    def found(self, cells: Mapping[str, ColumnCells], form: TextFormat) -> CellNumbers:
        begin = _days(self._feature, cells, form)
        until = self._feature.until
        if until is None:
            return begin
        per = COUNTS[self._feature.count or "days"]
        try:
            return CellNumbers((day_of(until) - begin.values) / per, begin.unknown)
        except ValueError:
            end = cells[until].days(reader_of(form.dates[until]))
        return CellNumbers((end.values - begin.values) / per, begin.unknown | end.unknown)

    def _stated(self, missing: float | str) -> float | None:
        if self._feature.until is not None or missing in (DROP, REFUSE):
            return super()._stated(missing)
        return day_of(str(missing))


def _days(feature: Feature, cells: Mapping[str, ColumnCells], form: TextFormat) -> CellNumbers:
    return cells[feature.key].days(reader_of(form.dates.get(feature.key, feature.date or "")))


class _Mapped:
    """Number that the recipe states for each text."""

    def __init__(self, feature: Feature) -> None:
        self._feature, self._values = feature, dict(feature.values or ())

    @property
    def columns(self) -> tuple[GridColumn, ...]:
        numbers, weight = self._values.values(), self._feature.weight
        return (GridColumn(self._feature.key, min(numbers), max(numbers), weight, Scale.LINEAR),)

    def found(self, cells: Mapping[str, ColumnCells], _form: TextFormat) -> CellNumbers:
        return cells[self._feature.key].categories(self._values.get)

    def numbers(self, found: FloatArray) -> list[FloatArray]:
        return [found]

    def gap(self) -> list[float] | None:
        missing = self._feature.missing
        if missing == MIDDLE:
            lower, upper = min(self._values.values()), max(self._values.values())
            return [lower + (upper - lower) / 2]
        return None if isinstance(missing, str) else [missing]


class _Categories:
    """Columns of 0 and 1, one for each category."""

    def __init__(self, feature: Feature) -> None:
        self._feature = feature
        self._places = {text: float(i) for i, text in enumerate(feature.categories or ())}

    @property
    def columns(self) -> tuple[GridColumn, ...]:
        weight = self._feature.weight * HALF
        return tuple(
            GridColumn(f"{self._feature.key}={text}", 0.0, 1.0, weight, Scale.LINEAR)
            for text in self._places
        )

    def found(self, cells: Mapping[str, ColumnCells], _form: TextFormat) -> CellNumbers:
        found = cells[self._feature.key].categories(self._places.get)
        if self._feature.other == NONE:
            none = np.where(found.unknown, -1.0, found.values)
            return CellNumbers(none, found.unknown)
        return found

    def numbers(self, found: FloatArray) -> list[FloatArray]:
        gone = np.isnan(found)
        return [np.where(gone, np.nan, found == place) for place in self._places.values()]

    def gap(self) -> list[float] | None:
        missing = self._feature.missing
        if missing != NONE and missing not in self._places:
            return None
        return [float(text == missing) for text in self._places]


_WAYS: Mapping[str | None, Callable[[Feature], Way]] = {
    None: _Quantity,
    "transform": _Quantity,
    "date": _Date,
    "values": _Mapped,
    "categories": _Categories,
}


def way_of(feature: Feature) -> Way:
    """Return the object that converts the feature's cells to the numbers that are clustered."""
    return _WAYS[feature.way](feature)
