"""Proposal of a recipe from the first rows of a file, for its owner to check and complete.

Only this module and `layout_proposal` make a proposal from records. The owner checks a proposal and
writes it down. A run's guarantee does not cover what the proposal reveals, because it takes the
recipe as given. No proposal contains a value of a cell.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from fastlloyd.errors import DataError
from fastlloyd.records.columns import NUMERIC
from fastlloyd.records.layout import Layout
from fastlloyd.records.layout_proposal import LOOKED_AT, propose
from fastlloyd.records.pieces import STREAMS, opener
from fastlloyd.records.reader import Missing
from fastlloyd.records.reading import open_records
from fastlloyd.records.recipe.dates import reader_of
from fastlloyd.records.recipe.feature import Feature
from fastlloyd.records.recipe.ways import TextFormat
from fastlloyd.records.text_cells import TextCells

_FORMS = ("%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y")
_IDS = re.compile(r"(^|[\W_])(id|nr|no|num|number|nummer|key|mrn|ssn|pid)([\W_]|$)", re.IGNORECASE)
_ENDS_LIKE_IDS = re.compile(r"(ID|Id|Nr|No)$")
_MOST_WORDS = 0.3  # of the cells of a column of numbers
_FEW_PERSONS = 8  # rows from which distinct whole numbers look like ids


class CellKind(enum.Enum):
    """Kind of a column, judged by its first cells."""

    NUMBER = "numbers"
    LIMIT = 'numbers, some of them "below a limit"'
    DATE = "dates"
    ID = "ids"
    TEXT = "text"
    NOTHING = "nothing but missing cells"


class ColumnLook(NamedTuple):
    """Facts about a column of a file.

    name : name in the file.
    kind : kind of its first cells.
    form : format of its dates, or None.
    has_gaps : whether some of the first cells are missing.
    has_words : whether it is a column of numbers in which a few cells are words.
    """

    name: str
    kind: CellKind
    form: str | None = None
    has_gaps: bool = False
    has_words: bool = False


class Look(NamedTuple):
    """Facts from the first rows of a file.

    layout : proposed layout, or None if the format is not text.
    doubts : a sentence for each guess. No sentence shows a cell.
    columns : columns of the file, in their order.
    """

    layout: Layout | None
    doubts: list[str]
    columns: list[ColumnLook]


def own_names(
    agreed: Sequence[Feature], chosen: Mapping[str, str], columns: Sequence[ColumnLook]
) -> dict[str, dict[str, str]]:
    """Return the tables `names` and `dates` of the local part of a recipe, without what needs no
    entry.

    agreed : features of the plan.
    chosen : name of the column of each feature, by the feature's key.
    columns : columns of the file.
    """
    forms = {each.name: each.form for each in columns}
    dates = {
        each.key: form
        for each in agreed
        if each.date is not None and (form := forms.get(chosen[each.key])) and form != each.date
    }
    names = {each.key: chosen[each.key] for each in agreed if chosen[each.key] != each.key}
    return {"names": names, "dates": dates}


def look_at(path: str, header: str | None = None) -> Look:
    """Return the columns of a file, and the proposed layout of a text file.

    header : "yes" if the first line of a text file names the columns, "no" if it is a record, or
        None to propose that, too.

    Raises DataError if the file cannot be read, or has no records.
    """
    layout, doubts = None, list[str]()
    if opener(path) in STREAMS.values():
        layout, doubts = propose(path)
        if header is not None:
            layout = msgspec.structs.replace(layout, header=header)
            doubts = [each for each in doubts if not each.startswith("header = ")]
    of_text = {} if layout is None else {"layout": layout}
    every = opener(path)(path, NUMERIC, Missing.DROP, None, **of_text).names
    names = [name for name in every if name]
    file = open_records(
        path, names, missing=Missing.DROP, text_columns=frozenset(names), layout=layout
    )
    block = next(file.cell_blocks(), None)
    if block is None:
        raise DataError(f"{path}: there are no records to look at")
    form = (
        TextFormat()
        if layout is None
        else TextFormat(decimal=layout.decimal or ".", thousands=layout.thousands or "")
    )
    columns = [_column(name, cells, form) for name, cells in zip(names, block.cells, strict=True)]
    return Look(layout, doubts, columns)


def _column(name: str, cells: object, form: TextFormat) -> ColumnLook:
    """Return the facts that the first cells of a column show: the kind of its cells, the format of
    its dates, and whether cells are missing.
    """
    if not isinstance(cells, TextCells):
        values = np.asarray(getattr(cells, "days", cells))[:LOOKED_AT]
        kind = CellKind.DATE if hasattr(cells, "days") else CellKind.NUMBER
        form_of_dates = "%Y-%m-%d" if kind is CellKind.DATE else None
        return ColumnLook(name, kind, form_of_dates, bool(np.isnan(values).any()))
    codes = cells.codes[:LOOKED_AT]
    texts = [cells.texts[code] for code in codes.tolist() if code >= 0]
    has_gaps = bool((codes < 0).any())
    if not texts:
        return ColumnLook(name, CellKind.NOTHING, None, has_gaps)
    for form_of_dates in _FORMS:
        if all(reader_of(form_of_dates)(text) is not None for text in texts):
            return ColumnLook(name, CellKind.DATE, form_of_dates, has_gaps)
    if _looks_like_ids(name, texts):
        return ColumnLook(name, CellKind.ID, None, has_gaps)
    plain = [text.removeprefix("<").strip() for text in texts]
    n_words = sum(form.number(text) is None for text in plain)
    if n_words > _MOST_WORDS * len(texts):
        return ColumnLook(name, CellKind.TEXT, None, has_gaps)
    has_limits = any(text.startswith("<") for text in texts)
    kind = CellKind.LIMIT if has_limits else CellKind.NUMBER
    return ColumnLook(name, kind, None, has_gaps or n_words > 0, n_words > 0)


def _looks_like_ids(name: str, texts: Sequence[str]) -> bool:
    """Return whether a column seems to have ids, by its name, or because its cells are long numbers
    or codes.
    """
    if _IDS.search(name) or _ENDS_LIKE_IDS.search(name):
        return True
    distinct = set(texts)
    long = all(len(text) >= 5 and text.isalnum() and any(map(str.isdigit, text)) for text in texts)
    return long and len(distinct) >= _FEW_PERSONS and len(distinct) > len(texts) // 4
