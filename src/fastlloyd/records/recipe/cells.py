"""Cells of a column, as a recipe reads them: numbers, text or days.

A feature asks for the kind that it needs. Text becomes a number or a date only if the recipe says
how. Other cells of the wrong kind are refused: a number is not a date, and a date is not a number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from fastlloyd.base.arrays import FloatArray
from fastlloyd.errors import DataError
from fastlloyd.records.day_cells import DayCells
from fastlloyd.records.declared import Holds
from fastlloyd.records.text_cells import TextCells

_EXACT: Final = 2.0**53  # from here on, whole numbers can be rounded
ValueOf = Callable[[str], float | None]


class CellNumbers(NamedTuple):
    """Numbers of a column's cells.

    values : float64 (n,), with NaN for a missing cell and for a cell that the recipe does not know.
    unknown : whether the recipe does not know a cell, bool (n,).
    """

    values: FloatArray
    unknown: npt.NDArray[np.bool_]

    def __repr__(self) -> str:
        """Return a text without any cell."""
        return "CellNumbers(...)"


class ColumnCells(Protocol):
    """Interface of the cells of one column, whatever they are: numbers, dates or text."""

    def __len__(self) -> int:
        """Number of rows."""

    def numbers(self, value_of: ValueOf) -> CellNumbers:
        """Return the cells of the column as numbers.

        value_of : function that reads a number from the text of a cell.

        Raises DataError if cells of this kind cannot be numbers.
        """

    def categories(self, value_of: ValueOf) -> CellNumbers:
        """Return, for each cell, the number of its category.

        value_of : function that returns the number for the text of a category.

        Raises DataError if cells of this kind cannot be categories.
        """

    def days(self, value_of: ValueOf) -> CellNumbers:
        """Return the cells of the column as dates, in days since 1 January 1970.

        value_of : function that reads a date from the text of a cell.

        Raises DataError if cells of this kind cannot be dates.
        """


class NumberCells(NamedTuple):
    """Cells that are numbers, float32 or float64 (n,), NaN if missing."""

    values: npt.NDArray[np.floating]

    def __repr__(self) -> str:
        """Return a text without any cell."""
        return "NumberCells(...)"

    def __len__(self) -> int:
        """Number of rows."""
        return int(self.values.shape[0])

    def numbers(self, value_of: ValueOf) -> CellNumbers:  # noqa: ARG002 - they are numbers
        """Return the numbers as float64. No value changes, because they are float32 or float64."""
        return _known(self.values.astype(np.float64))

    def categories(self, value_of: ValueOf) -> CellNumbers:
        """Return, for each cell, the number of its category.

        The category of a cell is found by the number as text (`digits`): without a decimal point if
        it is whole, otherwise in its shortest decimal form. Raises DataError for infinity, and for
        a number so long that its digits may have been rounded.
        """
        there = ~np.isnan(self.values)
        distinct, codes = np.unique(self.values[there].astype(np.float64), return_inverse=True)
        if (np.abs(distinct) >= _EXACT).any():
            raise DataError(
                "the column holds numbers of 16 digits or more, which may have been rounded, so"
                " they cannot be compared with texts; convert the column to text",
                code=Holds.NUMBERS.value,
            )
        places = np.full(len(self), -1, dtype=np.int32)
        places[there] = codes
        return CellNumbers(
            *TextCells([digits(value) for value in distinct.tolist()], places).mapped(value_of)
        )

    def days(self, value_of: ValueOf) -> CellNumbers:  # noqa: ARG002
        """Raise DataError, because a number is not a date."""
        raise _wrong_kind(Holds.NUMBERS, "numbers", "dates")


class DateCells(NamedTuple):
    """Cells that are dates."""

    cells: DayCells

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.cells)

    def numbers(self, value_of: ValueOf) -> CellNumbers:  # noqa: ARG002
        """Raise DataError, because a date is not a number."""
        raise _wrong_kind(Holds.DATES, "dates", "numbers")

    def categories(self, value_of: ValueOf) -> CellNumbers:  # noqa: ARG002
        """Raise DataError, because a date is not a category."""
        raise _wrong_kind(Holds.DATES, "dates", "text")

    def days(self, value_of: ValueOf) -> CellNumbers:  # noqa: ARG002 - they are days
        """Return the cells as days since 1 January 1970."""
        return _known(self.cells.days)


class WordCells(NamedTuple):
    """Cells that are text."""

    cells: TextCells

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.cells)

    def numbers(self, value_of: ValueOf) -> CellNumbers:
        """Return the cells as numbers, which `value_of` reads from their texts."""
        return CellNumbers(*self.cells.mapped(value_of))

    def categories(self, value_of: ValueOf) -> CellNumbers:
        """Return, for each cell, the number that `value_of` gives for its text."""
        return CellNumbers(*self.cells.mapped(value_of))

    def days(self, value_of: ValueOf) -> CellNumbers:
        """Return the cells as days, which `value_of` reads from their texts."""
        return CellNumbers(*self.cells.mapped(value_of))


def digits(value: float) -> str:
    """Return a number as text: a whole one without a point, any other in its shortest form."""
    return str(int(value)) if value == math.floor(value) and abs(value) < _EXACT else repr(value)


def _known(values: FloatArray) -> CellNumbers:
    return CellNumbers(values, np.zeros(len(values), dtype=bool))


def _wrong_kind(holds: Holds, what: str, expected: str) -> DataError:
    return DataError(
        f"the column holds {what}, and the recipe expects {expected}", code=holds.value
    )


def cells_of(cells: Any) -> ColumnCells:
    """Return the cells of one column of a `CellBlock`."""
    if isinstance(cells, TextCells):
        return WordCells(cells)
    return DateCells(cells) if isinstance(cells, DayCells) else NumberCells(cells)
