"""Interface between the parties of a run and the transports that connect them.

`serve` and `take_part` drive the two kinds of session over a `Wire`. A transport whose runs never
restart only needs a class with the three methods of `Wire`. If parties may come back after a break
or a restart, a transport drives a `ServerParty` and `ClientParty`s, which store each step.
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

# seconds until the server draws noise early; clients on the same core go first
_A_MOMENT: Final = 2e-4
_SHOWN: Final = 300  # largest number of characters of a server's reason


class Kind(IntEnum):
    """Kind of data on a wire: a message of the protocol, or a signal. A signal says that a client
    has left (LEAVE), that the server refuses a client (REFUSED), or that the server sends no more
    messages (END).
    """

    MESSAGE = 1
    # from a client whose run has ended, or from a transport that found that the client is gone
    LEAVE = 2
    REFUSED = 3  # to a client that broke the protocol, with the reason; the run goes on without it
    END = 4  # from the server: no message follows


@dataclass(frozen=True, slots=True)
class Heard:
    """Data received from a wire.

    sender : name of the sender.
    kind : kind of the data.
    data : bytes of a message, or characters of a reason.
    """

    sender: str
    kind: Kind
    data: bytes = b""


class Wire(Protocol):
    """One party's end of a transport. The server's name is `SERVER`, and clients have their names
    in the plan.

    Each message arrives once, whole, in order, and under the name of its sender. If a method raises
    an error, the whole run ends: `serve` and `take_part` do not catch it. The loss of a client is
    not an error: `receive` then returns a LEAVE from that client.
    """

    def send(self, to: str, message: Message) -> None:
        """Send a message to the party named `to`, as the bytes of `encode`. Do not wait until it is
        read, and do not raise an error if the party is gone.
        """

    def tell(self, to: str, kind: Kind, reason: str = "") -> None:
        """Send a signal to the party named `to`: any kind of data other than MESSAGE.

        reason : reason to send with the signal, in ASCII, or "" for none.
        """

    def receive(self, seconds: float | None = None) -> Heard | None:
        """Return the next message, or None if none comes within `seconds`.

        seconds : time to wait, or None to wait as long as any party may still send.
        """


Outcome = ClientResult | ServerResult | Ended


def perform(actions: Iterable[Action], send: Callable[[str, Message], None]) -> Outcome | None:
    """Send the messages in `actions` with `send`. Return the outcome of the run for this party, or
    None if the run goes on.

    Actions that store something are ignored.
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
    """Pass the bytes of a client's message to the server's session, and send the answers.

    A client that breaks the protocol changes nothing for the others.

    sender : name of the client.
    data : bytes of the message.
    limits : sizes of the plan's messages.
    send : sends a message to the party with a given name.

    Returns the reason for which the server refuses the message, or "".
    """
    try:
        actions = session.receive(sender, decode(data, limits))
    except RemoteProtocolError as error:
        return str(error)
    # outside of `try`, because an error of `send` is not this client's fault
    perform(actions, send)
    return ""


class ClientDriver:
    """Driver of a client's session: it passes messages to the session, and sends the answers.

    If the server breaks the protocol or refuses this client, the run ends for the client.

    outcome : outcome of the run for the client, or None while it goes on.
    """

    def __init__(self, session: ClientSession, send: Callable[[str, Message], None]) -> None:
        self._session, self._send, self._limits = session, send, Limits.of(session.plan)
        self.outcome: ClientResult | Ended | None = None

    def begin(self) -> None:
        """Send the Hello."""
        self._perform(self._session.start())

    def hear(self, data: bytes) -> str:
        """Handle the bytes of a message. Return the reason for which the client refuses it, or
        "".
        """
        try:
            actions = self._session.receive(decode(data, self._limits))
        except RemoteProtocolError as error:
            self._perform(self._session.ending())
            self.outcome = self.outcome or Ended(str(error))
            return str(error)
        self._perform(actions)
        return ""

    def end(self, refused: str | None = None) -> None:
        """End the run for this client, because no message follows or because the server refuses the
        client.

        refused : reason of the server, or None if it did not refuse.
        """
        self._perform(self._session.deadline())
        if refused is not None:
            self.outcome = Ended(f"the server refuses this client: {printable(refused, _SHOWN)}")

    def _perform(self, actions: Iterable[Action]) -> None:
        outcome = perform(actions, self._send)
        if isinstance(outcome, ClientResult | Ended):
            self.outcome = outcome


