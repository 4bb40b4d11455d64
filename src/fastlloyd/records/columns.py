"""Choice of columns, by name or by content (all columns of numbers)."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Collection, Sequence
from typing import Final

from fastlloyd.base.names import listing, nearest_name, refuse_repeated
from fastlloyd.errors import DataError
from fastlloyd.records.declared import INDEX

# how pandas stores an index that has no name in Parquet, and calls it when it reads it from CSV
_PANDAS_INDEX = re.compile(r"__index_level_\d+__|Unnamed: \d+(\.\d+)?(_level_\d+)?")

_SEPARATORS = re.compile(r"[;,\t|]")
# it may be a record, so it is not shown
_ONE_NAME = "; the only name looks like several cells, so state what separates cells (--separator)"


class ColumnKind(enum.Enum):
    """Choice of columns by their content, not by name."""

    NUMERIC = "columns of numbers, according to the format or to the first records of a text file"


NUMERIC: Final = ColumnKind.NUMERIC
Columns = Sequence[str] | ColumnKind | None


def chosen(
    names: Sequence[str],
    columns: Columns,
    source: str,
    where: str,
    is_number: Callable[[int], bool] = lambda _: True,
    unit: str | None = None,
    index: Collection[str] = (),
) -> list[int]:
    """Return the positions of the chosen columns among all `names`.

    A column without a name is an index that a program wrote. It may be left out, but is never used
    as a feature by default. The same is true of the column of the ids, and of columns that the
    source marks as an index.

    columns : names, None for all columns, or NUMERIC for all columns of numbers.
    source, where : for error messages, the name of the source, and the part of the source that
        contains the column names.
    is_number : function that returns whether the column at a position has numbers.
    unit : name of the column of the ids, or None.
    index : names of the columns that the source marks as an index.

    Raises DataError for a name that is unknown or repeated, and if no column is left.
    """
    refuse_repeated([name for name in names if name], f"{source}, the {where}")
    if columns is None or columns is NUMERIC:
        if not names:
            raise DataError(f"{source}: there are no columns")
        for number, name in enumerate(names, 1):
            if is_index(name) and name != unit:
                given = f" of its own ({name!r})" if name else ""
                raise DataError(
                    f"{source}: column {number} has no name{given}; if it is the index of a pandas"
                    " frame, write the file with index=False, or choose the other columns with"
                    " --columns; otherwise name it",
                    code=INDEX,
                    field=name,
                )
        stored = [name for name in names if name in index and name != unit]
        if stored and columns is None:
            raise DataError(
                f"{source}: column {stored[0]!r} was the index of a pandas frame; write the frame"
                " again with index=False (if the index is a feature, call reset_index() first), or"
                " choose columns with --columns",
                code=INDEX,
                field=stored[0],
            )
        indices = [
            i
            for i in range(len(names))
            if names[i] != unit and names[i] not in stored and (columns is None or is_number(i))
        ]
        if not indices:
            raise DataError(
                f"{source}: no column contains numbers; its columns are {listing(names)}"
            )
        return indices
    if not columns:
        raise DataError(f"{source}: no columns are chosen; choose from {listing(names)}")
    refuse_repeated(columns, "the chosen columns")
    if unit in columns:
        raise DataError(
            f"{source}: column {unit!r} has the ids of persons (--unit-column), so it cannot be a"
            " feature; choose others"
        )
    return [place(names, name, source) for name in columns]


def is_index(name: str) -> bool:
    """Return whether a column has no name, or the name that pandas gives to an index without a
    name.
    """
    return not name or bool(_PANDAS_INDEX.fullmatch(name))


_HERE = ". Correct the name (in a recipe: the name of your column in the table [here])"


def place(names: Sequence[str], name: str, source: str) -> int:
    """Return the position of the column `name` among all `names`, from 0. Raises DataError if there
    is no such column.
    """
    if not name or name not in names:
        known = [other for other in names if other]
        those = f"{nearest_name(name, known)}; the columns are {listing(known)}{_HERE}"
        raise DataError(
            f"{source}: there is no column {name!r}{_ONE_NAME if _holds_several(known) else those}"
        )
    return names.index(name)


def _holds_several(names: Sequence[str]) -> bool:
    """Return whether there is one name, which looks like several names that were not separated."""
    return len(names) == 1 and bool(_SEPARATORS.search(names[0]))


def unit_place(names: Sequence[str], unit: str | None, source: str) -> int | None:
    """Return the position of the column of the ids among all `names`, or None without ids.

    Raises DataError if there is no such column.
    """
    return None if unit is None else place(names, unit, source)


def numbered(n: int) -> list[str]:
    """Return the names x1, x2, ... for n columns without names."""
    return [f"x{i}" for i in range(1, n + 1)]
