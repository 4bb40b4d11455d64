"""`bounds estimate --recipe`: bounds of a recipe's features, each in the units of its column."""

import json
import os
import tomllib
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w

from command_line import Command, refused, tree
from fastlloyd import MomentLloyd, RecipeTransformer
from fastlloyd.errors import DataError, PlanError
from fastlloyd.jobs import bounds as bounds_job
from fastlloyd.jobs import fit as fit_job
from fastlloyd.jobs.source import FileSource
from fastlloyd.records.recipe import Recipe
from fastlloyd.records.recipe.dates import FIRST_DAY
from fastlloyd.records.recipe.rows import Using
from fastlloyd.testing import SeededNoise

N = 3000
TABLES: dict[str, Any] = {
    "privacy": {"epsilon": 3.0, "n_records": 4000},
    "clustering": {"n_clusters": 2},
    "features": {
        "age": {"bounds": [0, 110]},
        "crp": {
            "range": [0.001, 100000],
            "transform": "log",
            "below": "bound",
            "missing": "middle",
            "weight": 0.5,
        },
        "admitted": {"date": "%d.%m.%Y", "range": ["1970-01-01", "2069-12-31"]},
        "temperature": {"range": [-1000, 1000]},
        "sex": {"values": {"m": 0, "w": 1}, "weight": 0.1},
    },
    "here": {"separator": ";", "decimal": ",", "names": {"crp": "CRP (mg/l)"}},
}
ESTIMATE = ("bounds", "estimate", "lab.csv", "--recipe", "recipe.toml")


