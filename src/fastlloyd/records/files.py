"""Files that a path names, their states, and errors of systems and codecs as one sentence."""

from __future__ import annotations

import glob
import gzip
import io
import os
import stat
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple, NoReturn, TextIO, cast

from fastlloyd.errors import DataError
from fastlloyd.records import stores

_GZIP_MAGIC = b"\x1f\x8b"
_BUFFER = 1 << 22  # bytes that are requested from a store at a time


class FileState(NamedTuple):
    """Size and version of a file. They change when the file is replaced or written to.

    They are plain data, and equal on all machines that share the file.

    version : time and inode of a file, or the version that a store states for an object (ETag).
    """

    size: int
    version: str


States = Mapping[str, FileState | None]


def find(source: str) -> States:
    """Return the files that a file, folder, pattern or address names, sorted by path.

    Each path is mapped to the state of the file, or to None for a pipe. A folder stands for all
    files in it and below. Names that begin with . or _, which engines give to files without
    records, are left out unless the pattern asks for them. Raises DataError if there is no file, or
    if records would count twice.
    """
    if not source:
        raise DataError("the name of the file is empty; say which records to read")
    if stores.is_address(source):
        found = {path: FileState(*state) for path, state in stores.find(source).items()}
    elif Path(source).is_dir() or is_pattern(source):
        # the module glob takes absolute patterns, unlike Path.glob
        matches = [source]
        if is_pattern(source):
            matches = glob.glob(source, recursive=True)  # noqa: PTH207
        plain = stores.literal(source) if is_pattern(source) else source
        with readable(source):
            paths = {
                path
                for match in matches
                for path in (_below(match) if Path(match).is_dir() else [match])
            }
            there = {
                path: Path(path).stat()
                for path in sorted(paths)
                if not stores.is_hidden(path, plain)
            }
        _check_once(there)
        found = {path: _state(state) for path, state in there.items()}
    else:
        return {source: state(source)}
    if not found:
        fault = (
            "no file matches this pattern"
            if is_pattern(source)
            else "there are no files in this folder"
        )
        raise DataError(f"{source}: {fault}")
    return dict(sorted(found.items()))


def is_pattern(source: str) -> bool:
    """Return whether a path is a pattern for other paths.

    A path is a pattern if it contains *, ? or [, and no file has this name.
    """
    return glob.has_magic(source) and (stores.is_address(source) or not os.path.lexists(source))


def _below(folder: str) -> Iterator[str]:
    for at, _, names in os.walk(folder, onerror=_raise, followlinks=True):
        yield from (f"{at.rstrip('/')}/{name}" for name in names)


def _raise(error: OSError) -> NoReturn:
    raise error


def _check_once(found: Mapping[str, os.stat_result]) -> None:
    """Raise DataError for a file with two names, or for a path that is not a regular file.

    Records of a file with two names would count twice. A path that is not a regular file may have
    no end.
    """
    seen = dict[tuple[int, int], str]()
    for path, of in found.items():
        if not stat.S_ISREG(of.st_mode):
            raise DataError(
                f"{path}: this is not a regular file; take it out of the folder, or pass its"
                " own path instead of the folder"
            )
        if (first := seen.setdefault((of.st_dev, of.st_ino), path)) != path:
            stores.refuse_twice(first, path)


def state(path: str) -> FileState | None:
    """Return the state of a file, or None for a pipe, which can be read only once.

    Raises DataError if nothing can be read.
    """
    if stores.is_address(path):
        return find(path)[path]
    with readable(path):
        found = Path(path).stat()
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError
        if not stat.S_ISREG(found.st_mode):
            return None
        with Path(path).open("rb"):  # may it be read?
            return _state(found)


def is_pipe(path: str) -> bool:
    """Return whether a path can be read only once, because it is neither an address nor a regular
    file.
    """
    return not stores.is_address(path) and not Path(path).is_file()


def _state(found: os.stat_result) -> FileState:
    return FileState(found.st_size, f"{found.st_mtime_ns}-{found.st_ino}")


def open_binary(path: str, *, buffer: int = _BUFFER) -> BinaryIO:
    """Open a file or an object for reading bytes.

    buffer : number of bytes to request from a store at a time, or 0 to request only what is asked
    for.

    Errors of a file raise OSError, and errors of an object in a store raise DataError, now and
    while bytes are read.
    """
    if not stores.is_address(path):
        file = Path(path).open("rb")  # noqa: SIM115 - the caller closes it
        if not file.seekable() and os.name == "posix":
            # whoever passed it on may not wait; what is late would seem to be the end
            os.set_blocking(file.fileno(), True)
        return file
    stored = stores.open_object(path)
    return _ReadAhead(stored, buffer) if buffer else cast("BinaryIO", stored)


class _ReadAhead(io.BufferedReader):
    """Reader that requests a whole buffer from a store each time, because every request is slow."""

    def read1(self, size: int = -1, /) -> bytes:
        """Return the bytes that have arrived: at least one byte, or none at the end of the file.

        The method of the base class would ask for only `size` bytes if its buffer is empty. This
        method fills the whole buffer first.
        """
        self.peek(1)
        return super().read1(size)


@contextmanager
def readable(path: str | os.PathLike[str]) -> Iterator[None]:
    """Convert errors of the file system to DataError."""
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file") from None
    except IsADirectoryError:
        raise DataError(f"{path}: this is a folder; name a file") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None


@contextmanager
def unpacked(path: str) -> Iterator[io.BufferedReader | gzip.GzipFile]:
    """Open a file for reading bytes, decompressed if its content is gzip's.

    Errors of the file system and of codecs become DataError.
    """
    try:
        with readable(path), cast("io.BufferedReader", open_binary(path)) as raw:
            try:
                # of a pipe maybe one byte; no text begins with that of gzip
                first = raw.peek(2)[:2]
                yield gzip.GzipFile(fileobj=raw) if first and _GZIP_MAGIC.startswith(first) else raw
            except gzip.BadGzipFile:  # an OSError, but not the file system's
                raise EOFError from None
    except (EOFError, zlib.error):
        raise DataError(f"{path}: the gzip file is damaged or cut short; copy it again") from None


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[TextIO]:
    """Open a text file as `unpacked` does. Text that is not UTF-8 raises DataError, too."""
    try:
        with (
            unpacked(os.fspath(path)) as plain,
            io.TextIOWrapper(plain, encoding="utf-8-sig", newline="") as text,
        ):
            yield text
    except UnicodeDecodeError:
        raise DataError(f"{path}: the text is not UTF-8; save it as UTF-8") from None
