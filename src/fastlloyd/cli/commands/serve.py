"""Commands `fastlloyd serve` and `fastlloyd hosted`: the server of a run over a network.

`fastlloyd join --serve` starts `hosted` as a process.
"""

import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fastlloyd.cli.network_options import MetricsAddress
from fastlloyd.cli.options import PassphraseFile, in_output

if TYPE_CHECKING:
    from fastlloyd.federation.identity.identity import PrivateIdentity
    from fastlloyd.federation.plan.plan import Plan
    from fastlloyd.federation.runs import DurableServer
    from fastlloyd.federation.transport.grpc.server import GrpcServer
    from fastlloyd.jobs.live import Sight

PlanFile = Annotated[Path, typer.Argument(help="File of the plan of the run.", metavar="PLAN")]
Key = Annotated[Path, typer.Option(help="File of the server's private identity.", metavar="FILE")]
Listen = Annotated[
    str | None,
    typer.Option(
        help=(
            "Address to listen on, HOST:PORT. Default: every address of this machine, at the"
            " plan's port."
        ),
        metavar="HOST:PORT",
    ),
]
StoreFile = Annotated[
    Path | None,
    typer.Option(
        "--store",
        help="File in which the server keeps its runs. Default: NAME.store next to the identity.",
        metavar="FILE",
    ),
]
JsonLog = Annotated[bool, in_output("--json", help="Write the log as JSON, one object per line.")]

STOPPED = "The server was stopped. Start it again with the same command to continue the run."
OVER = "The run is over."
KEPT = (
    "The store keeps the masked sums of the rounds so far; a server spends no epsilon and writes no"
    " result."
)


def serve(
    *,
    plan: PlanFile,
    key: Key,
    listen: Listen = None,
    store: StoreFile = None,
    passphrase_file: PassphraseFile = None,
    metrics: MetricsAddress = None,
    json: JsonLog = False,
) -> None:
    """Add up masked numbers for the clients of a plan, until the run is over. You can stop and
    start this command at any time.
    """
    from fastlloyd.cli import network
    from fastlloyd.jobs.metrics import address_of
    from fastlloyd.jobs.parties import check_server
    from fastlloyd.reports.plan_facts import cautions_at_start

    page = None if metrics is None else address_of(metrics)
    agreed = network.networked_plan(plan)
    identity = network.load_identity(key, passphrase_file)
    check_server(identity.public, agreed, key, plan)
    address = network.address_to_listen_at(agreed, listen)
    network.warn(cautions_at_start(agreed), as_json=json)
    code = run(agreed, identity, key, address, store, metrics=page, as_json=json)
    if code == network.STOPPED:
        raise network.stopped(KEPT, as_json=json)
    raise typer.Exit(code)


def hosted() -> None:
    """Run the server as the orders on standard input say, and end when standard input closes. It
    closes when the process that started this one has ended.
    """
    from fastlloyd.cli.hosting import Orders
    from fastlloyd.federation.identity.identity import PrivateIdentity
    from fastlloyd.federation.plan.plan import Plan
    from fastlloyd.jobs.parties import check_server

    orders = Orders.read(sys.stdin.buffer)
    threading.Thread(
        target=_end_with, args=(sys.stdin.fileno(),), name="fastlloyd-end", daemon=True
    ).start()
    plan, key = Plan.from_toml(orders.plan), Path(orders.key)
    identity = PrivateIdentity.load(key, ask_passphrase=lambda: orders.passphrase)
    check_server(identity.public, plan, key, Path("the plan"))
    raise typer.Exit(run(plan, identity, key, orders.address, Path(orders.store), as_json=True))


def _end_with(descriptor: int) -> None:
    """End this process as soon as no other process has the other end of the pipe open.

    A step that is not yet on disk then has no effect.
    """
    from fastlloyd.cli.network import STOPPED

    while os.read(descriptor, 1024):
        pass
    os._exit(STOPPED)


def run(
    plan: "Plan",
    identity: "PrivateIdentity",
    key: Path,
    address: str,
    store: Path | None,
    *,
    metrics: "tuple[str, int] | None" = None,
    as_json: bool = False,
) -> int:
    """Serve a plan until its run is over, print how it ended, and return the exit code.

    If the server is stopped, nothing is printed.

    metrics : host and port of the page of metrics, or None for no page.
    """
    from fastlloyd.cli import network
    from fastlloyd.cli.failures import DONE
    from fastlloyd.federation.store import Role
    from fastlloyd.jobs.live import LiveFile, live_path
    from fastlloyd.jobs.metrics import served
    from fastlloyd.jobs.parties import has_finished
    from fastlloyd.jobs.server import Serving, connections_for

    max_connections = connections_for(plan)
    with (
        network.store_of(identity.public, key, store, Role.SERVER) as kept,
        network.logging_to_stderr(as_json=as_json),
    ):
        if has_finished(
            kept.history, plan
        ):  # a process that was killed right after it had wiped the run
            _say_over(plan.mechanism.n_rounds, as_json=as_json)
            return DONE
        party, server = Serving.of(
            plan, identity, kept, address=address, max_connections=max_connections
        )
        live = LiveFile(live_path(kept.path))
        with served(metrics, lambda: live.present):
            result = network.drive(server.serve, server.stop, lambda: _sight(party, server), live)
        if result is None:
            live.end(STOPPED)
            return network.STOPPED
        party.conclude()
        live.end(
            OVER if result.reason is None else f"The run ended without a result: {result.reason}"
        )
    if result.reason is not None:
        return network.ended_without_result(
            result.reason, is_unspent=party.may_begin_again, as_json=as_json
        ).exit_code
    _say_over(len(result.included), as_json=as_json)
    return DONE


def _say_over(n_rounds: int, *, as_json: bool) -> None:
    from fastlloyd.cli import network

    network.say_last(
        f"The run is over: {n_rounds} rounds; the results are with the clients.", as_json=as_json
    )


def _sight(party: "DurableServer", server: "GrpcServer") -> "Sight":
    """Return the view that a server may show of its run: names, rounds and bytes."""
    from fastlloyd.jobs.live import Sight

    session, plan, connected = party.session, party.session.plan, server.connected
    return Sight(
        name=plan.server.name,
        role="server",
        run_id=plan.run_id,
        step=session.progress,
        n_rounds=plan.mechanism.n_rounds,
        n_clients=plan.n_clients,
        n_closed=session.n_closed,
        n_awaited=len(session.awaited),
        awaited=session.awaited,
        connected=tuple(name for name in plan.names if name in connected),
        not_told=server.not_told,
        seconds_left=server.stays if server.not_told else party.timeout,
        sent=server.meter.sent,
        received=server.meter.received,
    )
