"""`fit(X, groups=ids)`: which ids there may be, what a person is, what is refused, and what is
counted.
"""

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

from fastlloyd import FastLloyd, Lloyd, MomentLloyd, PrivacyLeakWarning
from fastlloyd.errors import DataError, FastLloydError, PlanError
from fastlloyd.estimators.groups import person_ids
from fastlloyd.mechanisms.persons import Persons
from fastlloyd.testing import SeededNoise
from record_files import pa

pd: Any = pytest.importorskip("pandas")
pl: Any = pytest.importorskip("polars")
pytestmark = pytest.mark.usefixtures("repeatable_noise")

RNG = np.random.default_rng(0)
SIZES = RNG.integers(1, 9, 120)
IDS = np.repeat(np.arange(120), SIZES)
X = np.clip(np.where(IDS[:, None] % 2, 0.5, -0.5) + RNG.normal(0, 0.1, (len(IDS), 2)), -1, 1)
PUBLIC: dict[str, Any] = {"bounds": (-1, 1), "n_records": 200, "random_state": 0}


@pytest.fixture
def seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same noise in every run of a test."""
    monkeypatch.setattr("fastlloyd.jobs.fit.SystemNoise", lambda: SeededNoise(0))


INTEGERS: list[Any] = [
    IDS,
    IDS.astype(np.int32),
    IDS.astype(np.uint8),
    IDS.astype(object),
    IDS.tolist(),
    tuple(IDS.tolist()),
    pd.Series(IDS),
    pd.Series(IDS, dtype="Int64"),
    pd.Series(IDS).astype("category"),
    pl.Series(IDS),
    pa.array(IDS),
    pa.chunked_array([IDS[:7], IDS[7:]]),
    list(map(str, IDS)),
    np.array(list(map(str, IDS))),
    np.array(list(map(str, IDS)), dtype=object),
    pd.Series(list(map(str, IDS))),
    pl.Series(list(map(str, IDS))),
    pl.Series(list(map(str, IDS)), dtype=pl.Categorical),
    pa.array(list(map(str, IDS))).dictionary_encode(),
]


@pytest.mark.parametrize("number", range(len(INTEGERS)))
def test_an_id_is_the_same_whatever_it_is_given_in(number: int) -> None:
    assert person_ids(INTEGERS[number], len(IDS)) == [b"%d" % i for i in IDS]


def test_text_stays_as_it_stands() -> None:
    texts = ["007", "7", " 7", "Ä", "a b", "7.0", "x" * 1000, "\U0010ffff"]
    found = person_ids(texts, len(texts))
    assert len(set(found)) == len(texts)
    assert found[:4] == [b"007", b"7", b" 7", "Ä".encode()]
    assert person_ids([2**70, -5], 2) == [str(2**70).encode(), b"-5"]


REFUSED: dict[str, tuple[Any, str]] = {
    "floats": (IDS.astype(float), "floating-point numbers"),
    "floats of pandas": (pd.Series(IDS, dtype="float64"), "floating-point"),
    "gaps of pandas": (pd.Series([*IDS[:-1], None]), "floating-point"),
    "truth": (IDS > 7, "values of type bool"),
    "dates": (np.full(len(IDS), "2026-01-01", dtype="datetime64[D]"), "values of type date"),
    "timestamps": (pd.Series(pd.Timestamp(0), index=range(len(IDS))), "values of type Timestamp"),
    "decimals": (pa.array(IDS).cast(pa.decimal128(21, 2)), "values of type Decimal"),
    "lists": ([[i] for i in IDS], "values of type list"),
    "mixed": ([*map(str, IDS[:-1]), 7], "mixes text"),
    "none": ([*map(str, IDS[:-1]), None], "an id is missing"),
    "nan": ([*map(str, IDS[:-1]), float("nan")], "an id is missing"),
    "na": (pd.Series([*IDS[:-1], None], dtype="Int64"), "an id is missing"),
    "null": (pl.Series([*IDS[:-1].tolist(), None]), "an id is missing"),
    "masked": (np.ma.masked_equal(IDS, 3), "an id is missing"),
    "empty": ([*map(str, IDS[:-1]), ""], "an id is missing"),
    "a word": ([*map(str, IDS[:-1]), "NaN"], "an id is missing"),
    "short": (IDS[:-1], "another length than X"),
    "two columns": (np.stack([IDS, IDS], axis=1), "a single column"),
    "half a character": ([*map(str, IDS[:-1]), "\ud800"], "not valid Unicode"),
    "half a character in an array": (np.array([*map(str, IDS[:-1]), "\ud800"]), "not valid Unicode"),
    "no characters": (pa.array([b"\xff"] * len(IDS), pa.binary()).view(pa.string()), "not valid Unicode"),
    "too many digits": ([*IDS[:-1].tolist(), 10**4300], "integers of more than 4300 digits"),
    "too many digits below 0": ([*IDS[:-1].tolist(), -(10**4300)], "integers of more than 4300 digits"),
    "a frame": (pd.DataFrame({"a": IDS}), "a single column"),
    "one text": ("a" * len(IDS), "a single column"),
    "a number": (7, "groups is a int"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_are_no_ids_is_refused_in_a_sentence_that_shows_none(name: str) -> None:
    groups, match = REFUSED[name]
    with pytest.raises(FastLloydError, match=match) as refused:
        MomentLloyd(2, **PUBLIC).fit(X, groups=groups)
    said = str(refused.value)
    assert "\n" not in said
    assert refused.value.__context__ is None
    assert not any(f" {i} " in said or f"'{i}'" in said for i in set(IDS.tolist()) - {7})


def test_unit_and_groups_must_agree() -> None:
    with pytest.raises(PlanError, match=r"'person'.*no groups"):
        MomentLloyd(2, **PUBLIC, unit="person").fit(X)
    with pytest.raises(PlanError, match=r"'record'.*given groups"):
        MomentLloyd(2, **PUBLIC, unit="record").fit(X, groups=IDS)
    with pytest.raises(PlanError, match=r"unit.*'two words'.*a word"):
        MomentLloyd(2, **PUBLIC, unit="two words").fit(X, groups=IDS)
    with pytest.raises(PlanError, match=r"unit.*''; expected a"):
        MomentLloyd(2, **PUBLIC, unit="").fit(X, groups=IDS)
    with pytest.raises(PlanError, match=r"'patients'.*singular"):
        MomentLloyd(2, **PUBLIC, unit="patients").fit(X, groups=IDS)
    with pytest.raises(PlanError, match="7; expected 'record'"):
        MomentLloyd(2, **(PUBLIC | {"unit": 7})).fit(X, groups=IDS)
    assert (
        MomentLloyd(2, **PUBLIC, unit="patient").fit(X, groups=IDS).mechanism_.unit.many
        == "patients"
    )
    with pytest.raises(TypeError, match="keyword argument 'group'"):
        MomentLloyd(2, **PUBLIC).fit(X, group=IDS)


def test_a_grid_search_that_keeps_the_groups_to_itself_fits_no_model_that_is_to_protect_persons() -> (
    None
):
    """It splits by them, and passes them on only where scikit-learn's metadata routing is on."""
    records = PUBLIC | {"n_records": len(X)}
    search = {"param_grid": {"n_clusters": [2]}, "cv": GroupKFold(2), "error_score": "raise"}
    with pytest.raises(PlanError, match=r"'person'.*no groups"):
        GridSearchCV(MomentLloyd(**records, unit="person"), **search).fit(X, groups=IDS)
    unsaid = GridSearchCV(MomentLloyd(**records), **search).fit(X, groups=IDS)
    assert unsaid.best_estimator_.mechanism_.persons is None
    with config_context(enable_metadata_routing=True):
        model = MomentLloyd(**records, unit="person").set_fit_request(groups=True)
        found = GridSearchCV(model, **search).fit(X, groups=IDS)
        piped = make_pipeline(MaxAbsScaler(), model).fit(X, groups=IDS)
    assert found.best_estimator_.mechanism_.persons == piped[-1].mechanism_.persons == Persons()


