"""The guarantee covers the estimator alone: steps fitted before it are named, and every statement
and picture of the estimator says so.
"""

import copy
import json
import logging
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, OneHotEncoder, StandardScaler

from fastlloyd import FastLloyd, Lloyd, MomentLloyd, check_private_pipeline
from fastlloyd.errors import DataError
from fastlloyd.reports import outside
from fastlloyd.reports.facts import sentence

pytestmark = pytest.mark.filterwarnings("ignore::fastlloyd.errors.NoisyResultWarning")

COVERS_ESTIMATOR = sentence(outside.COVERS_ESTIMATOR)
X = load_iris().data
TEXT = np.array(["a", "b", "c"])[load_iris().target][:, np.newaxis]


def private(**others: Any) -> MomentLloyd:
    return MomentLloyd(3, bounds=(-10, 10), n_records=200, random_state=0, **others)


def fitted(*steps: Any, X: Any = X) -> Pipeline:
    return make_pipeline(*steps).fit(X)


@pytest.mark.parametrize(
    ("steps", "names"),
    [
        ((StandardScaler(), private()), ["standardscaler"]),
        ((SimpleImputer(), StandardScaler(), private()), ["simpleimputer", "standardscaler"]),
        ((KNNImputer(), private()), ["knnimputer"]),
        ((Normalizer(), FunctionTransformer(np.log1p), private()), []),
        (("passthrough", None, private()), []),
        ((private(),), []),
        ((private(), StandardScaler()), []),
        ((StandardScaler(), FastLloyd(3, bounds=(-10, 10), n_records=200)), ["standardscaler"]),
        ((private(), private()), ["momentlloyd-1"]),
        (
            (make_pipeline(Normalizer(), StandardScaler()), private()),
            ["pipeline__standardscaler"],
        ),
        ((StandardScaler(), make_pipeline(SimpleImputer(), private())), None),
        (
            (FeatureUnion([("n", Normalizer()), ("s", StandardScaler())]), private()),
            ["featureunion__s"],
        ),
        (
            (
                ColumnTransformer(
                    [("s", StandardScaler(), [0, 1]), ("p", "passthrough", [2]), ("d", "drop", [3])]
                ),
                private(),
            ),
            ["columntransformer__s"],
        ),
    ],
)
def test_every_earlier_step_that_was_fitted_is_named(
    steps: tuple[Any, ...], names: list[str] | None
) -> None:
    expected = ["standardscaler", "pipeline__simpleimputer"] if names is None else names
    assert check_private_pipeline(fitted(*map(copy.deepcopy, steps))) == expected


def test_an_encoder_of_categories_is_named() -> None:
    pipeline = fitted(OneHotEncoder(sparse_output=False), private(), X=TEXT)
    assert check_private_pipeline(pipeline) == ["onehotencoder"]


def test_branches_beside_the_estimator_are_no_earlier_steps() -> None:
    beside = ColumnTransformer(
        [("own", make_pipeline(StandardScaler(), private()), [0, 1]), ("s", StandardScaler(), [2])]
    )
    assert check_private_pipeline(beside.fit(X)) == ["own__standardscaler"]


def test_a_search_is_named_and_the_pipeline_it_chose_is_looked_into() -> None:
    pipeline = make_pipeline(StandardScaler(), private())
    search = GridSearchCV(pipeline, {"momentlloyd__n_clusters": [2, 3]}, cv=2).fit(X)
    assert check_private_pipeline(search) == ["gridsearchcv", "standardscaler"]


