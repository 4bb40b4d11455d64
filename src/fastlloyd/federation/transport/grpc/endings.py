"""Reasons for which a client ends in the middle of a run, for the server's log.

A client sends a number, and the server has the sentence for each number.
"""

from enum import IntEnum
from typing import Final

from fastlloyd.errors import DataError, EngineError, OldServerError, OldStoreError, StateError


class StopCode(IntEnum):
    """Codes of the frame Stop: the reason for which a client ends."""

    OTHER = 0
    STOPPED = 1
    OLD_SERVER = 2
    OLD_STORE = 3
    STORE_FAILED = 4
    RECORDS_FAILED = 5
    SERVER_REFUSED = 6


_SENTENCES: Final = {
    StopCode.OTHER: "the client met an error, which its own screen shows",
    StopCode.STOPPED: "the client was stopped on its own machine, and may go on",
    StopCode.OLD_SERVER: (
        "this server's store is an old copy: it lacks a sum that the client has"
        " opened; stop this server and go on with the newest copy of its store, or"
        " end the run and renew the plan"
    ),
    StopCode.OLD_STORE: (
        "the client's store is an old copy, or not the store that this server saw"
        " under its identity"
    ),
    StopCode.STORE_FAILED: "the client's store cannot be used or written; its disk may be full",
    StopCode.RECORDS_FAILED: "the client cannot read its records",
    StopCode.SERVER_REFUSED: (
        "the client refused a message of this server that breaks the protocol; the"
        " client's screen says which"
    ),
}
GAVE_UP: Final = "the client waited for this server as long as the plan allows"
"""Reason of a client that leaves permanently and gives no other reason."""

_KINDS: Final = (
    (OldServerError, StopCode.OLD_SERVER),
    (OldStoreError, StopCode.OLD_STORE),
    (StateError, StopCode.STORE_FAILED),
    ((DataError, EngineError), StopCode.RECORDS_FAILED),
)


def stop_code_of(error: BaseException) -> StopCode:
    """Return the code for the error with which a client ended."""
    return next((code for kind, code in _KINDS if isinstance(error, kind)), StopCode.OTHER)


def sentence(code: int) -> str:
    """Return the meaning of a code, as the end of a sentence about the client. An unknown code is
    treated as OTHER.
    """
    known = code if code in set(StopCode) else StopCode.OTHER
    return _SENTENCES[StopCode(known)]
