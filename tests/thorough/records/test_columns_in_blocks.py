"""Blocks of columns: the same records as a table, whoever reads them."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fastlloyd.base.arrays import RealArray
from fastlloyd.base.compiling import is_compiled
from fastlloyd.clustering.domain import Domain, Scaling
from fastlloyd.clustering.grid_records import GridRecords, Outside
from fastlloyd.clustering.outside import OutsideMarks
from fastlloyd.errors import DataError
from fastlloyd.records import Missing, arrow_numbers, open_records, read_table
from fastlloyd.records.reader import BLOCK_CELLS
from fastlloyd.records.table import ColumnBlock
from record_files import pa, pq

DOMAIN = Domain(features=("a", "b"), lower=(-1.0, -1.5), upper=(1.0, 1.0))
N = BLOCK_CELLS // 2  # per row group, in two columns: long enough to be given as it is


def written(path: Path, *groups: list[RealArray]) -> Path:
    schema = pa.schema([("a", pa.float32()), ("b", pa.float64())])
    with pq.ParquetWriter(path, schema) as writer:
        for a, b in groups:
            writer.write_table(
                pa.table([pa.array(a, pa.float32()), pa.array(b, pa.float64())], schema=schema)
            )
    return path


def numbers(n: int, seed: int = 0) -> list[RealArray]:
    return list(np.random.default_rng(seed).uniform(-2, 2, (2, n)))


def test_long_batches_of_floats_are_given_as_they_are_and_hold_the_same_records(
    tmp_path: Path,
) -> None:
    file = open_records(written(tmp_path / "x.parquet", numbers(N), numbers(100, 1), numbers(N, 2)))
    blocks = list(file.column_blocks())
    assert [type(block) for block in blocks].count(ColumnBlock) >= 2
    assert np.array_equal(
        np.concatenate([np.asarray(block) for block in blocks]), np.concatenate(list(file.blocks()))
    )
    assert sum(map(len, blocks)) == 2 * N + 100
    for block in blocks:
        table = np.array(block)
        assert np.array_equal(DOMAIN.to_grid(block), DOMAIN.to_grid(table))
        found, expected = (
            DOMAIN.to_grid_and_outside(records)[1].records for records in (block, table)
        )
        assert (
            found.tolist()
            == expected.tolist()
            == ((table < DOMAIN.lower) | (table > DOMAIN.upper)).any(axis=1).tolist()
        )


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_in_a_long_batch_is_found_and_where(
    tmp_path: Path, wrong: float
) -> None:
    columns = numbers(N)
    columns[1][70_000] = wrong
    file = open_records(written(tmp_path / "x.parquet", columns))
    with pytest.raises(DataError, match=r"record 70001,.*'b'"):
        list(file.column_blocks())


def test_a_null_in_a_long_batch_can_be_dropped(tmp_path: Path) -> None:
    a, b = numbers(N)
    path = tmp_path / "x.parquet"
    cells = pa.array(b, mask=np.arange(N) == 5)
    pq.write_table(pa.table({"a": pa.array(a, pa.float32()), "b": cells}), path)
    file = open_records(path, missing=Missing.DROP)
    assert sum(map(len, file.column_blocks())) == N - 1
    with pytest.raises(DataError, match=r"record 6,.*'b'"):
        list(open_records(path).column_blocks())


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_a_pass_that_looks_at_every_cell_anyway_refuses_the_same(
    tmp_path: Path, wrong: float, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "fastlloyd.clustering.domain.is_compiled", lambda _: compiled and is_compiled(1 << 40)
    )
    columns = numbers(N)
    columns[0][0], columns[1][70_000] = (
        9.0,
        wrong,
    )  # the first one lies outside the bounds, and is clipped
    file = open_records(written(tmp_path / "x.parquet", numbers(N, 1), columns))
    with pytest.raises(DataError, match=f"record {N + 70001},.*'b'"):
        list(GridRecords(file, DOMAIN, Outside.CLIP, source="x"))


@pytest.mark.parametrize("missing", Missing)
def test_passes_give_the_grid_points_of_the_records_that_are_kept(
    tmp_path: Path, missing: Missing
) -> None:
    columns = numbers(N)
    if missing is Missing.DROP:
        columns[1][70_000] = np.nan
    path = written(tmp_path / "x.parquet", numbers(N, 1), columns, numbers(50, 3))
    table = np.concatenate(list(open_records(path, missing=missing).blocks()))
    file = open_records(path, missing=missing)
    X = GridRecords(file, DOMAIN, Outside.CLIP, source="x", kept_cells=0)
    for _ in range(2):
        assert np.array_equal(np.concatenate(list(X)), DOMAIN.to_grid(table))
    assert X.n_outside == DOMAIN.to_grid_and_outside(table)[1].records.sum() > 0
    assert file.dropped == (missing is Missing.DROP)


@given(
    columns=st.integers(1, 6).flatmap(
        lambda d: st.tuples(
            arrays(
                np.float64,
                (d, 30),
                elements=st.floats(-1e3, 1e3) | st.sampled_from([np.nan, np.inf, -0.0, 1.0, -1.0]),
            ),
            st.lists(st.sampled_from([np.float32, np.float64]), min_size=d, max_size=d),
        )
    ),
    common=st.booleans(),
)
def test_compiled_code_makes_the_same_points_of_columns_and_says_what_it_met(
    columns: tuple[RealArray, list[type[np.floating[Any]]]], common: bool
) -> None:
    pytest.importorskip("numba")
    assert is_compiled(1 << 40)
    values, dtypes = columns
    d = len(values)
    lower, upper = -np.linspace(1.0, 300.0, d), np.linspace(1.0, 200.0, d)
    domain = Domain(
        features=tuple(f"x{j}" for j in range(d)),
        lower=tuple(lower.tolist()),
        upper=tuple(upper.tolist()),
        scaling=Scaling.COMMON if common else Scaling.PER_FEATURE,
    )
    block = ColumnBlock(
        [column.astype(dtype) for column, dtype in zip(values, dtypes, strict=True)]
    )
    table = np.asarray(block, dtype=np.float64)
    marks = OutsideMarks.none(*block.shape)
    found = domain._columns_to_grid(block, marks)
    if not np.isfinite(table).all():
        assert found is None
        return
    assert found is not None
    expected, marked = np.empty_like(found), OutsideMarks.none(*block.shape)
    domain._plain_grid(table, domain._frame(), expected, marked)
    assert np.array_equal(found, expected)
    outside = (table < lower) | (table > upper)
    assert np.array_equal(marks.records, outside.any(axis=1))
    assert np.array_equal(marks.records, marked.records)
    assert np.array_equal(marks.counts, outside.sum(axis=0))
    assert np.array_equal(marks.counts, marked.counts)
    domain.check_grid(found)


def test_columns_that_lie_otherwise_in_memory_are_no_matter_for_compiled_code() -> None:
    pytest.importorskip("numba")
    assert is_compiled(1 << 40)
    shifted = np.frombuffer(bytes(1) + np.linspace(-1, 1, 40).tobytes(), np.float64, 40, 1)
    for odd in (shifted, np.linspace(-1, 1, 80)[::2], np.linspace(-1, 1, 40).astype(">f8")):
        block = ColumnBlock([np.zeros(40), odd])
        assert not block.is_plain
        assert DOMAIN._columns_to_grid(block, OutsideMarks.none(40, 2)) is None
        assert np.array_equal(
            DOMAIN.to_grid(block),
            DOMAIN.to_grid(np.array([np.zeros(40), odd.astype(np.float64)]).T),
        )


def test_a_record_outside_is_named_by_its_place_in_the_file_though_others_were_dropped(
    tmp_path: Path,
) -> None:
    gaps, beyond = [np.zeros((2, N)) for _ in range(2)]
    gaps[0][:7] = np.nan
    beyond[1][70_000] = 9.0
    file = open_records(
        written(tmp_path / "x.parquet", list(gaps), list(beyond)), missing=Missing.DROP
    )
    with pytest.raises(DataError, match=f"record {N + 70001},.*'b'"):
        list(GridRecords(file, DOMAIN, Outside.REFUSE, source="x"))


@pytest.mark.parametrize("high", [0.1, float(np.float32(0.1))])
def test_a_float32_is_compared_with_the_bound_itself(tmp_path: Path, high: float) -> None:
    """The nearest float32 to .1 is larger than .1."""
    values, n = np.full(N, 0.1), N if high == 0.1 else 0
    path = tmp_path / "x.parquet"
    pq.write_table(
        pa.table({"a": pa.array(values, pa.float32()), "b": pa.array(values, pa.float32())}), path
    )
    domain = Domain(features=("a", "b"), lower=(0.0, 0.0), upper=(high, 1.0))
    for records in (open_records(path), read_table(path)):
        X = GridRecords(records, domain, Outside.CLIP, source="x")
        assert all(len(block) for block in X)
        assert X.n_outside == n
    (block,) = open_records(path).column_blocks()
    assert domain.to_grid_and_outside(block)[1].records.sum() == n


@pytest.mark.parametrize("kind", ["int8", "uint64", "float16", "float32", "float64"])
def test_slices_of_arrow_arrays_hold_their_own_numbers(kind: str) -> None:
    array = pa.array(np.arange(10).astype(kind))
    for start, stop in ((0, 10), (3, 10), (2, 6), (4, 4)):
        found = arrow_numbers.numbers(array.slice(start, stop - start))
        assert found.tolist() == list(range(start, stop))
        assert found.dtype == kind


@pytest.mark.parametrize(
    "kind", ["bool", "int8", "int64", "uint64", "float16", "float32", "float64", "decimal"]
)
@pytest.mark.parametrize("nulls", [[], [5], list(range(20))])
def test_numbers_are_the_same_whether_every_place_is_looked_at_for_null_or_not(
    kind: str, nulls: list[int]
) -> None:
    there = ~np.isin(np.arange(20), nulls)
    if kind == "decimal":
        array = pa.array(
            [Decimal(i) / 4 if there[i] else None for i in range(20)], pa.decimal128(10, 2)
        )
    else:
        array = pa.array(np.arange(20).astype(kind), mask=~there)
    for start, stop in ((0, 20), (3, 20), (2, 13), (9, 10), (4, 4)):
        part = array.slice(start, stop - start)
        expected, found = arrow_numbers.numbers(part), arrow_numbers.numbers_or_nan(part)
        assert np.array_equal(found.astype(float), expected.astype(float), equal_nan=True)
        assert np.array_equal(np.isnan(found.astype(float)), ~there[start:stop])


def test_of_parquet_so_many_bytes_are_read_ahead_and_of_other_files_one_block(
    tmp_path: Path,
) -> None:
    for kind, n in ((pa.float32(), 4), (pa.float64(), 2)):
        path = tmp_path / "x.parquet"
        pq.write_table(pa.table({"a": pa.array([1.0, 2.0], kind)}), path)
        assert open_records(path).n_ahead == n
    np.save(tmp_path / "x.npy", np.ones((2, 2)))
    (tmp_path / "x.csv").write_text("a\n1\n")
    assert open_records(tmp_path / "x.npy").n_ahead == open_records(tmp_path / "x.csv").n_ahead == 1


def test_a_block_becomes_a_table_only_by_a_copy() -> None:
    block = ColumnBlock([np.zeros(3), np.ones(3)])
    assert block.shape == np.asarray(block).shape == (3, 2)
    assert np.asarray(block, dtype=np.float32).dtype == np.float32
    with pytest.raises(ValueError, match="by a copy"):
        np.array(block, copy=False)
