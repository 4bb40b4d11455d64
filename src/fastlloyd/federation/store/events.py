"""Events of a store: their kinds, their encoding, and the chain of hashes through them.

Head n = SHA-256(label, head n-1, seconds n, bytes of event n). Head 0 depends on the store's owner,
its role and a random salt, so no two stores share a head. A length and a head together determine
all events before. The seconds tell when the event was written, by the clock of the machine, UTC
since 1970. They are for people: no decision, deadline or order depends on them, and the clock may
jump back.

No event contains a value of a record, noise, a key, or a digest of one of these, keyed or not.
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
from fastlloyd.federation.store.costs import MAX_EXCHANGES, PersonRunCost, Positive, RunCost, Share
from fastlloyd.federation.store.noted import DataFiles, Purpose

MAX_LENGTH: Final = 1 << 53
SALT_BYTES: Final = 16
MAX_SECONDS: Final = 253_402_300_799  # the last second of the year 9999
# at least 0; costs of all mechanisms have fewer digits
FRACTION: Final = re.compile(r"[0-9]{1,400}(/[0-9]{1,400})?")
_STORE_LABEL = b"fastlloyd/v1/store"
_EVENT_LABEL = b"fastlloyd/v2/event"


class Role(enum.Enum):
    """Role of a store's owner: a client (its runs), a server (positions of its clients' stores), or
    a holder of records (all runs on them).
    """

    CLIENT = "client"
    SERVER = "server"
    HOLDER = "holder"

    @property
    def store(self) -> str:
        """Noun phrase for the store of an owner with this role."""
        return "a ledger" if self is Role.HOLDER else f"the store of a {self.value}"


class Outcome(enum.Enum):
    """End of a run, with a result or without."""

    FINISHED = "finished"
    ABORTED = "aborted"


class LogPosition(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Position of a store: the number of its events, and the head of its chain, which is the hash
    after the last event.
    """

    length: Annotated[int, Meta(ge=0, le=MAX_LENGTH)]
    head: Digest


def n_events(n: int) -> str:
    """Return a number of events in words, such as "1 event"."""
    return "1 event" if n == 1 else f"{n} events"


class _Event(
    msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True
):
    """Base of all events. The encoding is an array: the tag, a number that identifies the class,
    and then the fields in order.
    """


class _Reserved(_Event, frozen=True):
    """Event of a client or a ledger: a run is reserved. Its whole cost counts from now on.

    run_id : id of the run. In a ledger, `client_news.own_run_id` or a random id.
    plan_digest : digest of the plan or mechanism.
    client : name of the client in the plan, or of the command that runs a mechanism.
    dataset : name of the data set that is charged.
    """

    run_id: RunId
    plan_digest: Digest
    client: Name
    dataset: Name

    def under(self, run_id: bytes) -> Self:
        """Return the event for a ledger, with the ledger's id of the run."""
        return msgspec.structs.replace(self, run_id=run_id)


class RunReserved(_Reserved, frozen=True, tag=10):
    """Reservation of a run that protects records."""

    cost: RunCost


class PersonRunReserved(_Reserved, frozen=True, tag=11):
    """Reservation of a run that protects persons."""

    cost: PersonRunCost


class RunCharged(_Event, frozen=True, tag=12):
    """Event of a ledger: the whole run is charged. Every round may now be answered without another
    event.
    """

    run_id: RunId


class HandedBack(_Event, frozen=True, tag=13):
    """Event of a ledger: some rounds of a `RunCharged` are refunded, because no noise was drawn for
    them and none will be. Only the process of the run writes this event.

    numbers : indices of these rounds, from 1, in rising order.
    """

    run_id: RunId
    numbers: Annotated[tuple[RoundNumber, ...], Meta(min_length=1, max_length=MAX_EXCHANGES)]


