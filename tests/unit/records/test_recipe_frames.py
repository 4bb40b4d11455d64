"""Data frames as the features of a recipe: kinds of columns, words for missing, refusals."""

import datetime as dt
import traceback
from typing import Any

import numpy as np
import pytest

from fastlloyd import Recipe
from fastlloyd.errors import DataError
from fastlloyd.records.day_cells import DayCells
from fastlloyd.records.recipe.cells import cells_of
from fastlloyd.records.recipe.dates import reader_of
from fastlloyd.records.recipe.rows import Using
from fastlloyd.records.recipe_frames import frame_records

pd: Any = pytest.importorskip("pandas")
pl: Any = pytest.importorskip("polars")
pa: Any = pytest.importorskip("pyarrow")

CANARY = "xyzzy"


def test_no_repr_shows_a_cell_or_an_id() -> None:
    recipe = Recipe.of({"features": {"a": {"bounds": [0, 9]}}})
    records = frame_records(pd.DataFrame({"a": [7.25]}), Using(features=recipe.features), [b"who"])
    cells = cells_of(np.array([7.25]))
    for each in (records, cells, cells.numbers(float)):
        assert not any(secret in repr(each) for secret in ("7.25", "who"))


def values_of(features: dict[str, Any], X: Any, **here: Any) -> Any:
    recipe = Recipe.of({"features": features, "here": here})
    return frame_records(X, Using(features=recipe.features, here=recipe.here)).values


def test_text_is_read_as_the_recipe_says_numbers_are_written() -> None:
    frame = pd.DataFrame({"Alter": ["1.234,5", " 7 ", "k.A.", None, float("nan")]})
    found = values_of(
        {"age": {"bounds": [0, 9000], "missing": 3.0}}, frame, names={"age": "Alter"},
        decimal=",", thousands=".", missing_words=["K.A."],
    )  # fmt: skip
    assert found.tolist() == [[1234.5], [7], [3], [3], [3]]


@pytest.mark.parametrize("missing", [None, pd.NaT, pd.NA, float("nan")])
def test_every_value_that_stands_for_nothing_is_a_missing_cell(missing: Any) -> None:
    features = {"born": {"date": "%Y-%m-%d", "bounds": ["1970-01-01", "1970-01-09"],
                "missing": "1970-01-05"}}  # fmt: skip
    for cells in ([dt.date(1970, 1, 3), missing], ["1970-01-03", missing]):
        frame = pd.DataFrame({"born": pd.Series(cells, dtype=object)})
        assert values_of(features, frame).tolist() == [[2], [4]]
    nothing = pd.DataFrame({"born": pd.Series([missing, missing], dtype=object)})
    assert values_of(features, nothing).tolist() == [[4], [4]]


def test_a_time_of_the_day_is_the_same_part_of_the_day_in_text_and_in_types() -> None:
    day = reader_of("%Y-%m-%d %H:%M:%S")
    texts = [f"19{y:02}-07-{d:02} {h:02}:{m:02}:59" for y, d, h, m in
             np.random.default_rng(0).integers((0, 1, 0, 0), (99, 29, 24, 60), (500, 4))]  # fmt: skip
    for unit in ("s", "ms", "us", "ns"):
        times = np.array([text.replace(" ", "T") for text in texts], dtype=f"datetime64[{unit}]")
        assert DayCells.of_times(times).days.tolist() == [day(text) for text in texts]


def test_categories_of_numbers_are_their_digits() -> None:
    features = {"code": {"values": {"1": 0, "2": 5}, "missing": 1.0}}
    for cells in (
        pd.Series([1, 2, None], dtype="category"),
        pd.Series([1.0, 2.0, None]),
        pd.Series(["1", "2", None], dtype="category"),
        pl.Series([1, 2, None]),
        pl.Series(["1", "2", None], dtype=pl.Enum(["1", "2"])),
    ):
        frame = {"code": cells}
        X = pl.DataFrame(frame) if isinstance(cells, pl.Series) else pd.DataFrame(frame)
        assert values_of(features, X).tolist() == [[0], [5], [1]]


def test_an_array_has_the_columns_in_the_order_of_the_recipe() -> None:
    features = {"a": {"bounds": [0, 1]}, "b": {"bounds": [1, 2]}}
    assert values_of(features, np.array([[0.5, 1.5]])).tolist() == [[0.5, 1.5]]
    with pytest.raises(DataError, match="expecting 2 features"):
        values_of(features, np.zeros((3, 4)))


AGE = {"age": {"bounds": [0, 110]}}
BORN = {"born": {"date": "%Y-%m-%d", "bounds": ["1970-01-01", "1970-01-09"]}}
ZONE = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("features", "frame", "code", "field"),
    [
        (AGE, pd.DataFrame({"age": [1, CANARY]}), "text", "age"),
        (AGE, pd.DataFrame({"age": ["1", CANARY]}), "unknown-cell", "age"),
        (AGE, pd.DataFrame({"age": [1.0, np.nan]}), "missing", "age"),
        (AGE, pd.DataFrame({"age": [[1], [CANARY]]}), "groups", "age"),
        (AGE, pd.DataFrame({"age": [b"1", b"xyzzy"]}), "bytes", "age"),
        (AGE, pd.DataFrame({"age": pd.to_timedelta([1, 2])}), "dates", "age"),
        (AGE, pd.DataFrame({"age": pd.to_datetime(["2023-01-01"])}), "dates", "age"),
        (AGE, pl.DataFrame({"age": [dt.time(1)]}), "dates", "age"),
        (AGE, pa.table({"age": pa.array([1.0, np.inf])}), "infinite", "age"),
        (AGE, pa.table({"age": pa.array([b"xyzzy"])}), "bytes", "age"),
        (BORN, pd.DataFrame({"born": [1.5]}), "numbers", "born"),
        (BORN, pd.DataFrame({"born": pd.Series([ZONE])}), "dates", "born"),
        (BORN, pd.DataFrame({"born": pd.Series([ZONE], dtype=object)}), "dates", "born"),
        (BORN, pl.DataFrame({"born": [ZONE]}), "dates", "born"),
        (BORN, pa.table({"born": pa.array([ZONE])}), "dates", "born"),
        (BORN, pa.table({"born": pa.array([CANARY])}), "unknown-cell", "born"),
    ],
)
def test_a_column_that_is_not_what_the_recipe_says_is_refused_without_a_cell(
    features: dict[str, Any], frame: Any, code: str, field: str
) -> None:
    with pytest.raises(DataError) as refused:
        values_of(features, frame)
    assert (refused.value.code, refused.value.field) == (code, field)
    assert CANARY not in "".join(traceback.format_exception(refused.value))


def test_a_column_that_is_missing_is_named_and_others_are_not_needed() -> None:
    frame = pd.DataFrame({"age": [1.0], "other": [CANARY]})
    assert values_of(AGE, frame).tolist() == [[1]]
    with pytest.raises(DataError, match="no column 'age'"):
        values_of(AGE, frame[["other"]])


def test_rows_without_a_record_keep_their_place() -> None:
    recipe = Recipe.of({"features": {"age": {"bounds": [0, 9], "missing": "drop"}}})
    found = frame_records(pd.DataFrame({"age": [1, None, 3]}), Using(features=recipe.features))
    assert found.values.tolist() == [[1], [3]]
    assert found.of_rows.tolist() == [0, -1, 1]
    assert found.by_row(np.array([5, 6]), -1).tolist() == [5, -1, 6]
