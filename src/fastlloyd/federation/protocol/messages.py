"""Messages of a run, and their bytes: one version byte, then MessagePack.

`decode` is total: any bytes give a message or RemoteProtocolError, whatever sizes they claim. A
message has only one encoding, so equal messages have equal bytes. The transcript hash covers these
bytes, and repeats are recognised by them. `decode_records` reads the messages that a session
recorded.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import compress
from typing import Annotated, Final, Self

import msgspec
import numpy as np
from msgspec import Meta

from fastlloyd.errors import LocalProtocolError, RemoteProtocolError
from fastlloyd.federation.identity.parties import MAX_CLIENTS
from fastlloyd.federation.plan.plan import PROTOCOL_VERSION, Plan
from fastlloyd.federation.secagg.keys import CONFIRMATION_BYTES, PUBLIC_KEY_BYTES, SIGNATURE_BYTES
from fastlloyd.federation.secagg.masks import DIGEST_BYTES, RUN_ID_BYTES, UPLOAD_NONCE_BYTES
from fastlloyd.federation.secagg.pairs import (
    ENCAPSULATION_KEY_BYTES,
    PAIR_MESSAGE_BYTES,
    SEALED_BYTES,
)
from fastlloyd.federation.secagg.sealing import SALT_BYTES, TAG_BYTES

MAX_REASON: Final = 500
BEGINNING_BYTES: Final = 16

Digest = Annotated[bytes, Meta(min_length=DIGEST_BYTES, max_length=DIGEST_BYTES)]
Beginning = Annotated[bytes, Meta(min_length=BEGINNING_BYTES, max_length=BEGINNING_BYTES)]
RunId = Annotated[bytes, Meta(min_length=RUN_ID_BYTES, max_length=RUN_ID_BYTES)]
PublicKey = Annotated[bytes, Meta(min_length=PUBLIC_KEY_BYTES, max_length=PUBLIC_KEY_BYTES)]
Signature = Annotated[bytes, Meta(min_length=SIGNATURE_BYTES, max_length=SIGNATURE_BYTES)]
EncapsulationKey = Annotated[
    bytes, Meta(min_length=ENCAPSULATION_KEY_BYTES, max_length=ENCAPSULATION_KEY_BYTES)
]
PairMessage = Annotated[bytes, Meta(min_length=PAIR_MESSAGE_BYTES, max_length=PAIR_MESSAGE_BYTES)]
Box = Annotated[bytes, Meta(min_length=SEALED_BYTES, max_length=SEALED_BYTES)]
Nonce = Annotated[bytes, Meta(min_length=UPLOAD_NONCE_BYTES, max_length=UPLOAD_NONCE_BYTES)]
Salt = Annotated[bytes, Meta(min_length=SALT_BYTES, max_length=SALT_BYTES)]
Mac = Annotated[bytes, Meta(min_length=CONFIRMATION_BYTES, max_length=CONFIRMATION_BYTES)]
Name = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")]
Attempt = Annotated[int, Meta(ge=1, le=MAX_CLIENTS)]
RoundNumber = Annotated[int, Meta(ge=1, le=1000)]
NextRound = Annotated[int, Meta(ge=2, le=1001)]
# printable: it is shown on a terminal
Reason = Annotated[str, Meta(max_length=MAX_REASON, pattern=r"\A[ -~]*\Z")]
PerClient = Meta(max_length=MAX_CLIENTS)
Members = Annotated[bytes, Meta(max_length=(MAX_CLIENTS + 7) // 8)]
Nonces = Annotated[bytes, Meta(max_length=MAX_CLIENTS * UPLOAD_NONCE_BYTES)]


class _Message(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Array of a number, which says what kind of message this is, and the fields in order."""


class Hello(_Message, frozen=True, tag=1):
    """Client: I take part in this run of this plan, with these keys, made for this run. Signed by
    my identity.

    exchange_key : X25519. encapsulation_key : ML-KEM-768. run_key : Ed25519, with which I sign my
        later messages.
    """

    plan_digest: Digest
    run_id: RunId
    name: Name
    exchange_key: PublicKey
    encapsulation_key: EncapsulationKey
    run_key: PublicKey
    signature: Signature