@pytest.fixture(autouse=True)
def lab(here: Path) -> None:
    """A table with logarithms from 1 to 100, a third of them below the limit of 1 or missing."""
    rng = np.random.default_rng(1)
    crp = np.exp(rng.uniform(np.log(1), np.log(100), N))
    cells = [f"{value:.3f}".replace(".", ",") for value in crp]
    cells[: N // 5] = ["<1,0"] * (N // 5)
    cells[N // 5 : N // 3] = [""] * (N // 3 - N // 5)
    days = rng.integers(0, 365, N)
    dates = np.datetime64("2023-01-01") + days
    rows = [
        f"{age};{cell};{str(date)[8:]}.{str(date)[5:7]}.{str(date)[:4]};{degrees};{sex}"
        for age, cell, date, degrees, sex in zip(
            rng.integers(20, 90, N),
            cells,
            dates,
            rng.integers(36, 42, N),
            rng.choice(["m", "w"], N),
            strict=True,
        )
    ]
    header = "age;CRP (mg/l);admitted;temperature;sex"
    (here / "lab.csv").write_text("\n".join([header, *rows, ""]))
    (here / "recipe.toml").write_text(tomli_w.dumps(TABLES))


@pytest.fixture(autouse=True)
def known_noise(monkeypatch: pytest.MonkeyPatch, repeatable_noise: None) -> None:
    for job in (bounds_job, fit_job):
        monkeypatch.setattr(job, "SystemNoise", lambda: SeededNoise(0))


def test_bounds_found_fill_in_the_recipe_which_is_used_as_it_is(
    fastlloyd: Command, here: Path
) -> None:
    ran = fastlloyd(*ESTIMATE, "--out", "found.toml")
    assert ran.code == 0, ran.err
    before, after = Recipe.of(TABLES, searching=True), Recipe.load("found.toml")
    found: Any = {each.key: each.bounds for each in after.features}
    low, high = found["crp"]
    assert 0.001 < low <= 1.0  # what lies below the limit counts as the limit
    assert 100 < high < 1000  # and no gap as the middle of the range, which is 10
    begin, end = (tomllib.loads(f"day = {text}")["day"] for text in found["admitted"])
    first = (begin.toordinal() - FIRST_DAY) - np.datetime64("2023-01-01").astype(int)
    assert -200 < first <= 0
    assert 364 <= (end - begin).days < 800
    assert -30 < found["temperature"][0] <= 36 < 41 <= found["temperature"][1] < 100
    assert before.with_bounds(found) == after
    fitted = fastlloyd("fit", "lab.csv", "--recipe", "found.toml", "--out", "result")
    assert fitted.code == 0, fitted.err
    again = Recipe.from_toml(fastlloyd("recipe", "from", "result").out)
    assert again.features == after.features


def test_everything_shown_and_written_is_in_the_units_of_the_columns(
    fastlloyd: Command, here: Path
) -> None:
    ran = fastlloyd(*ESTIMATE, "--json", "--out", "found.toml", "--epsilon", "2")
    assert ran.code == 0, ran.err
    said = json.loads(ran.out)
    text = (here / "found.toml").read_text()
    assert said["bounds"] == {
        key: tomllib.loads(text)["features"][key]["bounds"]
        for key in ("crp", "admitted", "temperature")
    }
    stated = {key: TABLES["features"][key]["range"] for key in said["bounds"]}
    assert said["privacy"]["outer_range"] == stated
    assert (said["privacy"]["epsilon"], said["not_found"]) == (2.0, [])
    assert f'# mechanism_digest = "{said["privacy"]["mechanism_digest"]}"' in text


def test_columns_choose_the_features_and_the_others_keep_their_ranges(
    fastlloyd: Command, here: Path
) -> None:
    ran = fastlloyd(*ESTIMATE, "--columns", "age,temperature", "--out", "found.toml")
    assert ran.code == 0, ran.err
    found = Recipe.load("found.toml", searching=True)
    assert found.searched == ("crp", "admitted")
    again = fastlloyd("bounds", "estimate", "lab.csv", "--recipe", "found.toml", "--out", "b.toml")
    assert again.code == 0, again.err
    assert Recipe.load("b.toml").searched == ()


def test_a_feature_that_noise_hides_keeps_its_range(fastlloyd: Command, here: Path) -> None:
    rows = (here / "lab.csv").read_text().splitlines()[:6]
    (here / "lab.csv").write_text("\n".join([*rows, ""]))
    ran = fastlloyd(*ESTIMATE, "--columns", "crp", "--out", "found.toml")
    assert ran.code == 0, ran.err
    crp: Any = Recipe.load("found.toml", searching=True).features[1]
    assert crp.bounds == (0.001, 100000)
    assert "'crp'" in (here / "found.toml").read_text().split("[privacy]")[0]


@pytest.mark.parametrize(
    "change",
    [
        {"crp": {"range": [0, 100], "transform": "log"}},
        {"crp": {"range": [1, 100], "bounds": [1, 100]}},
        {"admitted": {"date": "%d.%m.%Y", "range": [0, 100]}},
        {name: {"bounds": [0, 1]} for name in ("crp", "admitted", "temperature")},
    ],
)
def test_a_recipe_that_cannot_be_searched_spends_nothing(
    fastlloyd: Command, here: Path, change: dict[str, Any]
) -> None:
    tables = TABLES | {"features": TABLES["features"] | change}
    (here / "recipe.toml").write_text(tomli_w.dumps(tables))
    before = tree(here)
    dataset = ("--dataset", "lab", "--new-dataset", "--ledger", "mine.store")
    refused(fastlloyd(*ESTIMATE, *dataset, "--out", "found.toml"), "range")
    assert tree(here) == before


@pytest.mark.parametrize("command", [ESTIMATE, ("fit", *ESTIMATE[2:], "--no-out")])
def test_rows_are_put_together_only_where_persons_are_protected(
    fastlloyd: Command, here: Path, command: tuple[str, ...]
) -> None:
    features = {key: table | {"per_person": "mean"} for key, table in TABLES["features"].items()}
    tables = TABLES | {"features": features, "here": TABLES["here"] | {"unit_column": "age"}}
    (here / "recipe.toml").write_text(tomli_w.dumps(tables))
    before = tree(here)
    refused(fastlloyd(*command), "unit")
    assert tree(here) == before


def test_a_range_is_stated_once_and_only_for_a_search(fastlloyd: Command, here: Path) -> None:
    before = tree(here)
    refused(fastlloyd(*ESTIMATE, "--range", "crp=1:10"), "leave out --range")
    once = ("fit", "lab.csv", "--recipe", "recipe.toml", "--range", "crp=1:10", "--no-out")
    refused(fastlloyd(*once), "leave out --range")
    simulate = ("simulate", "lab.csv", "--recipe", "recipe.toml", "--clients", "2", "--no-out")
    refused(fastlloyd(*simulate), "features.crp", "features.admitted", "features.temperature")
    assert tree(here) == before
    assert fastlloyd("recipe", "check", "recipe.toml", "lab.csv").code == 0


def test_fit_finds_bounds_of_a_recipe_and_clusters_within_one_budget(
    fastlloyd: Command, here: Path
) -> None:
    ran = fastlloyd("fit", "lab.csv", "--recipe", "recipe.toml", "--json", "--out", "result")
    assert ran.code == 0, ran.err
    said = json.loads(ran.out)["privacy"]
    assert (said["private"], said["epsilon"], said["bounds"]["not_found"]) == (True, 3.0, [])
    stated = {key: TABLES["features"][key]["range"] for key in ("crp", "admitted", "temperature")}
    assert said["bounds"]["outer_range"] == stated
    found = tomllib.loads((here / "result" / "bounds.toml").read_text())["bounds"]
    recipe = Recipe.from_toml(fastlloyd("recipe", "from", "result").out)
    assert found == {
        each.key: list(each.bounds or ()) for each in recipe.features if each.key in found
    }
    expected = Recipe.of(TABLES, searching=True).with_bounds(found).features
    assert recipe.features == expected  # with the weights, gaps and limits of the recipe
    assert 0.001 < found["crp"][0] <= 1.0 < 100 < found["crp"][1] < 1000
    labelled = fastlloyd("assign", "result", "lab.csv", "--recipe", "recipe.toml")
    assert labelled.code == 0, labelled.err
    assert len(labelled.out.splitlines()) == N + 1
    tables = TABLES | {"features": TABLES["features"] | {"age": {"bounds": [0, 99]}}}
    (here / "recipe.toml").write_text(tomli_w.dumps(tables))
    refused(fastlloyd("assign", "result", "lab.csv", "--recipe", "recipe.toml"), "recipe")


def test_an_estimator_finds_bounds_as_fit_does(
    fastlloyd: Command, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The missing cells of a feature drop rows in one stage, and count as the middle in the
    other."""
    pd: Any = pytest.importorskip("pandas")
    tables = TABLES | {"clustering": {"n_clusters": 2, "public_seed": "8"}}
    (here / "recipe.toml").write_text(tomli_w.dumps(tables))
    assert fastlloyd("fit", "lab.csv", "--recipe", "recipe.toml", "--out", "result").code == 0
    frame = pd.read_csv("lab.csv", sep=";", decimal=",", dtype={"CRP (mg/l)": str})
    recipe = Recipe.load("recipe.toml", searching=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MomentLloyd(2, recipe=recipe).fit(frame)
    again = MomentLloyd.from_result("result")
    assert np.array_equal(model.cluster_centers_, again.cluster_centers_)
    assert np.array_equal(model.bounds_, again.bounds_)
    assert (len(model.labels_), model.labels_.min()) == (N, 0)
    assert model.privacy_spent_["bounds"]["outer_range"].keys() == {
        "crp", "admitted", "temperature",
    }  # fmt: skip
    with pytest.raises(PlanError) as caught:
        RecipeTransformer(recipe).fit(frame)
    assert caught.value.field == "range"


@pytest.mark.parametrize("path", ["-", "pipe.csv"])
def test_what_can_be_read_once_is_not_read_again(path: str, here: Path) -> None:
    os.mkfifo(here / "pipe.csv")
    recipe = Recipe.load("recipe.toml", searching=True)
    using = Using(features=recipe.features, here=recipe.here)
    with pytest.raises(DataError, match="read once"):
        FileSource(path=path, recipe=using).open_as(recipe.features)
