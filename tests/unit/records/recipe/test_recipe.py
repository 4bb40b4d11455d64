"""Recipes: their files, faults and digests."""

import copy
import datetime as dt
import itertools
import unicodedata
from collections.abc import Iterator
from typing import Any

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from fastlloyd.errors import FastLloydError, Problems
from fastlloyd.records.recipe import Recipe
from fastlloyd.records.recipe.keys import KEYS
from fastlloyd.records.recipe.scales import Scale

WHOLE: dict[str, Any] = {
    "privacy": {"epsilon": 1.0, "unit": "person", "unit_name": "patient", "n_records": 5000},
    "clustering": {"n_clusters": 4},
    "features": {
        "age": {"bounds": [0, 110], "per_person": "mean"},
        "creatinine": {
            "bounds": [0.2, 15],
            "transform": "log",
            "below": "bound",
            "missing": 1.0,
            "per_person": "last",
        },
        "sex": {"values": {"m": 0, "w": 1}, "per_person": "first"},
        "ward": {"categories": ["surgery", "medicine"], "weight": 0.5, "per_person": "last"},
        "admitted": {"date": "%d.%m.%Y", "role": "order"},
    },
    "here": {
        "unit_column": "Patienten-ID",
        "dataset": "ward-7",
        "separator": ";",
        "decimal": ",",
        "encoding": "cp1252",
        "header": "yes",
        "skip_lines": 1,
        "missing_words": ["k.A.", "-"],
        "names": {"age": "Alter", "ward": "Station"},
        "dates": {"admitted": "%Y-%m-%d"},
    },
}


def faults(tables: dict[str, Any]) -> dict[str, str]:
    """Return the sentence of each fault of a recipe by its field."""
    try:
        Recipe.of(tables)
    except Problems as problems:
        return {error.field or "": str(error) for error in problems.errors}
    return {}


def with_feature(**table: Any) -> dict[str, Any]:
    """Return a recipe with one more feature."""
    return {"features": {"age": {"bounds": [0, 110]}, "x": table}}


def test_a_whole_recipe_has_the_columns_of_its_features_in_order() -> None:
    columns = Recipe.of(WHOLE).columns
    assert [each.name for each in columns] == [
        "age", "creatinine", "sex", "ward=surgery", "ward=medicine",
    ]  # fmt: skip
    assert [each.weight for each in columns][:3] == [1, 1, 1]
    assert columns[3].weight == pytest.approx(0.5 / 2**0.5)
    assert (columns[1].scale, columns[1].lower < 0 < columns[1].upper) == (Scale.LOG, True)
    assert (columns[3].lower, columns[3].upper) == (0, 1)


def test_a_recipe_is_the_same_after_it_was_written_and_read() -> None:
    recipe = Recipe.of(WHOLE)
    again = Recipe.from_toml(recipe.to_toml())
    assert again == recipe
    assert again.here == recipe.here
    assert again.digest == recipe.digest
    assert again.to_toml() == recipe.to_toml()


def shuffled(tables: Any, draw: Any) -> Any:
    """Return tables with their keys in another order, but features in their order."""
    if not isinstance(tables, dict):
        return tables
    return {key: shuffled(tables[key], draw) for key in draw(st.permutations(list(tables)))}


@given(st.data())
def test_the_digest_is_that_of_the_content_however_it_is_spelled(data: Any) -> None:
    features = {
        key: {name: table[name] for name in data.draw(st.permutations(list(table)))}
        for key, table in WHOLE["features"].items()
    }
    tables = {
        name: features if name == "features" else WHOLE[name]
        for name in data.draw(st.permutations(list(WHOLE)))
    }
    text = tomli_w.dumps(tables)
    spelled = [
        text,
        text.replace("\n", "\r\n"),
        text.replace('"', "'") if "'" not in text else text,
        "\ufeff" + text,
        text.replace("110", "110.0"),
    ]
    one = {Recipe.from_toml(each.removeprefix("\ufeff")).digest for each in spelled}
    assert one == {Recipe.of(WHOLE).digest}


def test_the_local_part_is_in_no_digest_and_in_no_public_table() -> None:
    other = Recipe.of(WHOLE | {"here": {"unit_column": "canary-column"}})
    assert other.digest == Recipe.of(WHOLE).digest
    assert "canary" not in str(other.public)
    assert "canary" not in repr(other)