class SealedKeys(_Message, frozen=True, tag=2):
    """Message of a client: its keys for each later client of a Deal, in the order of the Deal.

    deal : digest of the Deal.
    commitment : commitment to the group key, from the first client of the Deal (the dealer), or
        None.
    ciphertexts : for each pair key, a ciphertext with its HMAC and the sender's signature.
    boxes : from the dealer, the group key sealed under each pair key.
    """

    deal: Digest
    commitment: Digest | None
    ciphertexts: Annotated[tuple[PairMessage, ...], PerClient]
    boxes: Annotated[tuple[Box, ...], PerClient]


class Upload(_Message, frozen=True, tag=3):
    """Client: this is my masked answer of this round, one ring element per number, and the nonce
    that its mask is bound to.
    """

    round: RoundNumber
    nonce: Nonce
    payload: bytes


class Confirmation(_Message, frozen=True, tag=4):
    """Client: this HMAC under the group key covers the transcript and my final centroids. Signed
    with my run key.
    """

    mac: Mac
    signature: Signature


class Deal(_Message, frozen=True, tag=5):
    """Server to the clients named here: you said Hello, and share keys now.

    beginning : random bytes, drawn with the first Deal. A run that ended unspent and begins again
        has others.
    attempt : number of this Deal in the beginning, from 1. A later Deal names fewer clients.
    hellos : in the order of the plan.
    """

    beginning: Beginning
    attempt: Attempt
    hellos: Annotated[tuple[Hello, ...], PerClient]


class KeyBox(_Message, frozen=True, tag=6):
    """Server to each client: these are the keys that the clients before you in this Deal made for
    you.

    deal : digest of the Deal. commitment : the dealer's, to the group key; the same for all.
    ciphertexts : in the order of the Deal. box : the sealed group key, or None for the dealer.
    """

    deal: Digest
    commitment: Digest
    ciphertexts: Annotated[tuple[PairMessage, ...], PerClient]
    box: Box | None


