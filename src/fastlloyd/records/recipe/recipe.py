"""Recipe: it says how the columns of a table, as people have it, become the features that are
clustered.

Everything except `Here` is public, and the same for all organisations. A recipe is applied to each
record alone, so it costs no privacy, and equal records become equal features at every organisation.
"""

from __future__ import annotations

import hashlib
import json
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final

import msgspec
import tomli_w

from fastlloyd.base.files import decoded, read_start, unreadable
from fastlloyd.base.names import listing, nearest_name, shown
from fastlloyd.base.problems import Faults
from fastlloyd.errors import UNREADABLE_FILE, WRONG_FILE, DataError, PlanError
from fastlloyd.records.recipe.checks import ORDER, UNUSABLE_RECIPE, faults_of
from fastlloyd.records.recipe.feature import Feature, feature_of
from fastlloyd.records.recipe.here import Here, here_faults
from fastlloyd.records.recipe.keys import KEYS, key_faults, person_faults
from fastlloyd.records.recipe.together import columns_of, feature_fault, feature_set_faults
from fastlloyd.records.recipe.ways import GridColumn

MAX_BYTES: Final = 1 << 20
_MOST_FAULTS: Final = 100
_EXACT: Final = 1 << 53  # integers up to here are exact in float64
_TABLES: Final = (*KEYS, "features", "here")
_HEADING = (
    "# Recipe of fastlloyd: from the columns of a table to features.\n"
    "# Everything except the table [here] is public.\n"
)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Recipe for the features of a clustering.

    Attributes
    ----------
    features : tuple of Feature
        Features in their order.
    privacy, clustering : dict
        Options of a run, by the names of `KEYS`.
    here : Here
        Facts about the organisation's own file, which stay with the organisation.
    searched : tuple of str
        Keys of the features whose bounds are still to be found. Their stated bounds are a range
        that contains them.

    Raises
    ------
    Problems
        With all faults of the recipe.

    Examples
    --------
    >>> from fastlloyd import Recipe
    >>> recipe = Recipe.load("recipe.toml")
    >>> [feature.key for feature in recipe.features][:2]
    ['age', 'creatinine']
    """

    features: tuple[Feature, ...]
    privacy: Mapping[str, Any] = field(default_factory=dict)
    clustering: Mapping[str, Any] = field(default_factory=dict)
    here: Here = field(default_factory=Here, repr=False)
    searched: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check(_together(self.features, self.here))

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, searching: bool = False) -> Recipe:
        """Return the recipe in a file. Raises PlanError if it cannot be read, and Problems with
        every fault of the recipe. No message shows a cell.

        searching : whether features may have a range instead of bounds, which are to be found.
        """
        return cls.of(_tables(*_read(path)), searching=searching)

    @staticmethod
    def load_here(path: str | os.PathLike[str], agreed: Sequence[Feature] | None = None) -> Here:
        """Return the local part of a recipe file, which may have no other part.

        agreed : features that the parties agreed on. If the file has features, they must be these.
            None allows any.

        Raises PlanError if the file cannot be read, or if its features are not those agreed on.
        Raises Problems with all faults of the local part.
        """
        text, source = _read(path)
        tables = _tables(text, source)
        if "features" in tables:
            recipe = Recipe.of(tables, searching=True)
            found = {each.key: each.bounds for each in agreed or () if each.bounds is not None}
            if agreed is not None and recipe.with_bounds(found).features != tuple(agreed):
                raise PlanError(
                    f"the features of {source} differ from those of the plan; agree on one recipe,"
                    " or keep only the table [here] in this file",
                    code=UNUSABLE_RECIPE,
                    field="features",
                )
            return recipe.here
        keys = None if agreed is None else frozenset(each.key for each in agreed)
        _check(
            type(fault)(f"{source}: {fault}", code=fault.code, field=fault.field)
            for fault in _local_faults(tables, keys)
        )
        return msgspec.convert(dict(tables["here"]), Here)

    @classmethod
    def from_toml(cls, text: str, source: str = "the recipe") -> Recipe:
        """Return the recipe in a text. Raises PlanError for a text that is no TOML, and Problems
        with every fault of the recipe.
        """
        return cls.of(_tables(text, source))

    @classmethod
    def of(cls, tables: Mapping[str, Any], *, searching: bool = False) -> Recipe:
        """Return the recipe with the tables of a recipe file. Raises Problems with all faults.

        searching : as in `load`.
        """
        _check(chain(_faults(tables), () if searching else _range_faults(tables)))
        here = dict(tables.get("here", {}))
        return cls(
            features=tuple(feature_of(key, table) for key, table in tables["features"].items()),
            privacy=dict(tables.get("privacy", {})),
            clustering=dict(tables.get("clustering", {})),
            here=msgspec.convert(here, Here),
            searched=tuple(key for key, table in tables["features"].items() if "range" in table),
        )

    def with_bounds(self, bounds: Mapping[str, Any]) -> Recipe:
        """Return the recipe in which features have the bounds that were found for them.

        bounds : lower and upper bound of features, by their keys. All other features keep their
            bounds.
        """
        found = {key: tuple(bounds[key]) for key in self.searched if key in bounds}
        features = (
            msgspec.structs.replace(each, bounds=found.get(each.key, each.bounds))
            for each in self.features
        )
        left = tuple(key for key in self.searched if key not in found)
        return replace(self, features=tuple(features), searched=left)

    def chosen(self, keys: Sequence[str]) -> tuple[Feature, ...]:
        """Return the recipe's features with these keys, in this order. A date that orders a
        person's rows is returned too, last, even if it is not in `keys`.

        Raises DataError for a key without a feature. The same error is raised if a feature measures
        the time until another feature's date, and the other feature is left out.
        """
        by_key = {each.key: each for each in self.features}
        for key in keys:
            if key not in by_key:
                near = nearest_name(key, list(by_key))
                raise DataError(
                    f"there is no feature {key!r:.80} in the recipe{near}; its features are"
                    f" {listing(list(by_key))}",
                    field="columns",
                )
        orders = [each for each in self.features if each.role == ORDER and each.key not in keys]
        found = (*(by_key[key] for key in keys), *orders)
        for each in found:
            if each.until in by_key and by_key[each.until] not in found:
                raise DataError(
                    f"feature {each.key!r:.80} is the time until {each.until!r:.80}, which is not"
                    " among the chosen features; choose it too",
                    field="columns",
                )
        return found

    @property
    def columns(self) -> tuple[GridColumn, ...]:
        """Columns that are clustered. They are the columns of the grid."""
        return columns_of(self.features)

    @property
    def digest(self) -> str:
        """SHA-256 of the public part in 64 hex digits, the same for every spelling of the file."""
        return hashlib.sha256(_canonical(self.public)).hexdigest()

    @property
    def public(self) -> dict[str, Any]:
        """Public part of the recipe, as TOML tables."""
        tables: dict[str, Any] = {
            name: dict(getattr(self, name)) for name in KEYS if getattr(self, name)
        }
        features = {each.key: table_of(each) for each in self.features}
        for key in self.searched:
            features[key] = {
                "range" if name == "bounds" else name: value
                for name, value in features[key].items()
            }
        return {**tables, "features": features}

    def to_toml(self) -> str:
        """Return the text of a recipe file, in the one form in which recipes are written."""
        here = _without_defaults(self.here)
        return _HEADING + "\n" + tomli_w.dumps(self.public | ({"here": here} if here else {}))


def _check(errors: Iterable[DataError | PlanError]) -> None:
    """Raise Problems with these errors if there are any. If there are more than a hundred, the
    first hundred are shown.
    """
    faults = Faults()
    for error in islice(errors, _MOST_FAULTS):
        with faults.noted():
            raise error
    faults.check()


def _read(path: str | os.PathLike[str]) -> tuple[str, str]:
    """Return the text of a recipe file, and its name for error messages. Raises PlanError if
    the file cannot be read, or is not UTF-8 text.
    """
    file = Path(path)
    try:
        content = read_start(file, MAX_BYTES + 1)
        text = decoded(content, file, "pass a recipe, such as recipe.toml")
    except OSError as error:
        raise PlanError(unreadable(file, error), code=UNREADABLE_FILE) from None
    except ValueError as error:
        raise PlanError(str(error), code=WRONG_FILE) from None
    return text, str(file)


def _tables(text: str, source: str) -> dict[str, Any]:
    """Return the tables of a TOML text. Raises PlanError if the text is too long, or not valid
    TOML.
    """
    if len(text) > MAX_BYTES:
        raise PlanError(f"{source} is larger than {MAX_BYTES} bytes; shorten it", code=WRONG_FILE)
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise PlanError(
            f"{source} is not valid TOML: {error}; correct that line", code=WRONG_FILE
        ) from None


def table_of(feature: Feature) -> dict[str, Any]:
    """Return a feature as its table [features.KEY], without the values that are the defaults."""
    table = _without_defaults(feature)
    del table["key"]
    if feature.values is not None:
        table["values"] = dict(feature.values)
    return table


def _without_defaults(struct: msgspec.Struct) -> dict[str, Any]:
    defaults = {
        each.name: each.default_factory()
        if each.default is msgspec.NODEFAULT and each.default_factory is not msgspec.NODEFAULT
        else each.default
        for each in msgspec.structs.fields(type(struct))
    }
    found = {name: getattr(struct, name) for name in defaults}
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in found.items()
        if value != defaults[name]
    }


def _canonical(tables: Mapping[str, Any]) -> bytes:
    ordered = {**tables, "features": list(tables["features"].items())}
    return json.dumps(_plain(ordered), sort_keys=True, separators=(",", ":")).encode()


def _plain(value: Any) -> Any:
    """Return the value with each integer in it as a float, so that 1 and 1.0 are the same."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return float(value) if type(value) is int and abs(value) <= _EXACT else value


