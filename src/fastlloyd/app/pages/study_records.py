"""Step 5 of a study: the file of the records, and the column of the file for each feature of the
plan.
"""

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from fastlloyd.app.answers import FieldFault, columns
from fastlloyd.app.drafts import TYPED, Answers
from fastlloyd.app.empty_words import given_words, split_words, words_field
from fastlloyd.app.forms import Form
from fastlloyd.app.frame import BACK, STUDY, elsewhere, fault_at, form, h, page, select_field
from fastlloyd.app.pages.file import FORM, fields, files_in, picked, seen
from fastlloyd.app.site import (
    Site,
    answered,
    beside,
    go,
    gone_back,
    id_of,
    missing_step,
    step_before,
    steps,
)
from fastlloyd.app.studies import plan_of
from fastlloyd.base.markup import Markup
from fastlloyd.base.names import listing
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.records.layout import Layout
from fastlloyd.records.recipe.here import Here
from fastlloyd.records.recipe_proposal import own_names
from fastlloyd.reports.units import units_of

_UNCHOSEN = ("", "choose ...")
_OF_FILE = ("names", "id", "words", "files", "columns", "layout", "doubts")


class _Wanted(msgspec.Struct, frozen=True):
    """Column that a plan asks for.

    label : readable name of the column.
    """

    key: str
    label: str


async def show(site: Site, request: Request) -> Response:
    """Return the page of this step, on which the user chooses the file and its columns."""
    name = id_of(request)
    answers = site.studies.load(name)
    if before := missing_step(answers, "records", STUDY):
        return go(f"/study/{name}/{before}")
    return await _page(site, name, answers, _shown(answers))


def _shown(answers: Answers) -> Answers:
    """Return the values of the fields when the page is opened. Other answers are among them."""
    typed: Answers = answers.get(TYPED, {}).get("records", {})
    return answers | typed


def _left(answers: Answers, typed: Answers) -> Answers:
    """Return the answers with what was typed on this page."""
    shown = _shown(answers)
    return gone_back(answers, "records", typed, {each: shown.get(each) for each in typed})


async def _page(
    site: Site,
    name: str,
    answers: Answers,
    given: dict[str, Any],
    faults: tuple[FieldFault, ...] = (),
) -> Response:
    folder = answers.get("folder") or str(site.results)
    is_seen = bool(answers.get("files"))
    path, header = given.get("path", ""), given.get("header", "")
    choosing = [
        form(
            f"/study/{name}/records",
            *fields(path, header, faults),
            label="Look at the file",
            keeps=True,
            field=FORM,
        ),
        await beside(files_in, f"/study/{name}/folder", folder),
    ]
    plan = plan_of(answers["plan"])
    return page(
        "Your records for this study",
        h(
            "p",
            "A table with one record in each row. The file stays where it is: the app opens it by"
            f" its path and copies nothing. It is charged as the data set {answers['dataset']}.",
        ),
        None if is_seen else choosing,
        _columns(name, plan, answers, given, faults) if is_seen else None,
        h("details", h("summary", "Use another file"), *choosing) if is_seen else None,
        elsewhere("fastlloyd join plan.toml --data FILE --recipe own.toml --dry-run ..."),
        faults=faults,
        steps=steps(name, answers, "records", STUDY),
    )


def _wanted(plan: Plan) -> list[_Wanted]:
    """Return the columns that the plan asks for."""
    domain = plan.mechanism.domain
    if domain.recipe is not None:
        return [_Wanted(each.key, each.label or "") for each in domain.recipe]
    ends = zip(domain.features, units_of(domain), domain.lower, domain.upper, strict=True)
    return [_Wanted(key, f"{unit.text(low)} to {unit.text(high)}") for key, unit, low, high in ends]


def _columns(
    name: str,
    plan: Plan,
    answers: Answers,
    given: dict[str, Any],
    faults: tuple[FieldFault, ...],
) -> Markup:
    """Return the form in which the user chooses the file's column for each feature of the plan."""
    every = [each.name for each in columns(answers)]
    names, persons = given.get("names", {}), plan.mechanism.persons
    has_recipe = plan.mechanism.domain.recipe is not None
    doubts = [h("li", doubt) for doubt in answers.get("doubts", [])]
    return form(
        f"/study/{name}/columns",
        h("p", "Read: ", h("code", answers["path"])),
        h("div", h("p", "How the file is read:"), h("ul", doubts), class_="note")
        if doubts
        else None,
        h(
            "fieldset",
            h("legend", "Columns that the plan asks for"),
            fault_at("columns", faults),
            [
                _column(at, each, every, names, faults, has_recipe=has_recipe)
                for at, each in enumerate(_wanted(plan))
            ],
        ),
        h(
            "fieldset",
            h(
                "legend",
                (
                    f"Whose row it is (all rows of one {plan.mechanism.unit.one} are protected"
                    " together)"
                ),
            ),
            select_field(
                "id",
                f"Column with the id of the {plan.mechanism.unit.one}",
                [_UNCHOSEN, *((each, each) for each in every)],
                given.get("id", ""),
                faults,
            ),
        )
        if persons is not None
        else None,
        words_field(columns(answers), given.get("words", ""), faults)
        if answers.get("layout")
        else None,
        label="Go on to the rehearsal",
        keeps=True,
    )


