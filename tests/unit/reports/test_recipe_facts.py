"""Words about a recipe: each feature, its way, its gaps and its weight."""

from typing import Any

import pytest

from designs import design_plan
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain, Scaling
from fastlloyd.federation.plan.plan import Client
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD
from fastlloyd.records.recipe import Recipe
from fastlloyd.reports.agreement import page
from fastlloyd.reports.explain import explain
from fastlloyd.reports.facts import catalogue, sentences
from fastlloyd.reports.recipe_facts import of_recipe

PERSON = {"per_person": "mean"}


def words_of(**table: Any) -> str:
    """Return the words about one feature."""
    recipe = Recipe.of({"features": {"x": table}}).features
    return sentences(of_recipe(recipe)[0])


@pytest.mark.parametrize(
    ("table", "parts"),
    [
        ({"bounds": [0, 110]}, ["x: a number from 0 to 110", "refused"]),
        ({"bounds": [0, 1], "label": "share"}, ["x (share): a number"]),
        ({"bounds": [0.2, 15], "transform": "log", "missing": 1}, ["logarithm", "counts as 1."]),
        ({"bounds": [0, 1], "below": "bound", "missing": "middle"}, ["lower bound", "middle"]),
        ({"bounds": [0, 1], "below": "missing", "missing": "drop"}, ["as missing", "left out"]),
        ({"values": {"m": 0, "w": 1}, "other": "missing"}, ["'m' as 0, 'w' as 1", "missing"]),
        (
            {"categories": ["a", "b"], "other": "none", "missing": "a"},
            ["'a', 'b'", "0 in all of them"],
        ),
        (
            {"date": "%d.%m.%Y", "bounds": ["2023-01-01", "2023-12-31"], "missing": "2023-02-01"},
            ["(%d.%m.%Y) from 2023-01-01 to 2023-12-31", "counts as 2023-02-01"],
        ),
        (
            {"date": "%Y-%m-%d", "until": "2024-01-01", "count": "years", "bounds": [0, 110]},
            ["the years from a date (%Y-%m-%d) until 2024-01-01, from 0 to 110"],
        ),
        ({"bounds": [0, 1], "weight": 0.25}, ["0.25 times"]),
    ],
)
def test_each_part_of_a_feature_has_words(table: dict[str, Any], parts: list[str]) -> None:
    for part in parts:
        assert part in words_of(**table)


def test_every_sentence_about_recipes_is_said_of_some_recipe() -> None:
    features = {
        "a": {"bounds": [0, 1], "per_person": "mean", "missing": "middle", "below": "missing"},
        "b": {"bounds": [1, 2], "transform": "log", "per_person": "first", "weight": 0.5},
        "c": {"values": {"m": 0, "w": 1}, "per_person": "last", "other": "missing"},
        "d": {"categories": ["m"], "per_person": "mean", "other": "none", "missing": "m"},
        "e": {
            "date": "%Y-%m-%d", "bounds": ["2023-01-01", "2023-12-31"], "per_person": "mean",
            "missing": "drop",
        },
        "f": {
            "date": "%Y-%m-%d", "until": "e", "bounds": [0, 9], "per_person": "mean",
        },
        "g": {"date": "%Y-%m-%d", "role": "order"},
        "h": {"bounds": [0, 1], "per_person": "mean", "below": "bound"},
        "i": {"bounds": [0, 1], "per_person": "mean", "below": "limit"},
        "j": {"range": [0, 1], "per_person": "mean"},
    }  # fmt: skip
    recipe = Recipe.of({"features": features}, searching=True)
    said = {fact.name for facts in of_recipe(recipe.features, recipe.searched) for fact in facts}
    assert catalogue()["recipe"].keys() - said == {"recipe_of_plan", "recipe_digest"}
    assert of_recipe(None) == []


def test_the_explanation_and_the_page_to_sign_say_it() -> None:
    recipe = Recipe.of({"features": {"crp": {"bounds": [0.3, 400], "transform": "log"}}}).features
    domain = Domain.of_recipe(recipe, scaling=Scaling.PER_FEATURE)
    plan = design_plan(
        MOMENTLLOYD,
        domain,
        clients=tuple(Client(name=name, max_records=500) for name in ("a", "b", "c")),
        n_clusters=2,
        epsilon=1.0,
        public_seed=PublicSeed.from_int(1),
        run_id=bytes(16),
    )
    for text in (explain(plan), page(plan)):
        assert "crp: the logarithm of a number from 0.3 to 400" in " ".join(text.split())
        assert "costs no privacy" in " ".join(text.split())
