"""One message, one encoding; and whatever else arrives is refused with the one error for that,
without a large allocation.
"""

import random
import tracemalloc
from typing import TypeVar

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from fastlloyd.errors import RemoteProtocolError
from fastlloyd.federation.protocol.messages import (
    MAX_REASON,
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
    decode,
    encode,
)
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD
from federation import BEGINNING, make_plan

PLAN = make_plan(3)
LIMITS = Limits.of(PLAN)
WITH_BOXES = make_plan(3, algorithm=MOMENTLLOYD, n_clusters=1, n_features=1)
BOX_BYTES = Limits.of(WITH_BOXES).box_bytes[2]

names = st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
rounds = st.integers(1, 1000)
V = TypeVar("V")


def exactly(n: int) -> st.SearchStrategy[bytes]:
    return st.binary(min_size=n, max_size=n)


def several(values: st.SearchStrategy[V]) -> st.SearchStrategy[tuple[V, ...]]:
    return st.lists(values, max_size=3).map(tuple)


def long(n: int) -> st.SearchStrategy[bytes]:
    """Exactly n bytes, of which the first four and the last four vary: more would take hypothesis
    too long to draw.
    """
    return st.tuples(exactly(4), exactly(4)).map(lambda ends: ends[0] + bytes(n - 8) + ends[1])


PAYLOAD_BYTES = LIMITS.payload_bytes[0]
payloads = exactly(PAYLOAD_BYTES)
hellos = st.builds(
    Hello, exactly(32), exactly(16), names, exactly(32), long(1184), exactly(32), exactly(64)
)
MESSAGES: dict[type, st.SearchStrategy[Message]] = {
    Hello: hellos,
    SealedKeys: st.builds(
        SealedKeys,
        exactly(32),
        st.none() | exactly(32),
        several(long(1184)),
        several(exactly(60)),
    ),
    Upload: st.builds(Upload, rounds, exactly(8), payloads),
    Confirmation: st.builds(Confirmation, exactly(32), exactly(64)),
    Deal: st.builds(Deal, exactly(16), st.integers(1, 1000), several(hellos)),
    KeyBox: st.builds(
        KeyBox, exactly(32), exactly(32), several(long(1184)), st.none() | exactly(60)
    ),
    Ready: st.builds(Ready, exactly(32), rounds, exactly(64)),
    AllReady: st.builds(AllReady, exactly(32), rounds, several(exactly(64))),
    BadKeys: st.builds(BadKeys, exactly(32), st.lists(names, min_size=1, max_size=3).map(tuple)),
    Broadcast: st.builds(
        Broadcast.of,
        st.just(PLAN.names),
        rounds,
        st.dictionaries(st.sampled_from(PLAN.names), exactly(8)),
        payloads,
    ),
    Confirmations: st.builds(Confirmations, several(st.tuples(names, exactly(32), exactly(64)))),
    Abort: st.builds(
        Abort, st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=MAX_REASON)
    ),
    Proposal: st.builds(Proposal, st.just(2), exactly(16), exactly(BOX_BYTES), exactly(64)),
    Parameters: st.builds(
        Parameters, st.just(2), names, exactly(16), exactly(BOX_BYTES), exactly(64)
    ),
    Turn: st.builds(Turn, st.integers(2, 1001)),
}
KINDS = pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)

HELLO = Hello(b"d" * 32, b"r" * 16, "c0", b"e" * 32, b"k" * 1184, b"v" * 32, b"s" * 64)
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
    SealedKeys(b"d" * 32, b"g" * 32, (b"c" * 1184, b"C" * 1184), (b"b" * 60, b"B" * 60)),
    SealedKeys(b"d" * 32, None, (), ()),
    Ready(b"d" * 32, 1, b"s" * 64),
    AllReady(b"d" * 32, 1, (b"s" * 64, b"S" * 64)),
    BadKeys(b"d" * 32, ("c0",)),
    UPLOAD,
    Confirmation(b"m" * 32, b"s" * 64),
    Deal(BEGINNING, 1, (HELLO, msgspec.structs.replace(HELLO, name="c1"))),
    KeyBox(b"d" * 32, b"g" * 32, (b"c" * 1184,), b"b" * 60),
    KeyBox(b"d" * 32, b"g" * 32, (), None),
    Broadcast(2, b"\x05", b"nonce678nonce876", b"\x01" * PAYLOAD_BYTES),
    Confirmations((("c0", b"m" * 32, b"s" * 64), ("c2", b"M" * 32, b"S" * 64))),
    Abort("too few clients"),
    Proposal(2, b"s" * 16, b"b" * BOX_BYTES, b"S" * 64),
    Parameters(2, "c0", b"s" * 16, b"b" * BOX_BYTES, b"S" * 64),
    Turn(2),
]


