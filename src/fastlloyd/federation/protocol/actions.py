"""Actions that a session asks its driver to take, in the order given: make durable, send, and hand
over the outcome.

The actions that one call returns are one step. A driver that survives restarts first commits all of
a step's `Keep` and `Record` at once, and then does the rest. A step that was not committed never
happened: a session restored from the records does not know of it.
"""

from dataclasses import dataclass
from typing import Final

from fastlloyd.base.arrays import IntArray
from fastlloyd.federation.protocol.messages import Message
from fastlloyd.federation.secagg.masks import Secret
from fastlloyd.mechanisms.mechanism import Clustering
from fastlloyd.mechanisms.private_run import Found

SERVER: Final = "(server)"
"""Name of the recipient of all messages of clients. No client can have this name, because a
client's name has no brackets.
"""


@dataclass(frozen=True, slots=True)
class Send:
    """Send `message` to the party named `to`, after every `Record` before it is durable."""

    to: str
    message: Message


@dataclass(frozen=True, slots=True)
class Record:
    """Make durable that `message` was decided or accepted. If it is sent again, it is sent as these
    bytes.

    A client records everything that it says and everything that it acts on, in order:

    - `Hello`
    - every `Deal`, and its own `SealedKeys` for it
    - `KeyBox`, the keys that it shares
    - every `Upload`; from then on its round is spent
    - every `Broadcast`, before the sum is opened
    - all `Parameters` that it continues from, its own `Proposal`s, and each `Turn` that one answers
    - its `Confirmation`
    - at the end the final `Confirmations`, or an `Abort` with the reason why there is no result

    The server records each `Deal`, a `KeyBox` for each client that the last one names, in its
    order, and every `Broadcast`, after which the uploads of the round are gone. It also records the
    `Parameters` of every round, the relayed `Confirmations`, and an `Abort` of the whole run. All
    its other answers follow from these.
    """

    message: Message


class Keep(Secret):
    """Make durable a secret of a client's run, under its name and apart from all records, in the
    step that records the message that goes with it.

    Together with the recorded messages these secrets open every sum of the run, and every upload of
    this client that was overheard. So they are wiped when the run ends (`Finish`).
    """

    __slots__ = ("name", "secret")

    def __init__(self, name: str, secret: bytes) -> None:
        self.name, self.secret = name, secret


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientResult:
    """Result of a client, equal bit for bit at every client that finishes.

    found : result of the plan's mechanism.
    included : per round, names of the clients in the sum, in the order of the plan.
    unconfirmed : clients of the last round that did not confirm the result in time.
    doubtful : rounds, from 1, whose noisy sums cannot come from records and the planned noise
        (`mechanisms/doubt.py`).
    """

    found: Found
    included: tuple[tuple[str, ...], ...]
    unconfirmed: tuple[str, ...]
    doubtful: tuple[int, ...] = ()

    @property
    def clustering(self) -> Clustering:
        """Clustering that the run found. Raises TypeError if the plan is for something else."""
        if not isinstance(self.found, Clustering):
            raise TypeError("this run was no clustering")
        return self.found


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerResult:
    """Outcome for the server: clients in the sum of each round, and the reason if the run ended
    early.
    """

    included: tuple[tuple[str, ...], ...]
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfinished:
    """Last centroids of a run that ended early.

    They contain noise, and their budget is spent. They are not confirmed, so other clients may have
    different centroids.

    centroids : int64 (n_clusters, n_features), grid units, after the last round that was closed and
        settled.
    included : for each round up to that one, the names of the clients in the sum, in the plan's
        order.
    doubtful : as in `ClientResult`.
    """

    centroids: IntArray
    included: tuple[tuple[str, ...], ...]
    doubtful: tuple[int, ...] = ()

    @property
    def round(self) -> int:
        """Number of rounds before the centroids."""
        return len(self.included)


@dataclass(frozen=True, slots=True)
class Ended:
    """End of a client's run without a result, with the reason.

    unfinished : last centroids. None if there were none yet, or if this client ended the run
        because of a message that it was sent.
    """

    reason: str
    unfinished: Unfinished | None = None


@dataclass(frozen=True, slots=True)
class Finish:
    """End of the run for this party: a client never sends again, a server still answers clients
    that are behind.

    The driver of a client then wipes the kept secrets and the bytes of all records. After `Ended`
    without `unfinished`, it does so in the transaction that records the end. After a `ClientResult`
    or an `Unfinished`, it does so as soon as that is durable elsewhere, because until then a
    restart needs them. A server has no keys, and needs its records as long as it answers.
    """

    outcome: ClientResult | ServerResult | Ended


Action = Send | Record | Keep | Finish
