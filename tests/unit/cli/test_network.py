"""What `serve` and `join` say: where a run is, how it ended, and that a store is new."""

import asyncio
import importlib.util
import json
import logging
import os
import signal
import time
from functools import partial
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

if importlib.util.find_spec("grpc") is None:
    pytest.skip("gRPC is not installed", allow_module_level=True)

from datetime import UTC, datetime, timedelta

from fastlloyd.cli import live_words, network
from fastlloyd.federation.identity.identity import PrivateIdentity
from fastlloyd.federation.store import Role
from fastlloyd.federation.transport.grpc.outbox import Meter
from fastlloyd.jobs.live import LiveFile, Sight

Screen = pytest.CaptureFixture[str]
SIGHT = Sight(name="server", role="server", run_id="00", step="joining", n_rounds=2, n_clients=3)


@pytest.mark.parametrize("as_json", [False, True])
def test_without_a_terminal_who_is_waited_for_is_said_after_a_while_and_then_ever_less_often(
    as_json: bool, capsys: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an hour in one step and ten minutes in the next, looked at four times a second."""
    hour, waited = 3600.0, [0.0]
    genuine = asyncio.sleep

    async def pass_quickly(seconds: float) -> None:
        waited[0] += seconds
        await genuine(0)

    def look() -> Sight:
        step = "joining" if waited[0] < hour else "round 1 of 2"
        return msgspec.structs.replace(SIGHT, step=step)

    async def run() -> str:
        loop = asyncio.get_running_loop()
        loop.time = lambda: waited[0]  # type: ignore[method-assign]
        while waited[0] < hour + 600:
            await genuine(0)
        return "the end"

    monkeypatch.setattr(asyncio, "sleep", pass_quickly)
    with network.logging_to_stderr(as_json=as_json):
        ended = network.drive(
            run, lambda: None, look, LiveFile(None), lambda: f", at {waited[0]:.0f}"
        )
    assert ended == "the end"
    lines = capsys.readouterr().err.splitlines()
    said = [json.loads(line)["message"] if as_json else line.split("INFO ")[1] for line in lines]
    assert [line.split(";")[0] for line in said] == ["joining"] * 10 + ["round 1 of 2"] * 5
    first = [float(line.split(", at ")[1]) for line in said[:8]]
    assert [round(b - a, -1) for a, b in pairwise(first)] == [20, 40, 80, 160, 320, 600, 600]
    assert first[0] < 12


def test_how_it_ended_is_a_sentence_or_one_more_object_of_the_log(capsys: Screen) -> None:
    for end, code in (
        (network.stopped, 4),
        (partial(network.ended_without_result, "nobody came"), 3),
    ):
        assert end(as_json=False).exit_code == end(as_json=True).exit_code == code
        sentence, entry = capsys.readouterr().err.splitlines()
        assert json.loads(entry).keys() == {"time", "level", "message"}
        assert json.loads(entry)["message"] == sentence


def test_a_client_is_told_that_a_store_is_new_and_a_server_has_nothing_to_spend(
    tmp_path: Path, capsys: Screen
) -> None:
    identity = PrivateIdentity.make("clinic-a", datetime.now(UTC).date() + timedelta(days=50))
    for role, said in ((Role.CLIENT, ["Note: made", ""]), (Role.SERVER, ["", ""])):
        path = tmp_path / f"{role.value}.store"
        for begins in said:
            network.store_of(
                identity.public, tmp_path / "clinic-a.identity.toml", path, role
            ).close()
            assert capsys.readouterr().err[: len("Note: made")] == begins


def test_the_line_of_a_server_names_who_has_not_answered() -> None:
    for awaited, said in (
        ((), ""),
        (("a", "b"), ", waiting for a, b (away)"),
        (tuple(f"c{i}" for i in range(20)), ", waiting for 20 clients"),
    ):
        sight = msgspec.structs.replace(SIGHT, awaited=awaited, connected=("a",))
        assert live_words.details(sight) == f", 1 of 3 clients connected{said}; {Meter()}"


def test_the_line_of_a_server_whose_run_is_over_says_for_whom_it_stays_and_how_long() -> None:
    over = msgspec.structs.replace(
        SIGHT, connected=("b",), not_told=("b", "c"), awaited=(), seconds_left=34.2
    )
    assert live_words.details(over) == (
        ", 1 of 3 clients connected; the server runs until b, c (away) know that the run is over,"
        " 0:34 left; 0 bytes sent, 0 bytes received"
    )
    many = msgspec.structs.replace(over, not_told=tuple(f"c{i}" for i in range(20)))
    assert "until 20 clients know that the run is over, 0:34 left" in live_words.details(many)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (None, ""),
        (-3, ", 0:00 left"),
        (3599.4, ", 59:59 left"),
        (3600, ", 1:00:00 left"),
        (93_784, ", 26:03:04 left"),
    ],
)
def test_what_a_step_may_still_take_is_said_in_minutes_and_from_an_hour_on_in_hours(
    seconds: float | None, said: str
) -> None:
    assert live_words.seconds_left(seconds) == said


def test_a_client_says_when_it_gives_up_which_is_not_when_the_step_is_over() -> None:
    assert [live_words.gives_up_in(each) for each in (None, 59.2, 176_390)] == [
        "",
        ", this client waits at most 0:59",
        ", this client waits at most 48:59:50",
    ]


def test_bytes_are_said_in_units_that_people_read() -> None:
    assert str(Meter(sent=0, received=999)) == "0 bytes sent, 999 bytes received"
    assert str(Meter(sent=1000, received=123_456_789)) == "1 kB sent, 123 MB received"
    assert str(Meter(sent=2 * 10**18, received=1234)) == "2000000 TB sent, 1.23 kB received"
    assert str(Meter(sent=999_499, received=999_500)) == "999 kB sent, 1 MB received"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_every_signal_to_end_finishes_the_step_in_progress(number: signal.Signals) -> None:
    """SIGHUP may come twice, from the terminal and from the shell; it ends nothing sooner."""
    stopped: list[signal.Signals] = []

    async def run() -> str:
        for _ in range(2 if number is signal.SIGHUP else 1):
            os.kill(os.getpid(), number)
            n_before = len(stopped)
            while len(stopped) == n_before:
                await asyncio.sleep(0)
        return "the step's end"

    before = signal.getsignal(signal.SIGHUP)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        assert network.heed_signals(run, lambda: stopped.append(number)) == "the step's end"
    finally:
        signal.signal(signal.SIGHUP, before)
    assert set(stopped) == {number}


def test_under_nohup_the_end_of_the_terminal_is_not_heard() -> None:
    async def run() -> str:
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.sleep(0)
        return "the end"

    before = signal.getsignal(signal.SIGHUP)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert network.heed_signals(run, lambda: pytest.fail("it was heard")) == "the end"
    finally:
        signal.signal(signal.SIGHUP, before)


def test_lines_of_a_log_for_people_begin_with_the_time_in_utc(
    capsys: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    time.tzset()
    try:
        with network.logging_to_stderr(as_json=False):
            record = logging.getLogger("fastlloyd.x").makeRecord(
                "fastlloyd.x", logging.INFO, "", 0, "connected", (), None
            )
            record.created = 1_800_000_000.5
            logging.getLogger("fastlloyd").handle(record)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert capsys.readouterr().err == "2027-01-15T08:00:00Z INFO connected\n"
