"""What `serve` and `join` have in common: the plan and the identity at the door, logs, signals, and a line that lives."""

import asyncio
import base64
import contextlib
import hmac
import json
import logging
import re
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TextIO, TypeVar

import typer
from rich.console import Console

from fastlloyd.base.sealed_toml import load_text
from fastlloyd.cli.plan_file import read_plan
from fastlloyd.cli.stores import made_note, place_of_store
from fastlloyd.errors import PlanError
from fastlloyd.federation.identity.identity import PrivateIdentity
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.store import History, Role, Store
from fastlloyd.federation.store.events import Outcome
from fastlloyd.federation.transport.grpc.tls import TlsIdentity
from fastlloyd.reports import outputs, stored_result
from fastlloyd.reports.statement import plan_cautions

NO_RESULT, STOPPED, TURNED_AWAY = 3, 4, 5
"""Exit codes: the run is over without a result; this process was stopped, and the same command takes the run up again; the
server turned this client away, whose run is not over: the same command takes it up when what the sentence says is put right.
"""

FIRST_WAIT, LONGEST_WAIT = 10.0, 600.0
"""Seconds after which the log says for the first time who is waited for; most seconds between two such lines."""

_OF_A_RUN = (stored_result.PLAN, stored_result.EXACT, stored_result.ROUNDS)

T = TypeVar("T")
_LOG = logging.getLogger(__name__)


def networked_plan(path: Path) -> Plan:
    """A plan that can be run over a network now. Raises PlanError."""
    plan = read_plan(path)
    plan.check_networked()
    return plan


def check_digest(plan: Plan, digest: str, path: Path) -> None:
    """Raise PlanError unless the plan is the one that was agreed on; spaces and capitals do not matter."""
    agreed = re.sub(r"[\s:-]", "", digest).lower()
    if not re.fullmatch(r"[0-9a-f]{64}", agreed):
        raise PlanError(f"--digest is {digest!r:.80}; expected the 64 hex digits that `fastlloyd plan digest PLAN` prints")
    if not hmac.compare_digest(agreed, plan.digest.hex()):
        raise PlanError(
            f"{path} is not the plan that was agreed on: its digest is {plan.digest.hex()}, and --digest says {agreed}; "
            "ask for the plan of that digest, and look at `fastlloyd plan explain` of both"
        )


def store_of(identity: PrivateIdentity, key: Path, path: Path | None, role: Role, *, as_json: bool = False) -> Store:
    """The store where `place_of_store` says; made if there is none, which a client is told: it may be a slip."""
    where = place_of_store(identity.name, key, path)
    if where.exists():
        return Store.open(where, role=role, identity=identity.signing.public)
    made = Store.create(where, role=role, identity=identity.signing.public)
    if role is Role.CLIENT:
        say(made_note(where), as_json=as_json)
    return made


def tls(identity: PrivateIdentity) -> TlsIdentity:
    """What the identity proves itself with on a connection."""
    return TlsIdentity(certificate=der(identity.public.certificate), private_key=identity.tls_key_pem())


def der(certificate: str) -> bytes:
    """A certificate of a plan, base64, as bytes."""
    return base64.b64decode(certificate)


def certificates(plan: Plan) -> dict[str, bytes]:
    """The clients' certificates by name."""
    return {client.name: der(client.certificate) for client in plan.clients}


def check_member(identity: PrivateIdentity, plan: Plan, key: Path) -> None:
    """Raise PlanError unless the plan names this identity as a client."""
    client = plan.client(identity.name)
    if (client.signing_key, client.certificate) != (identity.public.signing_key, identity.public.certificate):
        raise PlanError(
            f"{key} is not the identity that the plan names as client {identity.name!r}; use that one, or have the plan "
            "renewed with your present public file"
        )


def has_finished(history: History, plan: Plan) -> bool:
    """Whether the store knows the run as one that went to its end."""
    run = history.runs.get(bytes.fromhex(plan.run_id))
    if run is None or run.ended is None or (run.reserved is not None and run.reserved.plan_digest != plan.digest):
        return False
    return run.ended.outcome is Outcome.FINISHED


def holds_result(folder: Path | None, plan: Plan) -> bool:
    """Whether the folder looks like the result of this very run, written by a process that was killed right after."""
    if folder is None or not all((folder / name).is_file() for name in _OF_A_RUN):
        return False
    try:
        return Plan.from_toml(load_text(folder / stored_result.PLAN)).digest == plan.digest
    except PlanError:
        return False


def written(folder: Path | None, result: outputs.Result) -> list[Path]:
    """The files of the folder, if it holds this very result; none otherwise."""
    contents = outputs.files(result)
    try:
        if folder is None or any((folder / name).read_bytes() != contents[name] for name in _OF_A_RUN):
            return []
        return [path for name in stored_result.FILES if (path := folder / name).is_file()]
    except OSError:
        return []


