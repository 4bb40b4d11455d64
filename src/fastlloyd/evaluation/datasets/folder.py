"""Data sets in a folder of one's own, which the environment variable FASTLLOYD_DATA names.

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
from fastlloyd.records import Table, read_csv

FOLDER_VARIABLE = "FASTLLOYD_DATA"


@dataclass(frozen=True, slots=True)
class OwnSet:
    """One row of the manifest."""

    path: Path
    n_clusters: int
    sha256: str

    def read(self, name: str) -> Table:
        """Its records, columns x1, x2, ... Raises DataError if the file is absent or not the one of the manifest."""
        try:
            with self.path.open("rb") as file:
                sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise DataError(f"{self.path}: the data set {name!r} cannot be read ({error.strerror})") from None
        if sha256 != self.sha256:
            raise DataError(
                f"{self.path}: the SHA-256 of the file is {sha256}, and {self.sha256} in the manifest; get the file anew"
            )
        return read_csv(self.path)


def own_sets() -> dict[str, OwnSet]:
    """The sets of the folder by name, in the manifest's order; none if the variable is not set.

    Raises DataError if it is set, and there is no manifest or it lacks something.
    """
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder:
        return {}
    path = Path(folder) / "MANIFEST.csv"
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return {
                row["name"]: OwnSet(path.with_name(f"{row['name']}.csv.gz"), int(row["k"]), row["sha256"].lower())
                for row in csv.DictReader(file, strict=True)
            }
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); does {FOLDER_VARIABLE} name the right folder?") from None
    except (KeyError, TypeError, AttributeError, ValueError, csv.Error):
        raise DataError(f"{path}: every row needs a name, a whole number k and a sha256, below a header that says so") from None