class Wrapped(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # has no types
    """A step of somebody else's that fits one inside."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def fit(self, X: Any, y: object = None) -> "Wrapped":  # noqa: ARG002
        self.inner_ = clone(self.inner).fit(X)
        return self

    def transform(self, X: Any) -> Any:
        return self.inner_.transform(X)


def test_steps_of_others_are_looked_into_and_named() -> None:
    assert check_private_pipeline(fitted(Wrapped(StandardScaler()), private())) == ["wrapped"]
    inside = Wrapped(make_pipeline(StandardScaler(), private())).fit(X)
    assert check_private_pipeline(inside) == ["standardscaler"]


class InPlace(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # has no types
    """A step that fits its parameter, and whatever is in it."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def fit(self, X: Any, y: object = None) -> "InPlace":  # noqa: ARG002
        self._first.fit(X)
        return self

    def transform(self, X: Any) -> Any:
        return self._first.transform(X)

    @property
    def _first(self) -> Any:
        held = self.inner
        while isinstance(held, list | dict):
            held = held[0]
        return held


class Plain:
    """A step without `get_params`."""

    def fit(self, X: Any, y: object = None) -> "Plain":  # noqa: ARG002
        self.mean_ = X.mean(axis=0)
        return self

    def transform(self, X: Any) -> Any:
        return X - self.mean_


class Stateless:
    """A step without `get_params`, which knows nothing of the records."""

    def __init__(self) -> None:
        self.factor, self.seen_by, self.log = 2, self, logging.getLogger(__name__)

    def fit(self, X: Any, y: object = None) -> "Stateless":  # noqa: ARG002
        return self

    def transform(self, X: Any) -> Any:
        return X / self.factor


class Both:
    """A step that scales and clusters."""

    def fit(self, X: Any, y: object = None) -> "Both":  # noqa: ARG002
        self.scaler_ = StandardScaler().fit(X)
        self.model_ = private().fit(self.scaler_.transform(X))
        return self


def by_closure(scaler: Any) -> Any:
    return FunctionTransformer(scaler.transform)


SCALER = StandardScaler().fit(X)


@pytest.mark.parametrize(
    ("step", "name"),
    [
        (lambda: pytest.importorskip("sklearn.frozen").FrozenEstimator(SCALER), "frozenestimator"),
        (
            lambda: pytest.importorskip("sklearn.frozen").FrozenEstimator(
                make_pipeline(Normalizer(), StandardScaler()).fit(X)
            ),
            "frozenestimator",
        ),
        (Plain, "plain"),
        (lambda: InPlace(StandardScaler()), "inplace"),
        (lambda: InPlace([{0: StandardScaler()}]), "inplace"),
        (lambda: InPlace(Plain()), "inplace"),
        (lambda: FunctionTransformer(SCALER.transform), "functiontransformer"),
        (lambda: FunctionTransformer(Plain().fit(X).transform), "functiontransformer"),
        (lambda: FunctionTransformer(partial(SCALER.transform)), "functiontransformer"),
        (lambda: FunctionTransformer(partial(call, SCALER)), "functiontransformer"),
        (lambda: by_closure(SCALER), "functiontransformer"),
        (lambda: InPlace(Normalizer()), None),
        (Stateless, None),
        (lambda: InPlace(Stateless()), None),
        (lambda: FunctionTransformer(Normalizer().transform), None),
        (lambda: FunctionTransformer(np.sqrt), None),
    ],
)
def test_a_step_is_named_for_what_it_holds(step: Callable[[], Any], name: str | None) -> None:
    pipeline = make_pipeline(step(), private()).fit(X)
    assert check_private_pipeline(pipeline) == ([] if name is None else [name])


def call(scaler: Any, X: Any) -> Any:
    return scaler.transform(X)


def test_many_ways_to_the_same_object_are_gone_once() -> None:
    many: list[Any] = [Stateless()]
    for _ in range(2000):
        many = [many, many]
    pipeline = make_pipeline(FunctionTransformer(partial(of_no_use, many)), private()).fit(X)
    assert check_private_pipeline(pipeline) == []


def of_no_use(_: object, X: Any) -> Any:
    return X


def test_a_step_that_scales_and_clusters_is_named_for_its_scaling() -> None:
    assert check_private_pipeline(Both().fit(X)) == ["both"]


def test_what_has_no_estimator_of_ours_or_was_not_fitted_is_refused() -> None:
    with pytest.raises(DataError, match=r"no estimator.*Pipeline"):
        check_private_pipeline(fitted(StandardScaler()))
    with pytest.raises(DataError, match="in this int"):
        check_private_pipeline(3)
    with pytest.raises(NotFittedError):
        check_private_pipeline(make_pipeline(StandardScaler(), private()))


@pytest.mark.parametrize("kind", [MomentLloyd, FastLloyd])
def test_the_statement_covers_the_estimator_alone_also_in_copies_and_pipelines(kind: Any) -> None:
    pipeline = fitted(StandardScaler(), kind(3, bounds=(-10, 10), n_records=200))
    for model in (pipeline[-1], pickle.loads(pickle.dumps(pipeline))[-1]):  # noqa: S301 - ours
        said = model.privacy_spent_
        assert said["covers"] == "this estimator"
        assert COVERS_ESTIMATOR in said["cautions"]
        assert "covers='this estimator'" in repr(said)
        assert "earlier_steps" in {fact["code"] for fact in said["outside_the_guarantee"]}
        json.dumps(said, allow_nan=False)


def test_the_picture_of_the_estimator_and_of_a_pipeline_around_it_repeats_the_caution() -> None:
    pipeline = fitted(StandardScaler(), private())
    for shown in (pipeline, pipeline[-1], private()):
        html = " ".join(shown._repr_html_().split())
        assert COVERS_ESTIMATOR in html
        assert COVERS_ESTIMATOR in " ".join(shown._repr_mimebundle_()["text/html"].split())
    assert COVERS_ESTIMATOR not in " ".join(Lloyd(3)._repr_html_().split())
