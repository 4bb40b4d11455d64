"""Interface of a client's phases, `Joining` and `ClientRounds`, to its session.

A client is in one phase at a time, which contains only the keys and data of that part of the
protocol. The session keeps the handled messages, the sent messages and the records.
`transitions.py` says which messages a state allows.
"""

from typing import Protocol

from fastlloyd.errors import LocalProtocolError
from fastlloyd.federation.protocol.actions import Keep
from fastlloyd.federation.protocol.messages import ClientMessage, Message
from fastlloyd.federation.protocol.transitions import ClientState


class ClientPhase(Protocol):
    """Part of a client in one phase: it makes the client's messages and takes the server's."""

    @property
    def state(self) -> ClientState:
        """State of the client, from the messages taken so far."""
        ...

    def say(self) -> ClientMessage:
        """Make the message for the state that the client just entered. Call it once per state."""
        ...

    def recall(self, said: Message) -> None:
        """Use what was said before a restart in place of `say`."""
        ...

    def take(self, message: Message) -> None:
        """Continue from a message of the server. Raises RemoteProtocolError if the client refuses
        it.
        """
        ...

    def speaks_after(self, message: Message) -> bool:
        """Return whether the client answers this message, which it has taken."""
        ...

    def is_late(self, message: Message) -> bool:
        """Return whether this message is too late to change anything."""
        ...

    def is_early(self, message: Message) -> bool:
        """Return whether this message shows that an earlier one was lost."""
        ...

    def keep(self) -> list[Keep]:
        """Return the secrets made since the last call."""
        ...


def not_said(state: ClientState) -> LocalProtocolError:
    """Return the error of a record that a client in this state does not say."""
    return LocalProtocolError(f"a client that is {state.value} does not send this message")


def not_handled(message: Message, state: ClientState) -> AssertionError:
    """Return the error of a message that the table allows and no phase takes."""
    return AssertionError(
        f"no phase handles {type(message).__name__}, which the table allows a client that is"
        f" {state.value}"
    )
