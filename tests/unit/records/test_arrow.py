"""Columns of Arrow: exact where float64 is, rounded to the nearest where it is not, and refused
where they are no numbers.
"""

import datetime as dt
import itertools
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from fastlloyd.records import Missing, arrow_numbers, open_records, read_table
from record_files import SECRET, pa, pq, refusal


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("records")


def parquet(folder: Path, **columns: Any) -> Path:
    path = folder / "columns.parquet"
    pq.write_table(pa.table(columns), path)
    return path


INTEGERS = {
    f"{sign}int{bits}": (bits, sign) for bits, sign in itertools.product((8, 16, 32, 64), ("", "u"))
}


@pytest.mark.parametrize("kind", INTEGERS)
@given(data=st.data())
def test_integers_become_the_nearest_float64_with_and_without_nulls(
    kind: str, data: st.DataObject
) -> None:
    bits, sign = INTEGERS[kind]
    least, most = (0, 2**bits - 1) if sign else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    cells = data.draw(
        st.lists(st.one_of(st.none(), st.integers(least, most)), min_size=1, max_size=9)
    )
    start = data.draw(st.integers(0, len(cells) - 1))
    read = arrow_numbers.numbers(pa.array(cells, type=getattr(pa, kind)()).slice(start)).astype(
        np.float64
    )
    expected = [np.nan if cell is None else float(cell) for cell in cells[start:]]
    assert np.array_equal(read, expected, equal_nan=True)


@given(
    cells=st.lists(
        st.one_of(st.none(), st.integers(-(10**38) + 1, 10**38 - 1), st.integers(-(2**54), 2**54)),
        min_size=1,
    ),
    scale=st.integers(-5, 38),
    data=st.data(),
)
@example(cells=[2**53 - 1, -(2**53), 2**53 + 1, None], scale=22, data=None)
def test_decimals_become_the_nearest_float64(
    cells: list[int | None], scale: int, data: st.DataObject | None
) -> None:
    """The nearest is reached on another way: Python divides integers of any size with one
    rounding.
    """
    # Arrow takes no decimal of more than 38 digits before the point
    assume(all(cell is None or len(str(abs(cell))) - min(scale, 0) <= 38 for cell in cells))
    start = data.draw(st.integers(0, len(cells) - 1)) if data else 0
    decimals = [None if cell is None else Decimal(f"{cell}e{-scale}") for cell in cells]
    read = arrow_numbers.numbers(pa.array(decimals, type=pa.decimal128(38, scale)).slice(start))
    exact = [
        None if cell is None else Fraction(cell) / Fraction(10) ** scale for cell in cells[start:]
    ]
    expected = [
        np.nan if number is None else number.numerator / number.denominator for number in exact
    ]
    assert np.array_equal(read, expected, equal_nan=True)


@given(
    st.lists(
        st.one_of(st.none(), st.decimals(allow_nan=False, allow_infinity=False, places=7)),
        min_size=1,
    )
)
def test_decimals_of_the_widest_kind_become_the_nearest_float64(
    cells: list[Decimal | None],
) -> None:
    read = arrow_numbers.numbers(pa.array(cells, type=pa.decimal256(76, 30)))
    assert np.array_equal(
        read, [np.nan if cell is None else float(cell) for cell in cells], equal_nan=True
    )


NARROW: dict[str, tuple[Any, list[Any]]] = {
    "bool": (pa.bool_(), [True, False, None]),
    "int8": (pa.int8(), [-128, 127, None]),
    "uint16": (pa.uint16(), [0, 65535, None]),
    "float16": (pa.float16(), [np.float16(0.1), np.float16(-65504), None]),
    "float32": (pa.float32(), [0.1, -3.4e38, None]),
}
WIDE: dict[str, tuple[Any, list[Any]]] = {
    "int32": (pa.int32(), [2**31 - 1, 0, None]),
    "uint64": (pa.uint64(), [2**64 - 1, 0, None]),
    "float64": (pa.float64(), [0.1, 1e308, None]),
    "decimal": (pa.decimal128(5, 2), [Decimal("123.45"), Decimal("-0.01"), None]),
}


@pytest.mark.parametrize("kind", [*NARROW, *WIDE])
@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_blocks_are_float32_exactly_where_it_holds_every_value_of_the_columns(
    folder: Path, kind: str, suffix: str
) -> None:
    type_, cells = {**NARROW, **WIDE}[kind]
    table = pa.table(
        {"a": pa.array(cells, type=type_), "b": pa.array([1.5, 2.5, 3.5], type=pa.float32())}
    )
    path = folder / f"kinds{suffix}"
    if suffix == ".parquet":
        pq.write_table(table, path)
    else:
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    [block] = open_records(path, missing=Missing.DROP).blocks()
    assert block.dtype == (np.float32 if kind in NARROW else np.float64)
    as_written = np.float32 if kind == "float32" else np.float64
    assert block[:, 0].tolist() == [float(as_written(cell)) for cell in cells[:2]]


