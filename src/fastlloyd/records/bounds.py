"""Public bounds of features, as people write them. Also bounds that are taken from the data, which
reveal something about the records.
"""

import json
import math
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tomli_w

from fastlloyd.base.names import listing, refuse_repeated, shown, split_list, unknown_name
from fastlloyd.base.numerals import real
from fastlloyd.errors import DataError, PlanError
from fastlloyd.records.declared import AMBIGUOUS, Holds, content
from fastlloyd.records.files import opened
from fastlloyd.records.in_memory import frame_of, guarded, matrix
from fastlloyd.records.labels import labels_of

Bounds = tuple[npt.ArrayLike, npt.ArrayLike] | Mapping[str, tuple[float, float]]
"""Bounds as programs pass them: (lower, upper), or a pair for each column by its name. In (lower,
upper), each is a number, an array (n_features,) or a Series labelled by column.
"""

_Interval = tuple[float, float]

TEMPLATE_HEADING = "# Public bounds"  # how every template begins
# TOML, so that the file can be read, and no numbers, so that it cannot be used
_BLANKS = ["LOWER", "UPPER"]
_ROWS_JOINED = 64
_NOT_NEEDED = (math.nan, math.nan)  # of a column that is not used, where nothing was filled in
_ADVICE = """ of the columns of a file of records, in the units of the file.
#
# Replace "LOWER" and "UPPER" by two numbers for every column that you use; lines of other columns
# may stay as they are. Bounds are published with the result, so they must not come from the
# records: not their smallest and largest values, nor anything else computed from them. Use what is
# known without them: the range of the instrument, the definition of the quantity (a share lies
# between 0 and 1), the literature, the admission criteria of the study.
# Values outside are clipped to the bounds, or refused with --outside refuse. Bounds much wider than
# the records cost accuracy.

[bounds]
"""


