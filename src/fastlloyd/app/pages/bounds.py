"""Step 3: the smallest and the largest possible value of each column. The answers make the
recipe.
"""

from collections.abc import Iterator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from fastlloyd.app.answers import NUMBERS, FieldFault, chosen, decimal, faults_in, number, recipe
from fastlloyd.app.drafts import Answers
from fastlloyd.app.empty_words import given_words, split_words, words_field
from fastlloyd.app.forms import Form
from fastlloyd.app.frame import (
    elsewhere,
    form,
    h,
    page,
    radio_fields,
    select_field,
    text_field,
)
from fastlloyd.app.site import Site, answered, go, id_of, missing_step, steps
from fastlloyd.base.markup import Markup
from fastlloyd.records.recipe_proposal import CellKind, ColumnLook

_ENDS = {"lower": "smallest", "upper": "largest"}
_GAPS = (
    ("refuse", "refuses the whole file"),
    ("middle", "takes the bounds' middle"),
    ("drop", "leaves the record out"),
)
_UNANSWERED = (("", "choose ..."), *_GAPS[::-1])
_FIELDS = ("lower", "upper", "scale", "missing", "below", "texts")
Given = dict[str, str]


async def show(site: Site, request: Request) -> Response:
    """Return the page of this step, with the questions about each column."""
    name = id_of(request)
    answers = site.drafts.load(name)
    if before := missing_step(answers, "bounds"):
        return go(f"/new/{name}/{before}")
    return _page(name, answers, _given_before(answers))


def _given_before(answers: Answers) -> Given:
    """Return the texts that were given before, each under the current position of its column."""
    before = answers.get("given_bounds", {})
    return {"rows": before.get("rows", ""), "words": before.get("words", "")} | {
        f"{field}{at}": text
        for at, each in enumerate(chosen(answers))
        for field, text in before.get("columns", {}).get(each.name, {}).items()
    }


def _to_keep(used: list[ColumnLook], given: Given) -> dict[str, Any]:
    """Return the texts by the names of their columns, because the position of a column may
    change.
    """
    return {
        "rows": given["rows"],
        "words": given["words"],
        "columns": {
            each.name: {field: given[f"{field}{at}"] for field in _FIELDS}
            for at, each in enumerate(used)
        },
    }


def _page(
    name: str, answers: Answers, given: Given, faults: tuple[FieldFault, ...] = ()
) -> Response:
    is_person = answers.get("unit") == "person"
    who = answers.get("who") or "person"
    return page(
        "How small, how large can values be?",
        h(
            "p",
            "Bounds say how much one record can change a result. They are published with it, so"
            " they must not come from the file: use what is known without it, such as the range of"
            " an instrument or the rules of admission. A value outside counts as the bound.",
        ),
        h(
            "details",
            h("summary", "What are good bounds?"),
            h(
                "ul",
                h("li", "Be as tight as you can without looking. Wider bounds mean more noise."),
                h("li", "Extreme values may lie outside; they then count as the bound."),
                h("li", "A column whose bounds are twice as wide counts half as much."),
                h(
                    "li",
                    "If you know only ranges that are far too wide, bounds can be found within"
                    " them, for a part of the budget: ",
                    h("code", "fastlloyd fit --range"),
                    " on the command line.",
                ),
            ),
        ),
        form(
            f"/new/{name}/bounds",
            _rows_of_a_person(who, given, faults) if is_person else None,
            [
                _column(at, each, given, faults, decimal(answers))
                for at, each in enumerate(chosen(answers))
            ],
            _words(answers, given, faults),
            back=f"/new/{name}/protect",
        ),
        elsewhere("fastlloyd recipe explain recipe.toml", "fastlloyd.Recipe.load('recipe.toml')"),
        faults=faults,
        steps=steps(name, answers, "bounds"),
    )


def _words(answers: Answers, given: Given, faults: tuple[FieldFault, ...]) -> Markup | None:
    """Return the field for words that mean an empty cell, or None if the file is not a text
    file.
    """
    if not answers.get("layout"):
        return None
    return words_field(chosen(answers), given.get("words", ""), faults)


