"""Data frames in and out of the estimators: names of columns, bounds by name, names of outputs, and
arrays of any kind.
"""

import datetime as dt
import itertools
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_iris

from fastlloyd import FastLloyd, FastLloydError, GLloyd, Lloyd, MomentLloyd, SuLloyd
from fastlloyd.errors import DataError, PlanError
from fastlloyd.estimators.validation import validate_records
from fastlloyd.records.declared import MISSING, RAGGED
from refusals import raises_code

pd: Any = pytest.importorskip("pandas")
pl: Any = pytest.importorskip("polars")

X = load_iris().data
NAMES = ["sepal length", "sepal width", "petal length", "petal width"]
LOWER, UPPER = [4, 2, 1, 0], [8, 5, 7, 3]
BY_NAME = {name: (low, high) for name, low, high in zip(NAMES, LOWER, UPPER, strict=True)}
PUBLIC: dict[str, Any] = {"bounds": (LOWER, UPPER), "n_records": 200, "random_state": 0}
FRAMES = {"pandas": pd.DataFrame(X, columns=NAMES), "polars": pl.DataFrame(X, schema=NAMES)}
LIBRARIES = sorted(FRAMES)
ESTIMATORS = [MomentLloyd, FastLloyd, GLloyd, SuLloyd, Lloyd]


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_frame_is_clustered_like_its_array_and_its_names_are_kept(library: str) -> None:
    frame = FRAMES[library]
    model, plain = Lloyd(3, **PUBLIC).fit(frame), Lloyd(3, **PUBLIC).fit(X)
    assert np.array_equal(model.cluster_centers_, plain.cluster_centers_)
    assert model.n_features_in_ == 4
    assert list(model.feature_names_in_) == NAMES
    assert model.mechanism_.domain.features == tuple(NAMES)
    assert np.array_equal(model.predict(frame), plain.predict(X))
    assert not hasattr(plain, "feature_names_in_")
    assert plain.mechanism_.domain.features == ("x0", "x1", "x2", "x3")


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("method", ["predict", "transform", "score"])
def test_columns_that_are_missing_renamed_or_in_another_order_are_refused_by_scikit_learn(
    library: str, method: str
) -> None:
    frame = FRAMES[library]
    use = getattr(FastLloyd(3, **PUBLIC).fit(frame), method)
    with pytest.raises(ValueError, match="the same order"):
        use(frame[NAMES[::-1]])
    with pytest.raises(ValueError, match=r"unseen.*\n- age"):
        use(
            frame.rename(columns={"sepal width": "age"})
            if library == "pandas"
            else frame.rename({"sepal width": "age"})
        )
    with pytest.raises(ValueError, match="missing:\n- petal"):
        use(frame[NAMES[:3]])


def test_predicting_an_array_after_a_frame_warns_that_it_has_no_names() -> None:
    model = FastLloyd(3, **PUBLIC).fit(FRAMES["pandas"])
    with pytest.warns(UserWarning, match="valid feature names"):
        model.predict(X)


def test_an_array_with_another_number_of_columns_is_refused() -> None:
    with pytest.raises(ValueError, match=r"3 features,.*expecting 4"):
        FastLloyd(3, **PUBLIC).fit(X).predict(X[:, :3])


def test_a_second_fit_on_an_array_forgets_the_names_of_the_first() -> None:
    model = FastLloyd(3, **PUBLIC).fit(FRAMES["pandas"]).fit(X)
    assert not hasattr(model, "feature_names_in_")
    assert model.mechanism_.domain.features == ("x0", "x1", "x2", "x3")


@pytest.mark.parametrize("library", LIBRARIES)
def test_bounds_by_name_are_those_of_their_columns_in_any_order(library: str) -> None:
    reordered = dict(reversed(BY_NAME.items()))
    domain = FastLloyd(3, **PUBLIC | {"bounds": reordered}).fit(FRAMES[library]).mechanism_.domain
    assert domain == FastLloyd(3, **PUBLIC).fit(FRAMES[library]).mechanism_.domain


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (
            {"sepal lenght": (0, 1)},
            DataError,
            "'sepal lenght' is unknown (did you mean 'sepal length'?)",
        ),
        (
            {"petal width": None},
            PlanError,
            "bounds of 'petal width' are not a pair (lower, upper) of numbers",
        ),
        ({"petal width": (1, 2, 3)}, PlanError, "bounds of 'petal width' are not a pair"),
        ({"petal width": ([0, 0], [1, 1])}, PlanError, "bounds of 'petal width' are not a pair"),
        ({"petal width": ("low", "high")}, PlanError, "bounds of 'petal width' are not a pair"),
        ({"petal width": (3, 0)}, PlanError, "the bounds of feature 'petal width' are reversed"),
        ({3: (0, 1)}, DataError, "'3' is unknown"),
    ],
)
def test_bounds_by_name_that_do_not_fit_are_refused_with_the_name(
    change: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error) as refused:
        FastLloyd(3, **PUBLIC | {"bounds": BY_NAME | change}).fit(FRAMES["pandas"])
    assert words in str(refused.value)