@pytest.mark.parametrize(
    ("table", "field"),
    [
        ({"bounds": [0, 1], "colour": 1}, "colour"),
        ({}, "bounds"),
        ({"bounds": [1, 0]}, "bounds"),
        ({"bounds": [1, 1]}, "bounds"),
        ({"bounds": [0]}, "bounds"),
        ({"bounds": ["a", "b"]}, "bounds"),
        ({"bounds": [float("nan"), 1]}, "bounds"),
        ({"bounds": [True, 2]}, "bounds"),
        ({"bounds": ["2023-01-01", "2023-12-31"]}, "bounds"),
        ({"bounds": [0, 15], "transform": "log"}, "bounds"),
        ({"bounds": [1, 1.00001], "transform": "log"}, "bounds"),
        ({"bounds": [1, 2], "transform": "sqrt"}, "transform"),
        ({"values": {"m": 0}}, "values"),
        ({"values": {"m": 0, "w": "1"}}, "values"),
        ({"values": {"m": 0, " m": 1}}, "values"),
        ({"values": {"m": 0, "w": 1}, "bounds": [0, 1]}, "bounds"),
        ({"categories": []}, "categories"),
        ({"categories": ["a", "a "]}, "categories"),
        ({"categories": ["a", ""]}, "categories"),
        ({"categories": "surgery"}, "categories"),
        ({"categories": ["a"], "values": {"a": 0, "b": 1}}, "categories"),
        ({"date": "%d.%m", "bounds": ["2023-01-01", "2023-12-31"]}, "date"),
        ({"date": "%d.%b.%Y", "bounds": ["2023-01-01", "2023-12-31"]}, "date"),
        ({"date": "%d.%m.%Y", "bounds": [0, 1]}, "bounds"),
        ({"date": "%d.%m.%Y", "bounds": ["2023-01-01", "2023-02-30"]}, "bounds"),
        ({"bounds": [0, 1], "until": "2023-01-01"}, "until"),
        ({"date": "%d.%m.%Y", "bounds": [0, 1], "until": "age"}, "until"),
        ({"date": "%d.%m.%Y", "bounds": [0, 1], "until": "nowhere"}, "until"),
        ({"date": "%d.%m.%Y", "bounds": [0, 1], "until": "2024-01-01", "count": "weeks"}, "count"),
        ({"bounds": [0, 1], "weight": 0}, "weight"),
        ({"bounds": [0, 1], "weight": 1.5}, "weight"),
        ({"bounds": [0, 1], "weight": "1"}, "weight"),
        ({"bounds": [0, 1], "missing": "mean"}, "missing"),
        ({"bounds": [1, 2], "transform": "log", "missing": 0}, "missing"),
        ({"categories": ["a"], "missing": "b"}, "missing"),
        ({"bounds": [0, 1], "below": "zero"}, "below"),
        ({"categories": ["a"], "below": "bound"}, "below"),
        ({"bounds": [0, 1], "other": "missing"}, "other"),
        ({"values": {"a": 0, "b": 1}, "other": "none"}, "other"),
        ({"bounds": [0, 1], "per_person": "median"}, "per_person"),
        ({"bounds": [0, 1], "role": "order"}, "role"),
        ({"bounds": [0, 1], "label": "a\nb"}, "label"),
    ],
)
def test_a_fault_of_a_feature_is_named_by_its_key(table: dict[str, Any], field: str) -> None:
    assert f"features.x.{field}" in faults(with_feature(**table))


def test_all_faults_come_at_once() -> None:
    found = faults(
        {
            "privacy": {"epsilom": 1, "n_records": 4.5, "n_clusters": 3},
            "clustering": [],
            "bounds": {"age": [0, 1]},
            "features": {
                "age": {"bounds": [110, 0], "missing": "mean"},
                "crp": {"bounds": [0, 400], "transform": "log"},
                "id": 7,
            },
            "here": {"names": {"agee": "Alter"}, "skip_lines": -1, "separator": 1},
        }
    )
    assert set(found) == {
        "privacy.epsilom", "privacy.n_records", "privacy.n_clusters", "clustering", "bounds",
        "features.age.bounds", "features.age.missing", "features.crp.bounds", "features.id",
        "here.names", "here.skip_lines", "here.separator",
    }  # fmt: skip
    assert "'epsilon'" in found["privacy.epsilom"]
    assert "[clustering]" in found["privacy.n_clusters"]
    assert "'age'" in found["here.names"]


def test_of_very_many_faults_the_first_hundred_are_told() -> None:
    tables = {"features": {f"f{i}": {"bounds": [1, 0]} for i in range(5000)}}
    with pytest.raises(Problems) as refused:
        Recipe.of(tables)
    assert len(refused.value.errors) == 100


