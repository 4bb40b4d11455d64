"""One line for every step that is over, with the same facts for programs."""

import logging
from pathlib import Path
from typing import Any

import pytest

from fastlloyd.federation.protocol.actions import SERVER
from fastlloyd.federation.protocol.messages import Broadcast
from fastlloyd.federation.runs.steps import StepLog
from federation import make_federation, make_plan
from mortal_parties import World

PLAN = make_plan(3, n_clusters=1, n_features=1, n_iterations=3, max_dropouts=1)
FEDERATION = make_federation(PLAN, seed=4)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name.endswith(".steps")]


def facts(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [record.facts for record in caplog.records if record.name.endswith(".steps")]  # type: ignore[attr-defined]


def test_every_round_has_a_line_that_says_who_was_in_it_who_was_missing_and_how_long_it_took(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with World(PLAN, FEDERATION.X, tmp_path) as world:
        world._revive()
        world.queue.clear()
        server = world.parties[SERVER].party
        caplog.set_level(logging.INFO, "fastlloyd")
        world.clock.now += 5
        for name in PLAN.names:
            world.connect(name)
        for _ in PLAN.names:
            world._deliver(*world.queue.popleft())
        world.parties["c2"].party = None  # it said Hello, and is never seen again
        _carry(world)
        world.clock.now += 600
        world._post(SERVER, server.deadline())
        world._post(SERVER, server.away("c2"))
        _carry(world)
    of_server = [f"round {number} of 3: 2 of 3 clients, without c2, 0 s" for number in (1, 2, 3)]
    of_server = [
        "joined: 3 of 3 clients, 5 s",
        "keys shared anew, attempt 2: 2 of 3 clients, without c2, 600 s",
        *of_server,
        "confirmed: 2 of 3 clients, without c2, 0 s",
    ]
    assert list(dict.fromkeys(lines(caplog))) == of_server  # both clients say the same
    assert len(lines(caplog)) == 3 * len(of_server)
    assert {
        "step": "round 1 of 3", "round": 1, "included": ["c0", "c1"], "missing": ["c2"], "seconds": 0.0
    } in facts(caplog)  # fmt: skip


def _carry(world: World) -> None:
    while world.queue:
        sender, to, data = world.queue.popleft()
        if world.parties[to].party is not None and world.parties[sender].party is not None:
            world._deliver(sender, to, data)


def test_of_a_step_that_an_earlier_process_began_no_seconds_are_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "fastlloyd")
    now = [100.0]
    log = StepLog(PLAN, lambda: now[0], is_begun=True)
    for number in (2, 3):
        now[0] += 7.25
        log.write([Broadcast.of(PLAN.names, number, dict.fromkeys(PLAN.names, bytes(8)), b"")])
    assert lines(caplog) == ["round 2 of 3: 3 of 3 clients", "round 3 of 3: 3 of 3 clients, 7.25 s"]


def test_of_many_that_are_missing_the_first_are_named_and_the_others_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "fastlloyd")
    plan = make_plan(40, max_dropouts=20)
    log = StepLog(plan, lambda: 0.0, is_begun=True)
    log.write([Broadcast.of(plan.names, 1, dict.fromkeys(plan.names[:20], bytes(8)), b"")])
    (line,) = lines(caplog)
    assert line.endswith(", without " + ", ".join(plan.names[20:32]) + " and 8 more")
    assert facts(caplog)[0]["missing"] == list(plan.names[20:])
