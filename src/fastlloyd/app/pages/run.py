"""Page of a run: its progress, its end, its result, and the labels of the owner's records."""

import io
import shlex
import subprocess  # nosec B404 - runs this very program
import sys
import zipfile
from hashlib import sha256
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from fastlloyd.app.answers import FieldFault, as_sentence
from fastlloyd.app.checking import checked_in_a_process
from fastlloyd.app.children import RunLook
from fastlloyd.app.forms import Form
from fastlloyd.app.frame import act, elsewhere, form, h, page, text_field
from fastlloyd.app.looking import check_path
from fastlloyd.app.pages import start, study_run
from fastlloyd.app.pages.confirm import MANY_OUTSIDE
from fastlloyd.app.pages.rehearsal import again_of, questions_of
from fastlloyd.app.run_state import RunState
from fastlloyd.app.site import Site, beside, door_of, go, id_of
from fastlloyd.app.studies import plan_of
from fastlloyd.app.watching import answer, followed
from fastlloyd.base.markup import Child, Markup
from fastlloyd.errors import DataError, StateError
from fastlloyd.federation.plan.quorum import TrustMode
from fastlloyd.jobs.fit_file import FitFile
from fastlloyd.jobs.join_file import JoinFile
from fastlloyd.records.recipe.recipe import Recipe
from fastlloyd.reports.run_result import FILES, NAMES, PAGE

_LABEL_SECONDS: Final = 600
_COUNT_SECONDS: Final = 20.0  # a page waits for it
_KEPT: Final = (
    "path",
    "header",
    "folder",
    "files",
    "layout",
    "doubts",
    "columns",
    "unit",
    "id",
    "who",
    "n_records",
    "n_expected",
    "chosen",
    "dataset",
    "features",
    "given_bounds",
    "missing_words",
    "k",
)
_SAID: Final = {
    RunState.NOT_SPENT: "The run ended before it was charged. Nothing was spent.",
    RunState.SPENT: "The run was charged in your ledger and ended before its result. The epsilon"
    " that the ledger counts stays spent, and there is no result: no noise is kept on the disk, so"
    " the run cannot go on.",
    RunState.REFUNDED: "The run was charged in your ledger, and ended before any noise was drawn."
    " Its epsilon was given back.",
}


async def show(site: Site, request: Request) -> Response:
    """Return the page of a run in its current state."""
    name = id_of(request)
    look = await beside(site.runs.look, name)
    notes = [h("p", as_sentence(note), class_="note") for note in look.notes]
    if look.study is not None and look.state is not RunState.DONE:
        return study_run.show(site, request, look, look.study)
    if look.state is RunState.RUNNING:
        return _running(request, look, notes)
    if look.state is RunState.DONE:
        return await _done(site, name, look, notes)
    return page(
        "There is no result",
        h("p", _SAID[look.state], class_="note", role="status"),
        [h("p", f"Reason: {fault.rstrip('.')}.", class_="warn") for fault in look.faults],
        notes,
        h("p", "The app does not start it again by itself."),
        act(
            f"/runs/{name}/again",
            h("button", "Change the answers and try again", type="submit"),
            h("a", "See the ledger", href="/ledger", class_="button second"),
        ),
    )


def _words(look: RunLook) -> tuple[str, str]:
    """Return the state of a run and its step, in words."""
    if look.state is RunState.RUNNING:
        said = () if look.live is None else study_run.heard(look.live)
        return "The run is under way.", " ".join(said)
    return ("Finished." if look.state is RunState.DONE else _SAID[look.state]), ""


def _running(request: Request, look: RunLook, notes: list[Markup]) -> Response:
    state, step = _words(look)
    name = id_of(request)
    end = (f"/runs/{name}", "See how it ended")
    return page(
        look.folder.name,
        followed(request, state, step, end, look.live),
        h(
            "p",
            "You may close this page and the app: the run goes on, and you find it on the first"
            " page later.",
            data_running=True,
        ),
        notes,
        act(
            f"/runs/{name}/stop",
            h("button", "Stop the run", class_="second"),
            h(
                "span",
                "It cannot go on: there will be no result. The epsilon of rounds whose noise was"
                " drawn stays spent; the rest is given back.",
                class_="soft",
            ),
            data_running=True,
        ),
    )


async def live(site: Site, request: Request) -> Response:
    """Return the state of a run, for the script of its page."""
    look = await beside(site.runs.look, id_of(request))
    if look.study is not None:
        return study_run.live(site, request, look, look.study)
    state, step = _words(look)
    is_over = look.state is not RunState.RUNNING
    return answer(request, state, step, look.live, is_over=is_over)


