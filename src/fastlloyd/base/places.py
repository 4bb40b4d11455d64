"""Folders of this user: full paths, which never depend on the current folder."""

import os
import sys
from pathlib import Path

from fastlloyd.errors import FastLloydError

_HOME = "USERPROFILE" if sys.platform == "win32" else "HOME"


def full_path(said: str, source: str, error: type[FastLloydError]) -> Path:
    """The path that `source`, such as a variable, names. Raises `error` unless it is a full path:
    another one would mean another file in each folder.

    A ~ at its beginning is the home folder.
    """
    if said.startswith("~/"):
        home(error)  # which may be none that can be used
    try:
        path = Path(said).expanduser()
    except RuntimeError:
        raise error(f"{source} is {said!r:.80}; there is no such home folder") from None
    if not path.is_absolute():
        raise error(
            f"{source} is {said!r:.80}; expected a full path, which names the same file in every"
            " folder"
        )
    return path


def home(error: type[FastLloydError]) -> Path:
    """The home folder of this user. Raises `error` if there is none, or it is not a full path."""
    said = os.environ.get(_HOME)
    if said is not None and not Path(said).is_absolute():
        raise error(
            f"{_HOME} is {said!r:.80}; expected a full path, which names the same folder everywhere"
        )
    try:
        return Path.home()
    except RuntimeError:
        raise error(f"this user has no home folder; set {_HOME} to a full path") from None


def user_folder(
    variable: str | None, default: tuple[str, ...], error: type[FastLloydError]
) -> Path:
    """The folder that a variable of the environment names, or one in the user's home; it may not be
    there. Raises `error` unless it is a full path.
    """
    if variable is not None and (said := os.environ.get(variable)):
        return full_path(said, variable, error)
    return home(error).joinpath(*default)
