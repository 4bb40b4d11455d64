"""What a store remembers: the kinds of events, their one encoding, and the chain of hashes through them.

Head n = SHA-256(label, head n-1, bytes of event n). Head 0 names the store's owner, its role and a random salt, so no two
stores have a head in common. Whoever knows a length and a head knows that everything before is what it was.

No event holds a value of a record, noise, a key, or a digest of one; the fingerprint of the records is an HMAC under a key of
the store's own.
"""

import enum
import hashlib
import math
import re
from contextlib import suppress
from fractions import Fraction
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from fastlloyd.base.precision import exact, round_up, working_precision
from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.errors import StateError
from fastlloyd.federation.positions import SignedPosition
from fastlloyd.federation.protocol.messages import Digest, Message, Name, Reason, RoundNumber, RunId, message_digest

MAX_EXCHANGES: Final = 1000
MAX_LENGTH: Final = 1 << 53
SALT_BYTES: Final = 16
FRACTION: Final = re.compile(r"[0-9]{1,400}(/[0-9]{1,400})?")  # not below 0; more digits than any exchange of any mechanism has
_STORE_LABEL = b"fastlloyd/v1/store"
_EVENT_LABEL = b"fastlloyd/v1/event"
_BITS = 170

Positive = Annotated[float, Meta(gt=0)]
Share = Annotated[float, Meta(ge=0, lt=1)]


class Role(enum.Enum):
    """Whose store it is: a client's holds a ledger, a server's the positions of its clients."""

    CLIENT = "client"
    SERVER = "server"


class Outcome(enum.Enum):
    """How a run ended."""

    FINISHED = "finished"
    ABORTED = "aborted"


