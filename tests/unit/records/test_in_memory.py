"""Tables in memory: what an object of the caller's raises when it is asked for cells, in words that
may hold them, reaches nobody; and what NumPy would drop or convert in silence is seen.
"""

import traceback
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from fastlloyd import Lloyd
from fastlloyd.clustering.domain import Domain
from fastlloyd.errors import CellTypeError, DataError, FastLloydError
from fastlloyd.evaluation import metrics
from fastlloyd.records import table_from_frame
from fastlloyd.records.declared import Holds, content
from fastlloyd.records.in_memory import matrix
from record_files import SECRET

pd: Any = pytest.importorskip("pandas")
pl: Any = pytest.importorskip("polars")

pytestmark = pytest.mark.filterwarnings("ignore:X (has|does not have)")
PUBLIC: dict[str, Any] = {"bounds": (0, 1), "n_records": 10, "random_state": 0}
FITTED = Lloyd(1, **PUBLIC).fit([[0.0], [1.0]])
DOMAIN = Domain(features=("a",), lower=(0.0,), upper=(1.0,))


def tells(*_: Any, **__: Any) -> Any:
    raise RuntimeError(SECRET)


def telling(*methods: str, base: type = object) -> Any:
    """An object whose methods raise an error in words that hold a private value."""
    kind: Any = type("Telling", (base,), dict.fromkeys(methods, tells))
    return kind.__new__(kind)


WHOLE = {
    "array": telling("__array__"),
    "sequence": telling("__len__", "__getitem__"),
    "interface": telling("__array__", "__len__", "__iter__", "__repr__", "__str__"),
    "frame": type(
        "Frame",
        (),
        {"columns": property(tells), "iloc": property(tells), "dtypes": property(tells)},
    )(),
    "columns": type(
        "Frame", (), {"columns": ["a"], "iloc": property(tells), "dtypes": [np.dtype(float)]}
    )(),
    "stream": telling("__arrow_c_stream__", "__array__"),
    "attributes": telling("__getattr__", "__array__"),
    "list": telling("__len__", "__iter__", "__getitem__", base=list),
    "array in a list": [[0.5], telling("__array__", "__len__", "__getitem__")],
}
CELLS = {
    "float": telling("__float__", "__index__", "__int__", "__repr__"),
    "a kind of float": telling("__float__", "__repr__", base=float),
    "a kind of integer": telling("__float__", "__index__", "__int__", "__repr__", base=int),
    "a kind of fraction": telling("__float__", "__repr__", "__gt__", base=Fraction),
}
DOORS: dict[str, Callable[[Any], Any]] = {
    "fit": lambda X: Lloyd(1, **PUBLIC).fit(X),
    "fit without bounds": lambda X: Lloyd(1).fit(X),
    "predict": FITTED.predict,
    "transform": FITTED.transform,
    "score": FITTED.score,
    "plot": FITTED.plot,
    "to_grid": DOMAIN.to_grid,
    "metrics": lambda X: metrics.wcss(X, [[0.5]]),
    "table_from_frame": table_from_frame,
    "groups": lambda groups: Lloyd(1, **PUBLIC).fit([[0.0], [1.0]], groups=groups),
}


def refused(call: Callable[[], Any]) -> FastLloydError:
    with pytest.raises(FastLloydError) as found:
        call()
    assert SECRET not in "".join(traceback.format_exception(found.value))
    # value_range says so before what bounds would say
    assert isinstance(found.value.__context__, FastLloydError | None)
    return found.value


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", WHOLE)
def test_what_an_object_raises_when_it_is_asked_for_cells_is_not_passed_on(
    kind: str, door: str
) -> None:
    refused(lambda: DOORS[door](WHOLE[kind]))


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("holder", ["list", "array", "pandas", "polars"])
def test_what_an_object_in_a_cell_raises_is_not_passed_on(
    kind: str, door: str, holder: str
) -> None:
    cells = [0.5, CELLS[kind]]
    if door == "groups":
        refused(lambda: DOORS[door](cells))
        return
    array = np.empty((2, 1), dtype=object)
    array[:, 0] = cells
    X: Any = array
    if holder == "list":
        X = [[cell] for cell in cells]
    elif holder == "pandas":
        X = pd.DataFrame({"a": pd.Series(cells, dtype=object)})
    elif holder == "polars":
        X = pl.DataFrame({"a": pl.Series(cells, dtype=pl.Object)})
    refused(lambda: DOORS[door](X))


