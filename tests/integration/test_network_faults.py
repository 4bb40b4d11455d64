"""Peers that flood, come too late or only hold connections, clocks that jump, and screens and logs
on a disk that is full.
"""

import ast
import asyncio
import contextlib
import importlib.util
import io
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

if importlib.util.find_spec("grpc") is None:
    pytest.skip(
        'gRPC is not installed: python -m pip install ".[network]"', allow_module_level=True
    )

import fastlloyd
from fastlloyd.cli import failures, network
from fastlloyd.errors import FastLloydError
from fastlloyd.federation.protocol.actions import ClientResult, Ended
from fastlloyd.federation.transport.grpc.frames import Refused
from fastlloyd.federation.transport.grpc.log import FIRST_LINES
from federation import make_federation, make_plan
from grpc_site import Site, answer, serving, until, within
from known_to_server import hellos_of

PACKAGE = Path(fastlloyd.__file__).parent


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("grpc_proxy", "https_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)


# Floods


def test_a_client_of_the_plan_that_opens_stream_after_stream_does_not_fill_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its first lines are there, and how many more there were; those about others are all there."""
    n_streams = 3 * FIRST_LINES
    caplog.set_level(logging.INFO, "fastlloyd")

    async def test() -> None:
        site = Site()
        async with serving(site.server()) as port:
            async with site.channel("c1", port) as channel:
                for _ in range(n_streams):
                    stream = channel.stream_stream("/fastlloyd.Run/Stream")()
                    await stream.write(b"\x1b[2J what nobody honest says\n")
                    assert isinstance(await answer(site, stream), Refused)
            site.check(await site.run_clients(port))

    within(test)
    said = [message for message in caplog.messages if "c1" in message]
    assert sum("client c1 is refused" in line for line in said) == FIRST_LINES
    assert (
        f'c1: {n_streams - FIRST_LINES} more lines like "client ... is refused: ..."'
        " were left out" in said
    )
    for name in ("c0", "c1", "c2"):
        assert f"client {name} is connected" in caplog.messages
    assert all(" " <= character <= "~" for line in caplog.messages for character in line)


def test_who_speaks_no_tls_gets_no_word_and_holds_up_nobody() -> None:
    async def test() -> None:
        site = Site()
        async with serving(site.server()) as port:
            for words in (
                b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9),
                b"GET / HTTP/1.1\r\n\r\n",
            ):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(words)
                with contextlib.suppress(ConnectionError):
                    assert (
                        b"HTTP" not in await reader.read()
                    )  # at most TLS's own word that this is none
                writer.close()
            site.check(await site.run_clients(port))

    within(test)


# Who comes late


def test_who_comes_before_the_time_to_join_is_over_is_in_and_who_comes_later_is_told_and_disturbs_nobody() -> (
    None
):
    async def test() -> None:
        site = Site(make_federation(make_plan(4, max_dropouts=1)))
        session = site.party.session
        late: list[Any] = []

        def patience() -> float | None:
            """The time to join is over once three are there; every other step waits for all who are
            present.
            """
            return (
                0.0 if session.state.value == "joining" and len(hellos_of(session)) == 3 else None
            )

        async with serving(site.server()) as port:
            first = [asyncio.create_task(site.client(name, port).run()) for name in ("c0", "c1")]
            await until(lambda: len(hellos_of(session)) == 2)
            site.party.patience = patience
            hold = asyncio.Event()
            loop = asyncio.get_running_loop()

            def watch(message: object) -> None:
                loop.call_soon_threadsafe(hold.set)

            site.parties["c2"].on_message = watch  # its keys, or a sum: the group key was dealt
            first.append(asyncio.create_task(site.client("c2", port).run()))
            await hold.wait()
            late.append(await site.client("c3", port).run())
            outcomes = await asyncio.gather(*first)
        assert late == [Ended("the server ended the run: the run began without client c3")]
        for outcome in outcomes:
            assert isinstance(outcome, ClientResult)
            assert outcome.included == (("c0", "c1", "c2"),) * 3

    within(test)


# Clocks


WALL_CLOCKS = {
    "time.time",
    "time.time_ns",
    "time.localtime",
    "datetime.now",
    "dt.datetime.now",
    "datetime.utcnow",
    "date.today",
}
# whether a certificate is valid, when one is made, when a line of a log was written or an event
# recorded
MAY_READ_THE_DATE = {
    "federation/plan/plan.py", "federation/identity/identity.py", "federation/identity/certificates.py",
    "federation/transport/grpc/failures.py", "cli/network.py", "cli/commands/keygen.py",
    "cli/commands/demo.py", "reports/plan_facts.py", "jobs/site_check.py",
}  # fmt: skip

# the time that an event, a file of progress or a result carries, and how long ago that is, for
# people; a clock that jumps back is no fault
TELLS_PEOPLE_THE_TIME = {
    "federation/store/events.py", "jobs/live.py", "cli/commands/status.py", "reports/run_result.py",
    "reports/status.py",
    "app/children.py", "app/pages/confirm.py", "app/pages/start.py",
    "app/pages/study_run.py",
}  # fmt: skip


def test_no_deadline_and_nothing_durable_knows_what_time_of_the_day_it_is() -> None:
    """So a wall clock that jumps, forwards or backwards, moves no deadline and changes no byte of a
    run.
    """
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and ast.unparse(node) in WALL_CLOCKS:
                found.add(str(path.relative_to(PACKAGE)))
    assert found <= MAY_READ_THE_DATE | TELLS_PEOPLE_THE_TIME
    assert not any(
        path.startswith(
            ("federation/runs/", "federation/protocol/", "federation/store/", "federation/secagg/")
        )
        for path in MAY_READ_THE_DATE
    )


def test_a_wall_clock_that_jumps_by_hours_during_a_run_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jumps = iter(range(1 << 30))

    def jumping() -> float:
        return 1.8e9 + (1 if next(jumps) % 2 else -1) * 12 * 3600

    monkeypatch.setattr(time, "time", jumping)
    monkeypatch.setattr(time, "time_ns", lambda: int(jumping()) * 10**9)

    async def test() -> None:
        site = Site()
        async with serving(site.server()) as port:
            site.check(await site.run_clients(port))

    within(test)


@pytest.mark.parametrize(
    ("days", "sentence"),
    [
        (
            -10,
            (
                "not valid before {begins:%Y-%m-%d %H:%M} UTC, and by this machine's clock it is"
                " {now:%Y-%m-%d %H:%M}; check the"
            ),
        ),
        (
            400,
            (
                "expired on {ends:%Y-%m-%d}, and by this machine's clock it is {now:%Y-%m-%d};"
                " unless the clock is wrong, its"
            ),
        ),
    ],
)
def test_a_clock_that_is_wrong_at_the_start_is_named(days: int, sentence: str) -> None:
    from fastlloyd.federation.identity.certificates import parse_certificate
    from fastlloyd.federation.identity.identity import PrivateIdentity

    now = datetime.now(UTC) + timedelta(days=days)
    known = PrivateIdentity.make("a", (now + timedelta(days=365 - days)).date()).public
    with pytest.raises(FastLloydError) as refused:
        known.check_valid(now)
    certificate = parse_certificate(known.certificate, "a")
    assert sentence.format(begins=certificate.begins, ends=certificate.ends, now=now) in str(
        refused.value
    )


# Screens and logs that cannot be written


@pytest.fixture
def full_screen() -> Iterator[io.TextIOWrapper]:
    """For stderr: a file on a disk that is full."""
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    screen = io.TextIOWrapper(io.FileIO(os.open("/dev/full", os.O_WRONLY), "w"), write_through=True)
    yield screen
    with contextlib.suppress(OSError):
        screen.close()


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (network.stopped, network.STOPPED),
        (lambda: network.ended_without_result("why"), network.NO_RESULT),
    ],
)
def test_the_exit_code_says_how_it_ended_though_the_log_cannot_be_written(
    end: Callable[[], Any],
    code: int,
    full_screen: io.TextIOWrapper,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stderr", full_screen)
    with pytest.raises(OSError, match="No space left"):
        full_screen.write("a line\n")
    assert end().exit_code == code
    assert failures.run(["status", "/nowhere/at.store"]) == failures.REFUSED


def test_a_line_of_the_log_that_cannot_be_written_is_lost_and_nothing_else(
    full_screen: io.TextIOWrapper,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Python's own way is a traceback."""
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", full_screen)
        with network.logging_to_stderr(as_json=True):
            patch.undo()
            logging.getLogger("fastlloyd.anything").warning("client %s is gone", "a")
    assert capfd.readouterr() == ("", "")
