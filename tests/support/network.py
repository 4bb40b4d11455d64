"""What the network's tests share: certificates, parties without a store, and connections that are
slow, cut or proxied.
"""

import asyncio
import contextlib
import datetime as dt
import hashlib
import re
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from fastlloyd.errors import RemoteProtocolError
from fastlloyd.federation.positions import SignedPosition
from fastlloyd.federation.protocol.actions import Action, Ended, Finish, Record, Send
from fastlloyd.federation.protocol.client import ClientSession
from fastlloyd.federation.protocol.messages import Message
from fastlloyd.federation.protocol.server import ServerSession
from fastlloyd.federation.store.events import LogPosition
from fastlloyd.federation.transport.grpc.tls import TlsIdentity
from fastlloyd.federation.transport.party import Request


def tls_identity(name: str, *, days: float = 365) -> TlsIdentity:
    """A fresh P-256 key with its self-signed certificate, which ends in so many days (or has
    ended).
    """
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    end = dt.datetime.now(dt.UTC) + dt.timedelta(days=days)
    certificate = (
        x509.CertificateBuilder(
            subject_name=subject, issuer_name=subject, public_key=key.public_key()
        )
        .serial_number(x509.random_serial_number())
        .not_valid_before(end - dt.timedelta(days=366))
        .not_valid_after(end)
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName(f"{name}.fastlloyd.internal")]),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    return TlsIdentity(
        certificate=certificate.public_bytes(serialization.Encoding.DER),
        private_key=key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )


def position(length: int) -> SignedPosition:
    """Where a log of so many events stands; nobody signed it, and no party here looks."""
    return SignedPosition(length, hashlib.sha256(f"{length} events".encode()).digest(), bytes(64))


def remembered(log: SignedPosition) -> LogPosition:
    """The same as a server remembers it."""
    return LogPosition(log.length, log.head)


@dataclass
class SessionServer:
    """A `ServerParty`: a session that forgets with its process. It remembers the clients' logs, and
    refuses older ones.
    """

    session: ServerSession
    patience: Callable[[], float | None] = lambda: None
    logs: dict[str, SignedPosition] = field(default_factory=dict)
    received: list[tuple[str, Message]] = field(default_factory=list)
    announced: list[str] = field(default_factory=list)

    @property
    def timeout(self) -> float | None:
        return self.patience()

    def attach(self, name: str, log: SignedPosition) -> LogPosition:
        known = self.logs.setdefault(name, log)
        if log.length < known.length:
            raise RemoteProtocolError(
                f"the log of client {name} is older than what the server remembers of it"
            )
        self.logs[name] = log
        self.session.back(name)
        return remembered(known)

    def disowned(self, name: str) -> list[Request]:
        self.logs.pop(name, None)
        return []

    def away(self, name: str) -> list[Request]:
        return requests(self.session.away(name))

    def receive(self, name: str, log: SignedPosition, message: Message) -> list[Request]:
        self.received.append((name, message))
        actions = self.session.receive(name, message)
        self.logs[name] = (
            log  # of a message that was taken: one who speaks in another's name spoils nobody's log
        )
        return requests(actions)

    def announce(self, name: str, _log: SignedPosition) -> None:
        self.announced.append(name)

    @property
    def awaited(self) -> tuple[str, ...]:
        return self.session.awaited

    @property
    def gone(self) -> frozenset[str]:
        return frozenset()

    def leave(self, name: str, _hello: bytes, _signature: bytes) -> list[Request]:
        """Nothing is signed here, and no party looks."""
        return requests(self.session.left(name))

    def draw_ahead(self) -> None:
        self.session.draw_ahead()

    def deadline(self) -> list[Request]:
        return requests(self.session.deadline())

    def slept(self) -> None:
        """It has no clock."""


@dataclass
class SessionClient:
    """A `ClientParty`: a session that forgets with its process; its log counts what the session
    records.
    """

    session: ClientSession
    patience: Callable[[], float | None] = lambda: None
    remembered: list[LogPosition] = field(default_factory=list)
    received: list[Message] = field(default_factory=list)
    n_begun: int = 0
    on_message: Callable[[Message], None] = lambda _: None
    _n_events: int = 0

    @property
    def position(self) -> SignedPosition:
        return position(self._n_events)

    @property
    def farewell(self) -> tuple[bytes, bytes]:
        return bytes(32), bytes(64)

    @property
    def timeout(self) -> float | None:
        return self.patience()

    def attached(self, log: LogPosition) -> None:
        self.remembered.append(log)
        if log.length > self._n_events:
            raise RemoteProtocolError("the server remembers more of this log than there is")

    def begin(self) -> list[Request]:
        self.n_begun += 1
        if self.n_begun == 1:
            return self._counted(self.session.start())
        return requests(self.session.reconnect())

    def receive(self, message: Message) -> list[Request]:
        self.received.append(message)
        self.on_message(message)
        return self._counted(self.session.receive(message))

    def deadline(self) -> list[Request]:
        if not self.n_begun:
            return [Finish(Ended("no connection to the server came about in time"))]
        return self._counted(self.session.deadline())

    def slept(self) -> None:
        """It has no clock."""

    def _counted(self, actions: list[Action]) -> list[Request]:
        self._n_events += sum(isinstance(action, Record) for action in actions)
        return requests(actions)


def requests(actions: Iterable[Action]) -> list[Request]:
    """What is left when nothing needs to be durable."""
    return [action for action in actions if isinstance(action, Send | Finish)]


class Relay:
    """A port in between: bytes arrive `delay` seconds later, or through an HTTP proxy's CONNECT,
    and connections can be cut.
    """

    def __init__(self, target: int, *, delay: float = 0.0, connect: bool = False) -> None:
        self.target, self.delay, self.connect = target, delay, connect
        self.port = 0
        self.connected_to: list[str] = []
        self.credentials: set[bytes] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.cut()

    def cut(self) -> None:
        """End all connections at once, without a goodbye."""
        for writer in self._writers:
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        if self.connect:
            request = await reader.readuntil(b"\r\n\r\n")
            self.connected_to.append(request.split()[1].decode())
            self.credentials |= set(re.findall(rb"Basic (\S+)", request))
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        there, onward = await asyncio.open_connection("127.0.0.1", self.target)
        self._writers.add(onward)
        try:
            await asyncio.gather(self._copy(reader, onward), self._copy(there, writer))
        finally:
            self._writers -= {writer, onward}
            for each in (writer, onward):
                each.transport.abort()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                loop.call_later(
                    self.delay, writer.write, data
                )  # timers of equal delay fire in order
        loop.call_later(self.delay, writer.close)


@contextlib.asynccontextmanager
async def listening(
    answer: Callable[[asyncio.StreamReader, asyncio.StreamWriter], object],
) -> AsyncIterator[int]:
    """A port at which something else listens."""
    # returns a coroutine
    server = await asyncio.start_server(answer, "127.0.0.1", 0)  # type: ignore[arg-type]
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
