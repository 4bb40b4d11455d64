"""Estimators with `bounds="private"`: both stages in one budget, and what is refused before
anything is spent.
"""

import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest

import fastlloyd
from fastlloyd import FastLloyd, MomentLloyd, SuLloyd
from fastlloyd.dp.neighboring import Neighbours
from fastlloyd.errors import BudgetError, DataError, NoisyResultWarning, PlanError
from fastlloyd.federation.holder import HoldersLedger
from fastlloyd.federation.ledger import account
from fastlloyd.federation.store.events import LimitSet, UnitLimitSet
from fastlloyd.mechanisms import central
from fastlloyd.mechanisms.two_stages import TwoStages
from fastlloyd.testing import SeededNoise
from stores import ADD

# bounds that noise finds leave out about 2 % of the records, so it may warn by chance
pytestmark = pytest.mark.filterwarnings("ignore::fastlloyd.errors.ClippedRecordsWarning")

CENTRES = np.array([[20, 1], [50, 4], [80, 2]])
rng = np.random.default_rng(2)
X = CENTRES[rng.integers(0, 3, 3000)] + rng.normal(0, [3, 0.2], (3000, 2))
PUBLIC: dict[str, Any] = {"n_records": 4000, "epsilon": 3.0, "random_state": 8}
PRIVATE = PUBLIC | {"bounds": "private", "value_range": (-1000, 1000)}


@pytest.fixture(autouse=True)
def known_noise(monkeypatch: pytest.MonkeyPatch, repeatable_noise: None) -> None:
    monkeypatch.setattr("fastlloyd.jobs.fit.SystemNoise", lambda: SeededNoise(0))


@pytest.mark.parametrize("estimator", [MomentLloyd, FastLloyd])
def test_bounds_and_centroids_are_found_within_one_budget(estimator: Any) -> None:
    model = estimator(3, **PRIVATE).fit(X)
    said = model.privacy_spent_
    assert (said["private"], said["epsilon"]) == (True, 3.0)
    assert said["delta_accounted"] <= said["delta"] == 1 / 400_000
    assert said["bounds"]["share_of_budget"] == pytest.approx(0.05, rel=1e-3)
    lower, upper = model.bounds_.T
    assert (lower < [20, 1]).all()
    assert (upper > [80, 4]).all()
    assert (upper < [120, 9]).all()
    domain = model.mechanism_.domain
    assert (tuple(lower), tuple(upper)) == (domain.lower, domain.upper)
    found = model.cluster_centers_[np.argsort(model.cluster_centers_[:, 0])]
    np.testing.assert_allclose(found, CENTRES, atol=2)
    assert len(model.labels_) == 3000
    assert np.array_equal(model.predict(X), model.labels_)


def test_a_limit_holds_both_stages_or_neither_begins(ledger_of_its_own: Path) -> None:
    ledger = HoldersLedger(ledger_of_its_own)
    for epsilon, n_runs in ((2.9, 0), (3.0, 1)):  # the whole of what is left
        with ledger.opened(new=True) as store:
            store.append([LimitSet(dataset="patients", epsilon=epsilon, delta=1 / 400_000)])
        with (
            pytest.raises(BudgetError, match=r"limit epsilon 2\.9")
            if n_runs == 0
            else nullcontext()
        ):
            MomentLloyd(3, **PRIVATE, dataset="patients").fit(X)
        runs = ledger.history().runs.values()
        assert [run.uncharged for run in runs] == [()] * n_runs
    assert 2.999 < account(ledger.history(), "patients").epsilon <= 3


def test_a_limit_for_those_of_whom_each_row_is_one_holds_both_stages(
    ledger_of_its_own: Path,
) -> None:
    ledger, patients = HoldersLedger(ledger_of_its_own), Neighbours(ADD, "patient")
    with ledger.opened(new=True) as store:
        store.append(
            [UnitLimitSet(dataset="patients", epsilon=3.01, delta=1 / 400_000, speaks_of=patients)]
        )
    with fastlloyd.dataset("patients", rows_are="patient"):
        MomentLloyd(3, **PRIVATE).fit(X)
    assert 2.999 < account(ledger.history(), "patients", speaks_of=patients).epsilon <= 3


def test_a_data_frame_has_a_range_for_each_column_and_persons_are_counted_once() -> None:
    frame = pd.DataFrame(X, columns=["age", "dose"])
    ranges = {"age": (-1000, 1000), "dose": (-10, 10)}
    model = MomentLloyd(3, **PRIVATE | {"value_range": ranges}).fit(
        frame, groups=np.arange(3000) // 2
    )
    assert model.privacy_spent_["persons"]["max_clients"] == 1
    assert model.privacy_spent_["bounds"]["outer_range"] == {
        "age": [-1000.0, 1000.0],
        "dose": [-10.0, 10.0],
    }


def test_where_noise_hides_the_records_a_warning_says_so() -> None:
    few = np.random.default_rng(0).uniform(-1, 1, (40, 2))
    with pytest.warns(
        NoisyResultWarning,
        match="position.*'x0', 'x1'",
    ):
        MomentLloyd(3, **PRIVATE | {"value_range": (-1, 1), "epsilon": 1.0}).fit(few)


def test_where_that_warning_is_an_error_what_the_budget_bought_is_there() -> None:
    few = np.random.default_rng(0).uniform(-1, 1, (40, 2))
    model = MomentLloyd(3, **PRIVATE | {"value_range": (-1, 1), "epsilon": 1.0})
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "noise hides the position")
        with pytest.raises(NoisyResultWarning, match=r"position.*'x0', 'x1'"):
            model.fit(few)
    assert model.cluster_centers_.shape == (3, 2)
    assert model.privacy_spent_["bounds"]["not_found"] == ["x0", "x1"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"value_range": None}, "value_range is missing"),
        ({"bounds": (0, 1)}, "exclude each other"),
        ({"value_range": (5, 1)}, "value_range: the bounds of feature 'x0' are reversed"),
        ({"value_range": ([0, 0, 0], 1)}, "value_range: bounds are not a pair"),
        (
            {"epsilon": 0.1},
            "^n_records, the cap, is 4000 records: too few to find bounds of 2 features",
        ),
        ({"n_expected": 300}, "^n_expected is 300 records: too few"),
        ({"bounds": "privat", "value_range": None}, "bounds are not a pair"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is_spent(
    given: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("records were asked")

    monkeypatch.setattr(central, "release", never)
    with pytest.raises((PlanError, DataError), match=said):
        MomentLloyd(3, **PRIVATE | given).fit(X)
    with pytest.raises(PlanError, match=r"sulloyd.*without delta"):
        SuLloyd(3, **PRIVATE).fit(X)


def test_if_the_second_stage_is_refused_what_was_spent_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> None:
        raise PlanError("nobody can use these bounds")

    monkeypatch.setattr(TwoStages, "second", broken)
    with pytest.raises(
        PlanError,
        match=r"spent epsilon 0\.5836",
    ):
        MomentLloyd(3, **PRIVATE).fit(X)
