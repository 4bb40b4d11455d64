"""Transport within one process: a loop over pending messages, in the order in which they were sent.

Every message travels as bytes, as between machines. A link may lose, repeat or change it.
"""

import math
from collections import deque
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fastlloyd.federation.protocol import messages
from fastlloyd.federation.protocol.actions import SERVER, ClientResult, Ended, ServerResult
from fastlloyd.federation.protocol.client import ClientSession
from fastlloyd.federation.protocol.messages import Limits, Message, encode
from fastlloyd.federation.protocol.server import ServerSession
from fastlloyd.federation.transport.party import ClientDriver, answer, perform

Link = Callable[[str, str, Message, bytes], Iterable[bytes]]
"""Function of sender, recipient, message and its encoding. It returns the byte strings that arrive:
none, the encoding once or twice, or other bytes.
"""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Refusal of a message.

    recipient : name of the party that refused the message.
    sender : name of its sender.
    reason : reason of the refusal.
    """

    recipient: str
    sender: str
    reason: str


@dataclass(frozen=True, slots=True)
class InProcessOutcome:
    """Outcome of a run within one process.

    clients : outcome for each client, by name.
    server : outcome for the server.
    refused : refusals of all messages that broke the protocol.
    """

    clients: dict[str, ClientResult | Ended]
    server: ServerResult
    refused: tuple[Refusal, ...]


def everything_arrives(
    _sender: str, _recipient: str, _message: Message, data: bytes
) -> Iterable[bytes]:
    """Link that loses nothing: return the message's bytes once."""
    return (data,)


@dataclass(frozen=True, slots=True)
class Drops:
    """Link that loses messages.

    uploads : pairs (client, round) of lost uploads. The round's sum lacks the client, but the
        client continues.
    gone : by client, the round from which the client is absent permanently, or 0 if it never says
        Hello.
    """

    uploads: Container[tuple[str, int]] = ()
    gone: Mapping[str, int] = field(default_factory=dict)

    def __call__(
        self, sender: str, recipient: str, message: Message, data: bytes
    ) -> Iterable[bytes]:
        """Return the message's bytes, or nothing if the message is lost."""
        client = recipient if sender == SERVER else sender
        since = self.gone.get(client, math.inf)
        match message:
            case messages.Upload(number) | messages.Broadcast(number):
                is_lost = number >= since or (sender == client and (client, number) in self.uploads)
            case messages.Confirmation() | messages.Confirmations():
                is_lost = since < math.inf
            case _:
                is_lost = since == 0
        return () if is_lost else (data,)


def run_in_process(
    server: ServerSession, clients: Sequence[ClientSession], *, link: Link = everything_arrives
) -> InProcessOutcome:
    """Drive a whole run, and return its outcome.

    If no message is pending and the run goes on, the server's deadline passes. When the run has
    ended for the server, clients that still wait give up. A party is not told that its message
    broke the protocol, because the link may have changed the message.

    server : session of the server.
    clients : sessions of the clients.
    link : link that all messages pass.
    """
    pending: deque[tuple[str, str, Message]] = deque()
    refused: list[Refusal] = []
    limits = Limits.of(server.plan)

    def sender(name: str) -> Callable[[str, Message], None]:
        return lambda to, message: pending.append((name, to, message))

    drivers = {client.name: ClientDriver(client, sender(client.name)) for client in clients}

    def drain() -> None:
        while pending:
            who, to, message = pending.popleft()
            if to != SERVER and to not in drivers:
                continue
            for data in link(who, to, message, encode(message)):
                reason = (
                    answer(server, who, data, limits, sender(SERVER))
                    if to == SERVER
                    else drivers[to].hear(data)
                )
                if reason:
                    refused.append(Refusal(to, who, reason))

    for driver in drivers.values():
        driver.begin()
    drain()
    while server.outcome is None:
        perform(server.deadline(), sender(SERVER))
        drain()
    for driver in drivers.values():
        driver.end()
    drain()
    outcomes = {
        name: driver.outcome for name, driver in drivers.items() if driver.outcome is not None
    }
    return InProcessOutcome(outcomes, server.outcome, tuple(refused))
