"""Commands `fastlloyd ledger positions` and `fastlloyd ledger forget`.

A server remembers the position of each client's store. The commands write and delete positions.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fastlloyd.base.files import check_file, write_file
from fastlloyd.base.names import unknown_name
from fastlloyd.cli import terminal
from fastlloyd.cli.terminal import Column, iso, print_json
from fastlloyd.errors import OutputError, StateError

if TYPE_CHECKING:
    from fastlloyd.federation.store.contents import Contents
    from fastlloyd.federation.store.history import History


Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


ServerStore = Annotated[
    Path,
    typer.Argument(
        help="A server's store, NAME.store, or the identity next to it, NAME.identity.toml.",
        metavar="STORE",
    ),
]


Out = Annotated[
    Path | None,
    typer.Option(
        help="File to make, with these positions, for `fastlloyd plan renew --positions`.",
        metavar="FILE",
    ),
]


Force = Annotated[bool, typer.Option("--force", help="Replace an earlier file.")]


ClientOfStore = Annotated[
    str,
    typer.Option(
        help="Signing key of the client (64 hex digits), or its name.", metavar="KEY|NAME"
    ),
]


def positions(file: ServerStore, out: Out = None, force: Force = False, json: Json = False) -> None:
    """Show the position up to which a server saw the store of each client. Export the signed
    positions for the plan of another server.
    """
    from fastlloyd.federation.positions import HEADING, KnownStore, KnownStoreOf, Positions
    from fastlloyd.federation.store import Role, read, store_path

    path = store_path(file)
    if out is not None:
        check_file(out, heading=HEADING, force=force)
    elif force:
        raise OutputError("--force needs a file to make; name it with --out FILE")
    contents, _ = read(path)
    if contents.role is not Role.SERVER:
        raise StateError(
            f"{path} is {contents.role.store}; only a server's store remembers positions of others"
        )
    signed = contents.history.signed
    rows: list[dict[str, Any]] = [
        {"client": event.client, "signing_key": key, "events": event.position.length}
        for key, event in signed.items()
    ]
    if out is not None:
        clients = [
            KnownStoreOf(name=e.client, signing_key=key, store=KnownStore.of(e.position))
            for key, e in signed.items()
        ]
        write_file(out, Positions(clients=tuple(clients)).to_toml())
    if json:
        print_json({"clients": rows})
    elif rows:
        columns = [
            Column(heading="client", cells=[row["client"] for row in rows], justify="left"),
            Column(heading="events", cells=[str(row["events"]) for row in rows]),
            Column(
                heading="signing key", cells=[row["signing_key"] for row in rows], justify="left"
            ),
        ]
        terminal.show(terminal.console(), str(path), columns)
    else:
        typer.echo(f"{path} has seen no client.")
    if out is not None and not json:
        typer.echo(
            f"Written to {out}: {len(clients)} positions. They show how many events each store has."
        )


def forget(file: ServerStore, client: ClientOfStore, json: Json = False) -> None:
    """Forget the position up to which a server saw the store of a client. The next position of this
    client is then accepted, whatever it is.

    Use this command if an identity signed a wrong position, or if a client lost its store and
    continues under the same identity. The epsilon that the client spent before is then in no
    ledger. The command is refused while a run is open.
    """
    from fastlloyd.federation.store import Role, Store, store_path
    from fastlloyd.federation.store.events import PeerForgotten

    with Store.open(store_path(file), role=Role.SERVER) as store:
        key, known = (
            _found(store.history, client),
            [run for run in store.history.runs.values() if run.ended is None],
        )
        if known:
            raise StateError(
                f"run {known[0].run_id.hex()} is open in this store; let `fastlloyd serve` end the"
                " run first. Otherwise, once the client's position is forgotten, a copy of its"
                " store could answer the same round twice"
            )
        length = store.history.peers[key].length
        store.append([PeerForgotten(name=key)])
    if json:
        print_json({"signing_key": key, "events": length})
    else:
        typer.echo(
            f"Forgotten: the store of the client with signing key {key} had {length} events."
        )


def _position(contents: "Contents") -> dict[str, Any]:
    return {
        "events": contents.position.length,
        "head": contents.position.head.hex(),
        "identity": contents.identity.hex(),
        "first_event": iso(contents.seconds[0]) if contents.seconds else None,
        "last_event": iso(contents.seconds[-1]) if contents.seconds else None,
    }


def _found(history: "History", client: str) -> str:
    """Return the signing key of a client that the server remembers. Raises StateError if there is
    none.

    client : signing key or name of the client.
    """
    if client.lower() in history.peers:
        return client.lower()
    named = [key for key, event in history.signed.items() if event.client == client]
    if len(named) == 1:
        return named[0]
    if named:
        raise StateError(
            f"{len(named)} identities were called {client!r:.80}; pass the signing key of one, as"
            " `fastlloyd ledger positions` shows it"
        )
    names = sorted({event.client for event in history.signed.values()})
    raise StateError(
        f"client {unknown_name(client, names)}; pass its name or its signing key, as `fastlloyd"
        " ledger positions` shows them"
        if names
        else (
            f"client {client!r:.80} was not seen; pass a signing key, as `fastlloyd ledger"
            " positions` shows it"
        )
    )
