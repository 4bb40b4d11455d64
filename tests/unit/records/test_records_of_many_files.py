"""Many files as one source: the same records as one file has, whatever the format; what does not
belong together is refused.
"""

import os
import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from fastlloyd.clustering.domain import Domain
from fastlloyd.clustering.grid_records import GridRecords, Outside
from fastlloyd.records import NUMERIC, Missing, open_records, pieces, read_table
from fastlloyd.records.record_file import RecordFile
from record_files import (
    NAMED,
    NAMELESS,
    SECRET,
    Matrix,
    formats,
    pa,
    pq,
    refusal,
    written,
)

FORMATS = {**NAMED, **NAMELESS}


def parts(
    folder: Path, kind: str, blocks: Sequence[Matrix], within: Sequence[str] = ("", "b/", "b/c/")
) -> list[Path]:
    """A file for each block of records, in folders one below another, in the order of their
    paths.
    """
    paths = []
    for i, block in enumerate(blocks):
        place = folder / within[min(i, len(within) - 1)]
        place.mkdir(parents=True, exist_ok=True)
        path = written(place, kind, block)
        paths.append(path.rename(path.with_name(f"a{i}{FORMATS[kind][0]}")))
    return paths


# The same records


@pytest.mark.parametrize("kind", formats())
def test_a_piece_is_pickled_and_opened_elsewhere_and_all_of_them_are_the_source(
    tmp_path: Path, kind: str
) -> None:
    X = np.arange(60.0).reshape(30, 2)
    parts(tmp_path, kind, [X[:11], X[11:]])
    records = open_records(tmp_path)
    for found in (records.pieces, [part for piece in records.pieces for part in piece.split()]):
        copies = pickle.loads(pickle.dumps(found))  # noqa: S301 - our own
        assert list(copies) == list(found)
        blocks = [block for piece in copies for block in RecordFile.of_piece(piece).blocks()]
        assert np.concatenate(blocks).tobytes() == X.tobytes()
        assert not {"n_rows=", "before="} & {
            word for piece in found for word in ("n_rows=", "before=") if word in repr(piece)
        }


@pytest.mark.parametrize("cells", [1, 8, 20, 1 << 20])
def test_a_parquet_file_is_split_into_runs_of_row_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cells: int
) -> None:
    monkeypatch.setattr(pieces, "PIECE_CELLS", cells)
    X = np.arange(46.0).reshape(23, 2)
    path = written(tmp_path, "parquet", X)  # row groups of 4
    [piece] = open_records(path, ["x2"]).pieces
    split = piece.split()
    assert len(split) == {1: 6, 8: 3, 20: 2, 1 << 20: 1}[cells]
    assert [part.before for part in split] == list(
        np.cumsum([0, *(part.n_rows for part in split)])[:-1]
    )
    parts = [np.concatenate(list(RecordFile.of_piece(part).blocks())) for part in split]
    assert [len(part) for part in parts] == [part.n_rows for part in split]
    assert np.concatenate(parts).tolist() == X[:, [1]].tolist()
    assert split[-1].split() == [split[-1]]


# Places in messages


@pytest.mark.parametrize("kind", formats())
@pytest.mark.parametrize("missing", Missing)
def test_messages_name_the_file_and_the_record_in_it(
    tmp_path: Path, kind: str, missing: Missing
) -> None:
    X = np.zeros((12, 2))
    X[9, 1], X[2, 0] = 7, np.nan if missing is Missing.DROP else 0
    paths = parts(tmp_path, kind, [X[:5], X[5:]])
    records = open_records(tmp_path, missing=missing)
    assert sum(map(len, records.blocks())) == 12 - (missing is Missing.DROP)
    where = "line 6" if kind in ("csv", "gzip") else "record 5"
    assert records.place(9 if missing is Missing.DROP else 10) == f"{paths[1]}, {where}"
    domain = Domain(features=("x1", "x2"), lower=(-1.0, -1.0), upper=(1.0, 1.0))
    grid = GridRecords(
        open_records(tmp_path, missing=missing), domain, Outside.REFUSE, source=records.source
    )
    assert refusal(lambda: list(grid)).startswith(
        f"{tmp_path}, {paths[1]}, {where}, column 'x2': the value lies outside"
    )
    X[9, 1] = np.inf
    parts(tmp_path, kind, [X[:5], X[5:]])
    sentence = refusal(lambda: read_table(tmp_path, missing=missing))
    assert sentence.startswith(f"{paths[1]}, {where}, column 'x2': not a finite number")