def mutate(data: bytes, program: bytes) -> bytes:
    """Overwrite, insert, repeat or delete a few bytes, as often as the program says: what a fuzzer
    does to a valid message.
    """
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
    """1,000 examples per message: random bytes, random bytes behind a valid beginning, and a valid
    message mutated.
    """
    valid, limits = encode(example), limits_of(type(example))
    accepted = 0

    @settings(max_examples=4, phases=[Phase.generate])
    @given(
        st.integers(0, 2**64 - 1)
    )  # a seed: hypothesis would take a hundred times as long to draw as we to decode
    def check(seed: int) -> None:
        nonlocal accepted
        draw = random.Random(seed)  # noqa: S311 - what a fuzzer tries
        for _ in range(250):
            beginning, junk = (
                draw.randrange(6),
                draw.randbytes(draw.choice([draw.randrange(8), draw.randrange(61)])),
            )
            data = valid[:beginning] + junk if beginning < 4 else mutate(valid, junk[:12])
            try:
                result = decode(data, limits)
            except RemoteProtocolError:
                continue
            assert encode(result) == data
            accepted += data != valid

    check()
    assert accepted > 0  # else nothing near a valid message would have been tried


def test_the_wire_format_is_the_documented_one() -> None:
    signed = b"\xc4\x40" + b"S" * 64
    assert (
        encode(Confirmation(b"m" * 32, b"S" * 64))
        == b"\x05" + b"\x93\x04" + b"\xc4\x20" + b"m" * 32 + signed
    )
    assert encode(HELLO) == (
        b"\x05" + b"\x98\x01" + b"\xc4\x20" + b"d" * 32 + b"\xc4\x10" + b"r" * 16 + b"\xa2c0"
        b"\xc4\x20" + b"e" * 32 + b"\xc5\x04\xa0" + b"k" * 1184 + b"\xc4\x20" + b"v" * 32 + b"\xc4\x40" + b"s" * 64
    )  # fmt: skip
    digest, made, box = (
        b"\xc4\x20" + b"d" * 32,
        b"\xc5\x04\xa0" + b"c" * 1184,
        b"\xc4\x3c" + b"b" * 60,
    )
    commitment, g = b"\xc4\x20" + b"g" * 32, b"g" * 32
    assert encode(Deal(b"b" * 16, 2, (HELLO,))) == (
        b"\x05" + b"\x94\x05" + b"\xc4\x10" + b"b" * 16 + b"\x02" + b"\x91" + encode(HELLO)[1:]
    )  # fmt: skip
    assert encode(SealedKeys(b"d" * 32, g, (b"c" * 1184,), (b"b" * 60,))) == (
        b"\x05" + b"\x95\x02" + digest + commitment + b"\x91" + made + b"\x91" + box
    )  # fmt: skip
    assert encode(SealedKeys(b"d" * 32, None, (), ())) == (
        b"\x05" + b"\x95\x02" + digest + b"\xc0" + b"\x90" + b"\x90"
    )  # fmt: skip
    assert (
        encode(KeyBox(b"d" * 32, g, (b"c" * 1184,), b"b" * 60))
        == b"\x05" + b"\x95\x06" + digest + commitment + b"\x91" + made + box
    )
    assert (
        encode(KeyBox(b"d" * 32, g, (), None))
        == b"\x05" + b"\x95\x06" + digest + commitment + b"\x90" + b"\xc0"
    )
    assert (
        encode(Ready(b"d" * 32, 1, b"S" * 64)) == b"\x05" + b"\x94\x0d" + digest + b"\x01" + signed
    )
    assert (
        encode(AllReady(b"d" * 32, 1, (b"S" * 64,)))
        == b"\x05" + b"\x94\x0e" + digest + b"\x01" + b"\x91" + signed
    )
    assert encode(BadKeys(b"d" * 32, ("c0",))) == b"\x05" + b"\x93\x0f" + digest + b"\x91\xa2c0"
    assert encode(Confirmations((("c0", b"m" * 32, b"S" * 64),))) == (
        b"\x05" + b"\x92\x08" + b"\x91\x93\xa2c0" + b"\xc4\x20" + b"m" * 32 + signed
    )  # fmt: skip
    shown = Broadcast.of(("c0", "c1", "c2"), 3, {"c1": b"nonce678"}, b"xyz")
    assert (
        encode(shown)
        == b"\x05" + b"\x95\x07\x03" + b"\xc4\x01\x02" + b"\xc4\x08nonce678" + b"\xc4\x03xyz"
    )
    assert encode(Proposal(2, b"s" * 16, b"box", b"S" * 64)) == (
        b"\x05" + b"\x95\x0a\x02" + b"\xc4\x10" + b"s" * 16 + b"\xc4\x03box" + signed
    )  # fmt: skip
    assert encode(Parameters(2, "c0", b"s" * 16, b"box", b"S" * 64)) == (
        b"\x05" + b"\x96\x0b\x02" + b"\xa2c0" + b"\xc4\x10" + b"s" * 16 + b"\xc4\x03box" + signed
    )  # fmt: skip
    assert encode(Turn(1001)) == b"\x05" + b"\x92\x0c\xcd\x03\xe9"
    # Structs
    tags = {kind.__name__: kind.__struct_config__.tag for kind in MESSAGES}  # type: ignore[attr-defined]
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
        "Ready": 13,
        "AllReady": 14,
        "BadKeys": 15,
    }


