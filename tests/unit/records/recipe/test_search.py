"""Features of a recipe whose bounds are to be found, and the bounds found for them."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastlloyd.errors import DataError, Problems
from fastlloyd.records.recipe import Recipe
from fastlloyd.records.recipe.checks import LEAST_RATIO
from fastlloyd.records.recipe.dates import day_of
from fastlloyd.records.recipe.feature import Feature
from fastlloyd.records.recipe.search import found_bounds, searched_features
from fastlloyd.records.recipe.ways import way_of

LAB = {"range": [0.01, 1000], "transform": "log", "below": "bound", "missing": "middle"}
TABLES: dict[str, Any] = {
    "features": {
        "age": {"date": "%Y-%m-%d", "until": "visit", "count": "years", "range": [-100, 300]},
        "crp": LAB | {"weight": 0.5},
        "visit": {"date": "%Y-%m-%d", "bounds": ["2020-01-01", "2024-12-31"]},
        "sex": {"values": {"m": 0, "w": 1}},
    }
}


def test_a_search_is_for_the_features_with_a_range_and_for_the_date_that_one_counts_until() -> None:
    recipe = Recipe.of(TABLES, searching=True)
    assert recipe.searched == ("age", "crp")
    features = {each.key: each for each in searched_features(recipe.features, recipe.searched)}
    assert list(features) == ["age", "crp", "visit"]
    crp = features["crp"]
    assert (crp.bounds, crp.weight, crp.below, crp.missing) == ((0.01, 1000), 1.0, "limit", "drop")
    assert [each.key for each in searched_features(recipe.features, ["crp"])] == ["crp"]


def test_a_time_until_a_date_is_not_chosen_without_the_date() -> None:
    recipe = Recipe.of(TABLES, searching=True)
    assert [each.key for each in recipe.chosen(["visit", "age"])] == ["visit", "age"]
    with pytest.raises(DataError) as caught:
        recipe.chosen(["age", "crp"])
    assert caught.value.field == "columns"


def test_bounds_found_take_the_place_of_ranges_and_nothing_else_changes() -> None:
    recipe = Recipe.of(TABLES, searching=True)
    found = recipe.with_bounds({"age": [0, 99], "crp": [0.3, 70], "visit": [1, 2]})
    wanted = {key: dict(table) for key, table in TABLES["features"].items()}
    for key, bounds in (("age", [0, 99]), ("crp", [0.3, 70])):
        del wanted[key]["range"]
        wanted[key]["bounds"] = bounds
    assert found == Recipe.of({"features": wanted})
    assert Recipe.from_toml(found.to_toml()) == found
    assert recipe.with_bounds({"age": [0, 99]}).searched == ("crp",)


def test_a_recipe_with_ranges_is_written_with_ranges_and_is_none_for_other_uses() -> None:
    recipe = Recipe.of(TABLES, searching=True)
    assert recipe.public["features"]["crp"]["range"] == [0.01, 1000.0]
    with pytest.raises(Problems) as caught:
        Recipe.from_toml(recipe.to_toml())
    fields = [error.field for error in caught.value]
    assert fields == ["features.age.range", "features.crp.range"]


@pytest.mark.parametrize(
    "table",
    [
        {"range": [0, 1], "bounds": [0, 1]},
        {"range": [1, 0]},
        {"range": [0, 1], "transform": "log"},
        {"range": ["a", "b"]},
        {"range": [0, 1], "date": "%d.%m.%Y"},
        {"range": [0, 1], "categories": ["a", "b"]},
    ],
)
def test_a_range_is_checked_as_bounds_are(table: dict[str, object]) -> None:
    with pytest.raises(Problems) as caught:
        Recipe.of({"features": {"a": table}}, searching=True)
    assert {error.field for error in caught.value} == {"features.a.range"}


NUMBER = Feature(key="a", bounds=(-1000.0, 1000.0))
LOG = Feature(key="a", bounds=(0.001, 5000.0), transform="log")
DATE = Feature(key="a", bounds=("1950-02-01", "2030-11-30"), date="%d.%m.%Y")


@given(
    feature=st.sampled_from([NUMBER, LOG, DATE]),
    shares=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    width=st.sampled_from([0.0, 1e-9, 1e-4, 1.0]),
)
def test_bounds_found_contain_the_interval_lie_in_the_range_and_are_bounds_of_the_feature(
    feature: Feature, shares: tuple[float, float], width: float
) -> None:
    column = way_of(feature).columns[0]
    reach = column.upper - column.lower
    low = column.lower + min(shares) * reach * (1 - 2**-10)
    high = min(max(column.lower + max(shares) * width * reach, low + 2**-12 * reach), column.upper)
    found = Feature(
        key="a",
        bounds=found_bounds(feature, low, high),
        transform=feature.transform,
        date=feature.date,
    )
    inside = way_of(found).columns[0]
    slack = 1e-9 * max(1, abs(low), abs(high))
    assert column.lower <= inside.lower <= low + slack
    assert high - slack <= inside.upper <= column.upper
    if feature is LOG:
        assert inside.upper - inside.lower >= math.log(LEAST_RATIO) - slack


def test_ends_of_the_range_stay_as_they_were_stated_and_dates_become_whole_days() -> None:
    for feature in (NUMBER, LOG, DATE):
        column = way_of(feature).columns[0]
        assert found_bounds(feature, column.lower, column.upper) == feature.bounds
    assert found_bounds(DATE, day_of("2020-03-04") + 0.5, day_of("2020-03-05") + 0.5) == (
        "2020-03-04",
        "2020-03-06",
    )
