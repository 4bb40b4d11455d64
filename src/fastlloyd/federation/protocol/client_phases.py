"""Phases of a client, `Joining` and `ClientRounds`: what the session asks of either.

A client is in one phase at a time, which contains the keys and data of that part of the protocol
only. The session keeps what was handled and what was sent, and the records. `transitions.py` says
which messages a state allows.
"""

from typing import Protocol

from fastlloyd.errors import LocalProtocolError
from fastlloyd.federation.protocol.actions import Keep
from fastlloyd.federation.protocol.messages import ClientMessage, Message
from fastlloyd.federation.protocol.transitions import ClientState


class ClientPhase(Protocol):
    """The client's part in one phase: it makes what the client says, and takes what the server
    sends.
    """

    @property
    def state(self) -> ClientState:
        """State of the client, as far as it follows from what it took."""
        ...

    def say(self) -> ClientMessage:
        """Make what the client sends in the state that it just entered; to be called once."""
        ...

    def recall(self, said: Message) -> None:
        """Take what was said before a restart in place of what `say` would make."""
        ...

    def take(self, message: Message) -> None:
        """Go on from a message of the server; RemoteProtocolError if it is refused."""
        ...

    def speaks_after(self, message: Message) -> bool:
        """Return whether the client answers this message, which it has taken."""
        ...

    def is_late(self, message: Message) -> bool:
        """Return whether nothing follows from this message any more."""
        ...

    def is_early(self, message: Message) -> bool:
        """Return whether this message shows that one before it was lost."""
        ...

    def keep(self) -> list[Keep]:
        """Return the secrets made since the last call."""
        ...


def not_said(state: ClientState) -> LocalProtocolError:
    """Return the error of a record that a client in this state does not say."""
    return LocalProtocolError(f"this is not what a client says that is {state.value}")


def not_handled(message: Message, state: ClientState) -> AssertionError:
    """Return the error of a message that the table allows and no phase takes."""
    return AssertionError(
        f"{type(message).__name__} stands in the table for {state.value}; nothing handles it"
    )
