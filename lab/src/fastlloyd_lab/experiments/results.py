"""A folder of results as the runner writes it: rows as they come, in the end the tables, and what
they came of. NOT PRIVATE.
"""

import csv
import io
import json
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Self

from fastlloyd.base import extras
from fastlloyd.base.files import replacing, to_json, write_chunks, write_file
from fastlloyd.errors import DataError, OutputError, StateError
from fastlloyd.federation.store.lock import InUseError, Lock
from fastlloyd.records.arrow import load
from fastlloyd_lab.experiments import reading
from fastlloyd_lab.experiments.reading import (
    PROVENANCE,
    SHAPE,
    TABLE,
    TRIALS,
    Cells,
    split,
    trials_content,
)
from fastlloyd_lab.experiments.trial import Trial, key

PARQUET = "results.parquet"
_TEXT = ("dataset", "method", "status", "error")
_WHOLE = (*SHAPE, "clients", "run", "n_iterations")
_NEEDED = frozenset(("fastlloyd", "code", "datasets", "sessions"))


class Folder:
    """Rows on disk, and by their keys in memory; open in one process at a time.

    A row is with the operating system, whole, when `append` returns: a process that is killed loses
    none. A line that was cut short is dropped when the folder is opened again.
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
                write_file(path / TRIALS, (trials_content(path) or b"").decode())
                reading.packed(path).unlink()
            self._descriptor = os.open(path / TRIALS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            os.ftruncate(
                self._descriptor, (path / TRIALS).read_bytes().rfind(b"\n") + 1
            )  # what follows was cut short
            self.rows = read_rows(path)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the folder."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        self._lock.release()

    def append(self, row: Cells) -> None:
        """Add the row of a trial that has none yet. Raises OutputError; then the line is not
        whole.
        """
        infinite = (math.inf, -math.inf)  # which JSON has not
        plain = {name: str(value) if value in infinite else value for name, value in row.items()}
        line = (json.dumps(plain, allow_nan=False) + "\n").encode()
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
        """Remember which records rows came of. Raises DataError if the folder's earlier rows came
        of others.
        """
        name = row["dataset"]
        found = {"sha256": digest, **{column: row[column] for column in SHAPE}}
        if name not in self.provenance["datasets"]:
            self.provenance["datasets"][name] = found
            self._write_provenance()
        elif self.provenance["datasets"][name] != found:
            raise DataError(
                f"the records of {name!r} are not those of which {self.path} has rows; choose"
                " another folder for these"
            )

    def finish(self, trials: Iterable[Trial], session: dict[str, Any] | None) -> list[Path]:
        """Write the tables, and what the session that ends was if it ran any. Returns the paths.

        The tables hold every row of the folder: those of the trials in their order, then those of
        runs not asked for.
        """
        trials = list(trials)
        found = dict.fromkeys(
            [*(trial.key for trial in trials if trial.key in self.rows), *self.rows]
        )
        rows = [self.rows[key] for key in found]
        os.fsync(self._descriptor)
        self.provenance["sessions"] += [session] if session else []
        self._write_provenance()
        options = _once((trial.options for trial in trials), (split(tuple(row))[0] for row in rows))
        names = reading.columns(
            options,
            _once((trial.measures for trial in trials), (split(tuple(row))[1] for row in rows)),
        )
        write_chunks(self.path / TABLE, csv_lines(rows, names))
        paths = [self.path / name for name in (TRIALS, TABLE, PROVENANCE)]
        if extras.optional("pyarrow.parquet") is not None:
            self._write_parquet(rows, names, options)
            paths.append(self.path / PARQUET)
        else:  # what an earlier session wrote would lack the rows of this one
            (self.path / PARQUET).unlink(missing_ok=True)
        return paths

    def _write_provenance(self) -> None:
        write_file(self.path / PROVENANCE, to_json(self.provenance))

    def _write_parquet(
        self, rows: Sequence[Cells], names: Sequence[str], options: Sequence[str]
    ) -> None:
        pa, parquet = load("pyarrow", PARQUET), load("pyarrow.parquet", PARQUET)
        columns = {}
        for name in names:
            values = [row.get(name) for row in rows]
            if name in options:
                kind = _option_type(pa, {type(value) for value in values if value is not None})
            else:
                kind = (
                    pa.string() if name in _TEXT else pa.int64() if name in _WHOLE else pa.float64()
                )
            if kind == pa.string():
                values = [None if value is None else str(_cell(value)) for value in values]
            columns[name] = pa.array(values, type=kind)
        table = pa.table(columns)
        target = self.path / PARQUET
        try:
            with replacing(target) as file:
                parquet.write_table(table, file)
        except OSError as error:
            raise OutputError(f"{target} cannot be written ({error.strerror})") from None


def earlier_provenance(path: Path, provenance: dict[str, Any]) -> dict[str, Any] | None:
    """What an earlier session left in the folder; None if there was none. Raises OutputError if of
    another experiment.
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
                f"{path} holds {foreign[0]!r} and no results of an experiment; choose an empty"
                " folder"
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
    for name in earlier["code"].keys() & provenance["code"].keys():
        if earlier["code"][name] != provenance["code"][name]:
            raise OutputError(
                f"{path} holds results of another code of {name}; choose another folder for these"
            )
    return earlier


