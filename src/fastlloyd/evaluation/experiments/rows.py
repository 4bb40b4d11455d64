"""The columns of results; and one trial as a folder has it: cells of a table or a JSON object -> a row, every number checked.

Measures that are sums of squares or counts are never negative, a silhouette lies in [-1, 1], and none is "not a number": such
a cell was not written by an experiment, and a mean over it would say nothing.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from fastlloyd.errors import DataError
from fastlloyd.evaluation.experiments.measures import quantity

Cells = dict[str, Any]  # a row as it is written: a value for each column that it has
OK, FAILED = "ok", "failed"
SHAPE = ("n_records", "n_features", "n_clusters")  # unknown where a set could not be had
_ASKED = ("method", "epsilon", "delta", "clients", "run")
_ENDED = ("status", "error")
_COST = ("n_iterations", "seconds")
FIXED = frozenset(("dataset", *SHAPE, *_ASKED, *_ENDED, *_COST))
_NEEDED = ("dataset", "method", "epsilon", "clients", "run", "status")
_TRUTH = {"True": "true", "TRUE": "true", "False": "false", "FALSE": "false"}
_WHOLE = ("a whole number, 0 or more", "a whole number of at least 1")
_SPREADSHEET = 1e-9  # relative: programs that keep 15 digits of a number change it by less
_Key = tuple[str, str, float, tuple[tuple[str, str], ...], int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One trial. options are the swept ones that its method took; error is empty unless it failed.

    measures hold what was computed, which may be infinite; epsilon is infinite for a method that is not private.
    """

    dataset: str
    n_records: int
    n_features: int
    n_clusters: int
    method: str
    epsilon: float
    clients: int
    run: int
    options: tuple[tuple[str, str], ...] = ()
    error: str = ""
    measures: Mapping[str, float]
    seconds: float = math.nan

    @property
    def key(self) -> _Key:
        """What tells this trial from all others."""
        return self.dataset, self.method, self.epsilon, self.options, self.clients, self.run


def columns(options: Sequence[str], measures: Sequence[str]) -> list[str]:
    """Names of all columns, in order."""
    return ["dataset", *SHAPE, *_ASKED, *options, *_ENDED, *measures, *_COST]


@lru_cache(maxsize=64)  # rows have few kinds of headings, and there are very many rows
def split(names: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Of a heading, the names of swept options, which stand before the status, and of measures, which stand after it."""
    status = names.index("status")
    before, after = (tuple(name for name in part if name not in FIXED) for part in (names[:status], names[status:]))
    return before, after


def parse(cells: Mapping[str, Any], where: str) -> Row:
    """The row of a trial. where : "line 2 of FILE". Raises DataError that names place and column."""
    failed = text(cells.get("status")) == FAILED
    for name in _NEEDED if failed else _NEEDED + SHAPE:
        if name not in cells:
            raise DataError(f"{where} has no column {name!r}; a row has {', '.join(_NEEDED + SHAPE)} and measures")
    if (status := text(cells["status"])) not in (OK, FAILED):
        raise _wrong(where, "status", status, "ok or failed")
    options, measures = split(tuple(cells))
    if (epsilon := _number(cells, "epsilon", where)) <= 0:
        raise _wrong(where, "epsilon", text(cells["epsilon"]), "a number above 0, or inf for a method that is not private")
    least = 0 if failed else 1
    return Row(
        dataset=_name(cells, "dataset", where),
        method=_name(cells, "method", where),
        epsilon=epsilon,
        n_records=_integer(cells, "n_records", where, least),
        n_features=_integer(cells, "n_features", where, least),
        n_clusters=_integer(cells, "n_clusters", where, least),
        clients=_integer(cells, "clients", where, 1),
        run=_integer(cells, "run", where, 0),
        options=tuple((name, said) for name in sorted(options) if (said := text(cells[name]))),
        error=(text(cells.get("error")) or "it failed, and says no more") if failed else "",
        measures={} if failed else {name: _measure(cells, name, where) for name in measures if text(cells[name])},
        seconds=_number(cells, "seconds", where) if text(cells.get("seconds")) else math.nan,
    )


def difference(one: Row, other: Row) -> str:
    """The first column in which two rows of one trial differ by more than a spreadsheet's rounding; "" if there is none."""
    if one == other:
        return ""
    if bool(one.error) != bool(other.error):
        return "status"
    for name in SHAPE:
        if getattr(one, name) != getattr(other, name):
            return name
    for name in {**one.measures, **other.measures}:
        if name not in one.measures or name not in other.measures:
            return name
        if not math.isclose(one.measures[name], other.measures[name], rel_tol=_SPREADSHEET, abs_tol=1e-300):
            return name
    return ""


def text(cell: object) -> str:
    """A cell as text: a number as Python shows it, true and false as JSON does, nothing for null."""
    if cell is None:
        return ""
    said = str(cell).strip()
    return _TRUTH.get(said, said)


def _name(cells: Mapping[str, Any], name: str, where: str) -> str:
    said = text(cells[name])
    if not said:
        raise _wrong(where, name, said, "a name")
    return said


def _measure(cells: Mapping[str, Any], name: str, where: str) -> float:
    value = _number(cells, name, where)
    known = quantity(name)
    if not known.low <= value <= known.high:
        expected = (
            "a number that is not negative" if known.high == math.inf else f"a number from {known.low:g} to {known.high:g}"
        )
        raise _wrong(where, name, text(cells[name]), expected)
    return value


def _number(cells: Mapping[str, Any], name: str, where: str, expected: str = "a number, or inf for an infinite one") -> float:
    cell: Any = cells.get(name)
    try:
        odd = cell is None or isinstance(cell, bool) or (isinstance(cell, str) and "_" in cell)  # float() takes 1_000
        value = math.nan if odd else float(cell)
    except (ValueError, TypeError, OverflowError):  # text, a list, a whole number that no float holds
        value = math.nan
    if math.isnan(value):
        raise _wrong(where, name, text(cell), expected)
    return value


def _integer(cells: Mapping[str, Any], name: str, where: str, least: int) -> int:
    """A whole number; 0 where a trial failed before the set was known."""
    if not least and not text(cells.get(name)):
        return 0
    expected = _WHOLE[least]
    value = _number(cells, name, where, expected)
    if not value.is_integer() or value < least:
        raise _wrong(where, name, text(cells[name]), expected)
    return int(value)


def _wrong(where: str, name: str, said: str, expected: str) -> DataError:
    return DataError(f"{where}, column {name!r}: {said!r:.80} stands there; expected {expected}")
