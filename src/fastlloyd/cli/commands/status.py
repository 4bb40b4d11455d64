"""`fastlloyd status`: where the runs of a store are; also while a process works with it."""

from pathlib import Path
from typing import Annotated, Any

import typer

from fastlloyd.cli import terminal
from fastlloyd.cli.options import in_output
from fastlloyd.cli.terminal import Column, print_json
from fastlloyd.errors import StateError

JOINING = "joining"
SHOWN_CLIENTS = 12

StoreFile = Annotated[
    Path, typer.Argument(help="A store, or the identity it belongs to.", metavar="STORE")
]
Json = Annotated[bool, in_output("--json", help="Print it as JSON.")]


def status(store: StoreFile, json: Json = False) -> None:
    """Show every run of a client's or server's store, and how far it has come."""
    from fastlloyd.federation.store import Role, read, store_path

    path = store_path(store)
    contents, events = read(path)
    if contents.role is Role.HOLDER:
        raise StateError(
            f"{path} is a ledger, which takes no part in runs; `fastlloyd ledger show` says what is"
            " in it"
        )
    runs = _runs(contents.history, events)
    if json:
        print_json({"role": contents.role.value, "events": contents.position.length, "runs": runs})
        return
    console = terminal.console()
    if not runs:
        nothing = (
            "no run; a server notes one when the first client has joined"
            if contents.role is Role.SERVER
            else "no run"
        )
        console.print(f"{path} has seen {nothing}.")
        return
    began = [
        f"{run['client']}, data set {run['dataset']}" if run["client"] else "server" for run in runs
    ]
    now = [run["state"] + _more(run) for run in runs]
    columns = [
        Column(
            heading="run", cells=[run["run_id"] for run in runs], justify="left"
        ),  # whole, as `ledger release --run` wants it
        Column(heading="began as", cells=began, justify="left", is_text=True),
        Column(heading="rounds", cells=[str(run["rounds"]) for run in runs]),
        Column(heading="now", cells=now, justify="left", is_text=True),
    ]
    terminal.show(
        console, f"{path}: a {contents.role.value}, {contents.position.length} events", columns
    )


def _more(run: dict[str, Any]) -> str:
    """Say why a run ended or, while its clients join, who has joined."""
    if run["reason"]:
        return f": {run['reason']}"
    if run["state"] != JOINING or not run["joined"]:
        return ""
    n_more = len(run["joined"]) - SHOWN_CLIENTS
    return f", so far {', '.join(run['joined'][:SHOWN_CLIENTS])}" + (
        f" and {n_more} more" if n_more > 0 else ""
    )


def _runs(history: Any, events: list[Any]) -> list[dict[str, Any]]:
    from fastlloyd.federation.store.events import MessageRecorded

    rows = []
    for run_id, run in history.runs.items():
        kinds = [
            event.kind
            for event in events
            if isinstance(event, MessageRecorded) and event.run_id == run_id
        ]
        rows.append(
            {
                "run_id": run_id.hex(),
                "client": run.reserved.client if run.reserved else None,
                "dataset": run.reserved.dataset if run.reserved else None,
                "rounds": kinds.count("Broadcast"),
                "charged": list(run.charged),
                "joined": None if run.reserved else list(run.joined),
                "state": (
                    run.ended.outcome.value
                    if run.ended
                    else _going_on(kinds, is_client=run.reserved is not None)
                ),
                "reason": run.ended.reason if run.ended else "",
            }
        )
    return rows


def _going_on(kinds: list[str], *, is_client: bool) -> str:
    """Say how far a run has come, from its recorded messages."""
    last = kinds[-1] if kinds else ""
    return {
        "Hello": "waiting for the keys of the run",
        "Deal": "waiting for the keys of the run",
        "SealedKeys": "waiting for the keys of the run",
        "KeyBox": "in round 1",
        "Upload": f"in round {kinds.count('Upload')}",
        "Broadcast": f"{kinds.count('Broadcast')} rounds closed",
        "Turn": f"{kinds.count('Broadcast')} rounds closed",
        "Proposal": f"{kinds.count('Broadcast')} rounds closed",
        "Parameters": f"{kinds.count('Broadcast')} rounds closed",
        "Confirmation": "waiting for the others' confirmations",
        "Confirmations": "confirmed; the result is to be written" if is_client else "confirmed",
        "Abort": "ended",
    }.get(last, JOINING)