def test_a_part_of_a_file_names_the_record_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "PIECE_CELLS", 1)
    X = np.ones((10, 1))
    X[6] = np.nan
    path = written(tmp_path, "parquet", X)
    part = open_records(path).pieces[0].split()[1]  # records 5 to 8
    assert refusal(lambda: RecordFile.of_piece(part).table()).startswith(
        f"{path}, record 7, column 'x1'"
    )
    dropped = RecordFile.of_piece(replace(part, missing=Missing.DROP))
    assert dropped.place(3) == "record 8"


# Changes


@pytest.mark.parametrize("change", ["a file more", "a file less", "another time", "other bytes"])
@pytest.mark.parametrize("when", ["before a pass", "during a pass"])
def test_a_change_of_any_file_ends_the_pass(tmp_path: Path, change: str, when: str) -> None:
    first, second = parts(tmp_path, "npy", [np.ones((2, 2)), np.ones((3, 2))])
    changes: dict[str, Callable[[], object]] = {
        "a file more": lambda: np.save(tmp_path / "later.npy", np.ones((3, 2))),
        "a file less": second.unlink,
        "another time": lambda: os.utime(second, ns=(0, 0)),
        "other bytes": lambda: np.save(second, np.ones((2, 2))),
    }
    records = open_records(tmp_path)
    list(records.blocks())
    blocks = records.blocks()
    if when == "during a pass":
        next(blocks)
    changes[change]()
    sentence = refusal(lambda: list(blocks))
    assert "was changed while it was in use" in sentence or change == "a file less"
    assert sentence.startswith(str(tmp_path / "later.npy" if change == "a file more" else second))
    if change != "a file more":
        assert str(second) in refusal(lambda: list(RecordFile.of_piece(records.pieces[1]).blocks()))
    assert len(list(RecordFile.of_piece(records.pieces[0]).blocks())) == 1
    assert first.exists()


# What folders state


def test_folders_state_columns_that_are_used_where_they_are_asked_for(tmp_path: Path) -> None:
    within = ("year=2023/site=a%20b", "year=2024/site=c", "year=__HIVE_DEFAULT_PARTITION__/site=c")
    parts(
        tmp_path,
        "parquet",
        [np.full((2, 2), 1.0), np.full((1, 2), 2.0), np.full((1, 2), 3.0)],
        within,
    )
    assert open_records(tmp_path).columns == ("x1", "x2")
    assert open_records(tmp_path).others == ("year", "site")
    assert open_records(tmp_path, NUMERIC).columns == ("x1", "x2", "year")
    table = read_table(tmp_path, ["year", "x2"], missing=Missing.DROP)
    assert table.values.tolist() == [[2023, 1], [2023, 1], [2024, 2]]
    assert "column 'year': the cell is missing" in refusal(
        lambda: read_table(tmp_path, ["x1", "year"])
    )
    assert "column 'site'" in refusal(lambda: open_records(tmp_path, ["site", "x1"]))
    assert read_table(tmp_path / "year=20*", ["year", "x1"]).values.tolist() == [
        [2023, 1],
        [2023, 1],
        [2024, 2],
    ]
    assert open_records(tmp_path / "year=2024").others == (
        "site",
    )  # the source itself states nothing
    [piece] = open_records(tmp_path / "year=2024", ["x1", "site"][:1]).pieces
    assert piece.folders == {"site": None}


@pytest.mark.parametrize("kind", formats())
def test_a_column_that_folders_state_has_the_same_value_in_every_record(
    tmp_path: Path, kind: str
) -> None:
    parts(tmp_path, kind, [np.ones((3, 2)), np.zeros((2, 2))], ("z=0.1", "z=-3"))
    values = read_table(tmp_path, ["x2", "z", "x1"]).values  # z=-3 is before z=0.1
    assert values.tolist() == [[0, -3, 0]] * 2 + [[1, 0.1, 1]] * 3


