"""The declared type of a column decides what it holds, and does so alike at every door: the same
table is the same points of the grid, or has the same fault, in pandas, Polars, Arrow, NumPy, Dask
and files.
"""

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastlloyd import Lloyd
from fastlloyd.errors import DataError
from fastlloyd.estimators.validation import validate_records
from fastlloyd.mechanisms.engines.collections import FramePart
from fastlloyd.records import open_records, table_from_frame
from record_files import pa, pq

pd: Any = pytest.importorskip("pandas")
pl: Any = pytest.importorskip("polars")

Cells = list[Any]


class Kind(NamedTuple):
    """A type of columns. cells : of Python; pandas : dtypes that may declare it there, of which
    `nullable` ones can lack a cell; python : whether an array of objects tells it, too.
    """

    cells: st.SearchStrategy[Any]
    arrow: Any
    polars: Any
    pandas: tuple[Any, ...]
    nullable: tuple[Any, ...] = ()
    python: bool = True


def on_arrow(kind: Any) -> Any:
    return pd.ArrowDtype(kind)


DECIMALS = pa.decimal128(38, 9)
DIGITS = st.sampled_from(["01067", "1_0", "2.5", "\u0663", "1e3"])
DAY = dt.date(2020, 2, 29)
KINDS = {
    "bool": Kind(st.booleans(), pa.bool_(), pl.Boolean, ("bool",), ("boolean", object, on_arrow(pa.bool_()))),
    "int8": Kind(st.integers(-128, 127), pa.int8(), pl.Int8, ("int8",), ("Int8", object, on_arrow(pa.int8()))),
    "int64": Kind(st.integers(-(2**63), 2**63 - 1), pa.int64(), pl.Int64, ("int64",), ("Int64", object, on_arrow(pa.int64()))),
    "uint64": Kind(st.integers(0, 2**64 - 1), pa.uint64(), pl.UInt64, ("uint64",), ("UInt64", object, on_arrow(pa.uint64()))),
    "float32": Kind(st.floats(-1e9, 1e9, width=32), pa.float32(), pl.Float32, ("float32",), ("Float32", on_arrow(pa.float32()))),
    "float64": Kind(st.floats(-1e9, 1e9), pa.float64(), pl.Float64, ("float64", "Sparse[float64]"), ("Float64", object, on_arrow(pa.float64()))),
    "decimal": Kind(st.decimals(-(10**9), 10**9, places=9), DECIMALS, pl.Decimal(38, 9), (), (object, on_arrow(DECIMALS))),
    "text": Kind(DIGITS, pa.string(), pl.String, (), (object, "string", "str", on_arrow(pa.string()))),
    "bytes": Kind(st.binary(max_size=3), pa.binary(), pl.Binary, (), (object, on_arrow(pa.binary()))),
    "categories": Kind(DIGITS, pa.dictionary(pa.int32(), pa.string()), pl.Categorical, ("category",), python=False),
    "date": Kind(st.just(DAY), pa.date32(), pl.Date, ("datetime64[ns]",), (object, on_arrow(pa.date32()))),
    "duration": Kind(st.just(dt.timedelta(3)), pa.duration("us"), pl.Duration, ("timedelta64[ns]",), (object,)),
    "list": Kind(st.just([1.0, 2.0]), pa.list_(pa.float64()), pl.List(pl.Float64), (), (object, on_arrow(pa.list_(pa.float64())))),
    "nothing": Kind(st.none(), pa.null(), pl.Null, (object,)),
}  # fmt: skip


class Declared(NamedTuple):
    """A column: its name, its kind, the dtype in pandas, and its cells."""

    kind: str
    in_pandas: Any
    cells: Cells


@st.composite
def tables(draw: st.DrawFn) -> dict[str, Declared]:
    n = draw(st.integers(2, 5))
    found = {}
    for j in range(draw(st.integers(1, 4))):
        numbers = ("bool", "int8", "int64", "uint64", "float32", "float64", "decimal")
        name = draw(st.sampled_from(numbers) | st.sampled_from(sorted(KINDS)))
        kind = KINDS[name]
        cells = draw(st.lists(kind.cells, min_size=n, max_size=n))
        dtypes = kind.pandas + kind.nullable
        if kind.nullable and draw(st.integers(0, 4)) == 0:
            cells[draw(st.integers(1, n - 1))] = None
            dtypes = kind.nullable
        found[f"x{j + 1}"] = Declared(name, draw(st.sampled_from(dtypes)), cells)
    return found


def in_pandas(table: dict[str, Declared]) -> Any:
    def column(each: Declared) -> Any:
        if isinstance(each.in_pandas, pd.ArrowDtype):
            cells = pa.array(each.cells, each.in_pandas.pyarrow_dtype)
            return pd.Series(pd.array(cells, dtype=each.in_pandas))
        return pd.Series(each.cells, dtype=each.in_pandas)

    return pd.DataFrame({name: column(each) for name, each in table.items()})


def in_polars(table: dict[str, Declared]) -> Any:
    return pl.DataFrame(
        [pl.Series(name, each.cells, KINDS[each.kind].polars) for name, each in table.items()]
    )