def _column(
    at: int,
    each: _Wanted,
    every: list[str],
    names: dict[str, str],
    faults: tuple[FieldFault, ...],
    *,
    has_recipe: bool,
) -> Markup:
    if not has_recipe:
        there = "in your file" if each.key in every else "missing in your file"
        return h("p", h("b", each.key), f", {each.label}: {there}.", id=f"column{at}")
    value = names.get(each.key) or (each.key if each.key in every else "")
    is_named = each.label.lower().startswith(each.key.lower())
    label = each.label if is_named else f"{each.key}, {each.label}".removesuffix(", ")
    options = [_UNCHOSEN, *((column, column) for column in every)]
    return select_field(f"column{at}", label, options, value, faults)


async def choose(site: Site, request: Request) -> Response:
    """Handle the choice of a path: list the folder that the user chose, or use the chosen file."""
    name, given = id_of(request), await Form.of(request)
    answers = site.studies.load(name)
    found, fault = picked(given)
    typed = {"path": given.path("path"), "header": given.text("header")}
    typed["path"] = found.get("path", typed["path"])
    if fault is not None:
        return await _page(site, name, answers, answers | typed, (fault,))
    if "path" in found:
        answers = {key: value for key, value in answers.items() if key not in _OF_FILE}
    site.studies.save(name, _left(answers, typed) | found)
    return go(f"/study/{name}/records#path")


async def take(site: Site, request: Request) -> Response:
    """Look at the file that the user named, and store what was found in the draft."""
    name, given = id_of(request), await Form.of(request)
    answers = site.studies.load(name)
    if before := missing_step(answers, "records", STUDY):
        return go(f"/study/{name}/{before}")
    path, header = given.path("path"), given.text("header")
    if given.text("go") == BACK:
        site.studies.save(name, _left(answers, {"path": path, "header": header}))
        return go(f"/study/{name}/{step_before('records', STUDY)}")
    found, faults = await seen(path, header)
    if found is None:
        answers = {key: value for key, value in answers.items() if key not in _OF_FILE}
        return await _page(site, name, answers, {"path": path, "header": header}, faults)
    if answers.get("path") != path:
        answers = {
            key: value for key, value in answers.items() if key not in ("names", "id", "words")
        }
    site.studies.save(name, answers | found | {TYPED: {}})
    return go(f"/study/{name}/records")


async def take_columns(site: Site, request: Request) -> Response:
    """Store the choice of columns in the draft, and lead to the rehearsal."""
    name, given = id_of(request), await Form.of(request)
    answers = site.studies.load(name)
    if before := missing_step(answers, "records", STUDY):
        return go(f"/study/{name}/{before}")
    if not answers.get("files"):
        return go(f"/study/{name}/records")
    plan = plan_of(answers["plan"])
    has_recipe = plan.mechanism.domain.recipe is not None
    every, wanted = [each.name for each in columns(answers)], _wanted(plan)
    names = {
        each.key: given.text(f"column{at}") if has_recipe else each.key
        for at, each in enumerate(wanted)
    }
    faults = _column_faults(wanted, names, every, has_recipe=has_recipe)
    given_id = given.text("id") if plan.mechanism.persons is not None else ""
    if plan.mechanism.persons is not None and given_id not in every:
        faults.append(FieldFault("id", "Choose the column that says whose row it is."))
    elif given_id and given_id in names.values():
        faults.append(FieldFault("id", f"{given_id} is used for a feature, too."))
    found = {"names": names, "id": given_id, "words": given_words(given)}
    if given.text("go") == BACK:
        site.studies.save(name, _left(answers, found))
        return go(f"/study/{name}/{step_before('records', STUDY)}")
    if faults:
        return await _page(site, name, answers, answers | found, tuple(faults))
    if (errand := site.errands.of(name)) is not None and errand.fault:
        site.errands.forget(name)  # it was about other answers
    site.studies.save(name, answered(answers | found, "records", STUDY))
    return go(f"/study/{name}/rehearsal")


def _column_faults(
    wanted: list[_Wanted], names: dict[str, str], every: list[str], *, has_recipe: bool
) -> list[FieldFault]:
    """Return the faults of the choice of columns.

    names : chosen column of each feature.
    every : columns of the file.
    """
    faults = list[FieldFault]()
    for at, each in enumerate(wanted):
        if has_recipe and names[each.key] not in every:
            said = (
                f"Choose the column for {each.key}. If your file has no such column, use another"
                " file, or ask the person who invited you."
            )
            faults.append(FieldFault(f"column{at}", said))
    if missing := [each.key for each in wanted if not has_recipe and each.key not in every]:
        said = (
            f"Your file has no column {listing(missing)}. Rename the columns in a copy of the"
            " file, or ask for a plan with a recipe."
        )
        faults.append(FieldFault("columns", said))
    return faults


def here_of(answers: Answers) -> Here:
    """Return the facts about the owner's file that a draft gives."""
    plan = plan_of(answers["plan"])
    stated: dict[str, Any] = {}
    if answers.get("layout"):
        layout = msgspec.convert(answers["layout"], Layout)
        fields_ = msgspec.structs.asdict(layout)
        stated = {name: fields_[name] for name in layout.stated}
        stated["missing_words"] = tuple(split_words(answers.get("words", "")))
    agreed = plan.mechanism.domain.recipe
    if agreed is None:
        return Here(unit_column=answers.get("id") or None, **stated)
    tables = own_names(agreed, answers["names"], columns(answers))
    ids = answers.get("id") or None
    return Here(names=tables["names"], dates=tables["dates"], unit_column=ids, **stated)
