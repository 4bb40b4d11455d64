"""Object stores, through fsspec: the objects at an address, their states, and ranges of their
bytes.

A message about a store's error does not repeat the store's words, which may quote tokens.
Credentials come from the environment. An address contains none.
"""

from __future__ import annotations

import glob
import importlib
import io
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final, NoReturn

from fastlloyd.base import extras
from fastlloyd.errors import DataError

PACKAGES: Final = {
    "s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "az": "adlfs", "abfs": "adlfs",
    "abfss": "adlfs",
    "hdfs": "pyarrow",
}  # fmt: skip
"""Package that fsspec needs for an address. The key is the part of the address before "://"."""
# the first that a store states is taken
_VERSIONS = "ETag", "etag", "generation", "mtime", "LastModified", "last_modified"


def is_address(source: str) -> bool:
    """Return whether `source` is an address, such as s3://bucket/visits.parquet, and not a path."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", source) is not None


def find(address: str) -> Mapping[str, tuple[int, str]]:
    """Return the objects at an address: a dict from the address of each object to its size and
    version.

    An address names one object, a prefix or a pattern, as for `files.find`.

    Raises DataError if the address names no file, or if the store cannot be reached.
    """
    if re.fullmatch(r"[^/]*://+", address):
        raise DataError(
            f"{address}: expected a bucket and the files to read in it, such as s3://bucket/visits/"
        )
    address = address.rstrip("/")
    fs, root = _store(address)
    with _answering(address):
        try:
            info = fs.info(root)
        except FileNotFoundError:
            if not glob.has_magic(root):
                raise
            info = {"type": "pattern"}
        if info["type"] == "file":
            return {address: _state(info)}
        is_pattern = info["type"] == "pattern"
        plain = literal(root) if is_pattern else root
        found = dict[str, Any]()
        for name, match in (fs.glob(root, detail=True) if is_pattern else {root: info}).items():
            found |= fs.find(name, detail=True) if match["type"] == "directory" else {name: match}
    fixed = address[: len(address) - len(root) + len(plain)]
    return {
        fixed + name[len(plain) :]: _state(info)
        for name, info in found.items()
        if info["type"] == "file" and name[-1] != "/" and not is_hidden(name, plain)
    }


def is_there(pattern: str) -> bool:
    """Return whether an object matches the pattern of an address. Objects that this user may not
    list are not found.

    Raises DataError if the store does not answer.
    """
    fs, name = _store(pattern)
    with _answering(pattern), suppress(PermissionError):
        return bool(fs.glob(name))
    return False


def literal(pattern: str) -> str:
    """Return the part of a pattern before its first wildcard."""
    return re.split(r"[*?[]", pattern)[0]


def is_hidden(path: str, plain: str) -> bool:
    """Return whether one of the names in a path begins with . or _. Names in the part `plain`, with
    which the path begins, do not count.
    """
    return re.search("/[._]", f"/{path}"[len(plain) :]) is not None


def refuse_twice(first: str, second: str) -> NoReturn:
    """Raise DataError for a file with the two names `first` and `second`."""
    raise DataError(
        f"{first} and {second} are one file, whose records would count twice; remove one of them,"
        " or choose by a pattern"
    )


def open_object(address: str) -> io.RawIOBase:
    """Open an object for reading. Raises DataError if the store fails, now or while bytes are
    read.
    """
    fs, name = _store(address)
    with _answering(address):
        return _Object(fs, name, address, fs.info(name)["size"])


class _Object(io.RawIOBase):
    """Bytes of an object. Each range is requested when it is read."""

    def __init__(self, fs: Any, name: str, address: str, size: int) -> None:
        self._fs, self._name, self._address, self._size, self._at = fs, name, address, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = max(
            0, offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        )
        return self._at

    def readinto(self, buffer: Any) -> int:
        end = min(self._at + len(buffer), self._size)
        if end <= self._at:
            return 0
        with _answering(self._address):
            content = self._fs.cat_file(self._name, start=self._at, end=end)
        buffer[: len(content)] = content
        self._at += len(content)
        return len(content)


def _store(address: str) -> tuple[Any, str]:
    """Return the file system of fsspec for an address, and the name of the object in the file
    system.
    """
    scheme, _, rest = address.partition("://")
    if (scheme := scheme.lower()) not in PACKAGES:  # what follows may be signed
        raise DataError(
            f"{scheme}: stores of this kind are not read; addresses begin with"
            f" {', '.join(PACKAGES)} and ://"
        )
    if PACKAGES[scheme] in ("s3fs", "gcsfs") and "@" in rest.partition("/")[0]:
        raise DataError(
            f"{scheme}: an address must not contain credentials; set them as the store's own tools"
            " do, e.g. AWS_PROFILE"
        )
    with _answering(address):
        store = importlib.import_module("fsspec.core").url_to_fs(address, use_listings_cache=False)
    return store[0], store[1].rstrip("/")


def _state(info: Mapping[str, Any]) -> tuple[int, str]:
    return info["size"], next((str(info[key]).strip('"') for key in _VERSIONS if info.get(key)), "")


@contextmanager
def _answering(address: str) -> Iterator[None]:
    """Convert any error of a store to DataError."""
    try:
        yield
    except DataError:
        raise
    except ImportError:
        package = PACKAGES[address.partition("://")[0].lower()]
        command = extras.command("remote") + ("" if package == "s3fs" else f" {package}")
        raise DataError(
            f"{address}: this needs fsspec and {package}, which are not installed: {command}"
        ) from None
    except FileNotFoundError:
        raise DataError(f"{address}: there is no such object, folder or bucket") from None
    except Exception as error:  # noqa: BLE001 - every store has errors of its own
        raise DataError(f"{address}: {_fault(error)}") from None


def _fault(error: Exception) -> str:
    """Return a description of an error, from the names of its classes. The error's own message is
    left out, because it may quote secrets or records.
    """
    names = " ".join(
        kind.__name__ for cause in (error, error.__cause__) for kind in type(cause).__mro__
    )
    if re.search("Credential|Auth|Token", names):
        return (
            "the store asks for credentials and finds none that are valid; set them as its own"
            " tools do, e.g. AWS_PROFILE"
        )
    if isinstance(error, PermissionError) or "Forbidden" in names:
        return (
            "the store refuses access; check that the credentials are valid, and may list and read"
            " these records"
        )
    if re.search("Connect|Endpoint|Timeout|gaierror", names):
        return (
            "the store cannot be reached; check the network, and the address of the service, e.g."
            " AWS_ENDPOINT_URL"
        )
    return f"the store answers with an error ({type(error).__name__})"
