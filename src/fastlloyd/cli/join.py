"""`fastlloyd join`: one client of a run over a network."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fastlloyd.cli.options import MissingCells, OutputOptions, OutsideBounds, PassphraseFile

if TYPE_CHECKING:
    from fastlloyd.clustering.domain import GridArray
    from fastlloyd.identity import PrivateIdentity
    from fastlloyd.plan import Plan
    from fastlloyd.protocol import ClientResult
    from fastlloyd.records import Table
    from fastlloyd.runs import DurableClient
    from fastlloyd.store import Store

PlanFile = Annotated[Path, typer.Argument(help="The plan that was agreed on.", metavar="PLAN", show_default=False)]
Digest = Annotated[
    str,
    typer.Option(
        help="The plan's digest, as you were told it on a separate way; in quotes if it has spaces.",
        metavar="HEX",
        show_default=False,
    ),
]
Key = Annotated[Path, typer.Option(help="Your private identity.", metavar="FILE", show_default=False)]
Dataset = Annotated[
    str, typer.Option(help="Name under which your ledger adds up what is spent on these records.", metavar="NAME")
]
ServerAddress = Annotated[
    str | None, typer.Option("--server", help="Where the server is. Default: the plan's address.", metavar="HOST:PORT")
]
StoreFile = Annotated[
    Path | None, typer.Option("--store", help="Run and ledger. Default: NAME.store beside the identity.", metavar="FILE")
]
NewDataset = Annotated[
    bool, typer.Option("--new-dataset", help="The store knows other data sets, and these records are none of them.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Check records, bounds, budget, certificate and connection; spend nothing.")
]


def join(
    *,
    plan: PlanFile,
    digest: Digest,
    key: Key,
    data: Annotated[Path, typer.Option(help="Your records.", metavar="DATA", show_default=False)],
    dataset: Dataset,
    output: OutputOptions,
    server: ServerAddress = None,
    store: StoreFile = None,
    passphrase_file: PassphraseFile = None,
    missing: MissingCells = "drop",
    outside: OutsideBounds = "clip",
    new_dataset: NewDataset = False,
    dry_run: DryRun = False,
) -> None:
    """Take part in a run with your records, which stay here. It can be stopped and started at any time."""
    from fastlloyd.cli import destination, network, report
    from fastlloyd.cli.passphrase import given_passphrase
    from fastlloyd.errors import OutputError
    from fastlloyd.identity import PrivateIdentity
    from fastlloyd.ledger import check_dataset, check_slip
    from fastlloyd.outputs import Result
    from fastlloyd.parties import check_address
    from fastlloyd.store import Role

    agreed = network.networked_plan(plan)
    network.check_digest(agreed, digest, plan)
    network.warn_of(agreed)
    check_dataset(dataset)
    address = agreed.server.address if server is None else server
    check_address(address)
    if output.out is None and not dry_run:
        raise OutputError("the result needs a place: name a folder with --out DIR")
    is_there = network.holds_result(output.out, agreed)
    place = destination.Destination(folder=output.out, force=output.force) if is_there else destination.named(output)
    identity = PrivateIdentity.load(key, ask_passphrase=lambda: given_passphrase(passphrase_file))
    network.check_member(identity, agreed, key)
    table, X = _records(agreed, data, missing, outside)
    with network.store_of(identity, key, store, Role.CLIENT) as kept:
        check_slip(kept.history, dataset, new=new_dataset)
        if dry_run:
            _rehearse(agreed, identity, kept, dataset, table, X, address, as_json=output.json)
            return
        party = _party(agreed, identity, kept, dataset, table, X)
        outcome = _take_part(party, agreed, identity, address)
        result = Result.of_run(agreed, outcome)
        try:
            paths = network.written(output.out, result) or report.write(result, output, place, table)
        except OutputError as error:
            raise OutputError(
                f"{error}; the result is kept in {kept.path}: the same command, with space or another --out, writes it"
            ) from None
        party.conclude()
    screen = report.console(output)
    for line in report.rounds(result):
        screen.print(line)
    report.show(screen, result)
    report.say_where(output, paths, "")
    report.for_machines(result, output, paths)


def _records(plan: "Plan", data: Path, missing: str, outside: str) -> "tuple[Table, GridArray]":
    """The plan's features of the records, as they were read and on the grid."""
    import numpy as np

    from fastlloyd.cli import report
    from fastlloyd.cli.settings import on_grid
    from fastlloyd.clustering.outside import Outside
    from fastlloyd.presets import choose
    from fastlloyd.records import Missing, read_table

    treatment = choose(Missing, missing, "missing")
    choose(Outside, outside, "outside")  # before any record is read
    domain = plan.mechanism.domain
    table = read_table(data, list(domain.features), missing=treatment)
    grid = on_grid(table, domain, outside)
    X = np.concatenate(list(grid))
    report.left_out(table.dropped)
    report.clipped(grid.n_outside)
    return table, X


