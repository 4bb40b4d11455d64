"""Estimators fitted to data frames and arrays of Dask find what they find in memory, bit for bit;
only sums come back.
"""

import importlib
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from fastlloyd import FastLloyd, Lloyd, MomentLloyd
from fastlloyd.errors import ClippedRecordsWarning, DataError, PlanError
from fastlloyd.mechanisms.engines import dask
from fastlloyd.mechanisms.engines.tasks import Tally
from fastlloyd.testing import SeededNoise

pd: Any = pytest.importorskip("pandas")
dd: Any = pytest.importorskip("dask.dataframe")
da: Any = pytest.importorskip("dask.array")

DATE = pd.Timestamp("2026-01-01")
PUBLIC: dict[str, Any] = {
    "bounds": {"a": (0, 100), "b": (0, 5)},
    "n_records": 600,
    "random_state": 0,
}
pytestmark = [
    pytest.mark.usefixtures("repeatable_noise", "client"),
    pytest.mark.filterwarnings("ignore:the noise dominates"),
    pytest.mark.filterwarnings("ignore::fastlloyd.errors.ClippedRecordsWarning"),
]


def frame(n: int = 500) -> Any:
    """Numbers of two types, some outside the bounds."""
    rng = np.random.default_rng(0)
    a = rng.choice([20, 80], n) + rng.normal(0, 12, n)
    return pd.DataFrame({"a": a.astype(np.float32), "b": rng.integers(0, 6, n)})


@pytest.fixture(scope="module")
def client(address: str) -> Iterator[Any]:
    with importlib.import_module("distributed").Client(address) as connected:
        yield connected


@pytest.fixture(autouse=True)
def known_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastlloyd.jobs.fit.SystemNoise", lambda: SeededNoise(7))