def _rows_of_a_person(who: str, given: Given, faults: tuple[FieldFault, ...]) -> Markup:
    return radio_fields(
        "rows",
        f"The rows of one {who} ...",
        (
            ("mean", "become one record, with their means", "Groups are then groups of persons."),
            ("each", "are records of their own", "Groups are then groups of rows."),
        ),
        given.get("rows", ""),
        faults,
    )


def _column(
    at: int, each: ColumnLook, given: Given, faults: tuple[FieldFault, ...], mark: str
) -> Markup:
    """Return the fields for a column.

    mark : decimal mark of the table.
    """
    hint = " Write decimals as in the table, with a comma." if mark == "," else ""
    said = f"{each.kind.value}.{hint if each.kind in NUMBERS else ''}"
    legend = h("legend", each.name, " ", h("span", said, class_="soft"))
    inner = (
        _texts(at, given, faults) if each.kind is CellKind.TEXT else _ends(at, each, given, faults)
    )
    more = list[Markup]()
    if each.kind in NUMBERS:
        scales = ("", "the numbers"), ("log", "ratios: 1 to 2 like 10 to 20")
        value = given.get(f"scale{at}", "")
        more.append(select_field(f"scale{at}", "Distances are those of ...", scales, value, faults))
    if each.kind is CellKind.LIMIT:
        below = ("bound", "counts as the smallest value"), ("missing", "counts as empty")
        value = given.get(f"below{at}", "bound")
        more.append(select_field(f"below{at}", 'A cell such as "<5" ...', below, value))
    has_middle = each.kind is not CellKind.TEXT
    offered = _UNANSWERED if each.has_gaps else _GAPS
    gaps = select_field(
        f"missing{at}",
        "An empty cell ...",
        [way for way in offered if has_middle or way[0] != "middle"],
        given.get(f"missing{at}", ""),
        faults,
        hint="Some of the first rows have one." if each.has_gaps else "",
    )
    return h("fieldset", legend, inner, h("div", *more, gaps, class_="pair"))


def _texts(at: int, given: Given, faults: tuple[FieldFault, ...]) -> Markup:
    return text_field(
        f"texts{at}",
        "Texts that become columns of yes or no, separated by commas",
        given.get(f"texts{at}", ""),
        faults,
        hint="Each becomes a column of yes or no. A cell with any other text is no in all of"
        " them. Write the texts from what you know, not from the file: they are published.",
    )


def _ends(at: int, each: ColumnLook, given: Given, faults: tuple[FieldFault, ...]) -> Markup:
    is_date = each.kind is CellKind.DATE
    fields = [
        text_field(
            f"{end}{at}",
            f"{word} possible {'day' if is_date else 'value'}",
            given.get(f"{end}{at}", ""),
            faults,
            is_number=not is_date,
            is_short=True,
            hint="As 2024-01-31" if is_date else "",
        )
        for end, word in (
            ("lower", "First" if is_date else "Smallest"),
            ("upper", "Last" if is_date else "Largest"),
        )
    ]
    return h("div", fields, class_="pair")


async def take(site: Site, request: Request) -> Response:
    """Check the answers, add the features to the recipe, and lead to the next step."""
    name, form_ = id_of(request), await Form.of(request)
    answers = site.drafts.load(name)
    if before := missing_step(answers, "bounds"):
        return go(f"/new/{name}/{before}")
    used = chosen(answers)
    given = {
        f"{field}{at}": form_.text(f"{field}{at}") for at in range(len(used)) for field in _FIELDS
    } | {"rows": form_.text("rows"), "words": given_words(form_)}
    faults, features = list[FieldFault](), dict[str, Any]()
    if answers.get("unit") == "person" and given["rows"] not in ("mean", "each"):
        faults.append(FieldFault("rows", "Say how the rows of one person are used."))
    for at, each in enumerate(used):
        features[each.name] = _feature(at, each, given, decimal(answers), faults)
    words = split_words(given["words"])
    if not words and any(each.has_words for each in used) and answers.get("layout"):
        said = "Some cells of these columns are words. Write the words that mean an empty cell."
        faults.append(FieldFault("words", said))
    kept = _to_keep(used, given)
    made = answers | {"features": features, "given_bounds": kept, "missing_words": words}
    if not faults:
        places = {**dict(_places(used)), "here.missing_words": "words"}
        faults += faults_in(lambda: recipe(made), places)
    if faults:
        return _page(name, answers, given, tuple(faults))
    site.drafts.save(name, answered(made, "bounds"))
    return go(f"/new/{name}/privacy")


