"""Command `fastlloyd join`: take part as a client in a run over a network."""

import os
from contextlib import ExitStack, suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from fastlloyd.cli.layout_options import LayoutOptions
from fastlloyd.cli.network_options import (
    AgreedDigest,
    AgreedPlan,
    ChargedDataset,
    DryRun,
    FingerprintsFile,
    HostOptions,
    MetricsAddress,
    NewFingerprints,
    OwnKey,
    ServerAddress,
    StoreFile,
    note_conflicts,
)
from fastlloyd.cli.options import (
    Engine,
    LedgerFile,
    LedgerOptions,
    MissingCells,
    NewDataset,
    NewUnit,
    OutputOptions,
    OutsideBounds,
    PassphraseFile,
    Purpose,
    RowsAre,
    UnitColumn,
    request_option,
)
from fastlloyd.cli.recipes import OwnRecipeFile
from fastlloyd.errors import DataError, EngineError, OutputError, StateError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fastlloyd.cli.client_progress import ClientProgress
    from fastlloyd.cli.hosting import Hosting, ServerProcess
    from fastlloyd.cli.results import Destination
    from fastlloyd.federation.identity.identity import PrivateIdentity
    from fastlloyd.federation.plan.plan import Plan
    from fastlloyd.federation.protocol.actions import ClientResult, Ended
    from fastlloyd.federation.runs import DurableClient
    from fastlloyd.federation.store import Store
    from fastlloyd.federation.transport.grpc.outbox import Meter
    from fastlloyd.jobs.client import Endpoint, PreparedClient
    from fastlloyd.reports.run_result import RunResult

    Written = Callable[[Sequence[Path]], None]


def _request(path: Path) -> None:
    """Take part in a run, with a request from a file. This process locks the file until it ends,
    and reports on stdout, one JSON object a line. A passphrase is the first line of standard input.
    """
    from fastlloyd.cli import network, results
    from fastlloyd.cli.hosting import Hosting
    from fastlloyd.cli.readiness import rehearse
    from fastlloyd.cli.requested_fit import report
    from fastlloyd.federation.store.lock import Lock
    from fastlloyd.jobs.approvals import note_approval
    from fastlloyd.jobs.join_file import JoinFile

    def written(paths: "Sequence[Path]") -> None:
        digests = {path.name: sha256(path.read_bytes()).hexdigest() for path in paths}
        report(done=True, files=digests)

    file = JoinFile.read(path)  # before the lock, which makes a file beside
    lock = Lock(path)
    try:
        if not file.is_rehearsal:
            report(pid=os.getpid())
        file.check_unchanged()
        request, output = file.request(), OutputOptions(out=Path(file.out), json=True)
        place = results.of_network(output, request.plan)
        hosting = Hosting(request.plan, path, request.member.name, HostOptions())
        prepared = request.prepare()
        if file.is_rehearsal:  # it needs no private key
            rehearse(prepared, hosting, None, as_json=True)
            return
        identity = network.load_identity(Path(file.key), network.STDIN)
        file.check_unchanged()
        if file.approval is not None:
            note_approval(file.approval, request.plan, file.dataset, request.store)
        ended = _carry_out(prepared, identity, hosting, None, output, place, written=written)
    finally:
        lock.release()
    if ended is not None:
        raise ended


RequestFile = Annotated[
    Path | None,
    request_option({"plan": "-", "digest": "-", "key": "-", "data": "-", "dataset": "-"}, _request),
]


