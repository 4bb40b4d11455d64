"""Facts about the files of the records of a job, for the ledger of the records' owner."""

import os
import re
import stat
from pathlib import Path

from fastlloyd.errors import DataError
from fastlloyd.federation.store.noted import MAX_PATH, DataFiles
from fastlloyd.records.files import find
from fastlloyd.records.stores import is_address

_STREAM = re.compile(r"/dev/(stdin|fd/)|/proc/")
_MAX_INTEGER = (1 << 64) - 1


def is_stream(path: str) -> bool:
    """Return whether a full path names an open file or pipe that this process was given, such as
    /dev/stdin.

    Such a path does not reveal where the file is stored.
    """
    return _STREAM.match(path) is not None


def files_of(data: str) -> DataFiles | None:
    """Return facts about the files that a path names. Return None if they are not on this machine,
    are a pipe, or cannot be found. No content is read.
    """
    if not data or is_address(data):
        return None
    path = os.path.abspath(data)  # noqa: PTH100 - a pattern is no path
    if is_stream(path):
        return None
    try:
        found = [Path(name).stat() for name in find(data)]
    except (DataError, OSError):
        return None
    if not found or not all(stat.S_ISREG(each.st_mode) for each in found):
        return None
    text = os.fsencode(path).decode("utf-8", "backslashreplace")
    shown = "".join(each if each.isprintable() else "?" for each in text)
    (first, *more) = found
    return DataFiles(
        path=shown[-MAX_PATH:],
        n_files=len(found),
        size=sum(each.st_size for each in found),
        changed=max(each.st_mtime_ns for each in found),
        inode=0 if more else first.st_ino & _MAX_INTEGER,
        device=0 if more else first.st_dev & _MAX_INTEGER,
    )
