"""Parquet files. A pass holds one block, one buffer per column and the pages being decoded, however long the row groups are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fastlloyd.records.arrow import ArrowRecords, errors, load
from fastlloyd.records.columns import Columns
from fastlloyd.records.record_file import BLOCK_CELLS, Missing

_WHAT = "a Parquet file"
_BUFFERS = 1 << 24  # bytes read ahead, all columns together
_LEAST, _MOST = 1 << 14, 1 << 16  # of one column
_AHEAD = 1 << 25  # bytes of blocks read ahead: four times as many were no faster


def open_parquet(path: Path, columns: Columns, missing: Missing) -> ArrowRecords:
    """Check the schema. Raises DataError."""
    parquet = load("pyarrow.parquet", str(path))

    def opened(n_columns: int) -> Any:
        # pre_buffer would hold the whole file, and no buffer_size a whole column of a row group
        buffer = min(max(_BUFFERS // n_columns, _LEAST), _MOST)
        return parquet.ParquetFile(path, pre_buffer=False, buffer_size=buffer, page_checksum_verification=True)

    def batches(names: tuple[str, ...]) -> Iterator[Any]:
        with opened(len(names)) as file:
            # one thread: it reads ahead while others work on the block before, who would only be in each other's way
            rows = max(1, BLOCK_CELLS // len(names))
            yield from file.iter_batches(batch_size=rows, columns=list(names), use_threads=False)

    with errors(str(path), _WHAT), opened(1) as file:
        schema, n_rows = file.schema_arrow, file.metadata.num_rows
        schema.names  # noqa: B018 - may not be text
    records = ArrowRecords.of(schema, columns, batches, source=str(path), what=_WHAT, n_rows=n_rows, missing=missing)
    return replace(records, n_ahead=max(1, _AHEAD // (BLOCK_CELLS * np.dtype(records.dtype).itemsize)))