class Broadcast(_Message, frozen=True, tag=7):
    """Server to all: this is the sum of the round's uploads (in server-noise, with noise), and the
    clients and nonces in it.

    members : one bit per client of the plan, the lowest bit of the first byte for the first client.
    nonces : 8 bytes for each bit that is set, in the same order.

    So a set has only one form, and no client can be in it twice.
    """

    round: RoundNumber
    members: Members
    nonces: Nonces
    payload: bytes

    @classmethod
    def of(
        cls, names: Sequence[str], round: int, included: Mapping[str, bytes], payload: bytes
    ) -> Self:
        """Return the broadcast of these uploads.

        names : all clients of the plan. included : nonces by client, for some of them.
        """
        bits = sum(1 << i for i, name in enumerate(names) if name in included)
        nonces = b"".join(included[name] for name in names if name in included)
        return cls(round, bits.to_bytes((len(names) + 7) // 8, "little"), nonces, payload)

    def included(self, names: Sequence[str]) -> dict[str, bytes]:
        """Return the included set S of the round with its nonces, in the order of the plan's
        `names`.

        Raises RemoteProtocolError as `check_members` does.
        """
        self.check_members(len(names))
        present = compress(
            names, np.unpackbits(np.frombuffer(self.members, np.uint8), bitorder="little")
        )
        cut = range(0, len(self.nonces), UPLOAD_NONCE_BYTES)
        return dict(
            zip(present, [self.nonces[at : at + UPLOAD_NONCE_BYTES] for at in cut], strict=True)
        )

    def check_members(self, n_clients: int) -> None:
        """Raise RemoteProtocolError unless the set is one of `n_clients` clients, with a nonce for
        each of its members.
        """
        bits = int.from_bytes(self.members, "little")
        if len(self.members) != (n_clients + 7) // 8 or bits >> n_clients:
            raise RemoteProtocolError(
                f"the members in the broadcast of round {self.round} are not a set of the plan's"
                f" {n_clients} clients"
            )
        if len(self.nonces) != bits.bit_count() * UPLOAD_NONCE_BYTES:
            raise RemoteProtocolError(
                f"the broadcast of round {self.round} has {len(self.nonces)} bytes of nonces for"
                f" {bits.bit_count()} clients; expected {UPLOAD_NONCE_BYTES} for each"
            )


class Confirmations(_Message, frozen=True, tag=8):
    """Server to all: these are the clients' confirmations. The server can check only their
    signatures.

    confirmed : name, HMAC and signature of each.
    """

    confirmed: Annotated[tuple[tuple[Name, Mac, Signature], ...], PerClient]


class Abort(_Message, frozen=True, tag=9):
    """Server: the run is over, or continues without you, for this reason."""

    reason: Reason


class Proposal(_Message, frozen=True, tag=10):
    """Client: these are the parameters of this round's query, which I computed from the answers
    before it and sealed to all clients.

    round : round of the query, from 2. The final parameters of a clustering have n_rounds + 1.
    salt : random bytes of the sealing (`federation/secagg/sealing.py`).
    signature : with my run key, over all of it.
    """

    round: NextRound
    salt: Salt
    box: bytes
    signature: Signature


class Parameters(_Message, frozen=True, tag=11):
    """Server to all: this is the first Proposal for this round, made by `client` and stored. No
    other is ever relayed.
    """

    round: NextRound
    client: Name
    salt: Salt
    box: bytes
    signature: Signature


class Turn(_Message, frozen=True, tag=12):
    """Server to one client: compute the parameters of this round, because the client before you is
    late.
    """

    round: NextRound


class Ready(_Message, frozen=True, tag=13):
    """Client: I have checked the keys of this Deal, and my keys lead to this transcript.

    deal : digest of the Deal. round : round that I am ready for, always 1. signature : with my run
        key, over plan digest, run id, my name, round and transcript hash.
    """

    deal: Digest
    round: RoundNumber
    signature: Signature


class AllReady(_Message, frozen=True, tag=14):
    """Server to all clients of a Deal: every one of you is ready. You are the key set from now on.

    signatures : of all, in the order of the Deal.
    """

    deal: Digest
    round: RoundNumber
    signatures: Annotated[tuple[Signature, ...], PerClient]


class BadKeys(_Message, frozen=True, tag=15):
    """Client: these clients signed keys for me that do not fit, so I do not use them.

    deal : digest of the Deal. makers : names of the clients, in the order of the Deal.
    """

    deal: Digest
    makers: Annotated[tuple[Name, ...], Meta(min_length=1, max_length=MAX_CLIENTS)]


ClientMessage = Hello | SealedKeys | Ready | BadKeys | Upload | Confirmation | Proposal
ServerMessage = Deal | KeyBox | AllReady | Broadcast | Confirmations | Abort | Parameters | Turn
Message = ClientMessage | ServerMessage

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Message)
_VERSION = bytes([PROTOCOL_VERSION])
# more than a Hello with the longest name takes: the largest thing there is one of per client
_ENTRY_BYTES = 1536
_FIXED_BYTES = 1024  # more than everything else in a message but its payload


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes of a plan's messages: number of clients, exact length of each round's payload, and the
    largest length of any message.

    box_bytes : by round, the exact length of sealed parameters, for rounds that have any.
    """

    n_clients: int
    payload_bytes: tuple[int, ...]
    box_bytes: Mapping[int, int]
    max_bytes: int

    @classmethod
    def of(cls, plan: Plan) -> Self:
        """Return the sizes of the messages of `plan`."""
        payload_bytes = tuple(
            plan.n_words(round) * plan.ring.itemsize for round in plan.mechanism.all_rounds
        )
        m = plan.mechanism
        # keys: which round asks with them
        sizes = {number + 2: m.travelling_bytes(number) for number in range(m.n_rounds)}
        box_bytes = {number: n + TAG_BYTES for number, n in sizes.items() if n}
        largest = max(*payload_bytes, *box_bytes.values(), 0)
        return cls(
            plan.n_clients,
            payload_bytes,
            box_bytes,
            largest + _ENTRY_BYTES * (plan.n_clients + 1) + _FIXED_BYTES,
        )

    def check_payload(self, message: "Upload | Broadcast") -> None:
        """Raise RemoteProtocolError unless the payload has the length of its round.

        For a round number beyond the last round, the payload must have the length of round 1. The
        session refuses such a message later.
        """
        expected = self.payload_bytes[
            message.round - 1 if message.round <= len(self.payload_bytes) else 0
        ]
        if len(message.payload) != expected:
            raise RemoteProtocolError(
                f"the payload of a message has {len(message.payload)} bytes; in round"
                f" {message.round} of this run each has {expected}"
            )

    def check_box(self, message: "Proposal | Parameters") -> None:
        """Raise RemoteProtocolError unless the parameters have the length of their round."""
        expected = self.box_bytes.get(message.round)
        if len(message.box) != expected:
            raise RemoteProtocolError(
                f"the parameters for round {message.round} have {len(message.box)} bytes; expected "
                f"{'none in this run' if expected is None else expected}"
            )


def printable(text: object, n_characters: int = MAX_REASON) -> str:
    """Return the text cut, and without line breaks and terminal codes, so that a terminal may show
    a stranger's text (`Reason`).
    """
    return "".join(character if " " <= character <= "~" else "?" for character in str(text))[
        :n_characters
    ]


def encode(message: Message) -> bytes:
    """Return the only encoding of `message`."""
    return _VERSION + _ENCODER.encode(message)


def message_digest(message: Message) -> bytes:
    """Return the SHA-256 of the encoding, 32 bytes."""
    return hashlib.sha256(encode(message)).digest()


def decode(data: bytes, limits: Limits) -> Message:
    """Read a message. Raises RemoteProtocolError for bytes that `encode` would not write for this
    plan.

    The length is checked first, so nothing larger than `limits.max_bytes` is ever allocated.
    """
    if len(data) > limits.max_bytes:
        raise RemoteProtocolError(
            f"a message has {len(data)} bytes; in this run none has more than {limits.max_bytes}"
        )
    if data[:1] != _VERSION:
        raise RemoteProtocolError(
            f"a message begins with {data[:1].hex() or 'nothing'}; expected {_VERSION.hex()}: "
            f"this version of fastlloyd speaks protocol version {PROTOCOL_VERSION}"
        )
    try:
        message: Message = _DECODER.decode(memoryview(data)[1:])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise RemoteProtocolError(
            f"a message of {len(data)} bytes cannot be read: {error}"
        ) from None
    match message:
        case Upload():
            limits.check_payload(message)
        case Broadcast():
            limits.check_payload(message)
            message.check_members(limits.n_clients)
        case Proposal() | Parameters():
            limits.check_box(message)
    if encode(message) != data:
        raise RemoteProtocolError(
            f"a {type(message).__name__} is not in its shortest encoding; a correct party never"
            " sends this"
        )
    return message


def decode_records(recorded: Sequence[bytes], plan: Plan) -> list[Message]:
    """Return recorded messages in order.

    Raises LocalProtocolError at the first that this version cannot have sent in a run of `plan`.
    """
    limits, messages = Limits.of(plan), []
    for position, data in enumerate(recorded, 1):
        try:
            messages.append(decode(data, limits))
        except RemoteProtocolError as error:
            raise LocalProtocolError(
                f"entry {position} of this run's message log cannot be read: {error}. Nothing"
                " was sent. This version of fastlloyd cannot continue the run; begin a new"
                " run"
            ) from error
    return messages


@contextmanager
def fits(position: int, message: Message) -> Iterator[None]:
    """Raise LocalProtocolError, with the position of the record, if a session cannot continue from
    it.

    position : counted from 1.
    """
    try:
        yield
    except (LocalProtocolError, RemoteProtocolError) as error:
        raise LocalProtocolError(
            f"entry {position} of this run's message log, {type(message).__name__}, does"
            f" not fit the plan, this party or the earlier entries: {error}. Nothing was"
            " sent. The run cannot be continued; begin a new run"
        ) from error
