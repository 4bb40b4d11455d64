"""Page that shows the user's part in a study until there is a result: rounds, number of missing
organisations, and end.
"""

import time

from starlette.requests import Request
from starlette.responses import Response

from fastlloyd.app.answers import FieldFault, as_sentence, sentence_of
from fastlloyd.app.children import RunLook
from fastlloyd.app.errands import OVER
from fastlloyd.app.forms import Form
from fastlloyd.app.frame import act, box, elsewhere, fault_at, h, page
from fastlloyd.app.pages.plan import bill
from fastlloyd.app.pages.waiting import words_of
from fastlloyd.app.run_state import RunState
from fastlloyd.app.site import Site, beside, go, id_of
from fastlloyd.app.studies import StudyLook, plan_of
from fastlloyd.app.watching import answer, followed
from fastlloyd.base.markup import Child, Markup
from fastlloyd.base.names import same
from fastlloyd.errors import FastLloydError, StateError
from fastlloyd.jobs.join_file import JoinFile
from fastlloyd.jobs.live import Live
from fastlloyd.reports.accounts import spent
from fastlloyd.reports.facts import duration
from fastlloyd.reports.status import ago, utc

GO_ON = "go-on"
_SURE = "sure"
_SAID = {
    RunState.PAUSED: "This machine has stopped taking part. Nothing is lost: the study goes on from"
    " here when you press Go on.",
    RunState.NOT_SPENT: "Your part in the study ended before anything was charged. Nothing was"
    " spent.",
    RunState.SPENT: "The study ended without a result.",
}


def words(look: RunLook, study: StudyLook) -> tuple[str, str]:
    """Return two texts for readers: the state of the user's part in a study, and details of its
    current step.
    """
    if look.state is not RunState.RUNNING:
        return "Finished." if look.state is RunState.DONE else _SAID[look.state], ""
    if study.live is None or study.live.end:
        return "Your part in the study begins.", ""
    state, step = heard(study.live)
    said = [*map(as_sentence, look.faults), step]
    if study.n_exchanges:
        said.append(f"{study.n_charged} of {study.n_exchanges} rounds are charged so far.")
    return state, " ".join(said)


def heard(live: Live) -> tuple[str, str]:
    """Return the current step from a file of progress, and its details."""
    sight, now = live.sight, time.time()
    if live.is_old(now):
        return f"Last heard {ago(live.age(now))}.", "The process may have stopped."
    said = [f"This step began {ago(now - live.since)}."]
    if sight.n_awaited:
        said.append(f"Waiting for {sight.n_awaited} of {sight.n_clients} organisations.")
    if sight.seconds_left is not None:
        hours, minutes = round(sight.seconds_left / 3600), round(sight.seconds_left / 60)
        left = f"{hours} hours" if hours > 1 else f"{minutes} min"
        said.append(f"This machine gives up if nothing comes within {left}.")
    if sight.n_clients:
        said.append(f"Sent {sight.sent:,} bytes, received {sight.received:,} bytes.")
    return f"{sight.step[:1].upper()}{sight.step[1:]}.", " ".join(said)


def live(site: Site, request: Request, look: RunLook, study: StudyLook) -> Response:
    """Return the state of the user's part in a study, for the script of its page."""
    errand = site.errands.of(id_of(request), GO_ON)
    if errand is not None and errand.state != OVER:
        return answer(request, words_of(errand), "", is_over=False)
    state, step = words(look, study)
    is_over = look.state is not RunState.RUNNING
    return answer(request, state, step, study.live, is_over=is_over)


def show(site: Site, request: Request, look: RunLook, study: StudyLook) -> Response:
    """Return the page about the user's part in a study, as long as there is no result."""
    name, errand = id_of(request), site.errands.of(id_of(request), GO_ON)
    if errand is not None and errand.state != OVER:
        end = (f"/runs/{name}", "Continue")
        return page(study.name, followed(request, words_of(errand), "", end))
    if look.state is RunState.RUNNING:
        return _running(request, look, study)
    faults = (
        (FieldFault("", errand.fault),)
        if errand is not None and errand.state == OVER and errand.fault
        else ()
    )
    return _ended(site, name, look, study, faults)


