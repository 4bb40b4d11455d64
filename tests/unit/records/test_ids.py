"""Ids of records: the text of the cell or the integer in decimal, in all formats and blocks, by
both parsers; or a refusal.
"""

import csv
import decimal
import importlib
import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastlloyd.records import Missing, open_records, read_table, table_from_frame
from fastlloyd.records import delimited as delimited_module
from fastlloyd.records.ids import Ids, IntegerIds, TextIds
from fastlloyd.records.table import Table, ids_of
from person_files import INTEGERS, TEXT, UNIT, small_blocks, text, written
from record_files import SECRET, pa, pq, refusal

pd = importlib.import_module("pandas")
pl = importlib.import_module("polars")
NAMES = ["007", "7", "a b", "é", "N1", "nil", "7 ", "x;y", 'q"r', "0x10", "1e3", "nan1"]
X = np.arange(24.0).reshape(12, 2)
NUMBERS = [7, 7, 0, 12, 2**31 - 1, 3, 3, 3, 1, 2, 7, 12]


def texts(records: Table) -> list[str]:
    assert records.ids is not None
    return [each.decode() for each in records.ids.texts()]


def test_text_that_is_not_unicode_is_refused_without_showing_it(tmp_path: Path) -> None:
    broken, f = [SECRET + "\ud800", "b"], [1.0, 2.0]
    np.savez(tmp_path / "a.npz", np.array(broken), np.array(f))
    frame = pd.DataFrame({UNIT: pd.Series(broken, dtype=object), "f": f})
    for said in (
        refusal(lambda: read_table(tmp_path / "a.npz", columns=["arr_1"], unit="arr_0")),
        refusal(lambda: table_from_frame(frame, unit=UNIT)),
    ):
        assert "text that is not valid Unicode" in said
        assert SECRET not in said
        assert "ud800" not in said


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("kind", TEXT)
def test_an_id_is_the_text_of_its_cell_in_every_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, small: bool
) -> None:
    if small:
        small_blocks(monkeypatch)
    path = written(tmp_path, TEXT[kind], X, NAMES)
    found = read_table(path, unit=UNIT)
    assert texts(found) == NAMES
    assert found.values.tobytes() == X.tobytes()
    assert UNIT not in found.columns
    assert UNIT in found.others
    records = open_records(path, ["f1"], unit=UNIT)
    blocks = [ids_of(block) for block in records.column_blocks()]
    assert [each.decode() for ids in blocks if ids is not None for each in ids.texts()] == NAMES
    assert read_table(path, ["f0", "f1"]).ids is None


@pytest.mark.parametrize("kind", INTEGERS)
def test_an_id_that_is_an_integer_is_its_decimal_digits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    small_blocks(monkeypatch)
    found = read_table(written(tmp_path, INTEGERS[kind], X, NUMBERS), unit=UNIT)
    assert texts(found) == list(map(str, NUMBERS))
    assert found.values.tobytes() == X.tobytes()


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_column_of_a_matrix_of_integers_holds_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    small_blocks(monkeypatch)
    matrix = np.array([[-5, 1, 2], [7, 3, 4], [7, 5, 6], [2**40, 8, 9], [0, 1, 1]], order=order)  # type: ignore[call-overload]
    np.save(tmp_path / "m.npy", matrix)
    found = read_table(tmp_path / "m.npy", unit="x1")
    assert found.columns == ("x2", "x3")
    assert texts(found) == [str(i) for i in matrix[:, 0]]
    assert (found.values == matrix[:, 1:]).all()
    np.save(tmp_path / "f.npy", matrix.astype(np.float64))
    assert "float64" in refusal(lambda: read_table(tmp_path / "f.npy", unit="x1"))


@settings(max_examples=60, deadline=None)
@given(
    ids=st.lists(st.text("0n7aN? \"'.,é\t", min_size=1, max_size=6), min_size=1, max_size=30).map(
        lambda ids: [each.lstrip(" ") or "p" for each in ids]
    ),
    sizes=st.sampled_from([(1 << 16, 1 << 20), (5, 20), (25, 40)]),
)
def test_both_parsers_of_text_read_the_same_ids(
    tmp_path_factory: pytest.TempPathFactory, ids: list[str], sizes: tuple[int, int]
) -> None:
    path = tmp_path_factory.mktemp("ids") / "a.csv"
    X = np.linspace(0, 1, 2 * len(ids)).reshape(-1, 2)
    path.write_text(text(X, ids))
    found: list[object] = []
    for has_arrow in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(delimited_module, "FIRST_BYTES", sizes[0])
            patch.setattr(delimited_module, "CHUNK_BYTES", sizes[1])
            patch.setattr(delimited_module, "CHUNK_ROWS", 1)
            if not has_arrow:
                patch.setitem(sys.modules, "pyarrow.csv", None)
            try:
                found.append(texts(read_table(path, unit=UNIT)))
            except ValueError as refused:
                found.append(str(refused))
    assert found[0] == found[1]
    if not isinstance(found[0], str):
        assert (
            found[0]
            == [row[1] for row in csv.reader(text(X, ids).splitlines(), skipinitialspace=True)][1:]
        )


