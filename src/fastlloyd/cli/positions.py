"""`fastlloyd ledger positions | forget`: what a server has seen of its clients' stores, for its operator."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from fastlloyd.federation.store import History

ServerStore = Annotated[
    Path, typer.Argument(help="The store of a server, or the identity it belongs to.", metavar="STORE", show_default=False)
]
Out = Annotated[
    Path | None, typer.Option(help="Also write them to a file, for plan renew --positions.", metavar="FILE", show_default=False)
]
Force = Annotated[bool, typer.Option("--force", help="Replace an earlier file of positions.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ClientOfStore = Annotated[
    str, typer.Option(help="The client's signing key (64 hex digits), or its name.", metavar="KEY|NAME", show_default=False)
]


def positions(file: ServerStore, out: Out = None, force: Force = False, json: Json = False) -> None:
    """Show how far a server saw its clients' stores, and export what they signed, for the plan of another server."""
    from fastlloyd.errors import OutputError
    from fastlloyd.federation.positions import HEADING, KnownStore, KnownStoreOf, Positions
    from fastlloyd.federation.store import read, store_path
    from fastlloyd.reports import outputs

    path = store_path(file)
    if out is not None:
        outputs.check_file(out, heading=HEADING, force=force)
    elif force:
        raise OutputError("--force is about the file to write; name it with --out FILE")
    contents, _ = read(path)
    _check_server(contents.role.value, path)
    rows = _rows(contents.history)
    if out is not None:
        signed = contents.history.signed
        clients = [KnownStoreOf(name=e.client, signing_key=key, store=KnownStore.of(e.position)) for key, e in signed.items()]
        outputs.write_file(out, Positions(clients=tuple(clients)).to_toml())
    if json:
        typer.echo(outputs.to_json({"clients": rows}), nl=False)
    elif rows:
        _print(rows, str(path))
    else:
        typer.echo(f"{path} has seen no client.")
    if out is not None and not json:
        left = len(rows) - len(clients)
        typer.echo(
            f"Written to {out}: {len(clients)} of {len(rows)} positions. They show how many events each store has."
            + (f" The others, {left}, were seen by an earlier version and are not signed." if left else "")
        )


def forget(file: ServerStore, client: ClientOfStore, json: Json = False) -> None:
    """Forget how far the store of a client was seen: the next position it shows is taken, whatever it is.

    For an identity that signed nonsense, or whose store is lost and who goes on under the same identity nevertheless: then what
    it spent before is in no ledger. Not while a run is open.
    """
    from fastlloyd.errors import StateError
    from fastlloyd.federation.store import Role, Store, store_path
    from fastlloyd.federation.store.events import PeerForgotten
    from fastlloyd.reports import outputs

    with Store.open(store_path(file), role=Role.SERVER) as store:
        key, known = _found(store.history, client), [run for run in store.history.runs.values() if run.ended is None]
        if known:
            raise StateError(
                f"run {known[0].run_id.hex()} is open in this store; let fastlloyd serve end it first: in the midst of a run a "
                "store that is not known is one that could answer twice"
            )
        length = store.history.peers[key].length
        store.append([PeerForgotten(name=key)])
    if json:
        typer.echo(outputs.to_json({"signing_key": key, "events": length}), nl=False)
    else:
        typer.echo(f"Forgotten: the store of the client with signing key {key} had {length} events.")


def _found(history: "History", client: str) -> str:
    """The signing key of a client that was seen, by that key or by its name. Raises StateError."""
    from fastlloyd.base.names import unknown_name
    from fastlloyd.errors import StateError

    if client.lower() in history.peers:
        return client.lower()
    named = [key for key, event in history.signed.items() if event.client == client]
    if len(named) == 1:
        return named[0]
    if named:
        raise StateError(
            f"{len(named)} identities were called {client!r:.80}; give the signing key of one, as ledger positions shows it"
        )
    names = sorted({event.client for event in history.signed.values()})
    raise StateError(
        f"client {unknown_name(client, names)}; give its name or its signing key, as ledger positions shows them"
        if names
        else f"client {client!r:.80} was not seen; give a signing key, as ledger positions shows it"
    )


def _check_server(role: str, path: Path) -> None:
    from fastlloyd.errors import StateError
    from fastlloyd.federation.store import Role

    if role != Role.SERVER.value:
        raise StateError(f"{path} is the store of a client; only a server's remembers positions of others")


def _rows(history: "History") -> list[dict[str, Any]]:
    return [
        {
            "client": history.signed[key].client if key in history.signed else None,
            "signing_key": key,
            "events": position.length,
            "signed": key in history.signed,
        }
        for key, position in history.peers.items()
    ]


def _print(rows: list[dict[str, Any]], title: str) -> None:
    from rich.console import Console

    from fastlloyd.cli import tables
    from fastlloyd.cli.tables import Column

    columns = [
        Column(heading="client", cells=[row["client"] or "" for row in rows], justify="left"),
        Column(heading="events", cells=[str(row["events"]) for row in rows]),
        Column(heading="signed", cells=["yes" if row["signed"] else "no" for row in rows], justify="left"),
        Column(heading="signing key", cells=[row["signing_key"] for row in rows], justify="left"),
    ]
    tables.show(Console(markup=False, highlight=False, emoji=False), title, columns)
