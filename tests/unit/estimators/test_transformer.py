"""The transformer of a recipe learns nothing, and is harmless in a pipeline."""

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from fastlloyd import Lloyd, Recipe, check_private_pipeline
from fastlloyd.errors import DataError, PlanError
from fastlloyd.estimators.transformer import RecipeTransformer
from fastlloyd.records.recipe.rows import Using
from fastlloyd.records.recipe_frames import frame_records

pd: Any = pytest.importorskip("pandas")

FEATURES: dict[str, Any] = {
    "age": {"bounds": [0, 100]},
    "crp": {"bounds": [1, 100], "transform": "log", "missing": "drop"},
    "ward": {"categories": ["surgery", "medicine"], "other": "none"},
}
FRAME = pd.DataFrame(
    {"age": [0, 50, 120], "crp": [10.0, None, 0.0], "ward": ["surgery", "medicine", "kitchen"]}
)


def test_features_lie_between_minus_and_plus_their_weight_and_have_names() -> None:
    transformer = RecipeTransformer(Recipe.of({"features": FEATURES}))
    found = transformer.fit(FRAME).set_output(transform="pandas").transform(FRAME)
    assert list(found.columns) == ["age", "crp", "ward=surgery", "ward=medicine"]
    assert found["age"].iloc[[0, 2]].tolist() == [-1, 1]
    assert np.isnan(found.iloc[1]).all()
    assert found["crp"].iloc[[0, 2]].tolist() == pytest.approx([0, -1], abs=1e-9)
    assert found["ward=surgery"].iloc[[0, 2]].tolist() == pytest.approx([0.5**0.5, -(0.5**0.5)])


def test_a_fit_keeps_names_of_columns_only_and_is_not_needed() -> None:
    transformer = RecipeTransformer(Recipe.of({"features": FEATURES}))
    before = transformer.transform(FRAME)
    assert set(vars(transformer.fit(FRAME))) == {"recipe", "n_features_in_", "feature_names_in_"}
    assert np.array_equal(transformer.transform(FRAME), before, equal_nan=True)
    for other in (clone(transformer), pickle.loads(pickle.dumps(transformer))):  # noqa: S301
        assert np.array_equal(other.transform(FRAME), before, equal_nan=True)


def _numbers(recipe: Recipe, frame: Any) -> Any:
    return frame_records(frame, Using(features=recipe.features)).values


@pytest.mark.filterwarnings("ignore::fastlloyd.errors.ClippedRecordsWarning")
def test_a_pipeline_with_the_transformer_is_harmless_and_clusters_the_grid_of_the_recipe() -> None:
    features = FEATURES | {"crp": FEATURES["crp"] | {"missing": "middle"}}
    recipe = Recipe.of({"features": features})
    frame = pd.concat([FRAME] * 20, ignore_index=True)
    public: dict[str, Any] = {"n_records": 100, "random_state": 0}
    pipeline = make_pipeline(RecipeTransformer(recipe), Lloyd(2, bounds=(-1, 1), **public)).fit(
        frame
    )
    assert check_private_pipeline(pipeline) == []
    direct = Lloyd(2, recipe=recipe, **public).fit(frame).mechanism_.domain
    grid = pipeline[-1].mechanism_.domain.to_grid(pipeline[:-1].transform(frame))
    assert np.array_equal(grid, direct.to_grid(_numbers(recipe, frame)))


def test_a_recipe_of_one_row_a_person_or_none_is_refused() -> None:
    person = {"age": {"bounds": [0, 100], "per_person": "mean"}}
    with pytest.raises(PlanError, match="per_person"):
        RecipeTransformer(Recipe.of({"features": person})).fit(FRAME)
    with pytest.raises(PlanError, match="recipe is missing"):
        RecipeTransformer().fit(FRAME)
    with pytest.raises(DataError, match="no column 'crp'"):
        RecipeTransformer(Recipe.of({"features": FEATURES})).fit(FRAME[["age"]])


# an array has as many columns as the recipe, and a table of one row is as good as any
IN_OTHER_WORDS = {
    "check_estimators_empty_data_messages",
    "check_fit2d_1sample",
    "check_fit2d_1feature",
}


@pytest.mark.filterwarnings("ignore")
def test_every_check_of_scikit_learn_passes_for_a_recipe_of_as_many_columns_as_it_takes() -> None:
    passed, failed = set[str](), set[str]()
    for width in (1, 2, 3, 4, 5, 10, 20):
        features = {f"c{i}": {"bounds": [-9, 9], "missing": 0} for i in range(width)}
        for each in check_estimator(
            RecipeTransformer(Recipe.of({"features": features})), on_fail=None
        ):
            (failed if each["status"] == "failed" else passed).add(each["check_name"])
    assert failed - passed <= IN_OTHER_WORDS