@pytest.mark.parametrize("word", ["", "NA", "null", "?", " nan", "NaN "])
@pytest.mark.parametrize("kind", ["csv", "parquet", "dictionary", "arrow", "npz"])
@pytest.mark.parametrize("missing", Missing)
def test_a_missing_id_is_refused_by_its_place_whatever_becomes_of_missing_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str, kind: str, missing: Missing
) -> None:
    small_blocks(monkeypatch)
    ids = [*NAMES[:8], word, *NAMES[9:]]
    path = written(tmp_path, TEXT[kind], X, ids)
    place = "line 10" if kind == "csv" else "record 9"
    said = refusal(lambda: list(open_records(path, unit=UNIT, missing=missing).blocks_to_check()))
    assert said.startswith(f"{path}, {place}, column {UNIT!r}: the id is missing")


@pytest.mark.parametrize("id_", ["1.15E+15", "1e+16", " 4E+07 "])
@pytest.mark.parametrize("kind", ["csv", "parquet", "dictionary", "arrow", "npz"])
def test_an_id_that_a_spreadsheet_has_shortened_is_refused_by_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, id_: str, kind: str
) -> None:
    small_blocks(monkeypatch)
    path = written(tmp_path, TEXT[kind], X, [*NAMES[:8], id_, id_, *NAMES[10:]])
    for said in (
        refusal(lambda: list(open_records(path, unit=UNIT).blocks_to_check())),
        refusal(lambda: read_table(path, unit=UNIT)),
    ):
        assert said.startswith(
            f"{path}, record 9, column {UNIT!r}: the id is a number with a power of ten"
        )
        assert id_.strip() not in said


def test_what_only_looks_a_little_like_a_shortened_number_is_an_id() -> None:
    ids = TextIds.of(
        [
            b"7.0",
            b"1.15E15",
            b"a1E+15",
            b"1E+15b",
            b"12E+3",
            b"+",
            b"1+1",
            b"",
            b"2E+9",
            b"O+",
            b"3.1e+02",
        ]
    )
    assert ids.shortened().tolist() == [8, 10]
    assert TextIds.of([b"", b"x"]).shortened().tolist() == []


def test_null_is_a_missing_id(tmp_path: Path) -> None:
    for ids in (
        pa.array([1, None, 3]),
        pa.array(["a", None, "c"]),
        pa.array(["a", None, "a"]).dictionary_encode(),
    ):
        pq.write_table(pa.table({UNIT: ids, "f": [1.0, 2.0, 3.0]}), tmp_path / "a.parquet")
        said = refusal(lambda: read_table(tmp_path / "a.parquet", unit=UNIT))
        assert "record 2, column 'patient': the id is missing" in said


@pytest.mark.parametrize("kind", ["csv", "parquet", "arrow", "npz"])
def test_the_ids_of_records_that_are_left_out_go_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    small_blocks(monkeypatch)
    gaps = X.copy()
    gaps[[0, 4, 5, 11], [0, 1, 0, 1]] = np.nan
    found = read_table(written(tmp_path, TEXT[kind], gaps, NAMES), unit=UNIT, missing=Missing.DROP)
    assert texts(found) == [name for i, name in enumerate(NAMES) if i not in {0, 4, 5, 11}]
    assert found.dropped == 4


@pytest.mark.parametrize(
    "ids",
    [
        pa.array([1.0, 2.0]),
        pa.array([True, False]),
        pa.array([date(2020, 1, 1), date(2020, 1, 2)]),
        pa.array([decimal.Decimal(1), decimal.Decimal(2)]),
        pa.array([b"a", b"b"]),
        pa.array([[1], [2]]),
    ],
    ids=["float", "bool", "date", "decimal", "binary", "list"],
)
def test_what_is_neither_text_nor_integers_holds_no_ids(tmp_path: Path, ids: object) -> None:
    pq.write_table(pa.table({UNIT: ids, "f": [1.0, 2.0]}), tmp_path / "a.parquet")
    said = refusal(lambda: open_records(tmp_path / "a.parquet", unit=UNIT))
    assert "integers or text" in said
    assert UNIT in said


