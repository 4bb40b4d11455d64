"""Declared types of columns in any library, and the kind of content that each type means.

One table serves NumPy, pandas, Polars, Arrow and Dask. So a column is a number in all inputs or in
none. Types decide, never the value of a cell. Text that consists of digits is still text. A column
of Python objects has no type of its own, so the types of its cells decide.
"""

from __future__ import annotations

import datetime as dt
import enum
import math
import numbers
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

# codes of DataError for faults of other kinds
MISSING, INFINITE, RAGGED, UNREADABLE = "missing", "infinite", "ragged", "unreadable"
INDEX, ANOTHER_ORDER, AMBIGUOUS = "index", "another-order", "ambiguous"
LAYOUT = "layout"  # the field is that of `layout.Layout`


class Holds(enum.Enum):
    """Kind of content of a column. Its value is the `code` of the DataError that refuses the
    column.
    """

    NUMBERS = "numbers"
    TEXT = "text"
    BYTES = "bytes"
    CATEGORIES = "categories"
    DATES = "dates"
    COMPLEX = "complex"
    GROUPS = "groups"
    NOTHING = "nothing"
    OBJECTS = "objects"
    OTHER = "other"


class Content(NamedTuple):
    """Content of a column.

    holds : kind of content.
    type_name : name of the type, if the kind says too little.
    """

    holds: Holds
    type_name: str = ""

    @property
    def is_numbers(self) -> bool:
        """Return whether the column can be a feature."""
        return self.holds is Holds.NUMBERS

    @property
    def words(self) -> str:
        """Words for the kind of the cells. They complete a sentence such as "column x holds
        ...".
        """
        words = _WORDS[self.holds]
        return f"{words} {self.type_name:.40}" if self.type_name else words


_WORDS = {
    Holds.NUMBERS: "numbers",
    Holds.TEXT: "text, which must first become numbers",
    Holds.BYTES: "bytes, which must first become numbers",
    Holds.CATEGORIES: "categories, which must first become numbers",
    Holds.DATES: "dates, times or durations, which must first become numbers, such as days since a"
    " fixed day",
    Holds.COMPLEX: "complex numbers, whose real and imaginary parts must first become two columns",
    Holds.GROUPS: "lists or groups of values, which must first become columns of their own",
    Holds.NOTHING: "nothing but missing cells",
    Holds.OBJECTS: "objects, which must first become numbers: some are of type",
    Holds.OTHER: "values of type",
}
# types as NumPy, pandas, Polars and Arrow spell them, in small letters, from their beginning
_SPELLED = [
    (re.compile(spelling), holds)
    for spelling, holds in {
        r"(u?int\d*|float\d*|halffloat|double|bool(ean)?|decimal\d*)\b": Holds.NUMBERS,
        r"(large_)?str(ing)?(_view|dtype)?\d*\b": Holds.TEXT,
        r"(large_|fixed_size_)?binary|bytes": Holds.BYTES,
        r"categor|enum\b|dictionary\b": Holds.CATEGORIES,
        r"date|time|duration|period|(month|day)_\w*interval": Holds.DATES,
        r"complex": Holds.COMPLEX,
        r"(large_|fixed_size_)?list|struct|map\b|array|void|(dense|sparse)_union": Holds.GROUPS,
        r"null\b": Holds.NOTHING,
        r"object\b": Holds.OBJECTS,
    }.items()
]
GONE = ("NoneType", "NAType")  # of Python and pandas


def content(declared: Any) -> Content:
    """Return the content of a column of this type, or OBJECTS if only the cells can show the
    content (`numbers_in`).

    declared : a dtype of NumPy, pandas or Polars, or a type of Arrow.
    """
    spelled = (declared.name if isinstance(declared, np.dtype) else str(declared)).lower()
    spelled = spelled.removeprefix("sparse[")
    for spelling, holds in _SPELLED:
        if spelling.match(spelled):
            return Content(holds)
    # its own name, without what stands in brackets behind it
    return Content(Holds.OTHER, re.split(r"[^\w.]", spelled.removeprefix("extension<"))[0])


def numbers_in(cells: Iterable[Any]) -> tuple[npt.NDArray[np.float64] | None, Content]:
    """Return the nearest float64 to each cell, (n,), and the content of the cells.

    A missing cell (None or NA) becomes NaN. The numbers are None if a cell has a type that is not a
    real number. Numbers are Python's, NumPy's, decimals and fractions. A number beyond float64
    becomes infinite. No method of an object is called to get its number.
    """
    cells = list(cells)
    kinds = set(map(type, cells))
    there = [kind for kind in kinds if kind.__name__ not in GONE]
    found = {_of_cell(kind) for kind in there}
    for holds in _WORST_FIRST:
        if holds in found:
            names = sorted(kind.__name__ for kind in there if _of_cell(kind) is holds)
            return None, Content(holds, names[0] if holds is Holds.OBJECTS else "")
    if cells and not there:
        return None, Content(Holds.NOTHING)
    gone = kinds - set(there)
    values = np.fromiter(
        (math.nan if type(cell) in gone else _float(cell) for cell in cells), float
    )
    return values, Content(Holds.NUMBERS)


_WORST_FIRST = (Holds.TEXT, Holds.BYTES, Holds.DATES, Holds.COMPLEX, Holds.GROUPS, Holds.OBJECTS)
_CELLS: list[tuple[tuple[type, ...], Holds]] = [
    ((str,), Holds.TEXT),
    ((bytes, bytearray, memoryview), Holds.BYTES),
    ((dt.date, dt.time, dt.timedelta, np.datetime64, np.timedelta64), Holds.DATES),
    ((numbers.Real, Decimal, np.bool_), Holds.NUMBERS),
    ((numbers.Complex,), Holds.COMPLEX),
    ((list, tuple, set, frozenset, np.ndarray, Mapping), Holds.GROUPS),
]


def _of_cell(kind: type) -> Holds:
    if kind.__name__ in ("Period", "NaTType"):  # of pandas
        return Holds.DATES
    return next((holds for kinds, holds in _CELLS if issubclass(kind, kinds)), Holds.OBJECTS)


def _float(cell: Any) -> float:
    try:
        return float(cell)
    except OverflowError:  # of Python's integers and fractions
        return math.inf if cell > 0 else -math.inf
    except ValueError:
        if isinstance(cell, Decimal) and cell.is_nan():  # one that signals
            return math.nan
        raise
