"""Files written whole or not at all, and files that only their owner can read.

A private file is made so from the first instant, and refused where others could have read it.
"""

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from fastlloyd.errors import IdentityError, OutputError

OWNER_ONLY = 0o600
OTHERS = 0o077  # whatever the group and everyone else may do


@contextmanager
def replacing(path: Path, *, private: bool = False) -> Iterator[BinaryIO]:
    """A new file that takes the place of `path` in one step when the block ends, after its content is on disk.

    If the block or the disk fails, `path` stays as it was. With `private` its mode is 0600 from the start. Raises OSError.
    """
    beside = path.parent / temporary_name(path)
    try:
        with os.fdopen(_create(beside, private=private), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        with suppress(OSError):
            beside.unlink()


def temporary_name(path: Path) -> str:
    """A hidden name that nobody else uses, for what will take the place of `path`."""
    return f".{path.name[:64]}.{secrets.token_hex(8)}.tmp"


def write_private(path: Path, text: str, *, replace: bool = False) -> None:
    """Make the file `path` with mode 0600, whole or not at all; what stands there is replaced only with `replace`.

    The name is taken with O_EXCL, which two processes cannot both do and which follows no symbolic link; the text goes to a
    file beside it, which then takes its place. Neither is ever readable by others, whatever the umask. Raises OutputError.
    """
    taken = False
    try:
        if not replace:
            os.close(_create(path, private=True))
            taken = True
        with replacing(path, private=True) as file:
            file.write(text.encode())
        taken = False
    except FileExistsError:
        raise OutputError(f"{path} exists already; choose another name") from None
    except OSError as error:
        raise OutputError(f"{path} cannot be written ({error.strerror})") from None
    finally:
        if taken:
            with suppress(OSError):
                path.unlink()


def read_private(path: Path, max_bytes: int, *, secret_if: str = "") -> str:
    """The text of a file that nobody but its owner can read; the open file is asked, not its name. Raises IdentityError.

    A file that does not begin with `secret_if` holds no secret and may be read by all: the caller says what is wrong with it.

    Where there are no POSIX modes, as on Windows, whoever can read it is up to the folder, and nothing is refused.
    """
    try:
        # O_NONBLOCK: a pipe in the place of the file must not hold the program up
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise IdentityError(f"{path} is not a file; name a private identity, such as clinic-a.identity.toml")
            content = file.read(max_bytes + 1)
            if os.name == "posix" and found.st_mode & OTHERS and content.startswith(secret_if.encode()):
                raise IdentityError(
                    f"{path} can be read or changed by others (mode {stat.S_IMODE(found.st_mode):04o}), who may have copied "
                    f"its keys; if nobody did, run: chmod 600 {path}"
                )
    except IsADirectoryError:
        raise IdentityError(f"{path} is a folder; name a private identity, such as clinic-a.identity.toml") from None
    except OSError as error:
        raise IdentityError(f"{path} cannot be read ({error.strerror})") from None
    if len(content) > max_bytes:
        raise IdentityError(f"{path} is larger than {max_bytes} bytes; this is not a private identity")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise IdentityError(f"{path} is not a text file; name a private identity, such as clinic-a.identity.toml") from None


def _create(path: Path, *, private: bool) -> int:
    mode = OWNER_ONLY if private else 0o666  # of which the umask takes its part
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
    if private and os.name == "posix":
        os.fchmod(descriptor, OWNER_ONLY)  # a umask can take rights away from the owner too
    return descriptor