def test_ids_of_all_files_of_a_folder_have_one_type(tmp_path: Path) -> None:
    """Else 007 and 7 of one person would become two persons, or the other way round."""
    written(tmp_path, INTEGERS["parquet"], X, NUMBERS, "a")
    written(tmp_path, INTEGERS["unsigned"], X, NUMBERS, "b")
    assert texts(read_table(tmp_path, unit=UNIT)) == list(map(str, 2 * NUMBERS))
    written(tmp_path, TEXT["parquet"], X, list(map(str, NUMBERS)), "c")
    said = refusal(lambda: open_records(tmp_path, unit=UNIT))
    assert "differ in their ids: integers and text" in said


def test_digits_in_text_stay_text_in_every_chunk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chunk in which all ids look like numbers is no column of numbers."""
    small_blocks(monkeypatch)
    ids = ["007"] * 40 + ["x1"] * 40 + ["7"] * 40 + ["7.0"] * 40 + ["1" * 40]
    path = tmp_path / "a.csv"
    path.write_text(text(np.ones((len(ids), 2)), ids))
    assert texts(read_table(path, unit=UNIT)) == ids


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table])
def test_frames_have_ids_too(frame: type) -> None:
    for ids in (NAMES, NUMBERS):
        found = table_from_frame(frame({UNIT: ids, "f": X[:, 0].tolist()}), unit=UNIT)
        assert texts(found) == list(map(str, ids))
        assert found.columns == ("f",)


def test_frames_of_pandas_with_mixed_or_floating_ids_are_refused() -> None:
    f = [1.0, 2.0]
    assert "floating-point" in refusal(
        lambda: table_from_frame(pd.DataFrame({UNIT: [1, None], "f": f}), unit=UNIT)
    )
    assert "several kinds" in refusal(
        lambda: table_from_frame(pd.DataFrame({UNIT: ["a", 7], "f": f}), unit=UNIT)
    )
    large = pd.DataFrame({UNIT: pd.Series([10**5000, 7], dtype=object), "f": f})
    assert "integers of more than 64 bits" in refusal(lambda: table_from_frame(large, unit=UNIT))
    nullable = pd.DataFrame({UNIT: pd.array([SECRET, None]), "f": f})
    assert "record 2, column 'patient': the id is missing" in refusal(
        lambda: table_from_frame(nullable, unit=UNIT)
    )


@pytest.mark.parametrize("kind", ["csv", "parquet", "npz"])
def test_the_column_of_ids_is_no_feature_and_must_be_there(tmp_path: Path, kind: str) -> None:
    path = written(tmp_path, TEXT[kind], X, NAMES)
    assert "be a feature" in refusal(lambda: open_records(path, ["f0", UNIT], unit=UNIT))
    assert "there is no column 'patent' (did you mean 'patient'?)" in refusal(
        lambda: open_records(path, ["f0"], unit="patent")
    )


def test_ids_that_only_names_of_folders_state_are_refused(tmp_path: Path) -> None:
    (tmp_path / "patient=7").mkdir()
    pq.write_table(pa.table({"f": [1.0]}), tmp_path / "patient=7" / "a.parquet")
    assert "in the files" in refusal(lambda: open_records(tmp_path, ["f"], unit=UNIT))


def test_ids_show_in_no_repr(tmp_path: Path) -> None:
    path = written(tmp_path, TEXT["csv"], X, [SECRET] * 12)
    found = read_table(path, unit=UNIT)
    assert SECRET not in repr(found) + repr(found.ids) + repr(open_records(path, unit=UNIT))


@given(ids=st.lists(st.text(max_size=5)), data=st.data())
def test_cutting_keeping_and_joining_ids_is_that_of_lists(
    ids: list[str], data: st.DataObject
) -> None:
    encoded = [each.encode() for each in ids]
    which = np.array(
        data.draw(st.lists(st.booleans(), min_size=len(ids), max_size=len(ids))), dtype=np.bool_
    )
    at = data.draw(st.integers(0, len(ids)))
    every: Sequence[Ids] = [TextIds.of(encoded), IntegerIds(np.arange(len(ids)))]
    for found in every:
        listed = found.texts()
        assert found.kept(which).texts() == [
            each for each, is_kept in zip(listed, which, strict=True) if is_kept
        ]
        assert found.cut(0, at).texts() + found.cut(at, len(ids)).texts() == listed
        assert type(found).joined([found.cut(0, at), found.cut(at, len(ids))]).texts() == listed
    assert every[0].texts() == encoded
    assert every[0].missing().tolist() == [reader_says(each) for each in ids]


def reader_says(cell: str) -> bool:
    return cell.isascii() and cell.strip().lower() in {"", "na", "nan", "null", "?"}