def read_rows(path: Path) -> dict[str, Cells]:
    """All rows in a folder by the keys of their trials; a last line that is not whole is left out.
    Raises DataError.
    """
    content = trials_content(path) or b""
    rows = {}
    for number, cells in reading.json_lines(content[: content.rfind(b"\n") + 1], path / TRIALS, []):
        try:
            numbers = ("epsilon", *split(tuple(cells))[1])
            row = cells | {name: float(cells[name]) for name in numbers}  # which may be infinite
            rows[row_key(row)] = row
        except (ValueError, TypeError, KeyError):
            raise DataError(
                f"line {number} of {path / TRIALS} is no row of an experiment; remove it"
            ) from None
    return rows


def row_key(row: Cells) -> str:
    """The key of the trial that a row came of."""
    taken = {name: row[name] for name in split(tuple(row))[0]}
    return key(row["dataset"], row["method"], row["epsilon"], taken, row["clients"], row["run"])


def csv_lines(rows: Iterable[Cells], names: Sequence[str]) -> Iterator[str]:
    """The table as CSV, a line at a time: nothing for what is not there, inf, true and false."""
    for cells in chain([names], ([_cell(row.get(name)) for name in names] for row in rows)):
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow(cells)
        yield line.getvalue()


def n_failed(rows: Iterable[Cells]) -> int:
    """How many rows say that a trial failed."""
    return sum(row["status"] == reading.FAILED for row in rows)


def _once(*names: Iterable[Iterable[str]]) -> list[str]:
    """Every name once, in the order in which they come."""
    return list(dict.fromkeys(name for one in names for some in one for name in some))


def _added(earlier: dict[str, Any], provenance: dict[str, Any]) -> dict[str, Any]:
    """The provenance of a folder to which another session adds."""
    kept = {name: earlier[name] for name in ("datasets", "sessions")}
    both = {name: earlier.get(name, {}) | provenance.get(name, {}) for name in ("code", "methods")}
    asked = [
        *earlier.get("earlier_specifications", []),
        earlier.get("specification"),
    ]  # the oldest first, each once
    before = [
        one
        for at, one in enumerate(asked)
        if one and one not in asked[:at] and one != provenance.get("specification")
    ]
    return provenance | kept | both | ({"earlier_specifications": before} if before else {})


def _cell(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def _option_type(pa: Any, found: set[type]) -> Any:
    """What Parquet calls the values of an option, by their types; those of several kinds become
    text.
    """
    if found <= {int, float}:
        return pa.float64() if float in found else pa.int64()
    return pa.bool_() if found == {bool} else pa.string()


def _locked(path: Path) -> Lock:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"{path} cannot be made ({error.strerror}); name a folder one can write to"
        ) from None
    if not os.access(path, os.W_OK | os.X_OK):
        raise OutputError(f"{path} is not a folder one can write to; choose another")
    try:
        return Lock(path / TRIALS)
    except InUseError:
        raise OutputError(
            f"{path} is in use by another run of an experiment; wait until it ends, or choose"
            " another"
        ) from None
    except StateError as error:
        raise OutputError(str(error)) from None
