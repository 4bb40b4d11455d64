"""`fastlloyd join`: one client of a run over a network."""

import asyncio
import math
import os
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from fastlloyd.base.names import choose
from fastlloyd.cli import terminal
from fastlloyd.cli.network_options import HostOptions
from fastlloyd.cli.options import (
    Engine,
    LedgerFile,
    MissingCells,
    NewDataset,
    NewUnit,
    OutputOptions,
    OutsideBounds,
    PassphraseFile,
    RowsAre,
    UnitColumn,
)
from fastlloyd.errors import (
    DataError,
    EngineError,
    NetworkError,
    OutputError,
    PlanError,
    StateError,
)

if TYPE_CHECKING:
    from fastlloyd.cli.hosting import ServerProcess
    from fastlloyd.cli.own_records import OwnRecords
    from fastlloyd.cli.results import Destination
    from fastlloyd.federation.admission import DataSet
    from fastlloyd.federation.fingerprint import Fingerprint
    from fastlloyd.federation.holder import HoldersLedger
    from fastlloyd.federation.identity.identity import PrivateIdentity
    from fastlloyd.federation.plan.plan import Plan
    from fastlloyd.federation.protocol.actions import ClientResult, Ended
    from fastlloyd.federation.runs import DurableClient
    from fastlloyd.federation.store import Store
    from fastlloyd.federation.store.events import Limit
    from fastlloyd.mechanisms.engines.engine import Engine as Workers
    from fastlloyd.mechanisms.queries.query import Query
    from fastlloyd.reports.run_result import RunResult

T = TypeVar("T")
PlanFile = Annotated[Path, typer.Argument(help="The plan that was agreed on.", metavar="PLAN")]
Digest = Annotated[
    str,
    typer.Option(
        help=(
            "The plan's digest, as you were told it over a different channel; in quotes if it has"
            " spaces."
        ),
        metavar="HEX",
    ),
]
Key = Annotated[Path, typer.Option(help="Your private identity.", metavar="FILE")]
Dataset = Annotated[
    str,
    typer.Option(
        help="Name under which your ledger adds up what is spent on these records.", metavar="NAME"
    ),
]
ServerAddress = Annotated[
    str | None,
    typer.Option(
        "--server", help="Where the server is. Default: the plan's address.", metavar="HOST:PORT"
    ),
]
StoreFile = Annotated[
    Path | None,
    typer.Option(
        "--store", help="Run and ledger. Default: NAME.store beside the identity.", metavar="FILE"
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Check records, bounds, budget, certificate and connection; spend nothing.",
    ),
]


def join(
    *,
    plan: PlanFile,
    digest: Digest,
    key: Key,
    data: Annotated[str, typer.Option(help="Your records.", metavar="DATA")],
    dataset: Dataset,
    output: OutputOptions,
    host: HostOptions,
    server: ServerAddress = None,
    store: StoreFile = None,
    passphrase_file: PassphraseFile = None,
    missing: MissingCells = "drop",
    outside: OutsideBounds = "clip",
    engine: Engine = None,
    ledger: LedgerFile = None,
    unit_column: UnitColumn = None,
    new_dataset: NewDataset = False,
    new_unit: NewUnit = False,
    rows_are: RowsAre = None,
    dry_run: DryRun = False,
) -> None:
    """Take part in a run with your records, which stay here. It can be stopped and started at any
    time.
    """
    from fastlloyd.cli import digests, hosting, network, persons, requests
    from fastlloyd.cli.options import LedgerOptions
    from fastlloyd.federation.store import Role

    agreed = network.networked_plan(plan)
    digests.check_digest(agreed, digest, plan)
    network.warn_of(agreed, as_json=output.json)
    named = requests.given_dataset(
        dataset, LedgerOptions(new_dataset=new_dataset, new_unit=new_unit, rows_are=rows_are)
    )
    persons.check_agreed(agreed, unit_column)
    persons.check_alone(unit_column, engine)
    _check_together(agreed, server, host, output, is_rehearsal=dry_run)
    place = _place(output, agreed)
    identity = network.load_identity(key, passphrase_file)
    network.check_member(identity, agreed, key)
    with (
        network.logging_to_stderr(as_json=output.json),
        _workers(engine, as_json=output.json) as workers,
        hosting.server_process(
            agreed, plan, identity.name, host, is_rehearsal=dry_run, as_json=output.json
        ) as beside,
    ):
        planned = agreed.server.address if server is None else server
        client = _Client(
            plan=agreed,
            identity=identity,
            planned=planned,
            beside=beside,
            dataset=named,
            ledger=ledger,
            as_json=output.json,
        )
        mine = _records(agreed, data, unit_column, missing, outside, workers)
        where = network.place_of_store(identity.name, key, store)
        network.check_kept(agreed, identity.name, where)
        if dry_run:
            _rehearse(client, where, mine)
            return
        if (
            not where.exists()
        ):  # else a run that is refused would leave a new store, in the place of one that is lost
            client.check_budget(where)
        with network.store_of(
            identity.public, key, store, Role.CLIENT, as_json=output.json
        ) as kept:
            ended = _run(client, kept, mine, output, place)
        if beside is not None:
            beside.see_out(as_json=output.json)
    if ended is not None:
        raise ended


