"""A recipe gives the same points of the grid for text, Parquet, a data frame and a table of Arrow,
and a neighbour changes one record.
"""

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fastlloyd.clustering.domain import Domain, Scaling
from fastlloyd.estimators.transformer import RecipeTransformer
from fastlloyd.jobs.source import FileSource
from fastlloyd.mechanisms.engines.collections import collection_records
from fastlloyd.records.recipe import Recipe
from fastlloyd.records.recipe.rows import Using
from fastlloyd.records.recipe_frames import frame_records
from recipe_tables import KINDS, Case, cases

dask: Any = pytest.importorskip("dask")
pq: Any = pytest.importorskip("pyarrow.parquet")
feather: Any = pytest.importorskip("pyarrow.feather")
dd: Any = pytest.importorskip("dask.dataframe")
PLAIN = {"compression": "uncompressed"}
RECIPES = int(os.environ.get("RECIPES", "100000"))


def from_file(case: Case, path: Path, text: str | None = None) -> Any:
    path.write_text(case.csv() if text is None else text)
    return read(case, path)


def read(case: Case, path: Path) -> Any:
    recipe = Recipe.of(case.tables)
    using = Using(features=recipe.features, here=recipe.here)
    source = FileSource(path=str(path), unit_column="id", recipe=using).open()
    source.load()
    return source.records


def from_frame(case: Case, X: Any) -> Any:
    recipe = Recipe.of(case.tables)
    using = Using(features=recipe.features, here=recipe.here)
    return frame_records(X, using, [name.encode() for name in case.ids])


def check_transformer(case: Case, expected: Any) -> None:
    """Check that the transformer's features have the recipe's points between -1 and 1."""
    transformer = RecipeTransformer(Recipe.of(case.tables))
    found = transformer.fit_transform(case.in_pandas())
    names = tuple(transformer.get_feature_names_out())
    one = (1.0,) * len(names)
    domain = Domain(features=names, lower=tuple(-end for end in one), upper=one)
    kept = np.logical_not(np.isnan(found).any(axis=1))
    assert np.array_equal(domain.to_grid(found[kept]), expected)


def check_doors(case: Case, path: Path) -> None:
    recipe = Recipe.of(case.tables)
    domain = Domain.of_recipe(recipe.features, scaling=Scaling.PER_FEATURE)
    table = from_file(case, path)
    values = np.asarray(table.values, dtype=np.float64)
    for X in (case.in_pandas(), case.in_polars(), case.in_arrow()):
        found = from_frame(case, X)
        assert found.values.tobytes() == values.tobytes()
        assert found.columns == table.columns
        assert found.ids == table.ids.texts()
    doors: Any = (("parquet", pq.write_table, {}), ("arrow", feather.write_feather, PLAIN))
    for suffix, write, unpacked in doors:
        typed = path.with_suffix(f".{suffix}")
        write(case.in_arrow(), typed, **unpacked)
        found = read(case, typed)
        assert np.asarray(found.values, dtype=np.float64).tobytes() == values.tobytes()
        assert (tuple(found.columns), found.ids.texts()) == (table.columns, table.ids.texts())
    if not Using(features=recipe.features).is_per_person:
        check_transformer(case, domain.to_grid(values))


def check_dask(case: Case) -> None:
    recipe = Recipe.of(case.tables)
    using = Using(features=recipe.features, here=recipe.here)
    domain = Domain.of_recipe(recipe.features, scaling=Scaling.PER_FEATURE)
    frame = case.in_pandas()
    expected = domain.to_grid(frame_records(frame, using).values).sum(axis=0)
    with dask.config.set(
        {"dataframe.convert-string": False}
    ):  # objects of dates stay what they are
        far = dd.from_pandas(frame, npartitions=2, sort=False)
        records = collection_records(far, domain, using)
    assert np.array_equal(records.total(Sum(shape=(len(domain.features),)))[0], expected)


class Sum(NamedTuple):
    """Exact sum of grid points."""

    shape: tuple[int, ...]

    def evaluate(self, X: Any, _first: int, /) -> Any:
        return X.sum(axis=0, dtype=np.int64)


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


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(case=cases(per_person=False))
def test_a_collection_of_dask_without_a_cluster_has_the_same_points(case: Case) -> None:
    check_dask(case)


@pytest.mark.campaign
@settings(max_examples=RECIPES // 10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(case=cases(per_person=False))
def test_ten_thousand_recipes_give_collections_of_dask_the_same_points(case: Case) -> None:
    check_dask(case)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(case=cases(), data=st.data())
def test_a_neighbour_changes_the_record_of_one_row_or_person_only(
    case: Case, data: st.DataObject
) -> None:
    recipe = Recipe.of(case.tables)
    using = Using(features=recipe.features, here=recipe.here)
    place = data.draw(st.integers(0, len(case.rows) - 1))
    row = {key: data.draw(KINDS[kind].cells) for key, kind in case.kinds.items()}
    other = case._replace(rows=[*case.rows[:place], row, *case.rows[place + 1 :]])
    one, two = (
        frame_records(each.in_pandas(), using, [name.encode() for name in case.ids])
        for each in (case, other)
    )
    changed = {case.ids[place]} if using.is_per_person else {place}
    for i, name in enumerate(case.ids):
        if (name if using.is_per_person else i) not in changed:
            before, after = (each.by_row(each.values, np.nan)[i].tobytes() for each in (one, two))
            assert before == after
