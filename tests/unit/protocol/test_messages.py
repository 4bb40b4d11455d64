"""One message, one encoding; and whatever else arrives is refused with the one error for that, without a large allocation."""

import tracemalloc

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastlloyd.errors import RemoteProtocolError
from fastlloyd.federation.protocol.messages import (
    MAX_REASON,
    Abort,
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
    SealedKeys,
    Turn,
    Upload,
    decode,
    encode,
)
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD
from federation import make_plan

PLAN = make_plan(3)
LIMITS = Limits.of(PLAN)
WITH_BOXES = make_plan(3, algorithm=MOMENTLLOYD, n_clusters=1, n_features=1)
BOX_BYTES = Limits.of(WITH_BOXES).box_bytes[2]

names = st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
rounds = st.integers(1, 1000)


def exactly(n: int) -> st.SearchStrategy[bytes]:
    return st.binary(min_size=n, max_size=n)


def pairs(values: st.SearchStrategy[bytes]) -> st.SearchStrategy[tuple[tuple[str, bytes], ...]]:
    return st.lists(st.tuples(names, values), max_size=3).map(tuple)


PAYLOAD_BYTES = LIMITS.payload_bytes[0]
payloads = exactly(PAYLOAD_BYTES)
hellos = st.builds(Hello, exactly(32), exactly(16), names, exactly(32), exactly(64))
MESSAGES: dict[type, st.SearchStrategy[Message]] = {
    Hello: hellos,
    SealedKeys: st.builds(SealedKeys, pairs(exactly(60))),
    Upload: st.builds(Upload, rounds, exactly(8), payloads),
    Confirmation: st.builds(Confirmation, exactly(32)),
    Deal: st.builds(Deal, st.lists(hellos, max_size=3).map(tuple)),
    KeyBox: st.builds(KeyBox, hellos, st.lists(names, max_size=3).map(tuple), exactly(60)),
    Broadcast: st.builds(
        Broadcast.of,
        st.just(PLAN.names),
        rounds,
        st.dictionaries(st.sampled_from(PLAN.names), exactly(8)),
        payloads,
    ),
    Confirmations: st.builds(Confirmations, pairs(exactly(32))),
    Abort: st.builds(Abort, st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=MAX_REASON)),
    Proposal: st.builds(Proposal, st.just(2), exactly(16), exactly(BOX_BYTES)),
    Parameters: st.builds(Parameters, st.just(2), names, exactly(16), exactly(BOX_BYTES)),
    Turn: st.builds(Turn, st.integers(2, 1001)),
}
KINDS = pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)

HELLO = Hello(b"d" * 32, b"r" * 16, "c0", b"e" * 32, b"s" * 64)
UPLOAD = Upload(1, b"nonce678", b"\x01" * PAYLOAD_BYTES)


def limits_of(kind: type) -> Limits:
    """Of a run in which messages of this kind travel."""
    return Limits.of(WITH_BOXES) if kind in (Proposal, Parameters) else LIMITS


@KINDS
def test_decoding_inverts_encoding(kind: type) -> None:
    @settings(max_examples=100)
    @given(MESSAGES[kind])
    def check(message: Message) -> None:
        assert decode(encode(message), limits) == message

    limits = limits_of(kind)
    check()


EXAMPLES: list[Message] = [
    HELLO,
    SealedKeys((("c0", b"b" * 60), ("c1", b"B" * 60))),
    UPLOAD,
    Confirmation(b"m" * 32),
    Deal((HELLO, msgspec.structs.replace(HELLO, name="c1"))),
    KeyBox(HELLO, ("c0", "c1", "c2"), b"b" * 60),
    Broadcast(2, b"\x05", b"nonce678nonce876", b"\x01" * PAYLOAD_BYTES),
    Confirmations((("c0", b"m" * 32), ("c2", b"M" * 32))),
    Abort("too few clients"),
    Proposal(2, b"s" * 16, b"b" * BOX_BYTES),
    Parameters(2, "c0", b"s" * 16, b"b" * BOX_BYTES),
    Turn(2),
]