def _links(name: str) -> Markup:
    return h(
        "div",
        h(
            "a",
            "Open the result",
            href=f"/runs/{name}/{PAGE}",
            class_="button",
            target="_blank",
            rel="noopener",
        ),
        h("a", "Download it (zip)", href=f"/runs/{name}/result.zip", class_="button second"),
        class_="acts",
    )


async def _done(
    site: Site,
    name: str,
    look: RunLook,
    notes: list[Markup],
    said: Child = None,
    faults: tuple[FieldFault, ...] = (),
    target: str | None = None,
) -> Response:
    recipe = site.runs.recipe(name)
    is_theirs = (
        isinstance(look.file, JoinFile) and plan_of(look.file.plan).trust is TrustMode.SERVER_NOISE
    )
    return page(
        "Your result" if look.study is None else f"{look.study.name}: the result",
        h("p", h("b", "NOT FOR PUBLICATION: "), "the server must never see it.", class_="warn")
        if is_theirs
        else None,
        h("p", "Finished.", role="status"),
        said,
        _links(name),
        h("p", "The folder is ", h("code", look.file.out), "."),
        h(
            "p",
            "It may be shared as its privacy page says. Another run may find other groups.",
            class_="soft",
        )
        if not is_theirs
        else None,
        notes,
        act(
            f"/runs/{name}/again",
            h("button", "Change the answers and run again", class_="second"),
            h("span", "A further run spends more.", class_="soft"),
        )
        if look.study is None
        else h("p", "A further run of the study needs a renewed plan, and spends more."),
        h("h2", "For you only"),
        await beside(_outside, site, name, look),
        *_labelling(name, look, faults, target),
        elsewhere(
            shlex.join(
                ["fastlloyd", "assign", look.file.out, look.file.records, "--recipe", str(recipe)]
            ),
            f"fastlloyd.from_result({look.file.out!r}).predict(frame)  # NOT PRIVATE",
        ),
        faults=faults,
    )


def _outside(site: Site, name: str, look: RunLook) -> list[Markup]:
    """Return a warning for each feature of a fit with many values outside the bounds. The exact
    shares are counted anew, shown on this page, and stored nowhere.
    """
    if not isinstance(look.file, FitFile):
        return []  # the rehearsal said so
    if name not in site.counts:
        site.counts[name] = checked_in_a_process(look.file, _COUNT_SECONDS)
    found = site.counts[name].counts
    if found is None:
        said = "The values outside the bounds were not counted: the file changed, or is too large."
        return [h("p", said, class_="soft")]
    return [
        h(
            "p",
            f"{each.outside / found.n_rows:.1%} of the values of {key} lie outside the bounds and"
            " count as the bound. Centres and intervals are those of the clipped values. For a"
            " further run, state wider bounds if you know them without the file. This share is"
            " exact: tell it to no one.",
            class_="warn",
        )
        for key, each in found.features.items()
        if each.outside > MANY_OUTSIDE * found.n_rows
    ]


def _labelling(
    name: str, look: RunLook, faults: tuple[FieldFault, ...], target: str | None
) -> list[Markup]:
    """Return the form that labels the owner's records."""
    records = Path(look.file.records)
    beside_it = records.with_name(f"{records.name.partition('.')[0]}-groups-NOT-PRIVATE.csv")
    return [
        h(
            "p",
            "Which group is each of my records in? The answer is exact and NOT private: keep it"
            " where the records are.",
        ),
        form(
            f"/runs/{name}/labels",
            text_field(
                "target", "File to make", str(beside_it) if target is None else target, faults
            ),
            label="Label my records (NOT private)",
        ),
    ]


async def result(site: Site, request: Request) -> Response:
    """Return the page of the result, in which no script can run."""
    look = await beside(site.runs.look, id_of(request))
    if look.state is not RunState.DONE:
        return go(f"/runs/{id_of(request)}")
    content = (await beside(_contents, look)).get(PAGE)
    if content is None:
        raise StateError(f"{look.folder / PAGE} is missing; make it again: fastlloyd result --html")
    return HTMLResponse(content)


