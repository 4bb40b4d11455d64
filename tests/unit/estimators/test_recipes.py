"""Estimators with a recipe take the raw table: parameters, persons, gaps, units, state."""

import copy
import pickle
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from fastlloyd import FastLloyd, Lloyd, MomentLloyd, Recipe
from fastlloyd.errors import DataError, EngineError, PlanError
from fastlloyd.jobs.choices import ClusteringChoices, RecipeFeatures
from fastlloyd.jobs.fit import FitRequest
from fastlloyd.jobs.source import FileSource
from fastlloyd.records.recipe.rows import Using

pd: Any = pytest.importorskip("pandas")
pl: Any = pytest.importorskip("polars")

CANARY = "xyzzy"
FEATURES: dict[str, Any] = {
    "age": {"bounds": [0, 110]},
    "crp": {"bounds": [0.25, 400], "transform": "log", "below": "bound", "missing": 3.0},
    "ward": {"categories": ["surgery", "medicine"], "weight": 0.5, "other": "none"},
}
HERE = {"names": {"age": "Alter"}, "unit_column": "pid", "decimal": ","}
PUBLIC: dict[str, Any] = {"n_records": 400, "random_state": 0}


def table(n: int = 300) -> Any:
    rng = np.random.default_rng(0)
    crp = [f"{x:.3g}".replace(".", ",") if x > 0.5 else "<0,5" for x in rng.lognormal(1, 1, n)]
    return pd.DataFrame(
        {
            "pid": np.arange(n) // 2,
            "Alter": rng.normal(50, 20, n).round(1),
            "crp": crp,
            "ward": rng.choice(["surgery", "medicine", "kitchen"], n),
            "note": [CANARY] * n,
        }
    )


def recipe_of(features: dict[str, Any] | None = None, **tables: Any) -> Recipe:
    is_of_records = "privacy" in tables and tables["privacy"].get("unit") != "person"
    here = {key: HERE[key] for key in HERE if not (is_of_records and key == "unit_column")}
    return Recipe.of(
        {"features": FEATURES if features is None else features, "here": here} | tables
    )


def test_an_estimator_clusters_the_records_of_a_file_by_the_same_recipe(tmp_path: Path) -> None:
    frame, recipe = table(), recipe_of()
    path = tmp_path / "a.csv"
    frame.to_csv(path, index=False)
    with path.open() as file:
        lines = [line.replace('"', "") for line in file]
    assert len(lines) == 301  # decimal commas of a file are read where its layout is stated
    frame["crp"] = frame["crp"].str.replace(",", ".")
    frame.to_csv(path, index=False)
    here = recipe.here.__class__(names={"age": "Alter"})
    plain = Recipe(features=recipe.features, here=here)
    fit = FitRequest(
        records=FileSource(path=str(path), recipe=Using(features=recipe.features, here=here)),
        choices=ClusteringChoices(
            n_clusters=3, bounds=RecipeFeatures(recipe.features), n_records=400, public_seed="0",
            algorithm="lloyd",
        ),
    ).prepare().carry_out()  # fmt: skip
    for X in (frame, pl.from_pandas(frame)):
        model = Lloyd(3, recipe=plain, **PUBLIC).fit(X)
        assert np.array_equal(model._centroids, fit.clustering.centroids)
        assert model.mechanism_.domain == fit.mechanism.domain
        assert np.array_equal(model.predict(X), model.labels_)


def test_centres_are_in_the_units_of_the_columns() -> None:
    model = Lloyd(2, recipe=recipe_of(), **PUBLIC).fit(table())
    domain = model.mechanism_.domain
    clustered = domain.from_grid(model._centroids)
    assert np.array_equal(model.cluster_centers_[:, 1], np.exp(clustered[:, 1]))
    assert np.array_equal(model.cluster_centers_[:, [0, 2, 3]], clustered[:, [0, 2, 3]])
    assert model.bounds_[:2] == pytest.approx(np.array([[0, 110], [0.25, 400]]))
    assert domain.features == ("age", "crp", "ward=surgery", "ward=medicine")
    assert list(model.feature_names_in_) == ["Alter", "crp", "ward"]
    assert model.n_features_in_ == 3
    assert len(model.get_feature_names_out()) == 2