def _running(request: Request, look: RunLook, study: StudyLook) -> Response:
    name = id_of(request)
    state, step = words(look, study)
    end = (f"/runs/{name}", "See how it ended")
    return page(
        study.name,
        followed(request, state, step, end, study.live),
        _bill(look, study),
        h(
            "p",
            "You may close this page and the app: your part in the study goes on, and you find it"
            " on the first page later. Only the server knows which organisations are missing: ask"
            " the person who invited you.",
            data_running=True,
        ),
        _notes(look),
        act(
            f"/runs/{name}/stop",
            h("button", "Stop for now", class_="second"),
            h(
                "span",
                "The others wait for you. What was sent stays spent. The study continues if you"
                ' press "Go on" before their waiting time ends.',
                class_="soft",
            ),
            data_running=True,
        ),
        _same(look),
    )


def _bill(look: RunLook, study: StudyLook) -> Markup:
    rows: list[tuple[str, Child]] = [("You", study.client)]
    if isinstance(look.file, JoinFile):
        rows.append(("Data set", look.file.dataset))
    if look.state is RunState.RUNNING:  # the script tells the rest anew each second
        return bill(rows)
    if study.n_exchanges and look.state is RunState.PAUSED:
        rows.append(
            (
                "Charged so far",
                (
                    f"{study.n_charged} of {study.n_exchanges} rounds. All are reserved until"
                    " the run ends."
                ),
            )
        )
    if study.live is not None:
        rows.append(("Steps of this process", _steps(study.live)))
    return bill(rows)


def _steps(live_: Live) -> Child:
    done = [h("li", f"{step}: {seconds:.1f} s") for step, seconds in live_.steps[-12:]]
    return h("ul", done) if done else f"Begun {utc(live_.began)}."


def _notes(look: RunLook) -> list[Markup]:
    return [h("p", as_sentence(note), class_="note") for note in look.notes[-3:]]


def _same(look: RunLook) -> Markup | None:
    if not isinstance(look.file, JoinFile):
        return None
    lines = [f"fastlloyd status {look.file.key} --watch"]
    if look.state is RunState.PAUSED:
        run_id = plan_of(look.file.plan).run_id
        lines.append(f"fastlloyd ledger release {look.file.store} --run {run_id}")
    return elsewhere("\n".join(lines))


def _ended(
    site: Site, name: str, look: RunLook, study: StudyLook, faults: tuple[FieldFault, ...]
) -> Response:
    title = {
        RunState.PAUSED: f"{study.name} is waiting",
        RunState.NOT_SPENT: f"{study.name}: nothing was spent",
    }.get(look.state, f"{study.name}: there is no result")
    return page(
        title,
        h("p", _SAID[look.state], class_="note", role="status"),
        h("p", h("b", "The others wait for you."), class_="warn")
        if look.state is RunState.PAUSED and study.is_awaited
        else None,
        h("p", "Another process uses the store of this identity.", class_="warn")
        if study.is_used and look.state is RunState.PAUSED
        else None,
        h("p", f"Reason: {study.reason}.", class_="warn") if study.reason else None,
        [
            h("p", f"Reason: {fault.rstrip('.')}.", class_="warn")
            for fault in look.faults
            if not study.reason  # the store knows better than the log of the last process
        ],
        _notes(look),
        _bill(look, study),
        _patience(look) if look.state is RunState.PAUSED else None,
        _given_back(site, look, study),
        _ways_on(name, look),
        _giving_up(name, faults) if look.state is RunState.PAUSED else None,
        _same(look),
        faults=faults,
    )


