"""A whole run in this process: a loop over what is pending, in the order in which it was asked for.

Every message travels as bytes, as between machines, through a link that may lose, repeat or change it.
"""

from collections import deque
from collections.abc import Callable, Container, Iterable, Mapping, MutableSequence, Sequence
from dataclasses import dataclass

from fastlloyd.errors import RemoteProtocolError
from fastlloyd.federation.protocol.actions import SERVER, Action, ClientResult, Ended, Finish, Keep, Record, Send, ServerResult
from fastlloyd.federation.protocol.client import ClientSession
from fastlloyd.federation.protocol.messages import (
    Broadcast,
    Confirmation,
    Confirmations,
    Limits,
    Message,
    Upload,
    decode,
    encode,
)
from fastlloyd.federation.protocol.server import ServerSession

Link = Callable[[str, str, Message, bytes], Iterable[bytes]]
"""(sender, recipient, message, its bytes) -> what arrives: nothing, the bytes, the bytes twice, other bytes."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """`recipient` refused what came from `sender`, for this reason."""

    recipient: str
    sender: str
    reason: str


@dataclass(frozen=True, slots=True)
class InProcessOutcome:
    """How the run ended for each client, and for the server; refused : everything that broke the protocol."""

    clients: dict[str, ClientResult | Ended]
    server: ServerResult
    refused: tuple[Refusal, ...]


def everything_arrives(_sender: str, _recipient: str, _message: Message, data: bytes) -> Iterable[bytes]:
    """The link that loses nothing."""
    return (data,)


@dataclass(frozen=True, slots=True)
class Drops:
    """A link that loses the uploads of these (client, round) pairs: those clients are left out of those rounds and go on."""

    uploads: Container[tuple[str, int]]

    def __call__(self, sender: str, _recipient: str, message: Message, data: bytes) -> Iterable[bytes]:
        """See `Link`."""
        return () if isinstance(message, Upload) and (sender, message.round) in self.uploads else (data,)


@dataclass(frozen=True, slots=True)
class Gone:
    """A link on which each of these clients disappears from a round on, for good; 0 means that it never says Hello."""

    since: Mapping[str, int]

    def __call__(self, sender: str, recipient: str, message: Message, data: bytes) -> Iterable[bytes]:
        """See `Link`."""
        since = self.since.get(recipient if sender == SERVER else sender)
        match message:
            case _ if since is None:
                return (data,)
            case Upload() | Broadcast():
                return (data,) if message.round < since else ()
            case Confirmation() | Confirmations():
                return ()
        return (data,) if since > 0 else ()


def run_in_process(
    server: ServerSession,
    clients: Sequence[ClientSession],
    *,
    ledger: MutableSequence[tuple[str, Message]] | None = None,
    link: Link = everything_arrives,
) -> InProcessOutcome:
    """Drive a whole run. Ledger entries, (party, message), are appended before anything later is sent; None: nothing is kept.

    When nothing is on its way and the server is not done, its deadline passes; clients that are left waiting when it is done
    give up.
    """
    run = _Run(server, clients, ledger, link)
    for client in clients:
        run.ask(client.name, client.start())
    run.drain()
    while run.server_result is None:
        run.ask(SERVER, server.deadline())
        run.drain()
    for client in clients:
        run.ask(client.name, client.deadline())
    run.drain()
    return InProcessOutcome(run.outcomes, run.server_result, tuple(run.refused))


class _Run:
    def __init__(
        self,
        server: ServerSession,
        clients: Sequence[ClientSession],
        ledger: MutableSequence[tuple[str, Message]] | None,
        link: Link,
    ) -> None:
        self.outcomes: dict[str, ClientResult | Ended] = {}
        self.server_result: ServerResult | None = None
        self.refused: list[Refusal] = []
        self._server, self._ledger, self._link = server, ledger, link
        self._clients = {client.name: client for client in clients}
        self._limits = Limits.of(server.plan)
        self._pending: deque[tuple[str, Action]] = deque()
        self._encoded: tuple[Message, bytes] | None = None  # what was sent last: the same goes to many, one after the other

    def ask(self, party: str, actions: Iterable[Action]) -> None:
        """Put what `party` wants done at the end of the queue."""
        self._pending.extend([(party, action) for action in actions])

    def drain(self) -> None:
        """Do all that is pending, and what follows from it."""
        while self._pending:
            match self._pending.popleft():
                case party, Record(message):
                    if self._ledger is not None:
                        self._ledger.append((party, message))
                case _, Keep():
                    pass  # who is interrupted here is not taken up again
                case sender, Send(recipient, message) if recipient == SERVER or recipient in self._clients:
                    for data in self._link(sender, recipient, message, self._encode(message)):
                        self._deliver(sender, recipient, data)
                case _, Finish(ServerResult() as result):
                    self.server_result = result
                case party, Finish((ClientResult() | Ended()) as outcome):
                    self.outcomes[party] = outcome

    def _encode(self, message: Message) -> bytes:
        if self._encoded is None or self._encoded[0] is not message:
            self._encoded = message, encode(message)
        return self._encoded[1]

    def _deliver(self, sender: str, recipient: str, data: bytes) -> None:
        try:
            message = decode(data, self._limits)
            if recipient == SERVER:
                self.ask(SERVER, self._server.receive(sender, message))
            else:
                self.ask(recipient, self._clients[recipient].receive(message))
        except RemoteProtocolError as error:
            self.refused.append(Refusal(recipient, sender, str(error)))
            if recipient != SERVER:
                self.ask(recipient, self._clients[recipient].ending())