def parse_bounds(
    text: str, columns: Sequence[str], others: Sequence[str] | None = ()
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the public bounds of `columns`: lower and upper, float64 (n_features,) each.

    text : "LO:HI" for every column, or "name=LO:HI,name2=LO:HI", or the path of a TOML file. The
        table [bounds] of the file has `name = [lo, hi]` or `name = {lower = lo, upper = hi}`.
    columns : names of the features.
    others : names of columns that are not used. Bounds may be stated for them too, so that one list
        of bounds serves every choice of columns. None if no table with other columns is known. A
        file with bounds for all of `columns` may then also have any other names.

    Raises DataError unless every column has two finite numbers, the lower one first. Also raises
    DataError for an unknown name.
    """
    given = _stated(text, columns)
    if others is None:
        others = (
            list(given) if text.lower().endswith(".toml") and given.keys() >= set(columns) else []
        )
    _check_names(given, columns, others)
    for name in columns:
        _check_interval(repr(name), *given[name])
    limits = np.array([given[name] for name in columns], dtype=np.float64).reshape(-1, 2)
    return limits[:, 0].copy(), limits[:, 1].copy()


def check_names_of_bounds(text: str, columns: Sequence[str], others: Sequence[str]) -> None:
    """Raise DataError if bounds are stated for a name that is not a column.

    The text is as in `parse_bounds`. Columns may lack bounds.
    """
    _check_known(_stated(text, columns), columns, others)


def named_columns(text: str) -> tuple[list[str], list[str]]:
    """Return the names of the columns with bounds, and the names of the columns whose blanks were
    not filled in. Both are empty if the same bounds apply to every column.

    The text is as in `parse_bounds`. Raises DataError if it cannot be bounds.
    """
    if "=" not in text and not text.lower().endswith(".toml"):
        return [], []
    given = _stated(text, ())
    blank = [name for name, ends in given.items() if ends is _NOT_NEEDED]
    return [name for name in given if name not in blank], blank


def check_intervals(text: str) -> None:
    """Raise DataError if bounds are wrong for any columns, for example if a lower bound is above
    the upper one.

    text : as in `parse_bounds`.
    """
    if "=" not in text and not text.lower().endswith(".toml"):
        _check_interval("every column", *_stated(text, [""])[""])
        return
    for name, ends in _stated(text, ()).items():
        if ends is not _NOT_NEEDED:
            _check_interval(repr(name), *ends)


def bounds_template(columns: Sequence[str]) -> str:
    """Return a TOML file for `parse_bounds`, with a line to fill in for each column.

    It contains names of columns, and nothing computed from records.
    """
    return (
        TEMPLATE_HEADING
        + _ADVICE
        + "".join(f"{key} = {json.dumps(_BLANKS)}\n" for key in _keys(columns))
    )


def bounds_file(bounds: Mapping[str, Sequence[Any]], remarks: Sequence[str]) -> str:
    """Return a TOML file for `parse_bounds` with the bounds found.

    bounds : lower and upper bound of each column.
    remarks : sentences, which become comments of one line each.
    """
    lines = (
        f"{key} = [{low!r}, {high!r}]\n"
        for key, (low, high) in zip(_keys(bounds), bounds.values(), strict=True)
    )
    return commented(remarks) + "\n[bounds]\n" + "".join(lines)


def commented(lines: Iterable[str]) -> str:
    """Return lines as comments of a TOML file."""
    return "".join(f"# {line}\n" for line in lines)


def _keys(columns: Iterable[str]) -> Iterator[str]:
    """Return the names of columns as TOML keys."""
    return (tomli_w.dumps({name: 0}).rpartition(" = ")[0] for name in columns)


def given_bounds(
    bounds: Any, columns: Sequence[str] | None, n_features: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the public bounds that a program passes: lower and upper, float64 (n_features,) each.

    bounds : a pair (lower, upper), or {name: (lower, upper)} for all `columns`. In the pair, each
        of lower and upper is a number, an array-like (n_features,), or a pandas Series labelled by
        column.
    columns : names of the columns, or None if the records have none.

    Raises DataError for names that are missing, unknown or unusable. Raises PlanError for a value
    that is not a pair of numbers, or that may be read in two ways (AMBIGUOUS). `Domain` checks that
    each lower bound is below its upper bound.
    """
    return guarded(lambda: _given(bounds, columns, n_features), "bounds")


def _given(
    bounds: Any, columns: Sequence[str] | None, n_features: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    if isinstance(bounds, Mapping):
        if columns is None:
            raise DataError(
                "bounds are given by column name, but X has no column names; pass a data frame"
                " whose column names are text, or (lower, upper)"
            )
        _check_names(bounds, columns)
        pairs = [_pair(bounds[name], None, 1, f"bounds of {name!r} are") for name in columns]
        lower, upper = np.concatenate(pairs, axis=1)
        return lower, upper
    _refuse_two_ways(bounds, n_features)
    return _pair(bounds, columns, n_features, "bounds are")


def _refuse_two_ways(bounds: Any, n_features: int) -> None:
    """Raise PlanError for bounds with two possible meanings: (lower, upper), or one pair for each
    feature.

    A tuple always means (lower, upper).
    """
    two_ways = ""
    if frame_of(bounds) is not None:
        two_ways = "a data frame"
    elif labels_of(bounds) is not None:
        two_ways = "one labelled Series"
    elif isinstance(bounds, Set):
        two_ways = "a set, which has no order"
    elif n_features == 2 and not isinstance(bounds, tuple) and _shape(bounds) == (2, 2):
        two_ways = "a list of two pairs" if isinstance(bounds, list) else "two rows of two numbers"
        two_ways += ", which may mean a pair for each feature or (lower, upper)"
    if two_ways:
        raise PlanError(
            f"bounds are {two_ways}; pass a dict {{name: (lower, upper)}}, or a tuple (lower,"
            " upper) of lists, of arrays or of Series labelled by column",
            code=AMBIGUOUS,
        )


def _shape(values: Any) -> tuple[int, ...] | None:
    with suppress(TypeError, ValueError):  # rows of different lengths
        return tuple(np.shape(values))
    return None


def _pair(
    ends: Any, columns: Sequence[str] | None, length: int, what: str
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    pair = None
    with suppress(TypeError, ValueError):
        lower, upper = ends
        pair = lower, upper
    if pair is not None:
        pair = _by_label(pair, columns)
        with suppress(TypeError, ValueError, OverflowError):  # DataError is one
            return _ends(pair[0], length), _ends(pair[1], length)
    arrays = f" or arrays of length {length}, the number of features of X" if length > 1 else ""
    by_row = length > 2 and _shape(ends) == (length, 2)
    hint = (
        "; if the array has a row for each feature, pass (rows[:, 0], rows[:, 1])" if by_row else ""
    )
    raise PlanError(f"{what} not a pair (lower, upper) of numbers{arrays}, got {shown(ends)}{hint}")


def _by_label(pair: tuple[Any, Any], columns: Sequence[str] | None) -> tuple[Any, Any]:
    """Return the lower and the upper ends. Ends with labels are put in the order of the columns.

    Raises DataError for labels that are not columns.
    """
    labels = [labels_of(end) for end in pair]
    if all(each is None for each in labels):
        return pair
    if any(each is None and _shape(end) != () for each, end in zip(labels, pair, strict=True)):
        raise PlanError(
            "only one of the lower and upper bounds is labelled, so their columns may be"
            " in different orders; pass both as Series labelled by column, or a dict"
            " {name: (lower, upper)}",
            code=AMBIGUOUS,
        )
    if columns is None:
        raise DataError(
            "bounds are labelled, but X has no column names; pass a data frame whose column names"
            " are text, or bounds as arrays",
            code=AMBIGUOUS,
        )
    lower, upper = (
        end if each is None else _reordered(each, list(end), columns)
        for each, end in zip(labels, pair, strict=True)
    )
    return lower, upper


def _reordered(labels: Sequence[Any], values: Sequence[Any], columns: Sequence[str]) -> list[Any]:
    names = list(map(str, labels))
    refuse_repeated(names, "labels of bounds")
    by_name = dict(zip(names, values, strict=True))
    _check_names(by_name, columns)
    return [by_name[name] for name in columns]


def _ends(given: Any, length: int) -> npt.NDArray[np.float64]:
    """Return one end of the bounds, float64 (length,). It is given as one number for all features,
    or one for each feature.

    Raises ValueError for anything else, and for text.
    """
    declared = getattr(given, "dtype", None)
    if declared is not None and content(declared).holds not in (Holds.NUMBERS, Holds.OBJECTS):
        raise ValueError  # NumPy would take categories of numbers for numbers
    ends = matrix(given, "bounds")
    if ends.shape not in ((), (length,)):
        raise ValueError
    return np.broadcast_to(ends.astype(np.float64), (length,))


def _check_names(
    given: Mapping[str, object], columns: Sequence[str], others: Sequence[str] = ()
) -> None:
    _check_known(given, columns, others)
    if missing := [name for name in columns if name not in given]:
        raise DataError(f"bounds are missing for {listing(missing)}; every column needs bounds")


def _check_known(
    given: Mapping[str, object], columns: Sequence[str], others: Sequence[str]
) -> None:
    known = [*columns, *others]
    missing = [name for name in columns if name not in given]
    for name in given:
        if name not in known:
            fault = f"bounds: column {unknown_name(str(name), known)}"
            if not missing:
                raise DataError(fault)
            raise DataError(
                f"{fault}. Bounds are missing for {listing(missing)}; correct the name if it is"
                " misspelt"
            )


def _stated(text: str, columns: Sequence[str]) -> dict[str, _Interval]:
    if text.lower().endswith(".toml"):
        return _bounds_in_toml(text, columns)
    if "=" not in text:
        return dict.fromkeys(columns, _interval(text, "every column", ", or a file NAME.toml"))
    items = split_list(text)
    for item in items:
        if "=" not in item:
            raise DataError(
                f"bounds: {item!r} is not NAME=LO:HI, such as age=0:120; if a name has a comma, put"
                " double quotes around the whole item, or use a TOML file"
            )
    pairs = [item.rpartition("=") for item in items]
    refuse_repeated([name.strip() for name, _, _ in pairs], f"bounds {text!r}")
    return {
        name.strip(): _interval(interval.strip(), repr(name.strip())) for name, _, interval in pairs
    }


def _bounds_in_toml(path: str, columns: Sequence[str]) -> dict[str, _Interval]:
    with opened(Path(path)) as text:
        content = text.read()
        try:
            bounds = tomllib.loads(content).get("bounds")
        except (
            ValueError,
            RecursionError,
        ) as error:  # TOMLDecodeError is a ValueError, as is a number of too many digits
            raise DataError(f"{path}: not a TOML file ({error})") from None
    if not isinstance(bounds, dict):
        raise DataError(
            f"{path}: a table [bounds] with a line such as age = [0, 120] for every column is"
            " needed"
        )
    used = set(columns)
    return {
        name: (
            _NOT_NEEDED
            if ends == _BLANKS and name not in used
            else _interval_in_toml(ends, f"{name!r} in {path}")
        )
        for name, ends in bounds.items()
    }


def _interval_in_toml(ends: object, where: str) -> _Interval:
    if isinstance(ends, dict) and ends.keys() == {"lower", "upper"}:
        ends = [ends["lower"], ends["upper"]]
    if ends == _BLANKS:
        raise DataError(
            f"bounds of {where} are not filled in yet: write two public numbers in place of LOWER"
            " and UPPER"
        )
    if isinstance(ends, list) and len(ends) == 2 and all(type(end) in (int, float) for end in ends):
        with suppress(OverflowError):  # TOML's integers have no limit
            return float(ends[0]), float(ends[1])
    raise DataError(
        f"bounds of {where}: expected two numbers, [lo, hi] or {{lower = lo, upper = hi}}"
    )


def _interval(text: str, where: str, instead: str = "") -> _Interval:
    with suppress(ValueError):
        lower, upper = map(real, text.split(":"))
        return lower, upper
    raise DataError(
        f"bounds of {where}: expected LO:HI, two numbers such as 0:120{instead}, got {text!r}"
    )


def _check_interval(where: str, lower: float, upper: float) -> None:
    if not math.isfinite(upper - lower):
        raise DataError(
            f"bounds of {where}: both must be finite, and so must their difference; got"
            f" {lower}:{upper}"
        )
    if lower > upper:
        raise DataError(
            f"bounds of {where} are reversed: write {upper}:{lower}, the lower one first"
        )
    if lower == upper:
        raise DataError(
            f"bounds of {where} are equal, and a feature whose bounds are equal carries no"
            " information: drop the column or widen its bounds"
        )


def data_bounds(
    blocks: Iterable[npt.ArrayLike],
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the smallest and the largest value of each feature, float64 (n_features,) each.

    A constant feature gets room on both sides. The results are exact. A run that uses them as
    public bounds reveals them.

    blocks : records (n_i, n_features), at least one.
    """
    tables = (np.asarray(block) for block in blocks)
    ends = [
        np.array([_over_records(of, X) for of in (np.min, np.max)], dtype=np.float64)
        for X in tables
    ]
    lower, upper = np.min(ends, axis=0)[0], np.max(ends, axis=0)[1]
    # half a unit; beside a large value that would be lost in rounding
    room = np.where(lower == upper, np.maximum(0.5, np.abs(lower) * 2.0**-12), 0.0)
    return lower - room, upper + room


def _over_records(of: Callable[..., npt.NDArray[Any]], X: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return `of(X, axis=0)`, where `of` takes the smallest or the largest of each column.

    Short rows are joined first, because NumPy's inner loops run along rows.
    """
    whole = len(X) // _ROWS_JOINED * _ROWS_JOINED
    if not whole or not X.flags.c_contiguous:
        return of(X, axis=0)
    joined = of(X[:whole].reshape(-1, _ROWS_JOINED * X.shape[1]), axis=0)
    return of(np.concatenate([joined.reshape(_ROWS_JOINED, -1), X[whole:]]), axis=0)