def join(
    *,
    plan: AgreedPlan,
    digest: AgreedDigest,
    key: OwnKey,
    data: Annotated[str, typer.Option(help="Your records.", metavar="DATA")],
    dataset: ChargedDataset,
    output: OutputOptions,
    host: HostOptions,
    layout: LayoutOptions,
    server: ServerAddress = None,
    store: StoreFile = None,
    passphrase_file: PassphraseFile = None,
    missing: MissingCells = "drop",
    outside: OutsideBounds = "clip",
    engine: Engine = None,
    ledger: LedgerFile = None,
    recipe: OwnRecipeFile = None,
    unit_column: UnitColumn = None,
    new_dataset: NewDataset = False,
    new_unit: NewUnit = False,
    rows_are: RowsAre = None,
    purpose: Purpose = None,
    fingerprints: FingerprintsFile = None,
    new_fingerprints: NewFingerprints = False,
    metrics: MetricsAddress = None,
    dry_run: DryRun = False,
    request_file: RequestFile = None,  # noqa: ARG001 - its callback carries it out
) -> None:
    """Take part in a run with your records, which stay here. You can stop and start this command at
    any time.
    """
    from fastlloyd.base.problems import Faults
    from fastlloyd.cli import digests, network, readiness, recipes, requests, results
    from fastlloyd.cli.hosting import Hosting
    from fastlloyd.federation.identity.identity import PrivateIdentity
    from fastlloyd.jobs.client import ClientRequest
    from fastlloyd.jobs.metrics import address_of
    from fastlloyd.jobs.parties import check_member, place_of_store
    from fastlloyd.reports.plan_facts import cautions_at_start

    agreed = network.networked_plan(plan)
    digests.check_digest(agreed, digest, plan)
    network.warn(cautions_at_start(agreed), as_json=output.json)
    faults, public = Faults(), PrivateIdentity.public_of(key)
    with faults.noted("key"):
        check_member(public, agreed, key)
    faults.check()
    hosting = Hosting(agreed, plan, public.name, host)
    with faults.noted():
        hosting.check()
    of_data = LedgerOptions(new_dataset=new_dataset, new_unit=new_unit, rows_are=rows_are)
    account = requests.noted_account(dataset, of_data, ledger, data, purpose, faults)
    page = faults.value(None, lambda: None if metrics is None else address_of(metrics), "metrics")
    note_conflicts(agreed, server, host, output, faults, is_rehearsal=dry_run)
    place, own = results.NOWHERE, None
    with faults.noted("out"):
        place = results.of_network(output, agreed)
    with faults.noted("recipe"):
        own = recipes.own_recipe(recipe, agreed.mechanism.domain.recipe)
    prepared = ClientRequest(
        plan=agreed,
        member=public,
        account=account,
        store=place_of_store(public.name, key, store),
        data=data,
        unit_column=unit_column,
        missing=missing,
        outside=outside,
        engine=engine,
        recipe=own,
        layout=faults.value(None, layout.layout),
        fingerprints=fingerprints,
        are_fingerprints_lost=new_fingerprints,
    ).prepare(faults)
    identity = network.load_identity(key, passphrase_file)
    if dry_run:
        readiness.rehearse(prepared, hosting, server, as_json=output.json)
        return
    ended = _carry_out(prepared, identity, hosting, server, output, place, metrics=page)
    if ended is not None:
        raise ended


def _carry_out(
    client: "PreparedClient",
    identity: "PrivateIdentity",
    hosting: "Hosting",
    server: str | None,
    output: OutputOptions,
    place: "Destination",
    *,
    written: "Written | None" = None,
    metrics: "tuple[str, int] | None" = None,
) -> typer.Exit | None:
    """Take part to the end of the run.

    Returns the exception to raise at the end if there is no result, or None.

    server : address of the server, or None for the address in the plan.
    written : function that receives the files of the result, which are then not shown, or None.
    metrics : host and port of the page of metrics, or None for no page.
    """
    from fastlloyd.cli import network
    from fastlloyd.cli.client_progress import OVER, WITHOUT_RESULT, ClientProgress
    from fastlloyd.federation.store import Role
    from fastlloyd.jobs.client import Endpoint
    from fastlloyd.jobs.live import LiveFile, live_path
    from fastlloyd.jobs.metrics import served

    as_json, where = output.json, client.request.store
    live = LiveFile(live_path(where))
    progress = ClientProgress(client.plan, identity.name, live, as_json=as_json)
    with (
        network.logging_to_stderr(as_json=as_json),
        client.source.working(progress.watch),
        served(metrics, lambda: live.present),
        hosting.process(as_json=as_json) as beside,
    ):
        address = client.plan.server.address if server is None else server
        joining = _Joining(
            client=client,
            identity=identity,
            server=Endpoint(address) if beside is None else Endpoint(beside.address, is_here=True),
            beside=beside,
            progress=progress,
            output=output,
            place=place,
            written=written,
        )
        with network.store_at(where, identity.public, Role.CLIENT, as_json=as_json) as kept:
            ended = joining.take_part(kept)
        live.end(OVER if ended is None else WITHOUT_RESULT)
        if beside is not None:
            beside.see_out(as_json=as_json)
    return ended


