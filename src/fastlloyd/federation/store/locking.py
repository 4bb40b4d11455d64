"""One process per store: a lock on a file of its own, which the operating system lets go when the process ends, however."""

import os
import sys
from pathlib import Path

from fastlloyd.errors import StateError


class Lock:
    """An exclusive lock on `PATH-lock`, held from here to `release`. StateError if another holder has it.

    The file beside the store is empty and stays: removing it would let two processes lock two files of one name. It is not the
    store itself because the locks of SQLite and those of `flock` meet on some systems, macOS among them. Nothing but `flock`
    there, and `msvcrt.locking` on Windows, decides: a file left behind by a process that was killed locks nobody out.
    """

    __slots__ = ("_descriptor",)

    def __init__(self, path: Path) -> None:
        file = path.with_name(path.name + "-lock")
        try:
            self._descriptor = os.open(file, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
        except OSError as error:
            raise StateError(f"{file} cannot be made ({error.strerror}); the folder of a store must be writable") from None
        try:
            _take(self._descriptor)
        except OSError:
            os.close(self._descriptor)
            raise StateError(
                f"{path} is in use by another process; one at a time may work with a store: wait until it ends"
            ) from None

    def release(self) -> None:
        """Let go; once only."""
        os.close(self._descriptor)


if sys.platform == "win32":

    def _take(descriptor: int) -> None:
        import msvcrt

        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

else:

    def _take(descriptor: int) -> None:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
