"""Cells of a data frame's columns as numbers, text or dates.

The type of a column decides, never the value of a cell. No package is needed except the one that
made the data frame.
"""

from __future__ import annotations

import datetime as dt
import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from fastlloyd.base.arrays import RealArray
from fastlloyd.errors import DataError
from fastlloyd.records import arrow_texts
from fastlloyd.records.day_cells import DayCells
from fastlloyd.records.declared import GONE, Content, Holds, content, numbers_in
from fastlloyd.records.in_memory import FrameColumn
from fastlloyd.records.text_cells import TextCells


def own_cells(column: FrameColumn, source: str) -> RealArray | TextCells | DayCells:
    """Return the cells of a column of a data frame: numbers as float64, text or dates.

    source : name of the data frame, for error messages.

    Raises DataError for a column of anything else. The message shows no cell.
    """
    name, declared = str(column.name), column.declared
    if hasattr(declared, "pyarrow_dtype"):
        return _of_arrow(column.cells.array.__arrow_array__(), name, source)
    if hasattr(column.cells, "unify_dictionaries"):
        return _of_arrow(column.cells, name, source)
    said = content(declared)
    if said.holds is Holds.NUMBERS:
        values, _ = column.numbers()
        return np.asarray(values, dtype=np.float64)
    if said.holds is Holds.DATES:
        return _of_dates(column, said, source)
    if said.holds is Holds.CATEGORIES and hasattr(column.cells, "cat"):
        categories = getattr(column.cells.cat, "categories", None)
        if categories is not None:  # of pandas
            return _of_categories(column, list(categories), source)
    if said.holds is Holds.NOTHING:
        return TextCells.missing(len(column.cells))
    if said.holds not in (Holds.TEXT, Holds.CATEGORIES, Holds.OBJECTS):
        raise _other(name, said, source)
    return _of_objects(column.cells.to_list(), name, source)


def _of_arrow(column: Any, name: str, source: str) -> RealArray | TextCells | DayCells:
    pa = importlib.import_module("pyarrow")
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    arrow_texts.check_texts(column.type, name, source)
    whole = column.unify_dictionaries().combine_chunks()
    return arrow_texts.own_cells(whole, name, source)


def _of_dates(column: FrameColumn, said: Content, source: str) -> DayCells:
    name, declared = str(column.name), column.declared
    if getattr(declared, "tz", None) is not None or getattr(declared, "time_zone", None):
        raise _has_zone(name, source)
    times = np.asarray(column.cells.to_numpy())
    if times.dtype.kind != "M":  # times of the day, periods and durations
        raise _other(name, said, source)
    return DayCells.of_times(times)


def _of_categories(
    column: FrameColumn, categories: list[Any], source: str
) -> RealArray | TextCells | DayCells:
    if all(isinstance(text, str) for text in categories):
        return TextCells.coded(categories, column.cells.cat.codes.to_numpy())
    return _of_objects(column.cells.astype(object).to_list(), str(column.name), source)


def _of_objects(cells: Sequence[Any], name: str, source: str) -> RealArray | TextCells | DayCells:
    """Return the cells of a column of Python objects. The types of the objects decide whether they
    are numbers, text or dates.
    """
    gone = {kind for kind in set(map(type, cells)) if kind.__name__ in (*GONE, "NaTType")}
    kinds = set(map(type, cells)) - gone
    if any(issubclass(kind, float) for kind in kinds) and all(
        cell != cell  # NaN, which stands for a missing cell of any kind
        for cell in cells
        if isinstance(cell, float)
    ):
        kinds = {kind for kind in kinds if not issubclass(kind, float)}
    if not kinds:
        return TextCells.missing(len(cells))
    if all(issubclass(kind, str) for kind in kinds):
        return TextCells.of(cell if isinstance(cell, str) else None for cell in cells)
    if all(issubclass(kind, dt.date | np.datetime64) for kind in kinds):
        if any(getattr(cell, "tzinfo", None) is not None for cell in cells):
            raise _has_zone(name, source)
        there = [cell if type(cell) in kinds else None for cell in cells]
        return DayCells.of_times(np.array(there, dtype="datetime64[us]"))
    values, said = numbers_in(cells)
    if values is None:
        raise _other(name, said, source)
    return values


def _has_zone(name: str, source: str) -> DataError:
    return DataError(
        f"{source}: column {name!r} holds times with a zone; convert them to dates, or to times"
        " without a zone",
        code=Holds.DATES.value,
        field=name,
    )


def _other(name: str, said: Content, source: str) -> DataError:
    mixed = said.holds is Holds.TEXT  # beside cells of other types
    words = "text beside other values; convert all to text" if mixed else said.words
    return DataError(
        f"{source}: column {name!r} holds {words}; expected text, categories of text, numbers or"
        " dates",
        code=said.holds.value,
        field=name,
    )
