"""Chosen columns as text: the same texts and gaps from every format and from both parsers."""

import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastlloyd.base import extras
from fastlloyd.errors import DataError
from fastlloyd.records import Missing, delimited, open_records
from fastlloyd.records.day_cells import DayCells
from fastlloyd.records.text_cells import CellBlock, TextCells
from record_files import SECRET, refusal

pa = pytest.importorskip("pyarrow")
CELLS = st.sampled_from(
    ["m", "w", " w", "w ", "", "NA", "?", "<0,3", "é", "e\u0301", "M", "1.0", '"a, b"', '"x""y"']
)


def stands(cells: TextCells) -> list[str | None]:
    """Return the text of each record, or None for a missing cell."""
    assert cells.codes.dtype == np.int32
    assert len(set(cells.texts)) == len(cells.texts)
    return [None if code < 0 else cells.texts[code] for code in cells.codes]


def numbers_in(cells: Any) -> Any:
    """Return the numbers of a column, or the days of dates."""
    return cells.days if isinstance(cells, DayCells) else cells


def read(
    path: Path, columns: list[str], texts: set[str], missing: Missing = Missing.DROP
) -> list[list[object]]:
    """Return the columns as lists, with None for a missing cell."""
    found: list[list[object]] = [[] for _ in columns]
    file = open_records(path, columns, missing=missing, text_columns=frozenset(texts))
    for block in file.cell_blocks():
        assert isinstance(block, CellBlock)
        for column, cells in zip(found, block.cells, strict=True):
            assert len(cells) == len(block)
            column.extend(
                stands(cells)
                if isinstance(cells, TextCells)
                else [None if np.isnan(x) else float(x) for x in numbers_in(cells)]
            )
    return found


@given(st.lists(st.tuples(CELLS, CELLS, st.sampled_from(["1", "2.5", "", "NA"])), min_size=1))
def test_both_parsers_of_text_deliver_the_same_texts_and_numbers(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, str]]
) -> None:
    path = tmp_path_factory.mktemp("texts") / "x.csv"
    lines = [";".join(("id", *row)) for row in rows]
    path.write_text("\n".join(["id;a;b;x", "i;m;w;1", *lines]))
    columns, texts = ["b", "x", "a"], {"a", "b"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delimited, "FIRST_BYTES", 10)  # Arrow reads all but the first chunk
        found = read(path, columns, texts)
        patch.setattr(extras, "optional", lambda _: None)
        assert read(path, columns, texts) == found

    def plain(cell: str) -> str | None:
        bare = cell[1:-1].replace('""', '"') if cell.startswith('"') else cell.strip()
        return None if bare in ("", "NA", "?") else unicodedata.normalize("NFC", bare)

    assert found[0][-len(rows) :] == [plain(row[1]) for row in rows]
    assert found[2][-len(rows) :] == [plain(row[0]) for row in rows]


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
@pytest.mark.parametrize("coded", [False, True])
def test_columns_of_arrow_that_are_read_as_they_are_are_texts_numbers_or_days(
    tmp_path: Path, suffix: str, coded: bool
) -> None:
    feather, parquet = (
        pytest.importorskip(f"pyarrow.{name}").__dict__ for name in ("feather", "parquet")
    )
    sex = pa.array(["m ", None, "NA", "w", "m"])
    table = pa.table(
        {
            "sex": sex.dictionary_encode() if coded else sex,
            "n": pa.array([7, None, 7, 8, 9], pa.int16()),
            "day": pa.array([19723, 19724, None, 0, 1], pa.int32()).cast(pa.date32()),
            "x": [0.5, None, 1.5, 2.5, 3.5],
        }
    )
    path = tmp_path / f"x{suffix}"
    (parquet["write_table"] if suffix == ".parquet" else feather["write_feather"])(table, path)
    assert read(path, ["x", "sex", "n", "day"], {"sex", "n", "day"}) == [
        [0.5, None, 1.5, 2.5, 3.5],
        ["m", None, None, "w", "m"],
        [7, None, 7, 8, 9],
        [19723, 19724, None, 0, 1],
    ]


def test_times_with_a_zone_are_no_dates(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "x.parquet"
    parquet.write_table(pa.table({"t": pa.array([0, 1], pa.timestamp("s", "UTC"))}), path)
    with pytest.raises(DataError) as refused:
        read(path, ["t"], {"t"})
    assert (refused.value.code, refused.value.field) == ("dates", "t")


def test_a_missing_text_is_refused_with_its_column_unless_such_records_are_kept(
    tmp_path: Path,
) -> None:
    path = tmp_path / "x.csv"
    path.write_text(f"a,b\n{SECRET},1\n?,2\n")
    with pytest.raises(DataError) as refused:
        read(path, ["a", "b"], {"a"}, Missing.REFUSE)
    assert (refused.value.code, refused.value.field) == ("missing", "a")
    assert SECRET not in str(refused.value)
    assert read(path, ["a"], {"a"}) == [[SECRET, None]]


def test_ids_and_values_stand_in_the_same_order_beside_texts(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("who,sex,age\np1,m,3\np2,w,4\n")
    records = open_records(path, ["age", "sex"], unit="who", text_columns=frozenset({"sex"}))
    (block,) = records.cell_blocks()
    assert block.ids is not None
    assert block.ids.texts() == [b"p1", b"p2"]


def test_an_array_of_numpy_has_no_texts(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((3, 2)))
    assert "as text" in refusal(
        lambda: open_records(tmp_path / "x.npy", ["x1"], text_columns=frozenset({"x1"}))
    )