def _places(used: list[ColumnLook]) -> Iterator[tuple[str, str]]:
    """Yield the settings of a recipe, each with the id of its field."""
    called = {"bounds": "lower", "transform": "scale", "categories": "texts"}
    for at, each in enumerate(used):
        is_text = each.kind is CellKind.TEXT
        for key in ("bounds", "transform", "missing", "below", "categories", "date", "per_person"):
            field = called.get(key, key if key in _FIELDS else "texts" if is_text else "lower")
            yield f"features.{each.name}.{key}", f"{field}{at}"
        yield f"features.{each.name}", f"{'texts' if is_text else 'lower'}{at}"


def _feature(
    at: int, each: ColumnLook, given: Given, mark: str, faults: list[FieldFault]
) -> dict[str, Any]:
    """Return the table of a feature in the recipe, from the fields of the form. Faults are added to
    `faults`.
    """
    table: dict[str, Any] = (
        _of_texts(at, each, given, faults)
        if each.kind is CellKind.TEXT
        else {"bounds": _bounds(at, each, given, mark, faults)}
    )
    if each.kind is CellKind.DATE:
        table["date"] = each.form
    if given[f"scale{at}"] == "log":
        table["transform"] = "log"
    if each.kind is CellKind.LIMIT:
        table["below"] = given[f"below{at}"] or "bound"
    if given[f"missing{at}"] in ("middle", "drop"):
        table["missing"] = given[f"missing{at}"]
    elif each.has_gaps and given[f"missing{at}"] != "refuse":
        said = f"Some cells of {each.name} are empty: say what an empty cell means."
        faults.append(FieldFault(f"missing{at}", said))
    if given["rows"] == "mean":
        table["per_person"] = "mean"
    return table


def _of_texts(at: int, each: ColumnLook, given: Given, faults: list[FieldFault]) -> dict[str, Any]:
    texts = split_words(given[f"texts{at}"])
    if not texts:
        faults.append(
            FieldFault(
                f"texts{at}",
                (f"Write which texts of {each.name} should become columns of yes or no."),
            )
        )
    return {"categories": texts, "other": "none"}


def _bounds(
    at: int, each: ColumnLook, given: Given, mark: str, faults: list[FieldFault]
) -> list[Any]:
    ends = list[Any]()
    for end in ("lower", "upper"):
        text = given[f"{end}{at}"]
        value: Any = (text or None) if each.kind is CellKind.DATE else number(text, mark)
        if value is None:
            faults.append(FieldFault(f"{end}{at}", _no_number(each, _ENDS[end], text, mark)))
        ends.append(value)
    if None not in ends and not ends[0] < ends[1]:
        said = f"The smallest possible value of {each.name} must be below the largest."
        faults.append(FieldFault(f"lower{at}", said))
    return ends


def _no_number(each: ColumnLook, end: str, text: str, mark: str) -> str:
    if each.kind is CellKind.DATE:
        return f"Write the {end} possible day of {each.name}, such as 2024-01-31."
    said = f"Write the {end} possible value of {each.name} as a number"
    if "." in text and mark == ",":
        return f"{said} with a decimal comma, such as 0,5 or 1500."
    if "," in text and mark != ",":
        return f"{said} with a decimal point, such as 0.5 or 1500."
    return f"{said}."
