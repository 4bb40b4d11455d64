"""Write a folder of results: rows as they come, sorted at the end, and their provenance. NOT
PRIVATE.
"""

import json
import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

from fastlloyd.base.files import to_json, write_chunks, write_file
from fastlloyd.errors import DataError, OutputError, StateError
from fastlloyd.federation.store.lock import InUseError, Lock
from fastlloyd_lab.experiments import reading
from fastlloyd_lab.experiments.reading import (
    PROVENANCE,
    SHAPE,
    TRIALS,
    Cells,
    split,
    trials_content,
)
from fastlloyd_lab.experiments.trial import Trial, key

_NEEDED = frozenset(("fastlloyd", "code", "datasets", "sessions"))


class Folder:
    """Folder of results that is being written. All rows are on disk, and also in memory, by their
    keys.

    Only one process at a time may have it open. When `append` returns, the operating system has the
    whole row, so a killed process loses no row. A line that was cut short is removed when the
    folder is opened again.
    """

    def __init__(self, path: Path, provenance: dict[str, Any]) -> None:
        self.path, self.provenance = path, provenance
        earlier_provenance(path, provenance)  # before a lock is left in a folder of something else
        self._lock, self._descriptor = _locked(path), -1
        try:
            if (earlier := earlier_provenance(path, provenance)) is not None:
                self.provenance = _added(earlier, provenance)
            self._write_provenance()
            if (
                reading.packed(path).exists() and not (path / TRIALS).exists()
            ):  # unpacked, others can be added
                write_file(path / TRIALS, trials_content(path).decode())
                reading.packed(path).unlink()
            self._descriptor = os.open(path / TRIALS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            # what follows was cut short
            os.ftruncate(self._descriptor, (path / TRIALS).read_bytes().rfind(b"\n") + 1)
            self.rows = read_rows(path)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the folder, so that another process may open it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        self._lock.release()

    def append(self, row: Cells) -> None:
        """Add the row of a trial that has no row yet.

        Raises OutputError if the file cannot be written. The line on disk may then be incomplete.
        """
        line = _line(row).encode()
        try:
            written = os.write(self._descriptor, line)
        except OSError as error:
            raise OutputError(
                f"{self.path / TRIALS} cannot be written ({error.strerror})"
            ) from None
        if written != len(line):
            raise OutputError(f"{self.path / TRIALS} cannot be written (the disk is full)")
        self.rows[row_key(row)] = row

    def note_set(self, row: Cells, digest: str) -> None:
        """Store the digest of the set that a row belongs to.

        Raises DataError if earlier rows of the folder have another digest for this set.
        """
        name = row["dataset"]
        found = {"sha256": digest, **{column: row[column] for column in SHAPE}}
        if name not in self.provenance["datasets"]:
            self.provenance["datasets"][name] = found
            self._write_provenance()
        elif self.provenance["datasets"][name] != found:
            raise DataError(
                f"{self.path} has results for other records of {name!r}; choose another folder for"
                " these"
            )

    def finish(self, trials: Iterable[Trial], session: dict[str, Any] | None) -> list[Path]:
        """Sort the rows and add the session to the provenance. Return the paths of the files.

        The rows of `trials` come first, in the order of the trials. Rows of other runs follow. A
        session that ran no trials is not added.
        """
        first = {trial.key: self.rows[trial.key] for trial in trials if trial.key in self.rows}
        self.rows = first | self.rows
        self.provenance["sessions"] += [session] if session else []
        self._write_provenance()
        os.close(self._descriptor)
        self._descriptor = -1
        write_chunks(self.path / TRIALS, map(_line, self.rows.values()))
        return [self.path / name for name in (TRIALS, PROVENANCE)]

    def _write_provenance(self) -> None:
        write_file(self.path / PROVENANCE, to_json(self.provenance))


def earlier_provenance(path: Path, provenance: dict[str, Any]) -> dict[str, Any] | None:
    """Return the provenance that an earlier session left in the folder, or None.

    Raises OutputError if the folder contains other files, or results of another experiment,
    version, sampler of noise or code.
    """
    try:
        earlier = json.loads((path / PROVENANCE).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        foreign = (
            sorted({entry.name for entry in path.iterdir()} - {TRIALS + "-lock"})
            if path.is_dir()
            else []
        )
        if foreign:
            raise OutputError(
                f"{path} has {foreign[0]!r} and no results of an experiment; choose an empty folder"
            ) from None
        return None
    except (OSError, ValueError):
        raise OutputError(f"{path / PROVENANCE} cannot be read; choose another folder") from None
    if not isinstance(earlier, dict) or not earlier.keys() >= _NEEDED:
        raise OutputError(
            f"{path / PROVENANCE} is not that of an experiment; choose another folder"
        )
    if earlier["fastlloyd"] != provenance["fastlloyd"]:
        raise OutputError(
            f"{path} holds results of another version of fastlloyd; choose another folder for these"
        )
    # results of an early version have no digest of the sampler, and another order of bits
    if earlier.get("sampler") != provenance.get("sampler"):
        raise OutputError(
            f"{path} holds results of another sampler of noise; choose another folder for these"
        )
    for name in earlier["code"].keys() & provenance["code"].keys():
        if earlier["code"][name] != provenance["code"][name]:
            raise OutputError(
                f"{path} holds results of another code of {name}; choose another folder for these"
            )
    return earlier


def read_rows(path: Path) -> dict[str, Cells]:
    """Return all rows of a folder by the keys of their trials. An incomplete last line is left out.

    Raises DataError if another line is not a row of an experiment, or if the file cannot be read.
    """
    rows = {}
    for number, cells in reading.json_lines(path, []):
        try:
            numbers = ("epsilon", *split(tuple(cells))[1])
            row = cells | {name: float(cells[name]) for name in numbers}  # which may be infinite
            rows[row_key(row)] = row
        except (ValueError, TypeError, KeyError):
            raise DataError(
                f"line {number} of {path / TRIALS} is not a row of an experiment; remove it"
            ) from None
    return rows


def row_key(row: Cells) -> str:
    """Return the key of the row's trial."""
    taken = {name: row[name] for name in split(tuple(row))[0]}
    return key(row["dataset"], row["method"], row["epsilon"], taken, row["clients"], row["run"])


def n_failed(rows: Iterable[Cells]) -> int:
    """Return the number of rows of failed trials."""
    return sum(row["status"] == reading.FAILED for row in rows)


def _line(row: Cells) -> str:
    """Return the row as a line of JSON. Infinite numbers become text, because JSON has none."""
    infinite = (math.inf, -math.inf)
    plain = {name: str(value) if value in infinite else value for name, value in row.items()}
    return json.dumps(plain, allow_nan=False) + "\n"


def _added(earlier: dict[str, Any], provenance: dict[str, Any]) -> dict[str, Any]:
    """Return the provenance of a folder after another session has added to it."""
    kept = {name: earlier[name] for name in ("datasets", "sessions")}
    both = {
        name: earlier.get(name, {}) | provenance.get(name, {})
        for name in ("code", "methods", "central")
    }
    # the oldest first, each once
    asked = [*earlier.get("earlier_specifications", []), earlier.get("specification")]
    before = [
        one
        for at, one in enumerate(asked)
        if one and one not in asked[:at] and one != provenance.get("specification")
    ]
    return provenance | kept | both | ({"earlier_specifications": before} if before else {})


def _locked(path: Path) -> Lock:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"{path} cannot be made ({error.strerror}); name a folder that can be written to"
        ) from None
    if not os.access(path, os.W_OK | os.X_OK):
        raise OutputError(f"{path} is not a folder that can be written to; choose another")
    try:
        return Lock(path / TRIALS)
    except InUseError:
        raise OutputError(
            f"{path} is in use by another run of an experiment; wait until it ends, or choose"
            " another"
        ) from None
    except StateError as error:
        raise OutputError(str(error)) from None
