"""Options of plans and of runs over a network."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fastlloyd.cli.options import OutputOptions, in_host, in_network, in_study
from fastlloyd.errors import OutputError, PlanError

if TYPE_CHECKING:
    from fastlloyd.base.problems import Faults
    from fastlloyd.federation.plan.plan import Plan

AgreedPlan = Annotated[
    Path, typer.Argument(help="File of the plan that all parties agreed on.", metavar="PLAN")
]
AgreedDigest = Annotated[
    str,
    typer.Option(
        help=(
            "Digest of the plan, as you heard it over a different channel; in quotes if it has"
            " spaces."
        ),
        metavar="HEX",
    ),
]
OwnKey = Annotated[Path, typer.Option(help="File of your private identity.", metavar="FILE")]
ChargedDataset = Annotated[
    str,
    typer.Option(
        help="Name under which your ledger adds up the epsilon spent on these records.",
        metavar="NAME",
    ),
]
ServerAddress = Annotated[
    str | None,
    typer.Option(
        "--server",
        help="Address of the server. Default: the address in the plan.",
        metavar="HOST:PORT",
    ),
]
StoreFile = Annotated[
    Path | None,
    typer.Option(
        "--store",
        help="File in which this client keeps its runs. Default: NAME.store next to the identity.",
        metavar="FILE",
    ),
]
FingerprintsFile = Annotated[
    Path | None,
    typer.Option(
        "--fingerprints",
        help=(
            "File by which the records of earlier runs are recognised. Do not share it: it"
            " lets others test guesses about your records. Default:"
            " _fastlloyd.fingerprints next to DATA."
        ),
        metavar="FILE",
    ),
]
NewFingerprints = Annotated[
    bool,
    typer.Option(
        "--new-fingerprints",
        help=(
            "Confirm that the fingerprints of earlier runs are lost. From then on, records of those"
            " runs are not recognised if you use them again under another data set name."
        ),
    ),
]
MetricsAddress = Annotated[
    str | None,
    in_network(
        "--metrics",
        help=(
            "Serve names, rounds, bytes and waiting times as a page for Prometheus at this"
            " address. Without HOST only this machine can read it. Default: no page."
        ),
        metavar="[HOST:]PORT",
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help=(
            "Check records, bounds, budget and identity, and show what you would contribute. It"
            " sends, charges and writes nothing."
        ),
    ),
]


@dataclass(frozen=True, kw_only=True)
class StudyOptions:
    """Options for the purpose of a study and the responsible people. They are part of the
    agreement.
    """

    study: Annotated[str | None, in_study(help="Name of the study.", metavar="TEXT")] = None
    purpose: Annotated[str | None, in_study(help="Use of the result.", metavar="TEXT")] = None
    controller: Annotated[
        str | None,
        in_study(
            help="Organisation that decides about purpose and means of the processing.",
            metavar="TEXT",
        ),
    ] = None
    contact: Annotated[
        str | None, in_study(help="Person or address for questions.", metavar="TEXT")
    ] = None


@dataclass(frozen=True, kw_only=True)
class NetworkOptions:
    """Options for the server of a networked run, and for the timeouts of all parties."""

    server: Annotated[
        Path | None, in_network(help="Public file of the server.", metavar="FILE")
    ] = None
    address: Annotated[
        str | None,
        in_network(help="Address at which clients reach the server.", metavar="HOST:PORT"),
    ] = None
    authority: Annotated[
        Path | None,
        in_network(
            help=(
                "Certificate of the authority that must have issued all certificates. Default: any"
                " issuer (plan renew: as before)."
            ),
            metavar="FILE",
        ),
    ] = None
    positions: Annotated[
        list[Path] | None,
        in_network(
            help=(
                "File with positions of clients' stores, made by `fastlloyd ledger positions"
                " --out FILE` at a server. May be given several times."
            ),
            metavar="FILE",
        ),
    ] = None
    pass_seconds: Annotated[
        int | None,
        in_network(
            min=1,
            help=(
                "Seconds that the slowest client needs to read its records once, as join"
                " --dry-run shows. A longer time makes the timeouts below longer."
            ),
            metavar="SECONDS",
        ),
    ] = None
    joining_timeout: Annotated[
        int | None,
        in_network(
            help=(
                "Seconds to wait until all clients have joined. Default: 3600 (plan renew: as"
                " before)."
            ),
            metavar="SECONDS",
        ),
    ] = None
    dealing_timeout: Annotated[
        int | None,
        in_network(
            help=(
                "Seconds to wait for keys or parameters from one client, before another client is"
                " asked. Default: 60 (plan renew: as before)."
            ),
            metavar="SECONDS",
        ),
    ] = None
    round_timeout: Annotated[
        int | None,
        in_network(
            help=(
                "Seconds to wait for the uploads of a round. Default: 86400, with group masks 600"
                " (plan renew: as before)."
            ),
            metavar="SECONDS",
        ),
    ] = None
    confirming_timeout: Annotated[
        int | None,
        in_network(
            help=(
                "Seconds to wait until all clients have confirmed the result. Default: 86400, with"
                " group masks 600 (plan renew: as before)."
            ),
            metavar="SECONDS",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class HostOptions:
    """Options of a client that also runs the server. The server process has no access to the
    records.
    """

    serve: Annotated[
        Path | None,
        in_host(
            help=(
                "Private identity of the server. join then also runs the server; the plan must"
                " name this client as its host."
            ),
            metavar="FILE",
        ),
    ] = None
    listen: Annotated[
        str | None,
        in_host(
            help=(
                "Address at which the server listens. Default: all addresses of this machine,"
                " at the plan's port."
            ),
            metavar="HOST:PORT",
        ),
    ] = None
    server_store: Annotated[
        Path | None,
        in_host(
            help="Store of the server. Default: NAME.store next to its identity.", metavar="FILE"
        ),
    ] = None
    server_passphrase_file: Annotated[
        Path | None,
        in_host(
            help="For scripts: file whose first line is the passphrase of the server's identity.",
            metavar="FILE",
        ),
    ] = None


def note_conflicts(
    plan: "Plan",
    server: str | None,
    host: HostOptions,
    output: OutputOptions,
    faults: "Faults",
    *,
    is_rehearsal: bool,
) -> None:
    """Note options that exclude each other, or that do not fit the plan, in `faults`."""
    from fastlloyd.federation.identity.parties import check_address
    from fastlloyd.mechanisms.bounds.mechanism import BoundsMechanism

    with faults.noted("plot_data"):
        if output.plot_data and isinstance(plan.mechanism, BoundsMechanism):
            raise OutputError(
                "--plot-data draws records and centroids, but this plan finds bounds and no"
                " centroids; leave --plot-data out"
            )
    with faults.noted("server"):
        if server is not None:
            check_address(server)
    with faults.noted("server"):
        if server is not None and host.serve is not None:
            raise PlanError(
                "--server and --serve exclude each other: --server names the address of a server,"
                " and --serve runs it here; pass one of them"
            )
    with faults.noted("out"):
        if output.out is None and not is_rehearsal:
            raise OutputError("--out is missing; name a folder for the result with --out DIR")
