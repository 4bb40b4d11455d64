"""Page about the runs in stores: the current step, awaited parties, rounds, bytes and time left."""

from typing import Any, Final, LiteralString

from fastlloyd.base.markup import Child, Markup, element
from fastlloyd.federation.transport.grpc.outbox import Meter
from fastlloyd.jobs.live import OLD, Live, Sight
from fastlloyd.mechanisms.facts import Fact
from fastlloyd.mechanisms.persons import RECORD
from fastlloyd.reports.page.document import BEGINNING, document
from fastlloyd.reports.page.words import breakable, marked
from fastlloyd.reports.status import ago, clock, has_stopped, live_of, utc

MOST_NAMED: Final = 60
_TITLE: Final = "Status"
HEADING: Final = f"{BEGINNING}{_TITLE} ·"  # how every such page begins

# The page is a file, so only a script can tell how old it is now. It loads the file again while the
# page is seen and not paused, and shows the warning when nobody has written the file for long.
_SCRIPT: LiteralString = """
const page = document.querySelector("[data-written]"), pause = document.getElementById("pause");
let paused = false;
pause.hidden = false;
pause.addEventListener("click", () => {
  paused = !paused;
  pause.setAttribute("aria-pressed", paused);
});
setInterval(() => {
  const age = Date.now() / 1000 - page.dataset.written;
  document.getElementById("old").hidden = age < page.dataset.old;
}, 1000);
setInterval(() => { if (!paused && !document.hidden) location.reload(); }, 5000);
"""


def page_of_status(stores: list[dict[str, Any]], now: float) -> bytes:
    """Return the page about the runs that `status.look` found in one or more stores.

    It shows names of parties, steps, bytes and times, and nothing about records.

    now : current time, in seconds since 1970.
    """
    runs = [
        _run(run, now, is_used=store["in_use"], role=store["role"])
        for store in stores
        for run in reversed(store["runs"])
    ]
    content: list[Child] = [
        element("p", _said("status_old"), id="old", class_="warn", hidden=True, role="alert"),
        element("p", _said("status_kicker"), class_="kicker"),
        element("h1", _said("status_title")),
        element("p", _said("status_written", time=utc(now)), class_="soft"),
        element(
            "p",
            element(
                "button",
                _said("status_pause"),
                id="pause",
                type="button",
                hidden=True,
                aria_pressed="false",
            ),
            " ",
            element("a", _said("status_again"), href="?"),
        ),
        runs or element("p", _said("status_no_run")),
    ]
    whole = element("div", content, data_written=f"{now:.0f}", data_old=f"{OLD + 6:.0f}")
    return document(_TITLE, [whole], _SCRIPT)


def _run(run: dict[str, Any], now: float, *, is_used: bool | None, role: str) -> Markup:
    """Return the section of one run."""
    live = live_of(run)
    name = run["client"] or role if live is None else live.sight.name
    is_stopped = live is not None and has_stopped(live, now, is_used=is_used)
    is_live = live is not None and not (is_stopped or live.end or run["reason"])
    step = live.sight.step if live is not None and is_live else run["state"]
    content: list[Child] = [element("h2", breakable(name), ": ", step)]
    if run["reason"]:
        content.append(element("p", run["reason"]))
    elif live is not None and is_stopped:
        said = "status_stopped" if live.sight.can_go_on else "status_stopped_for_good"
        words = _said(said, ago=ago(live.age(now)))
        content.append(element("p", words, class_="warn"))
    elif live is not None and live.end:
        content.append(element("p", live.end))
    if live is not None:
        content += _progress(run, live, now, is_live=is_live)
    if run["run_id"]:
        content.append(
            element("dl", element("dt", _said("term_run")), element("dd", run["run_id"]))
        )
    return element("section", content)


def _progress(run: dict[str, Any], live: Live, now: float, *, is_live: bool) -> list[Child]:
    """Return rounds, times and bytes of a run, and its parties while its process is alive."""
    sight = live.sight
    terms: list[tuple[str, Child]] = [
        ("status_since", f"{utc(live.since)} ({ago(now - live.since)})" if is_live else None),
        ("status_heard", None if is_live else utc(live.written)),
        ("status_waits", _waits(sight) if is_live else None),
        (
            "status_left",
            clock(sight.seconds_left) if is_live and sight.seconds_left is not None else None,
        ),
        ("status_bytes", str(Meter(sight.sent, sight.received)) if sight.n_clients else None),
    ]
    done = min(run["rounds"], sight.n_rounds)
    return [
        element(
            "p",
            element("progress", value=done, max=sight.n_rounds, aria_label="rounds"),
            " ",
            _said("status_rounds", n=done, of=sight.n_rounds),
        )
        if sight.n_rounds
        else None,
        element(
            "dl",
            [
                [element("dt", _said(term)), element("dd", text)]
                for term, text in terms
                if text is not None
            ],
        ),
        _connected(sight) if is_live else None,
        _steps(live),
    ]


def _waits(sight: Sight) -> Child:
    """Return the parties that have not answered in this step, or None if all have."""
    if sight.awaited is None or len(sight.awaited) > MOST_NAMED:
        return _said("status_n_awaited", n=sight.n_awaited) if sight.n_awaited else None
    return [[", " if n else None, breakable(name)] for n, name in enumerate(sight.awaited)] or None


def _connected(sight: Sight) -> Child:
    """Return the clients that are connected and those that are away, as a server sees them."""
    if sight.connected is None or len(sight.connected) > MOST_NAMED:
        return None
    away = sorted({*(sight.awaited or ()), *sight.not_told} - set(sight.connected))
    rows = [(name, "status_connected", "") for name in sight.connected] + [
        (name, "status_away", "away") for name in away
    ]
    return element(
        "ul",
        [
            element("li", breakable(name), ": ", _said(words), class_=mark or None)
            for name, words, mark in rows
        ],
        class_="plain",
    )


def _steps(live: Live) -> Child:
    """Return the steps before this one with their durations."""
    if not live.steps:
        return None
    rows = [
        element("tr", element("td", step, class_="l"), element("td", f"{seconds:,.1f} s"))
        for step, seconds in live.steps
    ]
    table = element("table", element("tbody", rows), class_="t")
    return element("details", element("summary", _said("status_steps")), table)


def _said(name: str, **values: Any) -> Markup:
    return marked(Fact.of(name, **values), RECORD)