@contextmanager
def _workers(engine: str | None, *, as_json: bool) -> "Iterator[Workers | None]":
    """Yield the engine that is named, or None for this process alone."""
    from fastlloyd.cli.progress import Progress
    from fastlloyd.jobs.engines import started

    if engine is None:
        yield None
        return
    with Progress(as_json=as_json) as progress, started(engine, progress, holds_keys=True) as found:
        yield found


def _check_together(
    plan: "Plan",
    server: str | None,
    host: HostOptions,
    output: OutputOptions,
    *,
    is_rehearsal: bool,
) -> None:
    """Raise PlanError or OutputError for options that do not go together, or not with the plan."""
    from fastlloyd.federation.identity.parties import check_address
    from fastlloyd.mechanisms.bounds.mechanism import BoundsMechanism

    if output.plot_data and isinstance(plan.mechanism, BoundsMechanism):
        raise OutputError(
            "--plot-data draws records and centroids, and a plan of bounds finds none; leave it out"
        )
    check_address(plan.server.address if server is None else server)
    if server is not None and host.serve is not None:
        raise PlanError(
            "--server says where the server is, and --serve runs it here; pass one of them"
        )
    if output.out is None and not is_rehearsal:
        raise OutputError("the result needs a place: name a folder with --out DIR")


def _place(output: OutputOptions, plan: "Plan") -> "Destination":
    """Return the destination of the result: the folder that is named, which may contain files that
    this very run wrote before.
    """
    from fastlloyd.cli import results

    if results.holds_run(output.out, plan):
        return results.Destination(folder=output.out, force=output.force)
    return results.named(output)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Client:
    """Client of the run, and the way to its server. beside : its process, if it runs here."""

    plan: "Plan"
    identity: "PrivateIdentity"
    planned: str
    beside: "ServerProcess | None"
    dataset: "DataSet"
    ledger: Path | None
    as_json: bool

    @property
    def holder(self) -> "HoldersLedger":
        """The ledger that counts the run beside the client's store."""
        from fastlloyd.cli import network
        from fastlloyd.federation.holder import HoldersLedger, place

        return HoldersLedger(place(self.ledger), partial(network.say, as_json=self.as_json))

    def check_budget(self, store: "Path | Store") -> None:
        """Raise BudgetError unless the run may begin; `store` is its client's, or the place where
        it will be.
        """
        from fastlloyd.federation.ledger import plan_cost

        cost, run_id = plan_cost(self.plan, self.dataset.rows_are), bytes.fromhex(self.plan.run_id)
        self.holder.rehearse(self.dataset, store, self.identity.signing.public, cost, run_id)

    @property
    def server(self) -> dict[str, Any]:
        """Return address and certificate of the server, for the connection to it."""
        from fastlloyd.cli import network

        return {
            "address": self.planned if self.beside is None else self.beside.address,
            "is_here": self.beside is not None,
            "identity": network.tls(self.identity),
            "server_certificate": network.der(self.plan.server.certificate),
        }


