"""Messages of a run, and their encoding: one version byte, then MessagePack.

Any bytes that `decode` is given yield a message or a RemoteProtocolError, whatever sizes they
claim. A message has only one encoding, so equal messages have equal bytes. The transcript hash
covers these bytes, and repeated messages are recognised by them. `decode_records` reads the
messages that a session stored.
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
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.plan.versions import PROTOCOL_VERSION
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
# printable, because terminals show it
Reason = Annotated[str, Meta(max_length=MAX_REASON, pattern=r"\A[ -~]*\Z")]
PerClient = Meta(max_length=MAX_CLIENTS)
Members = Annotated[bytes, Meta(max_length=(MAX_CLIENTS + 7) // 8)]
Nonces = Annotated[bytes, Meta(max_length=MAX_CLIENTS * UPLOAD_NONCE_BYTES)]


class _Message(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Base of all messages. The encoding is an array: the tag, a number that identifies the class,
    and then the fields in order.
    """


class Hello(_Message, frozen=True, tag=1):
    """Message of a client: it takes part in this run of this plan, with keys that it made for this
    run.

    exchange_key : public X25519 key.
    encapsulation_key : public ML-KEM-768 key.
    run_key : public Ed25519 key. The client signs its later messages with the private half.
    signature : signature of the client's identity over all other fields.
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
    commitment : commitment to the group key, from the first client of the Deal (the dealer). Other
        clients send None.
    ciphertexts : one for each pair key that the client makes: a ciphertext with its HMAC and the
        client's signature.
    boxes : the group key, sealed under each pair key. Only the dealer sends any.
    """

    deal: Digest
    commitment: Digest | None
    ciphertexts: Annotated[tuple[PairMessage, ...], PerClient]
    boxes: Annotated[tuple[Box, ...], PerClient]


class Upload(_Message, frozen=True, tag=3):
    """Message of a client: its masked answer in one round.

    round : number of the round, from 1.
    nonce : 8 random bytes to which the mask is bound.
    payload : the masked answer, one ring element per number, then the masked checksum word.
    """

    round: RoundNumber
    nonce: Nonce
    payload: bytes


class Confirmation(_Message, frozen=True, tag=4):
    """Message of a client: its confirmation of the result.

    mac : HMAC under the group key, over the transcript and the client's result.
    signature : signature with the client's run key.
    """

    mac: Mac
    signature: Signature


class Deal(_Message, frozen=True, tag=5):
    """Message of the server to the clients that it names: they have said Hello, and must share keys
    now.

    beginning : random bytes that identify this start of the run. A run that ended before any budget
        was spent may start again, with other bytes.
    attempt : number of this Deal since the start, from 1. Each later Deal names fewer clients.
    hellos : Hellos of the named clients, in the order of the plan.
    """

    beginning: Beginning
    attempt: Attempt
    hellos: Annotated[tuple[Hello, ...], PerClient]


class KeyBox(_Message, frozen=True, tag=6):
    """Message of the server to one client: the keys that the clients before it in the Deal made for
    it.

    deal : digest of the Deal.
    commitment : the dealer's commitment to the group key, the same for all clients.
    ciphertexts : one for each pair key, in the order of the Deal.
    box : the group key, sealed for this client, or None for the dealer.
    """

    deal: Digest
    commitment: Digest
    ciphertexts: Annotated[tuple[PairMessage, ...], PerClient]
    box: Box | None


