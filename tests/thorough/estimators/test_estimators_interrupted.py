"""A fit that fails, or is interrupted, leaves the model as it was: no mixture of an old fit and a
new one.
"""

import sys
import warnings
from collections.abc import Callable
from itertools import groupby
from types import FrameType
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest

from fastlloyd import (
    ClippedRecordsWarning,
    FastLloyd,
    MomentLloyd,
    NoisyResultWarning,
    PrivacyLeakWarning,
)
from fastlloyd.clustering import kernels
from fastlloyd.estimators import base, choosing
from fastlloyd.jobs import fit
from fastlloyd.mechanisms import central, uncertainty

BEFORE = pd.DataFrame(np.random.default_rng(0).random((50, 2)), columns=["age", "dose"])
X = np.random.default_rng(1).random((2000, 3))
NEW: dict[str, Any] = {"n_clusters": 3, "n_records": 2000, "bounds": (0.0, 1.0)}

# bounds that noise finds leave out about 2 % of the records, so they may warn by chance
pytestmark = pytest.mark.filterwarnings(
    f"ignore::{NoisyResultWarning.__module__}.{NoisyResultWarning.__name__}",
    "ignore::fastlloyd.errors.ClippedRecordsWarning",
)


def fitted(kind: type[Any], **new: Any) -> Any:
    """A model that was fitted, with a loss, to records of two features with names; now it has other
    settings.
    """
    model = kind(2, bounds=(0.0, 1.0), n_records=50, estimate_loss=True, epsilon=5.0).fit(BEFORE)
    assert model.clearest_split_ is None or kind is MomentLloyd  # it is worked out now, and kept
    return model.set_params(**NEW | {"estimate_loss": False} | new)


def is_as(state: dict[str, Any], before: dict[str, Any]) -> bool:
    return state.keys() == before.keys() and all(state[name] is before[name] for name in state)


def is_new(model: Any) -> bool:
    """Whether every attribute is of the new fit."""
    state = vars(model)
    return (
        model.n_features_in_ == model.mechanism_.n_features == model.cluster_centers_.shape[1] == 3
        and model.cluster_centers_.shape == model.cluster_centers_std_.shape
        and len(model.cluster_status_)
        == len(model.noisy_counts_)
        == len(model.cluster_centers_)
        == model._n_features_out
        == 3
        and np.array_equal(
            model.mechanism_.domain.from_grid(model._centroids), model.cluster_centers_
        )
        and len(model.labels_) == len(X)
        and model.n_iter_ == model.mechanism_.n_iterations
        and model.privacy_spent_["mechanism_digest"] == model.mechanism_.digest.hex()
        and not {"feature_names_in_", "noisy_loss_", "noisy_loss_std_", "_split"} & state.keys()
    )


def interrupted_at(line: int, action: Callable[[], object]) -> bool:
    """Whether Ctrl-C came in before that many lines of `base` had been run, counted from 0."""
    n_run = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal n_run
        if frame.f_code.co_filename != base.__file__:
            return None
        if event == "line":
            if n_run == line:
                sys.settrace(None)
                raise KeyboardInterrupt
            n_run += 1
        return trace

    outer = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(outer)
    return False


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (FastLloyd, {"n_iter": 1}),
        (MomentLloyd, {"bounds": "private", "value_range": (-9.0, 9.0), "epsilon": 5.0}),
    ],
    ids=["stated bounds", "private bounds"],
)
def test_whenever_a_fit_is_interrupted_the_model_is_as_it_was_or_all_new(
    kind: type[Any], given: dict[str, Any]
) -> None:
    model = fitted(kind, **given)
    before, states = dict(vars(model)), list[str]()
    while interrupted_at(len(states), lambda: model.fit(X)):
        states.append(
            "old" if is_as(vars(model), before) else "new" if is_new(model) else "a mixture"
        )
        model.__dict__ = dict(before)
    assert [state for state, _ in groupby(states)] == ["old", "new"]
    assert states.count("old") > 50
    assert is_new(model)


class BrokenError(Exception):
    """What no fit expects."""


@pytest.mark.parametrize(
    ("where", "name"),
    [
        (choosing, "validate_records"),
        (fit, "design"),
        (central, "cluster"),
        (kernels, "assign"),
        (uncertainty, "assess"),
        (uncertainty, "typical_error"),
        (uncertainty, "cautions"),
    ],
)
def test_whatever_fails_after_its_work_is_done_the_model_is_as_it_was(
    where: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = fitted(FastLloyd)
    before, genuine = dict(vars(model)), getattr(where, name)

    def broken(*arguments: Any, **named: Any) -> None:
        genuine(*arguments, **named)
        raise BrokenError

    with monkeypatch.context() as patched:
        patched.setattr(where, name, broken)
        with pytest.raises(BrokenError):
            model.fit(X)
    assert is_as(vars(model), before)
    assert is_new(model.fit(X))


def test_a_warning_that_is_an_error_comes_before_all_work_or_leaves_all_that_it_found() -> None:
    model = fitted(FastLloyd)
    before = dict(vars(model))
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyLeakWarning)
        with pytest.raises(PrivacyLeakWarning):
            model.set_params(n_records=None).fit(X)
    assert is_as(vars(model) | {"n_records": before["n_records"]}, before)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ClippedRecordsWarning)
        with pytest.raises(ClippedRecordsWarning):
            model.set_params(n_records=2000).fit(X + 0.5)
    assert is_new(model)


def test_what_an_estimator_of_ones_own_keeps_beside_stays() -> None:
    class Mine(FastLloyd):
        def fit(self, X: Any, y: object = None, **more: Any) -> Any:
            self.scale_ = 0.5
            return super().fit(X * self.scale_, y, **more)

    model = fitted(Mine)
    model.kept_ = "mine"
    model.fit(X)
    assert (model.scale_, model.kept_) == (0.5, "mine")
