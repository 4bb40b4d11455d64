"""Parts that clients and the server of a networked run share: plan, identity, store, log, signals,
and a progress line.
"""

import asyncio
import contextlib
import getpass
import json
import logging
import signal
import sys
import time
import warnings
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import typer
from rich.console import Console

from fastlloyd.base.files import decoded
from fastlloyd.base.places import whose
from fastlloyd.cli.live_words import details
from fastlloyd.cli.settings import read_plan
from fastlloyd.errors import IdentityError, StateError
from fastlloyd.federation.identity.identity import MAX_PASSPHRASE, PrivateIdentity, PublicIdentity
from fastlloyd.federation.identity.parties import check_address
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.store import Role, Store
from fastlloyd.federation.store.files import IDENTITY_SUFFIX
from fastlloyd.federation.traffic import traffic
from fastlloyd.jobs.live import LiveFile, Sight
from fastlloyd.jobs.parties import place_of_store

if TYPE_CHECKING:
    from fastlloyd.federation.transport.grpc.outbox import Meter

NO_RESULT, STOPPED, TURNED_AWAY = 3, 4, 5
"""Exit codes. NO_RESULT: the run is over without a result. STOPPED: this process was stopped.
TURNED_AWAY: the server refused this client. After the last two, the same command continues the run,
once the fault that was printed is corrected.
"""

FIRST_WAIT, LONGEST_WAIT = 10.0, 600.0
"""Seconds before the log first names the clients that a run waits for, and the longest time between
two such lines.
"""

STDIN = Path("-")
_MAX_BYTES = 4 * MAX_PASSPHRASE + 2
_PAUSE = 0.25  # seconds between two looks at a run

T = TypeVar("T")
_LOG = logging.getLogger(__name__)


def networked_plan(path: Path) -> Plan:
    """Return the plan in a file. Raises PlanError if it cannot be run over a network now."""
    plan = read_plan(path)
    plan.check_networked()
    return plan


def load_identity(key: Path, passphrase_file: Path | None) -> PrivateIdentity:
    """Return the private identity in a file.

    passphrase_file : file with the passphrase, or None to ask for it.

    Raises IdentityError if the file cannot be used, or if the passphrase is wrong.
    """
    return PrivateIdentity.load(key, ask_passphrase=lambda: given_passphrase(passphrase_file))


def given_passphrase(
    file: Path | None, prompt: str = "Passphrase: ", option: str = "--passphrase-file"
) -> str:
    """Return the passphrase from the file, or ask for it on the terminal.

    No argument or environment variable contains it, because other programs could read them.

    file : file with the passphrase, or None.
    prompt : text of the question.
    option : name of the option for the file, for error messages.
    """
    return ask_passphrase(prompt, option) if file is None else _first_line(file)


def new_passphrase(file: Path | None) -> str:
    """Return the passphrase for a new identity from the file, or ask for it twice."""
    if file is not None:
        return _first_line(file)
    typed = ask_passphrase("Passphrase for the new identity: ")
    if ask_passphrase("Repeat the passphrase: ") != typed:
        raise IdentityError("the two passphrases differ; run the command again")
    return typed


def _first_line(file: Path) -> str:
    """Return the first line of a file, or of standard input for "-"."""
    try:
        with (
            contextlib.nullcontext(sys.stdin.buffer) if file == STDIN else file.open("rb") as opened
        ):
            line = opened.readline(_MAX_BYTES)
        passphrase = decoded(line, file, "its first line has to be the passphrase").rstrip("\r\n")
    except OSError as error:
        raise IdentityError(
            f"the passphrase cannot be read from {file} ({error.strerror}){whose(file)}"
        ) from None
    except ValueError as error:
        raise IdentityError(str(error)) from None
    if not passphrase:
        raise IdentityError(f"the first line of {file} is empty; expected the passphrase there")
    return passphrase


