"""A folder of results as it was left: rows, specification and provenance, checked and never
changed.

Every trial is in `trials.jsonl` as soon as it ends, and that file is what counts; `results.csv` is
made of it when the runner ends, and gives the order of the specification. A folder of somebody's
own program may hold the table alone. Trials that are handed on may be packed as `trials.jsonl.gz`,
a tenth of the space.

A row is the cells of a table or a JSON object, every number checked. Measures that are sums of
squares or counts are never negative, a silhouette lies in [-1, 1], and none is "not a number": such
a cell was not written by an experiment, and a mean over it would say nothing.
"""

import csv
import gzip
import json
import math
import tomllib
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from fastlloyd.errors import DataError
from fastlloyd_lab.experiments.measures import in_order, quantity

TRIALS, TABLE, OVERHEAD = "trials.jsonl", "results.csv", "overhead.csv"
SPECIFICATION, PROVENANCE = "spec.toml", "provenance.json"
Cells = dict[str, Any]  # a row as it is written: a value for each column that it has
OK, FAILED = "ok", "failed"
SHAPE = ("n_records", "n_features", "n_clusters")  # unknown where a set could not be had
_ASKED = ("method", "epsilon", "delta", "clients", "run")
_ENDED = ("status", "error")
_COST = ("n_iterations", "seconds")
FIXED = frozenset(("dataset", *SHAPE, *_ASKED, *_ENDED, *_COST))
_NEEDED = ("dataset", "method", "epsilon", "clients", "run", "status")
_TRUTH = {"True": "true", "TRUE": "true", "False": "false", "FALSE": "false"}
_WHOLE = ("a whole number, 0 or more", "a whole number of at least 1")
_SPREADSHEET = 1e-9  # relative: programs that keep 15 digits of a number change it by less
_Key = tuple[str, str, float, tuple[tuple[str, str], ...], int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One trial. options are the swept ones that its method took; error is empty unless it failed.

    measures hold what was computed, which may be infinite; epsilon is infinite for a method that is
    not private.
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
        """What tells this trial from all others."""
        return self.dataset, self.method, self.epsilon, self.options, self.clients, self.run


def columns(options: Sequence[str], measures: Sequence[str]) -> list[str]:
    """Names of all columns, in order."""
    return ["dataset", *SHAPE, *_ASKED, *options, *_ENDED, *measures, *_COST]


@lru_cache(maxsize=64)  # rows have few kinds of headings, and there are very many rows
def split(names: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of swept options, which stand before the status in a heading, and of measures, which
    stand after it.
    """
    status = names.index("status")
    before, after = (
        tuple(name for name in part if name not in FIXED)
        for part in (names[:status], names[status:])
    )
    return before, after


def parse(cells: Mapping[str, Any], where: str) -> Row:
    """The row of a trial. where : "line 2 of FILE". Raises DataError that names place and
    column.
    """
    failed = text(cells.get("status")) == FAILED
    for name in _NEEDED if failed else _NEEDED + SHAPE:
        if name not in cells:
            raise DataError(
                f"{where} has no column {name!r}; a row has {', '.join(_NEEDED + SHAPE)} and"
                " measures"
            )
    if (status := text(cells["status"])) not in (OK, FAILED):
        raise _wrong(where, "status", status, "ok or failed")
    options, measures = split(tuple(cells))
    if (epsilon := _number(cells, "epsilon", where)) <= 0:
        raise _wrong(
            where,
            "epsilon",
            text(cells["epsilon"]),
            "a number above 0, or inf for a method that is not private",
        )
    least = 0 if failed else 1
    return Row(
        dataset=_name(cells, "dataset", where),
        method=_name(cells, "method", where),
        epsilon=epsilon,
        n_records=_integer(cells, "n_records", where, least),
        n_features=_integer(cells, "n_features", where, least),
        n_clusters=_integer(cells, "n_clusters", where, least),
        clients=_integer(cells, "clients", where, 1),
        run=_integer(cells, "run", where, 0),
        options=tuple((name, said) for name in sorted(options) if (said := text(cells[name]))),
        error=(text(cells.get("error")) or "it failed, and says no more") if failed else "",
        measures=(
            {}
            if failed
            else {name: _measure(cells, name, where) for name in measures if text(cells[name])}
        ),
        seconds=_number(cells, "seconds", where) if text(cells.get("seconds")) else math.nan,
    )


def difference(one: Row, other: Row) -> str:
    """The first column in which two rows of one trial differ by more than a spreadsheet's rounding;
    "" if there is none.
    """
    if one == other:
        return ""
    if bool(one.error) != bool(other.error):
        return "status"
    for name in SHAPE:
        if getattr(one, name) != getattr(other, name):
            return name
    for name in {**one.measures, **other.measures}:
        if name not in one.measures or name not in other.measures:
            return name
        if not math.isclose(
            one.measures[name], other.measures[name], rel_tol=_SPREADSHEET, abs_tol=1e-300
        ):
            return name
    return ""


def text(cell: object) -> str:
    """A cell as text: a number as Python shows it, true and false as JSON does, nothing for
    null.
    """
    if cell is None:
        return ""
    said = str(cell).strip()
    return _TRUTH.get(said, said)


def _name(cells: Mapping[str, Any], name: str, where: str) -> str:
    said = text(cells[name])
    if not said:
        raise _wrong(where, name, said, "a name")
    return said


def _measure(cells: Mapping[str, Any], name: str, where: str) -> float:
    value = _number(cells, name, where)
    known = quantity(name)
    if not known.low <= value <= known.high:
        expected = (
            "a number that is not negative"
            if known.high == math.inf
            else f"a number from {known.low:g} to {known.high:g}"
        )
        raise _wrong(where, name, text(cells[name]), expected)
    return value


def _number(
    cells: Mapping[str, Any],
    name: str,
    where: str,
    expected: str = "a number, or inf for an infinite one",
) -> float:
    cell: Any = cells.get(name)
    try:
        odd = (
            cell is None or isinstance(cell, bool) or (isinstance(cell, str) and "_" in cell)
        )  # float() takes 1_000
        value = math.nan if odd else float(cell)
    except (
        ValueError,
        TypeError,
        OverflowError,
    ):  # text, a list, a whole number that no float holds
        value = math.nan
    if math.isnan(value):
        raise _wrong(where, name, text(cell), expected)
    return value


def _integer(cells: Mapping[str, Any], name: str, where: str, least: int) -> int:
    """A whole number; 0 where a trial failed before the set was known."""
    if not least and not text(cells.get(name)):
        return 0
    expected = _WHOLE[least]
    value = _number(cells, name, where, expected)
    if not value.is_integer() or value < least:
        raise _wrong(where, name, text(cells[name]), expected)
    return int(value)


def _wrong(where: str, name: str, said: str, expected: str) -> DataError:
    return DataError(f"{where}, column {name!r}: {said!r:.80} stands there; expected {expected}")


# Folders


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """What is in a folder. figures : names as the specification has them; labels : methods as
    figures name them.
    """

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
    """Read a folder of results. Raises DataError in one sentence that says what is wrong with
    it.
    """
    if not folder.is_dir():
        raise DataError(
            f"{folder} is not a folder; name the one that `fastlloyd experiment run` left"
        )
    found, notes = _rows(folder)
    overhead = (
        tuple(cells for _, cells in _table(folder / OVERHEAD))
        if (folder / OVERHEAD).is_file()
        else ()
    )
    if not found and not overhead:
        raise DataError(
            f"{folder} holds no results: expected {TRIALS} or {TABLE} with at least one trial in it"
        )
    provenance = _json(folder / PROVENANCE) if (folder / PROVENANCE).is_file() else {}
    text, spec = _specification(folder, provenance)
    figures = spec.get("figures") or (["curves"] if found else ["overhead"])
    if not isinstance(figures, list) or not all(isinstance(name, str) for name in figures):
        raise DataError(
            f"the specification of {folder}: figures is {figures!r:.80}; expected a list of names"
        )
    labels = provenance.get("methods")
    return Results(
        title=str(spec.get("title", folder.resolve().name)),
        rows=tuple(found),
        figures=tuple(figures),
        labels=(
            {str(name): str(label) for name, label in labels.items()}
            if isinstance(labels, dict)
            else {}
        ),
        specification=text,
        provenance=provenance,
        notes=tuple(notes),
        overhead=overhead,
    )


def _specification(folder: Path, provenance: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """What was asked for, as text and as its content: a copy of the file, or what the provenance
    has of it.
    """
    if (folder / SPECIFICATION).is_file():
        path = folder / SPECIFICATION
        text = _text(path)
        try:
            return text, tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise DataError(
                f"{path} is not TOML ({error}); put the specification back that was run"
            ) from None
    recorded = provenance.get("specification")
    content = recorded.get("content") if isinstance(recorded, dict) else None
    return "", content if isinstance(content, dict) else {}


def _rows(folder: Path) -> tuple[list[Row], list[str]]:
    """Every trial once: those of `trials.jsonl` if it is there, in the order of the table as far as
    that has them.
    """
    notes: list[str] = []
    table = _trials(folder / TABLE, _table(folder / TABLE)) if (folder / TABLE).is_file() else {}
    content = trials_content(folder)
    if content is None:
        return list(table.values()), notes
    trials = _trials(folder / TRIALS, json_lines(content, folder / TRIALS, notes))
    for key, row in table.items():
        if key in trials and (column := difference(row, trials[key])):
            raise DataError(
                f"{folder / TABLE} and {TRIALS} say different things in column {column!r} of run"
                f" {row.run} of {row.method} on {row.dataset}, epsilon {row.epsilon:g}: one of them"
                f" was changed; run the experiment again, which makes the table anew of {TRIALS},"
                f" or remove {TRIALS} to keep the table"
            )
    if gone := len(table.keys() - trials.keys()):
        notes.append(
            f"{gone:,} of the rows of {TABLE} are no longer in {TRIALS} and were left out."
        )
    return [trials.pop(key) for key in table if key in trials] + list(trials.values()), notes


def _trials(path: Path, lines: Iterable[tuple[int, Mapping[str, Any]]]) -> dict[Any, Row]:
    """Rows by what tells their trials apart. Raises DataError where two lines are of one trial and
    do not say the same.
    """
    found: dict[Any, Row] = {}
    places: dict[Any, int] = {}
    for number, cells in lines:
        row = parse(cells, f"line {number} of {path}")
        if difference(found.setdefault(row.key, row), row):
            raise DataError(
                f"line {places[row.key]} and line {number} of {path} are of one trial and say"
                " different things: the same data set, method, epsilon, clients, options and run;"
                " number the runs of a method, or remove one of the lines"
            )
        places.setdefault(row.key, number)
    return found


def packed(folder: Path) -> Path:
    """Where the trials of a folder are if they are packed."""
    return folder / (TRIALS + ".gz")


def trials_content(folder: Path) -> bytes | None:
    """What is in `trials.jsonl`, or in its packed form if there is only that; None if there is
    neither. Raises DataError.
    """
    try:
        if (folder / TRIALS).exists():
            return (folder / TRIALS).read_bytes()
        return gzip.decompress(packed(folder).read_bytes()) if packed(folder).exists() else None
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise DataError(f"{packed(folder)} is not a whole gzip file; get it anew") from None
    except OSError as error:
        raise DataError(f"{folder / TRIALS} cannot be read ({error.strerror})") from None


def json_lines(
    content: bytes, path: Path, notes: list[str]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a JSON Lines file by the numbers of their lines; a last line that a kill cut
    short is left out, and noted.

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
            raise DataError(
                f"line {number} of {path} is not a whole JSON object; remove it and run the trial"
                " again"
            ) from None
        if not isinstance(cells, dict):
            raise DataError(
                f"line {number} of {path} is not a JSON object; expected one trial per line"
            )
        yield number, cells


def _table(path: Path) -> Iterator[tuple[int, Mapping[str, str]]]:
    """The rows of a CSV file by the numbers of their lines, each with as many cells as the
    heading.
    """
    try:
        reader = csv.reader(_text(path).splitlines(keepends=True), strict=True)
        heading = next(reader, [])
        if len(heading) == 1 and ";" in heading[0]:
            raise DataError(
                f"{path} separates its cells by semicolons; save it with commas, as CSV has them"
            )
        if len(set(heading)) < len(heading):
            raise DataError(f"{path} has two columns of one name; every column needs its own")
        for cells in reader:
            if len(cells) != len(heading):
                raise DataError(
                    f"line {reader.line_num} of {path} has {len(cells)} cells where the heading has"
                    f" {len(heading)}; it was cut short or edited: make the file again from the"
                    " trials"
                )
            yield reader.line_num, dict(zip(heading, cells, strict=True))
    except csv.Error as error:
        raise DataError(
            f"{path} is not a whole CSV file ({error}); make it again from the trials"
        ) from None


def _text(path: Path) -> str:
    try:
        return _decoded(path.read_bytes(), path)
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror})") from None


def _decoded(content: bytes, path: Path) -> str:
    try:
        text = content.decode(
            "utf-8-sig"
        )  # spreadsheets put a mark of byte order before the first letter
    except UnicodeDecodeError:
        raise DataError(
            f"{path} is not text in UTF-8; it is damaged or no file of results"
        ) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _json(path: Path) -> dict[str, Any]:
    text = _text(path)
    try:
        content = json.loads(text)
    except ValueError:
        raise DataError(
            f"{path} is not whole JSON; run the experiment again to have it written anew"
        ) from None
    if not isinstance(content, dict):
        raise DataError(
            f"{path} holds no JSON object; run the experiment again to have it written anew"
        )
    return content
