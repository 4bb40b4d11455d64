"""Features of a recipe: each has a column, the way from its cells to numbers, public bounds and a
weight.

A feature is public: organisations agree on it as they agree on bounds. It is applied to each record
(or to the rows of each person) alone, so a recipe costs no privacy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from fastlloyd.records.cells import plain
from fastlloyd.records.recipe.checks import REFUSE, WAYS, faults_of, is_number


class Feature(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Column of the records, and the way from its cells to numbers that are clustered.

    key : name of the feature, and of its column unless `Here` names another.
    bounds : public lower and upper bound, in the column's units. A bound of a date is written
        YYYY-MM-DD. None for `values` and `categories`, whose bounds follow from them.
    transform : "log" for the natural logarithm, or None.
    values : text and number of each cell that the column may have, or None.
    categories : texts that each become a column of 0 and 1, or None.
    date : format of a date, such as "%d.%m.%Y", or None.
    until : end of the time that the feature measures: a date as YYYY-MM-DD, or the key of another
        feature that is a date. The time starts at the date in the cell. None if the feature is the
        date itself.
    count : unit of the time that `until` defines: "days" or "years" (365.25 days).
    weight : factor of the distances along this feature, above 0 and at most 1.
    missing : number, date or category that replaces a missing cell, or "middle" for the middle of
        the bounds. "drop" leaves out the record, and "refuse" refuses the file.
    below : meaning of a cell such as "<0.3": "bound" for the lower bound, "limit" for the number
        0.3, or "missing". If it is None, such cells are refused.
    other : meaning of a text that neither `values` nor `categories` has: "refuse", "missing", or
        "none" for none of the categories.
    per_person : way to one number for all rows of a person: "mean", or the number of the "first" or
        "last" date. None if each row is a record.
    role : "order" for a date that only orders the rows of a person, or None.
    label : readable name, or None to show the key.

    Raises PlanError if the fields do not make a usable feature.
    """

    key: str
    bounds: tuple[float | str, float | str] | None = None
    transform: str | None = None
    values: tuple[tuple[str, float], ...] | None = None
    categories: tuple[str, ...] | None = None
    date: str | None = None
    until: str | None = None
    count: str | None = None
    weight: float = 1.0
    missing: float | str = REFUSE
    below: str | None = None
    other: str = REFUSE
    per_person: str | None = None
    role: str | None = None
    label: str | None = None

    def __post_init__(self) -> None:
        table = msgspec.structs.asdict(self)
        for fault in faults_of(table.pop("key"), table):
            raise fault

    @property
    def name(self) -> str:
        """Readable name of the feature: the label or, without a label, the key."""
        return self.label or self.key

    @property
    def way(self) -> str | None:
        """Name of the field that says how a cell becomes a number, or None if the cell already is a
        number.
        """
        return next((name for name in WAYS if getattr(self, name) is not None), None)

    @property
    def is_read_as_text(self) -> bool:
        """Return whether the cells are read as the text in the file, not as numbers."""
        return self.way in ("values", "categories", "date") or self.below is not None


def feature_of(key: str, table: Mapping[str, Any]) -> Feature:
    """Return the feature that a table [features.KEY] describes. The table must have no faults
    (`faults_of`). A range in the table becomes the bounds of the feature.
    """
    return Feature(key=key, **_frozen(table))


def _frozen(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a checked table in the types of `Feature`."""
    found = dict(table)
    if (values := found.get("values")) is not None:
        pairs = dict(values).items()
        found["values"] = tuple((plain(text), float(number)) for text, number in pairs)
    if (categories := found.get("categories")) is not None:
        found["categories"] = tuple(map(plain, categories))
    for name in ("weight", "missing"):
        if is_number(found.get(name)):
            found[name] = float(found[name])
    if isinstance(missing := found.get("missing"), str):
        found["missing"] = plain(missing)
    if (bounds := found.pop("range", found.get("bounds"))) is not None:
        found["bounds"] = tuple(float(end) if is_number(end) else end for end in bounds)
    return found