def _run(
    client: _Client, kept: "Store", mine: "OwnRecords", output: OutputOptions, place: "Destination"
) -> typer.Exit | None:
    """Take part to the end, and write and show the result; return what to raise in the end if there
    is none.
    """
    from fastlloyd.cli import charging, network, results
    from fastlloyd.cli.failures import dispensable
    from fastlloyd.federation.protocol.actions import Ended
    from fastlloyd.reports.result import result_of_run

    with suppress(
        StateError
    ):  # of a process that was killed before it had told the ledger how a run ended
        client.holder.follow(kept, only_if_there=True)
    if network.has_finished(kept.history, client.plan):
        _say_again(client.plan, output)
        return None
    if client.beside is not None and network.has_ended(kept.history, client.plan):
        client.beside.see_out(
            as_json=client.as_json
        )  # whoever has not been told is told, before this command is refused
    party = _party(client, kept, mine)
    if party.counted is not None and party.outcome is None:
        network.say(charging.counted(party.counted), as_json=client.as_json)
    outcome = _take_part(party, client, mine)
    if isinstance(outcome, Ended):
        return _keep_unfinished(party, client.plan, outcome, output, place)
    result = result_of_run(client.plan, outcome)
    paths = _write(result, output, place, mine, kept)
    party.conclude()
    with dispensable():
        results.for_machines(result, output, paths)
        if not output.json:  # it says all that the screen would, and stderr is a log of JSON
            results.show(result, output)
            results.say_where(output, paths, "")
    return None


def _records(
    plan: "Plan", data: str, unit: str | None, missing: str, outside: str, workers: "Workers | None"
) -> "OwnRecords":
    """Open the records, or read them if they are few: the plan's features."""
    from fastlloyd.cli.own_records import OwnRecords
    from fastlloyd.clustering.grid_records import Outside
    from fastlloyd.records import Missing, open_records, table_or_file

    treatment = choose(Missing, missing, "missing")
    choose(Outside, outside, "outside")  # before any record is read
    read = table_or_file if workers is None else open_records
    m = plan.mechanism
    records = read(data, list(m.domain.features), missing=treatment, unit=unit)
    return OwnRecords(records, m.domain, outside, workers, of=m)


def _look(
    client: _Client, mine: "OwnRecords", key: bytes, rehearsed: "Sequence[Query]" = ()
) -> "Fingerprint":
    """Pass over the records for the first time, and tell their owner what was found. Raises
    DataError, or typer.Exit.
    """
    from fastlloyd.cli import network, screen

    found = _drive(
        mine,
        lambda: asyncio.to_thread(mine.look, key, rehearsed),
        mine.stop,
        lambda: "before the run",
    )
    if found is None:
        raise network.stopped(as_json=client.as_json)
    client.plan.client(client.identity.name).check_cap(
        mine.answers.n or 0, client.plan.mechanism.unit
    )
    say = partial(network.say, as_json=client.as_json)
    if not rehearsed and (to_ask_for := _pass_to_ask_for(client.plan, mine.seconds)) is not None:
        say(f"Warning: {_of_passes(client.plan, mine.seconds, to_ask_for)}")
    owner = screen.OwnersScreen(client.as_json, say)
    owner.left_out(mine.dropped)
    owner.clipped(mine.clipped, client.plan.mechanism.domain.features)
    return found


def _party(client: _Client, store: "Store", mine: "OwnRecords") -> "DurableClient":
    from fastlloyd.dp.noise import SystemNoise
    from fastlloyd.federation.runs import DurableClient, check_may_join

    name, dataset, holder = client.identity.name, client.dataset, client.holder
    holder.check_counts(dataset, store.identity, bytes.fromhex(client.plan.run_id))
    if check_may_join(store, client.plan, name, dataset=dataset) is None:
        client.check_budget(store)  # else a long pass would be for nothing
    fingerprint = _look(client, mine, store.fingerprint_key())
    return DurableClient.join(
        client.plan,
        name,
        mine.answers,
        identity=client.identity.signing,
        store=store,
        dataset=dataset,
        fingerprint=fingerprint,
        noise=SystemNoise(),
        random_bytes=os.urandom,
        holder=holder,
    )


def _drive(
    mine: "OwnRecords",
    run: Callable[[], Coroutine[Any, Any, T]],
    stop: Callable[[], None],
    step: Callable[[], str],
    details: Callable[[], str] = str,
) -> T | None:
    """Run to the end as `network.drive` does, and show how far a pass is; None if it was given up
    in the middle of one.
    """
    from fastlloyd.cli import network
    from fastlloyd.cli.own_records import Stopped

    try:
        return network.drive(
            run, stop, step, lambda: details() + mine.progress(exact=sys.stderr.isatty())
        )
    except Stopped:
        return None


