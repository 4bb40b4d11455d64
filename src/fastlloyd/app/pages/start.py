"""First page of the app: drafts and runs. A browser without a session gets the question for the
code.
"""

import time
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from fastlloyd.app.children import RunLook
from fastlloyd.app.drafts import TYPED, Answers
from fastlloyd.app.forms import Form
from fastlloyd.app.frame import GROUPS, STUDY, act, form, h, page, table
from fastlloyd.app.run_state import RunState
from fastlloyd.app.site import Site, beside, door_of, go, id_of, missing_step
from fastlloyd.app.studies import plan_of, title_of
from fastlloyd.base.files import write_private
from fastlloyd.base.markup import Child, Markup
from fastlloyd.errors import FastLloydError
from fastlloyd.federation.identity.identity import PrivateIdentity
from fastlloyd.jobs.join_file import id_of_run
from fastlloyd.records.layout import YES

WORDS = {
    RunState.RUNNING: "running",
    RunState.PAUSED: "waiting for you to go on",
    RunState.DONE: "result",
    RunState.NOT_SPENT: "not carried out, nothing was spent",
    RunState.SPENT: "no result, the epsilon is spent",
    RunState.REFUNDED: "no result, the epsilon was given back",
}
SHOWN = 30
_EXAMPLE = "made-up-visits.csv"
# what to do: button, path to which it leads, sentences below it
_WAYS = (
    (
        "Find groups in records of mine",
        "/new",
        (
            "The app reads a file on this machine and asks a few questions. Nothing is spent before"
            " you have seen the cost and confirmed it."
        ),
    ),
    (
        "Try it with made-up records",
        "/example",
        (
            "The app writes a small table of patients who do not exist, to practise on. One row is"
            " one patient, and there are at most 1000. Bounds that fit are age 0 to 110, days 0 to"
            " 60 and medicines 0 to 30. Call the data set practice: your ledger counts its runs,"
            " too."
        ),
    ),
    (
        "Take part in a study with others",
        "/study",
        (
            "Several organisations find groups together, and the records of each stay with it. You"
            " see the plan, what it costs and a rehearsal before you take part."
        ),
    ),
)
_OPEN = (RunState.RUNNING, RunState.PAUSED)


async def show(site: Site, request: Request) -> Response:
    """Return the first page, or the question for the code."""
    if not request.scope["is_known"]:
        return _asking()
    runs, studies = await beside(_runs, site)
    drafts = [
        h(
            "tr",
            h("td", h("a", draft.get("path", "a draft"), href=f"/new/{name}/{step}")),
            h("td", f"next: {GROUPS.steps[step].lower()}", data_name="state"),
            h("td", _removal(f"/new/{name}/remove")),
        )
        for name, draft in site.drafts.recent()[:SHOWN]
        if (draft.get("done") or draft.get(TYPED)) and not site.runs.is_begun(name)
        for step in (missing_step(draft, "confirm") or "confirm",)
    ]
    return page(
        "What would you like to do?",
        [_way(*way) for way in _WAYS],
        [h("h2", "Studies with others"), studies] if studies else None,
        [h("h2", "Your runs"), runs] if runs else None,
        [h("h2", "Not finished"), _table(("records", "state"), drafts)] if drafts else None,
        here="/",
    )


def _way(label: str, action: str, said: str) -> list[Markup]:
    """Return a button of the first page, and the sentences below it.

    action : path to which the button leads.
    """
    looks = None if label is _WAYS[0][0] else "second"
    button = h("button", label, type="submit", class_=looks)
    return [
        act(action, button),
        h("p", said, class_="soft"),
    ]


def _runs(site: Site) -> tuple[Markup | None, Markup | None]:
    """Return the table of runs and the table of studies, with None in place of an empty table."""
    own, studies = list[Markup](), list[Markup]()
    for name in site.runs.names()[:SHOWN]:
        try:
            look = site.runs.look(name)
        except FastLloydError as error:
            own.append(h("tr", h("td", f"{error}", colspan=4)))
            continue
        began = site.runs.path(name).stat().st_mtime
        study = look.study
        cells = [
            h("td", h("a", study.name if study else look.folder.name, href=f"/runs/{name}")),
            h("td", study.client, data_name="you") if study else None,
            h(
                "td",
                time.strftime("%Y-%m-%d %H:%M %Z", time.localtime(began)),
                data_name="last change",
            ),
            h("td", _state(look), data_name="state"),
            h("td", None if look.state in _OPEN else _removal(f"/runs/{name}/remove")),
        ]
        (studies if study else own).append(h("tr", cells))
    for name, draft in site.studies.recent()[:SHOWN]:
        if draft.get("done") and not _is_begun(site, draft):
            studies.append(_invited(name, draft))
    return (
        _table(("result", "last change", "state"), own),
        _table(("study", "you", "last change", "state"), studies),
    )


def _state(look: RunLook) -> Child:
    if look.study is not None and look.study.is_awaited and look.state is RunState.PAUSED:
        return h("b", "you are awaited")
    if look.study is not None and look.state is RunState.RUNNING:
        return f"under way, round {look.study.round} of {look.study.n_rounds}"
    return WORDS[look.state]


