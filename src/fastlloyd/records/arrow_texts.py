"""Columns of Arrow data, read as they are: numbers, text, categories of numbers or text, and
dates.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from fastlloyd.base.arrays import RealArray
from fastlloyd.errors import DataError
from fastlloyd.records.arrow_numbers import numbers_or_nan
from fastlloyd.records.day_cells import DayCells, day_cells
from fastlloyd.records.declared import Holds, content
from fastlloyd.records.ids import BROKEN
from fastlloyd.records.text_cells import TextCells


def check_texts(kind: Any, name: str, source: str) -> None:
    """Raise DataError unless cells of this Arrow type can be read as numbers, text, categories or
    dates.

    name : name of the column, for error messages.
    """
    types = importlib.import_module("pyarrow.types")
    said = content(kind.value_type if types.is_dictionary(kind) else kind)
    is_readable = said.holds in (Holds.NUMBERS, Holds.TEXT, Holds.DATES, Holds.NOTHING)
    if not is_readable or types.is_duration(kind) or types.is_time(kind):
        raise DataError(
            f"{source}: column {name!r} holds {said.words}; expected text, categories of text,"
            " numbers or dates",
            code=said.holds.value,
            field=name,
        )


def own_cells(array: Any, name: str, source: str) -> RealArray | TextCells | DayCells:
    """Return the cells of an Arrow array as numbers, text or dates. The type of the array decides.

    name : name of the column, for error messages.
    """
    types = importlib.import_module("pyarrow.types")
    holds = content(array.type).holds
    if holds is Holds.DATES:
        return day_cells(array, name, source)
    if holds is Holds.NOTHING:
        return TextCells.missing(len(array))
    if holds is Holds.NUMBERS:
        return np.asarray(numbers_or_nan(array), dtype=np.float64)
    if types.is_dictionary(array.type) and content(array.type.value_type).holds is not Holds.TEXT:
        return own_cells(array.dictionary_decode(), name, source)
    if not _is_unicode(array.dictionary if types.is_dictionary(array.type) else array):
        raise DataError(f"{source}: column {name!r} holds {BROKEN}", field=name)
    return text_cells(array)


def _is_unicode(array: Any) -> bool:
    """Return whether an Arrow array of text is valid UTF-8, which Arrow does not check by itself.

    Python's own error would show the cell.
    """
    try:
        array.validate(full=True)
    except ValueError:
        return False
    return True


def text_cells(array: Any, words: frozenset[str] = frozenset()) -> TextCells:
    """Return the cells of an Arrow array of text or of categories of text.

    words : as in `TextCells.of`.
    """
    pa = importlib.import_module("pyarrow")
    coded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    cells = coded.dictionary.cast(pa.string()).to_pylist()
    codes = coded.indices.cast(pa.int32()).fill_null(-1).to_numpy(zero_copy_only=False)
    return TextCells.coded(cells, codes, words)