def test_parameters_at_their_default_are_those_of_the_recipe_and_others_stay() -> None:
    recipe = recipe_of(
        privacy={"epsilon": 2.5, "delta": 1e-6, "n_records": 500, "n_expected": 300, "loss": True},
        clustering={"n_clusters": 3, "scaling": "common", "iterations": 4, "public_seed": "7",
                    "algorithm": "momentlloyd", "radius": "none"},
    )  # fmt: skip
    m = FastLloyd(recipe=recipe, epsilon=1.25).fit(table()).mechanism_
    assert (m.epsilon, m.delta, m.n_records, m.n_expected) == (1.25, 1e-6, 500, 300)
    assert (m.n_clusters, m.domain.scaling.value, m.n_iterations) == (3, "common", 4)
    assert m.loss is not None
    assert m.algorithm.radius.value == "none"
    assert (
        m.public_seed
        == Lloyd(2, bounds=(0, 1), n_records=9, random_state=7)
        .fit(np.eye(2))
        .mechanism_.public_seed
    )
    model = FastLloyd(recipe=recipe)
    model.fit(table())
    assert model.n_clusters == 8  # a fit changes no parameter
    assert model.mechanism_.n_clusters == 3


def test_persons_are_told_by_the_column_of_the_recipe_as_by_groups() -> None:
    frame, person = table(), {"unit": "person", "unit_name": "patient"}
    by_column = Lloyd(2, recipe=recipe_of(privacy=person), **PUBLIC).fit(frame)
    by_groups = Lloyd(2, recipe=recipe_of(), unit="patient", **PUBLIC).fit(
        frame, groups=frame["pid"]
    )
    assert by_column.mechanism_ == by_groups.mechanism_
    assert np.array_equal(by_column.noisy_counts_, by_groups.noisy_counts_)
    assert by_column.noisy_counts_.sum() == 150
    rows = Lloyd(2, recipe=recipe_of(), **PUBLIC).fit(frame)
    assert rows.mechanism_.persons is None
    assert rows.noisy_counts_.sum() == 300


def test_one_row_a_person_gives_each_row_the_label_of_its_person() -> None:
    features = {key: each | {"per_person": "mean"} for key, each in FEATURES.items()}
    frame = table()
    frame.loc[frame["pid"] == 3, "Alter"] = np.nan
    features["age"] = features["age"] | {"missing": "drop"}
    model = Lloyd(2, recipe=recipe_of(features, privacy={"unit": "person"}), **PUBLIC).fit(frame)
    labels = model.labels_.reshape(-1, 2)
    assert np.array_equal(labels[:, 0], labels[:, 1])
    assert np.flatnonzero(labels[:, 0] == -1).tolist() == [3]
    assert model.noisy_counts_.sum() == 149
    assert np.array_equal(model.predict(frame), model.labels_)
    distances = model.transform(frame)
    assert np.flatnonzero(np.isnan(distances).any(axis=1)).tolist() == [6, 7]
    assert model.score(frame) < 0


def test_a_copy_a_pickle_and_a_clone_have_the_recipe_and_name_no_class() -> None:
    recipe, frame = recipe_of(), table()
    model = Lloyd(2, recipe=recipe, **PUBLIC).fit(frame)
    stored = pickle.dumps(model)
    assert b"fastlloyd.records" not in stored
    for other in (pickle.loads(stored), copy.deepcopy(model)):  # noqa: S301
        assert other.recipe == recipe
        assert np.array_equal(other.predict(frame), model.labels_)
    assert clone(model).recipe == recipe
    assert not hasattr(clone(model), "mechanism_")


def test_nothing_of_the_local_part_stands_in_the_settings_or_the_statement() -> None:
    here = HERE | {"missing_words": [CANARY], "names": {"age": "Alter", "crp": CANARY + "2"}}
    frame = table().rename(columns={"crp": CANARY + "2"})
    model = Lloyd(2, recipe=Recipe.of({"features": FEATURES, "here": here}), **PUBLIC).fit(frame)
    for text in (model.mechanism_.to_toml(), str(dict(model.privacy_spent_)), repr(model)):
        assert CANARY not in text
        assert "Alter" not in text


