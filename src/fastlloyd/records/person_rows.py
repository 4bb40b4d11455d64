"""One record for each person: the rows with one id become one number for each column.

A person's record depends on that person's rows and the recipe alone. The order and the position of
the rows in the file do not matter. A mean is the correctly rounded sum divided by the number of
cells that are there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from fastlloyd.base.arrays import FloatArray
from fastlloyd.errors import DataError
from fastlloyd.records.ids import Ids, TextIds
from fastlloyd.records.recipe.rows import Using
from fastlloyd.records.record_file import RecordFile
from fastlloyd.records.table import Table, ids_of

GAP = (
    "a person has no value in any row; fill one in, or agree on what replaces it: missing ="
    ' a number, "middle" or "drop"'
)


def persons_of(file: RecordFile, using: Using) -> Table:
    """Return one record for each id. The records have the order of the persons' first rows.

    file : rows of the recipe's features (`RecipeReader`), with ids.
    using : features with `per_person`.

    Raises DataError if a person has no value for a feature whose missing values the recipe refuses,
    or if no person is left.
    """
    values, _, names = records_of_persons(file, using)
    kept = np.logical_not(np.isnan(values).any(axis=1))
    if not kept.any():
        raise DataError(
            f"{file.source}: every person lacks a value, and the recipe drops such persons, so no"
            " record is left"
        )
    return Table(
        values=values[kept],
        columns=tuple(column.name for column in using.columns),
        source=file.source,
        dropped=int(len(kept) - np.count_nonzero(kept)),
        others=file.others,
        ids=TextIds.of([text for text, keep in zip(names, kept, strict=True) if keep]),
    )


def rows_of_persons(file: RecordFile, using: Using) -> Iterator[FloatArray]:
    """Yield, in one block, the record of each row's person, (n_rows, n_features). It has NaN where
    the person has no value and the recipe drops such persons.

    The parameters and errors are those of `persons_of`.
    """
    values, persons, _ = records_of_persons(file, using)
    yield values[persons]


def records_of_persons(
    file: RecordFile, using: Using
) -> tuple[FloatArray, npt.NDArray[np.int64], list[bytes]]:
    """Return the record of each person, the index of each row's person, and the id of each person.

    A record has NaN where the person has no value and the recipe drops such persons. The parameters
    and errors are those of `persons_of`.
    """
    rows, ids = _all_rows(file)
    persons, names = _numbered(ids.texts())
    by_person = np.argsort(persons, kind="stable")
    ends = np.cumsum(np.bincount(persons))
    order = rows[-1] if using.order is not None else np.zeros(len(persons))
    columns = [
        _per_person(values, choice, order, by_person, ends)
        for values, choice in zip(rows, using.choices, strict=False)
    ]
    features = using.features_of(columns, lambda _: file.source, GAP)
    return np.stack(features, axis=1), persons, names


def _all_rows(file: RecordFile) -> tuple[list[FloatArray], Ids]:
    """Return the numbers of each column, (n,), and the ids of all rows."""
    blocks = list(file.column_blocks_with_gaps())
    ids = [found for found in map(ids_of, blocks) if found is not None]
    if not ids:
        raise DataError(
            f"{file.source}: per_person makes one record of all rows of a person, so it needs the"
            " ids; name the column of the ids as unit_column in the section [here] of the recipe"
        )
    columns = zip(*(np.asarray(block).T for block in blocks), strict=True)
    return [np.concatenate(parts) for parts in columns], type(ids[0]).joined(ids)


def _numbered(texts: list[bytes]) -> tuple[npt.NDArray[np.int64], list[bytes]]:
    """Return the index of each row's person, and the id of each person."""
    numbers: dict[bytes, int] = {}
    persons = np.array([numbers.setdefault(text, len(numbers)) for text in texts])
    return persons, list(numbers)


def _per_person(
    values: FloatArray,
    choice: str,
    order: FloatArray,
    by_person: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
) -> FloatArray:
    """Return one number for each person, NaN if all of the person's cells are missing.

    values : numbers of all rows, NaN if missing.
    choice : "mean", "first" or "last".
    order : days that order the rows, NaN if a row has none.
    by_person : rows in the order of the persons.
    ends : end of each person in `by_person`.
    """
    found, days = values[by_person].tolist(), order[by_person].tolist()
    begins = [0, *ends[:-1].tolist()]
    pick = _PICKS[choice]
    return np.array(
        [
            _mean(pick(found[begin:end], days[begin:end]))
            for begin, end in zip(begins, ends.tolist(), strict=True)
        ]
    )


def _all_there(values: list[float], _days: list[float]) -> list[float]:
    return [value for value in values if not math.isnan(value)]


def _of_day(which: Callable[[Iterable[float]], float]) -> Callable[..., list[float]]:
    def pick(values: list[float], days: list[float]) -> list[float]:
        there = [
            (day, value)
            for day, value in zip(days, values, strict=True)
            if not (math.isnan(day) or math.isnan(value))
        ]
        if not there:
            return []
        chosen = which(day for day, _ in there)
        return [value for day, value in there if day == chosen]

    return pick


_PICKS = {"mean": _all_there, "first": _of_day(min), "last": _of_day(max)}


def _mean(values: list[float]) -> float:
    """Return the mean, or NaN without values. It does not depend on the order of the values."""
    if not values:
        return math.nan
    try:
        return math.fsum(values) / len(values)
    except OverflowError:  # of the sum, or of a part of it, which depends on the order
        total = sum(map(Fraction, values))
    try:
        return float(total) / len(values)
    except OverflowError:
        return float(total / len(values))
