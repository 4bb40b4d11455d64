"""Numbers that people write, and the recipe of their answers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastlloyd.app.answers import faults_in, number, recipe, tables, whole
from fastlloyd.errors import DataError, PlanError, Problems


@given(st.integers(0, 10**14))
def test_a_whole_number_is_read_with_and_without_groups(n: int) -> None:
    for text in (str(n), f"{n:,}", f"{n:_}", f"{n:,}".replace(",", " "), f" {n} "):
        assert whole(text) == n


@pytest.mark.parametrize("text", ["", "-1", "1.5", "1,5", "12,34", "1e3", "many", "1,000.0", "٣"])
def test_what_is_no_whole_number_is_none(text: str) -> None:
    assert whole(text) is None


@given(st.floats(-1e300, 1e300))
def test_a_number_is_read_with_the_decimal_mark_of_the_table(value: float) -> None:
    text = repr(value)
    assert number(text) == value
    assert number(text.replace(".", ","), ",") == value


@pytest.mark.parametrize(
    "text", ["", "1,5", "1,500", "nan", "inf", "1e999", "0x1", "1 5", "½", "--1"]
)
def test_a_comma_is_no_decimal_mark_unless_it_is_that_of_the_table(text: str) -> None:
    assert number(text) is None


def test_a_number_with_point_and_comma_is_refused() -> None:
    assert number("1.500,5", ",") is None
    assert number("1,500.5", ",") is None
    assert number("\u22125") == -5.0


ANSWERS = {
    "unit": "person",
    "who": "patient",
    "id": "pid",
    "n_records": 500,
    "dataset": "ward-7",
    "epsilon": 1.0,
    "k": 3,
    "layout": {"separator": ";", "decimal": ",", "header": "yes"},
    "missing_words": ["k.A."],
    "columns": [[name, "numbers", None, False, False] for name in ("age", "dose")],
    "chosen": ["age"],
    "features": {"age": {"bounds": [0, 110]}, "dose": {"bounds": [0, 1]}},
}


def test_the_answers_make_a_recipe_of_the_columns_that_are_used() -> None:
    made = recipe(ANSWERS)
    assert [each.key for each in made.features] == ["age"]
    assert made.privacy == {
        "unit": "person",
        "unit_name": "patient",
        "epsilon": 1.0,
        "n_records": 500,
    }
    assert made.here.unit_column == "pid"
    assert made.here.dataset == "ward-7"
    assert made.here.layout.decimal == ","
    assert made.here.missing_words == ("k.A.",)
    assert tables(ANSWERS | {"unit": "record"})["here"].get("unit_column") is None


def test_each_fault_is_at_its_field_and_an_unknown_one_at_the_page() -> None:
    def make() -> None:
        raise Problems(
            [
                PlanError("features.age: 'bounds' are [2, 1]", field="features.age.bounds"),
                DataError("the file is gone", field="records"),
            ]
        )

    faults = faults_in(make, {"features.age.bounds": "lower0"})
    assert [fault.field for fault in faults] == ["lower0", ""]
    assert [fault.sentence for fault in faults] == [
        "Age: 'bounds' are [2, 1].",
        "The file is gone.",
    ]
    assert faults_in(lambda: None, {}) == []
