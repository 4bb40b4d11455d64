"""Command `fastlloyd status`: show the progress of the runs in a store, also while a process uses
the store.
"""

import time
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from fastlloyd.cli.options import in_output
from fastlloyd.cli.terminal import print_json
from fastlloyd.errors import StateError

JOINING = "joining"
PAUSE = 1.0  # seconds between two looks with --watch
SHOWN_CLIENTS = 12
_USED = {
    True: "a process uses it",
    False: "no process uses it",
    None: "it is unknown whether a process uses it",
}
_WAITS = {
    "this client": "this client, which has to make the next answer",
    "the others": (
        "the other clients and the server; only the server's operator can see which clients"
    ),
}
# kinds of messages that clients send
_ANSWERS = ("Hello", "SealedKeys", "Ready", "BadKeys", "Upload", "Proposal", "Confirmation")

StoreFile = Annotated[
    Path,
    typer.Argument(
        help="A store, NAME.store, or the identity next to it, NAME.identity.toml.", metavar="STORE"
    ),
]
Watch = Annotated[
    bool,
    in_output("--watch", help="Print the status again whenever it changes, until Ctrl-C."),
]
Json = Annotated[bool, in_output("--json", help="Print the runs as JSON.")]


def status(store: StoreFile, watch: Watch = False, json: Json = False) -> None:
    """Show every run of a client's or server's store, and its progress."""
    from fastlloyd.federation.store import store_path

    path, shown = store_path(store), None
    while True:
        if (found := _look(path)) != shown:
            shown = found
            if json:
                print_json(found)
            else:
                _show(path, found)
        if not watch:
            return
        time.sleep(PAUSE)


def _look(path: Path) -> dict[str, Any]:
    """Return what is known of the runs in a store: its events, and the file of progress beside it.

    Raises StateError for the ledger of a holder, or a file that is no store.
    """
    from fastlloyd.federation.store import Role, lock, read
    from fastlloyd.jobs.live import live_path, read_live

    contents, events = read(path)
    if contents.role is Role.HOLDER:
        raise StateError(
            f"{path} is a ledger, which takes no part in runs; see it with `fastlloyd ledger show`"
        )
    live = read_live(live_path(path))
    runs = _runs(contents.history, events)
    for run in runs:
        run["live"] = (
            None
            if live is None or live.sight.run_id != run["run_id"]
            else msgspec.to_builtins(live)
        )
    return {
        "role": contents.role.value,
        "events": contents.position.length,
        "in_use": lock.is_held(path),
        "runs": runs,
    }


def _show(path: Path, found: dict[str, Any]) -> None:
    """Print what `_look` found."""
    role, runs = found["role"], found["runs"]
    if not runs:
        nothing = (
            "no run; a server notes one when the first client has joined"
            if role == "server"
            else "no run"
        )
        typer.echo(f"{path} has seen {nothing}.")
        return
    typer.echo(
        f"{path} is the store of a {role} and has {found['events']} events;"
        f" {_USED[found['in_use']]}"
    )
    for run in runs:
        began = f"{run['client']}, data set {run['dataset']}" if run["client"] else "server"
        closed = f"{run['rounds']} round{'' if run['rounds'] == 1 else 's'} closed"
        typer.echo(f"run {run['run_id']}: {run['state']}{_more(run)}")  # whole, for `--run`
        typer.echo(f"    {began}; {closed}{_waits(run)}")
        if run["live"] is not None:
            typer.echo(f"    {_heard(run['live'], is_used=found['in_use'])}")


def _heard(found: dict[str, Any], *, is_used: bool | None) -> str:
    """Return a sentence from the file of progress: the present step, or the end of the process.

    found : content of the file.
    is_used : whether a process uses the store, or None if that is unknown.
    """
    from fastlloyd.cli.live_words import ago, details
    from fastlloyd.jobs.live import Live

    live, now = msgspec.convert(found, Live), time.time()
    if live.end:
        return f"{live.end} That was {ago(live.age(now))}."
    if is_used is False or live.is_old(now):
        return (
            f"last heard {ago(live.age(now))}, in {live.sight.step!r}; the process has stopped."
            " Nothing is lost: start it again with the same command"
        )
    return f"now: {live.sight.step}, begun {ago(now - live.since)}{details(live.sight)}"


