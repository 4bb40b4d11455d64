"""A folder of results as it was left: rows, specification and provenance, checked and never changed.

Every trial is in `trials.jsonl` as soon as it ends; `results.csv` is made when the runner ends, in the order of the
specification, and is read unless trials were added since.
"""

import csv
import json
import math
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fastlloyd.errors import DataError
from fastlloyd.experiments.quantities import in_order

TRIALS, TABLE, SPECIFICATION, PROVENANCE, OVERHEAD = (
    "trials.jsonl",
    "results.csv",
    "spec.toml",
    "provenance.json",
    "overhead.csv",
)
_ASKED = ("dataset", "method", "epsilon", "clients", "run", "status")
_SHAPE = ("n_records", "n_features", "n_clusters")  # unknown where a set could not be had
_OTHERS = ("delta", "error", "n_iterations", "seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One trial. options are the swept ones that its method took; error is empty unless it failed.

    measures hold what was computed, which may be infinite; epsilon is infinite for a method that is not private.
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
        """Trials that failed."""
        return [row for row in self.rows if row.error]


def read(folder: Path) -> Results:
    """Read a folder of results. Raises DataError in one sentence that says what is wrong with it."""
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder; name the one that `fastlloyd experiment run` left")
    rows, notes = _rows(folder)
    overhead = tuple(_table(folder / OVERHEAD)) if (folder / OVERHEAD).is_file() else ()
    if not rows and not overhead:
        raise DataError(f"{folder} holds no results: expected {TRIALS} or {TABLE} with at least one trial in it")
    provenance = _json(folder / PROVENANCE) if (folder / PROVENANCE).is_file() else {}
    text, spec = _specification(folder, provenance)
    figures = spec.get("figures") or (["curves"] if rows else ["overhead"])
    if not isinstance(figures, list) or not all(isinstance(name, str) for name in figures):
        raise DataError(f"the specification of {folder}: figures is {figures!r:.80}; expected a list of names")
    labels = provenance.get("methods")
    return Results(
        title=str(spec.get("title", folder.resolve().name)),
        rows=tuple(rows),
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
        text = _text(folder / SPECIFICATION)
        return text, _toml(text, folder / SPECIFICATION)
    recorded = provenance.get("specification")
    content = recorded.get("content") if isinstance(recorded, dict) else None
    return "", content if isinstance(content, dict) else {}


def _rows(folder: Path) -> tuple[list[Row], list[str]]:
    """Every trial once: one that was run again replaces its row."""
    notes: list[str] = []
    lines = list(_lines(folder / TRIALS, notes)) if (folder / TRIALS).is_file() else []
    table = list(_table(folder / TABLE)) if (folder / TABLE).is_file() else []
    path, cells = (folder / TABLE, table) if len(table) >= len(lines) else (folder / TRIALS, lines)
    trials: dict[tuple[Any, ...], Row] = {}
    for number, each in enumerate(cells, 1):
        row = _row(each, f"trial {number} of {path}")
        trials[row.dataset, row.method, row.epsilon, row.options, row.clients, row.run] = row
    return list(trials.values()), notes


def _lines(path: Path, notes: list[str]) -> Iterator[Mapping[str, Any]]:
    """The objects of a JSON Lines file; a last line that a kill cut short is left out, and noted."""
    text = _text(path)
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        try:
            cells = json.loads(line)
        except ValueError:
            if number == len(lines) and not text.endswith("\n"):
                notes.append(f"The last line of {path.name} is not whole and was left out.")
                return
            raise DataError(f"line {number} of {path} is not a whole JSON object; remove it and run the trial again") from None
        if not isinstance(cells, dict):
            raise DataError(f"line {number} of {path} is not a JSON object; expected one trial per line")
        yield cells


def _table(path: Path) -> Iterator[Mapping[str, str]]:
    """The rows of a CSV file, each with as many cells as the heading."""
    try:
        reader = csv.reader(_text(path).splitlines(keepends=True), strict=True)
        heading = next(reader, [])
        if len(set(heading)) < len(heading):
            raise DataError(f"{path} has two columns of one name; every column needs its own")
        for cells in reader:
            if len(cells) != len(heading):
                raise DataError(
                    f"line {reader.line_num} of {path} has {len(cells)} cells where the heading has {len(heading)}; "
                    "it was cut short or edited: make the file again from the trials"
                )
            yield dict(zip(heading, cells, strict=True))
    except csv.Error as error:
        raise DataError(f"{path} is not a whole CSV file ({error}); make it again from the trials") from None


def _row(cells: Mapping[str, Any], where: str) -> Row:
    failed = _string(cells.get("status")) != "ok"
    for name in (*_ASKED, *(() if failed else _SHAPE)):
        if name not in cells:
            raise DataError(f"{where} has no column {name!r}; a row has {', '.join(_ASKED + _SHAPE)} and measures")
    options, measures = _split(cells)
    return Row(
        dataset=_string(cells["dataset"]),
        method=_string(cells["method"]),
        epsilon=_number(cells, "epsilon", where),
        n_records=_integer(cells, "n_records", where),
        n_features=_integer(cells, "n_features", where),
        n_clusters=_integer(cells, "n_clusters", where),
        clients=_integer(cells, "clients", where),
        run=_integer(cells, "run", where),
        options=tuple((name, text) for name in sorted(options) if (text := _string(cells[name]))),
        error=(_string(cells.get("error")) or "it failed, and says no more") if failed else "",
        measures={} if failed else {name: _number(cells, name, where) for name in measures if _string(cells[name])},
        seconds=_number(cells, "seconds", where) if _string(cells.get("seconds")) else math.nan,
    )


def _split(cells: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Names of swept options, which stand before the status, and of measures, which stand after it."""
    names = list(cells)
    others = [name for name in names if name not in (*_ASKED, *_SHAPE, *_OTHERS)]
    status = names.index("status")
    options = [name for name in others if names.index(name) < status]
    return options, [name for name in others if name not in options]


def _string(cell: object) -> str:
    """A cell as text: a number as Python shows it, nothing for null."""
    return "" if cell is None else str(cell).strip()


def _number(cells: Mapping[str, Any], name: str, where: str) -> float:
    try:
        return float(_string(cells[name]))
    except ValueError:
        raise DataError(f"{where}: {name} is {_string(cells[name])!r:.80}; expected a number") from None


def _integer(cells: Mapping[str, Any], name: str, where: str) -> int:
    """A whole number; 0 where a trial failed before the set was known."""
    text = _string(cells.get(name))
    try:
        return int(text) if text else 0
    except ValueError:
        raise DataError(f"{where}: {name} is {text!r:.80}; expected a whole number") from None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise DataError(f"{path} is not text in UTF-8; it is damaged or no file of results") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror})") from None


def _toml(text: str, path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{path} is not TOML ({error}); put the specification back that was run") from None


def _json(path: Path) -> dict[str, Any]:
    text = _text(path)
    try:
        content = json.loads(text)
    except ValueError:
        raise DataError(f"{path} is not whole JSON; run the experiment again to have it written anew") from None
    if not isinstance(content, dict):
        raise DataError(f"{path} holds no JSON object; run the experiment again to have it written anew")
    return content
