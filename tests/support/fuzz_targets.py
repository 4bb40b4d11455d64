"""What is fuzzed: every parser that a stranger's bytes reach, valid examples, and what must hold of
what it accepts.

A target's `read` raises its one documented error for what is refused; an AssertionError, or any
other error, is a fault.
"""

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import fuzz_documents as documents
from fastlloyd.base.sealed_toml import MAX_BYTES
from fastlloyd.errors import IdentityError, PlanError, RemoteProtocolError, StateError
from fastlloyd.federation import audit
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.positions import MAX_EVENTS, SignedPosition
from fastlloyd.federation.protocol import messages
from fastlloyd.federation.protocol.messages import (
    Abort,
    AllReady,
    BadKeys,
    Broadcast,
    Confirmation,
    Confirmations,
    Deal,
    Hello,
    KeyBox,
    Limits,
    Message,
    Parameters,
    Proposal,
    Ready,
    SealedKeys,
    Turn,
    Upload,
)
from fastlloyd.federation.secagg.keys import Identity
from fastlloyd.federation.store import Role, events
from fastlloyd.federation.store.contents import Contents
from fastlloyd.federation.store.events import (
    ClientJoined,
    ClientLeft,
    Event,
    ExchangeCharged,
    LimitSet,
    LogPosition,
    MessageRecorded,
    Outcome,
    PeerForgotten,
    PeerSeen,
    PeerSigned,
    RunEnded,
)
from fastlloyd.federation.store.history import History
from fastlloyd.federation.transport.grpc import frames
from fastlloyd.federation.transport.grpc.frames import (
    Answer,
    Attach,
    Attached,
    ClientFrame,
    Leave,
    Post,
    Refused,
    ServerFrame,
    Stop,
    Twice,
    Waiting,
)
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD
from federation import make_plan
from fuzz_mutation import Chance, in_meaning, message_pack
from stores import reserved, run_id

MAX_SENTENCE = 1000  # characters of a refusal that goes to a log or to the other party
KIB = 1024


@dataclass(frozen=True, kw_only=True)
class Target:
    """A parser. read : raises `refusal` for what it does not accept. in_meaning : the mutation that
    knows its format.

    allowance : bytes that a reading may allocate at its peak, beside 64 for each byte of input.
    """

    seeds: tuple[bytes, ...]
    read: Callable[[bytes], None]
    refusal: type[Exception]
    in_meaning: Callable[[bytes, Chance], bytes]
    max_bytes: int
    allowance: int = 64 * KIB


@functools.cache
def plan() -> Plan:
    """Eleven clients, so that sets have bits to spare; rounds, and a loss, whose payloads have two
    lengths.
    """
    return make_plan(11, max_dropouts=2, estimate_loss=True)


@functools.cache
def limits() -> Limits:
    return Limits.of(plan())


@functools.cache
def limits_with_boxes() -> Limits:
    """Of a run in which parameters travel, in boxes of several lengths."""
    return Limits.of(make_plan(3, algorithm=MOMENTLLOYD, n_clusters=1, n_features=1))


def _limits_of(kind: type) -> Limits:
    return limits_with_boxes() if issubclass(kind, Proposal | Parameters | Turn) else limits()


def _examples() -> dict[type[Message], list[Message]]:
    names = plan().names
    hello = Hello(b"d" * 32, b"r" * 16, "c0", b"e" * 32, b"k" * 1184, b"v" * 32, b"s" * 64)
    other = Hello(b"D" * 32, b"R" * 16, "c1", b"E" * 32, b"K" * 1184, b"V" * 32, b"S" * 64)
    made = b"c" * 1184
    nonces = {name: bytes([i]) * 8 for i, name in enumerate(names)}
    rounds = range(1, len(limits().payload_bytes) + 1)
    boxes = limits_with_boxes().box_bytes.items()
    payloads = [(n, bytes(range(limits().payload_bytes[n - 1]))) for n in (rounds[0], rounds[-1])]
    return {
        Hello: [hello],
        SealedKeys: [
            SealedKeys(b"d" * 32, b"g" * 32, (made, made), (b"b" * 60, b"B" * 60)),
            SealedKeys(b"d" * 32, None, (), ()),
        ],
        Upload: [Upload(n, b"nonce678", payload) for n, payload in payloads],
        Confirmation: [Confirmation(b"m" * 32, b"s" * 64)],
        Deal: [Deal(b"b" * 16, 1, (hello, other)), Deal(b"b" * 16, 2, ())],
        KeyBox: [
            KeyBox(b"d" * 32, b"g" * 32, (made,), b"b" * 60),
            KeyBox(b"d" * 32, b"g" * 32, (), None),
        ],
        Ready: [Ready(b"d" * 32, 1, b"s" * 64)],
        AllReady: [AllReady(b"d" * 32, 1, (b"s" * 64, b"S" * 64)), AllReady(b"d" * 32, 2, ())],
        BadKeys: [BadKeys(b"d" * 32, ("c0", "c1"))],
        Broadcast: [Broadcast.of(names, n, nonces, payload) for n, payload in payloads],
        Confirmations: [
            Confirmations(tuple((name, b"m" * 32, b"s" * 64) for name in names)),
            Confirmations(()),
        ],
        Abort: [Abort("too few clients"), Abort("")],
        Proposal: [Proposal(n, b"s" * 16, bytes(size), b"S" * 64) for n, size in boxes],
        Parameters: [Parameters(n, "c0", b"s" * 16, bytes(size), b"S" * 64) for n, size in boxes],
        Turn: [Turn(2), Turn(1001)],
    }


