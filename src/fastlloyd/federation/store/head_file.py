"""Head file `NAME.store-head`: a second copy of a store's newest position. It reveals that a store
has lost steps.

If SQLite's write-ahead log is damaged, SQLite treats the part before the damage as the whole log,
and shows an older store that looks sound. The head file contains the length of the chain after the
last step, and its head. It has two slots, written in turn, and a step is taken only when its slot
is on disk. So a power cut spoils at most the slot that is being written. The file contains no
secret.
"""

import errno
import hashlib
import os
import struct
import sys
from pathlib import Path
from typing import Final, Self

from fastlloyd.base.files import sync_folder
from fastlloyd.errors import DAMAGED_STORE, StateError
from fastlloyd.federation.store.events import LogPosition

SUFFIX: Final = "-head"
SPACING: Final = 4096  # bytes between the slots; no drive writes both at once
_LABEL: Final = b"fastlloyd/v1/store-head\0"
_SAID: Final = struct.Struct(f">{len(_LABEL)}sQ32s")  # a SHA-256 of these bytes follows
SLOT_BYTES: Final = _SAID.size + 32
_READINGS: Final = 5  # number of attempts: a slot may be unreadable while another process writes it


def head_path(path: Path) -> Path:
    """Return the path of the head file of the store at `path`."""
    return path.with_name(path.name + SUFFIX)


def remembered(path: Path) -> LogPosition | None:
    """Return the newest position in the head file of the store at `path`, or None if there is no
    such file.

    Call this before you read the store. A process that uses the store writes first to the store and
    then to the head file. So a position that was read before the store is never ahead of the store.

    Raises StateError if neither slot can be read.
    """
    for _ in range(_READINGS):
        try:
            known = [
                position
                for position in _slots(head_path(path).read_bytes())
                if position is not None
            ]
        except FileNotFoundError:
            return None
        if known:
            return max(known, key=lambda position: position.length)
    raise StateError(
        f"{head_path(path)} is damaged, so it is unknown whether {path.name} is the newest state;"
        " neither was changed: keep both, and see docs/how-to/ledger.md",
        code=DAMAGED_STORE,
    )


def create(path: Path, position: LogPosition) -> None:
    """Make the head file of the store at `path`, durably. An existing head file is replaced."""
    beside = path.with_name(path.name + SUFFIX + "-new")
    beside.unlink(missing_ok=True)
    descriptor = os.open(
        beside, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600
    )
    try:
        _write(descriptor, _slot(position).ljust(SPACING, b"\0") * 2)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    beside.replace(head_path(path))
    sync_folder(path.parent)


class HeadFile:
    """Head file of a store that this process uses."""

    def __init__(self, path: Path) -> None:
        """Open the head file of the store at `path`. Raises OSError if it cannot be written."""
        flags = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        self._descriptor = os.open(head_path(path), flags)
        first, second = (
            -1 if known is None else known.length
            for known in _slots(os.read(self._descriptor, 2 * SPACING))
        )
        self._next = int(second <= first)

    @classmethod
    def of(cls, path: Path, known: LogPosition, now: LogPosition) -> Self:
        """Open the head file of a store, and bring it up to date if it is behind.

        path : path of the store.
        known : position in the head file.
        now : position of the store.
        """
        file = cls(path)
        if known != now:
            file.note(now)
        return file

    def note(self, position: LogPosition) -> None:
        """Make `position` durable in the older slot. Raises OSError if the disk fails."""
        write_at(self._descriptor, self._next * SPACING, _slot(position))
        self._next ^= 1

    def close(self) -> None:
        """Close the file. Call this once."""
        os.close(self._descriptor)


def write_at(descriptor: int, at: int, data: bytes) -> None:
    """Write all of the data at this offset, and sync it. Raises OSError if the disk fails."""
    os.lseek(descriptor, at, os.SEEK_SET)
    _write(descriptor, data)
    _sync(descriptor)


def _write(descriptor: int, data: bytes) -> None:
    """Write all of the data. Raises OSError if the disk is full and takes only a part."""
    if os.write(descriptor, data) != len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _slot(position: LogPosition) -> bytes:
    said = _SAID.pack(_LABEL, position.length, position.head)
    return said + hashlib.sha256(said).digest()


def _slots(content: bytes) -> list[LogPosition | None]:
    """Return the position in each slot, or None for a slot that is damaged or half written."""
    known: list[LogPosition | None] = []
    for at in (0, SPACING):
        said, checksum = content[at : at + _SAID.size], content[at + _SAID.size : at + SLOT_BYTES]
        is_whole = said.startswith(_LABEL) and hashlib.sha256(said).digest() == checksum
        known.append(LogPosition(*_SAID.unpack(said)[1:]) if is_whole else None)
    return known


if sys.platform == "linux":
    _sync = os.fdatasync
elif sys.platform == "darwin":

    def _sync(descriptor: int) -> None:
        import fcntl

        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)  # through the drive's own cache

else:
    _sync = os.fsync
