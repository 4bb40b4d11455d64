"""Parties of a federated run: their names, keys and caps, and how long they wait for each other."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

import msgspec

from fastlloyd.base.names import NAME, NAME_RULE
from fastlloyd.errors import DataError, IdentityError, PlanError
from fastlloyd.federation.identity.certificates import (
    Authority,
    Certificate,
    fingerprint,
    parse_authority,
    parse_certificate,
)
from fastlloyd.federation.positions import KnownStore
from fastlloyd.mechanisms.persons import RECORD, Unit

MAX_CLIENTS = 1000
MAX_TIMEOUT = 7 * 24 * 3600  # seconds
ADDRESS = re.compile(
    r"(?P<host>[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,252})|\[[0-9A-Fa-f:.]{2,45}\]):(?P<port>[0-9]{1,5})"
)


class Client(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Client of a plan: one organisation. Its keys are empty until they are known.

    name : name of the client.
    max_records : cap, the largest number of records (or persons) that it may use.
    signing_key : public Ed25519 key, 64 hex digits.
    certificate : TLS certificate, base64 of DER. It contains the signing key too.
    store : position of the client's store when a server last saw it, or None if it is not known. If
        it is None, it is not part of the plan's digest.
    """

    name: str
    max_records: int
    signing_key: str = ""
    certificate: str = ""
    store: KnownStore | None = None

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the certificate, 64 hex digits, or "" without a certificate."""
        return fingerprint(self.certificate)

    def check_cap(self, n: int, unit: Unit = RECORD) -> None:
        """Raise DataError if `n` records, or persons, exceed the client's cap. The message does not
        show n.

        unit : unit that is counted, for the error message.
        """
        if n > self.max_records:
            raise DataError(
                f"client {self.name!r} has more {unit.many} than its cap, max_records"
                f" {self.max_records}; agree on a higher cap, or leave out {unit.many} at random,"
                " each independently of the others"
            )


class Server(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Server of a plan: the party that adds up masked numbers. In a plan for a simulation, address
    and certificate are empty.

    address : address of the server, "HOST:PORT".
    certificate : TLS certificate, base64 of DER.
    name : name of the server.
    """

    address: str = ""
    certificate: str = ""
    name: str = "server"

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the certificate, 64 hex digits, or "" without a certificate."""
        return fingerprint(self.certificate)


class Timeouts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Longest times that a run over a network waits for missing parties, in whole seconds.

    joining : time for the Hellos of all clients.
    dealing : time for a message that one client makes for all, with keys or parameters. Then the
        next client is asked.
    round : time for the uploads of one round. With pairwise masks every client is needed, so this
        is also the time for keys and parameters.
    confirming : time for the confirmations of all clients.
    """

    joining: int = 3600
    dealing: int = 60
    round: int = 600
    confirming: int = 600

    @property
    def longest_pass(self) -> int:
        """Largest number of seconds that one pass over a client's records may take. A client needs
        one pass before its Hello, and two in a round in which it is restarted.
        """
        return min(self.joining, self.round // 2)

    def for_passes(self, seconds: int) -> "Timeouts":
        """Return longer timeouts, for a client whose passes take `seconds` each and that may be
        restarted.
        """
        return msgspec.structs.replace(
            self,
            joining=self.joining + seconds,
            round=self.round + 2 * seconds,
            confirming=self.confirming + seconds,
        )


def check_clients(clients: Sequence[Client]) -> None:
    """Raise PlanError unless names, caps, keys and certificates of the clients are valid, and no
    two clients have the same name or key.
    """
    if not 1 <= len(clients) <= MAX_CLIENTS:
        raise PlanError(f"the plan names {len(clients)} clients; expected 1 to {MAX_CLIENTS}")
    for client in clients:
        if not NAME.fullmatch(client.name):
            raise PlanError(f"client name {client.name!r:.80} is not usable; expected {NAME_RULE}")
        if client.max_records < 0:
            raise PlanError(
                f"max_records of client {client.name!r} is {client.max_records}; expected 0 or more"
            )
        if client.signing_key and not re.fullmatch(r"[0-9a-f]{64}", client.signing_key):
            raise PlanError(
                f"signing_key of client {client.name!r} is not 64 hex digits; use the key its owner"
                " sent"
            )
        if client.store is not None:
            if not client.signing_key:
                raise PlanError(
                    f"client {client.name!r} has no signing_key, so its store cannot be"
                    " recognised; add its public file"
                )
            client.store.check(client.signing_key, client.name)
    for field in ("name", "signing_key"):
        values = [getattr(client, field) for client in clients if getattr(client, field)]
        if len(set(values)) != len(values):
            repeated = next(value for value in values if values.count(value) > 1)
            raise PlanError(
                f"two clients have the {field} {repeated!r:.80}; every client needs its own"
            )


def check_network(clients: Sequence[Client], server: Server, timeouts: Timeouts) -> None:
    """Raise PlanError if the entries of a plan for a network are invalid. They may be empty, and no
    certificate is compared with the clock.
    """
    if not NAME.fullmatch(server.name):
        raise PlanError(f"server name {server.name!r:.80} is not usable; expected {NAME_RULE}")
    if server.certificate and server.name in {client.name for client in clients}:
        raise PlanError(
            f"server and client are both called {server.name!r}; every party needs its own name"
        )
    if server.address:
        check_address(server.address)
    for field in timeouts.__struct_fields__:
        if not 1 <= getattr(timeouts, field) <= MAX_TIMEOUT:
            raise PlanError(
                f"the timeout of {field} is {getattr(timeouts, field)} s; expected 1 to"
                f" {MAX_TIMEOUT} (a week)"
            )
    owners: dict[bytes | str, str] = {}
    for certificate in certificates(clients, server):
        for key in (certificate.tls_key, certificate.signing_key):
            other = owners.setdefault(key, certificate.name)
            if other != certificate.name:
                raise PlanError(
                    f"{other!r} and {certificate.name!r} have the same key or certificate; every"
                    " party needs its own"
                )


@contextmanager
def _as_plan_errors() -> Iterator[None]:
    """Context in which an IdentityError about a certificate becomes a PlanError."""
    try:
        yield
    except IdentityError as error:
        raise PlanError(str(error)) from None


def certificates(clients: Sequence[Client], server: Server) -> list[Certificate]:
    """Return the parsed certificates of a plan, first the server's.

    Raises PlanError if a certificate does not belong to its party.
    """
    found = []
    everyone: list[Server | Client] = [server, *clients]
    for party in everyone:
        if party.certificate:
            with _as_plan_errors():
                certificate = parse_certificate(party.certificate, party.name)
            if isinstance(party, Client) and party.signing_key != certificate.signing_key:
                raise PlanError(
                    f"client {party.name!r} has another signing_key than its certificate; use the"
                    " public file its owner sent"
                )
            found.append(certificate)
    return found


def authority_of(text: str | None) -> Authority | None:
    """Return the authority with this certificate (base64 of DER), or None if `text` is None.

    Raises PlanError if the certificate is not an authority's.
    """
    with _as_plan_errors():
        return None if text is None else parse_authority(text)


def check_issued(clients: Sequence[Client], server: Server, authority: Authority | None) -> None:
    """Raise PlanError unless the authority issued every certificate of the plan. Without an
    authority, do nothing. No certificate is compared with the clock.
    """
    everyone: list[Server | Client] = [server, *clients]
    with _as_plan_errors():
        for party in everyone:
            if authority is not None and party.certificate:
                authority.check_issued(party.certificate, party.name)


def lacking(clients: Sequence[Client], server: Server) -> str:
    """Return a sentence about the first thing that a plan lacks for a run over a network, or "" if
    it is complete.
    """
    if not server.certificate:
        return (
            "the plan has no certificate of the server; add one with `fastlloyd plan renew PLAN"
            " --server FILE`"
        )
    if not server.address:
        return (
            "the plan has no address of the server; add it with `fastlloyd plan renew PLAN"
            " --address HOST:PORT`"
        )
    for client in clients:
        for field in ("signing_key", "certificate"):
            if not getattr(client, field):
                return (
                    f"client {client.name!r} has no {field} in the plan; add its public file with "
                    "`fastlloyd plan renew PLAN --member FILE`"
                )
    return ""


def check_networked(
    clients: Sequence[Client], server: Server, authority: Authority | None, now: datetime
) -> None:
    """Raise PlanError if a plan lacks something for a run over a network, or if a certificate is
    not valid at `now`.
    """
    if sentence := lacking(clients, server):
        raise PlanError(sentence)
    for certificate in certificates(clients, server):
        try:
            certificate.check_valid(now)
        except IdentityError as error:
            if now < certificate.begins:
                raise PlanError(f"{error}") from None
            raise PlanError(
                f"{error}. Then put the new certificate into the plan with `fastlloyd plan renew`"
            ) from None
    if authority is not None:
        with _as_plan_errors():
            authority.check_valid(now)


def check_address(address: str, what: str = "server address") -> None:
    """Raise PlanError unless the address is HOST:PORT. An IPv6 address must be in brackets.

    what : name of the address, for the error message.
    """
    match = ADDRESS.fullmatch(address)
    if match is None or not 1 <= int(match["port"]) <= 65535 or not _is_host(match["host"]):
        raise PlanError(
            f"{what} {address!r:.100} is not HOST:PORT, such as sums.example.org:8443 or"
            " [2001:db8::1]:8443"
        )


def _is_host(host: str) -> bool:
    if not host.startswith("["):
        return all(0 < len(label) <= 63 for label in host.split("."))
    from ipaddress import AddressValueError, IPv6Address

    try:
        IPv6Address(host[1:-1])
    except AddressValueError:
        return False
    return True
