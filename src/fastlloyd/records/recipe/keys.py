"""Keys of the tables [privacy] and [clustering]: names of options, with the types of their values.

The commands take the same names as options, and the estimators as parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from fastlloyd.base.names import NAME, NAME_RULE, nearest_name, shown
from fastlloyd.errors import PlanError
from fastlloyd.records.recipe.checks import UNUSABLE_RECIPE

_WHOLE: Final = "a whole number"
_COUNT: Final = "a whole number, 1 or more"
_NUMBER: Final = "a number"
_POSITIVE: Final = "a number above 0"
_TEXT: Final = "a text"
_YES_OR_NO: Final = "true or false"
_UNITS: Final = ("record", "person")
_UNIT: Final = '"record" or "person"'
_NAME: Final = f"a name of {NAME_RULE}"
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    _WHOLE: (int,),
    _COUNT: (int,),
    _NUMBER: (int, float),
    _POSITIVE: (int, float),
    _NAME: (str,),
    _TEXT: (str,),
    _YES_OR_NO: (bool,),
    _UNIT: (str,),
}
_RULES: Final[Mapping[str, Callable[[Any], object]]] = {
    _COUNT: lambda value: value >= 1,
    _POSITIVE: lambda value: 0 < value < math.inf,
    _NAME: NAME.fullmatch,
    _UNIT: _UNITS.__contains__,
}
KEYS: Final[Mapping[str, Mapping[str, str]]] = {
    "privacy": {
        "epsilon": _POSITIVE,
        "delta": _NUMBER,
        "unit": _UNIT,
        "unit_name": _NAME,
        "max_clients_per_person": _COUNT,
        "n_records": _COUNT,
        "n_expected": _COUNT,
        "neighboring_relation": _TEXT,
        "outside": _TEXT,
        "loss": _YES_OR_NO,
        "loss_share": _NUMBER,
    },
    "clustering": {
        "n_clusters": _COUNT,
        "algorithm": _TEXT,
        "preset": _TEXT,
        "scaling": _TEXT,
        "public_seed": _TEXT,
        "iterations": _WHOLE,
        "initialization": _TEXT,
        "min_count": _NUMBER,
        "radius": _TEXT,
        "alpha": _NUMBER,
        "postprocessing": _TEXT,
        "clipping": _YES_OR_NO,
        "noise": _TEXT,
    },
}
"""Keys of each table, and a noun for the type of each value."""


def key_faults(table: str, given: Any) -> Iterator[PlanError]:
    """Yield an error for each key of a table that is unknown, or whose value has the wrong type."""
    known = KEYS[table]
    if not isinstance(given, Mapping):
        yield _fault(table, "", f"[{table}] is {shown(given)}; expected a table")
        return
    for name, value in given.items():
        if name not in known:
            elsewhere = next((other for other in KEYS if name in KEYS[other]), None)
            hint = (
                f"; it belongs to [{elsewhere}]" if elsewhere else nearest_name(name, list(known))
            )
            yield _fault(table, name, f"{name!r:.80} is unknown in [{table}]{hint}")
        elif type(value) not in _TYPES[known[name]] or not _RULES.get(known[name], _any)(value):
            yield _fault(table, name, f"{name!r} is {shown(value)}; expected {known[name]}")


def _any(_: object) -> bool:
    return True


def person_faults(privacy: Mapping[str, Any], here: Mapping[str, Any]) -> Iterator[PlanError]:
    """Yield an error if a recipe names persons or their ids, but protects single records.

    privacy : table [privacy], maybe empty.
    here : table [here], maybe empty.
    """
    if not privacy or privacy.get("unit", _UNITS[0]) != _UNITS[0]:
        return  # persons, or a word that is a fault by itself
    named = [("privacy.unit_name", privacy.get("unit_name"))]
    named.append(("here.unit_column", here.get("unit_column")))
    for key, value in named:
        if value is not None:
            yield PlanError(
                f'{key} is {shown(value)}, but single records are protected; write unit = "person"'
                f" in [privacy], or leave {key} out",
                code=UNUSABLE_RECIPE,
                field=key,
            )


def _fault(table: str, name: str, sentence: str) -> PlanError:
    return PlanError(
        f"{table}: {sentence}", code=UNUSABLE_RECIPE, field=f"{table}.{name:.80}".rstrip(".")
    )
