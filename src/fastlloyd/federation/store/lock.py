"""Lock of a store: only one process at a time uses it."""

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
# of a lock that another process has: what flock says, and lockf and msvcrt.locking, which stand in
# for it on some drives and systems; every other error means that there are no locks
_HELD: Final = (errno.EAGAIN, errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK)
_A_MOMENT: Final = 0.1  # seconds: somebody may only be looking whether it is held
_PAUSE: Final = 0.02  # seconds between two looks at a lock


class InUseError(StateError):
    """Another process has the lock."""

    kind = "in-use"


class Lock:
    """Exclusive lock on `PATH-lock`, until `release`.

    Raises InUseError if another process has it, and StateError if the drive supports no locks or
    the file is another user's.

    The file next to the store is empty and stays: if it were removed, two processes could lock two
    files of one name. It is not the store itself, because on some systems, such as macOS, the locks
    of SQLite and of `flock` conflict. Only `flock` counts, or `msvcrt.locking` on Windows. So a
    file left by a killed process locks no other process out.
    """

    def __init__(self, path: Path, patience: float = 0.0) -> None:
        """patience : seconds to wait for another process."""
        file = path.with_name(path.name + "-lock")
        try:
            self._descriptor = os.open(
                file, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600
            )
        except OSError as error:
            why = whose(file) or "; the folder of a store must be writable"
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
        """Return whether this process now has the lock. Raises StateError if nothing can be
        locked.
        """
        try:
            _take(self._descriptor)
        except OSError as error:
            if error.errno in _HELD:
                return False
            raise StateError(f"{path} {NO_LOCKS.format(error.strerror)}") from None
        return True

    def release(self) -> None:
        """Release the lock; call it once."""
        _give_back(self._descriptor)
        os.close(self._descriptor)


def is_held(path: Path) -> bool | None:
    """Return whether a process uses the store at `path`, or None if that cannot be found out."""
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
        """Release the lock by closing the file."""

else:

    def _take(descriptor: int) -> None:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _give_back(descriptor: int) -> None:
        """Release the lock, even if a forked process still has the file open."""
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_UN)