class MessageRecorded(_Event, frozen=True, tag=2):
    """Event of a client or server: a message was decided on or accepted. Its bytes are kept outside
    the chain until the run ends.

    kind : class of the message in `protocol.messages`. Every such message is meant for other
        parties: it is public, masked, sealed, or a MAC.
    digest : SHA-256 of the message's encoding.
    """

    run_id: RunId
    kind: Name
    digest: Digest


class ExchangeCharged(_Event, frozen=True, tag=3):
    """Event of a client: the answer of one round may be sent. Its cost is spent, even if the
    answer is lost.

    number : number of the round, from 1.
    """

    run_id: RunId
    number: RoundNumber


class RunEnded(_Event, frozen=True, tag=4):
    """Event of any role: the run has ended for this store. This event wipes its messages and
    secrets, and no event of the run follows.

    outcome : end of the run.
    reason : reason for an end without a result.
    released : indices of the rounds that were reserved and never charged, from 1, in rising
        order. Empty at a server.
    """

    run_id: RunId
    outcome: Outcome
    reason: Reason
    released: Annotated[tuple[RoundNumber, ...], Meta(max_length=MAX_EXCHANGES)]


class LimitSet(_Event, frozen=True, tag=5):
    """Event of a client or a ledger: all runs on the data set together may be at most (epsilon,
    delta)-DP. An infinite epsilon lifts the limit.

    If all runs on the data set protect a replaced record, the limit applies to one record replaced.
    Otherwise it applies to one record added or removed.
    """

    dataset: Name
    epsilon: Positive
    delta: Share

    @property
    def speaks_of(self) -> Neighbours | None:
        """Neighbours to which the limit applies. None, because the neighbouring relation of the
        runs decides.
        """
        return None


class UnitLimitSet(_Event, frozen=True, tag=14):
    """Event of a client or a ledger: a `LimitSet` that names its neighbours. Each `Neighbours` has
    its own limit, and all limits apply.
    """

    dataset: Name
    epsilon: Positive
    delta: Share
    speaks_of: Neighbours


class TakenOver(_Event, frozen=True, tag=18):
    """Event of a ledger: the client had already joined the newly reserved run when this ledger
    counted it.
    """

    run_id: RunId


class RunNoted(_Event, frozen=True, tag=19):
    """Event of a ledger: facts about a newly reserved run, for the ledger's owner (`noted.Noted`).

    run_id : id of the run.
    command : command that charges.
    purpose : purpose in words, or "".
    files : files of the records, or None.
    """

    run_id: RunId
    command: Name
    purpose: Purpose
    files: DataFiles | None


class DataSetNamed(_Event, frozen=True, tag=30):
    """Event of a ledger about the name of a data set. There are two occasions: a data set was named
    before it had a run or a limit, or the holder was told that several spellings of the name mean
    one data set.
    """

    dataset: Name


class Repeated(
    msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True
):
    """Count of equal runs on a data set. All these runs have the same cost, and the same rounds of
    them count as spent.

    dataset : normalised name of the data set (`names.same`).
    numbers : indices of the rounds that count as spent, from 1.
    times : number of runs.
    """

    dataset: Name
    numbers: tuple[RoundNumber, ...]
    times: Annotated[int, Meta(ge=1)]


class RepeatedRuns(Repeated, frozen=True):
    """Count of equal runs that protect records."""

    cost: RunCost


class RepeatedPersonRuns(Repeated, frozen=True):
    """Count of equal runs that protect persons."""

    cost: PersonRunCost


AnyRepeated = RepeatedRuns | RepeatedPersonRuns


class AddedUp(_Event, frozen=True, tag=31):
    """Event of a ledger: counts of equal runs that were charged whole. Their own events need not be
    read again.

    records : counts of runs that protect records.
    persons : counts of runs that protect persons.
    others : indices of all earlier events that must still be read, in rising order. They belong to
        no run in these counts. The counts never include the first run under each name, nor the last
        few runs.
    """

    records: tuple[RepeatedRuns, ...]
    persons: tuple[RepeatedPersonRuns, ...]
    others: tuple[Annotated[int, Meta(ge=1, le=MAX_LENGTH)], ...]

    @property
    def sums(self) -> tuple[AnyRepeated, ...]:
        """Counts of runs that protect records, then of runs that protect persons."""
        return (*self.records, *self.persons)


