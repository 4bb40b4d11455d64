"""Folders that hold no results, or damaged ones: one sentence that says where and what to do."""

import json
import math
from pathlib import Path

import pytest

from fastlloyd.errors import DataError
from fastlloyd_lab.experiments.reading import read
from made_up_results import REAL, rows, swept, write

IRIS = {"iris": REAL["iris"]}


def _csv(folder: Path, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "results.csv").write_text(text)
    return folder


def test_a_folder_that_is_none_or_holds_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is not a folder"):
        read(tmp_path / "nowhere")
    with pytest.raises(
        DataError, match=r"holds no results: expected trials\.jsonl or results\.csv"
    ):
        read(tmp_path)
    with pytest.raises(DataError, match="holds no results"):
        read(_csv(tmp_path, "dataset,method\n"))
    with pytest.raises(DataError, match="holds no results"):
        read(_csv(tmp_path, ""))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text.replace("epsilon", "eps", 1), "line 2 of .* has no column 'epsilon'"),
        (lambda text: text[: len(text) // 2].rstrip("\n"), "cells where the heading has"),
        (
            lambda text: text.replace("150,4,3", "150,four,3", 1),
            "line 2 of .*, column 'n_features': 'four' .* a whole number",
        ),
        (
            lambda text: text.replace("150,4,3", "150,4.5,3", 1),
            "line 2 of .*, column 'n_features': '4.5' .* a whole number",
        ),
        (
            lambda text: text.replace("lloyd,inf,0.0,2,0", "lloyd,nan,0.0,2,0", 1),
            "line 2 of .*, column 'epsilon': 'nan'",
        ),
        (
            lambda text: text.replace("lloyd,inf,0.0,2,0", "lloyd,-1,0.0,2,0", 1),
            "'epsilon': '-1' .* a number above 0",
        ),
        (
            lambda text: text.replace("ok,,", "ok,,-", 1),
            "line 2 of .*, column 'nicv': '-0.0.*' .* not negative",
        ),
        (
            lambda text: text.replace("ok,,", "ok,,many ", 1),
            "line 2 of .*, column 'nicv': 'many .*' .* a number",
        ),
        (
            lambda text: text.replace("ok,,0.", "ok,,nan,0.", 1).replace(",7,", ",", 1),
            "line 2 of .*, column 'nicv': 'nan'",
        ),
        (
            lambda text: text.replace("ok,", "done,", 1),
            "line 2 of .*, column 'status': 'done' .* ok or failed",
        ),
        (
            lambda text: text.replace(",2,1,ok", ",2,0,ok", 1),
            "line 2 and line 3 of .* are of one trial",
        ),
        (lambda text: text.replace(",", ";"), "separates its cells by semicolons"),
        (lambda text: text.replace("nicv", "dataset", 1), "two columns of one name"),
        (lambda text: text + '"iris', "not a whole CSV file"),
    ],
    ids=[
        "column",
        "half a line",
        "number",
        "half a number",
        "nan",
        "negative epsilon",
        "negative",
        "text",
        "no number",
        "status",
        "one run twice",
        "semicolons",
        "twice",
        "quotation mark",
    ],
)
def test_a_damaged_table_is_refused_with_the_place(
    change: object, said: str, tmp_path: Path
) -> None:
    write(tmp_path, rows(IRIS))
    assert callable(change)
    _csv(tmp_path, change((tmp_path / "results.csv").read_text()))
    with pytest.raises(DataError, match=said):
        read(tmp_path)


def test_a_last_line_that_a_kill_cut_short_is_left_out_and_noted(tmp_path: Path) -> None:
    write(tmp_path, rows(IRIS), ended=False)
    path = tmp_path / "trials.jsonl"
    whole = read(tmp_path)
    path.write_text(path.read_text().rstrip("\n")[:-9])
    cut = read(tmp_path)
    assert cut.rows == whole.rows[:-1]
    assert cut.notes == ("The last line of trials.jsonl is not whole and was left out.",)


@pytest.mark.parametrize("line", ['{"dataset": ', "[1, 2]", "nonsense"])
def test_a_line_in_the_middle_that_is_no_trial_is_refused(line: str, tmp_path: Path) -> None:
    write(tmp_path, rows(IRIS), ended=False)
    lines = (tmp_path / "trials.jsonl").read_text().splitlines()
    (tmp_path / "trials.jsonl").write_text("\n".join([lines[0], line, *lines[1:], ""]))
    with pytest.raises(DataError, match=r"line 2 of .*trials\.jsonl"):
        read(tmp_path)


