"""Data frames: the same table as a file of the same numbers, whatever library made the frame."""

import datetime as dt
import importlib
import sys
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fastlloyd.errors import DataError
from fastlloyd.records import Missing, read_table, table_from_frame
from record_files import SECRET, Matrix, arrow_table, matrices, pa, refusal, written

pd = importlib.import_module("pandas")
pl = importlib.import_module("polars")
CELLS = st.floats(allow_infinity=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("records")


MAKERS: dict[str, Callable[[Matrix, list[str]], Any]] = {
    "pandas": lambda X, names: pd.DataFrame(X, columns=names),
    "pandas, nullable": lambda X, names: pd.DataFrame(X, columns=names).astype("Float64"),
    "pandas on Arrow": lambda X, names: arrow_table(X, names).to_pandas(types_mapper=pd.ArrowDtype),
    "pandas, other index": lambda X, names: pd.DataFrame(
        X, columns=names, index=[f"i{i}" for i in range(len(X))]
    ),
    "pandas, objects": lambda X, names: (
        pd.DataFrame(X, columns=names).astype(object).where(~np.isnan(X), None)
    ),
    "polars": lambda X, names: pl.DataFrame(X, schema=names, orient="row"),
    "polars, nulls": lambda X, names: pl.DataFrame(X, schema=names, orient="row").fill_nan(None),
    "arrow": arrow_table,
    "arrow batch": lambda X, names: arrow_table(X, names).combine_chunks().to_batches()[0],
}


@pytest.mark.parametrize("maker", MAKERS)
@given(X=matrices(CELLS), data=st.data())
def test_a_frame_gives_the_table_of_a_file_of_the_same_numbers(
    folder: Path, maker: str, X: Matrix, data: st.DataObject
) -> None:
    # a column of objects without a number has no type, so nobody can tell that it holds numbers
    assume("objects" not in maker or not np.isnan(X).all(axis=0).any())
    names = [f"x{i + 1}" for i in range(X.shape[1])]
    columns = data.draw(
        st.one_of(st.none(), st.lists(st.sampled_from(names), min_size=1, unique=True))
    )
    missing = data.draw(st.sampled_from(Missing))
    frame, path = MAKERS[maker](X, names), written(folder, "parquet", X)

    def outcome(read: Callable[[], Any]) -> object:
        try:
            table = read()
        except DataError as refused:
            return str(refused).partition(", ")[2] or str(refused).partition(": ")[2]
        return table.columns, table.others, table.dropped, table.values.tobytes()

    from_frame = outcome(lambda: table_from_frame(frame, columns, missing=missing))
    assert from_frame == outcome(lambda: read_table(path, columns, missing=missing))


COLUMNS = {
    "Int64 of pandas": pd.Series([2**63 - 1, None], dtype="Int64"),
    "boolean of pandas": pd.Series([True, None], dtype="boolean"),
    "decimals of pandas": pd.Series([Decimal("0.1"), None]),
    "int64 of Polars": pl.Series([2**63 - 1, None]),
    "bool of Polars": pl.Series([True, None]),
    "decimals of Polars": pl.Series([Decimal("0.1"), None]),
}


@pytest.mark.parametrize(
    ("kind", "cell"), [*zip(COLUMNS, [float(2**63), 1.0, 0.1] * 2, strict=True)]
)
def test_nullable_columns_are_rounded_to_the_nearest_and_na_is_a_missing_cell(
    kind: str, cell: float
) -> None:
    frame = (pd if "pandas" in kind else pl).DataFrame({"a": COLUMNS[kind]})
    table = table_from_frame(frame, missing=Missing.DROP)
    assert (table.values.tolist(), table.dropped) == ([[cell]], 1)
    assert "record 2, column 'a': the cell is missing" in refusal(lambda: table_from_frame(frame))


REFUSED = {
    "text": [SECRET, "b"],
    "digits": ["1", "2"],
    "dates": [dt.datetime(2020, 1, 5)] * 2,
    "lists": [[1.0], [2.0]],
    "nothing": [None, None],
}


@pytest.mark.parametrize("kind", REFUSED)
@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_a_chosen_column_that_is_no_number_is_refused_and_others_may_hold_anything(
    library: Any, kind: str
) -> None:
    frame = library.DataFrame({"age": [1.0, 2.0], "odd": REFUSED[kind]})
    assert "column 'odd' holds" in refusal(lambda: table_from_frame(frame))
    assert table_from_frame(frame, ["age"]).others == ("odd",)


def test_a_column_of_mixed_objects_is_refused_without_quoting_them() -> None:
    for cells in ([SECRET, 1.0], [1.0, SECRET], [{SECRET}, 1], [object(), 1]):
        frame = pd.DataFrame({"odd": pd.Series(cells, dtype=object), "age": [1, 2]})
        assert refusal(partial(table_from_frame, frame)).startswith(
            "pandas DataFrame: column 'odd' holds "
        )
        assert table_from_frame(frame, ["age"]).values.tolist() == [[1], [2]]


def test_categories_are_refused() -> None:
    for frame in (
        pd.DataFrame({"a": pd.Categorical([1, 2])}),
        pl.DataFrame({"a": pl.Series([SECRET], dtype=pl.Categorical)}),
    ):
        # bound now
        assert "holds categories" in refusal(lambda frame=frame: table_from_frame(frame))  # type: ignore[misc]


def test_names_that_are_not_text_are_spelled_and_repeated_ones_refused() -> None:
    assert table_from_frame(pd.DataFrame(np.eye(2)), ["1", "0"]).values.tolist() == [[0, 1], [1, 0]]
    assert "'a' occurs 2 times" in refusal(
        lambda: table_from_frame(pd.DataFrame(np.eye(2), columns=["a", "a"]))
    )


def test_frames_without_records_or_columns_are_refused() -> None:
    assert "no records" in refusal(lambda: table_from_frame(pl.DataFrame({"a": [1.0]}).clear()))
    assert "no columns" in refusal(lambda: table_from_frame(pl.DataFrame()))
    assert "no columns" in refusal(lambda: table_from_frame(pd.DataFrame()))


@pytest.mark.parametrize(
    "other", [None, [[1.0]], np.eye(2), {"a": [1.0]}, pl.LazyFrame({"a": [1.0]}), pd.Series([1.0])]
)
def test_what_is_no_frame_is_refused(other: object) -> None:
    assert type(other).__name__ in refusal(lambda: table_from_frame(other))


def test_w22_infinity_in_a_frame_is_refused_with_record_and_column() -> None:
    frame = pl.DataFrame({"a": [1.0, 2.0], "b": [1.0, -np.inf]})
    for missing in Missing:
        # bound now
        sentence = refusal(lambda missing=missing: table_from_frame(frame, missing=missing))  # type: ignore[misc]
        assert sentence.startswith("polars DataFrame, record 2, column 'b': not a finite number")


def test_an_arrow_table_is_read_without_pandas_and_polars(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pandas", "polars"):
        monkeypatch.setitem(sys.modules, name, None)  # to import it would raise
    assert table_from_frame(pa.table({"a": [1, 2]})).values.tolist() == [[1], [2]]


def test_a_column_of_objects_without_a_number_is_refused_whatever_is_missing() -> None:
    frame = pd.DataFrame({"x1": [None], "x2": [1.0]}).astype({"x1": object})
    for missing in Missing:
        read = partial(table_from_frame, frame, ["x1"], missing=missing)
        assert "nothing but missing cells" in refusal(read)
