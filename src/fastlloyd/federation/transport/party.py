"""Interface of transports.

`serve` and `take_part` drive the two kinds of session over a `Wire`. A transport whose runs never
restart is a class with its three methods. If parties may come back after a break or a restart, a
transport drives parties that keep their steps in stores: a `ServerParty` and a `ClientParty`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Protocol

from fastlloyd.errors import RemoteProtocolError
from fastlloyd.federation.positions import SignedPosition
from fastlloyd.federation.protocol.actions import (
    SERVER,
    Action,
    ClientResult,
    Ended,
    Finish,
    Send,
    ServerResult,
)
from fastlloyd.federation.protocol.client import ClientSession
from fastlloyd.federation.protocol.messages import Limits, Message, decode, printable
from fastlloyd.federation.protocol.server import ServerSession
from fastlloyd.federation.store.events import LogPosition

# seconds after which the server draws noise ahead: clients that share its core go first
_A_MOMENT: Final = 2e-4
_SHOWN: Final = 300  # characters of the reason for which a server refuses a client


class Kind(IntEnum):
    """Kind of data on a wire: a message of the protocol, or one of three that end things."""

    MESSAGE = 1
    # from a client, whose run is over; or a transport has found out that the client is gone
    LEAVE = 2
    REFUSED = 3  # to a client that broke the protocol: the run goes on without it, and why
    END = 4  # from the server: no more will come


@dataclass(frozen=True, slots=True)
class Heard:
    """Data from a party: the bytes of a message, or the characters of a reason."""

    sender: str
    kind: Kind
    data: bytes = b""


class Wire(Protocol):
    """One party's end of a transport. The server's name is `SERVER`; clients have their names in
    the plan.

    Each message arrives once, whole, in order, and under the name of its sender. An error that a
    method raises ends the whole run: `serve` and `take_part` do not catch it. A client that is gone
    is no error: `receive` returns LEAVE.
    """

    def send(self, to: str, message: Message) -> None:
        """Send a message, as `encode` writes it. It does not wait until it is read, and does not
        raise if `to` is gone.
        """

    def tell(self, to: str, kind: Kind, reason: str = "") -> None:
        """Send one of the other kinds; the reason is ASCII."""

    def receive(self, seconds: float | None = None) -> Heard | None:
        """Return the next message, or None if none comes within these seconds.

        Without a limit, wait as long as any party may still send.
        """


Outcome = ClientResult | ServerResult | Ended


def perform(actions: Iterable[Action], send: Callable[[str, Message], None]) -> Outcome | None:
    """Send the messages that a party asks to send; return the outcome, if the run ended for it.
    Records are ignored.
    """
    outcome = None
    for action in actions:
        if isinstance(action, Send):
            send(action.to, action.message)
        elif isinstance(action, Finish):
            outcome = action.outcome
    return outcome


def answer(
    session: ServerSession,
    sender: str,
    data: bytes,
    limits: Limits,
    send: Callable[[str, Message], None],
) -> str:
    """Let the server answer the bytes of a client's message; return why it refuses them, or "".

    A client that breaks the protocol changes nothing for the others.
    """
    try:
        actions = session.receive(sender, decode(data, limits))
    except RemoteProtocolError as error:
        return str(error)
    perform(actions, send)  # after the `except`: what `send` raises is not this client's fault
    return ""


class ClientDriver:
    """Driver of a client's session: it passes messages to the session.

    outcome : outcome of the run for the client, or None while it goes on.

    A server that breaks the protocol, or that refuses this client, ends the run for it.
    """

    def __init__(self, session: ClientSession, send: Callable[[str, Message], None]) -> None:
        self._session, self._send, self._limits = session, send, Limits.of(session.plan)
        self.outcome: ClientResult | Ended | None = None

    def begin(self) -> None:
        """Send Hello."""
        self._perform(self._session.start())

    def hear(self, data: bytes) -> str:
        """Answer the bytes of a message; return why the client refuses them, or ""."""
        try:
            actions = self._session.receive(decode(data, self._limits))
        except RemoteProtocolError as error:
            self._perform(self._session.ending())
            self.outcome = self.outcome or Ended(str(error))
            return str(error)
        self._perform(actions)
        return ""

    def end(self, refused: str | None = None) -> None:
        """Give up the run, because no message follows or because the server refuses this client.

        refused : the reason of the server, or None if it did not refuse.
        """
        self._perform(self._session.deadline())
        if refused is not None:
            self.outcome = Ended(f"the server refuses this client: {printable(refused, _SHOWN)}")

    def _perform(self, actions: Iterable[Action]) -> None:
        outcome = perform(actions, self._send)
        if isinstance(outcome, ClientResult | Ended):
            self.outcome = outcome


def serve(session: ServerSession, wire: Wire) -> ServerResult:
    """Drive the server of a run to its end.

    A client that breaks the protocol is told so and is out; the others continue. A deadline passes
    when the wire stops waiting. Raises PlanError for the plan of a simulation.
    """
    session.plan.check_apart()
    limits, clients, gone = Limits.of(session.plan), session.plan.names, set[str]()
    while session.outcome is None:
        if (heard := wire.receive(_A_MOMENT)) is None:
            session.draw_ahead()
            heard = wire.receive()
        match heard:
            case None:
                perform(session.deadline(), wire.send)
            case Heard(name, Kind.LEAVE):
                gone.add(name)
                perform(session.left(name), wire.send)
            case Heard(name, _, data):
                if reason := answer(session, name, data, limits, wire.send):
                    wire.tell(name, Kind.REFUSED, printable(reason))
    for name in clients:
        wire.tell(name, Kind.END)
    while not gone.issuperset(clients) and (heard := wire.receive()):
        if heard.kind is Kind.LEAVE:
            gone.add(heard.sender)
    return session.outcome


def take_part(session: ClientSession, wire: Wire) -> ClientResult | Ended:
    """Drive one client of a run to its end.

    It listens until the server's last message, so that none is pending then. Raises PlanError for
    the plan of a simulation.
    """
    session.plan.check_apart()
    driver, last = ClientDriver(session, wire.send), Heard(SERVER, Kind.END)
    driver.begin()
    heard = None
    while driver.outcome is None:
        heard = wire.receive() or last
        match heard.kind:
            case Kind.MESSAGE:
                driver.hear(heard.data)
            case Kind.REFUSED:
                driver.end(heard.data.decode("latin-1"))
            case _:
                driver.end()
    wire.tell(SERVER, Kind.LEAVE)
    while heard is None or heard.kind is not Kind.END:
        heard = wire.receive() or last
    return driver.outcome


Request = Send | Finish
"""Request of a party to its transport."""


class Party(Protocol):
    """Session with a store that makes it durable. It returns messages to send only after everything
    they depend on is durable.

    One transport calls it, one call after another, always from the same thread. It keeps its own
    clock.
    """

    @property
    def timeout(self) -> float | None:
        """Seconds left for the present step, 0 or less once it is over, None without a limit."""

    def deadline(self) -> list[Request]:
        """Continue, or end the run, because the present step has taken too long."""

    def slept(self) -> None:
        """Note that this process was stopped, or its machine slept: it heard no party, so the time
        of the step begins again.
        """


class ServerParty(Party, Protocol):
    """Server of a run, for a transport."""

    @property
    def awaited(self) -> Sequence[str]:
        """Clients that have not answered in this step; any thread may read it."""

    @property
    def gone(self) -> frozenset[str]:
        """Clients that left before this process began; the server does not wait for them at the
        end.
        """

    def leave(self, name: str, hello: bytes, signature: bytes) -> list[Request]:
        """Note that the run is over for client `name`, with a result or permanently without one, so
        that the server stops waiting for it.

        hello : digest of the Hello that it joined with.

        Raises RemoteProtocolError unless the client signed that, and is not in the run with another
        Hello.
        """

    def attach(self, name: str, log: SignedPosition) -> LogPosition:
        """Note that client `name` is connected, with its log at `log`; return the last position
        remembered of it.

        Raises RemoteProtocolError to refuse the client.
        """

    def disowned(self, name: str) -> list[Request]:
        """Note that client `name`, after attaching, found that its log does not match the
        remembered position; it sends nothing more.
        """

    def away(self, name: str) -> list[Request]:
        """Note that client `name` has not been connected for a while; the server may stop waiting
        for it until it is back.
        """

    def receive(self, name: str, log: SignedPosition, message: Message) -> list[Request]:
        """Answer a client. Raises RemoteProtocolError to refuse it; the others continue."""

    def announce(self, name: str, log: SignedPosition) -> None:
        """Note that a message of client `name`, with its log at `log`, waits for its turn."""

    def draw_ahead(self) -> None:
        """Draw the noise for the next answer, while there is nothing to answer."""


class ClientParty(Party, Protocol):
    """Client of a run, for a transport."""

    @property
    def position(self) -> SignedPosition:
        """Position of the client's log, signed by its identity."""

    @property
    def farewell(self) -> tuple[bytes, bytes]:
        """Return the digest of the Hello that the client joined with, 32 bytes, and its signed
        statement that this run is over for it, 64 bytes.
        """

    def attached(self, log: LogPosition) -> None:
        """Note the position that the server remembers. Raises RemoteProtocolError to refuse the
        server.
        """

    def begin(self) -> list[Request]:
        """Return the messages for a new connection: Hello, and the last ones, as the same bytes."""

    def receive(self, message: Message) -> list[Request]:
        """Answer the server. Raises RemoteProtocolError to end the run."""