class LogPosition(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """How many events a store holds, and the head of its chain: the hash after the last one."""

    length: Annotated[int, Meta(ge=0, le=MAX_LENGTH)]
    head: Digest


class Cost(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What one exchange costs at most: it is sqrt(mu_squared)-GDP and pure_epsilon-DP, composed."""

    mu_squared: Fraction
    pure_epsilon: Fraction


class ExchangeCost(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What one exchange costs where a record is added or removed, and where one is replaced."""

    added: Cost
    replaced: Cost


class RunCost(msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True):
    """What a run may cost each record of a data set.

    neighboring_relation : the plan's. epsilon, delta : what it states. distance : tau, the total variation distance between the
    run and one whose noise is exactly that of its mechanism; 0 unless noise is added in shares.
    """

    neighboring_relation: NeighboringRelation
    costs: Annotated[tuple[ExchangeCost, ...], Meta(min_length=1, max_length=MAX_EXCHANGES)]
    epsilon: Positive
    delta: Share
    distance: Fraction

    def under(self, relation: NeighboringRelation) -> tuple[Cost | None, ...]:
        """What each exchange costs, for neighbours by this relation; None where nothing is known."""
        adding = relation is NeighboringRelation.ADD_OR_REMOVE_ONE
        return tuple(cost.added if adding else cost.replaced for cost in self.costs)


class EarlierRunCost(msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True):
    """The `RunCost` that earlier versions kept: for neighbours by the plan's relation alone.

    delta_slack : the part of delta that the plan sets aside for adding up rounded shares of noise, (1 + e^epsilon) tau.
    """

    neighboring_relation: NeighboringRelation
    costs: Annotated[tuple[Cost, ...], Meta(min_length=1, max_length=MAX_EXCHANGES)]
    epsilon: Positive
    delta: Share
    delta_slack: Share

    def under(self, relation: NeighboringRelation) -> tuple[Cost | None, ...]:
        """What each exchange costs, for neighbours by this relation; None where nothing is known.

        A replacement is a removal and an addition: twice the mu, twice the epsilon. The other way round a run of
        MomentLloyd for replaced records may have had a count that cost nothing; a run with Laplace noise has none such.
        """
        if relation is self.neighboring_relation:
            return self.costs
        if relation is NeighboringRelation.REPLACE_ONE:
            return tuple(Cost(4 * cost.mu_squared, 2 * cost.pure_epsilon) for cost in self.costs)
        return tuple(cost if cost.pure_epsilon else None for cost in self.costs)

    @property
    def distance(self) -> Fraction:
        """The distance as in `RunCost`, from the slack, rounded up."""
        if self.delta_slack == 0:
            return Fraction(0)
        with working_precision(_BITS) as mp:
            tau = exact(mp, self.delta_slack) / (1 + mp.exp(self.epsilon))
            return Fraction(math.nextafter(round_up(tau), math.inf))


AnyRunCost = RunCost | EarlierRunCost  # both answer `under`; costs of other units can join them


class _Event(msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True):
    """An array of a number, which says what it is, and the fields in order."""


class _Reserved(_Event, frozen=True):
    """Client: I join this run of this plan as `client`, with the data set of that name; all it may cost counts from now on.

    fingerprint : of the records, of a kind that the event's own kind says.
    """

    run_id: RunId
    plan_digest: Digest
    client: Name
    dataset: Name
    fingerprint: Digest


class RunReserved(_Reserved, frozen=True, tag=10):
    """A reservation; fingerprint : `fingerprint.RecordsHash`."""

    cost: RunCost


class SortedRunReserved(_Reserved, frozen=True, tag=7):
    """A reservation of an earlier version; fingerprint : `fingerprint.sorted_fingerprint`. Not written any more."""

    cost: RunCost


class EarlierRunReserved(_Reserved, frozen=True, tag=1):
    """A `SortedRunReserved` of a still earlier version, which kept the cost for one neighbouring relation only."""

    cost: EarlierRunCost


class MessageRecorded(_Event, frozen=True, tag=2):
    """A message was decided on, or accepted; its bytes lie beside the chain until the run ends.

    kind : its class in `protocol.messages`. All of them are meant for other eyes: public, masked, sealed or a MAC.
    """

    run_id: RunId
    kind: Name
    digest: Digest


class ExchangeCharged(_Event, frozen=True, tag=3):
    """Client: the answer to this exchange, from 1, may leave; its cost is spent, whoever gets to see it."""

    run_id: RunId
    number: RoundNumber


class RunEnded(_Event, frozen=True, tag=4):
    """The run is over for this store: its messages and secrets were wiped with this event, and none follows.

    released : the exchanges that were reserved and never charged, rising; a server has none.
    """

    run_id: RunId
    outcome: Outcome
    reason: Reason
    released: Annotated[tuple[RoundNumber, ...], Meta(max_length=MAX_EXCHANGES)]


class LimitSet(_Event, frozen=True, tag=5):
    """Client: all runs on the data set together may be (epsilon, delta)-DP, not more; an infinite epsilon lifts the limit."""

    dataset: Name
    epsilon: Positive
    delta: Share


class PeerSeen(_Event, frozen=True, tag=6):
    """Server: the client of that signing key reported this position of its own store; written by earlier versions only."""

    name: Name
    position: LogPosition


class ClientJoined(_Event, frozen=True, tag=16):
    """Server: this client of the plan said Hello in this run. Whether it is in the run, the group key says."""

    run_id: RunId
    client: Name


class ClientLeft(_Event, frozen=True, tag=17):
    """Server: the run is over for this client of the plan, which took its end or can have none: nobody waits for it."""

    run_id: RunId
    client: Name


class PeerSigned(_Event, frozen=True, tag=8):
    """Server: the client of that signing key, called `client` in the plan, showed this position of its store, and signed it."""

    name: Name
    client: Name
    position: SignedPosition


class PeerForgotten(_Event, frozen=True, tag=9):
    """Server: what was seen of the client of that signing key counts no more; its operator said so."""

    name: Name


Reservation = RunReserved | SortedRunReserved | EarlierRunReserved
ClientEvent = Reservation | ExchangeCharged | LimitSet
ServerEvent = ClientJoined | ClientLeft | PeerSeen | PeerSigned | PeerForgotten
Event = ClientEvent | ServerEvent | MessageRecorded | RunEnded


def _encode_fraction(value: object) -> str:
    if isinstance(value, Fraction):
        return str(value)
    raise TypeError(type(value))


def _decode_fraction(kind: type, value: object) -> Fraction:
    if kind is Fraction and isinstance(value, str) and FRACTION.fullmatch(value):
        with suppress(ZeroDivisionError):
            return Fraction(value)
    raise ValueError("expected a fraction such as 13/4")


_ENCODER = msgspec.msgpack.Encoder(enc_hook=_encode_fraction)
_DECODER = msgspec.msgpack.Decoder(Event, dec_hook=_decode_fraction)


def encode(event: Event) -> bytes:
    """The bytes of `event`, which has one encoding only."""
    return _ENCODER.encode(event)


def decode(data: bytes) -> Event:
    """Read an event; StateError on anything that `encode` would not have written."""
    try:
        event: Event = _DECODER.decode(data)
    except (msgspec.MsgspecError, ValueError) as error:
        raise StateError(f"an event of {len(data)} bytes cannot be read: {error}") from None
    if encode(event) != data:
        raise StateError(f"a {type(event).__name__} is not in its one encoding")
    return event


def checked(event: Event) -> bytes:
    """The encoding of an event just made, whose fields nobody has checked yet; StateError names the field that is wrong."""
    try:
        data = encode(event)
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError) as error:
        raise StateError(f"a {type(event).__name__} cannot be stored: {error}") from None
    if decode(data) != event:
        raise StateError(f"a {type(event).__name__} does not come back from its encoding as it was")
    return data


def recorded(run_id: bytes, message: Message) -> MessageRecorded:
    """The event of a message that is to be stored; its bytes, `messages.encode`, go beside it."""
    return MessageRecorded(run_id=run_id, kind=type(message).__name__, digest=message_digest(message))


def first_head(role: Role, identity: bytes, salt: bytes) -> bytes:
    """Head 0 of the store of a party with this public signing key (32 bytes); salt : 16 random bytes."""
    return hashlib.sha256(_STORE_LABEL + role.value.encode() + b"\0" + identity + salt).digest()


def next_head(head: bytes, event: bytes) -> bytes:
    """The head of the chain after one more event, given the head before it."""
    return hashlib.sha256(_EVENT_LABEL + head + event).digest()