def _faults(tables: Mapping[str, Any]) -> Iterator[DataError | PlanError]:
    """Yield an error for each fault that one table of a recipe shows by itself."""
    for name in tables.keys() - set(_TABLES):
        hint = (
            "; write the bounds of each feature in its own table [features.NAME]"
            if name == "bounds"
            else nearest_name(name, _TABLES)
        )
        yield PlanError(f"{shown(name)} is unknown{hint}", code=UNUSABLE_RECIPE, field=name)
    for name in KEYS:
        if name in tables:
            yield from key_faults(name, tables[name])
    features = tables.get("features")
    if not isinstance(features, Mapping) or not features:
        yield PlanError(
            "a recipe needs features; write a table [features.NAME] for each column that is used",
            code=UNUSABLE_RECIPE,
            field="features",
        )
        features = {}
    for key, table in features.items():
        if isinstance(table, Mapping):
            yield from faults_of(key, table)
        else:
            yield PlanError(
                f"features.{key:.80} is {shown(table)}; expected a table [features.{key:.80}]",
                code=UNUSABLE_RECIPE,
                field=f"features.{key:.80}",
            )
    yield from _here_faults(tables.get("here", {}), frozenset(features))
    privacy, here = tables.get("privacy", {}), tables.get("here", {})
    if isinstance(privacy, Mapping) and isinstance(here, Mapping):
        yield from person_faults(privacy, here)


