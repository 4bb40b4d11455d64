"""From a path to records: every format gives the same table, and what is no such file is refused in
a sentence.
"""

import importlib
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastlloyd.base import extras
from fastlloyd.errors import DataError
from fastlloyd.records import Missing, open_records, read_csv, read_table
from record_files import (
    BINARY,
    NAMED,
    NAMELESS,
    SECRET,
    Matrix,
    csv_text,
    matrices,
    refusal,
    written,
)

FORMATS = [*NAMED, *NAMELESS]
SUFFIX = {kind: suffix for kind, (suffix, _) in {**NAMED, **NAMELESS}.items()}
CELLS = st.floats(allow_infinity=False)  # NaN: a missing cell


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("records")


def same(path: Path, X: Matrix, columns: Sequence[str] | None = None) -> bool:
    table = read_table(path, columns)
    return table.values.tobytes() == np.ascontiguousarray(X).tobytes()


# The same table from every format


@pytest.mark.parametrize("kind", FORMATS)
@settings(max_examples=30)
@given(X=matrices())
def test_every_format_gives_every_float64_as_a_csv_file_of_the_same_numbers_does(
    folder: Path, kind: str, X: Matrix
) -> None:
    path = written(folder, kind, X)
    (folder / "same.csv").write_text(csv_text(X, [f"x{i + 1}" for i in range(X.shape[1])]))
    table, text = read_table(path), read_csv(folder / "same.csv")
    assert table.values.tobytes() == text.values.tobytes() == X.tobytes()
    assert (table.columns, table.others, table.dropped) == (text.columns, (), 0)
    assert table.source == str(path)


@pytest.mark.parametrize("kind", FORMATS)
@settings(max_examples=30)
@given(X=matrices(), data=st.data())
def test_columns_are_chosen_by_name_in_any_order_in_every_format(
    folder: Path, kind: str, X: Matrix, data: st.DataObject
) -> None:
    d = X.shape[1]
    names = (
        ["mean radius", "a.b", "größe", "x4", "_"][:d]
        if kind in NAMED
        else [f"x{i + 1}" for i in range(d)]
    )
    picked = data.draw(st.lists(st.integers(0, d - 1), min_size=1, unique=True))
    path = written(folder, kind, X, names)
    table = read_table(path, [names[i] for i in picked])
    assert table.columns == tuple(names[i] for i in picked)
    assert table.others == tuple(name for i, name in enumerate(names) if i not in picked)
    assert table.values.tobytes() == np.ascontiguousarray(X[:, picked]).tobytes()


@pytest.mark.parametrize("kind", FORMATS)
@settings(max_examples=30)
@given(X=matrices(CELLS))
def test_records_with_missing_cells_are_dropped_and_counted_or_refused_with_the_first(
    folder: Path, kind: str, X: Matrix
) -> None:
    path = written(folder, kind, X)
    whole = ~np.isnan(X).any(axis=1)
    if whole.all():
        assert same(path, X)
        return
    record, column = np.argwhere(np.isnan(X))[0]
    where = f"line {record + 2}" if kind in ("csv", "gzip") else f"record {record + 1}"
    assert refusal(lambda: read_table(path)).startswith(
        f"{path}, {where}, column 'x{column + 1}': the cell is missing"
    )
    if whole.any():
        table = read_table(path, missing=Missing.DROP)
        assert table.values.tobytes() == X[whole].tobytes()
        assert table.dropped == (~whole).sum()
    else:
        assert "every record has a missing cell" in refusal(
            lambda: read_table(path, missing=Missing.DROP)
        )


@pytest.mark.parametrize("missing", Missing)
@pytest.mark.parametrize("kind", FORMATS)
@settings(max_examples=30)
@given(X=matrices(), infinity=st.sampled_from([np.inf, -np.inf]), data=st.data())
def test_w22_infinity_is_refused_with_record_and_column_even_where_missing_cells_are_dropped(
    folder: Path, kind: str, missing: Missing, X: Matrix, infinity: float, data: st.DataObject
) -> None:
    record, column = (
        data.draw(st.integers(0, X.shape[0] - 1)),
        data.draw(st.integers(0, X.shape[1] - 1)),
    )
    X[record, column] = infinity
    path = written(folder, kind, X)
    where = f"line {record + 2}" if kind in ("csv", "gzip") else f"record {record + 1}"
    sentence = refusal(lambda: read_table(path, missing=missing))
    assert sentence.startswith(f"{path}, {where}, column 'x{column + 1}': not a finite number")


@pytest.mark.parametrize("kind", FORMATS)
def test_what_the_columns_that_are_not_chosen_hold_does_not_matter(folder: Path, kind: str) -> None:
    path = written(folder, kind, np.array([[1.0, np.inf], [2.0, np.nan]]))
    assert same(path, np.array([[1.0], [2.0]]), ["x1"])


# Names


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(
    ("columns", "what"),
    [
        (["x1", "x3"], "there is no column 'x3'"),
        (["x1", "x1"], "'x1' occurs 2 times"),
        ([], "no columns are chosen; choose from 'x1', 'x2'"),
        ("x1", "the chosen columns are the text 'x1'; pass a list of names, such as ['x1']"),
    ],
)
def test_columns_that_are_not_there_are_refused_at_the_door(
    folder: Path, kind: str, columns: Sequence[str], what: str
) -> None:
    path = written(folder, kind, np.ones((2, 2)))
    sentence = refusal(lambda: open_records(path, columns))
    assert what in sentence
    assert str(path) in sentence or "chosen columns" in sentence


# Wrong files


