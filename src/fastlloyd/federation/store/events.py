"""What a store remembers: the kinds of events, their one encoding, and the chain of hashes through
them.

Head n = SHA-256(label, head n-1, seconds n, bytes of event n). Head 0 names the store's owner, its
role and a random salt, so no two stores have a head in common. Whoever knows a length and a head
knows that everything before is what it was. The seconds say when the event was written, by the
clock of the machine, in UTC since 1970. They are for people: no decision, deadline or order depends
on them, and a clock that jumps back is no fault.

No event holds a value of a record, noise, a key, or a digest of one; the fingerprint of the records
is an HMAC under a key of the store's own.
"""

import enum
import hashlib
import re
import time
from contextlib import suppress
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Final, Self

import msgspec
from msgspec import Meta

from fastlloyd.dp.neighboring import Neighbours
from fastlloyd.errors import StateError
from fastlloyd.federation.positions import SignedPosition
from fastlloyd.federation.protocol.messages import (
    Digest,
    Message,
    Name,
    Reason,
    RoundNumber,
    RunId,
    message_digest,
)
from fastlloyd.federation.store.costs import (
    MAX_EXCHANGES,
    PersonRunCost,
    Positive,
    RunCost,
    Share,
)

MAX_LENGTH: Final = 1 << 53
SALT_BYTES: Final = 16
MAX_SECONDS: Final = 253_402_300_799  # the last second of the year 9999
FRACTION: Final = re.compile(
    r"[0-9]{1,400}(/[0-9]{1,400})?"
)  # not below 0; more digits than any exchange of any mechanism has
_STORE_LABEL = b"fastlloyd/v1/store"
_EVENT_LABEL = b"fastlloyd/v2/event"


class Role(enum.Enum):
    """Whose store it is: a client's holds its runs, a server's the positions of its clients, a
    holder's all runs on records.
    """

    CLIENT = "client"
    SERVER = "server"
    HOLDER = "holder"

    @property
    def store(self) -> str:
        """What a store of this role is called."""
        return "a ledger" if self is Role.HOLDER else f"the store of a {self.value}"


class Outcome(enum.Enum):
    """How a run ended."""

    FINISHED = "finished"
    ABORTED = "aborted"


