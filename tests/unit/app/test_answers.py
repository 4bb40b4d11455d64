"""Numbers that people write, and the recipe of their answers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastlloyd.app.answers import faults_in, no_number, no_whole, number, recipe, tables, whole
from fastlloyd.errors import DataError, PlanError, Problems


@given(st.integers(0, 10**14))
def test_a_whole_number_is_read_with_and_without_groups(n: int) -> None:
    for text in (str(n), f"{n:_}", f"{n:,}".replace(",", " "), f" {n} "):
        assert whole(text) == n


@pytest.mark.parametrize(
    "text", ["", "-1", "1.5", "1,5", "5,000", "5.000", "12,34", "1e3", "many", "1,000.0", "٣"]
)
def test_what_is_no_whole_number_is_none(text: str) -> None:
    assert whole(text) is None


@given(st.floats(-1e300, 1e300))
def test_a_number_is_read_with_a_decimal_point_and_with_a_comma(value: float) -> None:
    text = repr(value)
    if no_number(text, ""):
        text += "0"
    assert number(text) == value
    assert number(text.replace(".", ",")) == value


@pytest.mark.parametrize("text", ["", "nan", "inf", "1e999", "0x1", "1 5", "½", "--1"])
def test_what_is_no_number_is_refused(text: str) -> None:
    assert number(text) is None
    assert no_number(text, "such as 0.5") == "such as 0.5"


@given(st.integers(1, 999), st.integers(0, 999), st.sampled_from(".,"), st.sampled_from(["", "-"]))
def test_a_number_with_two_meanings_is_refused_and_both_are_offered(
    units: int, thousandths: int, mark: str, sign: str
) -> None:
    text = f"{sign}{units}{mark}{thousandths:03d}"
    assert number(text) is None
    offered = no_number(text, "").partition("Write ")[2].split()
    assert number(offered[0]) == int(f"{sign}{units}{thousandths:03d}")
    assert number(offered[5]) == float(text.replace(",", "."))


def test_a_number_with_point_and_comma_is_refused() -> None:
    assert number("1.500,5") is None
    assert number("1,500.5") is None
    assert number("\u22125") == -5.0
    assert number("0.125") == number("0,125") == 0.125


@given(st.integers(1000, 10**12), st.sampled_from(".,"))
def test_a_whole_number_with_marks_is_offered_without_them(n: int, mark: str) -> None:
    text = f"{n:,}".replace(",", mark)
    assert whole(text) is None
    assert no_whole(text, "").split()[3] == str(n)


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
