"""Results in the units of the columns of a recipe."""

import csv
import io
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain, Scaling
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.mechanisms.catalogue import design
from fastlloyd.mechanisms.central import cluster
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD
from fastlloyd.mechanisms.settings import Settings
from fastlloyd.mechanisms.uncertainty import noise_deviation
from fastlloyd.records.recipe import Recipe
from fastlloyd.records.recipe.dates import day_of
from fastlloyd.records.recipe.scales import Scale
from fastlloyd.reports.facts import sentences
from fastlloyd.reports.result import Result
from fastlloyd.reports.result_facts import columns
from fastlloyd.reports.units import SIDES, DayUnits, LogUnits, Units, in_units, units_of
from fastlloyd.testing import SeededNoise, repeatable_noise

FEATURES: dict[str, Any] = {
    "age": {"bounds": [0, 110]},
    "crp": {"bounds": [0.3, 400], "transform": "log"},
    "ward": {"categories": ["surgery", "medicine"]},
    "admitted": {"date": "%d.%m.%Y", "bounds": ["2023-01-01", "2023-12-31"]},
}
DOMAIN = Domain.of_recipe(Recipe.of({"features": FEATURES}).features, scaling=Scaling.PER_FEATURE)


def test_each_column_has_the_units_of_its_way() -> None:
    assert [type(units) for units in units_of(DOMAIN)] == [Units, LogUnits, Units, Units, DayUnits]
    bounds = [
        (units.text(low), units.text(high))
        for units, low, high in zip(units_of(DOMAIN), DOMAIN.lower, DOMAIN.upper, strict=True)
    ]
    assert bounds == [
        ("0", "110"), ("0.3", "400"), ("0", "1"), ("0", "1"), ("2023-01-01", "2023-12-31"),
    ]  # fmt: skip


@given(number=st.floats(-8, 8), error=st.floats(1e-6, 3), truth=st.floats(-20, 20))
def test_an_interval_of_a_logarithm_covers_what_the_interval_of_the_column_covers(
    number: float, error: float, truth: float
) -> None:
    (cell,) = in_units(
        Domain.of_recipe(
            Recipe.of({"features": {"crp": FEATURES["crp"]}}).features, scaling=Scaling.PER_FEATURE
        ),
        [number],
        [error],
    )
    assume(abs(abs(truth - number) - SIDES * error) > 1e-9)
    assert (abs(truth - number) <= SIDES * error) == (
        cell["lower"] <= float(Scale.LOG.to_column(truth)) <= cell["upper"]
    )


@given(number=st.floats(-8, 8), error=st.floats(1e-4, 2))
def test_rounding_moves_the_ends_by_less_than_a_tenth_of_the_interval(
    number: float, error: float
) -> None:
    units = LogUnits()
    lower, upper = units.errors(number, error)
    ends = [units.value(number - SIDES * error), units.value(number + SIDES * error)]
    width = ends[1] - ends[0]
    assert abs(lower - ends[0]) <= 0.1 * width
    assert abs(upper - ends[1]) <= 0.1 * width


def test_a_date_comes_back_as_a_date_and_its_error_in_days() -> None:
    units = DayUnits()
    assert units.measured(day_of("2023-05-14"), 12.3) == "2023-05-14 ± 25 days"
    assert units.value(day_of("2023-05-14") + 0.4) == "2023-05-14"
    assert units.value(math.nan) is not None
    assert units.text(1e12) == "1000000000000.0"


@given(low=st.floats(-9, 9), width=st.floats(0.01, 9), most=st.integers(1, 6))
def test_marks_of_a_logarithmic_axis_are_few_within_it_and_round(
    low: float, width: float, most: int
) -> None:
    units = LogUnits()
    marks = units.ticks(low, low + width, most)
    assert marks is None or len(marks) <= most
    for mark in marks or ():
        assert low <= mark <= low + width
        assert units.tick(mark).strip("0.,e-+")[:1] in "125"


@pytest.fixture(scope="module")
def result() -> Result:
    """A result of two groups."""
    rng = np.random.default_rng(7)
    X = np.concatenate(
        [
            np.column_stack([
                rng.normal(age, 5, 2000), rng.normal(log, 0.2, 2000), np.ones(2000),
                np.zeros(2000), rng.normal(day, 20, 2000),
            ])
            for age, log, day in ((30, 0, day_of("2023-03-01")), (70, 4, day_of("2023-09-01")))
        ]
    )  # fmt: skip
    settings = Settings(
        domain=DOMAIN,
        n_records=4000,
        n_clusters=2,
        epsilon=8.0,
        algorithm=MOMENTLLOYD,
        public_seed=PublicSeed.from_int(1),
    )
    mechanism = design(settings)
    records = LocalRecords(DOMAIN, DOMAIN.to_grid(X))
    with repeatable_noise():
        found = cluster(mechanism, records, SeededNoise(1))
    return Result.of(mechanism, found, noise_deviation(mechanism))


def test_the_table_for_people_is_in_the_units_of_the_columns(result: Result) -> None:
    rows = list(csv.DictReader(io.StringIO(result.files()["centroids.csv"].decode())))
    assert {"lower_crp", "upper_crp", "se_age", "se_admitted", "ward=surgery"} <= rows[0].keys()
    assert "se_crp" not in rows[0]
    assert sorted(float(row["crp"]) for row in rows) == pytest.approx([1, math.exp(4)], rel=0.1)
    assert {row["admitted"][:7] for row in rows} <= {"2023-02", "2023-03", "2023-08", "2023-09"}
    for row in rows:
        assert float(row["lower_crp"]) < float(row["crp"]) < float(row["upper_crp"])


def test_the_exact_file_has_both_the_clustered_numbers_and_those_of_the_columns(
    result: Result,
) -> None:
    exact = json.loads(result.files()["centroids.json"])
    for clustered, shown in zip(exact["clusters"], exact["in_units"], strict=True):
        assert shown[1]["value"] == pytest.approx(math.exp(clustered["centroid"][1]))
        assert day_of(shown[4]["value"]) == round(clustered["centroid"][4])


def test_a_word_says_what_a_logarithm_and_a_category_mean(result: Result) -> None:
    said = " ".join(sentences(facts, result.mechanism.unit) for facts in columns(DOMAIN))
    assert "'crp'" in said
    assert "'ward=surgery', 'ward=medicine'" in said
    assert columns(Domain(features=("a",), lower=(0.0,), upper=(1.0,))) == []
