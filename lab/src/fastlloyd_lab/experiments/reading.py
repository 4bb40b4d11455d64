"""Read a folder of results: rows, specification and provenance. They are checked, and never
changed.

Every trial is a line of `trials.jsonl` as soon as it ends. When the runner ends, it sorts the lines
into the order of the specification. For publication, the file may be packed as `trials.jsonl.gz`,
with a tenth of the size. A row is refused if a measure has an impossible value: a negative sum of
squares or count, a silhouette outside [-1, 1], or NaN. No experiment writes such a row, and it
would spoil a mean.
"""

import csv
import gzip
import json
import math
import tomllib
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from fastlloyd.errors import DataError
from fastlloyd_lab.experiments.measures import in_order, quantity

TRIALS, OVERHEAD = "trials.jsonl", "overhead.csv"
SPECIFICATION, PROVENANCE = "spec.toml", "provenance.json"
Cells = dict[str, Any]  # a row as it is written: a value for each column that it has
OK, FAILED = "ok", "failed"
SHAPE = ("n_records", "n_features", "n_clusters")  # unknown where a set could not be had
FIXED = frozenset(
    (
        *("dataset", *SHAPE, "method", "epsilon", "delta", "clients", "run"),
        *("status", "error", "n_iterations", "seconds"),
    )
)
CENTRAL = frozenset(("lloyd", "pe-means"))  # of earlier results, which do not say it
_Key = tuple[str, str, float, tuple[tuple[str, str], ...], int, int]
_Positive = Annotated[int, Meta(ge=1)]
_Name = Annotated[str, Meta(min_length=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Row of the results: one trial.

    options : swept options that the method accepted.
    error : sentence about the failure, or "" if the trial did not fail.
    measures : computed values, which may be infinite.
    epsilon : epsilon of the trial, or infinite for a method without privacy.
    """

    dataset: str
    n_records: int
    n_features: int
    n_clusters: int
    method: str
    epsilon: float
    clients: int
    run: int
    options: tuple[tuple[str, str], ...] = ()
    error: str = ""
    measures: Mapping[str, float]
    seconds: float = math.nan

    @property
    def key(self) -> _Key:
        """Key that identifies the trial."""
        return self.dataset, self.method, self.epsilon, self.options, self.clients, self.run


class _Failed(msgspec.Struct, frozen=True, kw_only=True):
    """Columns that every row has."""

    dataset: _Name
    method: _Name
    epsilon: Annotated[float, Meta(gt=0)]
    clients: _Positive
    run: Annotated[int, Meta(ge=0)]
    status: Literal["ok", "failed"]
    error: str | None = None
    n_records: int | None = None
    n_features: int | None = None
    n_clusters: int | None = None
    seconds: float | None = None


class _Ended(_Failed, frozen=True, kw_only=True):
    """Columns that every row of a successful trial has."""

    n_records: _Positive
    n_features: _Positive
    n_clusters: _Positive


@lru_cache(maxsize=64)  # rows have few kinds of headings, and there are very many rows
def split(names: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return two lists of column names: the swept options, whose columns come before the column
    `status`, and the measures, which come after it.
    """
    status = names.index("status") if "status" in names else 0
    before, after = (
        tuple(name for name in part if name not in FIXED)
        for part in (names[:status], names[status:])
    )
    return before, after


def parse(cells: Mapping[str, Any], where: str) -> Row:
    """Return the row in the cells of a line.

    where : place of the line for error messages, such as "line 2 of FILE".

    Raises DataError if a cell is not a valid value of its column. The message names the place and
    the column.
    """
    failed = cells.get("status") == FAILED
    options, measures = split(tuple(cells))
    try:
        row = msgspec.convert(cells, _Failed if failed else _Ended, strict=False)
        taken = () if failed else (name for name in measures if cells[name] is not None)
        return Row(
            dataset=row.dataset,
            method=row.method,
            epsilon=row.epsilon,
            n_records=row.n_records or 0,
            n_features=row.n_features or 0,
            n_clusters=row.n_clusters or 0,
            clients=row.clients,
            run=row.run,
            options=tuple(
                (name, text(cells[name])) for name in sorted(options) if cells[name] is not None
            ),
            error=(row.error or "the trial failed without a reason") if failed else "",
            measures={name: _measure(name, cells[name]) for name in taken},
            seconds=math.nan if row.seconds is None else row.seconds,
        )
    except msgspec.ValidationError as error:
        raise DataError(f"{where} is not a row of an experiment: {error}; remove it") from None


def text(value: object) -> str:
    """Return the value of an option as text: a number as Python shows it, true and false as in
    JSON.
    """
    return str(value).lower() if isinstance(value, bool) else str(value)


def _measure(name: str, cell: Any) -> float:
    """Return the value of a measure as a number. Raises ValidationError if it is outside the range
    of the measure.
    """
    known = quantity(name)
    value = msgspec.convert(cell, float, strict=False)
    if not known.low <= value <= known.high:
        expected = f"Expected a number from {known.low:g} to {known.high:g}"
        raise msgspec.ValidationError(f"{expected}, got {value:g} - at `$.{name}`")
    return value


# Folders


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """Content of a folder of results.

    figures : names of figures in the specification.
    labels : dict from the name of a method in results to the label that figures show.
    central : methods that give the same result for every number of clients.
    """

    title: str
    rows: tuple[Row, ...]
    figures: tuple[str, ...] = ("curves",)
    labels: Mapping[str, str] = field(default_factory=dict)
    central: frozenset[str] = CENTRAL
    specification: str = ""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # sentences for the reader: what of the folder could not be used
    overhead: tuple[Mapping[str, str], ...] = ()

    @property
    def measures(self) -> list[str]:
        """Columns of measures. The measures of the paper come first."""
        return in_order({name for row in self.rows for name in row.measures})

    @property
    def failures(self) -> list[Row]:
        """Rows of trials that failed."""
        return [row for row in self.rows if row.error]


def read(folder: Path) -> Results:
    """Return the content of a folder of results. Raises DataError if the folder has no results, or
    if a file or a row of it is wrong.
    """
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder; name the folder of `fastlloyd experiment run`")
    notes: list[str] = []
    found = _rows(folder, notes)
    overhead = _overhead(folder / OVERHEAD)
    if not found and not overhead:
        raise DataError(
            f"{folder} holds no results: expected {TRIALS} with at least one trial in it"
        )
    provenance = _json(folder / PROVENANCE) if (folder / PROVENANCE).is_file() else {}
    specification, spec = _specification(folder, provenance)
    figures = spec.get("figures") or (["curves"] if found else ["overhead"])
    if not isinstance(figures, list) or not all(isinstance(name, str) for name in figures):
        raise DataError(
            f"the specification of {folder}: figures is {figures!r:.80}; expected a list of names"
        )
    labels, central = (_table(provenance, name) for name in ("methods", "central"))
    return Results(
        title=str(spec.get("title", folder.resolve().name)),
        rows=tuple(found),
        figures=tuple(figures),
        labels={name: str(label) for name, label in labels.items()},
        central=CENTRAL | {name for name, is_central in central.items() if is_central is True},
        specification=specification,
        provenance=provenance,
        notes=tuple(notes),
        overhead=overhead,
    )


def _specification(folder: Path, provenance: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the specification of the results twice: as text, and as the content of the parsed
    text.

    It is read from the copy in the folder. Without a copy, the text is "", and the content comes
    from the provenance.
    """
    if (folder / SPECIFICATION).is_file():
        path = folder / SPECIFICATION
        said = _text(path)
        try:
            return said, tomllib.loads(said)
        except tomllib.TOMLDecodeError as error:
            raise DataError(
                f"{path} is not TOML ({error}); restore the specification that was run"
            ) from None
    return "", _table(_table(provenance, "specification"), "content")


def _table(content: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the table with this name inside a JSON object, or an empty table."""
    found = content.get(name)
    return found if isinstance(found, dict) else {}


def _rows(folder: Path, notes: list[str]) -> list[Row]:
    """Return every trial once. Raises DataError if two different lines belong to the same trial."""
    found: dict[_Key, tuple[int, Row]] = {}
    for number, cells in json_lines(folder, notes):
        row = parse(cells, f"line {number} of {folder / TRIALS}")
        first, other = found.setdefault(row.key, (number, row))
        if other != row:
            raise DataError(
                f"line {first} and line {number} of {folder / TRIALS} are of one trial and say"
                " different things: the same data set, method, epsilon, clients, options and run;"
                " number the runs of a method, or remove one of the lines"
            )
    return [row for _, row in found.values()]


def packed(folder: Path) -> Path:
    """Return the path of the packed file of a folder's trials. The file need not exist."""
    return folder / (TRIALS + ".gz")


def trials_content(folder: Path) -> bytes:
    """Return the content of `trials.jsonl`, or of its packed form, or nothing if neither exists.
    Raises DataError if the file cannot be read.
    """
    try:
        if (folder / TRIALS).exists():
            return (folder / TRIALS).read_bytes()
        return gzip.decompress(packed(folder).read_bytes()) if packed(folder).exists() else b""
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise DataError(f"{packed(folder)} is not a whole gzip file; get it again") from None
    except OSError as error:
        raise DataError(f"{folder / TRIALS} cannot be read ({error.strerror})") from None


def json_lines(folder: Path, notes: list[str]) -> Iterator[tuple[int, Cells]]:
    """Return the rows of `trials.jsonl` by their line numbers.

    A last line that was cut short when a process was killed is left out, and noted in `notes`.

    Raises DataError for any other line that is not a JSON object.
    """
    *lines, rest = trials_content(folder).split(b"\n")
    for number, line in enumerate(lines, 1):
        try:
            yield number, msgspec.json.decode(line, type=Cells)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            raise DataError(
                f"line {number} of {folder / TRIALS} is not a whole JSON object; remove it and run"
                " the trial again"
            ) from None
    if rest:
        notes.append(f"The last line of {TRIALS} is not whole and was left out.")


def _overhead(path: Path) -> tuple[Mapping[str, str], ...]:
    return tuple(csv.DictReader(_text(path).splitlines())) if path.is_file() else ()


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise DataError(
            f"{path} is not text in UTF-8; it is damaged or no file of results"
        ) from None


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(_text(path))
    except json.JSONDecodeError:
        content = None
    if not isinstance(content, dict):
        raise DataError(
            f"{path} is not whole JSON; run the experiment again, which writes it again"
        )
    return content