def _one_printable_sentence(error: Exception) -> None:
    assert str(error).isprintable(), "what a stranger sent reaches a log as it is"
    assert len(str(error)) <= MAX_SENTENCE, "a stranger makes a log grow"


_encode_message, _encode_frame, _encode_event = (
    messages.encode,
    frames.encode_frame,
    events.encode,
)  # whatever a mutant changes


def _read_message(data: bytes, limits: Limits) -> None:
    try:
        message = messages.decode(data, limits)
    except RemoteProtocolError as error:
        _one_printable_sentence(error)
        raise
    assert _encode_message(message) == data, "another encoding of a message was accepted"
    if isinstance(message, Broadcast) and limits.n_clients == len(plan().names):
        assert (
            Broadcast.of(
                plan().names, message.round, message.included(plan().names), message.payload
            )
            == message
        )


def _message(kind: type[Message]) -> Target:
    return Target(
        seeds=tuple(map(_encode_message, _examples()[kind])),
        read=partial(_read_message, limits=_limits_of(kind)),
        refusal=RemoteProtocolError,
        in_meaning=partial(message_pack, start=1),
        max_bytes=_limits_of(kind).max_bytes + 64,
    )


def _frame(
    examples: list[ClientFrame | ServerFrame],
    decode: Callable[[bytes, Limits], ClientFrame | ServerFrame],
) -> Target:
    def read(data: bytes) -> None:
        try:
            frame = decode(data, limits())
        except RemoteProtocolError as error:
            _one_printable_sentence(error)
            raise
        assert _encode_frame(frame) == data, "another encoding of a frame was accepted"

    return Target(
        seeds=tuple(map(_encode_frame, examples)),
        read=read,
        refusal=RemoteProtocolError,
        in_meaning=partial(message_pack, start=1),
        max_bytes=frames.max_frame_bytes(limits()) + 64,
    )


def _client_frames() -> Target:
    log, upload = (
        SignedPosition(MAX_EVENTS, bytes(range(32)), bytes(range(64))),
        _encode_message(_examples()[Upload][0]),
    )
    return _frame(
        [
            Attach(bytes(32), bytes(16), log, bytes(16)),
            Post(log, upload),
            Leave(bytes(32), bytes(64)),
            Stop(1),
        ],
        frames.decode_client_frame,
    )


def _server_frames() -> Target:
    answer = Answer(_encode_message(_examples()[Broadcast][0]))
    return _frame(
        [
            Attached(LogPosition(0, bytes(32))),
            answer,
            Refused("another plan"),
            Waiting(2),
            Twice("::1"),
        ],
        frames.decode_server_frame,
    )


def _stored_events() -> Target:
    run = run_id(1)
    examples: list[Event] = [
        reserved(run),
        MessageRecorded(run_id=run, kind="Upload", digest=bytes(32)),
        ExchangeCharged(run_id=run, number=7),
        RunEnded(
            run_id=run, outcome=Outcome.ABORTED, reason="the server ended it", released=(2, 3)
        ),
        LimitSet(dataset="patients", epsilon=float("inf"), delta=0.0),
        PeerSeen(name="clinic-a", position=LogPosition(3, bytes(32))),
        PeerSigned(
            name="0" * 64, client="clinic-a", position=SignedPosition(3, bytes(32), bytes(64))
        ),
        PeerForgotten(name="0" * 64),
        ClientJoined(run_id=bytes(16), client="clinic-a"),
        ClientLeft(run_id=bytes(16), client="clinic-a"),
    ]

    def read(data: bytes) -> None:
        event = events.decode(data)
        assert _encode_event(event) == data, "another encoding of an event was accepted"
        assert events.checked(event) == data

    return Target(
        seeds=tuple(map(_encode_event, examples)),
        read=read,
        refusal=StateError,
        in_meaning=partial(message_pack, start=0),
        max_bytes=4 * KIB,
    )


