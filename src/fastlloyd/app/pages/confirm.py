"""Step 5: what a run will spend, protect and publish. It is shown before the run is started."""

import re
import shlex
import time
from pathlib import Path
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from fastlloyd.app.answers import FieldFault, faults_in, recipe, request, unit_of
from fastlloyd.app.checking import FileCheck, checked_in_a_process
from fastlloyd.app.drafts import Answers, now, shown_as
from fastlloyd.app.forms import Form
from fastlloyd.app.frame import BACK, elsewhere, form, h, page, table, text_field
from fastlloyd.app.ladder import cautions, mechanism_of
from fastlloyd.app.looking import check_path
from fastlloyd.app.pages import start
from fastlloyd.app.site import (
    Site,
    answered,
    beside,
    door_of,
    go,
    gone_back,
    id_of,
    missing_step,
    shown_at,
    step_before,
    steps,
)
from fastlloyd.base.files import check_destination
from fastlloyd.base.markup import Child, Markup
from fastlloyd.base.names import listing
from fastlloyd.base.precision import delta_up
from fastlloyd.errors import DataError, FastLloydError, OutputError
from fastlloyd.federation.holder import place
from fastlloyd.federation.store.noted import DataFiles
from fastlloyd.jobs.choices import choices_of
from fastlloyd.jobs.data_files import files_of
from fastlloyd.jobs.recipe_check import FeatureCounts
from fastlloyd.mechanisms.persons import Unit
from fastlloyd.reports import facts
from fastlloyd.reports.recipe_facts import of_recipe

_FORM = "confirming"  # id of the form that starts the run
_LONGEST = 40  # characters of the data's name
MANY_OUTSIDE = 0.02  # of the values of a column, as on the command line


async def show(site: Site, request_: Request) -> Response:
    """Return the page of this step: the cost, the protection and the outputs of the run."""
    name = id_of(request_)
    if site.runs.is_begun(name):
        return go(f"/runs/{name}")
    answers = site.drafts.load(name)
    if before := missing_step(answers, "confirm"):
        return go(f"/new/{name}/{before}")
    return await _page(name, answers, _shown(site, answers))


def _shown(site: Site, answers: Answers) -> dict[str, str]:
    """Return the texts for the fields when the page is opened. An unchanged folder is
    proposed anew, because its name has the number of groups.
    """
    given = {"out": "", "purpose": answers.get("purpose", "")}
    given = shown_at(answers, "confirm", given)
    return given | {"out": given["out"] or _proposed(site, answers)}


def _proposed(site: Site, answers: Answers) -> str:
    plain = Path(answers["path"]).name.partition(".")[0]
    called = re.sub(r"[^A-Za-z0-9._-]+", "-", plain)[:_LONGEST].strip("-") or "records"
    return str(site.results / f"{called}-k{answers['k']}-{now()}")


async def _page(
    name: str,
    answers: Answers,
    given: dict[str, str],
    faults: tuple[FieldFault, ...] = (),
    counts: Child = None,
) -> Response:
    files = msgspec.convert(answers["files"], DataFiles)
    is_same = await beside(files_of, answers["path"]) == files
    who, epsilon = unit_of(answers), f"{answers['epsilon']:g}"
    bill = h(
        "dl",
        [[h("dt", term), h("dd", said)] for term, said in await beside(_bill, answers, who, files)],
        class_="bill",
    )
    return page(
        "Check and start",
        None if is_same else _changed(),
        bill,
        [h("p", said, class_="warn") for said in cautions(answers["k"], answers["epsilon"], who)],
        form(
            f"/new/{name}/confirm",
            h("input", type="hidden", name="shown", value=shown_as(answers)),
            h("input", type="hidden", name="proposed", value=given.get("proposed", given["out"])),
            text_field(
                "out",
                "Folder for the result",
                given["out"],
                faults,
                hint="A new folder. Missing folders above it are made, too. Everything in it may be"
                " shared, as its privacy page says.",
            ),
            text_field(
                "purpose",
                "What is it for?",
                given["purpose"],
                faults,
                hint="A line for your own ledger. It may stay empty.",
            ),
            label=f"Spend epsilon {epsilon} and start",
            keeps=True,
            field=_FORM,
        ),
        h("h2", "How the columns are read"),
        h("ul", [h("li", said) for said in facts.said(of_recipe(recipe(answers).features), who)]),
        h("h2", "For you only"),
        counts or _count_button(name),
        h("p", h("a", "The recipe of this run", href=f"/new/{name}/recipe.toml")),
        _elsewhere(answers),
        faults=faults,
        steps=steps(name, answers, "confirm"),
    )


