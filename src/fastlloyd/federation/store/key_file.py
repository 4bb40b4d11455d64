"""File of keys `NAME.store-keys`. Under these keys a store seals the messages and secrets of its
open runs.

SQLite writes every page twice, into its log and into the file, and truncates the log without
overwriting it. So deleted content stays on the drive for a while. A store therefore seals messages
and secrets of a run under a key of the run. The key is in this file, in a slot of its own. A slot
is overwritten in place and synced: with the key before anything is sealed under it, and with zeros
after the commit that ends the run. Each slot has a checksum, so a slot that is half written because
of a power cut is never taken for a key.
"""

import hashlib
import os
import secrets
import stat
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Final

from fastlloyd.base.files import sync_folder
from fastlloyd.errors import StateError
from fastlloyd.federation.store.head_file import SPACING, write_at

SUFFIX: Final = "-keys"
KEY_BYTES: Final = 32
N_SLOTS: Final = 4
"""Number of slots of a new file. With more open runs the file grows by a slot. It never shrinks."""
_LABEL: Final = b"fastlloyd/v1/store-keys\0"
_SAID: Final = struct.Struct(f">{len(_LABEL)}s16s{KEY_BYTES}s")  # a SHA-256 of these bytes follows
SLOT_BYTES: Final = _SAID.size + 32
_FREE: Final = bytes(SLOT_BYTES)


def keys_path(path: Path) -> Path:
    """Return the path of the file of keys of the store at `path`."""
    return path.with_name(path.name + SUFFIX)


class KeyFile:
    """Keys of the open runs of a store that this process uses.

    The file is made when the first key is drawn. A ledger stores no messages, so it has no such
    file.
    """

    def __init__(self, path: Path) -> None:
        """Open the file of keys of the store at `path`, if there is one.

        Raises OSError if it cannot be written, and StateError if others can read it or if it has
        hard links.
        """
        self.path = keys_path(path)
        self._descriptor: int | None = None
        self._slots: list[_Slot | None] = []
        if os.path.lexists(self.path):
            self._open(0)

    def _open(self, flags: int) -> int:
        flags |= os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        descriptor = self._descriptor = os.open(self.path, flags, 0o600)
        try:
            self._check_access(descriptor)
            content = os.read(descriptor, os.fstat(descriptor).st_size)
            n_slots = max(N_SLOTS, -(-len(content) // SPACING))
            if missing := n_slots * SPACING - len(content):  # the file is new, or was cut off
                write_at(descriptor, len(content), bytes(missing))
                os.fsync(descriptor)  # makes the size of the file durable too
        except BaseException:
            self.close()
            raise
        self._slots = [_of_slot(content[at * SPACING :][:SLOT_BYTES]) for at in range(n_slots)]
        return descriptor

    def _check_access(self, descriptor: int) -> None:
        known = os.fstat(descriptor)
        if known.st_nlink > 1:
            raise StateError(f"{self.path} contains keys, but has hard links; remove the links")
        if os.name == "posix" and stat.S_IMODE(known.st_mode) & 0o077:
            raise StateError(
                f"{self.path} is open to others (mode {stat.S_IMODE(known.st_mode):o}); it holds"
                " keys: chmod 600 it and ask who read it"
            )

    @property
    def is_damaged(self) -> bool:
        """Return whether a slot contains neither a key nor zeros."""
        return any(slot is _TORN for slot in self._slots)

    def key(self, run_id: bytes) -> bytes | None:
        """Return the key of a run, 32 bytes, or None if it has none."""
        return next(
            (slot.key for slot in self._slots if slot is not None and slot.run_id == run_id), None
        )

    def add(self, run_id: bytes) -> bytes:
        """Draw a key for a run, and return it once it is durable. Raises OSError if the disk
        fails.
        """
        if (descriptor := self._descriptor) is None:
            descriptor = self._open(os.O_CREAT | os.O_EXCL)
            sync_folder(self.path.parent)
        if None not in self._slots:
            write_at(descriptor, len(self._slots) * SPACING, bytes(SPACING))
            os.fsync(descriptor)  # makes the size of the file durable too
            self._slots.append(None)
        key = secrets.token_bytes(KEY_BYTES)
        self._write(self._slots.index(None), _Slot(run_id, key))
        return key

    def destroy(self, is_over: Callable[[bytes], bool]) -> None:
        """Overwrite the keys of runs that have ended.

        is_over : function that returns whether the run with this id has ended. It is called with
            b"" for a damaged slot.

        Raises OSError if the disk fails.
        """
        for number, slot in enumerate(self._slots):
            if slot is not None and is_over(slot.run_id):
                self._write(number, None)

    def _write(self, number: int, slot: "_Slot | None") -> None:
        if self._descriptor is not None:
            content = _FREE if slot is None else slot.encoded()
            write_at(self._descriptor, number * SPACING, content)
        self._slots[number] = slot

    def close(self) -> None:
        """Close the file, if it is open."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


class _Slot:
    """Id of a run, and its key. The object has no representation, so printing it shows no key."""

    __slots__ = ("key", "run_id")

    def __init__(self, run_id: bytes, key: bytes) -> None:
        self.run_id, self.key = run_id, key

    def encoded(self) -> bytes:
        """Return the bytes of the slot."""
        said = _SAID.pack(_LABEL, self.run_id, self.key)
        return said + hashlib.sha256(said).digest()


_TORN: Final = _Slot(b"", b"")


def _of_slot(content: bytes) -> _Slot | None:
    """Return the content of a slot: None if the slot is free, and `_TORN` if it is damaged or half
    written.
    """
    if not any(content):
        return None
    said, checksum = content[: _SAID.size], content[_SAID.size :]
    if not said.startswith(_LABEL) or hashlib.sha256(said).digest() != checksum:
        return _TORN
    _, run_id, key = _SAID.unpack(said)
    return _Slot(run_id, key)
