"""Labels of pandas objects count: bounds are those of their columns and ids those of their rows, or
are refused; what may be read in two ways is never taken by position in silence.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastlloyd import Lloyd
from fastlloyd.clustering.domain import Domain
from fastlloyd.errors import DataError, FastLloydError, PlanError
from fastlloyd.estimators.groups import person_ids
from fastlloyd.evaluation import metrics
from fastlloyd.jobs.settings import Columns, outer_of, stated_domain
from fastlloyd.records import NUMERIC, open_records, table_from_frame
from fastlloyd.records.bounds import given_bounds
from record_files import pa, pq

pd: Any = pytest.importorskip("pandas")
pl: Any = pytest.importorskip("polars")

NAMES = ["weight", "height", "pulse"]
LIMITS = pd.DataFrame(
    {"lower": [30.0, 100.0, 20.0], "upper": [200.0, 230.0, 220.0]}, index=pd.Index(NAMES)
)
X = pd.DataFrame(
    {"weight": [60.0, 90.0] * 20, "height": [160.0, 185.0] * 20, "pulse": [60.0, 75.0] * 20}
)
PUBLIC: dict[str, Any] = {"n_records": 50, "random_state": 0}


def code_of(call: Any) -> str | None:
    with pytest.raises(FastLloydError) as refused:
        call()
    assert "\n" not in str(refused.value)
    return refused.value.code


@given(order=st.permutations(NAMES), other=st.permutations(NAMES), scalar=st.booleans())
def test_series_of_bounds_are_those_of_their_columns_in_any_order(
    order: list[str], other: list[str], scalar: bool
) -> None:
    ends = LIMITS["lower"][order], 300.0 if scalar else LIMITS["upper"][other]
    lower, upper = given_bounds(ends, NAMES, 3)
    assert lower.tolist() == LIMITS["lower"].tolist()
    assert upper.tolist() == ([300.0] * 3 if scalar else LIMITS["upper"].tolist())


COLUMNS = Columns.of(NAMES)


@pytest.mark.parametrize("parameter", ["bounds", "value_range"])
def test_an_estimator_takes_labelled_bounds_and_ranges_by_name(parameter: str) -> None:
    turned = LIMITS[::-1]
    by_name = {name: tuple(LIMITS.loc[name]) for name in NAMES}
    settings: dict[str, Any] = {} if parameter == "bounds" else {"bounds": "private"}
    series, named = (
        Lloyd(**PUBLIC | settings | {parameter: ends})
        for ends in ((turned["lower"], turned["upper"]), by_name)
    )
    found = list[Domain]()
    for model in (series, named):
        model.n_features_in_, model.feature_names_in_ = 3, np.array(NAMES, dtype=object)
        choices = model._choices(None)
        made = stated_domain(choices, COLUMNS)
        found.append(made if parameter == "bounds" else outer_of(choices.value_range, COLUMNS))
    assert found[0] == found[1]
    assert found[0].lower == tuple(LIMITS["lower"])


def test_labels_that_are_no_columns_and_columns_without_labels_are_refused() -> None:
    for labels in ([*NAMES[:2], "age"], NAMES[:2], [*NAMES, "age"], [*NAMES, NAMES[0]]):
        lower = pd.Series(range(len(labels)), index=labels)
        with pytest.raises(DataError, match=r"age|pulse|weight"):
            given_bounds((lower, 300), NAMES, 3)
    lower = LIMITS["lower"][::-1]
    assert code_of(lambda: given_bounds((lower, 300), None, 3)) == "ambiguous"
    assert code_of(lambda: given_bounds((lower, [200, 230, 220]), NAMES, 3)) == "ambiguous"
    # labels that only count name nothing
    plain = LIMITS["lower"].reset_index(drop=True)
    for columns in (NAMES, None):
        assert given_bounds((plain, 300), columns, 3)[0].tolist() == plain.tolist()


TWO_WAYS: dict[str, Any] = {
    "rows": LIMITS.iloc[:2],
    "columns": LIMITS.iloc[:2].T,
    "of Polars": pl.DataFrame({"lower": [0, 0], "upper": [1, 1]}),
    "of Arrow": pa.table({"lower": [0, 0], "upper": [1, 1]}),
    "a Series of pairs": pd.Series({"weight": (30, 200), "height": (100, 230)}),
    "a labelled pair": pd.Series({"upper": 200, "lower": 30}),
    "an array": np.array([[30, 100], [200, 230]]),
    "lists": [[30, 100], [200, 230]],
    "pairs": [(30, 200), (100, 230)],
    "arrays": [np.array([30, 100]), np.array([200, 230])],
    "a set": {(30, 100), (200, 230)},
}


@pytest.mark.parametrize("kind", TWO_WAYS)
def test_bounds_of_two_features_that_read_two_ways_are_refused(kind: str) -> None:
    assert code_of(lambda: given_bounds(TWO_WAYS[kind], NAMES[:2], 2)) == "ambiguous"


def test_a_tuple_is_lower_and_upper_whatever_it_holds() -> None:
    for bounds in (
        ((30, 100), (200, 230)),
        ([30, 100], [200, 230]),
        (np.array([30, 100]), np.array([200, 230])),
        (pl.Series([30, 100]), pl.Series([200, 230])),
        (pa.array([30, 100]), pa.array([200, 230])),
        tuple(np.array([[30, 100], [200, 230]])),
    ):
        lower, upper = given_bounds(bounds, NAMES[:2], 2)
        assert (lower.tolist(), upper.tolist()) == ([30, 100], [200, 230])
    three = np.array([[30.0, 100, 20], [200, 230, 220]])
    assert np.array_equal(given_bounds(three, NAMES, 3), three)
    with pytest.raises(PlanError, match="each feature, pass"):
        given_bounds(three.T, NAMES, 3)


@pytest.mark.parametrize(
    "end",
    [
        ["30", "100", "20"],
        np.array(["30", "100", "20"], dtype=object),
        pd.Series([30, 100, 20], dtype="category"),
        np.ma.array([30, 100, 20], mask=[False, True, False]),
        np.array([30, 100, 20j]),
        pd.to_datetime(["2020-01-01"] * 3),
        LIMITS[["lower"]],
        None,
    ],
    ids=lambda end: type(end).__name__,
)
def test_ends_that_are_no_numbers_are_no_bounds(end: Any) -> None:
    with pytest.raises(PlanError, match=r"not a pair"):
        given_bounds((end, 300), NAMES, 3)


IDS = pd.Series([f"p{i // 4}" for i in range(40)])


@given(order=st.permutations(range(40)))
def test_ids_whose_index_is_not_that_of_the_records_are_refused(order: list[int]) -> None:
    shuffled = X.iloc[order]
    for records, groups in ((shuffled, IDS), (X, IDS.iloc[order])):
        if order == sorted(order):
            continue
        assert code_of(lambda: person_ids(groups, 40, records)) == "another-order"  # noqa: B023
        assert code_of(lambda: person_ids(groups, 40, records.iloc[::-1])) == "another-order" or (  # noqa: B023
            order == sorted(order, reverse=True)
        )
    assert person_ids(IDS.iloc[order], 40, shuffled) == [IDS[i].encode() for i in order]
    assert person_ids(IDS.iloc[order].to_numpy(), 40, shuffled) == person_ids(
        IDS.iloc[order], 40, shuffled
    )


def test_an_estimator_refuses_ids_of_other_rows_and_says_what_to_pass() -> None:
    model = Lloyd(2, bounds=(0, 300), **PUBLIC, unit="person")
    shuffled = X.sample(frac=1, random_state=3)
    with pytest.raises(DataError, match=r"groups\.loc\[X\.index\].*groups\.to_numpy") as r:
        model.fit(shuffled, groups=IDS)
    assert r.value.code == "another-order"
    right = model.fit(shuffled, groups=IDS.loc[shuffled.index]).noisy_counts_
    assert np.array_equal(
        right, model.fit(shuffled, groups=IDS.loc[shuffled.index].to_numpy()).noisy_counts_
    )


def test_ids_of_records_without_an_index_are_refused_where_they_number_the_rows_otherwise() -> None:
    for records in (X.to_numpy(), pl.DataFrame(X.to_dict("list")), X.to_numpy().tolist()):
        assert code_of(lambda: person_ids(IDS[::-1], 40, records)) == "another-order"  # noqa: B023
        assert person_ids(IDS, 40, records)[:5] == [b"p0"] * 4 + [b"p1"]
        # of some rows, or by name: nothing that a position could be mistaken for
        for labels in (range(40, 80), [f"row {i}" for i in range(40)]):
            assert person_ids(IDS.set_axis(labels), 40, records)[0] == b"p0"


@pytest.mark.parametrize("groups", [set("abcd"), dict.fromkeys("abcd", "p")])
def test_ids_without_an_order_are_refused(groups: Any) -> None:
    with pytest.raises(DataError, match=r"one id.*row"):
        person_ids(groups, 4)


def test_a_domain_takes_no_columns_in_another_order_for_its_features() -> None:
    domain = Domain(features=tuple(NAMES), lower=(0.0,) * 3, upper=(300.0,) * 3)
    for frame in (X, pl.DataFrame(X.to_dict("list")), pa.table(X.to_dict("list"))):
        assert np.array_equal(domain.to_grid(frame), domain.to_grid(X.to_numpy()))
    for frame in (
        X[NAMES[::-1]],
        pl.DataFrame(X.to_dict("list"))[NAMES[::-1]],
        X.rename(columns=str.upper),
    ):
        assert code_of(lambda: domain.to_grid(frame)) == "another-order"  # noqa: B023


def test_a_domain_takes_no_labelled_ends() -> None:
    turned = LIMITS[::-1]
    for ends in (
        {"lower": turned["lower"], "upper": (300.0,) * 3},
        {"lower": (0.0,) * 3, "upper": turned["upper"]},
    ):
        assert code_of(lambda: Domain(features=tuple(NAMES), **ends)) == "ambiguous"  # noqa: B023


def test_a_stream_that_gives_its_records_once_is_read_once() -> None:
    domain = Domain(features=tuple(NAMES), lower=(0.0,) * 3, upper=(300.0,) * 3)
    table = pa.table(X.to_dict("list"))
    model = Lloyd(2, bounds=(0, 300), **PUBLIC).fit(table.to_reader())
    assert np.array_equal(model.predict(table.to_reader()), model.labels_)
    assert np.array_equal(domain.to_grid(table.to_reader()), domain.to_grid(X))
    assert metrics.wcss(table.to_reader(), X[:2]) == metrics.wcss(X, X[:2])
    assert len(table_from_frame(table.to_reader()).values) == 40


def test_columns_in_another_order_at_predict_are_refused_in_every_kind_of_frame() -> None:
    model = Lloyd(2, bounds=(0, 300), **PUBLIC).fit(X)
    arrow = pa.table(X.to_dict("list"))
    for frame in (X, pl.DataFrame(X.to_dict("list")), arrow, arrow.to_batches()[0]):
        assert np.array_equal(model.predict(frame), model.labels_)
        turned = frame.select(NAMES[::-1]) if hasattr(frame, "select") else frame[NAMES[::-1]]
        with pytest.raises(ValueError, match="same order"):
            model.predict(turned)


@pytest.mark.parametrize("name", ["Unnamed: 0", "Unnamed: 0.1", "__index_level_0__", ""])
def test_an_index_that_became_a_column_is_no_feature_unasked(tmp_path: Path, name: str) -> None:
    frame = X.assign(**{name: range(40)})
    frame.to_csv(tmp_path / "x.csv", index=False)
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), tmp_path / "x.parquet")
    doors = {
        "estimator": lambda: Lloyd(2, bounds=(0, 300), **PUBLIC).fit(frame),
        "table": lambda: table_from_frame(frame),
        "CSV": lambda: open_records(tmp_path / "x.csv"),
        "Parquet": lambda: open_records(tmp_path / "x.parquet"),
    }
    for door in doors.values():
        assert code_of(door) == "index"
    for path in (tmp_path / "x.csv", tmp_path / "x.parquet"):
        assert open_records(path, NAMES).columns == tuple(NAMES)


def test_the_index_that_pandas_notes_in_a_file_is_no_feature_unasked(tmp_path: Path) -> None:
    frame = X.set_index(pd.Index(range(0, 400, 10)[::-1], name="patient").to_numpy()[::-1] ** 2)
    frame.index.name = "patient"
    path = tmp_path / "x.parquet"
    frame.to_parquet(path)
    arrow = pa.Table.from_pandas(frame)
    assert arrow.column_names == [*NAMES, "patient"]
    for door in (
        lambda: open_records(path),
        lambda: table_from_frame(arrow),
        lambda: Lloyd(2, bounds=(0, 300), **PUBLIC).fit(arrow),
    ):
        assert code_of(door) == "index"
    assert open_records(path, NUMERIC).columns == tuple(NAMES)
    assert open_records(path, unit="patient").columns == tuple(NAMES)
    assert open_records(path, ["patient"]).columns == ("patient",)