def _plans() -> Target:
    return Target(
        seeds=tuple(plan.to_toml().encode() for plan in documents.plans()),
        read=documents.read_plan,
        refusal=PlanError,
        in_meaning=documents.document,
        max_bytes=16 * KIB,
        allowance=16 * KIB * KIB,
    )


def _public_files() -> Target:
    return Target(
        seeds=(documents.whole_identity().public.to_toml().encode(),),
        read=documents.read_public,
        refusal=IdentityError,
        in_meaning=partial(documents.document, sign=documents.sign_public),
        max_bytes=4 * KIB,
        allowance=MAX_BYTES + KIB * KIB,  # which `load_text` sets aside
    )


def _private_files() -> Target:
    return Target(
        seeds=tuple(documents.private_files()),
        read=documents.read_private,
        refusal=IdentityError,
        in_meaning=partial(documents.document, sign=documents.sign_private),
        max_bytes=4 * KIB,
        allowance=5 * KIB * KIB,
    )


def _certificates() -> Target:
    return Target(
        seeds=tuple(documents.certificates()),
        read=documents.read_certificate,
        refusal=IdentityError,
        in_meaning=documents.certificate,
        max_bytes=3 * KIB,
        allowance=5 * KIB * KIB,
    )


def _audit_files() -> Target:
    """Lines that the owner's own key signs, whatever they say."""
    key, salt, run = Identity.from_private_bytes(b"a" * 32), b"s" * 16, run_id(1)
    first = events.first_head(Role.CLIENT, key.public, salt)
    contents = Contents(
        role=Role.CLIENT,
        identity=key.public,
        salt=salt,
        first_head=first,
        position=LogPosition(4, first),
        history=History(Role.CLIENT),
        seconds=(1, 2, 3, 1 << 33),
    )
    recorded: list[Event] = [
        LimitSet(dataset="patients", epsilon=float("inf"), delta=0.0),
        reserved(run),
        ExchangeCharged(run_id=run, number=1),
        RunEnded(run_id=run, outcome=Outcome.ABORTED, reason="over", released=(2, 3)),
    ]
    seed = audit.audit_file(contents, recorded, [{"approved_by": "Dr. A"}], key, 1)

    def read(data: bytes) -> None:
        found = audit.read_audit(data, key.public, "'a'")
        assert len(found.heads) == len(found.events) + 1

    def changed(data: bytes, chance: Chance) -> bytes:
        trees = [json.loads(line[: -audit._HASH_BYTES] + b"}") for line in data.splitlines()]
        at = chance.rng.randrange(len(trees))
        trees[at] = in_meaning(trees[at], chance)
        before, lines = audit._LABEL, list[bytes]()
        for tree in trees:
            if tree is trees[-1] and at < len(trees) - 1:
                tree["signature"] = key.sign(audit._statement(before)).hex()
            line, before = audit._line(tree, before)
            lines.append(line)
        return b"\n".join(lines) + b"\n"

    return Target(
        seeds=(seed,),
        read=read,
        refusal=StateError,
        in_meaning=changed,
        max_bytes=8 * KIB,
        allowance=KIB * KIB,
    )


TARGETS: dict[str, Callable[[], Target]] = {
    **{kind.__name__: partial(_message, kind) for kind in _examples()},
    "frames from a client": _client_frames,
    "frames from the server": _server_frames,
    "stored events": _stored_events,
    "plans": _plans,
    "public files": _public_files,
    "private files": _private_files,
    "certificates": _certificates,
    "audit files": _audit_files,
}
"""By name; made when they are asked for."""

EXECUTIONS = dict.fromkeys(TARGETS, 1_000_000) | {
    "plans": 20_000,  # each is worked out again
    "public files": 50_000,  # signatures are verified
    "private files": 50_000,
    "certificates": 100_000,
    "audit files": 100_000,
}
"""How often each is read in a campaign of full size."""
