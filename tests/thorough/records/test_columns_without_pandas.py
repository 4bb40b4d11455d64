"""Columns of Arrow where pandas cannot be imported."""

import subprocess
import sys
from pathlib import Path

import numpy as np

from fastlloyd.base.arrays import RealArray
from fastlloyd.records.reader import BLOCK_CELLS
from record_files import pa, pq

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


def test_numbers_are_taken_from_arrow_without_pandas(tmp_path: Path) -> None:
    path = written(tmp_path / "x.parquet", numbers(N), numbers(10))
    program = f"""
import sys
from fastlloyd.records import open_records
assert len(list(open_records({str(path)!r}).column_blocks())) == 2
assert "pandas" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