def ask_passphrase(prompt: str, option: str = "--passphrase-file") -> str:
    """Ask for a passphrase on the terminal. Raises IdentityError if there is no terminal, or if the
    typed text cannot be decoded.

    option : name of the option for a file, for the error message.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", getpass.GetPassWarning)  # it would show what is typed
            return getpass.getpass(prompt)
    except (getpass.GetPassWarning, EOFError):
        raise IdentityError(
            f"there is no terminal to ask for the passphrase on; pass {option} FILE"
        ) from None
    except UnicodeDecodeError:
        raise IdentityError("the typed passphrase is not text in the terminal's encoding") from None


def store_of(
    owner: PublicIdentity, key: Path, path: Path | None, role: Role, *, as_json: bool = False
) -> Store:
    """Open the store of an identity at `place_of_store`, or make it if it is missing.

    A client's owner is told about a new store, because the path may be wrong.
    """
    return store_at(place_of_store(owner.name, key, path), owner, role, as_json=as_json)


def store_at(where: Path, owner: PublicIdentity, role: Role, *, as_json: bool = False) -> Store:
    """Open the store of an identity at this path, or make it if it is missing."""
    signing_key = bytes.fromhex(owner.signing_key)
    if where.exists():
        return Store.open(where, role=role, identity=signing_key)
    made = Store.create(where, role=role, identity=signing_key)
    if role is Role.CLIENT:
        say(
            f"Note: made {where}, a new store without runs or limits.",
            as_json=as_json,
        )
    return made


def client_store(named: Path) -> Store:
    """Open a ledger, or the store of a client.

    named : path of a ledger or store, or of the file of an identity. Only the store of an identity
        is made if it is missing.

    Raises StateError if a ledger or store is missing, or if the store belongs to a server.
    """
    if named.name.endswith(IDENTITY_SUFFIX):
        return store_of(PrivateIdentity.public_of(named), named, None, Role.CLIENT)
    if not named.exists():
        raise StateError(
            f"there is no store {named}; to make the store, pass the file of its identity,"
            f" NAME{IDENTITY_SUFFIX}"
        )
    store = Store.open(named)
    if store.role is Role.SERVER:
        store.close()
        raise StateError(
            f"{named} is the store of a server; pass the store of a client, because only clients"
            " have a ledger"
        )
    return store


def has_store(named: Path) -> bool:
    """Return whether the store exists.

    named : path of the store, or of the identity's file.
    """
    if not named.name.endswith(IDENTITY_SUFFIX):
        return named.exists()
    return place_of_store(PrivateIdentity.public_of(named).name, named, None).exists()


def address_to_listen_at(plan: Plan, given: str | None) -> str:
    """Return the address at which the server listens.

    plan : plan with the port of the server.
    given : address in --listen, or None for every address of this machine.

    Raises PlanError if `given` is not an address.
    """
    address = f"[::]:{plan.server.address.rpartition(':')[2]}" if given is None else given
    check_address(address, "--listen")
    return address


def drive(
    run: Callable[[], Coroutine[Any, Any, T]],
    stop: Callable[[], None],
    look: Callable[[], Sight],
    live: LiveFile,
    more: Callable[[], str] = str,
    *,
    keeps_last: bool = True,
) -> T:
    """Run a session until it ends, and show its progress.

    A terminal shows one line that is updated. Otherwise the step is logged at intervals. Signals
    are handled as in `heed_signals`.

    run : function that returns the session as a coroutine.
    stop : function that stops the session.
    look : function that returns the current view of the run.
    live : file of progress.
    more : function that returns a phrase for the owner of the records alone, or "".
    keeps_last : whether the last step is written to the file of progress, however short it was.
    """

    def seen() -> Sight:
        live.see(sight := look())
        return sight

    async def shown() -> T:
        showing = asyncio.create_task(_show(seen, more))
        try:
            found = await run()
            if keeps_last:
                seen()  # the last step, which may have been short
            return found
        finally:
            showing.cancel()
            await asyncio.wait({showing})

    return heed_signals(shown, stop)


def heed_signals(run: Callable[[], Coroutine[Any, Any, T]], stop: Callable[[], None]) -> T:
    """Run a task to its end, and return its result. Signals may stop it.

    SIGTERM, the first Ctrl-C, and the end of the terminal (SIGHUP) call `stop`, which finishes the
    current step. A second Ctrl-C interrupts at once. Under nohup, SIGHUP is ignored.

    run : function that returns the task as a coroutine.
    stop : function that stops the task.
    """

    async def main() -> T:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            with contextlib.suppress(NotImplementedError):  # Windows
                loop.add_signal_handler(number, _stop_once, loop, number, stop)
        if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            # not once: both the terminal and the shell may send it
            loop.add_signal_handler(signal.SIGHUP, stop)
        return await run()

    return asyncio.run(main())


def _stop_once(
    loop: asyncio.AbstractEventLoop, number: signal.Signals, stop: Callable[[], None]
) -> None:
    loop.remove_signal_handler(number)
    stop()


async def _show(look: Callable[[], Sight], more: Callable[[], str]) -> None:
    """Show the step of the run until this task is cancelled."""
    if not sys.stderr.isatty():
        return await _log_waiting(look, more)
    with Console(stderr=True, markup=False, highlight=False, emoji=False).status("") as status:
        while True:
            sight = look()
            status.update(f"{sight.step}{details(sight)}{more()}")
            await asyncio.sleep(_PAUSE)


async def _log_waiting(look: Callable[[], Sight], more: Callable[[], str]) -> None:
    """Log the step and its details if it takes long: after 10 seconds, then at growing
    intervals.
    """
    clock, now, said, pause = asyncio.get_running_loop().time, "", 0.0, FIRST_WAIT
    while True:
        await asyncio.sleep(_PAUSE)
        before, sight = now, look()
        if before != (now := sight.step):
            said, pause = clock(), FIRST_WAIT
        elif clock() - said >= pause:
            _LOG.info("%s%s%s", before, details(sight), more())
            said, pause = clock(), min(2 * pause, LONGEST_WAIT)


@contextlib.contextmanager
def logging_to_stderr(*, as_json: bool) -> Iterator[None]:
    """Context manager that prints the log on stderr. No line contains a value of a record, or a
    secret.
    """
    handler = _Lines(sys.stderr)
    handler.setFormatter(_Json() if as_json else _Text("%(asctime)s %(levelname)s %(message)s"))
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
    """Handler that drops a log line if it cannot be written, for example on a full disk. The run
    continues.
    """

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name is logging's
        pass


class _Text(logging.Formatter):
    """Formatter of a log line that begins with the time in UTC."""

    # the name and parameters of logging
    def formatTime(  # noqa: N802
        self,
        record: logging.LogRecord,
        datefmt: str | None = None,  # noqa: ARG002
    ) -> str:
        return _stamp(record.created)


class _Json(logging.Formatter):
    """Formatter of a log line as a JSON object, with further values if the message has any."""

    def format(self, record: logging.LogRecord) -> str:
        return _entry(
            record.created,
            record.levelname.lower(),
            record.getMessage(),
            getattr(record, "facts", {}),
        )


def _entry(
    created: float, level: str, message: str, facts: Mapping[str, object] = MappingProxyType({})
) -> str:
    said = {"time": _stamp(created), "level": level, "message": message}
    return json.dumps({**said, **facts})


def _stamp(created: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(created))


def ended_without_result(
    reason: str, *, kept: str = "", is_unspent: bool = False, as_json: bool = False
) -> typer.Exit:
    """Print why the run ended without a result, and return the exception to raise.

    kept : sentences that say what stays charged and what to do, or "".
    is_unspent : whether this client spent nothing, so that the plan may be used again.
    """
    remedy = (
        ". This client spent nothing. If no other client spent anything, run the same commands to"
        " start the run again with the same plan"
        if is_unspent
        else f". {kept}" * bool(kept)
    )
    said = f"The run ended without a result: {reason}{remedy}"
    say_last(said, level="warning", as_json=as_json)
    return typer.Exit(NO_RESULT)


def turned_away(reason: str, release: str, *, as_json: bool = False) -> typer.Exit:
    """Print why this client cannot take part now, and return the exception to raise. The run is
    still open.

    release : command that gives the run up.
    """
    remedy = (
        "The run is still open, so its epsilon stays reserved. If the plan is the wrong one, ask"
        f" the server's operator for the right one, and free what is reserved: {release}."
        " Otherwise correct the fault and run the same command again to continue."
    )
    say_last(f"This client did not take part: {reason}. {remedy}", level="warning", as_json=as_json)
    return typer.Exit(TURNED_AWAY)


KEPT = (
    "The ledger keeps {n} of the {of} rounds of this run charged, and the others are free again."
    " For another run, ask for a new plan (fastlloyd plan renew)"
)
WRITING = "Writing the result."
CHARGED_SO_FAR = "The ledger keeps what was charged so far, and no result was written."


def stopped(kept: str = CHARGED_SO_FAR, *, as_json: bool = False) -> typer.Exit:
    """Print what is kept, and how to continue a stopped run. Return the exception to raise.

    kept : sentence that says what was spent and written.
    """
    say_last(f"Stopped. {kept} Run the same command to continue the run.", as_json=as_json)
    return typer.Exit(STOPPED)


def say_traffic(plan: Plan, name: str, moved: "Meter | None", *, as_json: bool = False) -> None:
    """Print the number of bytes that this process sent and received, and the number that a whole
    run of the plan needs.

    plan : plan of the run.
    name : name of this client.
    moved : bytes of this process, or None to print nothing.
    as_json : whether the log is JSON.
    """
    if moved is None:
        return
    whole = traffic(plan, name)
    say_last(
        f"This process sent {moved.sent} bytes and received {moved.received}. The messages of a"
        f" whole run are {whole.sent} bytes sent and {whole.received} received, without frames and"
        " repeated messages.",
        as_json=as_json,
    )


def warn(cautions: Iterable[str], *, as_json: bool = False) -> None:
    """Print cautions about the plan on stderr."""
    for caution in cautions:
        say_last(caution if as_json else f"Warning: {caution}.", level="warning", as_json=as_json)


def say(sentence: str, *, as_json: bool = False) -> None:
    """Print a sentence for the owner on stderr. With as_json, it is written as an object of the
    log.
    """
    typer.echo(_entry(time.time(), "info", sentence) if as_json else sentence, err=True)


def say_last(sentence: str, *, level: str = "info", as_json: bool = False) -> None:
    """Print a sentence as `say` does, at the end of a run. A failure to print is ignored, because
    the exit code says the same.
    """
    with contextlib.suppress(OSError):
        typer.echo(_entry(time.time(), level, sentence) if as_json else sentence, err=True)