@pytest.mark.parametrize(
    "name", ["t.csv", "t.CSV", "t.tsv", "t.txt", "t.csv.gz", "my.t.csv", "t.tsv.GZ"]
)
def test_the_suffix_chooses_the_reader(folder: Path, name: str) -> None:
    (folder / name).write_text("a\tb\n1\t2\n")
    assert read_table(folder / name, ["b"]).values.tolist() == [[2]]


@pytest.mark.parametrize(
    "name", ["t", "t.gz", "csv", "t.csv.zip", ".csv.bak", "t.parquet.gz", "parquet", "t.pkl"]
)
def test_other_formats_are_refused_with_the_list_of_those_read(folder: Path, name: str) -> None:
    (folder / name).write_text("1,2\n")
    assert refusal(lambda: read_table(folder / name)).endswith(
        "say the format: .csv, .tsv, .txt, each of which may be followed by .gz, or .parquet, .pq,"
        " .arrow, .feather, .ipc, .npy, .npz"
    )


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet", ".arrow", ".npy", ".npz"])
def test_a_path_where_no_file_can_be_read_is_refused_by_name(
    folder: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / f"folder{suffix}").mkdir(exist_ok=True)
    (folder / f"plain{suffix}").write_text("x")
    for name, what in (
        ("absent", "no such file"),
        ("folder", "there are no files in this folder"),
        (f"plain{suffix}/below", "cannot be read ("),
    ):
        path = folder / f"{name}{suffix}"
        assert refusal(partial(open_records, path)).startswith(f"{path}: ")
        assert what in refusal(partial(open_records, path))

    def refuse(
        *_: object, **__: object
    ) -> None:  # the user who runs the tests may be allowed everything
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    path = folder / f"plain{suffix}"
    assert refusal(lambda: open_records(path)) == f"{path}: cannot be read (Permission denied)"


@pytest.mark.parametrize("kind", BINARY)
def test_a_file_of_another_format_or_of_none_is_refused_at_the_door(
    folder: Path, kind: str
) -> None:
    X = np.random.default_rng(1).normal(size=(50, 3))
    suffix = BINARY[kind][0]
    family = {".pq": ".parquet", ".feather": ".arrow", ".ipc": ".arrow"}
    others = [
        other
        for other in FORMATS
        if family.get(SUFFIX[other], SUFFIX[other]) != family.get(suffix, suffix)
    ]
    contents = [written(folder, other, X).read_bytes() for other in others]
    for content in (
        b"",
        b"a",
        f"a,b\n1,{SECRET}\n".encode(),
        bytes(5000),
        SECRET.encode() * 50,
        *contents,
    ):
        path = folder / f"wrong{suffix}"
        path.write_bytes(content)
        sentence = refusal(partial(open_records, path))
        assert sentence.startswith(f"{path}: ")
        assert "again" in sentence


@pytest.mark.parametrize("kind", BINARY)
def test_a_file_that_was_cut_short_anywhere_is_refused(folder: Path, kind: str) -> None:
    path = written(folder, kind, np.random.default_rng(1).normal(size=(40, 3)))
    content = path.read_bytes()
    for length in {*range(0, len(content) - 1, 37), len(content) - 1}:
        path.write_bytes(content[:length])
        if kind == "arrow stream":  # a stream has no end that would have to come
            try:
                assert len(read_table(path).values) < 40 or length >= len(content) - 8
            except DataError as refused:
                assert str(refused).startswith(f"{path}: ")  # noqa: PT017 - either outcome is right
        else:
            assert refusal(partial(read_table, path)).startswith(f"{path}: ")


@pytest.mark.parametrize("kind", BINARY)
@settings(
    max_examples=40, derandomize=True
)  # the parsers of others are not to be explored anew in every run
@given(
    flips=st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(1, 255)), min_size=1, max_size=4)
)
def test_a_damaged_file_gives_a_finite_table_or_one_sentence(
    folder: Path, kind: str, flips: list[tuple[int, int]]
) -> None:
    path = written(folder, kind, np.random.default_rng(1).normal(size=(10, 2)))
    content = bytearray(path.read_bytes())
    for position, change in flips:
        content[position % len(content)] ^= change
    path.write_bytes(content)
    try:
        table = read_table(path)
    except DataError as refused:
        assert str(refused).startswith(str(path))  # noqa: PT017 - either outcome is right
        assert "\n" not in str(refused)  # noqa: PT017 - the same
    else:
        assert np.isfinite(table.values).all()


@pytest.mark.parametrize("kind", FORMATS)
def test_a_file_without_records_is_refused(folder: Path, kind: str) -> None:
    path = written(folder, kind, np.ones((0, 2)))
    assert "no records" in refusal(lambda: read_table(path))


@pytest.mark.parametrize("kind", BINARY)
def test_a_pipe_is_refused_where_the_format_needs_a_file(folder: Path, kind: str) -> None:
    path = folder / f"pipe{BINARY[kind][0]}"
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    assert "not a regular file" in refusal(lambda: open_records(path))


def test_without_pyarrow_numpy_and_text_files_are_read_and_the_others_say_what_to_install(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = {
        kind: written(folder, kind, np.ones((2, 2)))
        for kind in ("csv", "npy", "columns in npz", "parquet", "arrow")
    }
    original = importlib.import_module

    def without(name: str, package: str | None = None) -> object:
        if name.startswith("pyarrow"):
            raise ModuleNotFoundError(name)
        return original(name, package)

    monkeypatch.setattr(importlib, "import_module", without)
    for kind in ("csv", "npy", "columns in npz"):
        assert same(paths[kind], np.ones((2, 2)))
    for kind in ("parquet", "arrow"):
        assert extras.command("data") in refusal(partial(open_records, paths[kind]))