@pytest.mark.parametrize("method", ["fit", "fit_predict", "fit_transform"])
def test_groups_are_passed_by_name(method: str) -> None:
    """By position they would pass for sample weights elsewhere."""
    model = MomentLloyd(2, **PUBLIC)
    with pytest.raises(TypeError, match="positional arguments"):
        getattr(model, method)(X, None, IDS)


@pytest.mark.parametrize("unit", [None, "person"])
@pytest.mark.parametrize("kind", [MomentLloyd, FastLloyd])
def test_groups_make_persons_the_unit_and_counts_those_of_persons(
    kind: Any, unit: str | None
) -> None:
    model = kind(2, **PUBLIC, unit=unit).fit(X, groups=IDS)
    assert model.mechanism_.persons == Persons()
    assert model.labels_.shape == (len(X),)
    assert np.abs(model.noisy_counts_ - 60).max() < 8 * model.noisy_counts_std_
    said = model.privacy_spent_
    assert (
        said["unit_of_protection"]
        == "One person: all rows under one id. Together they count once, whatever their number"
    )
    assert said["private"] is True
    assert said["delta"] == 1 / (100 * 200)


def test_without_noise_persons_weigh_alike() -> None:
    model = Lloyd(2, **PUBLIC).fit(X, groups=IDS)
    assert sorted(model.noisy_counts_.tolist()) == [60, 60]
    mean = np.array([X[i == IDS].mean(axis=0) for i in range(0, 120, 2)]).mean(axis=0)
    assert np.abs(model.cluster_centers_ - mean).sum(axis=1).min() < 0.01


