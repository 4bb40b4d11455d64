"""Frames: any bytes give a frame or a refusal, and what they add to a message is little."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastlloyd.errors import RemoteProtocolError
from fastlloyd.federation.positions import MAX_EVENTS, SignedPosition
from fastlloyd.federation.protocol.messages import Broadcast, Limits, Upload, encode, printable
from fastlloyd.federation.store.events import LogPosition
from fastlloyd.federation.transport.grpc.frames import (
    FRAME_BYTES,
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
    decode_client_frame,
    decode_server_frame,
    encode_frame,
    max_frame_bytes,
)
from federation import make_plan

PLAN = make_plan(3)
LIMITS = Limits.of(PLAN)
MANY = SignedPosition(MAX_EVENTS, bytes(range(32)), bytes(range(64)))
CLIENT_FRAMES: list[ClientFrame] = [
    Attach(bytes(32), bytes(16), MANY, bytes(16)),
    Post(MANY, b"message"),
    Leave(bytes(32), bytes(64)),
    Stop(0),
    Stop(255),
]
SERVER_FRAMES: list[ServerFrame] = [
    Attached(LogPosition(0, bytes(32))),
    Answer(b"message"),
    Refused("no"),
    Waiting(1000),
    Twice("192.0.2.7"),
]


@pytest.mark.parametrize("frame", CLIENT_FRAMES, ids=lambda frame: type(frame).__name__)
def test_what_a_client_encodes_the_server_decodes(frame: ClientFrame) -> None:
    assert decode_client_frame(encode_frame(frame), LIMITS) == frame
    with pytest.raises(RemoteProtocolError):
        decode_server_frame(encode_frame(frame), LIMITS)


@pytest.mark.parametrize("frame", SERVER_FRAMES, ids=lambda frame: type(frame).__name__)
def test_what_the_server_encodes_a_client_decodes(frame: ServerFrame) -> None:
    assert decode_server_frame(encode_frame(frame), LIMITS) == frame
    with pytest.raises(RemoteProtocolError):
        decode_client_frame(encode_frame(frame), LIMITS)


@given(st.binary(max_size=200))
def test_any_bytes_give_a_frame_or_a_refusal(data: bytes) -> None:
    for tail in (data, b"\x03" + data):
        for decode in (decode_client_frame, decode_server_frame):
            try:
                frame = decode(tail, LIMITS)
            except RemoteProtocolError:
                continue
            assert encode_frame(frame) == tail


@given(st.sampled_from([*CLIENT_FRAMES, *SERVER_FRAMES]), st.data())
def test_a_frame_that_is_cut_or_continued_is_refused(
    frame: ClientFrame | ServerFrame, data: st.DataObject
) -> None:
    whole = encode_frame(frame)
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    for other in (cut, whole + data.draw(st.binary(min_size=1, max_size=9))):
        for decode in (decode_client_frame, decode_server_frame):
            with pytest.raises(RemoteProtocolError):
                decode(other, LIMITS)


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ([1, bytes(31), bytes(16), [0, bytes(32), bytes(64)], bytes(16)], "length >= 32"),
        ([1, bytes(32), bytes(17), [0, bytes(32), bytes(64)], bytes(16)], "length <= 16"),
        ([1, bytes(32), bytes(16), [-1, bytes(32), bytes(64)], bytes(16)], ">= 0"),
        (
            [1, bytes(32), bytes(16), [(1 << 32) + 1, bytes(32), bytes(64)], bytes(16)],
            "<= 4294967296",
        ),
        ([1, bytes(32), bytes(16), [0, bytes(32)], bytes(16)], "length"),
        ([1, bytes(32), bytes(16), [0, bytes(32), bytes(64)], bytes(15)], "length >= 16"),
        ([3, bytes(32), bytes(63)], "length >= 64"),
        ([3, bytes(31), bytes(64)], "length >= 32"),
        ([3, bytes(64), 0], "length"),
        ([3], "length"),
        ([7, 256], "<= 255"),
        ([7, -1], ">= 0"),
        ([7, "a reason of a client's own"], "int"),
        ([10], "Invalid value 10"),
    ],
)
def test_a_frame_with_a_field_that_is_wrong_is_refused(fields: list[object], what: str) -> None:
    with pytest.raises(RemoteProtocolError, match=what):
        decode_client_frame(b"\x03" + msgspec.msgpack.encode(fields), LIMITS)


def test_a_longer_encoding_of_the_same_frame_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="shortest"):
        decode_client_frame(b"\x03\xdc\x00\x02\x07\x01", LIMITS)


def test_a_frame_of_another_version_is_named() -> None:
    with pytest.raises(
        RemoteProtocolError,
        match="01; expected 03",
    ):
        decode_client_frame(b"\x01" + encode_frame(Leave(bytes(32), bytes(64)))[1:], LIMITS)


def test_no_frame_is_longer_than_the_longest_and_a_longer_one_is_refused() -> None:
    longest = bytes(LIMITS.max_bytes)
    for frame in (
        Post(MANY, longest),
        Answer(longest),
        Attach(bytes(32), bytes(16), MANY, bytes(16)),
        Refused(printable("x" * 10_000)),
    ):
        assert len(encode_frame(frame)) <= max_frame_bytes(LIMITS)
    assert len(encode_frame(Post(MANY, b""))) < FRAME_BYTES
    for decode in (decode_client_frame, decode_server_frame):
        with pytest.raises(RemoteProtocolError, match=f"none.*more than {max_frame_bytes(LIMITS)}"):
            decode(b"\x03" + bytes(max_frame_bytes(LIMITS)), LIMITS)


def test_a_reason_is_cut_and_cleaned_for_the_terminal_it_is_shown_on() -> None:
    assert Refused(printable("no\x1b[31m, \N{SNOWMAN}\n")).reason == "no?[31m, ??"
    frame = Refused(printable("x" * 10_000))
    assert decode_server_frame(encode_frame(frame), LIMITS) == frame
    assert len(frame.reason) == 500


@pytest.mark.parametrize("n_clusters", [2, 40])
@pytest.mark.parametrize("n_clients", [2, 5, 50])
def test_a_round_costs_a_client_its_words_and_little_more_in_either_direction(
    n_clients: int, n_clusters: int
) -> None:
    names = tuple(f"client-{i}" for i in range(n_clients))
    plan = make_plan(names=names, n_clusters=n_clusters, ring_bits=64)
    words = bytes(plan.n_words(plan.mechanism.rounds[0]) * 8)
    up = encode_frame(Post(MANY, encode(Upload(1000, bytes(8), words))))
    assert len(up) - len(words) <= 142
    down = encode_frame(
        Answer(encode(Broadcast.of(names, 1000, dict.fromkeys(names, bytes(8)), words)))
    )
    # a bit per client, and of each in the sum the nonce of its upload
    assert len(down) - len(words) - 8 * n_clients - (n_clients + 7) // 8 <= 32
