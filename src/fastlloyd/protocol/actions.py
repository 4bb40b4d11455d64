"""What a session asks its driver to do, in the order given: make durable, send, and hand over the outcome."""

from dataclasses import dataclass
from typing import Final

from fastlloyd.algorithms import Clustering
from fastlloyd.protocol.messages import Message

SERVER: Final = "(server)"
"""Where clients send. No client can have this name: brackets are not allowed in one."""


@dataclass(frozen=True, slots=True)
class Send:
    """Send `message` to the party named `to`, after every `Record` before it is durable."""

    to: str
    message: Message


@dataclass(frozen=True, slots=True)
class Record:
    """Make durable that `message` was decided, before anything is sent: if it is ever sent again, it is sent as these bytes.

    A client records the group key it adopts (`KeyBox`), the keys it deals (`SealedKeys`) and every ciphertext (`Upload`: its
    round is spent from then on); the server the stored set of keys, every `Broadcast` (from then on the round's uploads are
    gone), the relayed `Confirmations`, and an `Abort`.
    """

    message: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientResult:
    """What a client ends with: the same centroids, bit for bit, at every client that finishes.

    included : per round, the names of the clients in the sum, in the order of the plan; unconfirmed : those of the last round
    that did not confirm in time that they ended with the same centroids.
    """

    clustering: Clustering
    included: tuple[tuple[str, ...], ...]
    unconfirmed: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerResult:
    """What the server knows in the end: who was in which round's sum, and why it stopped early, if it did."""

    included: tuple[tuple[str, ...], ...]
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """A client's run ended without a result, for this reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class Finish:
    """The run is over for this party; a server still answers clients that are behind."""

    outcome: ClientResult | ServerResult | Ended


Action = Send | Record | Finish
