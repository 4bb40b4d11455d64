"""Actions that a session asks its driver to take, in the order given: store, send, and hand over
the outcome.

The actions that one call returns are one step. A driver that survives restarts first makes all
`Keep` and `Record` of a step durable at once, and then takes the other actions. If it is
interrupted before that, the step never happened: a session restored from the stored messages does
not know of it.
"""

from dataclasses import dataclass
from typing import Final

from fastlloyd.base.arrays import IntArray
from fastlloyd.federation.protocol.messages import Message
from fastlloyd.federation.secagg.masks import Secret
from fastlloyd.mechanisms.mechanism import Clustering
from fastlloyd.mechanisms.private_run import Found

SERVER: Final = "(server)"
"""Name of the recipient of all messages of clients. No client can have this name, because names of
clients contain no brackets.
"""


@dataclass(frozen=True, slots=True)
class Send:
    """Action: send `message` to the party named `to`, once every `Record` before this action is
    durable.
    """

    to: str
    message: Message


@dataclass(frozen=True, slots=True)
class Record:
    """Action: make durable that `message` was decided or accepted. If the message is sent again,
    its bytes are the same.

    A client stores every message that it sends and every message that it acts on, in order:

    - `Hello`
    - every `Deal`, and its own `SealedKeys` for it
    - `KeyBox`, the keys that it shares
    - every `Upload`, which spends the budget of its round
    - every `Broadcast`, before the sum is opened
    - all `Parameters` that it continues from, its own `Proposal`s, and each `Turn` that a
      `Proposal` answers
    - its `Confirmation`
    - at the end the final `Confirmations`, or an `Abort` with the reason why there is no result

    The server stores each `Deal`, the `SealedKeys` that clients made for the last one, and the
    `AllReady`. It also stores every `Broadcast` (the uploads of the round are then dropped), the
    `Parameters` of every round, the relayed `Confirmations`, and an `Abort` of the whole run. All
    its other answers follow from these messages.
    """

    message: Message


class Keep(Secret):
    """Action: make a secret of a client's run durable, in the same step as the message that depends
    on it, but apart from the stored messages.

    Together with the stored messages, these secrets open every sum of the run, and every upload of
    this client that was overheard. So they are wiped when the run ends (`Finish`).

    name : name under which the secret is stored.
    secret : the bytes.
    """

    __slots__ = ("name", "secret")

    def __init__(self, name: str, secret: bytes) -> None:
        self.name, self.secret = name, secret


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientResult:
    """Result of a client, equal bit for bit at every client that finishes.

    found : result of the plan's mechanism.
    included : for each round, names of the clients in the sum, in the order of the plan.
    unconfirmed : names of the clients of the last round that did not confirm the result in time.
    doubtful : numbers of the rounds, from 1, whose noisy sums cannot come from records and the
        planned noise (`mechanisms/doubt.py`).
    """

    found: Found
    included: tuple[tuple[str, ...], ...]
    unconfirmed: tuple[str, ...]
    doubtful: tuple[int, ...] = ()

    @property
    def clustering(self) -> Clustering:
        """Result of a run that clusters records. Raises TypeError if the run computed something
        else.
        """
        if not isinstance(self.found, Clustering):
            raise TypeError("this run was not a clustering")
        return self.found


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerResult:
    """Outcome of a run for the server.

    included : for each round, names of the clients in the sum, in the order of the plan.
    reason : reason for which the run ended without a result, or None.
    """

    included: tuple[tuple[str, ...], ...]
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfinished:
    """Last centroids of a run that ended early.

    They contain noise, and their budget is spent. They are not confirmed, so other clients may have
    different centroids.

    centroids : int64 (n_clusters, n_features), grid units, after the last round whose sum was
        opened and whose parameters are known. They have the order that they had during the rounds.
        A result has another order.
    included : for each round that led to the centroids, names of the clients in the sum, in the
        order of the plan.
    doubtful : as in `ClientResult`.
    """

    centroids: IntArray
    included: tuple[tuple[str, ...], ...]
    doubtful: tuple[int, ...] = ()

    @property
    def round(self) -> int:
        """Number of rounds that led to the centroids."""
        return len(self.included)


@dataclass(frozen=True, slots=True)
class Ended:
    """End of a client's run without a result.

    reason : reason, in printable ASCII.
    unfinished : last centroids. None if there were none yet, or if this client ended the run
        because of a message that it was sent.
    """

    reason: str
    unfinished: Unfinished | None = None


@dataclass(frozen=True, slots=True)
class Finish:
    """Action: the run has ended for this party, with `outcome`. A client never sends again; a
    server still answers clients that are behind.

    The driver of a client then wipes the kept secrets and the stored messages. If the outcome is
    `Ended` without `unfinished`, the driver wipes them in the transaction that stores the end. If
    the outcome is a `ClientResult`, or `Ended` with `unfinished`, the driver waits until the
    outcome is stored elsewhere. Until then, a restart needs the secrets and messages.

    A server has no keys, and needs its stored messages as long as it answers.
    """

    outcome: ClientResult | ServerResult | Ended


Action = Send | Record | Keep | Finish
