"""What leaves with a fitted estimator when it is saved, copied or shown: public settings and noisy
results, nothing exact.
"""

import copy
import io
import pickle
import pickletools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_html_repr

from fastlloyd import FastLloyd, GLloyd, Lloyd, MomentLloyd, SuLloyd
from fastlloyd.estimators import state
from fastlloyd.reports.statement import mechanism_statement

joblib: Any = pytest.importorskip("joblib")  # comes with scikit-learn, without types

X = load_iris().data
PUBLIC: dict[str, Any] = {
    "bounds": ([4, 2, 1, 0], [8, 5, 7, 3]),
    "n_records": 200,
    "random_state": 0,
    "estimate_loss": True,
}
ESTIMATORS = [MomentLloyd, FastLloyd, GLloyd, SuLloyd, Lloyd]


def through_joblib(model: Any) -> Any:
    file = io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    return joblib.load(file)


WAYS: dict[str, Callable[[Any], Any]] = {
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),  # noqa: S301 - our own bytes
    "joblib": through_joblib,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "in a pipeline": lambda model: copy.deepcopy(Pipeline([("model", model)]))[-1],
}
KEPT = {
    "_centroids",  # cluster_centers_ on the grid
    "_n_features_out",
    "_split",  # of the noisy votes
    "cluster_centers_",
    "cluster_centers_std_",
    "cluster_status_",
    "interval_radius_",  # public, or a noisy answer
    "means_beyond_",  # of noisy answers
    "_belongs_to",  # that it belongs to no block
    "mechanism_",
    "n_features_in_",
    "n_iter_",
    "noisy_counts_",
    "noisy_counts_std_",
    "noisy_loss_",
    "noisy_loss_std_",
    "privacy_spent_",
}


@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize("way", WAYS)
def test_what_is_saved_or_copied_holds_the_settings_and_the_noisy_results_only(
    kind: type[FastLloyd], way: str
) -> None:
    model = kind(3, **PUBLIC).fit(X)
    again = WAYS[way](model)
    assert hasattr(model, "labels_")
    assert not hasattr(again, "labels_")
    assert (
        vars(again).keys() - again.get_params().keys() == KEPT
    )  # whoever adds an attribute decides here whether it is exact
    assert repr(again) == repr(model)
    assert again.mechanism_ == model.mechanism_
    assert again.privacy_spent_ == model.privacy_spent_
    assert np.array_equal(again.cluster_centers_, model.cluster_centers_)
    assert np.array_equal(again.bounds_, model.bounds_)
    assert np.array_equal(again.predict(X), model.predict(X))
    assert np.array_equal(again.transform(X), model.transform(X))


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_a_pickle_names_no_class_of_ours_but_the_estimator(kind: type[FastLloyd]) -> None:
    """So that it still loads when modules move."""
    words = [
        word
        for _, word, _ in pickletools.genops(pickle.dumps(kind(3, **PUBLIC).fit(X)))
        if isinstance(word, str)
    ]
    assert {word for word in words if word.startswith("fastlloyd.")} == {kind.__module__}


def holds_an_array_of(length: int, state: object) -> bool:
    """Whether something with one entry per record is anywhere in a state of dicts, sequences and
    arrays.
    """
    if isinstance(state, dict):
        return any(holds_an_array_of(length, value) for value in state.values())
    if isinstance(state, (list, tuple)):
        return len(state) == length or any(holds_an_array_of(length, value) for value in state)
    return isinstance(state, np.ndarray) and length in state.shape


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_nothing_saved_has_an_entry_per_record_or_knows_how_many_there_are(
    kind: type[FastLloyd],
) -> None:
    n = 149  # a prime, and not a number of anything else
    model = kind(3, **PUBLIC).fit(X[:n])
    assert holds_an_array_of(n, vars(model))
    assert not holds_an_array_of(n, model.__getstate__())
    public = kind(3, **PUBLIC).fit(X[: n // 2])  # other records, another number of them
    assert model.mechanism_ == public.mechanism_
    assert _without_radius(model) == _without_radius(public)


def _without_radius(model: Any) -> dict[str, Any]:
    """The statement but for R, which follows from noisy answers."""
    said = dict(model.privacy_spent_)
    return said | {"intervals": said["intervals"]["cover"]}


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_labels_are_there_for_who_asks_and_in_no_list_of_attributes(kind: type[FastLloyd]) -> None:
    model = kind(3, **PUBLIC).fit(X)
    assert len(model.labels_) == 150
    assert "labels_" not in dir(model)
    assert {"cluster_centers_", "noisy_counts_", "privacy_spent_", "fit", "predict"} <= set(
        dir(model)
    )
    assert not hasattr(model, "inertia_")
    assert not hasattr(clone(model), "labels_")


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_the_picture_in_a_notebook_shows_settings_and_no_labels(kind: type[FastLloyd]) -> None:
    plain, fitted = kind(3, **PUBLIC), kind(3, **PUBLIC).fit(X)
    pipeline = make_pipeline(FunctionTransformer(), fitted)
    for model in (plain, fitted, pipeline):
        bundle = model._repr_mimebundle_()
        assert kind.__name__ in bundle["text/plain"]
        for drawn in (bundle["text/html"], model._repr_html_(), estimator_html_repr(model)):
            assert kind.__name__ in drawn
            assert "n_records" in drawn
            assert "labels_" not in drawn
            assert "(150,)" not in drawn


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The mechanisms whose statements were worked out."""
    made, genuine = list[Any](), mechanism_statement

    def noted(m: Any) -> dict[str, Any]:
        made.append(m)
        return genuine(m)

    monkeypatch.setattr(state, "mechanism_statement", noted)
    return made


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_the_statement_is_worked_out_once_and_only_for_who_asks(
    kind: type[FastLloyd], statements: list[Any]
) -> None:
    model = kind(3, **PUBLIC)
    assert not hasattr(model, "privacy_spent_")
    model.fit(X).predict(X)
    assert not statements
    assert model.privacy_spent_ is model.privacy_spent_
    assert statements == [model.mechanism_]


@pytest.mark.parametrize("way", WAYS)
def test_the_statement_is_that_of_the_last_fit_and_of_the_version_that_fitted(
    way: str, statements: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = FastLloyd(3, **PUBLIC).fit(X)
    assert model.privacy_spent_["epsilon"] == 1
    model.set_params(epsilon=0.5).fit(X)
    monkeypatch.setattr("fastlloyd.reports.statement.__version__", "0.0.1")
    again = WAYS[way](model)
    monkeypatch.undo()
    assert (again.privacy_spent_["epsilon"], again.privacy_spent_["fastlloyd_version"]) == (
        0.5,
        "0.0.1",
    )
    assert (
        again.privacy_spent_["mechanism_digest"]
        == model.mechanism_.digest.hex()
        == statements[1].digest.hex()
    )
    assert again.fit(X).privacy_spent_["fastlloyd_version"] != "0.0.1"


def test_a_statement_that_is_interrupted_can_be_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = FastLloyd(3, **PUBLIC).fit(X)
    before = dict(vars(model))

    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(state, "mechanism_statement", interrupted)
        for ask in (lambda: model.privacy_spent_, lambda: pickle.dumps(model)):
            with pytest.raises(KeyboardInterrupt):
                ask()
    assert vars(model).keys() == before.keys()
    assert model.privacy_spent_["loss_estimate"]["standard_error"] == model.noisy_loss_std_
