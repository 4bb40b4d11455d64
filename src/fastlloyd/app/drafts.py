"""Answers that were given so far, in one file for each run that is being prepared.

Each change replaces the file, so browser and app may end at any time.
"""

import hashlib
import os
import re
import secrets
import time
from pathlib import Path
from typing import Any, Final

import msgspec

from fastlloyd.base.files import write_private
from fastlloyd.base.own_files import read_own
from fastlloyd.errors import StateError

MAX_BYTES: Final = 1 << 22
TYPED: Final = "typed"  # key of the texts that were typed before a step was left by "Back"
_ID: Final = re.compile(r"[0-9a-f]{32}")
Answers = dict[str, Any]


def checked_id(text: str) -> str:
    """Return the id of a draft or run, 32 hex digits. Raises StateError for another text."""
    if not _ID.fullmatch(text):
        raise StateError("there is no such page")
    return text


class Drafts:
    """Drafts of this user.

    folder : folder of their files, made if it is missing.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def new(self, answers: Answers | None = None) -> str:
        """Return the id of a new draft. It becomes the id of the run in the ledger."""
        name = secrets.token_hex(16)
        write_private(self._path(name), _text({} if answers is None else answers))
        return name

    def load(self, name: str) -> Answers:
        """Return the answers of a draft. Raises StateError if there is no such draft, or if it is
        damaged.
        """
        content = read_own(self._path(name), MAX_BYTES)
        try:
            return msgspec.json.decode(content, type=Answers)
        except ValueError:
            raise StateError("this draft is damaged; begin a new one") from None

    def save(self, name: str, answers: Answers) -> None:
        """Replace the answers of a draft. Raises StateError if there is no such draft."""
        self.load(name)
        write_private(self._path(name), _text(answers), replace=True)

    def remove(self, name: str) -> None:
        """Remove a draft. Its run, if it has one, stays."""
        self._path(name).unlink(missing_ok=True)

    def recent(self) -> list[tuple[str, Answers]]:
        """Return the drafts, the newest first."""
        found = list[tuple[float, str, Answers]]()
        for entry in os.scandir(self.folder):
            name = entry.name.removesuffix(".json")
            if _ID.fullmatch(name):
                try:
                    found.append((entry.stat().st_mtime, name, self.load(name)))
                except (StateError, OSError):
                    continue
        return [(name, answers) for _, name, answers in sorted(found, reverse=True)]

    def _path(self, name: str) -> Path:
        return self.folder / f"{checked_id(name)}.json"


def _text(answers: Answers) -> str:
    return msgspec.json.encode(answers).decode()


def shown_as(answers: Answers) -> str:
    """Return a digest of the answers. A form that confirms the answers contains this digest.

    Texts that were typed and not sent are left out: no run uses them.
    """
    sent = {name: value for name, value in answers.items() if name != TYPED}
    return hashlib.sha256(msgspec.json.encode(sent, order="sorted")).hexdigest()


def now() -> str:
    """Return the current time as text for a folder's name, such as 2026-05-31-142959."""
    return time.strftime("%Y-%m-%d-%H%M%S")
