"""A passphrase, typed without an echo or from a file; never an argument or a variable, which other programs can read."""

import getpass
import warnings
from pathlib import Path

from fastlloyd.errors import IdentityError
from fastlloyd.federation.identity.identity import MAX_PASSPHRASE

_MAX_BYTES = 4 * MAX_PASSPHRASE + 2


def given_passphrase(file: Path | None, *, prompt: str = "Passphrase: ") -> str:
    """The first line of the file, or without one what is typed. Raises IdentityError."""
    return _ask(prompt) if file is None else _first_line(file)


def new_passphrase(file: Path | None) -> str:
    """The same for a new identity: what is typed is asked for twice."""
    if file is not None:
        return _first_line(file)
    typed = _ask("Passphrase for the new identity: ")
    if _ask("The same again: ") != typed:
        raise IdentityError("the two passphrases differ; run the command again")
    return typed


def _first_line(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            line = opened.readline(_MAX_BYTES)
        passphrase = line.decode().rstrip("\r\n")
    except OSError as error:
        raise IdentityError(f"the passphrase cannot be read from {file} ({error.strerror})") from None
    except UnicodeDecodeError:
        raise IdentityError(f"the passphrase in {file} is not UTF-8 text") from None
    if not passphrase:
        raise IdentityError(f"the first line of {file} is empty; expected the passphrase there")
    return passphrase


def _ask(prompt: str) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", getpass.GetPassWarning)  # it would show what is typed
            return getpass.getpass(prompt)
    except (getpass.GetPassWarning, EOFError):
        raise IdentityError("there is no terminal to ask for the passphrase on; pass --passphrase-file FILE") from None
    except UnicodeDecodeError:
        raise IdentityError("the passphrase that was typed is not text in the terminal's encoding") from None