NOT_NUMBERS = {
    "text": pa.array([SECRET, "b"]),
    "large text": pa.array([SECRET, "b"], type=pa.large_string()),
    "digits": pa.array(["1", "2"]),
    "categories": pa.array([SECRET, "b"]).dictionary_encode(),
    "a date": pa.array([dt.date(2020, 1, 5)] * 2),
    "an instant": pa.array([dt.datetime(2020, 1, 5, tzinfo=dt.UTC)] * 2),
    "a time": pa.array([dt.time(3, 4)] * 2),
    "a duration": pa.array([dt.timedelta(3)] * 2),
    "lists": pa.array([[1.0], [2.0]]),
    "groups": pa.array([{"x": 1.0}, {"x": 2.0}]),
    "bytes": pa.array([SECRET.encode(), b"b"]),
    "nothing": pa.nulls(2),
}


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
@pytest.mark.parametrize("kind", NOT_NUMBERS)
def test_a_chosen_column_that_is_no_number_is_refused_at_the_door_with_those_that_are(
    folder: Path, kind: str, suffix: str
) -> None:
    table = pa.table({"age": [1.0, 2.0], "odd": NOT_NUMBERS[kind], "n": [1, 2]})
    path = folder / f"odd{suffix}"
    if suffix == ".parquet":
        pq.write_table(table, path)
    else:
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    there = "the numeric columns are 'age', 'n'"
    for columns, ending in (
        (None, f"; choose other columns with --columns ({there})"),
        (["age", "odd"], f"; {there}"),
    ):
        # bound now
        sentence = refusal(lambda columns=columns: open_records(path, columns))  # type: ignore[misc]
        assert sentence.startswith(f"{path}: column 'odd' holds ")
        assert sentence.endswith(ending)
        assert ("--columns" in sentence) == (columns is None)
    assert read_table(path, ["n", "age"]).values.tolist() == [[1, 1], [2, 2]]
    assert read_table(path, ["n"]).others == ("age", "odd")


def test_a_file_without_numeric_columns_says_so(folder: Path) -> None:
    assert refusal(lambda: open_records(parquet(folder, a=["x"]))).endswith(
        "(no column is numeric)"
    )


def test_repeated_names_no_columns_and_the_index_of_pandas_are_refused(folder: Path) -> None:
    path = folder / "names.parquet"
    pq.write_table(pa.Table.from_arrays([pa.array([1.0])] * 2, names=["a", "a"]), path)
    assert "'a' occurs 2 times" in refusal(lambda: open_records(path))
    pq.write_table(pa.table({}), path)
    assert "there are no columns" in refusal(lambda: open_records(path))
    pq.write_table(pa.table({"a": [1.0], "__index_level_0__": [7]}), path)
    assert "column 2 has no name" in refusal(lambda: open_records(path))
    assert read_table(path, ["a"]).values.tolist() == [[1]]
    pq.write_table(pa.table({"": [1.0], "b": [2.0]}), path)
    assert "column 1 has no name" in refusal(lambda: open_records(path))


def test_a_group_of_the_same_beginning_does_not_stand_in_for_a_column_with_a_dot(
    folder: Path,
) -> None:
    path = parquet(folder, a=pa.array([{"b": 1.0}, {"b": 2.0}]), **{"a.b": pa.array([3.0, 4.0])})
    assert read_table(path, ["a.b"]).values.tolist() == [[3], [4]]


def test_the_first_version_of_feather_is_refused_by_name(folder: Path) -> None:
    path = folder / "old.feather"
    path.write_bytes(b"FEA1" + bytes(100))
    assert "version 1 of the Feather format" in refusal(lambda: open_records(path))


def test_values_under_a_null_are_never_seen(folder: Path) -> None:
    """Whatever bytes stand in the place of a null, here an infinity and a long decimal, it is a
    missing cell.
    """
    valid = pa.py_buffer(b"\x01")
    infinite = pa.Array.from_buffers(
        pa.float64(), 2, [valid, pa.py_buffer(np.array([1.0, np.inf]).tobytes())]
    )
    long = pa.Array.from_buffers(
        pa.decimal128(38, 2), 2, [valid, pa.py_buffer(np.array([150, 0, -1, 5]).tobytes())]
    )
    assert np.array_equal(arrow_numbers.numbers(infinite), [1.0, np.nan], equal_nan=True)
    assert np.array_equal(arrow_numbers.numbers(long), [1.5, np.nan], equal_nan=True)
    with pa.ipc.new_file(
        folder / "null.arrow", pa.schema([("a", pa.float64()), ("b", pa.decimal128(38, 2))])
    ) as writer:
        writer.write_table(pa.table({"a": infinite, "b": long}))
    table = read_table(folder / "null.arrow", missing=Missing.DROP)
    assert (table.values.tolist(), table.dropped) == ([[1, 1.5]], 1)
