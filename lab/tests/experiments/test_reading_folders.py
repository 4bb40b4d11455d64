"""Tests of folders without results, or with damaged results. Each is refused in one sentence that
names the place and the remedy.
"""

import json
import math
from pathlib import Path

import pytest

from fastlloyd.errors import DataError
from fastlloyd_lab.experiments.reading import read
from made_up_results import REAL, rows, swept, write

IRIS = {"iris": REAL["iris"]}


def test_a_folder_that_is_none_or_holds_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not a folder"):
        read(tmp_path / "nowhere")
    for content in (None, ""):
        if content is not None:
            (tmp_path / "trials.jsonl").write_text(content)
        with pytest.raises(DataError, match="holds no results"):
            read(tmp_path)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"epsilon": None}, "line 1 of .*`float`.*epsilon"),
        ({"n_features": "four"}, "line 1 of .*`int`.*n_features"),
        ({"n_features": 4.5}, "line 1 of .*`int`.*n_features"),
        ({"n_features": 0}, "line 1 of .*>= 1.*n_features"),
        ({"n_features": None}, "line 1 of .*`int`.*n_features"),
        ({"epsilon": "nan"}, "line 1 of .*epsilon"),
        ({"epsilon": -1}, "line 1 of .*> 0.*epsilon"),
        ({"nicv": -0.5}, "line 1 of .*from 0 to inf, got -0.5 - at `..nicv`"),
        ({"silhouette": 1.5}, "line 1 of .*from -1 to 1, got 1.5 - at `..silhouette`"),
        ({"nicv": "many"}, "line 1 of .*`float`"),
        ({"nicv": "nan"}, "line 1 of .*got nan - at `..nicv`"),
        ({"status": "done"}, "line 1 of .*status"),
        ({"dataset": ""}, "line 1 of .*dataset"),
        ({"run": 1}, "line 1 and line 2 of .* are of one trial"),
    ],
    ids=str,
)
def test_a_damaged_row_is_refused_with_the_place(
    changes: dict[str, object], said: str, tmp_path: Path
) -> None:
    first, *others = rows(IRIS)
    write(tmp_path, [first | changes, *others])
    with pytest.raises(DataError, match=said):
        read(tmp_path)


@pytest.mark.parametrize("name", ["epsilon", "n_clusters", "status"])
def test_a_row_that_lacks_a_column_is_refused_with_the_place(name: str, tmp_path: Path) -> None:
    first, *others = rows(IRIS)
    del first[name]
    write(tmp_path, [first, *others])
    with pytest.raises(DataError, match=f"line 1 of .*lacks|line 1 of .*missing .*`{name}`"):
        read(tmp_path)


def test_a_last_line_that_a_kill_cut_short_is_left_out_and_noted(tmp_path: Path) -> None:
    write(tmp_path, rows(IRIS))
    path = tmp_path / "trials.jsonl"
    whole = read(tmp_path)
    path.write_text(path.read_text().rstrip("\n")[:-9])
    cut = read(tmp_path)
    assert cut.rows == whole.rows[:-1]
    assert cut.notes == ("The last line of trials.jsonl is not whole and was left out.",)


@pytest.mark.parametrize("line", ['{"dataset": ', "[1, 2]", "nonsense"])
def test_a_line_in_the_middle_that_is_no_trial_is_refused(line: str, tmp_path: Path) -> None:
    write(tmp_path, rows(IRIS))
    lines = (tmp_path / "trials.jsonl").read_text().splitlines()
    (tmp_path / "trials.jsonl").write_text("\n".join([lines[0], line, *lines[1:], ""]))
    with pytest.raises(DataError, match=r"line 2.*trials\.jsonl.*whole"):
        read(tmp_path)


def test_options_are_text_and_rows_keep_their_order(tmp_path: Path) -> None:
    made = swept(IRIS, runs=1)
    found = read(write(tmp_path, made[::-1])).rows
    assert [row.method for row in found] == [row["method"] for row in made[::-1]]
    assert {dict(row.options)["clipping"] for row in found if row.options} == {"true", "false"}


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
    with pytest.raises(DataError, match="n_records"):
        read(tmp_path)


def test_infinite_values_are_read_in_every_way_they_are_written(tmp_path: Path) -> None:
    write(tmp_path, rows(IRIS, ["lloyd"]))
    assert {row.epsilon for row in read(tmp_path).rows} == {math.inf}


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("spec.toml", "title = ", "is not TOML"),
        ("spec.toml", "figures = 3", "expected a list of names"),
        ("provenance.json", "{", "not whole JSON"),
        ("provenance.json", "[]", "not whole JSON"),
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
    with pytest.raises(DataError, match="text in UTF-8"):
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