def mutate(data: bytes, program: bytes) -> bytes:
    """Overwrite, insert, repeat or delete a few bytes, as often as the program says: what a fuzzer does to a valid message."""
    for step in range(0, len(program) - 3, 4):
        how, position, length, value = program[step : step + 4]
        at = position % (len(data) + 1)
        head, tail = data[:at], data[at:]
        match how % 4:
            case 0:
                data = head + bytes([value]) + tail[1:]
            case 1:
                data = head + bytes([value]) * (1 + length % 4) + tail
            case 2:
                data = head + tail[: length % 64] + tail
            case _:
                data = head + tail[1 + length % 64 :]
    return data


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: type(example).__name__)
def test_any_bytes_give_a_message_or_the_one_error(example: Message) -> None:
    """1,000 examples per message: random bytes, random bytes behind a valid beginning, and a valid message mutated."""
    valid, limits = encode(example), limits_of(type(example))
    accepted = 0

    @settings(max_examples=1000)
    @given(st.integers(0, 5), st.binary(max_size=60))
    def check(beginning: int, junk: bytes) -> None:
        nonlocal accepted
        data = valid[:beginning] + junk if beginning < 4 else mutate(valid, junk[:12])
        try:
            result = decode(data, limits)
        except RemoteProtocolError:
            return
        assert encode(result) == data
        accepted += data != valid

    check()
    assert accepted > 0  # else nothing near a valid message would have been tried


def test_the_wire_format_is_the_documented_one() -> None:
    assert encode(Confirmation(b"m" * 32)) == b"\x03" + b"\x92\x04" + b"\xc4\x20" + b"m" * 32
    assert encode(HELLO) == (
        b"\x03" + b"\x96\x01" + b"\xc4\x20" + b"d" * 32 + b"\xc4\x10" + b"r" * 16 + b"\xa2c0"
        b"\xc4\x20" + b"e" * 32 + b"\xc4\x40" + b"s" * 64
    )  # fmt: skip
    shown = Broadcast.of(("c0", "c1", "c2"), 3, {"c1": b"nonce678"}, b"xyz")
    assert encode(shown) == b"\x03" + b"\x95\x07\x03" + b"\xc4\x01\x02" + b"\xc4\x08nonce678" + b"\xc4\x03xyz"
    assert encode(Proposal(2, b"s" * 16, b"box")) == b"\x03" + b"\x94\x0a\x02" + b"\xc4\x10" + b"s" * 16 + b"\xc4\x03box"
    assert encode(Parameters(2, "c0", b"s" * 16, b"box")) == (
        b"\x03" + b"\x95\x0b\x02" + b"\xa2c0" + b"\xc4\x10" + b"s" * 16 + b"\xc4\x03box"
    )  # fmt: skip
    assert encode(Turn(1001)) == b"\x03" + b"\x92\x0c\xcd\x03\xe9"
    tags = {kind.__name__: kind.__struct_config__.tag for kind in MESSAGES}  # type: ignore[attr-defined]  # Structs
    assert tags == {
        "Hello": 1,
        "SealedKeys": 2,
        "Upload": 3,
        "Confirmation": 4,
        "Deal": 5,
        "KeyBox": 6,
        "Broadcast": 7,
        "Confirmations": 8,
        "Abort": 9,
        "Proposal": 10,
        "Parameters": 11,
        "Turn": 12,
    }


@pytest.mark.parametrize(
    ("what", "data"),
    [
        ("begins with nothing", b""),
        ("begins with 01; expected 03", b"\x01" + encode(UPLOAD)[1:]),
        ("trailing characters", encode(UPLOAD) + b"\x00"),
        ("truncated", encode(UPLOAD)[:-1]),
        ("Invalid value 13", b"\x03\x92\x0d\xa0"),
        ("of at most length", b"\x03\x93\x04\xc4\x20" + b"m" * 32 + b"\xc0"),
        ("of at least length", b"\x03\x91\x04"),
        ("`bytes` of length >= 32", encode(Confirmation(b"m" * 31))),
        ("`bytes` of length <= 32", encode(Confirmation(b"m" * 33))),
        ("Expected `bytes`, got `str`", b"\x03\x92\x04\xd9\x20" + b"m" * 32),
        ("Expected `int`, got `bool`", encode(UPLOAD).replace(b"\x94\x03\x01", b"\x94\x03\xc3")),
        ("`int` >= 1", encode(Upload(0, UPLOAD.nonce, UPLOAD.payload))),
        ("`int` <= 1000", encode(Upload(1001, UPLOAD.nonce, UPLOAD.payload))),
        ("payload of a message has 55 bytes; in round 1 of this run each has 56", encode(Upload(1, UPLOAD.nonce, bytes(55)))),
        ("payload of a message has 57 bytes; in round 1 of this run each has 56", encode(Broadcast(1, b"\0", b"", bytes(57)))),
        ("for round 2 have 24 bytes; expected none in this run", encode(Proposal(2, bytes(16), bytes(24)))),
        ("for round 9 have 24 bytes; expected none", encode(Parameters(9, "c0", bytes(16), bytes(24)))),
        ("`int` >= 2", encode(Turn(1))),
        ("`int` <= 1001", encode(Turn(1002))),
        ("names a set that is not one of 3 clients", encode(Broadcast(1, b"\x08", bytes(8), bytes(56)))),
        ("names a set that is not one of 3 clients", encode(Broadcast(1, b"\x01\x00", bytes(8), bytes(56)))),
        ("has 9 bytes of nonces for 1 clients; expected 8 for each", encode(Broadcast(1, b"\x02", bytes(9), bytes(56)))),
        ("not in its shortest encoding", encode(UPLOAD).replace(b"\x94\x03\x01", b"\x94\x03\xcc\x01")),
        ("matching regex", encode(msgspec.structs.replace(HELLO, name="c0\n"))),
        ("matching regex", encode(msgspec.structs.replace(HELLO, name=""))),
        ("matching regex", encode(msgspec.structs.replace(HELLO, name="a" * 65))),
        ("matching regex", encode(Abort("a line\x1b[2Jthat clears the terminal"))),
        ("cannot be read", encode(HELLO).replace(b"\xa2c0", b"\xa2\xff\xfe")),
        ("in this run none has more than", bytes(LIMITS.max_bytes + 1)),
    ],
)
def test_what_is_wrong_with_a_message_is_said(what: str, data: bytes) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        decode(data, LIMITS)
    assert what in str(caught.value)


