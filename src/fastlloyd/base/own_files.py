"""Files that this user wrote for this program alone. They are checked when they are read."""

import os
import stat
from pathlib import Path

from fastlloyd.base.files import OTHERS
from fastlloyd.errors import OPEN_TO_OTHERS, StateError


def read_own(path: Path, max_bytes: int) -> bytes:
    """Return the content of a file that only this user can have written.

    The open file is checked, not its name. Raises StateError for a link, and for anything else that
    is not a regular file. Also raises StateError for a file that is too large, has several names,
    belongs to another user, or that others may read or write. Without POSIX modes, as on Windows,
    owner and mode are not checked.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
    try:
        descriptor = os.open(path, flags | getattr(os, "O_BINARY", 0))
        with os.fdopen(descriptor, "rb") as file:
            if fault := _fault(os.fstat(file.fileno())):
                raise StateError(f"{path} {fault}; it is not read", code=OPEN_TO_OTHERS)
            content = file.read(max_bytes + 1)
    except OSError as error:
        raise StateError(f"{path} cannot be read ({error.strerror})") from None
    if len(content) > max_bytes:
        raise StateError(f"{path} is larger than {max_bytes} bytes; it is not read")
    return content


def _fault(found: os.stat_result) -> str:
    """Return what is wrong with an open file, or "" if nothing is."""
    if not stat.S_ISREG(found.st_mode):
        return "is not a regular file"
    if os.name != "posix":
        return ""
    if found.st_uid != os.geteuid():
        return "belongs to another user"
    if found.st_mode & OTHERS:
        return f"can be read or changed by other users (mode {stat.S_IMODE(found.st_mode):04o})"
    return "has several names" if found.st_nlink != 1 else ""