def _contents(look: RunLook) -> dict[str, bytes]:
    """Return the files of a result that are as the run wrote them. The page and the names of groups
    may have been changed. If the run noted no digests, return all files.
    """
    found = dict[str, bytes]()
    for name in FILES:
        path = look.folder / name
        if path.is_symlink() or not path.is_file():
            continue
        content, noted = path.read_bytes(), look.digests.get(name)
        # the owner may name groups, which makes the page anew
        if name in (PAGE, NAMES) or noted == sha256(content).hexdigest() or not look.digests:
            found[name] = content
    return found


async def zipped(site: Site, request: Request) -> Response:
    """Return all files of a result as one ZIP file."""
    look = await beside(site.runs.look, id_of(request))
    if look.state is not RunState.DONE:
        return go(f"/runs/{id_of(request)}")
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in (await beside(_contents, look)).items():
            archive.writestr(f"{look.folder.name}/{name}", content)
    headers = {"content-disposition": 'attachment; filename="result.zip"'}
    return Response(made.getvalue(), media_type="application/zip", headers=headers)


async def labels(site: Site, request: Request) -> Response:
    """Label the owner's records. The labels are written next to the records."""
    name, given = id_of(request), await Form.of(request)
    look = await beside(site.runs.look, name)
    if look.state is not RunState.DONE:
        return go(f"/runs/{name}")
    target = given.path("target")
    try:
        check_path(target)
    except DataError:
        fault = FieldFault("target", "Write the full path of a new file of this machine.")
        return await _done(site, name, look, [], faults=(fault,), target=target)
    if look.folder.resolve() in Path(target).resolve().parents:
        said_so = "The result may be shared, and labels may not. Name a file in another folder."
        faults = (FieldFault("target", said_so),)
        return await _done(site, name, look, [], faults=faults, target=target)
    fault_said = await beside(_label, look, site.runs.recipe(name), target)
    if fault_said:
        return await _done(
            site, name, look, [], faults=(FieldFault("target", fault_said),), target=target
        )
    said = h(
        "p",
        h("b", "NOT private: "),
        "written to ",
        h("code", target),
        ". Each line has the number of a record, in the order of your file, and its group.",
        class_="note",
    )
    return await _done(site, name, look, [], said)


def _label(look: RunLook, recipe: Path, target: str) -> str:
    """Write the labels with the command line. Return a sentence about a fault, or ""."""
    here = Recipe.load_here(recipe)
    command = ["assign", look.file.out, look.file.records, "--out", target, "--missing", "drop"]
    command += ["--recipe", str(recipe)]
    if here.unit_column is not None:
        command += ["--unit-column", here.unit_column]
    try:
        # this very program, with arguments made here
        done = subprocess.run(  # noqa: S603  # nosec B603
            [sys.executable, "-P", "-m", "fastlloyd", *command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LABEL_SECONDS,
            umask=0o077,  # labels are exact, and for their owner alone
            check=False,
            text=True,
        )
    except subprocess.TimeoutExpired:
        return "It takes longer than ten minutes; use the command below."
    faults = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    if done.returncode and not faults:
        return "The records could not be labelled; use the command below to see why."
    return " ".join(f"{line.removeprefix('Error: ')}." for line in faults)


async def go_on(site: Site, request: Request) -> Response:
    """Start the child process of a study again, with the same request, after the process has
    stopped.
    """
    name = id_of(request)
    look = await beside(site.runs.look, name)
    if not isinstance(look.file, JoinFile) or look.state is RunState.RUNNING:
        return go(f"/runs/{name}")
    if not door_of(request).is_fresh:
        door_of(request).ask_for_code()
        return start.ask_again(f"/runs/{name}")
    questions = await beside(questions_of, look.file.key)
    if questions:
        site.errands.forget(name)
        study_run.begin_again(site, name, questions)
    else:
        await beside(site.runs.go_on, name)
    return go(f"/runs/{name}")


async def stop(site: Site, request: Request) -> Response:
    """Ask the process of a run to end."""
    await beside(site.runs.stop, id_of(request))
    return go(f"/runs/{id_of(request)}")


async def again(site: Site, request: Request) -> Response:
    """Begin a new draft. It has the answers of a run that has ended."""
    name = id_of(request)
    look = await beside(site.runs.look, name)
    if look.state is RunState.RUNNING:
        return go(f"/runs/{name}")
    if isinstance(look.file, JoinFile):
        return go(f"/study/{site.studies.new(again_of(look.file))}/plan")
    before = site.drafts.load(name)
    kept = {key: before[key] for key in _KEPT if key in before}
    return go(f"/new/{site.drafts.new(kept | {'done': []})}/file")