class Broadcast(_Message, frozen=True, tag=7):
    """Message of the server to all clients: the sum of the round's uploads, and the clients and
    nonces in the sum. In trust mode `server-noise` the sum contains the server's noise.

    members : one bit per client of the plan: 1 if its upload is in the sum. The lowest bit of the
        first byte belongs to the first client.
    nonces : 8 bytes for each bit that is 1, in the same order.
    payload : the masked sum, in the form of an upload's payload.

    With one bit per client, a set of clients has only one encoding, and no client can be in it
    twice.
    """

    round: RoundNumber
    members: Members
    nonces: Nonces
    payload: bytes

    @classmethod
    def of(
        cls, names: Sequence[str], round: int, included: Mapping[str, bytes], payload: bytes
    ) -> Self:
        """Return the broadcast of a round.

        names : names of all clients of the plan, in order.
        round : number of the round, from 1.
        included : nonce of each client whose upload is in the sum, by name.
        payload : the masked sum.
        """
        bits = sum(1 << i for i, name in enumerate(names) if name in included)
        nonces = b"".join(included[name] for name in names if name in included)
        return cls(round, bits.to_bytes((len(names) + 7) // 8, "little"), nonces, payload)

    def included(self, names: Sequence[str]) -> dict[str, bytes]:
        """Return the nonce of each client whose upload is in the sum, by name, in the order of
        `names`.

        names : names of all clients of the plan, in order.

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
        """Raise RemoteProtocolError unless `members` has one bit for each of `n_clients` clients,
        and there is one nonce for each bit that is set.
        """
        bits = int.from_bytes(self.members, "little")
        if len(self.members) != (n_clients + 7) // 8 or bits >> n_clients:
            raise RemoteProtocolError(
                f"the members in the broadcast of round {self.round} do not fit the plan; expected"
                f" one bit for each of its {n_clients} clients"
            )
        if len(self.nonces) != bits.bit_count() * UPLOAD_NONCE_BYTES:
            raise RemoteProtocolError(
                f"the broadcast of round {self.round} has {len(self.nonces)} bytes of nonces for"
                f" {bits.bit_count()} clients; expected {UPLOAD_NONCE_BYTES} for each"
            )


class Confirmations(_Message, frozen=True, tag=8):
    """Message of the server to all clients: the clients' confirmations. The server can check only
    their signatures.

    confirmed : name, HMAC and signature of each client that confirmed.
    """

    confirmed: Annotated[tuple[tuple[Name, Mac, Signature], ...], PerClient]


class Abort(_Message, frozen=True, tag=9):
    """Message of the server: the run has ended, or continues without the recipient.

    reason : reason, in printable ASCII.
    """

    reason: Reason


class Proposal(_Message, frozen=True, tag=10):
    """Message of a client: the parameters of the next round's query. The client computed them from
    the earlier answers, and sealed them under the group key.

    round : round of the query, from 2. The final parameters of a clustering have n_rounds + 1.
    salt : random bytes for the sealing (`federation/secagg/sealing.py`).
    box : the sealed parameters.
    signature : signature with the client's run key, over all other fields.
    """

    round: NextRound
    salt: Salt
    box: bytes
    signature: Signature


class Parameters(_Message, frozen=True, tag=11):
    """Message of the server to all clients: the first Proposal for a round, which the server has
    stored. The server never relays another Proposal for the same round.

    client : name of the client that made the Proposal. The other fields are those of the Proposal.
    """

    round: NextRound
    client: Name
    salt: Salt
    box: bytes
    signature: Signature


class Turn(_Message, frozen=True, tag=12):
    """Message of the server to one client: compute the parameters of this round, because the client
    that was asked before is late.
    """

    round: NextRound


class Ready(_Message, frozen=True, tag=13):
    """Message of a client: it has checked the keys made for it, and is ready for round 1.

    deal : digest of the Deal.
    round : round that the client is ready for, always 1.
    signature : signature with the client's run key, over plan digest, run id, name, round and
        transcript hash.
    """

    deal: Digest
    round: RoundNumber
    signature: Signature


class AllReady(_Message, frozen=True, tag=14):
    """Message of the server to all clients of a Deal: all are ready, so these clients share keys
    from now on.

    deal : digest of the Deal.
    round : round that the clients are ready for, always 1.
    signatures : signatures of all Ready messages, in the order of the Deal.
    """

    deal: Digest
    round: RoundNumber
    signatures: Annotated[tuple[Signature, ...], PerClient]


class BadKeys(_Message, frozen=True, tag=15):
    """Message of a client: some clients signed keys that are invalid, so this client does not use
    them.

    deal : digest of the Deal.
    makers : names of the clients that made invalid keys, in the order of the Deal.
    """

    deal: Digest
    makers: Annotated[tuple[Name, ...], Meta(min_length=1, max_length=MAX_CLIENTS)]


ClientMessage = Hello | SealedKeys | Ready | BadKeys | Upload | Confirmation | Proposal
ServerMessage = Deal | KeyBox | AllReady | Broadcast | Confirmations | Abort | Parameters | Turn
Message = ClientMessage | ServerMessage

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Message)
_VERSION = bytes([PROTOCOL_VERSION])
# upper bound of a Hello's length, which is the longest part that messages have once per client
_ENTRY_BYTES = 1536
_FIXED_BYTES = 1024  # upper bound of the length of all other parts except the payload


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes of the messages in the runs of one plan.

    n_clients : number of clients in the plan.
    payload_bytes : exact length of the payload in each round, in bytes.
    box_bytes : exact length of the sealed parameters, in bytes, by round. Rounds without parameters
        are left out.
    max_bytes : upper bound of the length of any message, in bytes.
    """

    n_clients: int
    payload_bytes: tuple[int, ...]
    box_bytes: Mapping[int, int]
    max_bytes: int

    @classmethod
    def of(cls, plan: Plan) -> Self:
        """Return the sizes of the messages in a run of `plan`."""
        payload_bytes = tuple(
            plan.n_words(round) * plan.ring.itemsize for round in plan.mechanism.all_rounds
        )
        m = plan.mechanism
        # keys: number of the round whose query uses the parameters
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
        """Raise RemoteProtocolError unless the payload has the length that its round prescribes.

        If the round is beyond the last one, the payload must have the length of round 1. The
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
        """Raise RemoteProtocolError unless the sealed parameters have the length that their round
        prescribes.
        """
        expected = self.box_bytes.get(message.round)
        if len(message.box) != expected:
            raise RemoteProtocolError(
                f"the parameters for round {message.round} have {len(message.box)} bytes; expected "
                f"{'none in this run' if expected is None else expected}"
            )


def printable(text: object, n_characters: int = MAX_REASON) -> str:
    """Return `text` in a form that a terminal may show, even if a stranger wrote it.

    Every character that is not printable ASCII, such as a line break or a terminal code, becomes
    "?".

    n_characters : largest length of the result. The rest of the text is cut off.
    """
    return "".join(character if " " <= character <= "~" else "?" for character in str(text))[
        :n_characters
    ]


def encode(message: Message) -> bytes:
    """Return the encoding of `message`. No other bytes decode to an equal message."""
    return _VERSION + _ENCODER.encode(message)


def message_digest(message: Message) -> bytes:
    """Return the SHA-256 of the message's encoding, 32 bytes."""
    return hashlib.sha256(encode(message)).digest()


def decode(data: bytes, limits: Limits) -> Message:
    """Return the message that `data` encodes.

    The length is checked first, so nothing larger than `limits.max_bytes` is ever allocated.

    limits : sizes of the plan's messages.

    Raises RemoteProtocolError if `data` is not what `encode` writes for a message of this plan.
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
    """Return the messages that a session stored, in order.

    recorded : encoding of each message.

    Raises LocalProtocolError if this version cannot have stored a message in a run of `plan`. The
    error names the first such message.
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
    """Context in which a session reads one stored message. Every error that shows that the session
    cannot continue from this message becomes a LocalProtocolError, which names the message.

    position : position of the message among the stored ones, from 1.
    """
    try:
        yield
    except (LocalProtocolError, RemoteProtocolError) as error:
        raise LocalProtocolError(
            f"entry {position} of this run's message log, {type(message).__name__}, does"
            f" not fit the plan, this party or the earlier entries: {error}. Nothing was"
            " sent. The run cannot be continued; begin a new run"
        ) from error
