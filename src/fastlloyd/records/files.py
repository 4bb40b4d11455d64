"""Files: what the file system and codecs raise becomes one sentence; and whether a file is still the one it was."""

from __future__ import annotations

import gzip
import io
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TextIO

from fastlloyd.errors import DataError

_GZIP_MAGIC = b"\x1f\x8b"


class FileState(NamedTuple):
    """What changes when a file is replaced or written to."""

    device: int
    inode: int
    size: int
    modified_ns: int


def state(path: Path) -> FileState | None:
    """The state of a regular file, None for what can be read once only (a pipe). Raises DataError where nothing can be read."""
    with readable(path):
        found = path.stat()
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError
        if not stat.S_ISREG(found.st_mode):
            return None
        with path.open("rb"):  # may it be read?
            return FileState(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


@contextmanager
def readable(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn what the file system raises into DataError."""
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file") from None
    except IsADirectoryError:
        raise DataError(f"{path}: this is a folder; name a file") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None


@contextmanager
def opened(path: Path) -> Iterator[TextIO]:
    """Open a text file, unpacked if its content is gzip's; what file system and codecs raise becomes DataError."""
    try:
        with readable(path), path.open("rb") as raw:
            packed = raw.peek(2)[:2] == _GZIP_MAGIC
            plain = gzip.GzipFile(fileobj=raw) if packed else raw
            try:
                with io.TextIOWrapper(plain, encoding="utf-8-sig", newline="") as text:
                    yield text
            except gzip.BadGzipFile:  # an OSError, but not the file system's
                raise EOFError from None
    except (EOFError, zlib.error):
        raise DataError(f"{path}: the gzip file is damaged or cut short; copy it anew") from None
    except UnicodeDecodeError:
        raise DataError(f"{path}: the text is not UTF-8; save it as UTF-8") from None