@pytest.mark.parametrize(
    "bounds",
    [
        telling("__iter__"),
        telling("__array__", "__len__", "__iter__"),
        (telling("__float__", "__array__"), 1),
        (0, CELLS["a kind of float"]),
        type("Labelled", (), {"index": property(tells)})(),
        {"a": telling("__iter__")},
    ],
)
def test_what_bounds_raise_is_not_passed_on(bounds: Any) -> None:
    X = pd.DataFrame({"a": [0.0, 1.0]})
    for settings in ({"bounds": bounds}, {"bounds": "private", "value_range": bounds}):
        error = refused(lambda: Lloyd(1, **PUBLIC | settings).fit(X))  # noqa: B023
        assert "bounds" in str(error)


@pytest.mark.parametrize(
    "setting",
    ["n_clusters", "epsilon", "n_records", "n_expected", "random_state", "scaling", "unit",
     "neighboring_relation", "estimate_loss", "delta", "fraction_bits", "loss_share"],
)  # fmt: skip
def test_a_setting_that_is_a_table_is_not_shown(setting: str) -> None:
    """Records in place of the number of clusters are a common slip."""
    X = pd.DataFrame({"a": [SECRET, "b"]})
    for value in (X, [SECRET], {SECRET: 1}, np.array([[SECRET]]), telling("__repr__", "__str__")):
        error = refused(
            lambda: Lloyd(**{"n_clusters": 1} | PUBLIC | {setting: value}).fit([[0.0], [1.0]])  # noqa: B023
        )
        assert setting in str(error)


def test_masks_are_seen_wherever_they_are() -> None:
    hidden = np.ma.array([[0.5, 9.0]], mask=[[False, True]])
    for X in (hidden, [hidden[0], [0.5, 0.5]], ([0.5, 0.5], hidden[0])):
        assert refused(lambda: matrix(X)).code == "missing"  # noqa: B023
    assert matrix(np.ma.array([[0.5]])).tolist() == [[0.5]]


def test_objects_in_an_array_are_a_type_error_too() -> None:
    with pytest.raises(TypeError) as found:
        Lloyd(1, **PUBLIC).fit(np.array([[0.5], [object()]], dtype=object))
    assert isinstance(found.value, CellTypeError)
    assert isinstance(found.value, DataError)


def test_the_remedy_of_text_of_digits_is_said_and_works() -> None:
    frame = pd.DataFrame({"a": ["0.25", "1"]})
    error = refused(lambda: matrix(frame))
    assert (error.code, error.field) == ("text", "a")
    assert "astype(float)" in str(error)
    assert matrix(frame.astype(float)).tolist() == [[0.25], [1.0]]


@pytest.mark.parametrize(
    ("declared", "holds"),
    [
        (pd.Int64Dtype(), Holds.NUMBERS),
        (pd.SparseDtype(float), Holds.NUMBERS),
        (np.dtype(">f4"), Holds.NUMBERS),
        (np.dtype(np.longdouble), Holds.NUMBERS),
        (pl.Int128(), Holds.NUMBERS),
        (pd.IntervalDtype("int64"), Holds.OTHER),
        (pd.PeriodDtype("D"), Holds.DATES),
        (pd.DatetimeTZDtype(tz="UTC"), Holds.DATES),
        (np.dtypes.StringDType(), Holds.TEXT),
        (np.dtype([("a", float)]), Holds.GROUPS),
        (np.dtype("S3"), Holds.BYTES),
        (pl.Enum([SECRET]), Holds.CATEGORIES),
        (pl.Struct({"a": pl.Int8}), Holds.GROUPS),
        (pl.Array(pl.Int8, 2), Holds.GROUPS),
    ],
    ids=str,
)
def test_declared_types_that_few_tables_have(declared: Any, holds: Holds) -> None:
    found = content(declared)
    assert found.holds is holds
    assert SECRET not in found.words