@pytest.mark.usefixtures("seeded")
def test_the_order_of_rows_changes_nothing_and_rows_of_one_id_more_or_less_change_no_other_persons_shares() -> (
    None
):
    order = RNG.permutation(len(X))
    first = FastLloyd(2, **PUBLIC).fit(X, groups=IDS)
    second = FastLloyd(2, **PUBLIC).fit(X[order], groups=IDS[order].astype(str))
    assert np.array_equal(first.cluster_centers_, second.cluster_centers_)
    assert np.array_equal(first.labels_[order], second.labels_)


@pytest.mark.usefixtures("seeded")
def test_a_person_with_every_row_twice_is_the_same_person() -> None:
    """A power of two of rows, so that shares divide evenly."""
    ids, rows = np.repeat(np.arange(60), 4), X[:240]
    once, twice = (
        FastLloyd(2, **PUBLIC)
        .fit(np.repeat(rows, n, axis=0), groups=np.repeat(ids, n))
        .cluster_centers_
        for n in (1, 2)
    )
    assert np.array_equal(once, twice)


@pytest.mark.parametrize("relation", ["add_or_remove_one", "replace_one"])
def test_the_number_of_persons_taken_from_the_data_leaks_under_both_relations(
    relation: str,
) -> None:
    """Who is replaced may have no usable row any more."""
    model = MomentLloyd(2, bounds=(-1, 1), random_state=0, neighboring_relation=relation)
    with pytest.warns(PrivacyLeakWarning, match="number of persons"):
        model.fit(X, groups=IDS)
    assert model.mechanism_.n_records == 120
    assert model.privacy_spent_["private"] is False


def test_caps_speak_of_persons() -> None:
    with pytest.raises(DataError, match=r"persons.*cap of 119"):
        MomentLloyd(2, **PUBLIC | {"n_records": 119}).fit(X, groups=IDS)
    with pytest.raises(PlanError, match=r"cap.*of persons"):
        MomentLloyd(2, **PUBLIC, n_expected=300).fit(X, groups=IDS)
    with pytest.raises(DataError, match="fewer persons"):
        MomentLloyd(121, bounds=(-1, 1)).fit(X, groups=IDS)


def test_models_of_persons_are_cloned_pickled_and_fitted_with_labels() -> None:
    model = MomentLloyd(2, **PUBLIC, unit="person")
    assert clone(model).get_params()["unit"] == "person"
    assert model.fit_predict(X, groups=IDS).shape == (len(X),)
    assert model.fit_transform(X, groups=IDS).shape == (len(X), 2)
    assert pickle.loads(pickle.dumps(model)).mechanism_ == model.mechanism_  # noqa: S301 - its own


def test_collections_of_dask_have_no_groups() -> None:
    far = pytest.importorskip("dask.array").from_array(X, chunks=(50, 2))
    with pytest.raises(DataError, match="groups cannot be"):
        MomentLloyd(2, **PUBLIC).fit(far, groups=IDS)
    with pytest.raises(DataError, match=r"groups.*Dask collection"):
        MomentLloyd(2, **PUBLIC).fit(X, groups=far[:, 0])
