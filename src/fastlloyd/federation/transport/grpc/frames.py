"""Frames of a client's stream: one version byte, then MessagePack. Most frames carry one message of
the protocol.

Decoding is total: any bytes give a frame or RemoteProtocolError. This module does not parse
messages.
"""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Final, TypeVar

import msgspec
from msgspec import Meta

from fastlloyd.errors import RemoteProtocolError
from fastlloyd.federation.identity.parties import MAX_CLIENTS
from fastlloyd.federation.positions import SignedPosition
from fastlloyd.federation.protocol.messages import Digest, Limits, Reason, RunId
from fastlloyd.federation.secagg.keys import SIGNATURE_BYTES
from fastlloyd.federation.store.events import LogPosition

# 1: positions were not signed; 2: no word on why a client stops, and Leave was not signed
FRAME_VERSION: Final = 3
PROCESS_BYTES: Final = 16
ProcessId = Annotated[bytes, Meta(min_length=PROCESS_BYTES, max_length=PROCESS_BYTES)]
FRAME_BYTES: Final = 192  # more than everything in a frame but its message or reason


class _Frame(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Array of a number, which says what kind of frame this is, and the fields in order."""


class Attach(_Frame, frozen=True, tag=1):
    """Client, first and once per stream: I take part in this run, my log is at this signed
    position, and this process drew this number when it began.
    """

    plan_digest: Digest
    run_id: RunId
    log: SignedPosition
    process: ProcessId


class Post(_Frame, frozen=True, tag=2):
    """Client: this is a message, and the position of my log when I sent it."""

    log: SignedPosition
    message: bytes


class Leave(_Frame, frozen=True, tag=3):
    """Client: the run that I joined with this Hello is over for me, durably. Signed by my identity
    (`roster.leave_statement`). A client that will come back ends its stream without this frame.
    """

    hello: Digest
    signature: Annotated[bytes, Meta(min_length=SIGNATURE_BYTES, max_length=SIGNATURE_BYTES)]


class Stop(_Frame, frozen=True, tag=7):
    """Client, last, or before Leave: this process ends in the middle of a run, for the reason with
    this code (`endings.py`).
    """

    code: Annotated[int, Meta(ge=0, le=255)]


class Attached(_Frame, frozen=True, tag=4):
    """Server, first: this is the last position that I remember of the client's log."""

    log: LogPosition


class Answer(_Frame, frozen=True, tag=5):
    """Server: a message of the protocol."""

    message: bytes


class Refused(_Frame, frozen=True, tag=6):
    """Server, last: I do not continue with this client, for this reason."""

    reason: Reason


class Waiting(_Frame, frozen=True, tag=8):
    """Server: this step still lacks the answers of n_clients clients. Valid until the next
    Answer.
    """

    n_clients: Annotated[int, Meta(ge=0, le=MAX_CLIENTS)]


class Twice(_Frame, frozen=True, tag=9):
    """Server: until now another process with your identity was connected, from this host."""

    host: Reason


ClientFrame = Attach | Post | Leave | Stop
ServerFrame = Attached | Answer | Refused | Waiting | Twice
Frame = TypeVar("Frame", ClientFrame, ServerFrame)

_ENCODER = msgspec.msgpack.Encoder()
_VERSION = bytes([FRAME_VERSION])


def max_frame_bytes(limits: Limits) -> int:
    """Return the largest length of a frame of a run, the receive limit of a stream."""
    return limits.max_bytes + FRAME_BYTES


def encode_frame(frame: ClientFrame | ServerFrame) -> bytes:
    """Return the only encoding of `frame`."""
    return _VERSION + _ENCODER.encode(frame)


def _decode(decoder: "msgspec.msgpack.Decoder[Frame]", data: bytes, limits: Limits) -> Frame:
    """Read a peer's frame. Raises RemoteProtocolError for bytes that `encode_frame` would not
    write.
    """
    if len(data) > max_frame_bytes(limits):
        raise RemoteProtocolError(
            f"a frame has {len(data)} bytes; in this run none has more than"
            f" {max_frame_bytes(limits)}"
        )
    if data[:1] != _VERSION:
        raise RemoteProtocolError(
            f"a frame begins with {data[:1].hex() or 'nothing'}; expected {_VERSION.hex()}: "
            f"this version of fastlloyd speaks version {FRAME_VERSION} of the frames; install the"
            " same version on both sides"
        )
    try:
        frame = decoder.decode(memoryview(data)[1:])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise RemoteProtocolError(f"a frame of {len(data)} bytes cannot be read: {error}") from None
    if encode_frame(frame) != data:
        raise RemoteProtocolError(
            f"a frame {type(frame).__name__} is not in its shortest encoding; a correct party"
            " never sends this"
        )
    return frame


decode_client_frame: Callable[[bytes, Limits], ClientFrame] = partial(
    _decode, msgspec.msgpack.Decoder(ClientFrame)
)
decode_server_frame: Callable[[bytes, Limits], ServerFrame] = partial(
    _decode, msgspec.msgpack.Decoder(ServerFrame)
)
