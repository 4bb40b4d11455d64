"""Interface between a client's session and its phases, `Joining` and `ClientRounds`.

A client is in one phase at a time. The phase contains only the keys and data of its part of the
protocol. The session remembers which messages it handled, sent and stored. `transitions.py` lists
the messages that each state allows.
"""

from typing import Protocol

from fastlloyd.errors import LocalProtocolError
from fastlloyd.federation.protocol.actions import Keep
from fastlloyd.federation.protocol.messages import ClientMessage, Message
from fastlloyd.federation.protocol.transitions import ClientState


class ClientPhase(Protocol):
    """Part of a client in one phase: it makes the client's messages and handles the server's."""

    @property
    def state(self) -> ClientState:
        """State of the client, from the messages handled so far."""
        ...

    def say(self) -> ClientMessage:
        """Return the message for the state that the client has just entered. Call it once per
        state.
        """
        ...

    def recall(self, said: Message) -> None:
        """Continue after a restart, with a message that the client made before. Call this instead
        of `say`.
        """
        ...

    def take(self, message: Message) -> None:
        """Handle a message of the server. Raises RemoteProtocolError if the client refuses it."""
        ...

    def speaks_after(self, message: Message) -> bool:
        """Return whether the client answers this message, which it has handled."""
        ...

    def is_late(self, message: Message) -> bool:
        """Return whether this message is too late to change anything."""
        ...

    def is_early(self, message: Message) -> bool:
        """Return whether this message shows that an earlier message was lost."""
        ...

    def keep(self) -> list[Keep]:
        """Return the secrets made since the last call."""
        ...


def not_said(state: ClientState) -> LocalProtocolError:
    """Return the error for a stored message that a client in this state does not send."""
    return LocalProtocolError(f"a client that is {state.value} does not send this message")


def not_handled(message: Message, state: ClientState) -> AssertionError:
    """Return the error for a message that the table of transitions allows, but no phase handles."""
    return AssertionError(
        f"no phase handles {type(message).__name__}, although the table of transitions"
        f" allows it to a client that is {state.value}"
    )