def _take_part(
    party: "DurableClient", client: _Client, mine: "OwnRecords"
) -> "ClientResult | Ended":
    """Run to the end and return how it ended; raises typer.Exit if it goes on without this
    process.
    """
    from fastlloyd.cli import network
    from fastlloyd.federation.protocol.actions import Ended
    from fastlloyd.federation.transport.grpc.client import GrpcClient

    if (
        party.outcome is not None
    ):  # of a process that was killed before it had written what the run led to
        return party.outcome
    connected, beside = GrpcClient(party, client.plan, **client.server), client.beside

    def stop() -> None:
        mine.stop()
        connected.stop()

    if beside is not None and not beside.is_running:
        raise StateError(
            f"run {client.plan.run_id} is over at the server, and this client did not get its end;"
            " give up what it reserved with `fastlloyd ledger release`"
        )
    try:
        outcome = _drive(
            mine,
            connected.run if beside is None else partial(beside.accompany, connected.run, stop),
            stop,
            lambda: party.session.progress,
            lambda: (
                network.waiting_for(connected.n_awaited, client.plan.n_clients)
                + f"{network.gives_up_in(party.timeout)}; {connected.meter}"
            ),
        )
    except (DataError, EngineError) as error:
        raise type(error)(
            f"{error}. The run is not over for this client: what it sent stays charged, and with"
            " the same records as before the same command goes on"
        ) from None
    if outcome is None:
        raise (
            network.stopped(as_json=client.as_json)
            if beside is None
            else beside.gone(as_json=client.as_json)
        )
    if isinstance(outcome, Ended) and party.outcome is None:
        raise network.turned_away(outcome.reason, as_json=client.as_json)
    return outcome


def _keep_unfinished(
    party: "DurableClient",
    plan: "Plan",
    ended: "Ended",
    output: OutputOptions,
    place: "Destination",
) -> typer.Exit:
    """Write what the run had led to, if anything, and say why it ended; return the exception to
    raise.
    """
    from fastlloyd.cli import network, results
    from fastlloyd.reports.run_result import unfinished_caution, unfinished_files

    raised = network.ended_without_result(
        ended.reason, is_unspent=party.may_begin_again, as_json=output.json
    )
    if ended.unfinished is not None:
        files, caution = (
            unfinished_files(plan, ended.unfinished, ended.reason),
            unfinished_caution(plan, ended.unfinished),
        )
        results.written_before(output.out, files) or place.write(files)
        network.say_last(f"{place.folder} holds {caution}.", level="warning", as_json=output.json)
        party.conclude()
    return raised


def _write(
    result: "RunResult",
    output: OutputOptions,
    place: "Destination",
    mine: "OwnRecords",
    store: "Store",
) -> list[Path]:
    """Return the files of the result; writes them unless a process that was killed already did.
    Raises OutputError.
    """
    from fastlloyd.cli import results

    try:
        return results.written_before(output.out, result.files()) or results.write(
            result, output, place, mine.records
        )
    except OutputError as error:
        raise OutputError(
            f"{error}; the result is kept in {store.path}: the same command, with space or another"
            " --out, writes it"
        ) from None


def _say_again(plan: "Plan", output: OutputOptions) -> None:
    """Say where the result of a finished run is; with --json print it. Raises StateError if the
    folder does not hold it.
    """
    from fastlloyd.cli import results
    from fastlloyd.cli.failures import dispensable

    found = results.finished_before(output.out, plan)
    if found is None:
        raise StateError(
            f"run {plan.run_id} has ended for this client (it finished); a plan is good for one"
            f" run: renew it. {output.out} does not hold the result of this run; to see it, pass"
            " the folder that does as --out"
        )
    with dispensable():
        terminal.console(stderr=output.json).print(
            f"Run {plan.run_id} has finished before, and this is its result."
        )
        results.say_where(output, [Path(file) for file in found["files"]], "")
        if output.json:
            terminal.print_json(found)


def _rehearse(client: _Client, where: Path, mine: "OwnRecords") -> None:
    """Ask the ledger and the server as a run would, spend nothing, and say that all is ready."""
    limits = _rehearsed_budget(client, where, mine)
    _rehearse_connection(client)
    _say_ready(client, limits, mine.seconds)


