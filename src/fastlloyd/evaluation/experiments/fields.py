"""What each field of a specification may hold, in words: what is otherwise is refused in one sentence, by its place."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fastlloyd.base.names import unknown_name
from fastlloyd.errors import PlanError

MOST_RUNS, MOST_CLIENTS = 100_000, 1000


@dataclass(frozen=True, slots=True)
class Field:
    """holds : whether a value may stand there; expected : what may, in words that end the sentence "expected ..."."""

    holds: Callable[[Any], bool]
    expected: str


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _list_of(holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and bool(value) and all(map(holds, value))


def _up_to(most: int) -> Callable[[Any], bool]:
    return lambda value: _is_whole(value) and 1 <= value <= most


def _is_delta(value: Any) -> bool:
    return value == "paper" or (_is_number(value) and 0 < value < 1)


def _is_table(value: Any) -> bool:
    return isinstance(value, dict)


_TITLE = Field(_is_text, 'a text, such as title = "NICV against epsilon"')
_RUNS = Field(_up_to(MOST_RUNS), f"a whole number from 1 to {MOST_RUNS:,}")
_NAMES = Field(_list_of(_is_text), 'a list of names with one at least, such as ["lloyd", "fastlloyd"]')
_SHARED = {
    "runs": _RUNS,
    "epsilons": Field(_list_of(_is_number), "a list of numbers above 0 with one at least, such as [0.5, 1.0]"),
    "measures": Field(_list_of(_is_text), 'a list of measures with one at least, such as ["nicv"]'),
    "clients": Field(_up_to(MOST_CLIENTS), f"a whole number from 1 to {MOST_CLIENTS:,}"),
    "delta": Field(_is_delta, 'a number above 0 and below 1, or "paper"'),
    "preset": Field(_is_text, 'the name of a preset, such as "paper"'),
}
SPEC = {
    "title": _TITLE,
    **_SHARED,
    "grid": Field(_list_of(_is_table), "one table or more, each below a line [[grid]]"),
    "figures": Field(lambda value: value == [] or _list_of(_is_text)(value), 'a list of figures, such as ["curves"], or []'),
    "seed": Field(_is_whole, "a whole number"),
    "quick": Field(_is_table, "a table below a line [quick]"),
}
QUICK = {"grid": Field(_list_of(_is_table), "one table or more, each below a line [[quick.grid]]"), **_SHARED}
GRID = {
    "datasets": Field(_list_of(_is_text), 'a list of names of data sets with one at least, such as ["iris", "s1"]'),
    "methods": _NAMES,
    "options": Field(_is_table, "a table below a line [grid.options]"),
    **_SHARED,
}
_OPTION = Field(
    _list_of(lambda value: isinstance(value, (bool, int, float, str))),
    "a list of numbers, texts, or true and false with one at least, such as alpha = [0.4, 0.8]",
)


def check(content: Mapping[str, Any]) -> None:
    """Raise PlanError for the first field that is unknown, missing or holds what it may not."""
    _check_table(content, SPEC, ("title", "runs", "epsilons", "measures", "grid"), "")
    _check_grids(content["grid"], "grid")
    quick = content.get("quick", {})
    _check_table(quick, QUICK, (), "in [quick], ")
    _check_grids(quick.get("grid", ()), "quick.grid")


def _check_grids(grids: Iterable[Mapping[str, Any]], name: str) -> None:
    listed = list(grids)
    for number, grid in enumerate(listed, 1):
        place = f"in [[{name}]]{f' number {number}' if len(listed) > 1 else ''}, "
        _check_table(grid, GRID, ("datasets", "methods"), place)
        for option, values in grid.get("options", {}).items():
            _check_field(values, _OPTION, f"{place}option {option}")


def _check_table(table: Mapping[str, Any], fields: Mapping[str, Field], needed: Iterable[str], place: str) -> None:
    for name in table:
        if name not in fields:
            raise PlanError(f"{place}key {unknown_name(name, list(fields))}")
    for name in needed:
        if name not in table:
            raise PlanError(f"{place}{name} is missing; add {fields[name].expected}")
    for name, value in table.items():
        _check_field(value, fields[name], f"{place}{name}")


def _check_field(value: Any, field: Field, said: str) -> None:
    if not field.holds(value):
        raise PlanError(f"{said} is {_shown(value)}; expected {field.expected}")


def _shown(value: Any) -> str:
    """A value as TOML writes it, where that is short."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a table"
    return f"{value!r:.80}"
