"""Template of a recipe: names and kinds of the columns of a file, with blanks to fill in.

It contains no value of a cell, and cannot be used before the blanks are filled in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import tomli_w

from fastlloyd.base.names import listing
from fastlloyd.records.layout import Layout
from fastlloyd.records.recipe.feature import Feature
from fastlloyd.records.recipe_proposal import CellKind, ColumnLook, Look, own_names

TEMPLATE_HEADING = "# Recipe of fastlloyd"  # how every recipe file begins
BLANK = "COLUMN"
_ABOUT = f"""{TEMPLATE_HEADING}: from the columns of a table to features.
# Everything except the table [here] is public.
#
# Replace the words in capitals, and take out the features that are not to be clustered. Bounds are
# published with the result, so they must not come from the records: use what is known without them
# (the range of an instrument, the literature, the admission criteria). A column whose bounds are
# twice as wide counts half as much; `weight` lets a column count less. If nobody knows the bounds,
# write range = ["LOWER", "UPPER"] instead, however wide: `fastlloyd bounds estimate` finds bounds.
# Leave out rows that sum up others, such as a last row "Total".
# Types and layout were proposed from the file itself; the guarantee does not cover what they tell
# about the records.

[privacy]
epsilon = 1.0
"""
_RECORDS = """\
# unit = "person"           # protect all rows of a person together, by the ids in unit_column
n_records = "NUMBER"        # a public round number that is surely not exceeded. Of several
                            # organisations: at least the sum of their caps

[clustering]
n_clusters = "NUMBER"
"""
_PERSONS = """\
unit = "person"             # a person's rows together; to protect single rows remove this line,
                            # unit_name, unit_column and the lines per_person
unit_name = "person"        # such as patient
n_records = "NUMBER"        # a public round number of persons that is surely not exceeded. Of
                            # several organisations: at least the sum of their caps

[clustering]
n_clusters = "NUMBER"
"""


def template(look: Look) -> str:
    """Return a recipe with blanks for the columns of a file."""
    ids = next((column.name for column in look.columns if column.kind is CellKind.ID), None)
    features = "".join(
        _feature(column, of_persons=ids is not None)
        for column in look.columns
        if column.name != ids
    )
    return _ABOUT + (_RECORDS if ids is None else _PERSONS) + features + "\n" + here_text(look, ids)


def here_text(look: Look, ids: str | None) -> str:
    """Return the table [here] of a file: its ids and its layout.

    ids : name of the column of the ids, or None.
    """
    lines = [] if ids is None else [_line("unit_column", ids)]
    if look.layout is not None:
        stated = msgspec.to_builtins(look.layout)
        plain = msgspec.to_builtins(Layout())
        lines += [_line(name, value) for name, value in stated.items() if value != plain[name]]
    doubts = [f"# {doubt}\n" for doubt in look.doubts]
    if any(column.has_words for column in look.columns):
        lines.append('# missing_words = ["WORD"]    # such as ["n/a", "none"]\n')
    return "".join(["[here]\n", *doubts, *lines])


def own_text(look: Look, agreed: Sequence[Feature], *, of_persons: bool) -> str:
    """Return the local part of a recipe for one organisation's file, with the blank COLUMN for each
    column that was not found.

    look : facts from the first rows of the file.
    agreed : features of the plan. A column is found by its feature's key or label, in any case.
    of_persons : whether the plan protects persons, so that rows have ids.
    """
    by_name = {each.name.casefold(): each.name for each in look.columns}
    chosen = {
        each.key: by_name.get(each.key.casefold())
        or by_name.get((each.label or "").casefold())
        or BLANK
        for each in agreed
    }
    found = (each.name for each in look.columns if each.kind is CellKind.ID)
    ids = next(found, BLANK) if of_persons else None
    tables = {key: table for key, table in own_names(agreed, chosen, look.columns).items() if table}
    text = f"{TEMPLATE_HEADING}, local part: it stays with you.\n{here_text(look, ids)}"
    names = listing([each.name for each in look.columns])
    return f"{text}\n# columns: {names}\n{tomli_w.dumps({'here': tables})}" if tables else text


def _line(name: str, value: object) -> str:
    return tomli_w.dumps({name: value})


def _feature(column: ColumnLook, *, of_persons: bool) -> str:
    """Return the table of one column. It is a comment if a program cannot know the purpose of the
    column.

    of_persons : whether the rows of a person become one record.
    """
    body = "".join(_BODIES[column.kind](column))
    if of_persons and column.kind is not CellKind.ID:
        body += (
            'per_person = "mean"         # of a person\'s rows; or "first" or "last" by a date\n'
        )
    if column.has_gaps and column.kind in (CellKind.NUMBER, CellKind.LIMIT):
        body += 'missing = "middle"          # for gaps: a number, "middle", "drop" or "refuse"\n'
    if column.has_words:
        body += "# some cells are words: list those for a missing cell in missing_words below\n"
    table = tomli_w.dumps({"features": {column.name: {}}}).splitlines()[-1]
    text = f"\n{table}\n{body}"
    if column.kind in (CellKind.NUMBER, CellKind.LIMIT):
        return text
    return "\n" + "".join(f"# {line}\n" for line in text.strip().splitlines())


def _number(_column: ColumnLook) -> Iterator[str]:
    yield 'bounds = ["LOWER", "UPPER"]\n'
    yield '# transform = "log"         # if from 1 to 2 should be as far as from 10 to 20\n'


def _limit(column: ColumnLook) -> Iterator[str]:
    yield from _number(column)
    yield 'below = "bound"             # a cell such as "<0.3" counts as the lower bound\n'


def _date(column: ColumnLook) -> Iterator[str]:
    yield _line("date", column.form)
    yield 'bounds = ["YYYY-MM-DD", "YYYY-MM-DD"]\n'


def _text(_column: ColumnLook) -> Iterator[str]:
    yield 'categories = ["FIRST", "SECOND"]    # a column of 0 and 1 for each, or:\n'
    yield "# values = { FIRST = 0, SECOND = 1 }\n"
    yield 'other = "none"              # any other text: "none", "missing" or "refuse"\n'
    yield "# weight = 0.2              # if two texts should differ by less than a full range\n"


def _ids(_column: ColumnLook) -> Iterator[str]:
    yield "# The cells look like ids, so this column is not used as a feature.\n"


def _nothing(_column: ColumnLook) -> Iterator[str]:
    yield "# The first cells are missing.\n"


_BODIES = {
    CellKind.NUMBER: _number,
    CellKind.LIMIT: _limit,
    CellKind.DATE: _date,
    CellKind.TEXT: _text,
    CellKind.ID: _ids,
    CellKind.NOTHING: _nothing,
}
