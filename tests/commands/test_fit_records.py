"""`fastlloyd fit`: the records it reads: formats, missing cells, values outside the bounds, very
many.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import (
    FIT,
    FROM_DATA,
    HANG,
    PUBLIC,
    START,
    Command,
    refused,
    started,
    strict,
    write_arrow,
)
from fastlloyd.cli.client_progress import ClientProgress
from fastlloyd.clustering import grid_records
from fastlloyd.clustering.grid_records import Outside
from fastlloyd.jobs.client import own_records
from fastlloyd.jobs.live import LiveFile
from fastlloyd.jobs.source import TableSource
from fastlloyd.jobs.watching import RecordsFound
from fastlloyd.mechanisms.catalogue import read_mechanism
from fastlloyd.records import RecordFile, Table, reading
from fastlloyd.reports.run_result import COMPARISON
from fastlloyd.testing import SeededNoise
from federation import make_plan


def test_a_constant_column_gets_bounds_half_a_unit_away(fastlloyd: Command, here: Path) -> None:
    (here / "flat.csv").write_text("a,b,c\n1,7,1e9\n2,7,1e9\n3,7,1e9\n")
    code, _, _ = fastlloyd("fit", "flat.csv", "-k", "1", *FROM_DATA, "--out", "result")
    m = read_mechanism(Path("result/mechanism.toml").read_text())
    assert code == 0
    assert (m.domain.lower[:2], m.domain.upper[:2]) == ((1.0, 6.5), (3.0, 7.5))
    assert m.domain.lower[2] < 1e9 - 0.5 < 1e9 + 0.5 < m.domain.upper[2]


def test_values_outside_the_bounds_are_clipped_and_the_owner_is_told(fastlloyd: Command) -> None:
    bounds = ("--bounds", "age=0:100,dose=2:5")
    outside = int((np.loadtxt("data.csv", delimiter=",", skiprows=1)[:, 1] < 2).sum())
    command = ("fit", "data.csv", *bounds, "--n-records", "500", "-k", "3")
    code, _, err = fastlloyd(*command, "--no-out")
    assert code == 0
    assert f"Note: {outside} of your records" in err
    code, out, err = fastlloyd(*command, "--json", "--out", "result")
    assert code == 0
    assert "of your records" not in err
    assert strict(out)["leaks"] == []


@pytest.mark.parametrize(
    "command",
    [
        ("fit", "some.csv", "-k", "2", "--bounds", "0:1"),
        ("simulate", "some.csv", "-k", "2", "--bounds", "0:1", "--clients", "2"),
        ("fit", "some.csv", "-k", "2", "--range", "0:1", "--epsilon", "20"),
        ("bounds", "estimate", "some.csv", "--range", "0:1", "--epsilon", "20"),
    ],
    ids=lambda command: " ".join(command[::5]),
)
def test_with_json_no_command_says_how_many_records_were_clipped_or_dropped(
    fastlloyd: Command, here: Path, command: tuple[str, ...]
) -> None:
    """A program reads the result, and others may read the log that stderr goes to."""
    rows = ["0.1,0.3", "0.6,0.8"] * 300 + ["7,0.5"] * 60 + [",0.5"] * 3
    (here / "some.csv").write_text("a,b\n" + "\n".join(rows) + "\n")
    out = () if command[0] == "bounds" else ("--no-out",)
    rest = ("--n-records", "1000", "--missing", "drop", *out)
    code, _, told = fastlloyd(*command, *rest)
    assert code == 0, told
    assert "Note: 60 of your records have values" in told
    assert "Note: 3 of your records have missing cells" in told
    assert "of the values of 'a' lie outside" in told
    code, _, told = fastlloyd(*command, *rest, "--json")
    assert code == 0, told
    assert "of your records" not in told
    assert "of the values" not in told
    assert "exact" not in told


@pytest.mark.usefixtures("repeatable_noise")
def test_the_owner_is_warned_by_column_from_two_percent_of_its_values_on_and_nobody_else(
    fastlloyd: Command, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values beyond a bound are the same records on the grid as values on it: with the same noise
    every byte that is written, and all of the JSON, is the same.
    """
    monkeypatch.setattr("fastlloyd.jobs.fit.SystemNoise", lambda: SeededNoise(1))
    header = (here / "data.csv").read_text().splitlines()[0]
    X = np.loadtxt("data.csv", delimiter=",", skiprows=1)
    many, few = len(X) // 10, int(0.019 * len(X))
    written, said = {}, {}
    for name, age, dose in (("on", 100, 5), ("beyond", 777, 77)):
        X[:many, 0], X[:few, 1] = age, dose
        np.savetxt("values.csv", X, delimiter=",", header=header, comments="")
        code, out, said[name] = fastlloyd(
            "fit", "values.csv", *PUBLIC, *START, "--json", "--out", name
        )
        assert code == 0, said[name]
        files = {path.name: path.read_bytes() for path in Path(name).iterdir()}
        written[name] = files, {**strict(out), "files": None}
        assert "lie outside" not in said[name]
        assert "of your records" not in said[name]
        code, _, said[name] = fastlloyd("fit", "values.csv", *PUBLIC, *START, "--no-out")
        assert code == 0, said[name]
    assert written["on"] == written["beyond"]
    assert "lie outside" not in said["on"]
    assert "of your records have values" not in said["on"]
    warned = [line for line in said["beyond"].splitlines() if line.startswith("Warning: ")]
    assert f"Warning: {many / len(X):.1%} of the values of 'age' lie outside" in warned[0]
    assert not [line for line in warned if "'dose'" in line]


