"""What a transport asks of the two parties it connects: a session, and whatever makes it durable.

A party is called by one transport, one call after another, always from the same thread. It returns what to send only after
everything that must be durable is. It keeps its own clock.
"""

from typing import Protocol

from fastlloyd.federation.positions import SignedPosition
from fastlloyd.federation.protocol.actions import Finish, Send
from fastlloyd.federation.protocol.messages import Message
from fastlloyd.federation.store.events import LogPosition

Request = Send | Finish
"""What a party asks of its transport."""


class Party(Protocol):
    """What both parties have."""

    @property
    def timeout(self) -> float | None:
        """Seconds that the present step may still take, 0 or less once they are over; None without a limit."""

    def deadline(self) -> list[Request]:
        """The present step has taken too long."""

    def slept(self) -> None:
        """Wake from a stop of this process, or a sleep of its machine: nobody was heard, so the step's time begins again."""


class ServerParty(Party, Protocol):
    """The server's side of a run, as a transport sees it."""

    def attach(self, name: str, log: SignedPosition) -> LogPosition:
        """Client `name`, whose log stands at `log`, is there (again): the position last remembered of it.

        Raises RemoteProtocolError to refuse the client.
        """

    def away(self, name: str) -> list[Request]:
        """Client `name` has not been there for a while; until it is, it may not be worth waiting for."""

    def receive(self, name: str, log: SignedPosition, message: Message) -> list[Request]:
        """Answer a client. Raises RemoteProtocolError to refuse it; the others go on."""

    def announce(self, name: str, log: SignedPosition) -> None:
        """A message of client `name`, whose log stands at `log`, has come and waits for its turn."""

    def draw_ahead(self) -> None:
        """Draw the noise that the next answer needs; called when there is nothing to answer."""


class ClientParty(Party, Protocol):
    """A client's side of a run, as a transport sees it."""

    @property
    def position(self) -> SignedPosition:
        """Where the log stands, signed by the client's identity."""

    def attached(self, log: LogPosition) -> None:
        """The server remembers this position. Raises RemoteProtocolError to refuse the server."""

    def begin(self) -> list[Request]:
        """A connection stands: Hello, and what was sent last, the same bytes as ever."""

    def receive(self, message: Message) -> list[Request]:
        """Answer the server. Raises RemoteProtocolError to end the run."""