class _Joining(NamedTuple):
    """Run of the command `join`, with its options read.

    beside : process of the server, if it runs on this machine, or None.
    written : function that receives the files of the result, which are then not shown, or None.
    """

    client: "PreparedClient"
    identity: "PrivateIdentity"
    server: "Endpoint"
    beside: "ServerProcess | None"
    progress: "ClientProgress"
    output: OutputOptions
    place: "Destination"
    written: "Written | None" = None

    @property
    def plan(self) -> "Plan":
        """Plan of the run."""
        return self.client.plan

    def take_part(self, kept: "Store") -> typer.Exit | None:
        """Take part to the end of the run, then write and show the result.

        Returns the exception to raise if there is no result, or None.
        """
        from fastlloyd.cli import accounts, network, results
        from fastlloyd.cli.failures import dispensable
        from fastlloyd.federation.protocol.actions import Ended
        from fastlloyd.jobs.parties import has_ended, has_finished
        from fastlloyd.reports.result import result_of_run

        plan, output, watch = self.plan, self.output, self.progress.watch
        with suppress(StateError):
            # of a process that was killed before it had told the ledger how a run ended
            self.client.holder(watch).follow(kept, only_if_there=True)
        if has_finished(kept.history, plan):
            results.say_again(plan, output, self.written)
            return None
        if self.beside is not None and has_ended(kept.history, plan):
            # a client that has not been told is told, before this command is refused
            self.beside.see_out(as_json=output.json)
        joined = self.client.joined(kept, self.identity, watch, self.progress.drive)
        with ExitStack() as stack:
            party = stack.enter_context(joined)
            if party.counted is not None and party.outcome is None:
                network.say(accounts.counted(party.counted), as_json=output.json)
            outcome, moved = self._follow(party)
        if isinstance(outcome, Ended):
            return self._keep_unfinished(party, outcome)
        if moved is not None:
            network.say(network.WRITING, as_json=output.json)
        result = result_of_run(plan, outcome)
        paths = self._write(result, kept)
        party.conclude()
        with dispensable():
            if self.written is None:
                results.for_machines(result, output, paths)
            else:
                self.written(paths)
            if not output.json:  # it says all that the screen would, and stderr is a log of JSON
                results.show(result, output)
                results.say_where(output, paths, "")
        network.say_traffic(plan, self.identity.name, moved, as_json=output.json)
        return None

    def _follow(self, party: "DurableClient") -> "tuple[ClientResult | Ended, Meter | None]":
        """Take part to the end of the run. Return how it ended, and the number of bytes sent and
        received.

        Raises typer.Exit if the run continues after this process has stopped.
        """
        from fastlloyd.cli import network
        from fastlloyd.federation.protocol.actions import Ended

        if party.outcome is not None:
            # of a process that was killed before it had written what the run led to
            return party.outcome, None
        plan, beside, as_json = self.plan, self.beside, self.output.json
        connected = self.server.connection(party, plan, self.identity)

        def stop() -> None:
            self.progress.watch.stop()
            connected.stop()

        if beside is not None and not beside.is_running:
            raise StateError(
                f"run {plan.run_id} is over at the server, but this client did not receive the"
                f" last message; release its reservation with `{self._release}`"
            )
        try:
            outcome = self.progress.follow(
                connected.run if beside is None else partial(beside.accompany, connected.run, stop),
                stop,
                lambda: self.progress.sight(
                    party.session.progress,
                    n_closed=max(0, party.session.round - 1),
                    n_awaited=connected.n_awaited,
                    seconds_left=party.timeout,
                    sent=connected.meter.sent,
                    received=connected.meter.received,
                ),
            )
        except (DataError, EngineError) as error:
            raise type(error)(
                f"{error}. The run is still open, and what was sent stays charged; run the same"
                " command with the same records to continue"
            ) from None
        if outcome is None:
            raise (
                network.stopped(self._kept(party), as_json=as_json)
                if beside is None
                else beside.gone(as_json=as_json)
            )
        if isinstance(outcome, Ended) and party.outcome is None:
            raise network.turned_away(outcome.reason, self._release, as_json=as_json)
        return outcome, connected.meter

    def _kept(self, party: "DurableClient") -> str:
        """Return a sentence about a run that may continue: the number of rounds
        charged so far.
        """
        n, of = party.charged
        return (
            f"The ledger has charged {n} of the {of} rounds of this run to data set"
            f" {self.client.request.account.dataset.name!r}, and no result was written."
        )

    @property
    def _release(self) -> str:
        """Command that gives the run up."""
        return f"fastlloyd ledger release {self.client.request.store} --run {self.plan.run_id}"

    def _keep_unfinished(self, party: "DurableClient", ended: "Ended") -> typer.Exit:
        """Print why the run ended, and write the unfinished result if there is one.

        Returns the exception to raise.
        """
        from fastlloyd.cli import network, results
        from fastlloyd.reports.run_result import unfinished_caution, unfinished_files

        plan, output, place = self.plan, self.output, self.place
        n, of = party.charged
        raised = network.ended_without_result(
            ended.reason,
            kept=network.KEPT.format(n=n, of=of),
            is_unspent=party.may_begin_again,
            as_json=output.json,
        )
        if ended.unfinished is not None:
            files = unfinished_files(plan, ended.unfinished, ended.reason)
            caution = unfinished_caution(plan, ended.unfinished)
            results.written_before(output.out, files) or place.write(files)
            network.say_last(
                f"{place.folder} holds {caution}.", level="warning", as_json=output.json
            )
            party.conclude()
        return raised

    def _write(self, result: "RunResult", store: "Store") -> list[Path]:
        """Write the files of the result unless an earlier process wrote them, and return their
        paths.

        Raises OutputError if they cannot be written.
        """
        from fastlloyd.cli import results

        output, place, records = self.output, self.place, self.client.source.records
        try:
            return results.written_before(output.out, result.files()) or results.write(
                result, output, place, records
            )
        except OutputError as error:
            raise OutputError(
                f"{error}; the result is kept in {store.path}: free some space or choose another"
                " --out, then run the same command again to write the result"
            ) from None
