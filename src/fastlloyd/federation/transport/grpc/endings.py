"""Why a client ends in the midst of a run, as the server's log says it.

A client sends a number, and the sentences are the server's own.
"""

from enum import IntEnum
from typing import Final

from fastlloyd.errors import (
    DataError,
    EngineError,
    OldServerError,
    OldStoreError,
    StateError,
)


class Ending(IntEnum):
    """Codes of the frame Stop."""

    OTHER = 0
    STOPPED = 1
    OLD_SERVER = 2
    OLD_STORE = 3
    STORE_FAILED = 4
    RECORDS_FAILED = 5
    SERVER_REFUSED = 6


_SENTENCES: Final = {
    Ending.OTHER: "it met an error of its own, which its own screen shows",
    Ending.STOPPED: "it was stopped on its own machine, and may go on",
    Ending.OLD_SERVER: (
        "it holds this server's store for an old copy, which has forgotten a sum that this client"
        " has opened; stop this server and go on with the newest copy of its store, or end the run"
        " and renew the plan"
    ),
    Ending.OLD_STORE: (
        "its own store is an old copy, or not the store that this server saw under its identity"
    ),
    Ending.STORE_FAILED: "its own store cannot be used or written, as where a disk is full",
    Ending.RECORDS_FAILED: "it cannot read its records, or pass over them",
    Ending.SERVER_REFUSED: (
        "it refuses what this server sent as against the protocol; its own screen says what"
    ),
}
GAVE_UP: Final = "it waited for this server as long as the plan lets it"
"""Why a client leaves for good that says nothing else."""

_KINDS: Final = (
    (OldServerError, Ending.OLD_SERVER),
    (OldStoreError, Ending.OLD_STORE),
    (StateError, Ending.STORE_FAILED),
    ((DataError, EngineError), Ending.RECORDS_FAILED),
)


def ending_of(error: BaseException) -> Ending:
    """Return the code for what a client failed with."""
    return next((code for kind, code in _KINDS if isinstance(error, kind)), Ending.OTHER)


def sentence(code: int) -> str:
    """Say what a code means: the end of a sentence about the client."""
    known = code if code in set(Ending) else Ending.OTHER
    return _SENTENCES[Ending(known)]
