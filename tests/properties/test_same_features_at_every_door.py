"""A recipe gives the same points of the grid for a file, a data frame and a table of Arrow, and a
neighbour changes one record.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from fastlloyd.clustering.domain import Domain, Scaling
from fastlloyd.jobs.source import FileSource
from fastlloyd.records.recipe import Recipe
from fastlloyd.records.recipe.rows import Using
from fastlloyd.records.recipe_frames import frame_records
from recipe_tables import Case, cases

RECIPES = int(os.environ.get("RECIPES", "100000"))


def from_file(case: Case, path: Path, text: str | None = None) -> Any:
    path.write_text(case.csv() if text is None else text)
    recipe = Recipe.of(case.tables)
    using = Using(features=recipe.features, here=recipe.here)
    source = FileSource(path=str(path), unit_column="id", recipe=using).open()
    source.load()
    return source.records


def from_frame(case: Case, X: Any) -> Any:
    recipe = Recipe.of(case.tables)
    using = Using(features=recipe.features, here=recipe.here)
    return frame_records(X, using, [name.encode() for name in case.ids])


def check_doors(case: Case, path: Path) -> None:
    domain = Domain.of_recipe(Recipe.of(case.tables).features, scaling=Scaling.PER_FEATURE)
    table = from_file(case, path)
    values = np.asarray(table.values, dtype=np.float64)
    for X in (case.in_pandas(), case.in_polars(), case.in_arrow()):
        found = from_frame(case, X)
        assert found.values.tobytes() == values.tobytes()
        assert found.columns == table.columns
        assert found.ids == table.ids.texts()
        assert np.array_equal(domain.to_grid(found.values), domain.to_grid(values))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(case=cases())
def test_a_recipe_gives_the_same_features_at_every_door(
    tmp_path_factory: pytest.TempPathFactory, case: Case
) -> None:
    check_doors(case, tmp_path_factory.mktemp("doors") / "a.csv")


@pytest.mark.campaign
@settings(max_examples=RECIPES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(case=cases())
def test_a_hundred_thousand_recipes_give_the_same_features_at_every_door(
    tmp_path_factory: pytest.TempPathFactory, case: Case
) -> None:
    check_doors(case, tmp_path_factory.getbasetemp() / "doors.csv")
