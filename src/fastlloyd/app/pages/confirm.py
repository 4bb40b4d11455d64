"""Step 5: what a run will spend, protect and publish. It is shown before the run is started."""

import re
import shlex
import time
from pathlib import Path
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from fastlloyd.app.answers import FieldFault, faults_in, recipe, request
from fastlloyd.app.checking import FileCheck, checked_in_a_process
from fastlloyd.app.drafts import Answers, now, shown_as
from fastlloyd.app.forms import Form
from fastlloyd.app.frame import elsewhere, form, h, page, table, text_field
from fastlloyd.app.looking import check_path
from fastlloyd.app.pages import start
from fastlloyd.app.site import Site, answered, beside, door_of, go, id_of, missing_step, steps
from fastlloyd.base.files import check_destination
from fastlloyd.base.markup import Child, Markup
from fastlloyd.base.names import listing
from fastlloyd.errors import DataError, FastLloydError, OutputError
from fastlloyd.federation.holder import place
from fastlloyd.federation.store.noted import DataFiles
from fastlloyd.jobs.data_files import files_of
from fastlloyd.jobs.recipe_check import FeatureCounts
from fastlloyd.mechanisms.persons import Unit, unit
from fastlloyd.reports import facts
from fastlloyd.reports.recipe_facts import of_recipe

_LONGEST = 40  # characters of the data's name
MANY_OUTSIDE = 0.05  # of the values of a column


async def show(site: Site, request_: Request) -> Response:
    """Return the page of this step: the cost, the protection and the outputs of the run."""
    name = id_of(request_)
    if site.runs.is_begun(name):
        return go(f"/runs/{name}")
    answers = site.drafts.load(name)
    if before := missing_step(answers, "confirm"):
        return go(f"/new/{name}/{before}")
    return await _page(name, answers, _proposed(site, answers))


def _proposed(site: Site, answers: Answers) -> str:
    plain = Path(answers["path"]).name.partition(".")[0]
    called = re.sub(r"[^A-Za-z0-9._-]+", "-", plain)[:_LONGEST].strip("-") or "records"
    return str(site.results / f"{called}-k{answers['k']}-{now()}")


async def _page(
    name: str,
    answers: Answers,
    out: str,
    faults: tuple[FieldFault, ...] = (),
    counts: Child = None,
) -> Response:
    files = msgspec.convert(answers["files"], DataFiles)
    is_same = await beside(files_of, answers["path"]) == files
    who, epsilon = _unit_of(answers), f"{answers['epsilon']:g}"
    changed = h(
        "p",
        h("b", "The file has changed since you chose it. "),
        "Go back to the first step and look at it again.",
        class_="warn",
    )
    bill = h(
        "dl",
        [[h("dt", term), h("dd", said)] for term, said in _bill(answers, who, files)],
        class_="bill",
    )
    return page(
        "Spend it?",
        None if is_same else changed,
        bill,
        form(
            f"/new/{name}/confirm",
            h("input", type="hidden", name="shown", value=shown_as(answers)),
            text_field(
                "out",
                "Folder for the result",
                out,
                faults,
                hint="A new folder. Everything in it may be shared, as its privacy page says.",
            ),
            text_field(
                "purpose",
                "What is it for?",
                answers.get("purpose", ""),
                faults,
                hint="A line for your own ledger. It may stay empty.",
            ),
            label=f"Spend epsilon {epsilon} and start",
            back=f"/new/{name}/privacy",
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


def _elsewhere(answers: Answers) -> Markup:
    command = f"fastlloyd fit {shlex.quote(answers['path'])} --recipe recipe.toml"
    if answers.get("new_dataset"):
        command += " --new-dataset"
    python = (
        "recipe = fastlloyd.Recipe.load('recipe.toml')\n"
        f"fastlloyd.MomentLloyd(n_clusters={answers['k']}, recipe=recipe).fit(frame)"
    )
    return elsewhere(command, python)


def _count_button(name: str) -> Markup:
    return h(
        "form",
        h(
            "p",
            "How many cells are empty, unknown or outside the bounds? The counts are exact.",
        ),
        h("button", "Count in the file (nothing is spent)", class_="second"),
        method="post",
        action=f"/new/{name}/count",
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
    name = id_of(request_)
    answers = site.drafts.load(name)
    if before := missing_step(answers, "confirm"):
        return go(f"/new/{name}/{before}")
    out = _proposed(site, answers)
    found = await beside(checked_in_a_process, request(name, answers, out, None))
    return await _page(name, answers, out, counts=_counted(found))


def _unit_of(answers: Answers) -> Unit:
    is_person = answers.get("unit") == "person"
    return Unit.called(answers["who"]) if is_person else unit(None)


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
        (
            "Published as it is",
            (
                f"The settings: names of columns, bounds, at most {answers['n_records']:,}"
                f" {who.many}, epsilon."
            ),
        ),
        (
            "Not protected",
            (
                "What you compute without noise, such as which group each record is in. Further"
                " runs spend more."
            ),
        ),
        ("Read", f"{answers['path']}, {files.size:,} bytes, last changed {changed}."),
    ]


async def take(site: Site, request_: Request) -> Response:
    """Start the run that the page showed. It can be started only once."""
    name, form_ = id_of(request_), await Form.of(request_)
    if site.runs.is_begun(name):
        return go(f"/runs/{name}")
    answers = site.drafts.load(name)
    if before := missing_step(answers, "confirm"):
        return go(f"/new/{name}/{before}")
    if not door_of(request_).is_fresh:
        door_of(request_).ask_for_code()
        return start.ask_again(f"/new/{name}/confirm")
    out, purpose = form_.path("out"), form_.text("purpose")
    if form_.text("shown") != shown_as(answers):
        said = "Another page changed the answers meanwhile. Look again before you start."
        return await _page(name, answers, out, (FieldFault("", said),))
    answers = answers | {"purpose": purpose}
    faults = await beside(_faults, site, name, answers, out)
    if faults:
        return await _page(name, answers, out, tuple(faults))
    site.drafts.save(name, answered(answers, "confirm"))
    # its full path: the variable FASTLLOYD_LEDGER may be another one when the run is looked at
    file = request(name, answers, out, str(place(site.ledger)))
    try:
        await beside(site.runs.start, file)
    except (FastLloydError, OSError) as error:
        return await _page(name, answers, out, (FieldFault("", f"It was not started: {error}."),))
    return go(f"/runs/{name}")


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