@pytest.mark.parametrize(
    ("what", "data"),
    [
        ("begins with nothing", b""),
        ("begins with 03; expected 05", b"\x03" + encode(UPLOAD)[1:]),
        ("trailing characters", encode(UPLOAD) + b"\x00"),
        ("truncated", encode(UPLOAD)[:-1]),
        ("Invalid value 16", b"\x05\x92\x10\xa0"),
        (
            "of at most length",
            encode(Confirmation(b"m" * 32, b"s" * 64)).replace(b"\x93\x04", b"\x94\x04") + b"\xc0",
        ),
        ("of at least length", b"\x05\x91\x04"),
        ("`bytes` of length >= 32", encode(Confirmation(b"m" * 31, bytes(64)))),
        ("`bytes` of length <= 32", encode(Confirmation(b"m" * 33, bytes(64)))),
        (
            "Expected `bytes`, got `str`",
            b"\x05\x93\x04\xd9\x20" + b"m" * 32 + b"\xc4\x40" + bytes(64),
        ),
        ("Expected `int`, got `bool`", encode(UPLOAD).replace(b"\x94\x03\x01", b"\x94\x03\xc3")),
        ("`int` >= 1", encode(Upload(0, UPLOAD.nonce, UPLOAD.payload))),
        ("`int` <= 1000", encode(Upload(1001, UPLOAD.nonce, UPLOAD.payload))),
        (
            "payload of a message has 55 bytes; in round 1 of this run each has 56",
            encode(Upload(1, UPLOAD.nonce, bytes(55))),
        ),
        (
            "payload of a message has 57 bytes; in round 1 of this run each has 56",
            encode(Broadcast(1, b"\0", b"", bytes(57))),
        ),
        (
            "for round 2 have 24 bytes; expected none in this run",
            encode(Proposal(2, bytes(16), bytes(24), bytes(64))),
        ),
        (
            "for round 9 have 24 bytes; expected none",
            encode(Parameters(9, "c0", bytes(16), bytes(24), bytes(64))),
        ),
        (
            "`bytes` of length >= 1184",
            encode(msgspec.structs.replace(HELLO, encapsulation_key=bytes(1183))),
        ),
        (
            "`bytes` of length <= 1184",
            encode(msgspec.structs.replace(HELLO, encapsulation_key=bytes(1185))),
        ),
        ("`bytes` of length >= 1184", encode(SealedKeys(bytes(32), None, (bytes(1120),), ()))),
        ("`bytes` of length <= 1184", encode(KeyBox(bytes(32), bytes(32), (bytes(1185),), None))),
        ("`bytes` of length >= 60", encode(KeyBox(bytes(32), bytes(32), (), b""))),
        ("`bytes` of length >= 64", encode(Confirmations((("c0", bytes(32), bytes(63)),)))),
        ("`int` >= 2", encode(Turn(1))),
        ("`int` <= 1001", encode(Turn(1002))),
        (
            "expected one bit for each of its 3 clients",
            encode(Broadcast(1, b"\x08", bytes(8), bytes(56))),
        ),
        (
            "expected one bit for each of its 3 clients",
            encode(Broadcast(1, b"\x01\x00", bytes(8), bytes(56))),
        ),
        (
            "has 9 bytes of nonces for 1 clients; expected 8 for each",
            encode(Broadcast(1, b"\x02", bytes(9), bytes(56))),
        ),
        (
            "not in its shortest encoding",
            encode(UPLOAD).replace(b"\x94\x03\x01", b"\x94\x03\xcc\x01"),
        ),
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
        b"\x05\x94\x02\xc4\x20"
        + bytes(32)
        + b"\xdd\xff\xff\xff\xff",  # four thousand million ciphertexts
        b"\x05\x94\x02\xc4\x20" + bytes(32) + b"\x90\xdd\xff\xff\xff\xff",  # and as many boxes
        b"\x05\xdd\xff\xff\xff\xff\x01",
        b"\x05\x94\x05\xc4\x10" + BEGINNING + b"\x01\xdc\x03\xe9",  # 1001 hellos
        b"\x05\x94\x03\x01\xc4\x08nonce678\xc6\xff\xff\xff\xff",  # a payload of 4 GiB
        b"\x05\x92\x09\xdb\xff\xff\xff\xff",
        b"\x05" + b"\x91" * 1500,  # arrays in arrays
        b"\x05\x94\x02\xc4\x20" + bytes(32) + b"\x91" * 1500,
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
        SealedKeys(
            bytes(32),
            bytes(32),
            (bytes(1184),) * (n_clients - 1),
            (bytes(60),) * (n_clients - 1),
        ),
        Ready(bytes(32), 1000, bytes(64)),
        AllReady(bytes(32), 1000, (bytes(64),) * n_clients),
        BadKeys(bytes(32), tuple(everyone)),
        Upload(1000, bytes(8), payload),
        Confirmation(bytes(32), bytes(64)),
        Deal(BEGINNING, n_clients, (hello,) * n_clients),
        KeyBox(bytes(32), bytes(32), (bytes(1184),) * (n_clients - 1), bytes(60)),
        Broadcast.of(everyone, 1000, dict.fromkeys(everyone, bytes(8)), payload),
        Confirmations(tuple((name, bytes(32), bytes(64)) for name in everyone)),
        Abort("x" * MAX_REASON),
        Turn(1001),
    ]
    with_boxes = make_plan(
        n_clients, names=everyone, algorithm=MOMENTLLOYD, n_clusters=1, n_features=1
    )
    number, size = max(Limits.of(with_boxes).box_bytes.items(), key=lambda item: item[1])
    boxes: list[Message] = [
        Proposal(number, bytes(16), bytes(size), bytes(64)),
        Parameters(number, everyone[0], bytes(16), bytes(size), bytes(64)),
    ]
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
    shown: list[Upload | Broadcast] = [
        Upload(4, b"nonce678", bytes(16)),
        Broadcast(4, b"\0", b"", bytes(16)),
    ]
    for message in shown:
        assert decode(encode(message), limits) == message
        for number, length in ((4, 56), (3, 16), (4, 24), (4, 8), (5, 16)):
            with pytest.raises(
                RemoteProtocolError,
                match=f"{length} bytes.*round {number}",
            ):
                decode(
                    encode(msgspec.structs.replace(message, round=number, payload=bytes(length))),
                    limits,
                )
