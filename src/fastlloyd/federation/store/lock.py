"""The lock of a store: one process at a time works with it."""

import errno
import os
import sys
import time
from pathlib import Path
from typing import Final

from fastlloyd.base.owners import whose
from fastlloyd.errors import StateError

NO_LOCKS: Final = (
    "lies on a drive that keeps no locks ({}), as network drives may: two processes could spend the"
    " same budget; move it, with the files beside it, to a local disk"
)
# of a lock that another process has: what flock says, and lockf and msvcrt.locking, which stand in
# for it on some drives and systems; every other error means that there are no locks
_HELD: Final = (errno.EAGAIN, errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK)
_A_MOMENT: Final = 0.1  # seconds: somebody may only be looking whether it is held
_PAUSE: Final = 0.02  # seconds between two looks at a lock


class InUseError(StateError):
    """Another process has the lock."""


class Lock:
    """An exclusive lock on `PATH-lock`, held from here to `release`. InUseError if another holder
    has it, StateError where the drive keeps no locks or the file is another user's.

    The file beside the store is empty and stays: removing it would let two processes lock two files
    of one name. It is not the store itself because the locks of SQLite and those of `flock` meet on
    some systems, macOS among them. Nothing but `flock` there, and `msvcrt.locking` on Windows,
    decides: a file left behind by a process that was killed locks nobody out.
    """

    def __init__(self, path: Path, patience: float = 0.0) -> None:
        """patience : seconds to wait for another holder."""
        file = path.with_name(path.name + "-lock")
        try:
            self._descriptor = os.open(
                file, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600
            )
        except OSError as error:
            why = whose(file) or "; the folder of a store must be writable"
            how = "used" if file.exists() else "made"
            raise StateError(f"{file} cannot be {how} ({error.strerror}){why}") from None
        end = time.monotonic() + max(patience, _A_MOMENT)
        try:
            while not self._is_taken(path):
                if time.monotonic() >= end:
                    raise InUseError(
                        f"{path} is in use by another process; one at a time may work with a store:"
                        " wait until it ends"
                    )
                time.sleep(_PAUSE)
        except StateError:
            os.close(self._descriptor)
            raise

    def _is_taken(self, path: Path) -> bool:
        """Return whether the lock is this process' now. StateError where nothing can be locked."""
        try:
            _take(self._descriptor)
        except OSError as error:
            if error.errno in _HELD:
                return False
            raise StateError(f"{path} {NO_LOCKS.format(error.strerror)}") from None
        return True

    def release(self) -> None:
        """Release the lock; may be called once."""
        _give_back(self._descriptor)
        os.close(self._descriptor)


def is_held(path: Path) -> bool | None:
    """Return whether a process works with the store at `path`; None where nobody can tell."""
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
        """Closing the file will do."""

else:

    def _take(descriptor: int) -> None:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _give_back(descriptor: int) -> None:
        """Also where a process was forked meanwhile, which holds the file open."""
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_UN)