@pytest.mark.parametrize(
    ("parameters", "tables", "field"),
    [
        ({"bounds": (0, 1)}, {}, "bounds"),
        ({"value_range": (0, 1)}, {}, "value_range"),
        ({}, {"clustering": {"iterations": 3}}, "n_iter"),
        ({}, {"privacy": {"unit": "person"}, "here": {"names": {"age": "Alter"}}}, "unit_column"),
        ({"recipe": "recipe.toml"}, {}, "recipe"),
    ],
)
def test_what_contradicts_the_recipe_is_refused_by_name(
    parameters: dict[str, Any], tables: dict[str, Any], field: str
) -> None:
    stated: dict[str, Any] = {"recipe": recipe_of(**tables)} | PUBLIC | parameters
    with pytest.raises(PlanError) as refused:
        MomentLloyd(2, **stated).fit(table())
    assert refused.value.field == field


@pytest.mark.parametrize("cells", [["<xyzzy", "1"], ["1", CANARY], [">3", "1"]])
def test_no_message_shows_a_cell(cells: list[str]) -> None:
    frame = table(2)
    frame["crp"] = cells
    for use in (
        lambda: Lloyd(2, recipe=recipe_of(), **PUBLIC).fit(frame),
        lambda: Lloyd(2, recipe=recipe_of(), **PUBLIC).fit(table()).predict(frame),
    ):
        with pytest.raises(DataError) as refused:
            use()
        assert refused.value.field == "crp"
        said = "".join(traceback.format_exception(refused.value))
        assert CANARY not in said
        assert ">3" not in said


def test_a_value_outside_the_bounds_is_refused_where_the_recipe_says_so() -> None:
    frame = table()
    frame["Alter"] = frame["Alter"].clip(0, 110)
    frame.loc[2, "Alter"] = np.nan
    frame.loc[5, "Alter"] = 200.0
    features = FEATURES | {"age": FEATURES["age"] | {"missing": "drop"}}
    recipe = recipe_of(features, privacy={"outside": "refuse"})
    with pytest.raises(DataError, match="record 6, "):
        Lloyd(2, recipe=recipe, **PUBLIC).fit(frame)


@pytest.mark.filterwarnings("ignore::fastlloyd.errors.ClippedRecordsWarning")
def test_a_collection_of_dask_without_a_cluster_is_clustered_like_its_records_in_memory() -> None:
    dd = pytest.importorskip("dask.dataframe")
    frame, recipe = table(), recipe_of()
    model = Lloyd(3, recipe=recipe, **PUBLIC).fit(dd.from_pandas(frame, npartitions=3))
    assert np.array_equal(
        model.cluster_centers_, Lloyd(3, recipe=recipe, **PUBLIC).fit(frame).cluster_centers_
    )
    assert list(model.feature_names_in_) == ["Alter", "crp", "ward"]
    assert not hasattr(model, "labels_")
    plain: dict[str, Any] = {"bounds": (0, 100)} | PUBLIC
    numbers = frame[["Alter"]]
    far = Lloyd(2, **plain).fit(dd.from_pandas(numbers, npartitions=2))
    near = Lloyd(2, **plain).fit(numbers)
    assert np.array_equal(far.cluster_centers_, near.cluster_centers_)


def test_a_partition_that_cannot_be_computed_is_refused_without_its_words() -> None:
    dask, dd = pytest.importorskip("dask"), pytest.importorskip("dask.dataframe")

    @dask.delayed  # type: ignore[untyped-decorator]
    def part() -> Any:
        raise ValueError(CANARY)

    far = dd.from_delayed([part()], meta=table(0))
    with pytest.raises(EngineError) as refused:
        Lloyd(2, recipe=recipe_of(), **PUBLIC).fit(far)
    assert CANARY not in "".join(traceback.format_exception(refused.value))