def in_arrow(table: dict[str, Declared]) -> Any:
    return pa.table(
        {name: pa.array(each.cells, KINDS[each.kind].arrow) for name, each in table.items()}
    )


def in_numpy(table: dict[str, Declared]) -> Any:
    found = np.empty((len(next(iter(table.values())).cells), len(table)), dtype=object)
    for j, each in enumerate(table.values()):
        for i, cell in enumerate(each.cells):
            found[i, j] = cell
    return found


def estimator(X: Any) -> Any:
    return validate_records(Lloyd(), X, reset=True)


def partition(X: Any) -> Any:
    names = list(X.columns) if hasattr(X, "columns") else [f"x{j + 1}" for j in range(X.shape[1])]
    return FramePart(0, X, names).open().table().values


def outcome(door: Callable[[], Any]) -> tuple[str | None, str | None, bytes]:
    """The code and the column of a fault, or the numbers."""
    try:
        return None, None, np.ascontiguousarray(door(), dtype=np.float64).tobytes()
    except DataError as error:
        refused = error
    assert refused.code is not None
    assert refused.__context__ is None
    assert "\n" not in str(refused)
    assert not any(cell in str(refused) for cell in ("01067", "1_0", "2020", "\u0663"))
    return refused.code, refused.field, b""


@settings(max_examples=150)
@given(table=tables())
def test_the_same_table_is_the_same_numbers_or_has_the_same_fault_at_every_door(
    tmp_path_factory: pytest.TempPathFactory, table: dict[str, Declared]
) -> None:
    panda, polar, arrow = in_pandas(table), in_polars(table), in_arrow(table)
    path: Path = tmp_path_factory.getbasetemp() / "table.parquet"
    pq.write_table(arrow, path)
    doors = {
        "estimator, pandas": lambda: estimator(panda),
        "estimator, Polars": lambda: estimator(polar),
        "estimator, Arrow": lambda: estimator(arrow),
        "estimator, a batch of Arrow": lambda: estimator(arrow.to_batches()[0]),
        "table, pandas": lambda: table_from_frame(panda).values,
        "table, Polars": lambda: table_from_frame(polar).values,
        "table, Arrow": lambda: table_from_frame(arrow).values,
        "Parquet": lambda: open_records(path).table().values,
        "partition, pandas": lambda: partition(panda),
    }
    found = {name: outcome(door) for name, door in doors.items()}
    code, column, numbers = found["table, Arrow"]
    for name, (other_code, other_column, other_numbers) in found.items():
        assert (other_code, other_numbers) == (code, numbers), name
        assert other_column in (column, None), name
        assert name.startswith("estimator") or other_column == column, name
    kinds = [KINDS[each.kind] for each in table.values()]
    if all(kind.python for kind in kinds) and len(kinds) == 1:  # of no column an array tells
        for door in (estimator, partition):
            assert outcome(lambda door=door: door(in_numpy(table)))[::2] == (code, numbers)  # type: ignore[misc]  # bound now


@given(
    cells=st.lists(
        st.integers(-(2**70), 2**70)
        | st.decimals(allow_nan=False, allow_infinity=False, places=12)
        | st.floats(-1e300, 1e300)
        | st.fractions()
        | st.booleans(),
        min_size=1,
        max_size=5,
    )
)
def test_objects_that_are_numbers_become_the_nearest_float64(cells: Cells) -> None:
    frame = pd.DataFrame({"a": pd.Series(cells, dtype=object)})
    expected = [float(cell) for cell in cells]
    assert estimator(frame)[:, 0].tolist() == expected
    assert table_from_frame(frame).values[:, 0].tolist() == expected
    assert estimator([[cell] for cell in cells])[:, 0].tolist() == expected


@given(cells=st.lists(st.integers(-(2**127), 2**127 - 1), min_size=1))
def test_integers_of_128_bits_become_the_nearest_float64(cells: list[int]) -> None:
    frame = pl.DataFrame({"a": pl.Series(cells, dtype=pl.Int128)})
    for found in (estimator(frame), table_from_frame(frame).values):
        assert found[:, 0].tolist() == list(map(float, cells))


@given(
    cells=st.lists(
        st.integers(-(10**38) + 1, 10**38 - 1).map(lambda n: Decimal(f"{n}e-19")), min_size=1
    )
)
def test_long_decimals_become_the_float64_of_their_digits(cells: list[Decimal]) -> None:
    """Not a quotient of two roundings."""
    expected = [float(str(cell)) for cell in cells]
    kind = pa.decimal128(38, 19)
    for frame in (
        pl.DataFrame({"a": pl.Series(cells, dtype=pl.Decimal(38, 19))}),
        pa.table({"a": pa.array(cells, kind)}),
        pd.DataFrame({"a": pd.Series(pd.array(pa.array(cells, kind), dtype=pd.ArrowDtype(kind)))}),
        pd.DataFrame({"a": pd.Series(cells, dtype=object)}),
    ):
        assert estimator(frame)[:, 0].tolist() == expected
        assert table_from_frame(frame).values[:, 0].tolist() == expected