def test_a_column_of_a_file_is_not_replaced_by_what_its_folder_states(tmp_path: Path) -> None:
    parts(tmp_path, "csv", [np.ones((2, 2)), np.zeros((2, 2))], ("x1=5", "x1=6"))
    for columns in (None, ["x1", "x2"], NUMERIC):
        records = open_records(tmp_path, columns)
        assert records.others == ()
        assert records.table().values.tolist() == [[1, 1]] * 2 + [[0, 0]] * 2


def test_a_folder_does_not_replace_a_column_that_only_some_files_have(tmp_path: Path) -> None:
    for folder, text in (("year=1", "x\n5\n"), ("year=2", "x,year\n6,9\n")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.csv").write_text(text)
    assert read_table(tmp_path, ["x"]).values.tolist() == [[5], [6]]
    for columns in (["x", "year"], NUMERIC):
        sentence = refusal(partial(open_records, tmp_path, columns))
        assert sentence.startswith(f"{tmp_path}/year=2/a.csv: column 'year'")


# One file, once


@pytest.mark.parametrize("make", ["symlink_to", "hardlink_to"])
def test_a_file_of_two_names_is_refused_because_its_records_would_count_twice(
    tmp_path: Path, make: str
) -> None:
    (tmp_path / "2024.csv").write_text("a,b\n1,2\n")
    getattr(tmp_path / "latest.csv", make)(tmp_path / "2024.csv")
    sentence = (
        f"{tmp_path}/2024.csv and {tmp_path}/latest.csv are one file, whose records would count"
        " twice"
    )
    assert refusal(partial(open_records, tmp_path)).startswith(sentence)
    assert refusal(partial(open_records, tmp_path / "*.csv")).startswith(sentence)
    assert read_table(tmp_path / "2*.csv").values.tolist() == [[1, 2]]


def test_a_file_beside_itself_packed_is_refused(tmp_path: Path) -> None:
    for kind in ("csv", "gzip"):
        [path] = parts(tmp_path, kind, [np.ones((1, 2))])
    sentence = refusal(partial(open_records, tmp_path))
    assert sentence.startswith(
        f"{tmp_path}/a0.csv and {path} are one file, whose records would count twice"
    )


def test_linked_folders_are_read_as_others_are_and_a_circle_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a.csv").write_text("a,b\n3,4\n")
    folder = tmp_path / "visits"
    folder.mkdir()
    (folder / "b.csv").write_text("a,b\n1,2\n")
    (folder / "linked").symlink_to(tmp_path / "elsewhere")
    for source in (folder, folder / "**"):
        assert read_table(source).values.tolist() == [[1, 2], [3, 4]]
    (folder / "self").symlink_to(folder)
    refusal(partial(open_records, folder))


def test_what_never_ends_is_not_opened_in_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    os.mkfifo(tmp_path / "b.csv")
    assert refusal(partial(open_records, tmp_path)).startswith(
        f"{tmp_path}/b.csv: this is not a regular file"
    )


@pytest.mark.parametrize("log", ["_delta_log/0.json", ".hoodie/a", "metadata/v1.metadata.json"])
def test_the_files_of_a_lake_table_hold_deleted_records_and_some_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: str
) -> None:
    [file, _] = parts(
        tmp_path, "parquet", [np.ones((2, 2)), np.ones((2, 2))], ["visits/data/year=1/"]
    )
    assert open_records(tmp_path / "visits").n_rows == 4
    (tmp_path / "visits" / log).parent.mkdir()
    (tmp_path / "visits" / log).touch()
    (tmp_path / "linked").symlink_to(file.parent)
    for source in ("visits", "visits/**/*.parquet", "visits/data/year=1", "vis*", "linked"):
        assert refusal(partial(open_records, tmp_path / source)).startswith(
            f"{tmp_path}/visits: this is a table of"
        )
    monkeypatch.chdir(file.parent)
    for source in (".", "*.parquet"):
        assert refusal(partial(open_records, source)).startswith(
            f"{tmp_path}/visits: this is a table of"
        )
    assert open_records(file).n_rows == 2  # who names one file means it


# Refusals


