"""A folder of results as it was left: rows, specification and provenance, checked and never changed.

Every trial is in `trials.jsonl` as soon as it ends, and that file is what counts; `results.csv` is made of it when the runner
ends, and gives the order of the specification. A folder of somebody's own program may hold the table alone. Trials that are
handed on may be packed as `trials.jsonl.gz`, a tenth of the space.
"""

import csv
import gzip
import json
import tomllib
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fastlloyd.errors import DataError
from fastlloyd.evaluation.experiments import rows
from fastlloyd.evaluation.experiments.measures import in_order
from fastlloyd.evaluation.experiments.rows import Row

TRIALS, TABLE, OVERHEAD = "trials.jsonl", "results.csv", "overhead.csv"
SPECIFICATION, PROVENANCE = "spec.toml", "provenance.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """What is in a folder. figures : names as the specification has them; labels : methods as figures name them."""

    title: str
    rows: tuple[Row, ...]
    figures: tuple[str, ...] = ("curves",)
    labels: Mapping[str, str] = field(default_factory=dict)
    specification: str = ""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # sentences for the reader: what of the folder could not be used
    overhead: tuple[Mapping[str, str], ...] = ()

    @property
    def measures(self) -> list[str]:
        """Columns of measures, those of the paper first."""
        return in_order({name for row in self.rows for name in row.measures})

    @property
    def failures(self) -> list[Row]:
        """The rows of trials that failed."""
        return [row for row in self.rows if row.error]


def read(folder: Path) -> Results:
    """Read a folder of results. Raises DataError in one sentence that says what is wrong with it."""
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder; name the one that `fastlloyd experiment run` left")
    found, notes = _rows(folder)
    overhead = tuple(cells for _, cells in _table(folder / OVERHEAD)) if (folder / OVERHEAD).is_file() else ()
    if not found and not overhead:
        raise DataError(f"{folder} holds no results: expected {TRIALS} or {TABLE} with at least one trial in it")
    provenance = _json(folder / PROVENANCE) if (folder / PROVENANCE).is_file() else {}
    text, spec = _specification(folder, provenance)
    figures = spec.get("figures") or (["curves"] if found else ["overhead"])
    if not isinstance(figures, list) or not all(isinstance(name, str) for name in figures):
        raise DataError(f"the specification of {folder}: figures is {figures!r:.80}; expected a list of names")
    labels = provenance.get("methods")
    return Results(
        title=str(spec.get("title", folder.resolve().name)),
        rows=tuple(found),
        figures=tuple(figures),
        labels={str(name): str(label) for name, label in labels.items()} if isinstance(labels, dict) else {},
        specification=text,
        provenance=provenance,
        notes=tuple(notes),
        overhead=overhead,
    )


def _specification(folder: Path, provenance: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """What was asked for, as text and as its content: a copy of the file, or what the provenance has of it."""
    if (folder / SPECIFICATION).is_file():
        path = folder / SPECIFICATION
        text = _text(path)
        try:
            return text, tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise DataError(f"{path} is not TOML ({error}); put the specification back that was run") from None
    recorded = provenance.get("specification")
    content = recorded.get("content") if isinstance(recorded, dict) else None
    return "", content if isinstance(content, dict) else {}


def _rows(folder: Path) -> tuple[list[Row], list[str]]:
    """Every trial once: those of `trials.jsonl` if it is there, in the order of the table as far as that has them."""
    notes: list[str] = []
    table = _trials(folder / TABLE, _table(folder / TABLE)) if (folder / TABLE).is_file() else {}
    content = trials_content(folder)
    if content is None:
        return list(table.values()), notes
    trials = _trials(folder / TRIALS, json_lines(content, folder / TRIALS, notes))
    for key, row in table.items():
        if key in trials and (column := rows.difference(row, trials[key])):
            raise DataError(
                f"{folder / TABLE} and {TRIALS} say different things in column {column!r} of run {row.run} of {row.method} on "
                f"{row.dataset}, epsilon {row.epsilon:g}: one of them was changed; run the experiment again, which makes the "
                f"table anew of {TRIALS}, or remove {TRIALS} to keep the table"
            )
    if gone := len(table.keys() - trials.keys()):
        notes.append(f"{gone:,} of the rows of {TABLE} are no longer in {TRIALS} and were left out.")
    return [trials.pop(key) for key in table if key in trials] + list(trials.values()), notes


def _trials(path: Path, lines: Iterable[tuple[int, Mapping[str, Any]]]) -> dict[Any, Row]:
    """Rows by what tells their trials apart. Raises DataError where two lines are of one trial and do not say the same."""
    found: dict[Any, Row] = {}
    places: dict[Any, int] = {}
    for number, cells in lines:
        row = rows.parse(cells, f"line {number} of {path}")
        if rows.difference(found.setdefault(row.key, row), row):
            raise DataError(
                f"line {places[row.key]} and line {number} of {path} are of one trial and say different things: the same data "
                "set, method, epsilon, clients, options and run; number the runs of a method, or remove one of the lines"
            )
        places.setdefault(row.key, number)
    return found


def packed(folder: Path) -> Path:
    """Where the trials of a folder are if they are packed."""
    return folder / (TRIALS + ".gz")


def trials_content(folder: Path) -> bytes | None:
    """What is in `trials.jsonl`, or in its packed form if there is only that; None if there is neither. Raises DataError."""
    try:
        if (folder / TRIALS).exists():
            return (folder / TRIALS).read_bytes()
        return gzip.decompress(packed(folder).read_bytes()) if packed(folder).exists() else None
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise DataError(f"{packed(folder)} is not a whole gzip file; get it anew") from None
    except OSError as error:
        raise DataError(f"{folder / TRIALS} cannot be read ({error.strerror})") from None


def json_lines(content: bytes, path: Path, notes: list[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a JSON Lines file by the numbers of their lines; a last line that a kill cut short is left out, and noted.

    Raises DataError for any other line that is no object.
    """
    text = _decoded(content, path)
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if not line and number == len(lines):
            return
        try:
            cells = json.loads(line)
        except (ValueError, RecursionError):
            if number == len(lines):
                notes.append(f"The last line of {path.name} is not whole and was left out.")
                return
            raise DataError(f"line {number} of {path} is not a whole JSON object; remove it and run the trial again") from None
        if not isinstance(cells, dict):
            raise DataError(f"line {number} of {path} is not a JSON object; expected one trial per line")
        yield number, cells