class PeerSeen(_Event, frozen=True, tag=6):
    """Event of a ledger, which has seen the store of a client.

    name : public signing key of the client, as hex digits.
    position : length and last hash of that store when it was seen.
    """

    name: Name
    position: LogPosition


class ClientJoined(_Event, frozen=True, tag=16):
    """Event of a server: this client said Hello in this run, perhaps after it had left. The Deal
    decides whether it takes part.
    """

    run_id: RunId
    client: Name


class ClientLeft(_Event, frozen=True, tag=17):
    """Event of a server: this client has fetched the outcome, or can no longer get one. The server
    stops waiting for it.
    """

    run_id: RunId
    client: Name


class PeerSigned(_Event, frozen=True, tag=8):
    """Event of a server: a client showed this signed position of its store.

    name : public signing key of the client, as hex digits.
    client : name of the client in the plan.
    """

    name: Name
    client: Name
    position: SignedPosition


class PeerForgotten(_Event, frozen=True, tag=9):
    """Event of a server: its operator made it forget the position of a client's store.

    name : public signing key of the client, as hex digits.
    """

    name: Name


Reservation = RunReserved | PersonRunReserved
Limit = LimitSet | UnitLimitSet
RunEvent = RunCharged | HandedBack | TakenOver | RunNoted
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
_ADDED_UP = bytes([31])  # in an encoded `AddedUp` the tag is the second byte
_DECODER = msgspec.msgpack.Decoder(Event, dec_hook=_decode_fraction)


def encode(event: Event) -> bytes:
    """Return the canonical encoding of `event`: equal events have equal bytes."""
    return _ENCODER.encode(event)


def decode(data: bytes) -> Event:
    """Return the event that `data` encodes. Raises StateError if `data` is not what `encode`
    writes.
    """
    try:
        event: Event = _DECODER.decode(data)
    except (msgspec.MsgspecError, ValueError) as error:
        raise StateError(f"an event of {len(data)} bytes cannot be read: {error}") from None
    if encode(event) != data:
        raise StateError(f"a {type(event).__name__} is not in its canonical encoding")
    return event


def is_added_up(data: bytes) -> bool:
    """Return whether these bytes encode an `AddedUp`. The answer may be wrong if they are
    damaged.
    """
    return data[1:2] == _ADDED_UP


def checked(event: Event) -> bytes:
    """Return the encoding of a new event. Raises StateError if a field is invalid."""
    try:
        data = encode(event)
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError) as error:
        raise StateError(f"a {type(event).__name__} cannot be stored: {error}") from None
    if decode(data) != event:
        raise StateError(f"a {type(event).__name__} changes when it is encoded and decoded")
    return data


def recorded(run_id: bytes, message: Message) -> MessageRecorded:
    """Return the event that stores a message. The bytes of the message are stored separately."""
    return MessageRecorded(
        run_id=run_id, kind=type(message).__name__, digest=message_digest(message)
    )


def first_head(role: Role, identity: bytes, salt: bytes) -> bytes:
    """Return head 0 of a store, 32 bytes.

    role : role of the store's owner.
    identity : public signing key of the owner, 32 bytes.
    salt : 16 random bytes.
    """
    return hashlib.sha256(_STORE_LABEL + role.value.encode() + b"\0" + identity + salt).digest()


def next_head(head: bytes, seconds: int, event: bytes) -> bytes:
    """Return the head of the chain after one more event, 32 bytes.

    head : head before the event.
    seconds : time at which the event is written.
    event : encoding of the event.
    """
    return hashlib.sha256(_EVENT_LABEL + head + seconds.to_bytes(8, "big") + event).digest()


def seconds_now() -> int:
    """Return the seconds since 1970, UTC, by the clock of this machine, or 0 if it shows an earlier
    time.
    """
    return min(max(int(time.time()), 0), MAX_SECONDS)
