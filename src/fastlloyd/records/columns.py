"""Which columns are meant."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Sequence
from typing import Final

from fastlloyd.base.names import listing, nearest_name, refuse_repeated
from fastlloyd.errors import DataError

_PANDAS_INDEX = re.compile(r"__index_level_\d+__")  # how pandas stores an index that has no name


class Kind(enum.Enum):
    """Columns that are chosen by what they hold, not by name."""

    NUMERIC = "numbers, as the format says, or the first records of a text file"


NUMERIC: Final = Kind.NUMERIC
Columns = Sequence[str] | Kind | None


def chosen(
    names: Sequence[str], columns: Columns, source: str, where: str, is_number: Callable[[int], bool] = lambda _: True
) -> list[int]:
    """Indices of `columns` among all `names`; of all columns for None; of those that `is_number` takes for NUMERIC.

    A column without a name is an index that some program wrote: it can be left out, but is never taken for a feature unasked.
    Raises DataError, which says `where` in the `source` the names stand, for a name that is unknown or repeated, and where no
    column is left.
    """
    refuse_repeated([name for name in names if name], f"{source}, the {where}")
    if columns is None or columns is NUMERIC:
        if not names:
            raise DataError(f"{source}: there are no columns")
        for number, name in enumerate(names, 1):
            if not name or _PANDAS_INDEX.fullmatch(name):
                raise DataError(
                    f"{source}: column {number} has no name; if it is the index of a pandas frame, write the file with "
                    "index=False, or choose the other columns with --columns; otherwise name it"
                )
        indices = [i for i in range(len(names)) if columns is None or is_number(i)]
        if not indices:
            raise DataError(f"{source}: no column holds numbers; there are {listing(names)}")
        return indices
    if not columns:
        raise DataError(f"{source}: no columns are chosen; there are {listing(names)}")
    refuse_repeated(columns, "the chosen columns")
    index = {name: i for i, name in enumerate(names) if name}
    for name in columns:
        if name not in index:
            known = list(index)
            raise DataError(f"{source}: there is no column {name!r}{nearest_name(name, known)}; there are {listing(known)}")
    return [index[name] for name in columns]


def numbered(n: int) -> list[str]:
    """Names for columns that have none: x1, x2, ..."""
    return [f"x{i}" for i in range(1, n + 1)]
