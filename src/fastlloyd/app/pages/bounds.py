"""Step 3: the smallest and the largest possible value of each column. The answers make the
recipe.
"""

from collections.abc import Iterator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from fastlloyd.app.answers import (
    NUMBERS,
    FieldFault,
    chosen,
    faults_in,
    no_number,
    number,
    recipe,
)
from fastlloyd.app.drafts import Answers
from fastlloyd.app.empty_words import given_words, split_words, words_field
from fastlloyd.app.forms import Form
from fastlloyd.app.frame import (
    BACK,
    elsewhere,
    form,
    h,
    page,
    radio_fields,
    select_field,
    text_field,
)
from fastlloyd.app.site import (
    Site,
    answered,
    go,
    gone_back,
    id_of,
    missing_step,
    shown_at,
    step_before,
    steps,
)
from fastlloyd.base.markup import Markup
from fastlloyd.records.recipe_proposal import CellKind, ColumnLook

_ENDS = {"lower": "smallest", "upper": "largest"}
_NUMBER = "number"
_GAPS = (
    ("refuse", "refuses the whole file"),
    ("middle", "takes the bounds' middle"),
    ("drop", "leaves the record out"),
    (_NUMBER, "counts as this number:"),
)
_NOT_FOR = {CellKind.TEXT: ("middle", _NUMBER), CellKind.DATE: (_NUMBER,)}
_UNANSWERED = (("", "choose ..."), *_GAPS[::-1])
_FIELDS = ("lower", "upper", "scale", "missing", "gap", "below", "texts", "weight")
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
    before = shown_at(answers, "bounds", answers.get("given_bounds", {}))
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
            f"Bounds say how much one {who if is_person else 'record'} can change a result. They"
            " are published with it, so they must not come from the file: use what is known"
            " without it, such as the range of an instrument or the rules of admission. A value"
            " outside counts as the bound.",
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
            [_column(at, each, given, faults) for at, each in enumerate(chosen(answers))],
            _words(answers, given, faults),
            keeps=True,
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


def _column(at: int, each: ColumnLook, given: Given, faults: tuple[FieldFault, ...]) -> Markup:
    """Return the fields for a column."""
    legend = h("legend", each.name, " ", h("span", f"{each.kind.value}.", class_="soft"))
    is_text = each.kind is CellKind.TEXT
    inner = _texts(at, given, faults) if is_text else _ends(at, each, given, faults)
    more = list[Markup]()
    if each.kind in NUMBERS:
        scales = ("", "difference"), ("log", "ratio (many lab values)")
        value = given.get(f"scale{at}", "")
        more.append(
            select_field(f"scale{at}", "Compare values by their ...", scales, value, faults)
        )
    if each.kind is CellKind.LIMIT:
        below = ("bound", "counts as the smallest value"), ("missing", "counts as empty")
        value = given.get(f"below{at}", "bound")
        more.append(select_field(f"below{at}", 'A cell such as "<5" ...', below, value))
    gaps = h("div", *more, _gaps(at, each, given, faults), class_="pair")
    return h("fieldset", legend, inner, gaps, _weight(at, given, faults, is_text=is_text))


def _gaps(
    at: int, each: ColumnLook, given: Given, faults: tuple[FieldFault, ...]
) -> tuple[Markup, ...]:
    """Return the fields for empty cells."""
    offered = _UNANSWERED if each.has_gaps else _GAPS
    ways = select_field(
        f"missing{at}",
        "An empty cell ...",
        [way for way in offered if way[0] not in _NOT_FOR.get(each.kind, ())],
        given.get(f"missing{at}", ""),
        faults,
        hint="Some of the first rows have one." if each.has_gaps else "",
    )
    if each.kind not in NUMBERS:
        return (ways,)
    label, value = "Number for an empty cell", given.get(f"gap{at}", "")
    return ways, text_field(f"gap{at}", label, value, faults, is_short=True, is_number=True)


def _weight(at: int, given: Given, faults: tuple[FieldFault, ...], *, is_text: bool) -> Markup:
    """Return the field for the weight of a column."""
    of_words = (
        " With weight 1, words often decide alone: two words are as far apart as the smallest and"
        " the largest value of a number. Write less, such as 0.2, to find more than one group for"
        " each word."
    )
    return text_field(
        f"weight{at}",
        "Weight (it may stay empty)",
        given.get(f"weight{at}", ""),
        faults,
        hint="How much the column counts beside the others: above 0, at most 1. Empty means 1."
        + (of_words if is_text else ""),
        is_short=True,
        is_number=True,
    )


