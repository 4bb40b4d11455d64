"""Checks of the tables [features.NAME] of a recipe. Each check yields all faults, as sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from fastlloyd.base.names import listing, nearest_name, shown
from fastlloyd.errors import PlanError
from fastlloyd.records.cells import plain
from fastlloyd.records.recipe.dates import check_format, day_of, is_day

REFUSE, DROP, MIDDLE = "refuse", "drop", "middle"
NONE, MISSING, BOUND, LIMIT = "none", "missing", "bound", "limit"
LOG: Final = "log"
ORDER: Final = "order"
PER_PERSON: Final = ("mean", "first", "last")
COUNTS: Final = {"days": 1.0, "years": 365.25}
WAYS: Final = ("transform", "values", "categories", "date")
UNUSABLE_RECIPE: Final = "unusable-recipe"
LEAST_RATIO: Final = 1.001
"""Smallest ratio of upper to lower bound of a feature whose logarithm is clustered."""

_MOST_CATEGORIES = 200
_LONGEST_NAME = 100


def faults_of(key: str, table: Mapping[str, Any]) -> Iterator[PlanError]:
    """Yield an error for each fault of a table [features.KEY].

    table : keys and values, as in TOML or as in `Feature`. None stands for a key that is left out.
    """
    given = {name: value for name, value in table.items() if value is not None}
    checks = [_key_faults(key), *(_CHECKS[name](given) for name in _CHECKS if name in given)]
    for name in given.keys() - set(_CHECKS):
        yield _fault(key, f"{shown(name)} is unknown{nearest_name(str(name), list(_CHECKS))}", name)
    for check in checks:
        for field, sentence in check:
            yield _fault(key, sentence, field)
    for field, sentence in _together(given):
        yield _fault(key, sentence, field)


Faults = Iterator[tuple[str, str]]


def _fault(key: str, sentence: str, field: str) -> PlanError:
    return PlanError(
        f"features.{key:.80}: {sentence}", code=UNUSABLE_RECIPE, field=f"features.{key:.80}.{field}"
    )


def is_number(value: object) -> bool:
    """Return whether a value is a number within the range of float64. True and False do not count
    as numbers.
    """
    with suppress(OverflowError):
        return type(value) in (int, float) and math.isfinite(value)  # type: ignore[arg-type]
    return False


def _is_name(text: object) -> bool:
    return (
        isinstance(text, str)
        and 0 < len(text) <= _LONGEST_NAME
        and text.isprintable()
        and plain(text) == text
    )


_NAME_RULE = f"at most {_LONGEST_NAME} printable characters, without spaces at its ends"


def _key_faults(key: str) -> Faults:
    if not _is_name(key):
        yield "key", f"the name is not usable; expected {_NAME_RULE}"


def _bounds_faults(given: Mapping[str, Any]) -> Faults:
    yield from _ends_faults(given, "bounds")


def _range_faults(given: Mapping[str, Any]) -> Faults:
    yield from _ends_faults(given, "range")


def _ends_faults(given: Mapping[str, Any], name: str) -> Faults:
    bounds = given[name]
    of_dates = "date" in given and "until" not in given
    form = '["2023-01-01", "2023-12-31"]' if of_dates else "[0, 110]"
    for way in ("values", "categories"):
        if way in given:
            yield (name, f"{name!r} has no effect, because {way} has its own; leave {name} out")
            return
    if not isinstance(bounds, list | tuple) or len(bounds) != 2:
        yield name, f"{name!r} is {shown(bounds)}; expected two ends, such as {form}"
        return
    if not all(map(is_day if of_dates else is_number, bounds)):
        kind = "two dates as YYYY-MM-DD" if of_dates else "two numbers"
        stated = ", ".join(map(shown, bounds))
        yield name, f"{name!r} is [{stated}]; expected {kind}, such as {form}"
        return
    lower, upper = [day_of(end) if of_dates else float(end) for end in bounds]
    stated = f"[{bounds[0]}, {bounds[1]}]"
    if lower >= upper:
        yield name, f"{name!r} is {stated}; expected the smaller end and then the larger one"
    elif given.get("transform") == LOG and lower <= 0:
        yield (
            name,
            (
                f"the lower end of {name!r} is {bounds[0]}; a logarithm needs one above 0: state"
                " the smallest value that matters, to which smaller ones are clipped"
            ),
        )
    elif given.get("transform") == LOG and upper / lower < LEAST_RATIO:
        yield (
            name,
            f"{name!r} is {stated}, too close together for a logarithm; leave 'transform' out",
        )


def _transform_faults(given: Mapping[str, Any]) -> Faults:
    if given["transform"] != LOG:
        yield (
            "transform",
            f"'transform' is {shown(given['transform'])}; write {LOG!r}, or leave 'transform' out",
        )


def _values_faults(given: Mapping[str, Any]) -> Faults:
    values, form = given["values"], "values = { m = 0, w = 1 }"
    pairs = tuple(values.items()) if isinstance(values, Mapping) else values
    if not isinstance(pairs, tuple) or not all(
        isinstance(pair, tuple) and len(pair) == 2 for pair in pairs
    ):
        yield "values", f"'values' are {shown(values)}; expected a number for each text: {form}"
        return
    texts, numbers = [text for text, _ in pairs], [number for _, number in pairs]
    yield from _texts_faults("values", texts)
    if not all(map(is_number, numbers)):
        yield "values", f"a text stands for something other than a number; expected {form}"
    elif len(set(numbers)) < 2:
        yield "values", f"all texts stand for one number; expected two numbers at least: {form}"


def _categories_faults(given: Mapping[str, Any]) -> Faults:
    categories = given["categories"]
    if not isinstance(categories, list | tuple) or not categories:
        yield "categories", 'expected a list of texts, such as ["surgery", "medicine"]'
        return
    yield from _texts_faults("categories", categories)


def _texts_faults(field: str, texts: Sequence[Any]) -> Faults:
    if len(texts) > _MOST_CATEGORIES:
        yield field, f"there are {len(texts)}; expected at most {_MOST_CATEGORIES}"
        return
    seen = set[str]()
    for text in texts:
        if not isinstance(text, str) or not _is_name(plain(text)):
            yield field, f"{shown(text)} cannot be compared with cells; expected {_NAME_RULE}"
        elif plain(text) in seen:
            yield field, f"{plain(text)!r} is listed twice; leave one out"
        else:
            seen.add(plain(text))


def _date_faults(given: Mapping[str, Any]) -> Faults:
    try:
        check_format(given["date"])
    except ValueError as error:
        yield "date", str(error)


def _until_faults(given: Mapping[str, Any]) -> Faults:
    if "date" not in given:
        yield "until", "the key 'until' needs the key 'date', the format of the column's dates"
    if not _is_name(given["until"]):
        yield (
            "until",
            (
                f"'until' is {shown(given['until'])}; expected a date as YYYY-MM-DD, or the name of"
                " a feature that is a date"
            ),
        )


def _count_faults(given: Mapping[str, Any]) -> Faults:
    if "until" not in given:
        yield "count", "the key 'count' has no effect without 'until'; leave it out"
    if given["count"] not in list(COUNTS):
        yield (
            "count",
            f"'count' is {shown(given['count'])}; expected one of: {listing(list(COUNTS))}",
        )


def _weight_faults(given: Mapping[str, Any]) -> Faults:
    if not (is_number(given["weight"]) and 0 < given["weight"] <= 1):
        yield (
            "weight",
            (f"'weight' is {shown(given['weight'])}; expected a number above 0 and at most 1"),
        )


def _missing_faults(given: Mapping[str, Any]) -> Faults:
    missing, categories = given["missing"], given.get("categories")
    words = [REFUSE, DROP]
    if categories is not None:
        texts = categories if isinstance(categories, list | tuple) else ()
        known = [*words, NONE, *(plain(text) for text in texts if isinstance(text, str))]
        is_known, expected = (
            (plain(missing) if isinstance(missing, str) else missing) in known,
            f"{REFUSE!r}, {DROP!r}, {NONE!r} or one of the categories",
        )
    elif "date" in given and "until" not in given:
        is_known = missing in (*words, MIDDLE) or is_day(missing)
        expected = f"{REFUSE!r}, {DROP!r}, {MIDDLE!r} or a date as YYYY-MM-DD"
    else:
        is_known = missing in (*words, MIDDLE) or is_number(missing)
        expected = f"{REFUSE!r}, {DROP!r}, {MIDDLE!r} or a number"
        if is_known and given.get("transform") == LOG and is_number(missing) and missing <= 0:
            is_known, expected = False, "a number above 0, because of the logarithm"
    if not is_known:
        yield "missing", f"'missing' is {shown(missing)}; expected {expected}"


def _below_faults(given: Mapping[str, Any]) -> Faults:
    known = [BOUND, LIMIT, MISSING]
    if given["below"] not in known:
        yield (
            "below",
            f"'below' is {shown(given['below'])}; expected one of: {listing(known)}",
        )
    for way in ("values", "categories", "date"):
        if way in given:
            yield "below", f"the key 'below' has no effect together with {way!r}; leave it out"


def _other_faults(given: Mapping[str, Any]) -> Faults:
    known = [REFUSE, MISSING, *([NONE] if "categories" in given else [])]
    if given["other"] == REFUSE and not {"values", "categories"} & given.keys():
        return  # the default, as a feature holds it
    if not {"values", "categories"} & given.keys():
        yield (
            "other",
            ("the key 'other' has no effect without 'values' or 'categories'; leave it out"),
        )
    elif given["other"] not in known:
        yield "other", f"'other' is {shown(given['other'])}; expected one of: {listing(known)}"


def _per_person_faults(given: Mapping[str, Any]) -> Faults:
    if given["per_person"] not in PER_PERSON:
        yield (
            "per_person",
            (
                f"'per_person' is {shown(given['per_person'])}; expected one of:"
                f" {listing(PER_PERSON)}"
            ),
        )


def _role_faults(given: Mapping[str, Any]) -> Faults:
    if given["role"] != ORDER:
        yield "role", f"'role' is {shown(given['role'])}; write {ORDER!r}, or leave 'role' out"
    if "date" not in given or "until" in given:
        yield (
            "role",
            (
                "only a date orders the rows of a person; state its format under 'date', without"
                " 'until'"
            ),
        )
    for name in ("bounds", "range", "per_person"):
        if name in given:
            yield "role", f"a feature that only orders rows has no {name!r}; leave it out"


def _label_faults(given: Mapping[str, Any]) -> Faults:
    if not _is_name(given["label"]):
        yield "label", f"'label' is {shown(given['label'])}; expected {_NAME_RULE}"


_CHECKS: Final = {
    "bounds": _bounds_faults,
    "range": _range_faults,
    "transform": _transform_faults,
    "values": _values_faults,
    "categories": _categories_faults,
    "date": _date_faults,
    "until": _until_faults,
    "count": _count_faults,
    "weight": _weight_faults,
    "missing": _missing_faults,
    "below": _below_faults,
    "other": _other_faults,
    "per_person": _per_person_faults,
    "role": _role_faults,
    "label": _label_faults,
}


def _together(given: Mapping[str, Any]) -> Faults:
    """Yield an error for each combination of keys in a table that contradict each other."""
    ways = [name for name in WAYS if name in given]
    if len(ways) > 1:
        yield ways[1], f"{' and '.join(ways)} exclude each other; keep one of them"
    needs_none = {"values", "categories", "role"} & given.keys()
    if {"bounds", "range"} <= given.keys():
        yield "range", "'bounds' and 'range' exclude each other; keep one of them"
    if not {"bounds", "range", *needs_none} & given.keys():
        yield (
            "bounds",
            (
                "bounds are missing; state the smallest and the largest value that the column can"
                " have, from public knowledge, or a wide range for `fastlloyd bounds estimate`"
            ),
        )
