"""Last step of a study: the rehearsal, which sends and charges nothing, and the start."""

import re
import subprocess  # nosec B404 - runs this very program
import sys
from pathlib import Path
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from fastlloyd.app.answers import FieldFault, as_sentence, sentence_of
from fastlloyd.app.drafts import Answers, now, shown_as
from fastlloyd.app.errands import OVER
from fastlloyd.app.forms import Form
from fastlloyd.app.frame import BACK, STUDY, act, elsewhere, form, h, page, table, text_field
from fastlloyd.app.pages import start
from fastlloyd.app.pages.confirm import MANY_OUTSIDE, folder_faults
from fastlloyd.app.pages.identity import public_of
from fastlloyd.app.pages.plan import bill
from fastlloyd.app.pages.study_records import here_of
from fastlloyd.app.run_state import RunState
from fastlloyd.app.site import (
    Site,
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
from fastlloyd.app.studies import plan_of, title_of
from fastlloyd.base.markup import Child, Markup
from fastlloyd.base.names import listing
from fastlloyd.base.precision import delta_up, epsilon_up
from fastlloyd.errors import FastLloydError, StateError
from fastlloyd.federation.holder import place
from fastlloyd.federation.identity.identity import PrivateIdentity
from fastlloyd.federation.store.noted import MAX_PURPOSE, DataFiles
from fastlloyd.jobs.approvals import Approval
from fastlloyd.jobs.data_files import files_of
from fastlloyd.jobs.join_file import JoinFile, id_of_run
from fastlloyd.mechanisms.persons import Unit
from fastlloyd.reports.facts import duration

REHEARSAL: Final = "rehearsal"
START: Final = "start"
_SECONDS: Final = 3600
_LONGEST: Final = 40
Found = dict[str, Any]


async def show(site: Site, request: Request) -> Response:
    """Return the page of this step: the rehearsal and its findings, or the button that begins
    it.
    """
    name = id_of(request)
    answers = site.studies.load(name)
    if before := missing_step(answers, "rehearsal", STUDY):
        return go(f"/study/{name}/{before}")
    errand = site.errands.of(name)
    if errand is not None and errand.state != OVER:
        return go(f"/study/{name}/wait")
    if (begun := await beside(_begun, site, answers)) is not None:
        return go(f"/runs/{begun}")
    faults = (FieldFault("", errand.fault),) if errand is not None and errand.fault else ()
    typed = shown_at(answers, "rehearsal", {"out": ""})
    return await _page(site, name, answers, typed["out"] or _proposed(site, answers), faults)


def _proposed(site: Site, answers: Answers) -> str:
    called = re.sub(r"[^A-Za-z0-9._-]+", "-", title_of(plan_of(answers["plan"])))
    return str(site.results / f"{called[:_LONGEST].strip('-') or 'study'}-{now()}")


async def _page(
    site: Site, name: str, answers: Answers, out: str, faults: tuple[FieldFault, ...] = ()
) -> Response:
    is_same = await beside(files_of, answers["path"]) == _files(answers)
    errand = site.errands.of(name)
    found = None if errand is None else errand.found
    is_ready = found is not None and found["shown"] == shown_as(answers)
    unit = plan_of(answers["plan"]).mechanism.unit
    again = act(
        f"/study/{name}/rehearse",
        h(
            "button",
            "Rehearse again" if is_ready else "Rehearse: read the records, send nothing",
            class_="second" if is_ready else None,
        ),
        None if is_ready else h("a", "Back", href=f"/study/{name}/records", class_="button second"),
    )
    changed = h(
        "p",
        h("b", "The file has changed since you chose it. "),
        "Go back to the records and look at it again.",
        class_="warn",
    )
    return page(
        "Rehearsal: nothing is sent or charged",
        None if is_same else changed,
        h(
            "p",
            "The app reads your records once, as in the longest round, and asks the ledger and"
            " the store whether they allow the run.",
        ),
        h(
            "p",
            "To correct a cell, change it in the file and save it. Then go back to the records, and"
            " look at the file again. Only the person who invited you can change the plan.",
        )
        if errand is not None and errand.kind == REHEARSAL and errand.fault
        else None,
        _findings(found["ready"], unit) if is_ready and found is not None else None,
        again,
        _start(name, answers, out, faults) if is_ready else None,
        elsewhere(
            "fastlloyd join plan.toml --digest ... --key ... --data FILE --dataset NAME --dry-run"
        ),
        faults=faults,
        steps=steps(name, answers, "rehearsal", STUDY),
    )


def _files(answers: Answers) -> DataFiles:
    return msgspec.convert(answers["files"], DataFiles)


def _findings(ready: Found, unit: Unit) -> Markup:
    """Return the findings of a rehearsal. The exact numbers are for the owner only."""
    exact, cost, moved = ready["contribution"], ready["cost"], ready["bytes"]
    rows: list[tuple[str, Child]] = [
        (
            "It would cost",
            (
                f"Epsilon {epsilon_up(cost['epsilon'])} at delta {delta_up(cost['delta'])}, on the"
                f" data set {ready['data_set']}."
            ),
        ),
        ("In your ledger", [h("p", each["sentence"]) for each in ready["accounts"]]),
        ("It would send", f"{moved['sent']:,} bytes in all; {moved['received']:,} come back."),
        (
            "What others see",
            h("ul", [h("li", as_sentence(each["sentence"])) for each in ready["seen_by_others"]]),
        ),
        ("Reading the records", _passes(ready)),
    ]
    return h(
        "section",
        h("p", "Records, bounds, cap, store and ledger fit the plan.", class_="note"),
        bill(rows),
        h("h2", "For you only"),
        _exact(exact, unit),
        role="status",
    )


def _passes(ready: Found) -> str:
    said = (
        f"Reading them once took {_seconds(ready['pass_seconds'])}; the plan allows"
        f" {duration(ready['longest_pass'])} for each reading."
    )
    ask = ready["ask_for_pass_seconds"]
    return f"{said} Ask for a plan that allows {ask} s." if ask else said


def _seconds(seconds: float) -> str:
    return "less than a second" if seconds < 1 else f"{seconds:.0f} s"


def _exact(exact: Found, unit: Unit) -> Markup:
    """Return a table of exact numbers: rows, and for each feature the clipped values and the filled
    cells.
    """
    rows, filled = exact["rows"], exact["filled"] or {}
    many = [key for key, n in exact["clipped"].items() if n > MANY_OUTSIDE * rows]
    counted = "" if rows == exact["number"] else f" in {rows:,} rows"
    heads = ("feature", "outside the bounds", "filled in")
    numbers = table(
        heads,
        (
            h(
                "tr",
                h("th", key, scope="row"),
                h("td", f"{n:,}"),
                h("td", f"{filled[key]:,}" if key in filled else ""),
            )
            for key, n in exact["clipped"].items()
        ),
        f"{exact['number']:,} {unit.many}{counted}; {exact['left_out']:,} rows are left out."
        " Exact numbers: tell them to no one.",
    )
    asked = (
        h(
            "p",
            f"More than {MANY_OUTSIDE:.0%} of the values of {listing(many)} are outside the bounds"
            " and count as the bound. Is this the right file, in the units of the plan? The bounds"
            " are public: do not ask for others because of these counts.",
            class_="warn",
        )
        if many
        else None
    )
    return h("div", numbers, asked)


def _start(name: str, answers: Answers, out: str, faults: tuple[FieldFault, ...]) -> Markup:
    plan = plan_of(answers["plan"])
    epsilon = epsilon_up(plan.mechanism.epsilon)
    return h(
        "section",
        h("h2", "Take part?"),
        h(
            "p",
            f"Epsilon {epsilon} is reserved on the data set {answers['dataset']}. Each round whose"
            " answer leaves this machine is spent, also if the study ends without a result. What"
            " was not sent is given back at the end.",
        ),
        form(
            f"/study/{name}/start",
            h("input", type="hidden", name="shown", value=shown_as(answers)),
            text_field("out", "Folder for the result", out, faults, hint="A new folder."),
            label=f"Reserve epsilon {epsilon} and take part",
            keeps=True,
        ),
    )


def request_of(site: Site, answers: Answers, out: str, *, is_rehearsal: bool) -> JoinFile:
    """Return the request that follows from the answers of a draft."""
    plan = plan_of(answers["plan"])
    approval = {key: str(value) for key, value in answers["approval"].items()}
    return JoinFile(
        run_id=id_of_run(plan, public_of(answers["key"])),
        records=str(answers["path"]),
        files=_files(answers),
        out=out,
        ledger=str(place(site.ledger)),
        new_dataset=bool(answers.get("new_dataset")),
        purpose=title_of(plan)[:MAX_PURPOSE],
        plan=answers["plan"],
        digest=answers["digest"],
        key=answers["key"],
        dataset=answers["dataset"],
        here=here_of(answers),
        approval=Approval(**approval),
        is_rehearsal=is_rehearsal,
    )


async def rehearse(site: Site, request: Request) -> Response:
    """Rehearse the run in a child process. Its findings are kept in memory only."""
    name = id_of(request)
    answers = site.studies.load(name)
    if before := missing_step(answers, "rehearsal", STUDY):
        return go(f"/study/{name}/{before}")
    shown, out = shown_as(answers), _proposed(site, answers)

    def work(_secret: str | None) -> Found:
        file = request_of(site, answers, out, is_rehearsal=True)
        return {"shown": shown, "ready": _rehearsed(site.studies.folder, name, file)}

    site.errands.begin(name, REHEARSAL, work)
    return go(f"/study/{name}/wait")


def _rehearsed(folder: Path, name: str, file: JoinFile) -> Found:
    """Return the findings of a rehearsal. Raises StateError with the reason if it fails."""
    path = folder / f"{name}.rehearsal"
    path.unlink(missing_ok=True)
    file.write(path)
    try:
        # this very program; the file has all the rest
        done = subprocess.run(  # noqa: S603  # nosec B603
            [sys.executable, "-P", "-m", "fastlloyd", "join", "--request", str(path)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
        found: Found = msgspec.json.decode(done.stdout) if done.returncode == 0 else {}
    except subprocess.TimeoutExpired:
        raise StateError("reading the records took longer than an hour") from None
    finally:
        for each in (path, path.with_name(f"{path.name}-lock")):
            each.unlink(missing_ok=True)
    if not found:
        lines = done.stderr.decode("utf-8", "replace").splitlines()
        said = [line.removeprefix("Error: ") for line in lines if line.startswith("Error: ")]
        raise StateError("; ".join(said) or "the rehearsal ended without an answer")
    return found


async def take(site: Site, request: Request) -> Response:
    """Start the run that was rehearsed. A second press of the button starts nothing."""
    name, form_ = id_of(request), await Form.of(request)
    answers = site.studies.load(name)
    if before := missing_step(answers, "rehearsal", STUDY):
        return go(f"/study/{name}/{before}")
    if (begun := await beside(_begun, site, answers)) is not None:
        return go(f"/runs/{begun}")
    out = form_.path("out")
    if form_.text("go") == BACK:
        site.studies.save(name, gone_back(answers, "rehearsal", {"out": out}, {}))
        return go(f"/study/{name}/{step_before('rehearsal', STUDY)}")
    if not door_of(request).is_fresh:
        door_of(request).ask_for_code()
        return start.ask_again(f"/study/{name}/rehearsal")
    errand = site.errands.of(name)
    found = None if errand is None else errand.found
    if found is None or not found["shown"] == form_.text("shown") == shown_as(answers):
        said = "Rehearse with these answers before you take part."
        return await _page(site, name, answers, out, (FieldFault("", said),))
    faults = await beside(_faults, site, answers, out)
    if faults:
        return await _page(site, name, answers, out, tuple(faults))
    file = await beside(request_of, site, answers, out, is_rehearsal=False)

    questions = await beside(questions_of, answers["key"])
    try:
        if not questions:
            await beside(_begin, site, file, None)
            return go(f"/runs/{file.run_id}")
        site.errands.begin(name, START, lambda secret: _begin(site, file, secret), questions)
    except FastLloydError as error:
        fault = FieldFault("", sentence_of(error))
        return await _page(site, name, answers, out, (fault,))
    return go(f"/study/{name}/wait")


def _begun(site: Site, answers: Answers) -> str | None:
    """Return the id of a draft's run if the run was begun and may not be begun again, or None."""
    run_id = id_of_run(plan_of(answers["plan"]), public_of(answers["key"]))
    if not site.runs.is_begun(run_id) or site.runs.look(run_id).state is RunState.NOT_SPENT:
        return None
    return run_id


def _begin(site: Site, file: JoinFile, secret: str | None) -> None:
    """Start the run of a request."""
    try:
        site.runs.start(file, secret)
    except OSError as error:
        raise StateError(f"it was not started ({error.strerror})") from None


def questions_of(key: str) -> tuple[str, ...]:
    """Return the question for the passphrase of an identity, or no question if it has no
    passphrase.
    """
    if not PrivateIdentity.is_under_passphrase(Path(key)):
        return ()
    return (f"Passphrase of {PrivateIdentity.public_of(Path(key)).name}: ",)


def _faults(site: Site, answers: Answers, out: str) -> list[FieldFault]:
    """Return the faults for which the run would be refused. The records are not read."""
    faults = folder_faults(out)
    try:
        file = request_of(site, answers, out, is_rehearsal=False)
        file.check_unchanged()
        file.request()
    except FastLloydError as error:
        faults.append(FieldFault("", sentence_of(error)))
    return faults


def again_of(file: JoinFile) -> Answers:
    """Return the answers for a new draft with the plan of an earlier request, which spent
    nothing.
    """
    approval = file.approval
    return {
        "key": file.key,
        "plan": file.plan,
        "digest": file.digest,
        "dataset": file.dataset,
        "new_dataset": file.new_dataset,
        "approval": {} if approval is None else msgspec.to_builtins(approval),
        "path": file.records,
        "names": dict(file.here.names),
        "id": file.here.unit_column or "",
        "done": ["identity", "invitation"],
    }
