"""Named public data sets, read from the folder that the environment variable FASTLLOYD_DATA names.

The folder holds one `NAME.csv.gz` per set, numbers only, without a header, and `MANIFEST.csv`, a CSV file whose header
has at least `name`, `k` (the usual number of clusters) and `sha256` (of the compressed file). A file is used only
if its checksum is the manifest's, so that a result can be traced to the bytes it was computed from.
"""

from __future__ import annotations

import csv
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from fastlloyd.errors import DataError
from fastlloyd.names import unknown_name
from fastlloyd.records import Table, read_csv

FOLDER_VARIABLE = "FASTLLOYD_DATA"


@dataclass(frozen=True, slots=True)
class _Entry:
    """One row of the manifest."""

    path: Path
    n_clusters: int
    sha256: str


def load(name: str) -> Table:
    """Read the records of the data set `name`, columns x1, x2, ... in raw units.

    Raises DataError if the folder is not known, the name is not in its manifest, or the file is absent or not the one
    the manifest was made for.
    """
    entry = _entry(name)
    try:
        with entry.path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{entry.path}: the data set {name!r} cannot be read ({error.strerror})") from None
    if sha256 != entry.sha256:
        raise DataError(
            f"{entry.path}: the SHA-256 of the file is {sha256}, and {entry.sha256} in the manifest; get the file anew"
        )
    return read_csv(entry.path)


def n_clusters(name: str) -> int:
    """Return the number of clusters usually asked of the data set `name`. Raises DataError if there is no such set."""
    return _entry(name).n_clusters


def names() -> tuple[str, ...]:
    """Names of the data sets there are, in the manifest's order. Raises DataError if there is no manifest."""
    return tuple(_manifest())


def _entry(name: str) -> _Entry:
    entries = _manifest()
    if name not in entries:
        raise DataError(f"data set {unknown_name(name, list(entries))}")
    return entries[name]


def _manifest() -> dict[str, _Entry]:
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder:
        raise DataError(
            "named data sets are read from a folder with a MANIFEST.csv; set the environment variable "
            f"{FOLDER_VARIABLE} to its path"
        )
    path = Path(folder) / "MANIFEST.csv"
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return {
                row["name"]: _Entry(path.with_name(f"{row['name']}.csv.gz"), int(row["k"]), row["sha256"].lower())
                for row in csv.DictReader(file, strict=True)
            }
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); does {FOLDER_VARIABLE} name the right folder?") from None
    except (KeyError, TypeError, AttributeError, ValueError, csv.Error):
        raise DataError(f"{path}: every row needs a name, a whole number k and a sha256, below a header that says so") from None