def _party(
    plan: "Plan", identity: "PrivateIdentity", store: "Store", dataset: str, table: "Table", X: "GridArray"
) -> "DurableClient":
    import os

    from fastlloyd import ledger
    from fastlloyd.dp.noise import SystemNoise
    from fastlloyd.runs import DurableClient

    return DurableClient.join(
        plan,
        identity.name,
        X,
        identity=identity.signing,
        store=store,
        dataset=dataset,
        fingerprint=ledger.fingerprint(store.fingerprint_key(), table.columns, table.values),
        noise=SystemNoise(),
        random_bytes=os.urandom,
    )


def _take_part(party: "DurableClient", plan: "Plan", identity: "PrivateIdentity", address: str) -> "ClientResult":
    """Run to the end; raises typer.Exit where there is no result."""
    from fastlloyd.cli import network
    from fastlloyd.protocol import ClientResult
    from fastlloyd.transport.grpc_client import GrpcClient

    if isinstance(party.outcome, ClientResult):  # a process that was killed before it had written the result
        return party.outcome
    client = GrpcClient(
        party,
        plan,
        address=address,
        identity=network.tls(identity),
        server_certificate=network.der(plan.server.certificate),
    )
    with network.logging_to_stderr(as_json=False):
        outcome = network.drive(
            client.run,
            client.stop,
            lambda: party.session.progress,
            lambda: f"{network.seconds_left(party.timeout)}; {client.meter}",
        )
    if outcome is None:
        raise network.stopped()
    if not isinstance(outcome, ClientResult):
        raise network.ended_without_result(outcome.reason) if party.outcome else network.turned_away(outcome.reason)
    return outcome


def _rehearse(
    plan: "Plan",
    identity: "PrivateIdentity",
    store: "Store",
    dataset: str,
    table: "Table",
    X: "GridArray",
    address: str,
    *,
    as_json: bool,
) -> None:
    """Everything a run needs, without taking part in it."""
    import asyncio

    from fastlloyd import ledger
    from fastlloyd.cli import network
    from fastlloyd.errors import NetworkError
    from fastlloyd.outputs import to_json
    from fastlloyd.runs import reservation
    from fastlloyd.transport.grpc_client import check_connection

    plan.client(identity.name).check_cap(len(X))
    fingerprint = ledger.fingerprint(store.fingerprint_key(), table.columns, table.values)
    reservation(store, plan, identity.name, dataset=dataset, fingerprint=fingerprint)
    certificate = network.der(plan.server.certificate)
    try:
        asyncio.run(check_connection(plan, address=address, identity=network.tls(identity), server_certificate=certificate))
    except NetworkError as error:
        raise NetworkError(f"records, bounds, cap and budget are as they must be, but {error}") from None
    if as_json:
        typer.echo(to_json({"ready": True, "run_id": plan.run_id, "client": identity.name, "server": address}), nl=False)
        return
    typer.echo(
        f"Everything is ready for run {plan.run_id}: records, bounds, cap, budget and certificate are as they must be, and the "
        f"server at {address} serves this plan. Nothing was spent."
    )