def _ways_on(name: str, look: RunLook) -> list[Child]:
    """Return what a user can do about a study that has stopped. Nothing starts by itself."""
    is_open = look.state in (RunState.PAUSED, RunState.NOT_SPENT)
    return [
        h("p", "The app does not start it again by itself."),
        act(
            f"/runs/{name}/go-on",
            h(
                "button",
                "Go on" if look.state is RunState.PAUSED else "Try again with the same answers",
            ),
            h("a", "See the ledger", href="/ledger", class_="button second"),
        )
        if is_open
        else h(
            "div",
            h("a", "See the ledger", href="/ledger", class_="button"),
            class_="acts",
        ),
        act(f"/runs/{name}/again", h("button", "Change the answers", class_="second"))
        if look.state is RunState.NOT_SPENT
        else None,
        h(
            "p",
            "A further run needs a renewed plan: ask the person who made this one. It spends its"
            " epsilon again.",
        )
        if look.state is RunState.SPENT
        else None,
    ]


def _patience(look: RunLook) -> Markup | None:
    """Return the time that the others wait."""
    if not isinstance(look.file, JoinFile):
        return None
    waits = duration(plan_of(look.file.plan).timeouts.round)
    return h("p", f"The plan lets the others wait {waits} for the answer of a round.")


def _giving_up(name: str, faults: tuple[FieldFault, ...]) -> Markup:
    """Return the form that ends this machine's part in a run for good."""
    return h(
        "details",
        h("summary", "Give the run up"),
        h(
            "form",
            h(
                "p",
                "This machine then sends nothing more in this run and gets no result. The rounds"
                " that were charged stay spent; the others are given back. Tell the person who"
                " invited you.",
            ),
            fault_at(_SURE, faults),
            box(_SURE, "Give this run up for good."),
            h("div", h("button", "Give the run up", class_="second"), class_="acts"),
            method="post",
            action=f"/runs/{name}/give-up",
        ),
        open=True if faults else None,
    )


async def give_up(site: Site, request: Request) -> Response:
    """End this machine's part in a study that has stopped. What was not charged is given back."""
    name, given = id_of(request), await Form.of(request)
    look = await beside(site.runs.look, name)
    file, study = look.file, look.study
    if not isinstance(file, JoinFile) or study is None or look.state is not RunState.PAUSED:
        return go(f"/runs/{name}")
    fault = FieldFault(_SURE, "Tick the box to give the run up.")
    if given.text(_SURE):
        run_id = plan_of(file.plan).run_id
        said = await beside(site.command, "ledger", "release", str(file.store), "--run", run_id)
        if not said:
            return go(f"/runs/{name}")
        fault = FieldFault("", said)
    return _ended(site, name, look, study, (fault,))


def _given_back(site: Site, look: RunLook, study: StudyLook) -> Markup | None:
    """Return a paragraph on the rounds that a study spent and gave back. Return None unless the
    study has ended without a result and has spent budget.
    """
    if look.state is not RunState.SPENT or not isinstance(look.file, JoinFile):
        return None
    n_back = study.n_exchanges - study.n_charged
    said = (
        f"{study.n_charged} of {study.n_exchanges} rounds were charged and stay spent."
        f" {n_back} {'was' if n_back == 1 else 'were'} given back."
    )
    try:
        of_data = [one for one in site.accounts if same(one.dataset) == same(look.file.dataset)]
        total = " ".join(map(spent, of_data))
    except FastLloydError as error:
        total = sentence_of(error)
    return h("p", f"{said} {total}")


def begin_again(site: Site, name: str, questions: tuple[str, ...]) -> None:
    """Start a child again for the request of a study. Raises StateError if a passphrase is needed
    and the terminal cannot ask for it.
    """

    def work(secret: str | None) -> None:
        try:
            site.runs.go_on(name, secret)
        except OSError as error:
            raise StateError(f"it was not started ({error.strerror})") from None

    site.errands.begin(name, GO_ON, work, questions)