def _range_faults(tables: Mapping[str, Any]) -> Iterator[PlanError]:
    """Yield an error for each feature that has a range instead of bounds."""
    features = tables.get("features")
    for key, table in features.items() if isinstance(features, Mapping) else ():
        if isinstance(table, Mapping) and "range" in table and "bounds" not in table:
            yield feature_fault(
                key,
                "range",
                "the bounds are still to be found within 'range'; run `fastlloyd bounds estimate"
                " DATA --recipe FILE --out FOUND`, and use FOUND as the recipe",
            )


def _local_faults(
    tables: Mapping[str, Any], keys: frozenset[str] | None
) -> Iterator[DataError | PlanError]:
    """Yield an error for each fault of a file that has only the local part."""
    for name in tables.keys() - {"here"}:
        yield PlanError(
            f"{shown(name)} must not be in this file: everything except the table [here] comes from"
            " the plan; take it out",
            code=UNUSABLE_RECIPE,
            field=name,
        )
    if "here" not in tables:
        yield PlanError(
            "the file has no table [here]; add one that says where the columns are",
            code=UNUSABLE_RECIPE,
        )
    yield from _here_faults(tables.get("here", {}), keys)


def _here_faults(here: Any, keys: frozenset[str] | None) -> Iterator[DataError]:
    if isinstance(here, Mapping):
        yield from here_faults(here, keys)
    else:
        yield DataError(
            f"'here' is {shown(here)}; expected a table, [here]", code=UNUSABLE_RECIPE, field="here"
        )


def _together(features: tuple[Feature, ...], here: Here) -> Iterator[PlanError | DataError]:
    """Yield an error for each contradiction between features, or between a feature and the local
    part.
    """
    yield from feature_set_faults(features)
    for each in features:
        if here.unit_column is not None and here.column(each.key) == here.unit_column:
            yield feature_fault(
                each.key,
                "bounds",
                "its column is the unit_column, whose ids say which rows belong to which person;"
                " leave the feature out",
            )