@pytest.mark.parametrize(
    "data",
    [
        b"\x03\x92\x02\xdd\xff\xff\xff\xff",  # four thousand million boxes
        b"\x03\xdd\xff\xff\xff\xff\x01",
        b"\x03\x92\x05\xdc\x03\xe9",  # 1001 hellos
        b"\x03\x94\x03\x01\xc4\x08nonce678\xc6\xff\xff\xff\xff",  # a payload of 4 GiB
        b"\x03\x92\x09\xdb\xff\xff\xff\xff",
        b"\x03" + b"\x91" * 1500,  # arrays in arrays
        b"\x03\x92\x02" + b"\x91" * 1500,
    ],
)
def test_sizes_a_message_claims_are_never_allocated(data: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError):
            decode(data, LIMITS)
        assert tracemalloc.get_traced_memory()[1] < 20_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("n_clients", [2, 30, 500])
def test_no_message_of_a_run_is_longer_than_its_bound(n_clients: int) -> None:
    everyone = [f"{i:064d}" for i in range(n_clients)]
    plan = make_plan(n_clients, names=everyone)
    payload = bytes(Limits.of(plan).payload_bytes[0])
    hello = msgspec.structs.replace(HELLO, name=everyone[0])
    longest: list[Message] = [
        hello,
        SealedKeys(tuple((name, bytes(60)) for name in everyone)),
        Upload(1000, bytes(8), payload),
        Confirmation(bytes(32)),
        Deal((hello,) * n_clients),
        KeyBox(hello, tuple(everyone), bytes(60)),
        Broadcast.of(everyone, 1000, dict.fromkeys(everyone, bytes(8)), payload),
        Confirmations(tuple((name, bytes(32)) for name in everyone)),
        Abort("x" * MAX_REASON),
        Turn(1001),
    ]
    with_boxes = make_plan(n_clients, names=everyone, algorithm=MOMENTLLOYD, n_clusters=1, n_features=1)
    number, size = max(Limits.of(with_boxes).box_bytes.items(), key=lambda item: item[1])
    boxes: list[Message] = [Proposal(number, bytes(16), bytes(size)), Parameters(number, everyone[0], bytes(16), bytes(size))]
    assert {type(message) for message in [*longest, *boxes]} == set(MESSAGES)
    for run, messages in ((plan, longest), (with_boxes, boxes)):
        for message in messages:
            data = encode(message)
            assert len(data) <= Limits.of(run).max_bytes
            assert decode(data, Limits.of(run)) == message


def test_in_the_round_of_the_loss_a_payload_is_one_number_and_the_checksum() -> None:
    plan = make_plan(3, estimate_loss=True)
    limits = Limits.of(plan)
    assert limits.payload_bytes == (56, 56, 56, 16)
    assert limits.max_bytes == LIMITS.max_bytes
    shown: list[Upload | Broadcast] = [Upload(4, b"nonce678", bytes(16)), Broadcast(4, b"\0", b"", bytes(16))]
    for message in shown:
        assert decode(encode(message), limits) == message
        for number, length in ((4, 56), (3, 16), (4, 24), (4, 8), (5, 16)):
            with pytest.raises(RemoteProtocolError, match=f"payload of a message has {length} bytes; in round {number} of"):
                decode(encode(msgspec.structs.replace(message, round=number, payload=bytes(length))), limits)
