"""Path of a client's file of fingerprints: next to the client's records, or the path that their
owner names.
"""

import os
import re
from pathlib import Path

from fastlloyd.errors import DataError, StateError
from fastlloyd.federation.fingerprint_file import FILE_NAME, FingerprintFile
from fastlloyd.jobs.data_files import is_stream
from fastlloyd.records.files import find, is_pattern
from fastlloyd.records.stores import is_address, literal

OPTION = "name a file for them with --fingerprints FILE, in a folder that only you can read"


def fingerprint_file(data: str, named: Path | None) -> FingerprintFile:
    """Return the file of fingerprints for these records, which need not exist.

    data : path of the records.
    named : file that the owner names, or None.

    Raises StateError if no file can be kept next to these records, or if the named file would be
    read as records.
    """
    if named is None:
        return FingerprintFile(_folder(data) / FILE_NAME)
    if re.match(r"[a-z][a-z0-9+.-]+:/", str(named)) or named.is_dir():
        raise StateError(
            f"--fingerprints is {str(named)!r:.80}; expected a file on this machine, such as"
            f" {FILE_NAME}",
            field="fingerprints",
        )
    path = named.absolute()
    if not is_address(data) and _is_read(data, path):
        raise StateError(
            f"--fingerprints is {str(named)!r:.80}, which would be read as records; choose a name"
            f" that begins with an underscore, such as {FILE_NAME}",
            field="fingerprints",
        )
    return FingerprintFile(path)


def _folder(data: str) -> Path:
    """Return the folder beside the records: the folder that contains the file or the folder of
    records, or the part of the path before a pattern.
    """
    if is_address(data):
        raise StateError(
            f"{data} is on another machine, so no file with the fingerprints of your records can be"
            f" kept next to it; {OPTION}",
            field="fingerprints",
        )
    if is_pattern(data):
        return Path(os.path.dirname(literal(data)) or ".").absolute()  # noqa: PTH120
    path = Path(data).absolute()
    is_other = path.exists() and not (path.is_file() or path.is_dir())
    if is_other or is_stream(str(path)):
        raise StateError(
            f"{data} is a pipe or a device, so no file with the fingerprints of your records can be"
            f" kept next to it; {OPTION}",
            field="fingerprints",
        )
    return path.parent


def _is_read(data: str, path: Path) -> bool:
    """Return whether a file at this path would be read as records."""
    source = Path(data)
    if source.is_dir():
        folder = source.resolve()
        inside = path.parent.resolve() / path.name
        below = inside.relative_to(folder).parts if inside.is_relative_to(folder) else ()
        return bool(below) and not any(part.startswith((".", "_")) for part in below)
    try:
        found = find(data)
    except DataError:  # which is said elsewhere
        return False
    return path.resolve() in {Path(name).resolve() for name in found} or (
        is_pattern(data) and Path(path).match(str(Path(data).absolute()))
    )