def _rehearsed_budget(client: _Client, path: Path, mine: "OwnRecords") -> "list[Limit]":
    """Pass over the records, and return the limits that the run must keep to. Nothing is stored.

    Raises DataError, BudgetError and StateError, as taking part would. Makes no store and no
    ledger.
    """
    from fastlloyd.federation.ledger import finite
    from fastlloyd.federation.runs import check_may_join, reservation
    from fastlloyd.federation.store import History, Role, Store
    from fastlloyd.mechanisms.central import rehearse

    plan, identity, dataset = client.plan, client.identity, client.dataset
    queries, history = rehearse(plan.mechanism), History(Role.CLIENT)
    if not path.exists():
        client.check_budget(path)
        _look(client, mine, os.urandom(32), queries)
    else:
        with Store.open(path, role=Role.CLIENT, identity=identity.signing.public) as store:
            history = store.history
            if check_may_join(store, plan, identity.name, dataset=dataset) is None:
                client.check_budget(store)
            fingerprint = _look(client, mine, store.fingerprint_key(), queries)
            reservation(store, plan, identity.name, dataset=dataset, fingerprint=fingerprint)
    limits = [
        limit
        for known in (client.holder.history(), history)
        for limit in known.limits_on(dataset.name).values()
    ]
    return [limit for limit in limits if finite(limit) is not None]


def _rehearse_connection(client: _Client) -> None:
    """Ask the server whether it serves this plan. Raises NetworkError."""
    from fastlloyd.federation.transport.grpc.client import check_connection

    try:
        asyncio.run(check_connection(client.plan, **client.server))
    except NetworkError as error:
        raise NetworkError(
            f"records, bounds, cap and budget are as they must be, but {error}"
        ) from None


def _say_ready(client: _Client, limits: "list[Limit]", seconds: float) -> None:
    plan, address, dataset = client.plan, client.server["address"], client.dataset.name
    to_ask_for = _pass_to_ask_for(plan, seconds)
    if client.as_json:
        kept_to = {"epsilon": limits[0].epsilon, "delta": limits[0].delta} if limits else None
        ready = {
            "ready": True,
            "run_id": plan.run_id,
            "client": client.identity.name,
            "server": address,
            "limit": kept_to,
        }
        ready |= {
            "pass_seconds": seconds,
            "longest_pass": plan.timeouts.longest_pass,
            "ask_for_pass_seconds": to_ask_for,
        }
        terminal.print_json(ready)
        return
    typer.echo(
        f"Everything is ready for run {plan.run_id}: records, bounds, cap, budget and certificate"
        f" are as they must be, and the server at {address} serves this plan. Nothing was spent."
    )
    typer.echo(_of_passes(plan, seconds, to_ask_for))
    if client.beside is not None:
        typer.echo(
            f"Whether the others reach it at {plan.server.address} only they can tell: `fastlloyd"
            " serve` lets them rehearse."
        )
    from fastlloyd.base.precision import delta_up, epsilon_up

    for limit in limits:
        whom = "" if limit.speaks_of is None else f" for {limit.speaks_of}"
        typer.echo(
            f"Data set {dataset!r} has the limit epsilon {epsilon_up(limit.epsilon)} at delta"
            f" {delta_up(limit.delta)}{whom}; the run fits."
        )
    if not limits:
        typer.echo(
            f"Data set {dataset!r} has no limit. To set one before the run: fastlloyd ledger limit"
        )


def _of_passes(plan: "Plan", seconds: float, to_ask_for: int | None) -> str:
    """Say how long a pass took and whether the plan leaves time for it."""
    from fastlloyd.reports.explain import duration

    said = (
        f"To read the records once took {seconds:.3g} s; the plan leaves time for"
        f" {duration(plan.timeouts.longest_pass)}"
    )
    return (
        f"{said}."
        if to_ask_for is None
        else f"{said}: ask for a plan made with --pass-seconds {to_ask_for}."
    )


def _pass_to_ask_for(plan: "Plan", seconds: float) -> int | None:
    """Return the seconds for a pass that the plan should allow, or None if it allows enough: twice
    as long as one took, in whole minutes.
    """
    return None if seconds <= plan.timeouts.longest_pass else 60 * math.ceil(2 * seconds / 60)
