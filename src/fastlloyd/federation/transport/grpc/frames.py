"""Frames of a client's stream, and their encoding: one version byte, then MessagePack. Most frames
contain one message of the protocol.

Any bytes decode to a frame or raise RemoteProtocolError. This module does not parse the messages in
frames.
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

# In version 1, positions were not signed. In version 2, there was no Stop, and Leave was not
# signed.
FRAME_VERSION: Final = 3
PROCESS_BYTES: Final = 16
ProcessId = Annotated[bytes, Meta(min_length=PROCESS_BYTES, max_length=PROCESS_BYTES)]
# upper bound of the length of all parts of a frame except its message or reason
FRAME_BYTES: Final = 192


class _Frame(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Base of all frames. The encoding is an array: the tag, a number that identifies the class,
    and then the fields in order.
    """


class Attach(_Frame, frozen=True, tag=1):
    """First frame of a client on a stream, sent once: it takes part in this run.

    plan_digest : digest of the plan.
    run_id : id of the run.
    log : position of the client's store, signed by the client.
    process : random number that the client's process drew when it started.
    """

    plan_digest: Digest
    run_id: RunId
    log: SignedPosition
    process: ProcessId


class Post(_Frame, frozen=True, tag=2):
    """Frame of a client with a message.

    log : position of the client's store when it sent the message, signed by the client.
    message : bytes of the message.
    """

    log: SignedPosition
    message: bytes


class Leave(_Frame, frozen=True, tag=3):
    """Frame of a client: the run has ended for it, and its store says so. A client that will come
    back ends its stream without this frame.

    hello : digest of the Hello with which the client joined.
    signature : signature of the client's identity on `roster.leave_statement`.
    """

    hello: Digest
    signature: Annotated[bytes, Meta(min_length=SIGNATURE_BYTES, max_length=SIGNATURE_BYTES)]


class Stop(_Frame, frozen=True, tag=7):
    """Frame of a client: its process ends in the middle of a run. Only Leave may follow.

    code : number of the reason (`endings.py`).
    """

    code: Annotated[int, Meta(ge=0, le=255)]


class Attached(_Frame, frozen=True, tag=4):
    """First frame of the server.

    log : last position of the client's store that the server remembers.
    """

    log: LogPosition


class Answer(_Frame, frozen=True, tag=5):
    """Frame of the server with a message of the protocol."""

    message: bytes


class Refused(_Frame, frozen=True, tag=6):
    """Last frame of the server: it refuses this client, for this reason."""

    reason: Reason


class Waiting(_Frame, frozen=True, tag=8):
    """Frame of the server: the step still lacks answers. Valid until the next Answer.

    n_clients : number of clients that have not answered.
    """

    n_clients: Annotated[int, Meta(ge=0, le=MAX_CLIENTS)]


class Twice(_Frame, frozen=True, tag=9):
    """Frame of the server: another process with the client's identity was connected until now.

    host : host of the other process.
    """

    host: Reason


ClientFrame = Attach | Post | Leave | Stop
ServerFrame = Attached | Answer | Refused | Waiting | Twice
Frame = TypeVar("Frame", ClientFrame, ServerFrame)

_ENCODER = msgspec.msgpack.Encoder()
_VERSION = bytes([FRAME_VERSION])


def max_frame_bytes(limits: Limits) -> int:
    """Return the largest length of a frame of a run, in bytes. A stream receives no longer
    frame.
    """
    return limits.max_bytes + FRAME_BYTES


def encode_frame(frame: ClientFrame | ServerFrame) -> bytes:
    """Return the encoding of `frame`. No other bytes decode to an equal frame."""
    return _VERSION + _ENCODER.encode(frame)


def _decode(decoder: "msgspec.msgpack.Decoder[Frame]", data: bytes, limits: Limits) -> Frame:
    """Return the frame that `data` encodes.

    Raises RemoteProtocolError if `data` is not what `encode_frame` writes in such a run.
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
