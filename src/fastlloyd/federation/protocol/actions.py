"""What a session asks its driver to do, in the order given: make durable, send, and hand over the
outcome.

The actions that one call returns are one step. A driver that survives restarts commits all of a
step's `Keep` and `Record` at once, and does the rest only then; a step that was not committed never
happened, and a session restored from the records knows nothing of it.
"""

from dataclasses import dataclass
from typing import Final

from fastlloyd.base.arrays import IntArray
from fastlloyd.federation.protocol.messages import Message
from fastlloyd.federation.secagg.masks import Secret
from fastlloyd.mechanisms.mechanism import Clustering
from fastlloyd.mechanisms.private_run import Found

SERVER: Final = "(server)"
"""Where clients send. No client can have this name: brackets are not allowed in one."""


@dataclass(frozen=True, slots=True)
class Send:
    """Send `message` to the party named `to`, after every `Record` before it is durable."""

    to: str
    message: Message


@dataclass(frozen=True, slots=True)
class Record:
    """Make durable that `message` was decided or accepted: if it is ever sent again, it is sent as
    these bytes.

    A client records all it says and all it goes by, in order: `Hello`; every `Deal` and its
    `SealedKeys`; the keys it shares (`KeyBox`); every ciphertext (`Upload`: its round is spent from
    then on) and, before it is opened, every `Broadcast`; all `Parameters` it goes on from, its own
    `Proposal`s, and each `Turn` that one answers; its `Confirmation`; and at the end the final
    `Confirmations`, or an `Abort` with the reason why there is no result, whoever ended the run.
    The server records each `Deal`, a `KeyBox` for each client that the last one names, in its
    order, every `Broadcast` (from then on the uploads of the round are gone), the `Parameters` of
    every round, the relayed `Confirmations`, and an `Abort` of the whole run. What it answers
    besides follows from these.
    """

    message: Message


class Keep(Secret):
    """Make durable a secret of a client's run, by its name, apart from all records, in the step
    that records what goes with it.

    With the recorded messages these open every sum of the run, and every upload of this client that
    was overheard. So they are wiped when the run ends: see `Finish`.
    """

    __slots__ = ("name", "secret")

    def __init__(self, name: str, secret: bytes) -> None:
        self.name, self.secret = name, secret


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientResult:
    """What a client ends with: the same, bit for bit, at every client that finishes.

    found : what the plan's mechanism found. included : per round, the names of the clients in the
    sum, in the order of the plan; unconfirmed : those of the last round that did not confirm in
    time that they ended with the same; doubtful : the rounds, from 1, whose noisy sums cannot come
    from records and the planned noise (`mechanisms/doubt.py`).
    """

    found: Found
    included: tuple[tuple[str, ...], ...]
    unconfirmed: tuple[str, ...]
    doubtful: tuple[int, ...] = ()

    @property
    def clustering(self) -> Clustering:
        """What was found, where the plan is for a clustering."""
        if not isinstance(self.found, Clustering):
            raise TypeError("this run was no clustering")
        return self.found


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerResult:
    """What the server knows in the end: who was in which round's sum, and why it stopped early, if
    it did.
    """

    included: tuple[tuple[str, ...], ...]
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfinished:
    """What a run that ended early had led to: private, paid for, and confirmed by nobody; others
    may hold something else.

    centroids : int64 (n_clusters, n_features), grid units, after the last round that was closed and
    settled. included : of each such round, the names of the clients in the sum, in the order of the
    plan; doubtful : as in `ClientResult`.
    """

    centroids: IntArray
    included: tuple[tuple[str, ...], ...]
    doubtful: tuple[int, ...] = ()

    @property
    def round(self) -> int:
        """How many rounds the centroids come after."""
        return len(self.included)


@dataclass(frozen=True, slots=True)
class Ended:
    """A client's run ended without a result, for this reason.

    unfinished : what it had led to; None if there was no centroid yet, or if this client ended it
    because of what it was sent.
    """

    reason: str
    unfinished: Unfinished | None = None


@dataclass(frozen=True, slots=True)
class Finish:
    """The run is over for this party: a client never sends again, a server still answers clients
    that are behind.

    What the driver of a client wipes, and when: after `Ended` that left nothing, the kept secrets
    and the bytes of all records, in the transaction that records the end; after a `ClientResult`,
    or what is `Unfinished`, the same, as soon as that is durable somewhere else (until then a
    restart finds it again with them). A server keeps no key; it needs its records as long as it
    answers.
    """

    outcome: ClientResult | ServerResult | Ended


Action = Send | Record | Keep | Finish