def _invited(name: str, draft: Answers) -> Markup:
    """Return the row of the table for a study whose run has not begun."""
    step = next((each for each in STUDY.steps if each not in draft["done"]), "rehearsal")
    has_plan = "plan" in draft
    title = title_of(plan_of(draft["plan"])) if has_plan else "Waiting for the plan"
    state = f"next: {STUDY.steps[step].lower()}" if has_plan else "no invitation yet"
    return h(
        "tr",
        h("td", h("a", title, href=f"/study/{name}/{step}")),
        h("td", Path(draft.get("key", "")).name.removesuffix(".identity.toml"), data_name="you"),
        h("td"),
        h("td", state, data_name="state"),
        h("td", _removal(f"/study/{name}/remove")),
    )


def _is_begun(site: Site, draft: Answers) -> bool:
    """Return whether the run of a draft has begun, with the same plan and identity."""
    if "plan" not in draft:
        return False
    try:
        member = PrivateIdentity.public_of(Path(draft["key"]))
        return site.runs.is_begun(id_of_run(plan_of(draft["plan"]), member))
    except FastLloydError:
        return False


def _table(heads: tuple[str, ...], rows: list[Markup]) -> Markup | None:
    return table((*heads, None), rows, kind="cards") if rows else None


def _removal(path: str) -> Markup:
    """Return a button that removes a line from the page. Results and the ledger stay."""
    button = h("button", "Remove from this page", type="submit", class_="second")
    return h("form", button, method="post", action=path)


async def remove_draft(site: Site, request: Request) -> Response:
    """Remove a draft."""
    site.drafts.remove(id_of(request))
    return go("/")


async def remove_study(site: Site, request: Request) -> Response:
    """Remove the draft of a study whose run has not begun."""
    site.studies.remove(id_of(request))
    return go("/")


async def remove_run(site: Site, request: Request) -> Response:
    """Remove a run that has ended from the page, with its draft."""
    await beside(site.runs.remove, id_of(request))
    if not site.runs.is_begun(id_of(request)):
        site.drafts.remove(id_of(request))
    return go("/")


def _asking(said: str = "", status: int = 200) -> Response:
    return page(
        "Open the app",
        h("p", said, class_="warn", role="alert") if said else None,
        h(
            "p",
            "Type the code that is shown where ",
            h("code", "fastlloyd app"),
            " was started. It works once, within two minutes.",
        ),
        h(
            "form",
            h(
                "div",
                h("label", "Code", for_="code"),
                h("input", type="password", id="code", name="code", autocomplete="off"),
                class_="field",
            ),
            h("div", h("button", "Open", type="submit"), class_="acts"),
            method="post",
            action="/enter",
            data_enter=True,
        ),
        act(
            "/code",
            h("button", "Show a new code in the terminal", type="submit", class_="second"),
        ),
        status=status,
    )


async def enter(_site: Site, request: Request) -> Response:
    """Check the code that the user typed. If it is right, the answer starts a session."""
    cookie = door_of(request).enter((await Form.of(request)).text("code"))
    if cookie is None:
        return _asking(
            "This code does not work: it was used before, is older than two minutes, or was"
            " mistyped.",
            403,
        )
    answer = go("/")
    answer.headers["set-cookie"] = cookie
    return answer


async def code(_site: Site, request: Request) -> Response:
    """Print a new code in the terminal in which the app was started."""
    door_of(request).ask_for_code()
    return go("/")


async def begin(site: Site, _request: Request) -> Response:
    """Begin a new draft of a run."""
    return go(f"/new/{site.drafts.new()}/file")


async def example(site: Site, _request: Request) -> Response:
    """Begin a new draft with a made-up table, which is written if it is not there.

    Raises OutputError if it cannot be written.
    """
    path = site.results / _EXAMPLE
    if not path.exists():
        write_private(path, _made_up_visits())
    name = site.drafts.new()
    site.drafts.save(name, {"path": str(path), "header": YES, "folder": str(site.results)})
    return go(f"/new/{name}/file")


def _made_up_visits() -> str:
    """Return the text of a table of visits in three groups. It is the same every time."""
    groups, rows = ((30, 3, 2), (55, 8, 7), (80, 20, 12)), ["age,days,medicines"]
    for n in range(900):
        # multiples of irrational numbers fill the room around a centre evenly
        around = [n * step % 1 - 0.5 for step in (0.618034, 0.754878, 0.56984)]
        row = (
            round(centre + width * part)
            for centre, width, part in zip(groups[n % 3], (20, 6, 4), around, strict=True)
        )
        rows.append(",".join(map(str, row)))
    return "\n".join(rows) + "\n"


def ask_again(back: str) -> Response:
    """Return the question for the code after a long pause, before anything is spent.

    back : path of the page to which the answer leads back.
    """
    return page(
        "Are you still there?",
        h(
            "p",
            "Nobody used the app for half an hour. Before anything is spent, type the code that the"
            " terminal shows now. Then confirm again.",
        ),
        form(
            "/enter",
            h(
                "div",
                h("label", "Code", for_="code"),
                h("input", type="password", id="code", name="code", autocomplete="off"),
                class_="field",
            ),
            label="Go on",
            back=back,
        ),
        status=403,
    )