def test_a_column_of_ids_is_no_feature() -> None:
    tables = {"features": {"age": {"bounds": [0, 1]}}, "here": {"unit_column": "age"}}
    with pytest.raises(Problems) as refused:
        Recipe.of(tables)
    assert [error.field for error in refused.value.errors] == ["features.age.bounds"]


def test_if_one_feature_is_per_person_all_are_and_a_date_orders_first_and_last() -> None:
    tables = with_feature(bounds=[0, 1], per_person="last")
    assert set(faults(tables)) == {"features.age.per_person", "features.x.per_person"}


def test_a_key_of_an_option_has_one_table() -> None:
    for one, other in itertools.combinations(KEYS.values(), 2):
        assert not one.keys() & other.keys()


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
))  # fmt: skip
def test_whatever_the_tables_are_only_faults_are_raised(content: Any) -> None:
    for name in ("privacy", "clustering", "features", "here"):
        tables = {"features": {"age": {"bounds": [0, 1]}}, name: content}
        assert all(faults(tables).values())


STRANGE: list[Any] = [
    True, 0, -1, 10**400, 1e308, float("nan"), float("inf"), "", " ", "\x00", "[/]", "%Y%m%d", "9999-12-31",
    "2023-02-30", [], [[]], [1, 0], [True, 2], [0, 10**400], [1e308, -1e308], ["0", 1], [["a", 1], ["b", 2]],
    {}, {"a": 1, "b": 10**400}, {"a": [1], "b": 2}, dt.date(2023, 1, 1), [dt.date(2023, 1, 1)] * 2, dt.time(1),
    ["a"] * 300,
]  # fmt: skip
LENGTH: dict[str, Any] = {
    "features": {
        **WHOLE["features"],
        "stay": {"date": "%Y-%m-%d", "until": "admitted", "count": "days", "bounds": [0, 9],
                 "other": "refuse", "label": "Stay", "per_person": "mean"},
    }
}  # fmt: skip


def places(table: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the keys that lead to each value of nested tables."""
    for key, value in table.items() if isinstance(table, dict) else ():
        yield (*above, key)
        yield from places(value, (*above, key))


@pytest.mark.parametrize("strange", STRANGE, ids=lambda value: f"{value!r:.30}")
def test_a_value_of_any_type_at_any_place_is_a_fault_or_makes_a_recipe(strange: Any) -> None:
    whole = WHOLE | LENGTH
    for place in [*places(whole), ("features", "age", "key"), ("features", "age", "categories")]:
        tables = copy.deepcopy(whole)
        at: Any = tables
        for key in place[:-1]:
            at = at[key]
        at[place[-1]] = strange
        if not faults(tables):
            recipe = Recipe.of(tables)
            assert Recipe.from_toml(recipe.to_toml()).digest == recipe.digest


def test_a_text_is_compared_in_one_form_of_unicode_wherever_it_stands() -> None:
    one, other = (unicodedata.normalize(form, "m\u00e9decine") for form in ("NFC", "NFD"))
    ward = {"categories": [other, "surgery"], "missing": other}
    (*_, feature) = Recipe.of(with_feature(**ward)).features
    assert (feature.categories, feature.missing) == ((one, "surgery"), one)


@given(st.text(max_size=60))
def test_any_text_is_a_recipe_or_refused(text: str) -> None:
    with pytest.raises(FastLloydError):
        Recipe.from_toml(text)


@pytest.mark.parametrize(
    ("privacy", "here", "fields"),
    [
        ({"unit": "peson"}, {}, ["privacy.unit"]),
        ({"unit": "patient"}, {"unit_column": "id"}, ["privacy.unit"]),
        ({"unit": "record", "unit_name": "patient"}, {}, ["privacy.unit_name"]),
        ({"epsilon": 1.0}, {"unit_column": "id"}, ["here.unit_column"]),
        ({"unit": "person", "unit_name": "patient"}, {"unit_column": "id"}, []),
        ({}, {"unit_column": "id"}, []),  # the table of a site alone
    ],
)
def test_persons_are_never_protected_as_records_because_of_a_word(
    privacy: dict[str, Any], here: dict[str, Any], fields: list[str]
) -> None:
    tables = {"features": {"age": {"bounds": [0, 99]}}, "privacy": privacy, "here": here}
    found: list[str | None] = []
    try:
        Recipe.of(tables)
    except Problems as problems:
        found = [error.field for error in problems.errors]
    assert found == fields