@pytest.mark.parametrize("kept_bytes", [0, 1 << 20])
@pytest.mark.parametrize("kind", ["frame", "array"])
@pytest.mark.parametrize("estimator", [FastLloyd, MomentLloyd])
def test_a_collection_is_clustered_like_its_records_in_memory_and_only_sums_come_back(
    estimator: Any, kind: str, kept_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    came = list[Any]()
    genuine = dask.DaskEngine._result

    def noted(engine: dask.DaskEngine, future: Any) -> Any:
        came.append(genuine(engine, future))
        return came[-1]

    monkeypatch.setattr(dask.DaskEngine, "_result", noted)
    monkeypatch.setattr(dask, "KEPT_SHARE", 0)
    monkeypatch.setattr(dask, "KEPT_BYTES", kept_bytes)
    records = frame()
    public = PUBLIC
    if kind == "frame":  # one partition has no records
        collection = dd.from_pandas(records, npartitions=4)
        collection = dd.concat(
            [collection, collection.partitions[0].query("a > 1000")], interleave_partitions=False
        )
    else:
        records, public = records.to_numpy(), PUBLIC | {"bounds": ([0, 0], [100, 5])}
        collection = da.from_array(records, chunks=(150, 1))
    away, here = estimator(3, **public).fit(collection), estimator(3, **public).fit(records)
    for name in ("cluster_centers_", "cluster_centers_std_", "noisy_counts_", "cluster_status_"):
        assert np.array_equal(
            getattr(away, name), getattr(here, name), equal_nan=name.endswith("std_")
        ), name
    assert dict(away.privacy_spent_) == dict(here.privacy_spent_)
    assert list(getattr(away, "feature_names_in_", ())) == list(
        getattr(here, "feature_names_in_", ())
    )
    assert not hasattr(away, "labels_")
    assert {type(found) for found in came if found is not None} == {Tally}
    if kind == "frame":
        labels = dd.from_pandas(records, npartitions=2).map_partitions(away.predict).compute()
        assert np.array_equal(labels, here.labels_)


def test_the_number_of_records_is_counted_where_the_relation_takes_it_as_known() -> None:
    records = frame()
    settings = PUBLIC | {"n_records": None, "neighboring_relation": "replace_one"}
    away, here = (
        FastLloyd(2, **settings).fit(X) for X in (dd.from_pandas(records, npartitions=2), records)
    )
    assert away.mechanism_ == here.mechanism_
    assert np.array_equal(away.cluster_centers_, here.cluster_centers_)


def test_bounds_that_cut_many_records_are_said_after_a_fit_which_forgets_earlier_labels() -> None:
    model = Lloyd(2, **PUBLIC).fit(frame())
    assert len(model.labels_) == 500
    with pytest.warns(ClippedRecordsWarning, match=r"2 %.*values of"):
        model.set_params(bounds={"a": (0, 20), "b": (0, 5)}).fit(
            dd.from_pandas(frame(), npartitions=2)
        )
    assert not hasattr(model, "labels_")


@pytest.mark.parametrize(
    ("settings", "X", "said"),
    [
        ({"bounds": None}, lambda: dd.from_pandas(frame(), npartitions=2), "bounds is missing"),
        ({"n_records": None}, lambda: dd.from_pandas(frame(), npartitions=2), "n_records is missing"),
        ({"n_records": 99}, lambda: dd.from_pandas(frame(), npartitions=2), "more records than the cap of 99"),
        ({}, lambda: dd.from_pandas(frame(), npartitions=2)["a"], "expected a data frame of Dask, or an array"),
        ({}, lambda: da.zeros((4, 2, 2)), "expected a data frame of Dask, or an array"),
        ({}, lambda: da.zeros((4, 2), dtype=complex), "Complex data"),
        ({}, lambda: dd.from_pandas(frame().assign(b="Zebra"), npartitions=2), "column 'b' of X holds text"),
        ({}, lambda: dd.from_pandas(frame().assign(b=DATE), npartitions=2), "column 'b' of X holds dates"),
        ({}, lambda: dd.from_pandas(frame().assign(b=np.nan), npartitions=2), r"partition [12] of X, column 'b': a value is m"),
        ({}, lambda: dd.from_pandas(frame(), npartitions=2).map_partitions(lambda part: part.assign(b="Zebra"), meta=frame(0)),
         "column 'b' of partition [12] of X holds text"),
        ({}, lambda: dd.from_pandas(frame(), npartitions=2).query("a > 1000"), "there are no records"),
        ({}, lambda: dd.from_map(lambda names: frame()[list(names)], ["ab", "ba"], meta=frame(0)),
         "partition 2 of X has other columns than X"),
        ({"bounds": (0, 5)}, lambda: da.ma.masked_greater(da.from_array(frame().to_numpy(), chunks=(150, 2)), 4.5),
         r"partition [1-4] of X, column 'x.': a value is missing"),
        ({}, lambda: importlib.import_module("dask").delayed(frame()), "expected a data frame of Dask, or an array"),
        ({}, lambda: da.zeros((4, 2))[:, da.ones(2) > 0], "the number of its columns is not known"),
    ],
)  # fmt: skip
def test_what_cannot_be_met_is_refused_in_a_sentence_that_quotes_no_cell(
    settings: Any, X: Any, said: str
) -> None:
    with pytest.raises((DataError, PlanError), match=said) as refused:
        FastLloyd(2, **PUBLIC | settings).fit(X())
    assert "Zebra" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_only_fit_takes_a_collection() -> None:
    X = dd.from_pandas(frame(), npartitions=2)
    model = FastLloyd(2, **PUBLIC).fit(X)
    for method in (model.predict, model.transform, model.score, FastLloyd(2, **PUBLIC).fit_predict):
        with pytest.raises(DataError, match="only fit accepts"):
            method(X)


def test_an_array_of_units_that_could_wrap_one_of_dask_is_an_array() -> None:
    class Quantity(np.ndarray):
        def __dask_graph__(self) -> None:
            return None

    X = frame().to_numpy()
    settings = PUBLIC | {"bounds": ([0, 0], [100, 5])}
    assert (
        FastLloyd(2, **settings).fit(X.view(Quantity)).labels_.tolist()
        == FastLloyd(2, **settings).fit(X).labels_.tolist()
    )


@pytest.mark.parametrize(
    ("declared", "code"),
    [
        ("Int64", None),
        ("boolean", None),
        ("decimal128(12, 2)[pyarrow]", None),
        ("object", None),
        ("str", "text"),
        ("category", "categories"),
        ("datetime64[ns]", "dates"),
    ],
)
def test_a_declared_type_is_answered_alike_on_a_cluster_and_in_memory(
    declared: str, code: str | None
) -> None:
    pa: Any = pytest.importorskip("pyarrow")
    cells = pd.Series([Decimal(i % 2) for i in range(40)], dtype=object)
    if declared.startswith("decimal"):
        cells = pd.Series(
            pd.array(
                pa.array(cells, pa.decimal128(12, 2)), dtype=pd.ArrowDtype(pa.decimal128(12, 2))
            )
        )
    elif declared != "object":
        cells = cells.astype(int).astype(declared)
    records = pd.DataFrame({"a": np.linspace(0, 100, 40), "b": cells})
    with importlib.import_module("dask").config.set({"dataframe.convert-string": False}):
        collection = dd.from_pandas(records, npartitions=3)  # Dask would make text of objects
    outcomes = []
    for X in (records, collection):
        try:
            outcomes.append(Lloyd(2, **PUBLIC).fit(X).cluster_centers_.tolist())
        except DataError as refused:
            outcomes.append((refused.code, refused.field))
    assert outcomes[0] == outcomes[1]
    assert code is None or outcomes[0] == (code, "b")
