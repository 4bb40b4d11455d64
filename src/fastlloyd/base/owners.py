"""Files of another user, as a single command under `sudo` leaves them: whose they are, and what to
run.
"""

import os
import shlex
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def whose(*paths: Path) -> str:
    """Say which of these files, or of their folders, belong to another user, and how to take them
    back: the end of a sentence. Nothing is said where all are this user's, or may be used anyway.
    """
    if sys.platform == "win32" or os.geteuid() == 0:
        return ""
    folders = dict.fromkeys(path.parent for path in paths)
    foreign = [path for path in paths if _is_foreign(path)] or list(filter(_is_foreign, folders))
    if not foreign:
        return ""
    me, owner = _name(os.geteuid()), _name(foreign[0].lstat().st_uid)
    return (
        f": {foreign[0]} belongs to {owner}, and this command runs as {me}. A command that was run"
        f" as {owner}, as under sudo, leaves such files; to take them back: sudo chown {me}"
        f" {_quoted(foreign)}"
    )


def _is_foreign(path: Path) -> bool:
    """Return whether the file is there, another user's, and closed to this one."""
    with suppress(OSError):
        return path.lstat().st_uid != os.geteuid() and not os.access(path, os.R_OK | os.W_OK)
    return False


def _name(user: int) -> str:
    """Return the name of a user, or the number of one that has none."""
    import pwd

    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)


def _quoted(paths: Iterable[Path]) -> str:
    return " ".join(shlex.quote(str(path)) for path in paths)
