"""A worked example: a format of records whose lines are JSON objects.

A patch that adds it touches two files of the package: `records/json_lines.py`, as it stands here,
and the table of formats in `records/reading.py`. The last test applies that patch to a copy of the
package.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from json_lines import JsonLinesFile

import fastlloyd
from fastlloyd.clustering.domain import Domain
from fastlloyd.clustering.grid_records import GridRecords, Outside
from fastlloyd.records import NUMERIC, Missing, open_records, pieces, read_table
from record_files import SECRET, refusal

LINES = (
    '{"age": 61, "name": "a", "bmi": 22.5}\n{"age": null, "name": "b", "bmi": 31}\n{"bmi": 19.25,'
    ' "age": 47}\n'
)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(pieces, "FORMATS", {**pieces.FORMATS, ".jsonl": JsonLinesFile})
    path = tmp_path / "visits.jsonl"
    path.write_text(LINES)
    return path


def test_it_gives_the_table_of_a_csv_file_of_the_same_cells(path: Path) -> None:
    csv = path.with_name("visits.csv")
    csv.write_text("age,name,bmi\n61,a,22.5\n,b,31\n47,,19.25\n")
    for columns in (["bmi", "age"], ["bmi"]):
        found, expected = (read_table(file, columns, missing=Missing.DROP) for file in (path, csv))
        assert found.values.tobytes() == expected.values.tobytes()
        assert (found.columns, found.others, found.dropped) == (
            expected.columns,
            expected.others,
            expected.dropped,
        )
    assert open_records(path, NUMERIC).columns == ("age", "bmi")


def test_it_is_read_in_passes_that_all_see_the_same(path: Path) -> None:
    domain = Domain(features=("age", "bmi"), lower=(0, 10), upper=(60, 60))
    records = open_records(path, ["age", "bmi"], missing=Missing.DROP)
    grid = GridRecords(records, domain, Outside.CLIP, source=str(path), kept_cells=0)
    first, second = (np.concatenate(list(grid)) for _ in range(2))
    assert np.array_equal(first, second)
    assert np.array_equal(first, domain.to_grid(np.array([[61, 22.5], [47, 19.25]])))
    assert (grid.n_outside, records.dropped) == (1, 1)
    refused = GridRecords(records, domain, Outside.REFUSE, source=str(path))
    assert refusal(lambda: list(refused)).startswith(
        f"{path}, line 1, column 'age': the value lies outside the bounds"
    )
    path.write_text(LINES * 2)
    assert "was changed while it was in use" in refusal(lambda: list(records.blocks()))


@pytest.mark.parametrize(
    ("lines", "columns", "sentence"),
    [
        (LINES, None, ", line 1, column 'name': not a number"),
        (LINES, ["age"], ", record 2, column 'age': the cell is missing"),
        (LINES, ["agw"], ": there is no column 'agw' (did you mean 'age'?)"),
        (LINES + "61,22.5\n", ["bmi"], ", line 4: not an object"),
        (LINES + f'{{"bmi": "{SECRET}"}}\n', ["bmi"], ", line 4, column 'bmi': not a number"),
        (LINES + '{"bmi": 1e999}\n', ["bmi"], ", record 4, column 'bmi': not a finite number"),
        ("", None, ": there are no columns"),
    ],
)
def test_it_is_refused_as_other_formats_are(
    path: Path, lines: str, columns: list[str] | None, sentence: str
) -> None:
    path.write_text(lines)
    assert refusal(lambda: read_table(path, columns)).startswith(str(path) + sentence)


def test_a_patch_that_adds_it_adds_one_file_and_changes_one(tmp_path: Path) -> None:
    package = Path(fastlloyd.__file__).parent
    patched = shutil.copytree(
        package, tmp_path / "fastlloyd", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copy(Path(__file__).with_name("json_lines.py"), patched / "records")
    table = patched / "records/pieces.py"
    for before, row in (
        (
            "from fastlloyd.records.numpy_files",
            "from fastlloyd.records.json_lines import JsonLinesFile\n",
        ),
        ('    ".parquet"', '    ".jsonl": JsonLinesFile,\n'),
    ):
        table.write_text(table.read_text().replace(before, row + before, 1))
    (tmp_path / "visits.jsonl").write_text(LINES)
    read = (
        "from fastlloyd.records import read_table; print(read_table('visits.jsonl',"
        " ['bmi']).values.ravel().tolist())"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    output = subprocess.check_output(
        [sys.executable, "-c", read], cwd=tmp_path, env=environment, text=True
    )
    assert output == "[22.5, 31.0, 19.25]\n"
    sources = {str(path.relative_to(patched)): path.read_text() for path in patched.rglob("*.py")}
    old = {str(path.relative_to(package)): path.read_text() for path in package.rglob("*.py")}
    assert {name for name, text in sources.items() if old.get(name) != text} == {
        "records/json_lines.py",
        "records/pieces.py",
    }