def _waits(run: dict[str, Any]) -> str:
    """Return a phrase that names the parties for which an open run waits, as far as the store
    shows.
    """
    if run["reason"] or run["waits_for"] is None:
        return ""
    if run["client"]:
        return f"; waits for {_WAITS[run['waits_for']]}"
    names = run["waits_for"]
    if not names:
        return "; all have been heard from since then"
    n_more = len(names) - SHOWN_CLIENTS
    shown = ", ".join(names[:SHOWN_CLIENTS])
    return (
        f"; not heard from since then: {shown} and {n_more} more"
        if n_more > 0
        else f"; not heard from since then: {shown}"
    )


def _more(run: dict[str, Any]) -> str:
    """Return why a run ended or, while clients join, the names of the clients that have joined."""
    if run["reason"]:
        return f": {run['reason']}"
    if run["state"] != JOINING or not run["joined"]:
        return ""
    n_more = len(run["joined"]) - SHOWN_CLIENTS
    names = ", ".join(run["joined"][:SHOWN_CLIENTS])
    return f"; joined: {names} and {n_more} more" if n_more > 0 else f"; joined: {names}"


def _runs(history: Any, events: list[Any]) -> list[dict[str, Any]]:
    from fastlloyd.federation.store.events import MessageRecorded, RunEnded

    rows = []
    for run_id, run in history.runs.items():
        of_run = [event for event in events if getattr(event, "run_id", None) == run_id]
        ends = [at for at, event in enumerate(of_run[:-1], 1) if isinstance(event, RunEnded)]
        kinds = [
            event.kind
            for event in of_run[max(ends, default=0) :]  # since it last began
            if isinstance(event, MessageRecorded)
        ]
        rows.append(
            {
                "run_id": run_id.hex(),
                "client": run.reserved.client if run.reserved else None,
                "dataset": run.reserved.dataset if run.reserved else None,
                "rounds": kinds.count("Broadcast"),
                "charged": list(run.charged),
                "joined": None if run.reserved else list(run.joined),
                "waits_for": None if run.ended else _waits_for(run, run_id, kinds, events),
                "state": (
                    run.ended.outcome.value
                    if run.ended
                    else _going_on(kinds, is_client=run.reserved is not None)
                ),
                "reason": run.ended.reason if run.ended else "",
            }
        )
    return rows


def _waits_for(run: Any, run_id: bytes, kinds: list[str], events: list[Any]) -> Any:
    """Return the parties that a run waits for, or None while clients join.

    At a client, they are "this client" or "the others". At a server, they are the names of the
    clients that have not answered in this step.

    run_id : id of the run.
    kinds : names of the kinds of the run's recorded messages, in order.
    events : all events of the store.
    """
    from fastlloyd.federation.store.events import MessageRecorded, PeerSigned

    if run.reserved:
        return "the others" if kinds and kinds[-1] in _ANSWERS else "this client"
    if not kinds:
        return None
    steps = (
        at
        for at, event in enumerate(events)
        if isinstance(event, MessageRecorded)
        and event.run_id == run_id
        and event.kind not in _ANSWERS
    )
    since = events[max(steps, default=-1) + 1 :]
    heard = {event.client for event in since if isinstance(event, PeerSigned)}
    return [name for name in run.joined if name not in heard and name not in run.left]


def _going_on(kinds: list[str], *, is_client: bool) -> str:
    """Return a sentence about the progress of a run.

    kinds : names of the kinds of the run's recorded messages, in order.
    """
    last = kinds[-1] if kinds else ""
    return {
        "Hello": "waiting for the keys of the run",
        "Deal": "waiting for the keys of the run",
        "SealedKeys": "waiting for the keys of the run",
        "KeyBox": "waiting for the keys of the run",
        "BadKeys": "waiting for the keys of the run",
        "Ready": "ready; waiting until all are",
        "AllReady": "in round 1",
        "Upload": f"in round {kinds.count('Upload')}",
        "Broadcast": f"{kinds.count('Broadcast')} rounds closed",
        "Turn": f"{kinds.count('Broadcast')} rounds closed",
        "Proposal": f"{kinds.count('Broadcast')} rounds closed",
        "Parameters": f"{kinds.count('Broadcast')} rounds closed",
        "Confirmation": "waiting for the others' confirmations",
        "Confirmations": "confirmed; the result is to be written" if is_client else "confirmed",
        "Abort": "ended",
    }.get(last, JOINING)