def _texts(at: int, given: Given, faults: tuple[FieldFault, ...]) -> Markup:
    return text_field(
        f"texts{at}",
        "Words to tell apart, separated by commas",
        given.get(f"texts{at}", ""),
        faults,
        hint="Such as surgery, medicine. Each becomes a column of yes or no, and a cell with any"
        " other word is no in all of them. Of two words such as m and w, write one. Write what you"
        " know, not what the file has: the words are published.",
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
    if form_.text("go") == BACK:
        typed, shown = _to_keep(used, given), answers.get("given_bounds", {})
        shown = shown_at(answers, "bounds", shown)
        site.drafts.save(name, gone_back(answers, "bounds", typed, shown))
        return go(f"/new/{name}/{step_before('bounds')}")
    faults, features = list[FieldFault](), dict[str, Any]()
    if answers.get("unit") == "person" and given["rows"] not in ("mean", "each"):
        faults.append(FieldFault("rows", "Say how the rows of one person are used."))
    for at, each in enumerate(used):
        features[each.name] = _feature(at, each, given, faults)
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
        for key in (*called, "missing", "below", "weight", "date", "per_person"):
            field = called.get(key, key if key in _FIELDS else "texts" if is_text else "lower")
            yield f"features.{each.name}.{key}", f"{field}{at}"
        yield f"features.{each.name}", f"{'texts' if is_text else 'lower'}{at}"


def _feature(at: int, each: ColumnLook, given: Given, faults: list[FieldFault]) -> dict[str, Any]:
    """Return the table of a feature in the recipe, from the fields of the form. Faults are added to
    `faults`.
    """
    table: dict[str, Any] = (
        _of_texts(at, each, given, faults)
        if each.kind is CellKind.TEXT
        else {"bounds": _bounds(at, each, given, faults)}
    )
    if each.kind is CellKind.DATE:
        table["date"] = each.form
    if given[f"scale{at}"] == "log":
        table["transform"] = "log"
    if each.kind is CellKind.LIMIT:
        table["below"] = given[f"below{at}"] or "bound"
    table |= _of_gaps(at, each, given, faults)
    if text := given[f"weight{at}"]:
        table["weight"] = weight = number(text)
        if weight is None or not 0 < weight <= 1:
            said = no_number(text, "Write a number above 0 and at most 1, such as 0.2.")
            faults.append(FieldFault(f"weight{at}", said))
    if given["rows"] == "mean":
        table["per_person"] = "mean"
    return table


def _of_gaps(at: int, each: ColumnLook, given: Given, faults: list[FieldFault]) -> dict[str, Any]:
    """Return what a recipe says of empty cells. Faults are added to `faults`."""
    way, text = given[f"missing{at}"], given[f"gap{at}"]
    if way == _NUMBER:
        value = number(text)
        if value is None:
            wanted = f"Write the number that an empty cell of {each.name} counts as."
            faults.append(FieldFault(f"gap{at}", no_number(text, wanted)))
        return {"missing": value}
    if text:
        said = (
            f"Choose 'counts as this number' for empty cells of {each.name}, or leave this"
            " number empty."
        )
        faults.append(FieldFault(f"gap{at}", said))
    if way in ("middle", "drop"):
        return {"missing": way}
    if each.has_gaps and way != "refuse":
        said = f"Some cells of {each.name} are empty: say what an empty cell means."
        faults.append(FieldFault(f"missing{at}", said))
    return {}


def _of_texts(at: int, each: ColumnLook, given: Given, faults: list[FieldFault]) -> dict[str, Any]:
    texts = split_words(given[f"texts{at}"])
    if not texts:
        faults.append(
            FieldFault(
                f"texts{at}",
                f"Write the words of {each.name} to tell apart, such as surgery, medicine.",
            )
        )
    return {"categories": texts, "other": "none"}


def _bounds(at: int, each: ColumnLook, given: Given, faults: list[FieldFault]) -> list[Any]:
    ends = list[Any]()
    for end in ("lower", "upper"):
        text = given[f"{end}{at}"]
        value: Any = (text or None) if each.kind is CellKind.DATE else number(text)
        if value is None:
            faults.append(FieldFault(f"{end}{at}", _no_end(each, _ENDS[end], text)))
        ends.append(value)
    if None not in ends and not ends[0] < ends[1]:
        said = f"The smallest possible value of {each.name} must be below the largest."
        faults.append(FieldFault(f"lower{at}", said))
    return ends


def _no_end(each: ColumnLook, end: str, text: str) -> str:
    """Return a sentence about a text that is not a bound.

    end : word for the bound: smallest or largest.
    """
    if each.kind is CellKind.DATE:
        return f"Write the {end} possible day of {each.name}, such as 2024-01-31."
    wanted = f"Write the {end} possible value of {each.name} as a number, such as 0.5 or 1500."
    return no_number(text, wanted)