def drive(
    run: Callable[[], Coroutine[Any, Any, T]], stop: Callable[[], None], step: Callable[[], str], details: Callable[[], str]
) -> T:
    """Run to the end, showing the step and its details in a line that lives, or now and then in the log without a terminal.

    SIGTERM and Ctrl-C finish the step in progress; a second Ctrl-C interrupts at once.
    """

    async def main() -> T:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            with contextlib.suppress(NotImplementedError):  # Windows
                loop.add_signal_handler(number, _stop_once, loop, number, stop)
        showing = asyncio.create_task(_show(step, details))
        try:
            return await run()
        finally:
            showing.cancel()
            await asyncio.wait({showing})

    return asyncio.run(main())


def _stop_once(loop: asyncio.AbstractEventLoop, number: signal.Signals, stop: Callable[[], None]) -> None:
    loop.remove_signal_handler(number)
    stop()


async def _show(step: Callable[[], str], details: Callable[[], str]) -> None:
    """Say where the run is."""
    if not sys.stderr.isatty():
        return await _log_waiting(step, details)
    with Console(stderr=True, markup=False, highlight=False, emoji=False).status("") as status:
        while True:
            status.update(step() + details())
            await asyncio.sleep(0.25)


async def _log_waiting(step: Callable[[], str], details: Callable[[], str]) -> None:
    """Say what is waited for where a step takes long: after 10 seconds, and then ever less often. Its end says its own line."""
    clock, now, said, pause = asyncio.get_running_loop().time, "", 0.0, FIRST_WAIT
    while True:
        await asyncio.sleep(0.25)
        if (before := now) != (now := step()):
            said, pause = clock(), FIRST_WAIT
        elif clock() - said >= pause:
            _LOG.info("%s%s", before, details())
            said, pause = clock(), min(2 * pause, LONGEST_WAIT)


@contextlib.contextmanager
def logging_to_stderr(*, as_json: bool) -> Iterator[None]:
    """Show what the network says, a line each; no line holds a value of a record or a secret."""
    handler = _Lines(sys.stderr)
    handler.setFormatter(_Json() if as_json else logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger = logging.getLogger("fastlloyd")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


class _Lines(logging.StreamHandler[TextIO]):
    """A line each; one that cannot be written, on a disk that is full, is lost without a traceback, and the run goes on."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name is logging's
        pass


class _Json(logging.Formatter):
    """One JSON object a line, with the facts of the message where it has some."""

    def format(self, record: logging.LogRecord) -> str:
        return _entry(record.created, record.levelname.lower(), record.getMessage(), getattr(record, "facts", {}))


def _entry(created: float, level: str, message: str, facts: Mapping[str, object] = MappingProxyType({})) -> str:
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(created))
    return json.dumps({"time": stamp, "level": level, "message": message, **facts})


def seconds_left(timeout: float | None) -> str:
    """How long the present step may still take."""
    if timeout is None:
        return ""
    minutes, seconds = divmod(max(0, round(timeout)), 60)
    return f", {minutes}:{seconds:02d} left"


def ended_without_result(reason: str, *, as_json: bool = False) -> typer.Exit:
    """Say why there is no result; to be raised."""
    say_last(f"The run ended without a result: {reason}", level="warning", as_json=as_json)
    return typer.Exit(NO_RESULT)


def turned_away(reason: str, *, as_json: bool = False) -> typer.Exit:
    """Say why this client cannot take part now, and that its run is not over; to be raised."""
    remedy = "The run is not over for this client: put that right, and the same command goes on."
    say_last(f"Not taken part: {reason}. {remedy}", level="warning", as_json=as_json)
    return typer.Exit(TURNED_AWAY)


def stopped(*, as_json: bool = False) -> typer.Exit:
    """Say how to go on; to be raised."""
    say_last("Stopped. The same command takes the run up again.", as_json=as_json)
    return typer.Exit(STOPPED)


def warn_of(plan: Plan, *, as_json: bool = False) -> None:
    """Say on stderr what is weak about the plan, before anything is sent."""
    for caution in plan_cautions(plan):
        say_last(caution if as_json else f"Warning: {caution}.", level="warning", as_json=as_json)


def say(sentence: str, *, as_json: bool = False) -> None:
    """Tell the owner on stderr: a sentence of its own, or one more object of the log, where nobody reads but a program."""
    typer.echo(_entry(time.time(), "info", sentence) if as_json else sentence, err=True)


def say_last(sentence: str, *, level: str = "info", as_json: bool = False) -> None:
    """How it ended, on stderr: a sentence of its own, or one more object of the log. If it cannot be written: the exit code."""
    with contextlib.suppress(OSError):
        typer.echo(_entry(time.time(), level, sentence) if as_json else sentence, err=True)