@pytest.mark.parametrize(
    ("files", "columns", "what"),
    [
        ({}, None, "there are no files in this folder"),
        ({"_SUCCESS": "", ".a.csv": "a\n1\n"}, None, "there are no files in this folder"),
        ({"a.csv": "a,b\n1,2\n", "b.csv": "a,c\n1,2\n"}, None, "b.csv: there is no column 'b'"),
        (
            {"a.csv": "a,b\n1,2\n", "b.csv": "a,b,c\n1,2,3\n"},
            None,
            "b.csv differ in their columns: only one has 'c'",
        ),
        (
            {"a.csv": "a,b\n1,2\n", "b.csv": "1,2\n"},
            None,
            "there is no column 'a'; the columns are 'x1', 'x2'",
        ),
        ({"a.csv": "a,b\n1,2\n", "b.tsv": "a\n2\n"}, ["b"], "b.tsv: there is no column 'b'"),
        (
            {"a.csv": "a,b\n1,2\n", "b.csv": f"a,b\n1,{SECRET}\n"},
            None,
            "b.csv, line 2, column 'b': not a number",
        ),
        ({"a.csv": "a,b\n1,2\n", "b.npy": ""}, None, "b.npy differ in format"),
        ({"a.csv": "a,b\n1,2\n", "README.md": "about"}, None, "README.md"),
        ({"a.csv": "a,b\n1,2\n", "b.csv": ""}, None, "b.csv: the file is empty"),
    ],
)
def test_what_does_not_belong_together_is_refused(
    tmp_path: Path, files: dict[str, str], columns: list[str] | None, what: str
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert what in refusal(lambda: read_table(tmp_path, columns))


def test_files_whose_types_differ_are_refused_by_both_names_where_one_is_no_number(
    tmp_path: Path,
) -> None:
    for name, values in (
        ("a", pa.array([1.5])),
        ("b", pa.array([2], pa.int64())),
        ("c", pa.array(["x"])),
    ):
        pq.write_table(pa.table({"x": values}), tmp_path / f"{name}.parquet")
    sentence = refusal(lambda: open_records(tmp_path))
    assert sentence.startswith(f"{tmp_path}/c.parquet: column 'x' holds text")
    assert f"{tmp_path}/a.parquet" in sentence
    assert read_table(tmp_path / "[ab].parquet").values.tolist() == [[1.5], [2]]


def test_other_columns_may_differ_where_columns_are_chosen_by_name(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    (tmp_path / "b.csv").write_text("c,b\nx,3\n")
    assert read_table(tmp_path, ["b"]).values.tolist() == [[2], [3]]


def test_files_without_records_are_passed_over_unless_all_are(tmp_path: Path) -> None:
    parts(
        tmp_path,
        "parquet",
        [np.ones((0, 2)), np.ones((2, 2)), np.ones((0, 2)), np.full((1, 2), 5.0)],
    )
    records = open_records(tmp_path)
    assert (len(records.table().values), records.n_rows) == (3, 3)
    assert records.place(3).endswith("a3.parquet, record 1")
    for path in tmp_path.rglob("a[13].parquet"):
        path.unlink()
    assert "there are no records" in refusal(open_records(tmp_path).table)


def test_a_pattern_without_a_match_is_refused_and_a_file_of_this_name_is_read(
    tmp_path: Path,
) -> None:
    pattern = tmp_path / "visits[1].csv"
    assert refusal(partial(open_records, pattern)) == f"{pattern}: no file matches this pattern"
    pattern.write_text("a,b\n1,2\n")
    assert read_table(pattern).values.tolist() == [[1, 2]]
    (tmp_path / "_part_1.csv").write_text("a,b\n3,4\n")
    assert read_table(tmp_path / "*").values.tolist() == [[1, 2]]
    assert (
        read_table(tmp_path / "_*").values.tolist()
        == read_table(tmp_path / "_part*").values.tolist()
        == [[3, 4]]
    )


@pytest.mark.parametrize("name", ["/nowhere/*/x.csv", "/nowhere/x.csv"])
def test_a_folder_that_is_not_there(name: str) -> None:
    assert refusal(partial(open_records, name)).startswith(name)