class LogPosition(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """How many events a store holds, and the head of its chain: the hash after the last one."""

    length: Annotated[int, Meta(ge=0, le=MAX_LENGTH)]
    head: Digest


class _Event(
    msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True
):
    """An array of a number, which says what it is, and the fields in order."""


class _Reserved(_Event, frozen=True):
    """Client: I join this run of this plan as `client`, with the data set of that name; all it may
    cost counts from now on.

    fingerprint : of the records, `fingerprint.RecordsHash`.
    """

    run_id: RunId
    plan_digest: Digest
    client: Name
    dataset: Name
    fingerprint: Digest

    def under(self, run_id: bytes) -> Self:
        """The same under another number and without fingerprints: for a ledger, whose key they are
        not made with.
        """
        return msgspec.structs.replace(self, run_id=run_id, fingerprint=bytes(32))


class RunReserved(_Reserved, frozen=True, tag=10):
    """Reservation of a run that protects records."""

    cost: RunCost


class PersonRunReserved(_Reserved, frozen=True, tag=11):
    """Reservation of a run that protects persons.

    persons : `fingerprint.PersonsHash`; None in a ledger, and where each row is all there is of a
    person.
    """

    cost: PersonRunCost
    persons: Digest | None = None

    def under(self, run_id: bytes) -> Self:
        """See `_Reserved`."""
        return msgspec.structs.replace(super().under(run_id), persons=None)


class RunCharged(_Event, frozen=True, tag=12):
    """Holder: every exchange of the run may be answered from now on, by a process that does not
    come back before each.
    """

    run_id: RunId


class HandedBack(_Event, frozen=True, tag=13):
    """Holder: no noise was drawn for these exchanges of a `RunCharged`, rising, and none will be;
    its own process says so.
    """

    run_id: RunId
    numbers: Annotated[tuple[RoundNumber, ...], Meta(min_length=1, max_length=MAX_EXCHANGES)]


class MessageRecorded(_Event, frozen=True, tag=2):
    """A message was decided on, or accepted; its bytes lie beside the chain until the run ends.

    kind : its class in `protocol.messages`. All of them are meant for other eyes: public, masked,
    sealed or a MAC.
    """

    run_id: RunId
    kind: Name
    digest: Digest


class ExchangeCharged(_Event, frozen=True, tag=3):
    """Client: the answer to this exchange, from 1, may leave; its cost is spent, whoever gets to
    see it.
    """

    run_id: RunId
    number: RoundNumber


class RunEnded(_Event, frozen=True, tag=4):
    """The run is over for this store: its messages and secrets were wiped with this event, and none
    follows.

    released : the exchanges that were reserved and never charged, rising; a server has none.
    """

    run_id: RunId
    outcome: Outcome
    reason: Reason
    released: Annotated[tuple[RoundNumber, ...], Meta(max_length=MAX_EXCHANGES)]


class LimitSet(_Event, frozen=True, tag=5):
    """Client: all runs on the data set together may be (epsilon, delta)-DP, not more; an infinite
    epsilon lifts the limit.

    Of one record: replaced as long as all runs of the data set are made for that, otherwise added
    or removed.
    """

    dataset: Name
    epsilon: Positive
    delta: Share

    @property
    def speaks_of(self) -> Neighbours | None:
        """Of whom the limit speaks; None: as the runs are made."""
        return None


class UnitLimitSet(_Event, frozen=True, tag=14):
    """Client: a `LimitSet` that says of whom it speaks. Each `Neighbours` has a limit of its own,
    and all stand.
    """

    dataset: Name
    epsilon: Positive
    delta: Share
    speaks_of: Neighbours


class TakenOver(_Event, frozen=True, tag=18):
    """Holder: the run just reserved is one that a client joined before this ledger knew of it."""

    run_id: RunId


class DataSetNamed(_Event, frozen=True, tag=30):
    """Holder: there is a data set of that name, and all its spellings up to here are told of; no
    run or limit need have it.
    """

    dataset: Name


class Repeated(
    msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True
):
    """So many runs on a data set that cost the same, and of which the same exchanges count.

    dataset : `names.same` of it.
    """

    dataset: Name
    numbers: tuple[RoundNumber, ...]
    times: Annotated[int, Meta(ge=1)]


class RepeatedRuns(Repeated, frozen=True):
    """`Repeated` runs for records."""

    cost: RunCost


class RepeatedPersonRuns(Repeated, frozen=True):
    """`Repeated` runs for persons."""

    cost: PersonRunCost


AnyRepeated = RepeatedRuns | RepeatedPersonRuns


class AddedUp(_Event, frozen=True, tag=31):
    """Holder: what runs that were charged whole add up to, exactly, so that nobody need read them
    again.

    others : numbers of the events up to here that say more than this, rising: all that are of no
    such run, of the first run of each name, or of the last ones.
    """

    records: tuple[RepeatedRuns, ...]
    persons: tuple[RepeatedPersonRuns, ...]
    others: tuple[Annotated[int, Meta(ge=1, le=MAX_LENGTH)], ...]

    @property
    def sums(self) -> tuple[AnyRepeated, ...]:
        """All of them."""
        return (*self.records, *self.persons)


class PeerSeen(_Event, frozen=True, tag=6):
    """Holder: the store of the client of that signing key held this much."""

    name: Name
    position: LogPosition


class ClientJoined(_Event, frozen=True, tag=16):
    """Server: this client of the plan said Hello in this run, maybe after it had left. Whether it
    is in the run, the group key says.
    """

    run_id: RunId
    client: Name


class ClientLeft(_Event, frozen=True, tag=17):
    """Server: the run is over for this client of the plan, which took its end or can have none:
    nobody waits for it.
    """

    run_id: RunId
    client: Name


class PeerSigned(_Event, frozen=True, tag=8):
    """Server: the client of that signing key, called `client` in the plan, showed this position of
    its store, and signed it.
    """

    name: Name
    client: Name
    position: SignedPosition


class PeerForgotten(_Event, frozen=True, tag=9):
    """Server: what was seen of the client of that signing key counts no more; its operator said
    so.
    """

    name: Name


Reservation = RunReserved | PersonRunReserved
Limit = LimitSet | UnitLimitSet
RunEvent = RunCharged | HandedBack | TakenOver
HolderEvent = RunEvent | DataSetNamed | PeerSeen
ClientEvent = Reservation | ExchangeCharged | Limit
ServerEvent = ClientJoined | ClientLeft | PeerSigned | PeerForgotten
Step = ClientEvent | ServerEvent | HolderEvent | MessageRecorded | RunEnded
Event = Step | AddedUp


def _encode_fraction(value: object) -> str:
    if isinstance(value, Fraction):
        return str(value)
    raise TypeError(type(value))


def _decode_fraction(kind: type, value: object) -> Fraction:
    if kind is Fraction and isinstance(value, str):
        return _fraction(value)
    raise ValueError("expected a fraction such as 13/4")


@lru_cache(maxsize=4096)  # runs of the same plan cost the same
def _fraction(text: str) -> Fraction:
    if FRACTION.fullmatch(text):
        with suppress(ZeroDivisionError):
            return Fraction(text)
    raise ValueError("expected a fraction such as 13/4")


_ENCODER = msgspec.msgpack.Encoder(enc_hook=_encode_fraction)
_ADDED_UP = bytes([31])  # the second byte of an array that begins with the tag
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


def is_added_up(data: bytes) -> bool:
    """Whether these bytes of an event are those of an `AddedUp`, unless they are damaged."""
    return data[1:2] == _ADDED_UP


def checked(event: Event) -> bytes:
    """The encoding of an event just made, whose fields nobody has checked yet; StateError names the
    field that is wrong.
    """
    try:
        data = encode(event)
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError) as error:
        raise StateError(f"a {type(event).__name__} cannot be stored: {error}") from None
    if decode(data) != event:
        raise StateError(f"a {type(event).__name__} does not come back from its encoding as it was")
    return data


def recorded(run_id: bytes, message: Message) -> MessageRecorded:
    """The event of a message that is to be stored; its bytes, `messages.encode`, go beside it."""
    return MessageRecorded(
        run_id=run_id, kind=type(message).__name__, digest=message_digest(message)
    )


def first_head(role: Role, identity: bytes, salt: bytes) -> bytes:
    """Head 0 of the store of a party with this public signing key (32 bytes); salt : 16 random
    bytes.
    """
    return hashlib.sha256(_STORE_LABEL + role.value.encode() + b"\0" + identity + salt).digest()


def next_head(head: bytes, seconds: int, event: bytes) -> bytes:
    """The head of the chain after one more event, written at these seconds, given the head before
    it.
    """
    return hashlib.sha256(_EVENT_LABEL + head + seconds.to_bytes(8, "big") + event).digest()


def seconds_now() -> int:
    """Return the seconds since 1970, UTC, by the clock of this machine; 0 if it is set before."""
    return min(max(int(time.time()), 0), MAX_SECONDS)