def test_bounds_by_name_need_every_column_and_a_frame() -> None:
    some = {name: BY_NAME[name] for name in NAMES[1:]}
    with pytest.raises(DataError, match=r"bounds.*missing.*'sepal length'"):
        FastLloyd(3, **PUBLIC | {"bounds": some}).fit(FRAMES["polars"])
    for unnamed in (X, pd.DataFrame(X)):
        with pytest.raises(DataError, match="no column names"):
            FastLloyd(3, **PUBLIC | {"bounds": BY_NAME}).fit(unnamed)


@pytest.mark.parametrize("bounds", [BY_NAME, (0, 8)])
def test_two_columns_of_one_name_are_refused(bounds: Any) -> None:
    frame = FRAMES["pandas"].set_axis([NAMES[0], *NAMES[:3]], axis=1)
    pa = pytest.importorskip("pyarrow")
    for twice in (frame, pa.table([frame.iloc[:, j] for j in range(4)], names=list(frame.columns))):
        with pytest.raises(DataError, match="'sepal length' occurs"):
            FastLloyd(3, **PUBLIC | {"bounds": bounds}).fit(twice)


@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize(
    ("library", "frame_type"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame)]
)
def test_outputs_are_named_after_the_estimator_and_come_as_the_frames_asked_for(
    kind: type[FastLloyd], library: str, frame_type: type
) -> None:
    model = kind(3, **PUBLIC).set_output(transform=library).fit(FRAMES[library])
    names = [f"{kind.__name__.lower()}{j}" for j in range(3)]
    assert list(model.get_feature_names_out()) == names
    distances = model.transform(FRAMES[library])
    assert isinstance(distances, frame_type)
    # both kinds of frames have columns
    assert list(distances.columns) == names  # type: ignore[attr-defined]
    assert np.array_equal(np.asarray(distances).argmin(axis=1), model.predict(FRAMES[library]))
    assert isinstance(model.fit_transform(FRAMES[library]), frame_type)


def test_the_index_of_a_pandas_frame_is_kept() -> None:
    frame = FRAMES["pandas"].set_index(np.arange(150) * 7)
    distances = FastLloyd(3, **PUBLIC).set_output(transform="pandas").fit(frame).transform(frame)
    assert list(distances.index) == list(frame.index)


DTYPES = [
    "float16",
    "float32",
    "float64",
    "longdouble",
    "int8",
    "int64",
    "uint8",
    "object",
    "frame",
]
LAYOUTS = ["C", "F", "strided", "read-only", "memmap"]


@pytest.mark.parametrize(
    ("cast", "order"),
    [
        both for both in itertools.product(DTYPES, LAYOUTS) if both != ("object", "memmap")
    ],  # objects cannot be mapped
)
def test_equal_values_of_any_dtype_and_layout_are_the_same_grid_points(
    cast: str, order: str, tmp_path: Path
) -> None:
    whole = np.round(X)
    typed: Any = whole.astype("float64" if cast == "frame" else cast)
    if order == "memmap":
        mapped = np.memmap(tmp_path / "X", dtype=typed.dtype, mode="w+", shape=typed.shape)
        mapped[:] = typed
        mapped.flush()
        typed = np.memmap(tmp_path / "X", dtype=typed.dtype, mode="r", shape=typed.shape)
    elif order == "strided":
        typed = np.repeat(np.repeat(typed, 2, axis=0), 3, axis=1)[::2, ::3]
    elif order == "read-only":
        typed.flags.writeable = False
    else:
        typed = np.array(typed, order=order)  # type: ignore[call-overload]  # "C" or "F"
    records = pd.DataFrame(typed) if cast == "frame" else typed
    reference, model = Lloyd(3, **PUBLIC).fit(whole), Lloyd(3, **PUBLIC).fit(records)
    assert np.array_equal(model.cluster_centers_, reference.cluster_centers_)
    assert np.array_equal(model.predict(records), reference.labels_)
    assert model.score(records) == reference.score(whole)