def _changed() -> Markup:
    said = "Go back to the first step and look at it again."
    return h("p", h("b", "The file has changed since you chose it. "), said, class_="warn")


def _elsewhere(answers: Answers) -> Markup:
    command = f"fastlloyd fit {shlex.quote(answers['path'])} --recipe recipe.toml"
    if answers.get("new_dataset"):
        command += " --new-dataset"
    if answers.get("new_unit"):
        command += " --new-unit"
    python = (
        "recipe = fastlloyd.Recipe.load('recipe.toml')\n"
        f"with fastlloyd.dataset({answers['dataset']!r}{_new(answers)}):\n"
        f"    fastlloyd.MomentLloyd(n_clusters={answers['k']}, recipe=recipe).fit(frame)"
    )
    return elsewhere(command, python)


def _new(answers: Answers) -> str:
    """Return the arguments of `fastlloyd.dataset` for a new data set or a new unit."""
    named = {"new": "new_dataset", "new_unit": "new_unit"}
    return "".join(f", {name}=True" for name, key in named.items() if answers.get(key))


def _count_button(name: str) -> Markup:
    said = "How many cells are empty, unknown or outside the bounds? The counts are exact."
    label, action = "Count in the file (nothing is spent)", f"/new/{name}/count"
    return h(
        "div",
        h("p", said),
        h("p", h("button", label, class_="second", form=_FORM, formaction=action)),
    )


def _counted(found: FileCheck) -> Markup:
    """Return the counts of a file as a table, with a question about columns with many values
    outside their bounds.
    """
    if found.counts is None:
        return h("p", found.fault, class_="warn", role="status")
    rows = found.counts.features.items()
    many = [key for key, each in rows if each.outside > MANY_OUTSIDE * found.counts.n_rows]
    heads = ("feature", "empty cells", "unknown texts", "outside the bounds")
    counted = table(
        heads,
        (
            h("tr", h("th", key, scope="row"), [h("td", f"{n:,}") for n in _numbers(each)])
            for key, each in rows
        ),
        f"{found.counts.n_rows:,} rows. Exact numbers: tell them to no one.",
    )
    asked = (
        h(
            "p",
            f"More than {MANY_OUTSIDE:.0%} of the values of {listing(many)} are outside the bounds"
            " and count as the bound. Did you take the bounds from what is known without the"
            " file? Do not choose bounds by these counts.",
            class_="warn",
        )
        if many
        else None
    )
    return h("div", counted, asked, role="status")


def _numbers(each: FeatureCounts) -> tuple[int, int, int]:
    return each.missing, each.unknown, each.outside


async def count(site: Site, request_: Request) -> Response:
    """Count the rows of the file that the recipe drops, and the cells that it changes. The counts
    are exact, and for the owner of the file only.
    """
    name, form_ = id_of(request_), await Form.of(request_)
    answers = site.drafts.load(name)
    if before := missing_step(answers, "confirm"):
        return go(f"/new/{name}/{before}")
    proposed = _proposed(site, answers)
    given = _given(form_) | {"out": form_.path("out") or proposed}
    found = await beside(checked_in_a_process, request(name, answers, proposed, None))
    return await _page(name, answers, given, counts=_counted(found))


def _given(form_: Form) -> dict[str, str]:
    """Return the texts of a form of this page, with the folder that it proposed at first."""
    texts = {each: form_.text(each) for each in ("purpose", "proposed")}
    return {"out": form_.path("out")} | texts


def _bill(answers: Answers, who: Unit, files: DataFiles) -> list[tuple[str, str]]:
    changed = time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(files.changed / 1e9))
    whole = " with all rows" if answers.get("unit") == "person" else ""
    new = ", which is new to your ledger" if answers.get("new_dataset") else ""
    return [
        (
            "Spent",
            (
                f"Epsilon {answers['epsilon']:g} on the data set {answers['dataset']}{new}. It"
                " stays spent, whatever comes out."
            ),
        ),
        ("Protected", f"Each single {who.one}{whole}."),
        (
            "Published with noise",
            f"{answers['k']} centres, and the number of {who.many} near each.",
        ),
        ("Published as it is", _published(answers, who)),
        (
            "Not protected",
            (
                "What you compute without noise, such as which group each record is in. Further"
                " runs spend more."
            ),
        ),
        ("Read", f"{answers['path']}, {files.size:,} bytes, last changed {changed}."),
    ]


