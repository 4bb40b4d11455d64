"""Clients, server and timeouts of a plan, from how people give them."""

from collections.abc import Sequence
from pathlib import Path

from fastlloyd.cli.options import NetworkOptions, StudyOptions
from fastlloyd.errors import IdentityError, PlanError
from fastlloyd.federation.identity.authority import parse_authority
from fastlloyd.federation.identity.certificates import certificates_in
from fastlloyd.federation.identity.identity import PublicIdentity
from fastlloyd.federation.plan.plan import Client, Server, Study
from fastlloyd.federation.positions import Positions

STEPS = ("joining", "dealing", "round", "confirming")

_MAX_BYTES = 1 << 16  # of certificates and their chain


def given_clients(clients: Sequence[str], members: Sequence[str]) -> tuple[Client, ...]:
    """Clients by NAME:CAP, who can be simulated only, then those by FILE:CAP, who can join. Raises PlanError."""
    if not (clients or members):
        raise PlanError("a plan needs clients: --member FILE:CAP with a public file, or with --simulation --client NAME:CAP")
    by_name = [_split(text, "client", "NAME:CAP, such as hospital-a:200") for text in clients]
    by_file = [_split(text, "member", "FILE:CAP, such as clinic-a.public.toml:200") for text in members]
    return (
        *(Client(name=name, max_records=cap) for name, cap in by_name),
        *(PublicIdentity.load(Path(file)).client(cap) for file, cap in by_file),
    )


def given_server(network: NetworkOptions) -> Server:
    """The server of a new plan, as far as it is known."""
    address = network.address or ""
    return Server(address=address) if network.server is None else PublicIdentity.load(network.server).server(address)


def check_complete(clients: Sequence[Client], server: Server) -> None:
    """Raise PlanError, naming the option, if a run over a network would lack something of these parties."""
    alone = "or say --simulation, for a plan that is run in one process or over MPI only"
    if not server.certificate:
        raise PlanError(f"a plan needs --server FILE, the public file of whoever adds up; {alone}")
    if not server.address:
        raise PlanError(f"a plan needs --address HOST:PORT, where the clients reach the server; {alone}")
    for client in clients:
        if not client.certificate:
            raise PlanError(
                f"client {client.name!r} needs its public file, --member FILE:CAP instead of --client NAME:CAP; {alone}"
            )


def given_authority(network: NetworkOptions) -> str | None:
    """The certificate of the authority, base64 of DER, if one was named. Raises IdentityError."""
    if network.authority is None:
        return None
    found = load_certificates(network.authority)
    if len(found) != 1:
        raise IdentityError(
            f"{network.authority} holds {len(found)} certificates; expected one, of whoever issued the parties' directly"
        )
    parse_authority(found[0])
    return found[0]


def load_certificates(path: Path) -> list[str]:
    """The certificates of a PEM or DER file, base64 of DER, not looked into. Raises IdentityError."""
    try:
        with path.open("rb") as file:
            return certificates_in(file.read(_MAX_BYTES))
    except OSError as error:
        raise IdentityError(f"{path} cannot be read ({error.strerror})") from None


def given_study(study: StudyOptions) -> Study | None:
    """What the plan is for, in words, if anything was said. Raises PlanError."""
    given = {"name": study.study, "purpose": study.purpose, "controller": study.controller, "contact": study.contact}
    return None if all(text is None for text in given.values()) else Study(**given)


def given_positions(network: NetworkOptions) -> list[Positions]:
    """The positions of clients' stores in the files that were named. Raises PlanError."""
    return [Positions.load(path) for path in network.positions or ()]


def given_timeouts(network: NetworkOptions) -> dict[str, int]:
    """Seconds by step, of those that were given."""
    given = {step: getattr(network, f"{step}_timeout") for step in STEPS}
    return {step: seconds for step, seconds in given.items() if seconds is not None}


def _split(text: str, what: str, form: str) -> tuple[str, int]:
    name, _, cap = text.rpartition(":")
    if not (cap.isascii() and cap.isdigit() and len(cap) < 20):
        raise PlanError(f"{what} {text!r:.100} is not of the form {form}")
    return name, int(cap)