def test_truth_values_are_zeros_and_ones() -> None:
    yes = X.mean(axis=0) < X
    model = Lloyd(2, bounds=(0, 1), n_records=200, random_state=0).fit(yes)
    assert np.array_equal(
        model.cluster_centers_,
        Lloyd(2, bounds=(0, 1), n_records=200, random_state=0).fit(yes * 1.0).cluster_centers_,
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
@pytest.mark.parametrize("order", ["C", "F"])
def test_records_in_a_numeric_array_are_checked_in_place(dtype: type, order: Any) -> None:
    records: np.ndarray[Any, Any] = np.array(X, dtype=dtype, order=order)
    assert np.shares_memory(validate_records(FastLloyd(), records, reset=True), records)


@pytest.mark.parametrize(("dtype", "n_constant"), [(np.float32, 7.25), (np.int64, 7)])
@pytest.mark.filterwarnings(
    "ignore:bounds were taken from the data:fastlloyd.errors.PrivacyLeakWarning"
)
def test_bounds_of_the_data_are_the_same_numbers_for_any_dtype(
    dtype: type, n_constant: float
) -> None:
    records = np.column_stack([np.round(X), np.full(len(X), n_constant)])
    domains = [
        FastLloyd(3, n_records=200).fit(records.astype(kind)).mechanism_.domain
        for kind in (dtype, np.float64)
    ]
    assert domains[0] == domains[1]


@pytest.mark.parametrize("form", [sparse.csr_matrix, sparse.csr_array, sparse.coo_array])
def test_sparse_records_are_refused_with_the_way_out(form: Any) -> None:
    model = FastLloyd(3, **PUBLIC).fit(X)
    for use in (FastLloyd(3, **PUBLIC).fit, model.predict, model.transform, model.score):
        with pytest.raises(TypeError, match=r"dense.*'\.toarray"):
            use(form(X))


DATES = pd.to_datetime(["2020-02-29", "2021-01-01"])
NOT_NUMBERS: dict[str, Any] = {
    "text in an array": np.array([["1", "Maria"], ["2", "3"]]),
    "text in a list": [["Maria", 1.0], ["3", 2.0]],
    "text in objects": np.array([[1, "Maria"], [2, 3]], dtype=object),
    "text in pandas": pd.DataFrame({"a": ["Maria", "3"], "b": [1.0, 2.0]}),
    "text in polars": pl.DataFrame({"a": ["Maria", "3"], "b": [1.0, 2.0]}),
    "dates in an array": np.array([["2020-02-29"], ["2021-01-01"]], dtype="datetime64[D]"),
    "dates in pandas": pd.DataFrame({"a": DATES}),
    "dates and numbers in pandas": pd.DataFrame({"a": DATES, "b": [1, 2]}),
    "dates in polars": pl.DataFrame({"a": DATES.to_numpy()}),
    "durations": np.array([[1], [2]], dtype="timedelta64[D]"),
}


@pytest.mark.parametrize("what", NOT_NUMBERS)
@pytest.mark.parametrize("bounds", [None, (0, 1)])
def test_what_is_not_a_number_is_refused_and_not_quoted(what: str, bounds: Any) -> None:
    with pytest.raises(DataError, match="select numeric columns") as refused:
        FastLloyd(1, bounds=bounds, n_records=10).fit(NOT_NUMBERS[what])
    assert not any(
        cell in "".join(traceback.format_exception(refused.value))
        for cell in ("Maria'", "2020-02", "18321")
    )
    assert refused.value.__context__ is None
    assert str(refused.value).startswith(
        "column 'a' of X holds" if hasattr(NOT_NUMBERS[what], "columns") else "X holds"
    )


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_column_of_text_is_refused_by_its_name_wherever_it_stands(library: str) -> None:
    text = ["Maria"] * 150
    frame = (
        FRAMES[library].assign(ward=text)
        if library == "pandas"
        else FRAMES[library].with_columns(ward=pl.Series(text))
    )
    with raises_code(DataError, "text", "ward"):
        FastLloyd(3, bounds=(0, 8), n_records=200).fit(frame)


@pytest.mark.parametrize(
    ("odd", "code"),
    [
        (dt.date(1918, 3, 21), "dates"),
        (pd.NaT, "dates"),
        ({"Maria": 1}, "groups"),
        ([1.0, 2.0], "groups"),
        (object(), "objects"),
        (1918j, "complex"),
        (b"Maria", "bytes"),
    ],
    ids=lambda odd: type(odd).__name__,
)
def test_odd_things_in_a_cell_are_refused_by_the_column_and_not_quoted(
    odd: object, code: str
) -> None:
    frame = pd.DataFrame({"age": [1.0, 2.0], "ward": pd.Series([1.0, odd], dtype=object)})
    with pytest.raises(DataError, match=r"^column 'ward' of") as refused:
        FastLloyd(1, bounds=(0, 1), n_records=10).fit(frame)
    array = np.empty((2, 1), dtype=object)
    array[1, 0] = odd
    array[0, 0] = 1.0
    with pytest.raises(DataError, match=r"X holds ") as of_array:
        FastLloyd(1, bounds=(0, 1), n_records=10).fit(array)
    for error in (refused.value, of_array.value):
        assert error.code == code
        assert error.__context__ is None
        assert not any(cell in str(error) for cell in ("Maria", "1918", "000"))


@pytest.mark.parametrize(
    ("odd", "code"), [(pd.NA, "missing"), (None, "missing"), (10**400, "infinite")]
)
def test_an_object_that_is_no_finite_number_is_a_missing_or_an_infinite_cell(
    odd: object, code: str
) -> None:
    with pytest.raises(DataError) as refused:
        FastLloyd(1, bounds=(0, 1), n_records=10).fit(
            pd.DataFrame({"ward": pd.Series([1.0, odd], dtype=object)})
        )
    assert refused.value.code == code


def test_dates_and_durations_are_refused_by_the_column_and_not_taken_for_numbers() -> None:
    pa = pytest.importorskip("pyarrow")
    days = [dt.date(1918, 3, 21), dt.date(1918, 3, 22)]
    for frame in (
        pl.DataFrame({"age": [1.0, 2.0], "born": days}),
        pl.DataFrame({"born": days}),
        pl.DataFrame({"born": [dt.timedelta(1), dt.timedelta(2)]}),
        pa.table({"age": [1.0, 2.0], "born": days}),
        pd.DataFrame({"born": pd.to_datetime(days)}),
        pd.DataFrame({"born": pd.to_timedelta([1, 2], unit="D")}),
    ):
        with pytest.raises(DataError, match=r"^column 'born'.*dates") as refused:
            FastLloyd(1, bounds=(0, 1), n_records=10).fit(frame)
        assert "1918" not in str(refused.value)


def test_a_column_of_text_in_a_table_of_arrow_is_refused_by_its_name() -> None:
    pa = pytest.importorskip("pyarrow")
    with raises_code(DataError, "text", "ward"):
        FastLloyd(1, bounds=(0, 1), n_records=10).fit(
            pa.table({"age": [1.0, 2.0], "ward": ["Maria", "Maria"]})
        )


def test_masked_and_missing_entries_and_ragged_rows_are_refused() -> None:
    masked = np.ma.masked_less(X, 0.2)
    with raises_code(DataError, MISSING):
        FastLloyd(3, **PUBLIC).fit(masked)
    for missing in (
        pd.DataFrame({"a": pd.array([1, None], dtype="Int64")}),
        pl.DataFrame({"a": [1.0, None]}),
    ):
        with pytest.raises(ValueError, match="contains NaN"):
            FastLloyd(1, bounds=(0, 1), n_records=10).fit(missing)
    with raises_code(DataError, RAGGED):
        FastLloyd(1, bounds=(0, 1), n_records=10).fit([[1.0, 2.0], [3.0]])


def test_column_names_that_could_deceive_a_reader_are_refused() -> None:
    frame = pd.DataFrame({"age\x1b[2K": [1.0, 2.0]})
    with pytest.raises(FastLloydError, match=r"feature name.*not usable"):
        FastLloyd(1, bounds=(0, 1), n_records=10).fit(frame)


def test_a_lazy_frame_is_refused_with_what_to_do_and_is_not_run() -> None:
    frame = pl.DataFrame({"a": np.linspace(0, 1, 200), "b": np.linspace(1, 0, 200)})
    lazy = frame.lazy().map_batches(lambda _: pytest.fail("it was collected"), schema=frame.schema)
    model = MomentLloyd(2, epsilon=10, bounds=(0, 1), n_records=300)
    fitted = MomentLloyd(2, epsilon=10, bounds=(0, 1), n_records=300).fit(frame)
    for call in (model.fit, fitted.predict, fitted.transform, fitted.score):
        with pytest.raises(DataError, match=r"LazyFrame.*X\.collect\(\)"):
            call(lazy)
