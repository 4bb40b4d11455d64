"""Folders of this user, as full paths, and files that belong to another user.

A full path does not depend on the current folder. A command under `sudo` leaves files of another
user. `whose` names their owner and the remedy.
"""

import os
import shlex
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from fastlloyd.errors import FastLloydError

_HOME = "USERPROFILE" if sys.platform == "win32" else "HOME"


def full_path(said: str, source: str, error: type[FastLloydError]) -> Path:
    """Return the full path in the text `said`. A leading ~ is the home folder.

    A relative path is refused, because it would name a different file in each current folder.

    source : name of the variable or setting, for the error message.
    error : class of the error for a path that is not full.
    """
    if said.startswith("~/"):
        home(error)  # which may be none that can be used
    try:
        path = Path(said).expanduser()
    except RuntimeError:
        raise error(f"{source} is {said!r:.80}; there is no such home folder") from None
    if not path.is_absolute():
        raise error(
            f"{source} is {said!r:.80}; expected a full path, which does not depend on the current"
            " folder"
        )
    return path


def home(error: type[FastLloydError]) -> Path:
    """Return the home folder of this user.

    error : class of the error if there is no home folder, or if its path is not full.
    """
    said = os.environ.get(_HOME)
    if said is not None and not Path(said).is_absolute():
        raise error(
            f"{_HOME} is {said!r:.80}; expected a full path, which does not depend on the current"
            " folder"
        )
    try:
        return Path.home()
    except RuntimeError:
        raise error(f"this user has no home folder; set {_HOME} to a full path") from None


def user_folder(
    variable: str | None, default: tuple[str, ...], error: type[FastLloydError]
) -> Path:
    """Return the folder that an environment variable names, or a folder in the user's home.

    The folder need not exist.

    variable : name of the variable, or None.
    default : path of the folder within the home folder.
    error : class of the error for a path that is not full.
    """
    if variable is not None and (said := os.environ.get(variable)):
        return full_path(said, variable, error)
    return home(error).joinpath(*default)


def whose(*paths: Path) -> str:
    """Return the end of a sentence that names files of another user, and the command to take them
    back.

    It is "" if all files and folders belong to this user, or can be used anyway.
    """
    if sys.platform == "win32" or os.geteuid() == 0:
        return ""
    folders = dict.fromkeys(path.parent for path in paths)
    foreign = [path for path in paths if _is_foreign(path)] or list(filter(_is_foreign, folders))
    if not foreign:
        return ""
    me, owner = _name(os.geteuid()), _name(foreign[0].lstat().st_uid)
    return (
        f": {foreign[0]} belongs to {owner}, and this command runs as {me}. A command run as"
        f" {owner}, for example under sudo, leaves such files. To take them back: sudo chown {me}"
        f" {_quoted(foreign)}"
    )


def _is_foreign(path: Path) -> bool:
    """Return whether the file exists, belongs to another user, and cannot be used by this user."""
    with suppress(OSError):
        return path.lstat().st_uid != os.geteuid() and not os.access(path, os.R_OK | os.W_OK)
    return False


def _name(user: int) -> str:
    """Return the name of a user, or the number if the user has no name."""
    import pwd

    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)


def _quoted(paths: Iterable[Path]) -> str:
    return " ".join(shlex.quote(str(path)) for path in paths)
