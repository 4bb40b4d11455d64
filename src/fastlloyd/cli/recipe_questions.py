"""Questions that make a recipe at a terminal, one after the other. A question about protection has
no default answer.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from fastlloyd.base.names import split_list
from fastlloyd.base.numerals import expected_real, expected_whole, real, whole
from fastlloyd.errors import DataError

if TYPE_CHECKING:
    from fastlloyd.records.recipe.recipe import Recipe
    from fastlloyd.records.recipe_proposal import ColumnLook, Look

N = TypeVar("N", int, float, str)

_WAYS = {
    "n": "a number, with bounds",
    "l": "the logarithm of a number: from 1 to 2 is as far as from 10 to 20",
    "v": "a text that stands for a number, such as m = 0, w = 1",
    "c": "categories: a column of 0 and 1 for each category",
    "d": "a date",
    "-": "not clustered",
}


def ask(look: "Look") -> "Recipe":
    """Ask the questions, and return the recipe that the answers make. Ctrl-C ends the questions,
    and nothing is written.
    """
    from fastlloyd.records.recipe.recipe import Recipe

    typer.echo("Bounds and numbers are published with the result: do not take them from the file.")
    here = _here(look)
    privacy = _privacy(look, here)
    is_person = privacy.get("unit") == "person"
    per_person = None
    if is_person:
        typer.echo("\nHow are the rows of a person used?")
        typer.echo("  mean, first or last: as one record (first and last by a date)")
        typer.echo("  rows: each row as a record")
        per_person = _choice("per person", ("mean", "first", "last", "rows"))
    features = dict(_features(look, here, None if per_person == "rows" else per_person))
    if per_person in ("first", "last"):
        features |= _order(look, features)
    n_clusters = _setting(
        "clustering", "n_clusters", "\nNumber of clusters", whole, expected_whole()
    )
    clustering = {"n_clusters": n_clusters}
    tables = {"privacy": privacy, "clustering": clustering, "features": features, "here": here}
    return Recipe.of(tables)


def _here(look: "Look") -> dict[str, Any]:
    if look.layout is None:
        return {}
    from msgspec import structs

    stated = structs.asdict(look.layout)
    here = {name: stated[name] for name in look.layout.stated}
    if with_words := [column.name for column in look.columns if column.has_words]:
        typer.echo(f"\nThere are words among the numbers of: {', '.join(with_words)}")
        words = _items(
            "Words for a missing cell, separated by commas, such as n/a,unknown (Enter: none)",
            default="",
        )
        here |= {"missing_words": words} if any(words) else {}
    return here


def _privacy(look: "Look", here: dict[str, Any]) -> dict[str, Any]:
    """Ask about the protection, and return the answers. Note the column of ids in `here`."""
    from fastlloyd.records.recipe_proposal import CellKind

    typer.echo("\nWho is protected? (record: each row alone; person: all rows with one id)")
    unit = _choice("unit", ("record", "person"))
    privacy: dict[str, Any] = {
        "epsilon": _setting("privacy", "epsilon", "epsilon, such as 1", real, expected_real())
    }
    if unit == "person":
        ids = [column.name for column in look.columns if column.kind is CellKind.ID]
        hint = f" (columns that look like ids: {', '.join(ids)})" if ids else ""
        names = [column.name for column in look.columns]
        here["unit_column"] = _choice(f"Column with the ids{hint}", names)
        called = "What is a person called, in one word, such as patient"
        privacy |= {
            "unit": "person",
            "unit_name": _setting("privacy", "unit_name", called, str, "a text"),
        }
    cap = (
        "A round number, surely above the number of records (or of persons, if they are protected)"
    )
    privacy["n_records"] = _setting("privacy", "n_records", cap, whole, expected_whole())
    return privacy


def _features(
    look: "Look", here: dict[str, Any], per_person: str | None
) -> Iterator[tuple[str, dict[str, Any]]]:
    typer.echo("\nWhat is each column?")
    for letter, meaning in _WAYS.items():
        typer.echo(f"  {letter}  {meaning}")
    for column in look.columns:
        if column.name == here.get("unit_column"):
            continue
        if (table := _until_right(column, per_person)) is not None:
            yield column.name, table


def _until_right(column: "ColumnLook", per_person: str | None) -> dict[str, Any] | None:
    """Ask what a column is, and for its settings, until these have no fault. Return them as a
    table, or None if the column is not clustered.

    per_person : value of the setting per_person, or None to leave it out.
    """
    from fastlloyd.records.recipe.checks import faults_of

    while True:
        way = _choice(f"\n{column.name} (looks like {column.kind.value})", tuple(_WAYS))
        if way == "-":
            return None
        table = _ASKED[way](column)
        if column.has_gaps:
            typer.echo(
                'Some cells are missing. Write a number to fill in, "middle" (of the bounds),'
                ' "drop" (leave the record out) or "refuse" (refuse the file)'
            )
            table["missing"] = _plain(typer.prompt("missing"))
        if per_person is not None:
            table["per_person"] = per_person
        faults = list(faults_of(column.name, table))
        if not faults:
            return table
        for fault in faults:
            typer.echo(f"{fault}", err=True)


def _ask_number(column: "ColumnLook") -> dict[str, Any]:
    from fastlloyd.records.recipe_proposal import CellKind

    table: dict[str, Any] = {"bounds": _bounds("smallest and largest possible value")}
    if column.kind is CellKind.LIMIT:
        table["below"] = _choice('A cell such as "<0.3" counts as', ("bound", "missing"))
    return table


def _ask_log(column: "ColumnLook") -> dict[str, Any]:
    return _ask_number(column) | {"transform": "log"}


def _ask_values(_column: "ColumnLook") -> dict[str, Any]:
    given = _items("Texts and their numbers, such as m = 0, w = 1")
    pairs = (each.partition("=") for each in given)
    return {"values": {name.strip(): _plain(number) for name, _, number in pairs}} | _weight()


def _ask_categories(_column: "ColumnLook") -> dict[str, Any]:
    return {
        "categories": _items("Categories, separated by commas"),
        "other": _choice("Any other text counts as", ("none", "missing", "refuse")),
    } | _weight()


def _weight() -> dict[str, Any]:
    """Ask for the weight of a difference in a feature. Return {"weight": answer}, or an empty dict
    for the usual weight.
    """
    typer.echo(
        "Two different texts are treated as being as far apart as the lower and the upper"
        " bound of a numeric column. If that"
    )
    given = typer.prompt(
        "is too far, write a weight below 1, such as 0.1 (Enter: no weight)",
        default="",
        show_default=False,
    )
    return {"weight": _plain(given)} if given.strip() else {}


def _ask_date(column: "ColumnLook") -> dict[str, Any]:
    form = typer.prompt("Format of the dates", default=column.form or "%Y-%m-%d")
    ends = _items("First and last possible date, such as 2023-01-01, 2023-12-31")
    return {"date": form, "bounds": ends}


_ASKED: Mapping[str, Callable[["ColumnLook"], dict[str, Any]]] = {
    "n": _ask_number,
    "l": _ask_log,
    "v": _ask_values,
    "c": _ask_categories,
    "d": _ask_date,
}


def _order(look: "Look", features: Mapping[str, Any]) -> dict[str, Any]:
    """Ask for the column with the date that orders the rows of a person. Return {name of the
    column: its table in the recipe}.

    If exactly one feature is a date, ask nothing and return an empty dict.
    """
    if sum("date" in table for table in features.values()) == 1:
        return {}
    dates = {column.name: column.form for column in look.columns if column.form is not None}
    names = [name for name in dates if name not in features] or [
        column.name for column in look.columns if column.name not in features
    ]
    chosen = _choice("Column with the date that orders the rows of a person", names)
    return {chosen: {"date": dates.get(chosen) or typer.prompt("Format"), "role": "order"}}


def _bounds(what: str) -> list[Any]:
    while len(ends := _items(f"{what}, such as 0, 110")) != 2:
        typer.echo("expected two numbers, such as 0.2, 15; write decimals with a point", err=True)
    return [_plain(end) for end in ends]


def _items(question: str, **kwargs: Any) -> list[str]:
    """Ask for a list whose items are separated by commas."""
    while True:
        try:
            return split_list(str(typer.prompt(question, show_default=False, **kwargs)))
        except DataError as error:
            typer.echo(str(error), err=True)


def _choice(question: str, known: Any) -> str:
    while True:
        answer = str(typer.prompt(question)).strip()
        if answer in known:
            return answer
        typer.echo(f"expected one of: {', '.join(known)}", err=True)


def _setting(table: str, name: str, question: str, read: Callable[[str], N], form: str) -> N:
    """Ask for a value of a table of the recipe until it can be read and has no fault.

    table : "privacy" or "clustering".
    name : key of the value in this table.
    read : function that returns the value of a text, or raises ValueError.
    form : noun for the texts that `read` takes.
    """
    from fastlloyd.records.recipe.keys import key_faults

    while True:
        try:
            value = read(str(typer.prompt(question)).strip())
        except ValueError:
            typer.echo(f"expected {form}", err=True)
            continue
        fault = next(key_faults(table, {name: value}), None)
        if fault is None:
            return value
        typer.echo(str(fault), err=True)


def _plain(text: str) -> float | str:
    """Return the number in a text, or the text itself if it is not a number."""
    try:
        return real(text.strip())
    except ValueError:
        return text.strip()
