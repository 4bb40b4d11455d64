"""Options of plans and of runs over a network."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from fastlloyd.cli.options import in_host, in_network, in_study


@dataclass(frozen=True, kw_only=True)
class StudyOptions:
    """Purpose of a run and the persons responsible, for people; part of the agreement."""

    study: Annotated[str | None, in_study(help="Name of the study.", metavar="TEXT")] = None
    purpose: Annotated[
        str | None, in_study(help="What the result is wanted for.", metavar="TEXT")
    ] = None
    controller: Annotated[
        str | None,
        in_study(help="Who decides about purpose and means of the processing.", metavar="TEXT"),
    ] = None
    contact: Annotated[str | None, in_study(help="Whom people may ask.", metavar="TEXT")] = None


@dataclass(frozen=True, kw_only=True)
class NetworkOptions:
    """The server of a run over a network, and how long the parties wait; left out: none, or as in
    the plan before.
    """

    server: Annotated[
        Path | None, in_network(help="Public file of the server.", metavar="FILE")
    ] = None
    address: Annotated[
        str | None, in_network(help="Where clients reach the server.", metavar="HOST:PORT")
    ] = None
    authority: Annotated[
        Path | None,
        in_network(
            help=(
                "Certificate of the authority that must have issued everyone's. Default: anyone"
                " (plan renew: as before)."
            ),
            metavar="FILE",
        ),
    ] = None
    positions: Annotated[
        list[Path] | None,
        in_network(
            help=(
                "Positions of clients' stores that a server saw, exported by ledger positions. As"
                " often as needed."
            ),
            metavar="FILE",
        ),
    ] = None
    pass_seconds: Annotated[
        int | None,
        in_network(
            min=1,
            help=(
                "The longest that a client needs to read its records once, as join --dry-run tells:"
                " the timeouts that follow become so much longer."
            ),
            metavar="SECONDS",
        ),
    ] = None
    joining_timeout: Annotated[
        int | None,
        in_network(
            help="Seconds to wait for everyone to join. Default: 3600 (plan renew: as before).",
            metavar="SECONDS",
        ),
    ] = None
    dealing_timeout: Annotated[
        int | None,
        in_network(
            help=(
                "Seconds to deal keys, or say what is asked next, before another does. Default: 60"
                " (plan renew: as before)."
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
                "Seconds to wait for everyone to confirm the result. Default: 86400, with group"
                " masks 600 (plan renew: as before)."
            ),
            metavar="SECONDS",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class HostOptions:
    """Options of a client that also runs the server, in a process without access to the records."""

    serve: Annotated[
        Path | None,
        in_host(
            help="Also run the server, as the host that the plan names: its private identity.",
            metavar="FILE",
        ),
    ] = None
    listen: Annotated[
        str | None,
        in_host(
            help="Where it listens. Default: every address of this machine, at the plan's port.",
            metavar="HOST:PORT",
        ),
    ] = None
    server_store: Annotated[
        Path | None,
        in_host(
            help="Where it keeps the run. Default: NAME.store beside its identity.", metavar="FILE"
        ),
    ] = None
    server_passphrase_file: Annotated[
        Path | None,
        in_host(
            help="For scripts: file whose first line is the passphrase of its identity.",
            metavar="FILE",
        ),
    ] = None
