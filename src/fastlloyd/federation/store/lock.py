"""Lock of a store, so that only one process at a time uses it."""

import errno
import os
import sys
import time
from pathlib import Path
from typing import Final

from fastlloyd.base.places import whose
from fastlloyd.errors import StateError

NO_LOCKS: Final = (
    "is on a drive without file locks ({}), such as some network drives, so two processes could"
    " spend the same budget; move it, with the files next to it, to a local disk"
)
CLOSED: Final = "; the folder of a store must be writable"
# Error numbers for a lock that another process has. On some drives and systems flock is replaced by
# lockf or msvcrt.locking. Every other error means that the drive has no locks.
_HELD: Final = (errno.EAGAIN, errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK)
# seconds to wait at least: another process may have the lock only to test it
_A_MOMENT: Final = 0.1
_PAUSE: Final = 0.02  # seconds between two attempts to take the lock


def no_folder(path: Path) -> str:
    """Return the sentence for a store whose folder is not there."""
    return f"there is no folder {path.parent} for the store {path.name}; make it, or name another"


class InUseError(StateError):
    """Error: another process has the lock."""

    kind = "in-use"


class Lock:
    """Exclusive lock on a store, until `release`.

    The lock is on a file `PATH-lock` next to the store. The file is empty and is never removed:
    otherwise two processes could lock two files of one name. The store itself is not locked,
    because on some systems, such as macOS, the locks of SQLite and of `flock` conflict. The lock is
    taken by `flock`, or by `msvcrt.locking` on Windows, and ends with its process. So a file that a
    killed process left does not lock out others.

    path : path of the store.

    Raises InUseError if another process has the lock. Raises StateError if the drive supports no
    locks, or if the file cannot be used.
    """

    def __init__(self, path: Path, patience: float = 0.0) -> None:
        """Take the lock.

        patience : seconds to wait for another process.
        """
        file = path.with_name(path.name + "-lock")
        try:
            self._descriptor = os.open(
                file, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600
            )
        except OSError as error:
            if not file.parent.is_dir():
                raise StateError(no_folder(path)) from None
            why = whose(file) or CLOSED
            fault = (
                f"{file} cannot be used ({error.strerror})"
                if file.exists()
                else f"{file} cannot be made ({error.strerror})"
            )
            raise StateError(f"{fault}{why}") from None
        end = time.monotonic() + max(patience, _A_MOMENT)
        try:
            while not self._is_taken(path):
                if time.monotonic() >= end:
                    raise InUseError(
                        f"{path} is in use by another process; only one at a time may use a store:"
                        " wait until it ends"
                    )
                time.sleep(_PAUSE)
        except StateError:
            os.close(self._descriptor)
            raise

    def _is_taken(self, path: Path) -> bool:
        """Return whether this process has the lock now. Raises StateError if the drive supports no
        locks.
        """
        try:
            _take(self._descriptor)
        except OSError as error:
            if error.errno in _HELD:
                return False
            raise StateError(f"{path} {NO_LOCKS.format(error.strerror)}") from None
        return True

    def release(self) -> None:
        """Release the lock. Call this once."""
        _give_back(self._descriptor)
        os.close(self._descriptor)


def is_held(path: Path) -> bool | None:
    """Return whether a process uses the store at `path`, or None if that is unknown."""
    if sys.platform == "win32":
        return None
    import fcntl

    try:
        descriptor = os.open(path.with_name(path.name + "-lock"), os.O_RDONLY)
    except FileNotFoundError:
        return False
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return True if error.errno in _HELD else None
    finally:
        os.close(descriptor)
    return False


if sys.platform == "win32":

    def _take(descriptor: int) -> None:
        import msvcrt

        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

    def _give_back(descriptor: int) -> None:
        """Do nothing. The lock is released when the file is closed."""

else:

    def _take(descriptor: int) -> None:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _give_back(descriptor: int) -> None:
        """Release the lock, even if a forked process still has the file open."""
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_UN)
