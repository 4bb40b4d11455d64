"""Blocks of columns: the same records as a table, whoever reads them."""

from pathlib import Path

import numpy as np
import pytest

from fastlloyd.clustering.domain import Domain
from fastlloyd.clustering.outside import Outside, records_outside
from fastlloyd.errors import DataError
from fastlloyd.records import Missing, open_records
from fastlloyd.records.column_block import ColumnBlock, FloatArray
from fastlloyd.records.record_file import BLOCK_CELLS
from record_files import pa, pq

N = BLOCK_CELLS // 2  # per row group, in two columns: long enough to be given as it is


def written(path: Path, *groups: list[FloatArray]) -> Path:
    schema = pa.schema([("a", pa.float32()), ("b", pa.float64())])
    with pq.ParquetWriter(path, schema) as writer:
        for a, b in groups:
            writer.write_table(pa.table([pa.array(a, pa.float32()), pa.array(b, pa.float64())], schema=schema))
    return path


def numbers(n: int, seed: int = 0) -> list[FloatArray]:
    return list(np.random.default_rng(seed).uniform(-2, 2, (2, n)))


def test_long_batches_of_floats_are_given_as_they_are_and_hold_the_same_records(tmp_path: Path) -> None:
    file = open_records(written(tmp_path / "x.parquet", numbers(N), numbers(100, 1), numbers(N, 2)))
    blocks = list(file.column_blocks())
    assert [type(block) for block in blocks].count(ColumnBlock) >= 2
    assert np.array_equal(np.concatenate([np.asarray(block) for block in blocks]), np.concatenate(list(file.blocks())))
    assert sum(map(len, blocks)) == 2 * N + 100
    domain = Domain(features=("a", "b"), lower=(-1.0, -1.5), upper=(1.0, 1.0))
    for block in blocks:
        table = np.array(block)
        assert np.array_equal(domain.to_grid(block), domain.to_grid(table))
        assert records_outside(domain, block, Outside.CLIP, source="x") == records_outside(
            domain, table, Outside.CLIP, source="x"
        )


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_in_a_long_batch_is_found_and_where(tmp_path: Path, wrong: float) -> None:
    columns = numbers(N)
    columns[1][70_000] = wrong
    file = open_records(written(tmp_path / "x.parquet", columns))
    with pytest.raises(DataError, match="record 70001, column 'b'"):
        list(file.column_blocks())


def test_a_null_in_a_long_batch_can_be_dropped(tmp_path: Path) -> None:
    a, b = numbers(N)
    path = tmp_path / "x.parquet"
    cells = pa.array(b, mask=np.arange(N) == 5)
    pq.write_table(pa.table({"a": pa.array(a, pa.float32()), "b": cells}), path)
    file = open_records(path, missing=Missing.DROP)
    assert sum(map(len, file.column_blocks())) == N - 1
    with pytest.raises(DataError, match="record 6, column 'b'"):
        list(open_records(path).column_blocks())


def test_a_block_becomes_a_table_only_by_a_copy() -> None:
    block = ColumnBlock([np.zeros(3), np.ones(3)])
    assert block.shape == np.asarray(block).shape == (3, 2)
    assert np.asarray(block, dtype=np.float32).dtype == np.float32
    with pytest.raises(ValueError, match="by a copy"):
        np.array(block, copy=False)