def _table(path: Path) -> Iterator[tuple[int, Mapping[str, str]]]:
    """The rows of a CSV file by the numbers of their lines, each with as many cells as the heading."""
    try:
        reader = csv.reader(_text(path).splitlines(keepends=True), strict=True)
        heading = next(reader, [])
        if len(heading) == 1 and ";" in heading[0]:
            raise DataError(f"{path} separates its cells by semicolons; save it with commas, as CSV has them")
        if len(set(heading)) < len(heading):
            raise DataError(f"{path} has two columns of one name; every column needs its own")
        for cells in reader:
            if len(cells) != len(heading):
                raise DataError(
                    f"line {reader.line_num} of {path} has {len(cells)} cells where the heading has {len(heading)}; "
                    "it was cut short or edited: make the file again from the trials"
                )
            yield reader.line_num, dict(zip(heading, cells, strict=True))
    except csv.Error as error:
        raise DataError(f"{path} is not a whole CSV file ({error}); make it again from the trials") from None


def _text(path: Path) -> str:
    try:
        return _decoded(path.read_bytes(), path)
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror})") from None


def _decoded(content: bytes, path: Path) -> str:
    try:
        text = content.decode("utf-8-sig")  # spreadsheets put a mark of byte order before the first letter
    except UnicodeDecodeError:
        raise DataError(f"{path} is not text in UTF-8; it is damaged or no file of results") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _json(path: Path) -> dict[str, Any]:
    text = _text(path)
    try:
        content = json.loads(text)
    except ValueError:
        raise DataError(f"{path} is not whole JSON; run the experiment again to have it written anew") from None
    if not isinstance(content, dict):
        raise DataError(f"{path} holds no JSON object; run the experiment again to have it written anew")
    return content
