"""Command `fastlloyd status`: show the progress of the runs in a store, or of a fit, also while a
process is at work.
"""

import time
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from fastlloyd.cli.options import in_output
from fastlloyd.cli.terminal import print_json

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
StoreFiles = Annotated[
    list[Path],
    typer.Argument(
        help=(
            "Stores, NAME.store, the identities next to them, NAME.identity.toml, or folders for"
            " the results of fits. Each may also be its file of progress, NAME.live.json."
        ),
        metavar="NAME...",
    ),
]
Watch = Annotated[
    bool,
    typer.Option("--watch", help="Show the status again whenever it changes, until Ctrl-C."),
]
Html = Annotated[
    Path | None,
    in_output(
        "--html",
        help="Write the status as a page. With --watch the page is kept up to date.",
        metavar="FILE",
    ),
]
Json = Annotated[bool, in_output("--json", help="Print the runs as JSON.")]


def status(stores: StoreFiles, watch: Watch = False, html: Html = None, json: Json = False) -> None:
    """Show every run of a store, or the run of a fit, and its progress."""
    from fastlloyd.base.files import check_file
    from fastlloyd.federation.store import store_path

    if html is not None:
        from fastlloyd.reports.page.status import HEADING

        check_file(html, heading=HEADING, force=True)  # only an earlier page of a status
    paths, shown = [store_path(store) for store in stores], dict[Path, Any]()
    while True:
        found = {path: _look(path, shown.get(path)) for path in paths}
        if html is not None:
            _write_page(html, found)
        for path in paths:
            if _told(found[path]) != _told(shown.get(path)) and (html is None or json):
                (print_json if json else partial(_show, path))(found[path])
        if not watch:
            break
        shown = found
        time.sleep(PAUSE)
    if html is not None and not json:
        typer.echo(f"Written to {html}.")


def _look(path: Path, before: dict[str, Any] | None) -> dict[str, Any]:
    """Return what is known now about the store or job at `path`. A job that ended without a result
    has removed its file. Then the facts of the last look are returned, marked as over.

    before : what was found by the last look, or None.

    Raises StateError if nothing is found and the last look found no job.
    """
    from fastlloyd.errors import StateError
    from fastlloyd.reports.status import look

    try:
        return look(path)
    except StateError:
        if before is None or before["events"]:
            raise
        over = {"state": "over, without a result", "live": None, "has_stopped": False}
        return before | {"runs": [run | over for run in before["runs"]]}


def _told(found: dict[str, Any] | None) -> Any:
    """Return the part of what was found whose changes are shown: not the time of the last write."""
    if found is None:
        return None
    runs = [run | {"live": run["live"] and run["live"] | {"written": 0}} for run in found["runs"]]
    return found | {"runs": runs}


def _write_page(file: Path, found: dict[Path, dict[str, Any]]) -> None:
    """Write the page of the stores. Raises OutputError if that is not possible."""
    from fastlloyd.base.files import replacing
    from fastlloyd.errors import OutputError
    from fastlloyd.reports.page.status import page_of_status

    try:
        with replacing(file) as page:
            page.write(page_of_status(list(found.values()), time.time()))
    except OSError as error:
        raise OutputError(
            f"{file} cannot be written ({error.strerror}); name a file in a folder of yours with"
            " --html"
        ) from None


def _show(path: Path, found: dict[str, Any]) -> None:
    """Print the state of the runs of a store that `look` found."""
    from fastlloyd.cli.live_words import heard
    from fastlloyd.reports.status import live_of

    role, runs = found["role"], found["runs"]
    if not runs:
        nothing = (
            "no run; a server notes one when the first client has joined"
            if role == "server"
            else "no run"
        )
        typer.echo(f"{path} has seen {nothing}.")
        return
    if not found["events"] and runs[0]["live"] is None:
        typer.echo(f"{path}: {runs[0]['state']}")
        return
    typer.echo(
        f"{path} is the store of a {role} and has {found['events']} events;"
        f" {_USED[found['in_use']]}"
        if found["events"]
        else f"{path}: {role}"
    )
    for run in runs:
        began = f"{run['client']}, data set {run['dataset']}" if run["client"] else role
        closed = f"{run['rounds']} round{'' if run['rounds'] == 1 else 's'} closed"
        run_id = f" {run['run_id']}" if run["run_id"] else ""
        typer.echo(f"run{run_id}: {run['state']}{_more(run)}")  # whole, for `--run`
        typer.echo(f"    {began}; {closed}{_waits(run)}")
        if (live := live_of(run)) is not None:
            typer.echo(f"    {heard(live, time.time(), is_used=found['in_use'])}")


def _waits(run: dict[str, Any]) -> str:
    """Return a phrase that names the parties for which an open run waits. The store may not show
    them all.
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
    """Return the reason why a run ended. While clients join, return the names of the clients that
    have joined.
    """
    if run["reason"]:
        return f": {run['reason']}"
    if run["state"] != "joining" or not run["joined"]:
        return ""
    n_more = len(run["joined"]) - SHOWN_CLIENTS
    names = ", ".join(run["joined"][:SHOWN_CLIENTS])
    return f"; joined: {names} and {n_more} more" if n_more > 0 else f"; joined: {names}"