def _published(answers: Answers, who: Unit) -> str:
    """Return a sentence about the settings, which are published without noise."""
    made = recipe(answers)
    delta = delta_up(mechanism_of(made, choices_of(made), answers["epsilon"]).delta)
    is_text = any(each.categories for each in made.features)
    columns = "names of columns, the words to tell apart" if is_text else "names of columns"
    expected = answers.get("n_expected")
    about = "" if expected is None else f" (about {expected:,} expected)"
    return (
        f"The settings: {columns}, bounds, weights, what empty cells count as, at most"
        f" {answers['n_records']:,} {who.many}{about}, epsilon {answers['epsilon']:g}, delta"
        f" {delta}."
    )


async def take(site: Site, request_: Request) -> Response:
    """Start the run that the page showed. It can be started only once."""
    name, form_ = id_of(request_), await Form.of(request_)
    if site.runs.is_begun(name):
        return go(f"/runs/{name}")
    answers = site.drafts.load(name)
    if before := missing_step(answers, "confirm"):
        return go(f"/new/{name}/{before}")
    given = _given(form_)
    if form_.text("go") == BACK:
        return _back(site, name, answers, given)
    if not door_of(request_).is_fresh:
        door_of(request_).ask_for_code()
        return start.ask_again(f"/new/{name}/confirm")
    out, purpose = given["out"], given["purpose"]
    if form_.text("shown") != shown_as(answers):
        said = "Another page changed the answers meanwhile. Look again before you start."
        return await _page(name, answers, given, (FieldFault("", said),))
    answers = answers | {"purpose": purpose}
    faults = await beside(_faults, site, name, answers, out)
    if faults:
        return await _page(name, answers, given, tuple(faults))
    site.drafts.save(name, answered(answers, "confirm"))
    # its full path: the variable FASTLLOYD_LEDGER may be another one when the run is looked at
    file = request(name, answers, out, str(place(site.ledger)))
    try:
        await beside(site.runs.start, file)
    except (FastLloydError, OSError) as error:
        return await _page(name, answers, given, (FieldFault("", f"It was not started: {error}."),))
    return go(f"/runs/{name}")


def _back(site: Site, name: str, answers: Answers, given: dict[str, str]) -> Response:
    """Keep what was typed, and lead to the step before."""
    is_proposed = given["out"] == given["proposed"]
    typed = {"out": "" if is_proposed else given["out"], "purpose": given["purpose"]}
    site.drafts.save(name, gone_back(answers, "confirm", typed, {}))
    return go(f"/new/{name}/{step_before('confirm')}")


def _faults(site: Site, name: str, answers: Answers, out: str) -> list[FieldFault]:
    """Return the faults for which the run would be refused, without reading the records."""
    faults = folder_faults(out)
    places = {"purpose": "purpose"}

    def make() -> None:
        file = request(name, answers, out, str(place(site.ledger)))
        file.request()
        file.check_unchanged()

    return faults + faults_in(make, places)


async def recipe_file(site: Site, request_: Request) -> Response:
    """Return the recipe of a draft, as a file."""
    answers = site.drafts.load(id_of(request_))
    headers = {"content-disposition": 'attachment; filename="recipe.toml"'}
    text: Any = await beside(lambda: recipe(answers).to_toml())
    return PlainTextResponse(text, headers=headers, media_type="application/toml")


def folder_faults(out: str) -> list[FieldFault]:
    """Return the faults of a folder for a result. The folder must not exist yet."""
    faults = list[FieldFault]()
    try:
        check_path(out)
        check_destination(Path(out), force=False)
    except DataError:
        faults.append(FieldFault("out", "Write the full path of a new folder of this machine."))
    except OutputError as error:
        faults.append(FieldFault("out", f"{error}."))
    if ".." in Path(out).parts:  # a folder that does not exist yet leads nowhere
        faults.append(FieldFault("out", "Write the path without '..' in it."))
    return faults
