"""The contract of transports.

`serve` and `take_part` drive the two kinds of session over a `Wire`: a transport on which a run
goes to its end without a restart is a class with the three methods of one. A transport to which
parties come back, after a break or a restart, drives parties that keep their steps in stores: a
`ServerParty`, a `ClientParty`.
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

_A_MOMENT: Final = (
    2e-4  # seconds after which the server draws noise ahead: clients that share its core go first
)
_SHOWN: Final = 300  # characters of the reason for which a server refuses a client


class Kind(IntEnum):
    """What comes over a wire: a message of the protocol, or one of three that end things."""

    MESSAGE = 1
    LEAVE = (
        2  # from a client, whose run is over; or a transport has found out that the client is gone
    )
    REFUSED = 3  # to a client that broke the protocol: the run goes on without it, and why
    END = 4  # from the server: no more will come


@dataclass(frozen=True, slots=True)
class Heard:
    """What came from a party. data : the bytes of a message, or the characters of a reason."""

    sender: str
    kind: Kind
    data: bytes = b""


class Wire(Protocol):
    """One party's end of a transport. The server's name is `SERVER`; clients have their names in
    the plan.

    What a party says to another arrives once, whole, in order, and under the name of that party. An
    error that a method raises ends the whole run: `serve` and `take_part` let it pass. A client
    that is gone is no error: `receive` returns LEAVE.
    """

    def send(self, to: str, message: Message) -> None:
        """Put a message, as `encode` writes it, on its way. Neither waits until it is read, nor
        raises if `to` is gone.
        """

    def tell(self, to: str, kind: Kind, reason: str = "") -> None:
        """Put one of the other kinds on its way; the reason is ASCII."""

    def receive(self, seconds: float | None = None) -> Heard | None:
        """What comes next, waited for so long; None if nothing did. Without a limit, as long as
        anybody can be waited for.
        """


Outcome = ClientResult | ServerResult | Ended


def perform(actions: Iterable[Action], send: Callable[[str, Message], None]) -> Outcome | None:
    """Send what a party wants sent; return how the run ended for it, if it did. What it wants
    recorded is left out.
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
    """Have the server answer the bytes of a client's message; why they are refused, nothing if they
    are not.

    A client that breaks the protocol changes nothing for the others.
    """
    try:
        actions = session.receive(sender, decode(data, limits))
    except RemoteProtocolError as error:
        return str(error)
    perform(actions, send)  # after the `except`: what `send` raises is not this client's fault
    return ""


class ClientDriver:
    """Has a client's session answer what comes. outcome : how the run ended for it; None while it
    goes on.

    A server that breaks the protocol ends the run for this client, and so does one that refuses it.
    """

    def __init__(self, session: ClientSession, send: Callable[[str, Message], None]) -> None:
        self._session, self._send, self._limits = session, send, Limits.of(session.plan)
        self.outcome: ClientResult | Ended | None = None

    def begin(self) -> None:
        """Send Hello."""
        self._perform(self._session.start())

    def hear(self, data: bytes) -> str:
        """Answer the bytes of a message; why they are refused, nothing if they are not."""
        try:
            actions = self._session.receive(decode(data, self._limits))
        except RemoteProtocolError as error:
            self._perform(self._session.ending())
            self.outcome = self.outcome or Ended(str(error))
            return str(error)
        self._perform(actions)
        return ""

    def end(self, refused: str | None = None) -> None:
        """Give up: no more will come, or the server refuses this client for that reason."""
        self._perform(self._session.deadline())
        if refused is not None:
            self.outcome = Ended(f"the server refuses this client: {printable(refused, _SHOWN)}")

    def _perform(self, actions: Iterable[Action]) -> None:
        outcome = perform(actions, self._send)
        if isinstance(outcome, ClientResult | Ended):
            self.outcome = outcome


def serve(session: ServerSession, wire: Wire) -> ServerResult:
    """Drive the server of a run to its end.

    A client that breaks the protocol is told so and is out; the others go on. A deadline passes
    when the wire waits no longer. Raises PlanError for the plan of a simulation.
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
    """Drive one client of a run to its end. It listens until the server has said its last: nothing
    is on its way then. Raises PlanError for the plan of a simulation.
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
"""What a party asks of its transport."""


class Party(Protocol):
    """A session and the store that makes it durable. It returns what to send only after everything
    that must be durable is.

    One transport calls it, one call after another, always from the same thread. It keeps its own
    clock.
    """

    @property
    def timeout(self) -> float | None:
        """Seconds that the present step may still take, 0 or less once they are over; None without
        a limit.
        """

    def deadline(self) -> list[Request]:
        """Go on, or end, because the present step has taken too long."""

    def slept(self) -> None:
        """Wake from a stop of this process, or a sleep of its machine: nobody was heard, so the
        step's time begins again.
        """


class ServerParty(Party, Protocol):
    """The server's side of a run, as a transport sees it."""

    @property
    def awaited(self) -> Sequence[str]:
        """The clients that have not answered in this step; read from any thread."""

    @property
    def gone(self) -> frozenset[str]:
        """The clients that left before this process, and are not waited for at the end."""

    def left(self, name: str) -> list[Request]:
        """The run is over for client `name`, with a result or for good without one: nobody need
        wait for it.
        """

    def check_left(self, name: str, hello: bytes, signature: bytes) -> None:
        """Raise RemoteProtocolError unless client `name` signed that the run is over that it joined
        with the Hello of this digest, and it is not in the run with another.
        """

    def attach(self, name: str, log: SignedPosition) -> LogPosition:
        """Client `name`, whose log stands at `log`, is there (again): the position last remembered
        of it.

        Raises RemoteProtocolError to refuse the client.
        """

    def disowned(self, name: str) -> list[Request]:
        """Client `name` found, when it had attached, that its log is not the one that is
        remembered: it says nothing more.
        """

    def away(self, name: str) -> list[Request]:
        """Client `name` has not been there for a while; until it is, it may not be worth waiting
        for.
        """

    def receive(self, name: str, log: SignedPosition, message: Message) -> list[Request]:
        """Answer a client. Raises RemoteProtocolError to refuse it; the others go on."""

    def announce(self, name: str, log: SignedPosition) -> None:
        """A message of client `name`, whose log stands at `log`, has come and waits for its
        turn.
        """

    def draw_ahead(self) -> None:
        """Draw the noise that the next answer needs; called when there is nothing to answer."""


class ClientParty(Party, Protocol):
    """A client's side of a run, as a transport sees it."""

    @property
    def position(self) -> SignedPosition:
        """Where the log stands, signed by the client's identity."""

    @property
    def farewell(self) -> tuple[bytes, bytes]:
        """Return the digest of the Hello that the client joined with, 32 bytes, and its identity's
        signature that this run is over for it, 64 bytes.
        """

    def attached(self, log: LogPosition) -> None:
        """The server remembers this position. Raises RemoteProtocolError to refuse the server."""

    def begin(self) -> list[Request]:
        """A connection stands: Hello, and what was sent last, the same bytes as ever."""

    def receive(self, message: Message) -> list[Request]:
        """Answer the server. Raises RemoteProtocolError to end the run."""