def serve(session: ServerSession, wire: Wire) -> ServerResult:
    """Drive the server's session to the end of the run, and return the outcome.

    A client that breaks the protocol is told the reason and is excluded; the others continue. The
    wire keeps the time: if it returns without a message, the deadline of the step has passed.

    Raises PlanError if the plan is only for a simulation.
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
    """Drive a client's session to the end of the run, and return the outcome.

    The call returns after the server's last message, so no message is pending then.

    Raises PlanError if the plan is only for a simulation.
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
"""Action that a party asks its transport to take."""


class Party(Protocol):
    """Session with a store that makes it durable. It returns a message to send only after
    everything that the message depends on is durable.

    One transport makes all calls, one after another and from the same thread. The party has its own
    clock.
    """

    @property
    def timeout(self) -> float | None:
        """Seconds left for the current step. It is 0 or less once the time is over, and None if
        there is no limit.
        """

    def deadline(self) -> list[Request]:
        """Continue or end the run, because the current step has taken too long."""

    def slept(self) -> None:
        """Start the time of the step again, because this process was stopped or its machine slept.
        No message could be received meanwhile.
        """


class ServerParty(Party, Protocol):
    """Server of a run, as a transport calls it."""

    @property
    def awaited(self) -> Sequence[str]:
        """Clients that have not answered in this step. Any thread may read this."""

    @property
    def gone(self) -> frozenset[str]:
        """Clients that left before this process started. At the end of the run the server does not
        wait for them.
        """

    def leave(self, name: str, hello: bytes, signature: bytes) -> list[Request]:
        """Remember that the run has ended for client `name`, with a result or without. The server
        stops waiting for this client.

        hello : digest of the Hello with which the client joined.
        signature : the client's signature on `roster.leave_statement`.

        Raises RemoteProtocolError if the signature is invalid, or if the client has joined with
        another Hello.
        """

    def attach(self, name: str, log: SignedPosition) -> LogPosition:
        """Remember that client `name` is connected. Return the last position of its store that the
        server knows.

        log : current position of the client's store, signed by the client.

        Raises RemoteProtocolError if the server refuses the client.
        """

    def disowned(self, name: str) -> list[Request]:
        """Handle the stop of client `name`. After attaching, the client found that its store does
        not match the position that the server remembers.
        """

    def away(self, name: str) -> list[Request]:
        """Remember that client `name` has not been connected for a while. The server may stop
        waiting for it until it is connected again.
        """

    def receive(self, name: str, log: SignedPosition, message: Message) -> list[Request]:
        """Handle a message of client `name`, and return the actions that answer it.

        log : position of the client's store, signed by the client.

        Raises RemoteProtocolError if the server refuses the message. Other clients continue.
        """

    def announce(self, name: str, log: SignedPosition) -> None:
        """Remember that a message of client `name` has come and is waiting for its turn.

        log : position of the client's store, signed by the client.
        """

    def draw_ahead(self) -> None:
        """Draw the noise of the next answer early. The transport calls this while there is no
        message to handle.
        """


class ClientParty(Party, Protocol):
    """Client of a run, as a transport calls it."""

    @property
    def position(self) -> SignedPosition:
        """Current position of the client's store, signed by the client."""

    @property
    def farewell(self) -> tuple[bytes, bytes]:
        """Digest of the Hello with which the client joined (32 bytes), and the client's signature
        on a statement that its run has ended (64 bytes).
        """

    def attached(self, log: LogPosition) -> None:
        """Compare this client's store with the position of the store that the server remembers.

        Raises RemoteProtocolError if the client refuses the server.
        """

    def begin(self) -> list[Request]:
        """Return the actions to take on a new connection: send the Hello and the last messages,
        with the same bytes as before.
        """

    def receive(self, message: Message) -> list[Request]:
        """Handle a message of the server, and return the actions that answer it.

        Raises RemoteProtocolError if the message ends the run.
        """