def test_trials_that_came_after_the_table_are_read(tmp_path: Path) -> None:
    made = rows(IRIS, runs=3)
    write(tmp_path, made[:-2])
    assert len(read(tmp_path).rows) == len(made) - 2
    write(tmp_path, made, ended=False)
    assert len(read(tmp_path).rows) == len(made)


def test_a_table_that_a_spreadsheet_saved_is_read(tmp_path: Path) -> None:
    """With a mark of byte order, lines that end as on Windows, TRUE in capitals and whole numbers
    with a point.
    """
    write(tmp_path, swept({"iris": REAL["iris"]}, runs=1))
    before = read(tmp_path)
    text = (
        (tmp_path / "results.csv")
        .read_text()
        .replace("True", "TRUE")
        .replace("150,4,3", "150.0,4,3")
    )
    (tmp_path / "results.csv").write_bytes("\ufeff".encode() + text.replace("\n", "\r\n").encode())
    assert read(tmp_path) == before
    assert {dict(row.options)["clipping"] for row in before.rows if row.options} == {
        "true",
        "false",
    }


def test_the_trials_count_and_the_table_gives_their_order(tmp_path: Path) -> None:
    made = rows(IRIS, runs=2)
    write(tmp_path, made[::-1])
    write(tmp_path, made, ended=False)
    asked = [(str(row["method"]), row["epsilon"], row["run"]) for row in made[::-1]]
    assert [(row.method, row.epsilon, row.run) for row in read(tmp_path).rows] == asked
    write(tmp_path, made[:-1], ended=False)
    fewer = read(tmp_path)
    assert len(fewer.rows) == len(made) - 1
    assert fewer.notes == (
        "1 of the rows of results.csv are no longer in trials.jsonl and were left out.",
    )
    write(tmp_path, [made[0] | {"nicv": 0.5}, *made[1:]], ended=False)
    with pytest.raises(
        DataError, match="say different things in column 'nicv' of run 0 of lloyd on iris"
    ):
        read(tmp_path)
    write(
        tmp_path, [made[0] | {"nicv": float(f"{made[0]['nicv']:.15g}")}, *made[1:]], ended=False
    )  # as spreadsheets round
    assert len(read(tmp_path).rows) == len(made)


def test_a_trial_that_failed_before_its_set_was_known_has_no_shape(tmp_path: Path) -> None:
    asked = {
        "dataset": "gone",
        "method": "glloyd",
        "epsilon": 1.0,
        "clients": 2,
        "run": 0,
        "status": "failed",
        "error": "no",
    }
    (tmp_path / "trials.jsonl").write_text(json.dumps(asked) + "\n")
    (row,) = read(tmp_path).rows
    assert (row.error, row.n_features, dict(row.measures)) == ("no", 0, {})
    del asked["status"]
    asked["status"] = "ok"
    (tmp_path / "trials.jsonl").write_text(json.dumps(asked) + "\n")
    with pytest.raises(DataError, match="no column 'n_records'"):
        read(tmp_path)


def test_infinite_values_are_read_in_every_way_they_are_written(tmp_path: Path) -> None:
    write(tmp_path, rows(IRIS, ["lloyd"]), ended=False)
    assert {row.epsilon for row in read(tmp_path).rows} == {math.inf}


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("spec.toml", "title = ", "is not TOML"),
        ("spec.toml", "figures = 3", "expected a list of names"),
        ("provenance.json", "{", "not whole JSON"),
        ("provenance.json", "[]", "holds no JSON object"),
    ],
)
def test_what_stands_beside_the_rows_is_checked_too(
    name: str, content: str, said: str, tmp_path: Path
) -> None:
    write(tmp_path, rows(IRIS))
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=said):
        read(tmp_path)
    (tmp_path / name).write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match="not text in UTF-8"):
        read(tmp_path)


def test_without_a_copy_of_the_specification_title_and_labels_come_from_the_provenance(
    tmp_path: Path,
) -> None:
    write(tmp_path, rows(IRIS))
    (tmp_path / "spec.toml").unlink()
    content = {"title": "From elsewhere", "figures": ["scaling"]}
    provenance = {"specification": {"content": content}, "methods": {"fastlloyd": "Ours"}}
    (tmp_path / "provenance.json").write_text(json.dumps(provenance))
    found = read(tmp_path)
    assert (found.title, found.figures, found.labels) == (
        "From elsewhere",
        ("scaling",),
        {"fastlloyd": "Ours"},
    )
    (tmp_path / "provenance.json").unlink()
    assert (read(tmp_path).title, read(tmp_path).figures) == (tmp_path.name, ("curves",))