def test_no_number_of_clipped_or_dropped_records_is_in_the_log_of_a_client(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --json, and without a terminal, what a client says is a log, and the same whatever its
    records are.
    """
    plan = make_plan()
    domain, said = plan.mechanism.domain, {}
    for name, value in (("on", 1.0), ("beyond", 99.0)):
        values = np.zeros((20, domain.n_features))
        values[:7, 0] = value * domain.upper[0]
        table = Table(values=values, columns=domain.features, source="memory")
        for place in ("json", "log", "terminal"):
            is_terminal = place == "terminal"
            monkeypatch.setattr(sys.stderr, "isatty", lambda shows=is_terminal: shows)
            progress = ClientProgress(
                plan, "a", LiveFile(None), as_json=place == "json", is_rehearsal=False
            )
            source = TableSource(table)
            with own_records(source, plan.mechanism, Outside.CLIP, b"k" * 32) as own:
                own.look()
            progress.watch(
                RecordsFound(dropped=source.dropped, clipped=source.clipped, seconds=own.seconds)
            )
            said[name, place] = capsys.readouterr().err
    assert [json.loads(line)["message"] for line in said["on", "json"].splitlines()] == [
        json.loads(line)["message"] for line in said["beyond", "json"].splitlines()
    ]
    assert said["on", "log"] == said["beyond", "log"]
    assert "outside" not in said["on", "terminal"]
    assert "35.0% of the values of" in said["beyond", "terminal"]


@pytest.mark.parametrize("large", [False, True], ids=["in memory", "in passes"])
def test_a_value_outside_the_bounds_is_refused_by_its_line_or_by_its_number_in_the_file(
    fastlloyd: Command, here: Path, monkeypatch: pytest.MonkeyPatch, large: bool
) -> None:
    """Blank lines, lines of the header and dropped records count."""
    monkeypatch.setattr(reading, "LARGE_TEXT", 0 if large else 1 << 28)
    (here / "odd.csv").write_text('age,"note in\ntwo lines"\n20,a\n\n21,"b"\n,c\n22,d\n400,e\n')
    write_arrow(
        here / "odd.parquet", {"age": [20.0, 21.0, None, 22.0, 400.0], "note": list("abcde")}
    )
    fit = (
        "--columns",
        "age",
        "--bounds",
        "0:100",
        "--n-records",
        "9",
        "-k",
        "2",
        "--missing",
        "drop",
        "--outside",
        "refuse",
    )
    for file, place in (("odd.csv", "line 8"), ("odd.parquet", "record 5")):
        refused(
            fastlloyd("fit", file, *fit),
            f"{file}, {place}, column 'age': the value lies outside the bounds",
        )


def test_a_misspelt_name_of_bounds_is_told_before_what_is_wrong_with_a_record(
    fastlloyd: Command, here: Path
) -> None:
    (here / "gap.csv").write_text("age,sex\n20,\n")
    for bounds in ("agee=0:100", "agee=0:100,sex=0:1"):
        refused(
            fastlloyd("fit", "gap.csv", "--bounds", bounds, "--n-records", "9", "-k", "2"),
            "did you mean 'age'?",
        )
    used = ("--bounds", "age=0:100,sex=0:1")
    refused(
        fastlloyd("fit", "gap.csv", *used, "--n-records", "9", "-k", "2"),
        "column 'sex': the cell is missing",
    )


@pytest.mark.parametrize("source", ["", "s3://"])
def test_an_empty_name_is_refused_in_words(fastlloyd: Command, source: str) -> None:
    refused(
        fastlloyd("fit", source, *PUBLIC),
        "expected a bucket" if source else "the name of the file is empty",
    )


def test_a_stray_quotation_mark_in_an_unused_column_is_refused_at_every_door(
    fastlloyd: Command, here: Path
) -> None:
    records = (here / "data.csv").read_text().splitlines()
    lines = [records[0] + ",note", *(f"{record},text" for record in records[1:])]
    (here / "notes.csv").write_text("\n".join(lines))
    chosen = ("--columns", "age,dose")
    assert fastlloyd("fit", "notes.csv", *chosen, *PUBLIC, "--out", "result").code == 0
    lines[50], lines[80] = f'{records[50]},"text', f'{records[80]},text"'
    (here / "notes.csv").write_text("\n".join(lines))
    for command in (
        ("fit", "notes.csv", *chosen, *PUBLIC),
        ("simulate", "notes.csv", "--clients", "2", *chosen, *PUBLIC),
        ("assign", "result", "notes.csv"),
        ("bounds", "template", "notes.csv", "--out", "template.toml"),
    ):
        refused(
            fastlloyd(*command),
            "notes.csv, line 51: the row does not end in its line",
            "as Parquet",
        )


def test_values_outside_the_bounds_are_refused_on_request_by_line_and_column(
    fastlloyd: Command,
) -> None:
    dose = np.loadtxt("data.csv", delimiter=",", skiprows=1)[:, 1]
    first = int((dose < 2).argmax()) + 1
    bounds = (
        "--bounds",
        "age=0:100,dose=2:5",
        "--n-records",
        "500",
        "-k",
        "3",
        "--outside",
        "refuse",
    )
    for command in (("fit",), ("simulate", "--clients", "2")):
        outcome = fastlloyd(command[0], "data.csv", *command[1:], *bounds, "--out", "result")
        refused(
            outcome, f"data.csv, line {first + 1}, column 'dose': the value lies outside the bounds"
        )
        assert str(dose[first - 1])[:5] not in outcome.err
        assert not Path("result").exists()
    code, _, err = fastlloyd(*FIT, "--outside", "refuse")
    assert (code, err) == (0, "")


@pytest.mark.parametrize(
    "command", [("fit",), ("simulate", "--clients", "2")], ids=["fit", "simulate"]
)
def test_records_with_missing_cells_are_left_out_on_request_and_the_owner_alone_is_told(
    fastlloyd: Command, here: Path, command: Sequence[str]
) -> None:
    lines = (here / "data.csv").read_text().splitlines()
    lines[5], lines[77] = ",1.5", "40,NA"
    (here / "gaps.csv").write_text("\n".join(lines))
    name, *more = command
    refused(
        fastlloyd(name, "gaps.csv", *more, *PUBLIC), "gaps.csv, line 6, column 'age'", "missing"
    )
    code, out, err = fastlloyd(
        name, "gaps.csv", *more, *PUBLIC, "--missing", "drop", "--json", "--out", "result"
    )
    assert code == 0
    assert "left out" not in out + err
    for path in Path("result").iterdir():
        assert b"left out" not in path.read_bytes()
    code, _, err = fastlloyd(name, "gaps.csv", *more, *PUBLIC, "--missing", "drop", "--no-out")
    assert code == 0
    assert err.startswith(
        "Note: 2 of your records have missing cells and were left out. This number is exact: keep"
        " it to"
    )


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".npz"])
def test_other_formats_are_clustered_as_the_text_file_is(
    fastlloyd: Command, here: Path, suffix: str
) -> None:
    """Without noise the same records from the same start give the same centroids, digit for
    digit.
    """
    age, dose = np.loadtxt("data.csv", delimiter=",", skiprows=1).T
    columns = {"note": np.array(["text"] * 300), "dose": dose, "age": age}
    if suffix == ".npz":
        np.savez(here / "data.npz", **columns)
    else:
        write_arrow(here / f"data{suffix}", columns)
    options = (
        "--columns",
        "age,dose",
        *PUBLIC,
        "--algorithm",
        "lloyd",
        "--public-seed",
        "5",
        "--json",
    )
    of_text, of_other = (
        strict(fastlloyd("fit", f"data{end}", *options).out) for end in (".csv", suffix)
    )
    assert of_other["clusters"] == of_text["clusters"]


def test_a_file_of_very_many_records_is_fitted_in_passes_with_the_same_files_and_pictures(
    fastlloyd: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = fastlloyd("fit", "data.csv", *PUBLIC, "--plot-data", "--outside", "clip", "--out", "few")
    monkeypatch.setattr(reading, "LARGE_TEXT", 0)
    many = fastlloyd(
        "fit",
        "data.csv",
        *PUBLIC,
        "--plot-data",
        "--outside",
        "clip",
        "--out",
        "many",
        "--compare-non-private",
    )
    assert (few.code, many.code) == (0, 0)
    assert {p.name for p in Path("many").iterdir()} == {p.name for p in Path("few").iterdir()} | {
        COMPARISON
    }
    for leaking in ([], ["--outside", "refuse"]):
        outcome = fastlloyd(
            "fit", "data.csv", "--n-clusters", "3", "--epsilon", "1", *FROM_DATA, *leaking, "--json"
        )
        assert outcome.code == 0
        assert len(strict(outcome.out)["leaks"]) == 2


def test_a_file_that_changes_between_two_rounds_is_refused_and_nothing_is_written(
    fastlloyd: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "LARGE_TEXT", 0)
    made = grid_records.GridRecords.__init__
    defaults = {**(made.__kwdefaults__ or {}), "kept_cells": 0}
    monkeypatch.setattr(made, "__kwdefaults__", defaults)
    genuine = RecordFile.blocks_to_check

    def grows(file: RecordFile) -> Iterator[Any]:
        yield from genuine(file)
        with Path("data.csv").open("a") as text:
            text.write("50,3\n")

    monkeypatch.setattr(RecordFile, "blocks_to_check", grows)
    outcome = fastlloyd("fit", "data.csv", *PUBLIC, "--out", "result")
    refused(outcome, "data.csv", "was changed while it was in use")
    assert not Path("result").exists()


def test_standard_input_is_a_text_file(here: Path) -> None:
    """Through a pipe, which is read once, and from a file, which is read again."""
    for pass_on in (True, False):
        with (here / "data.csv").open() as file:
            source: Any = subprocess.PIPE if pass_on else file
            arguments = ("fit", "-", *PUBLIC, "--json", "--no-out")
            with started(*arguments, stdin=source, stdout=subprocess.PIPE) as process:
                out, _ = process.communicate(file.read() if pass_on else None, timeout=HANG)
        assert process.returncode == 0
        assert strict(out)["features"] == ["age", "dose"]


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("age;dose\n1.234,5;2\n", "state a mark of thousands with --thousands"),
        ("age;dose\n1.5;2,5\n", "all numbers must use the decimal comma"),
        ("sep=;\nage;dose\n1;2\n", "the first line is a note for Excel, not a header; delete it"),
        ("sep=,\nage,dose\n1,2\n", "the first line is a note for Excel, not a header; delete it"),
    ],
)
def test_what_a_spreadsheet_writes_is_refused_with_the_way_out(
    fastlloyd: Command, here: Path, text: str, fragment: str
) -> None:
    (here / "sheet.csv").write_text(text)
    refused(fastlloyd("fit", "sheet.csv", *PUBLIC), "sheet.csv", fragment)


def test_a_workbook_is_refused_with_the_way_out(fastlloyd: Command, here: Path) -> None:
    (here / "sheet.xlsx").write_bytes(b"PK")
    way_out = (
        "sheet.xlsx: workbooks are not read; save the sheet as CSV in UTF-8, with decimal points"
    )
    refused(fastlloyd("fit", "sheet.xlsx", *PUBLIC), way_out)


@pytest.mark.parametrize("large", [False, True], ids=["in memory", "in passes"])
def test_a_folder_and_a_pattern_are_read_as_one_file_is(
    fastlloyd: Command, here: Path, monkeypatch: pytest.MonkeyPatch, large: bool
) -> None:
    monkeypatch.setattr(reading, "LARGE_TEXT", 0 if large else 1 << 28)
    header, *records = (here / "data.csv").read_text().splitlines()
    for year in (2023, 2024):
        (here / f"visits/year={year}").mkdir(parents=True)
        (here / f"visits/year={year}/part-0.csv").write_text(
            "\n".join([header, *records[year == 2024 :: 2]])
        )
    exact = (
        "-k",
        "3",
        "--algorithm",
        "lloyd",
        "--bounds",
        "0:100",
        "--n-records",
        "500",
        "--public-seed",
        "1",
    )
    assert fastlloyd("fit", "data.csv", *exact, "--out", "one").code == 0
    for source in ("visits", "visits/*/*.csv"):
        assert fastlloyd("fit", source, *exact).code == 0
        [folder] = here.glob("visits-k3-*")
        assert (folder / "centroids.csv").read_bytes() == Path("one/centroids.csv").read_bytes()
        assert fastlloyd("assign", str(folder), source, "--out", "labels.csv").code == 0
        assert len(Path("labels.csv").read_text().splitlines()) == len(records) + 1
        shutil.rmtree(folder)
        Path("labels.csv").unlink()
    assert "year" in fastlloyd("bounds", "template", "visits").out


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("*.tsv", "*.tsv: no file matches this pattern"),
        ("empty", "empty: there are no files in this folder"),
        ("ftp://example.org/x.csv", "ftp: stores of this kind are not read"),
    ],
)
def test_a_source_without_files_is_refused_at_every_door(
    fastlloyd: Command, here: Path, source: str, sentence: str
) -> None:
    (here / "empty").mkdir()
    for command in (
        ("fit", source, *PUBLIC),
        ("simulate", source, "--clients", "2", *PUBLIC),
        ("bounds", "template", source),
    ):
        refused(fastlloyd(*command), sentence)


def test_an_empty_seed_is_refused_which_a_variable_that_is_not_set_would_be(
    fastlloyd: Command,
) -> None:
    code, out, err = fastlloyd(*FIT, "--public-seed", "", "--no-out")
    assert (code, out) == (2, "")
    assert (
        err == "Error: --public-seed is empty; expected a number or a text; leave it out for a new"
        " seed\n"
    )
