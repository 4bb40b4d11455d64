"""The page of runs in stores: live, stopped and ended runs, and nothing but names and numbers."""

import base64
import hashlib
import re
from typing import Any

import msgspec
import pytest

from fastlloyd.jobs.live import OLD, Live, Sight
from fastlloyd.reports.page.status import page_of_status
from fastlloyd.reports.status import ago, clock, has_stopped

NOW = 1_795_789_842.0
SIGHT = Sight(
    name="central",
    role="server",
    run_id="00ff",
    step="round 2 of 9",
    n_rounds=9,
    n_clients=3,
    n_awaited=1,
    awaited=("east",),
    connected=("north", "<south>"),
    seconds_left=95.0,
    sent=86,
    received=3330,
)
LIVE = Live(
    sight=SIGHT, began=NOW - 60, since=NOW - 20, written=NOW - 1, steps=(("joining", 40.0),)
)
RUN: dict[str, Any] = {
    "run_id": "00ff",
    "client": None,
    "dataset": "canary-of-the-data-set",
    "rounds": 1,
    "charged": [1],
    "state": "in round 2",
    "reason": "",
}


def _page(live: Live | None, *, in_use: bool | None = True, **run: Any) -> str:
    of = RUN | run | {"live": None if live is None else msgspec.to_builtins(live)}
    store = {"role": "server", "events": 9, "in_use": in_use, "runs": [of]}
    return page_of_status([store], NOW).decode()


def _text(page: str) -> str:
    shown = re.sub(r"<(style|script).*?</\1>", " ", page, flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub("<[^>]*>", "", shown))


def test_a_live_run_says_whom_it_waits_for_since_when_and_how_long_still() -> None:
    text = _text(_page(LIVE))
    for said in (
        "central: round 2 of 9",
        "1 of 9 rounds closed",
        "2026-11-27 14:30:22 UTC (20 s ago)",
        "It waits foreast",
        "Time left1:35",
        "86 bytes sent, 3.33 kB received",
        "east: away",
        "&lt;south&gt;: connected",
    ):
        assert said in text
    assert "last heard" not in text


@pytest.mark.parametrize(("age", "in_use"), [(OLD + 1, None), (OLD + 1, True), (1.0, False)])
def test_a_killed_process_is_never_shown_as_running(age: float, in_use: bool | None) -> None:
    live = msgspec.structs.replace(LIVE, written=NOW - age)
    assert has_stopped(live, NOW, is_used=in_use)
    text = _text(_page(live, in_use=in_use))
    assert f"last heard {ago(age)}" in text
    assert "Time left" not in text
    assert "connected" not in text


def test_a_run_that_ended_says_so_and_is_never_old() -> None:
    live = msgspec.structs.replace(LIVE, written=NOW - 9999, end="The run is over.")
    text = _text(_page(live, in_use=False, state="finished"))
    assert "central: finishedThe run is over." in text
    assert "start it again" not in text


def test_the_page_runs_its_own_script_alone_and_names_no_data_set() -> None:
    page = _page(LIVE, client="north")
    (code,) = re.findall("<script>(.*?)</script>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert "default-src" in policy
    assert f"script-src &#x27;sha256-{digest}&#x27;" in policy
    assert "canary" not in page
    assert "http" not in page.replace("http-equiv", "")


def test_a_run_without_a_file_of_progress_and_a_store_without_runs_have_pages() -> None:
    assert "server: in round 2" in _text(_page(None))
    empty = {"role": "server", "events": 0, "in_use": False, "runs": []}
    assert "No run yet." in _text(page_of_status([empty], NOW).decode())


@pytest.mark.parametrize(
    ("seconds", "said", "shown"),
    [
        (0, "0 s ago", "0:00"),
        (61, "1 min ago", "1:01"),
        (7_201, "2 h ago", "2:00:01"),
        (2e5, "2 d ago", "55:33:20"),
    ],
)
def test_times_are_said_in_units_that_people_read(seconds: float, said: str, shown: str) -> None:
    assert ago(seconds) == said
    assert clock(seconds) == shown
