"""Local part of a recipe: the names of an organisation's own columns, and the format of its text.

No plan, digest, result or message to another party contains this part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from fastlloyd.base.names import listing, nearest_name, shown
from fastlloyd.errors import DataError
from fastlloyd.records.layout import Layout
from fastlloyd.records.recipe.checks import UNUSABLE_RECIPE
from fastlloyd.records.recipe.dates import check_format


class Here(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Facts about one organisation's file.

    names : name of a feature's column, by the feature's key. A feature is left out if its column is
        named by its key.
    dates : format of a feature's dates in this file, by the feature's key. A feature is left out if
        its dates have the format in the recipe.
    unit_column : column with the id of each row's person, or None.
    dataset : name of the data set in the ledger, or None.

    The other fields are those of `Layout`.
    """

    names: dict[str, str] = {}
    dates: dict[str, str] = {}
    unit_column: str | None = None
    dataset: str | None = None
    separator: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    encoding: str | None = None
    header: str | None = None
    skip_lines: int | None = None
    missing_words: tuple[str, ...] = ()

    @property
    def layout(self) -> Layout:
        """Format of the organisation's text file. Raises DataError for a field that cannot be
        used.
        """
        return Layout(
            separator=self.separator,
            decimal=self.decimal,
            thousands=self.thousands,
            encoding=self.encoding,
            header=self.header,
            skip_lines=self.skip_lines or 0,
            missing_words=self.missing_words,
        )

    def column(self, key: str) -> str:
        """Return the name of a feature's column in this file."""
        return self.names.get(key, key)


_TEXTS: Final = (
    "unit_column",
    "dataset",
    "separator",
    "decimal",
    "thousands",
    "encoding",
    "header",
)
FIELDS: Final = Here.__struct_fields__
LAYOUT: Final = (
    "separator",
    "decimal",
    "thousands",
    "encoding",
    "header",
    "skip_lines",
    "missing_words",
)


def here_faults(table: Mapping[str, Any], keys: frozenset[str] | None) -> Iterator[DataError]:
    """Yield an error for each fault of a table [here] that can be seen without the file.

    keys : keys of the recipe's features, or None if they are not known.
    """
    for name in table.keys() - set(FIELDS):
        yield _fault(name, f"{shown(name)} is unknown{nearest_name(name, FIELDS)}")
    for name in ("names", "dates"):
        yield from _table_faults(name, table.get(name, {}), keys)
    for name in sorted({*_TEXTS} & table.keys()):
        if not isinstance(table[name], str):
            yield _fault(name, f"{name!r} is {shown(table[name])}; expected a text")
    yield from _layout_faults(table)


def _layout_faults(table: Mapping[str, Any]) -> Iterator[DataError]:
    """Yield an error for each field of the layout that cannot be used, and for each contradiction
    between fields.
    """
    given = {name: table[name] for name in LAYOUT if name in table}
    texts = {name for name in _TEXTS if not isinstance(given.get(name, ""), str)}
    alone = [{name: value} for name, value in given.items() if name not in texts]
    seen = set[str]()
    for fields in [*alone, {name: value for name, value in given.items() if name not in texts}]:
        try:
            Layout(**fields)
        except DataError as error:
            if error.field not in seen:
                yield _fault(error.field or "", str(error))
            seen.add(error.field or "")


def _table_faults(name: str, given: Any, keys: frozenset[str] | None) -> Iterator[DataError]:
    if not isinstance(given, Mapping):
        yield _fault(name, f"{name!r} is {shown(given)}; expected a table, [here.{name}]")
        return
    for key, text in given.items():
        if keys is not None and key not in keys:
            near = nearest_name(key, sorted(keys))
            yield _fault(
                name,
                f"[here.{name}] names the feature {key!r:.80}, which does not exist{near}; the"
                f" features are {listing(sorted(keys))}",
            )
        if not isinstance(text, str) or not text:
            yield _fault(name, f"{key!r:.80} is {shown(text)}; expected a text")
        elif name == "dates":
            try:
                check_format(text)
            except ValueError as error:
                yield _fault(name, f"{key!r:.80}: {error}")


def _fault(name: str, sentence: str) -> DataError:
    return DataError(f"here: {sentence}", code=UNUSABLE_RECIPE, field=f"here.{name:.80}")
