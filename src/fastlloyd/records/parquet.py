"""Parquet files.

A pass needs memory for one block, one buffer for each column, and the pages being decoded. This
memory does not depend on the length of row groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fastlloyd.records.arrow import ArrowRecords, errors
from fastlloyd.records.arrow_numbers import load
from fastlloyd.records.columns import Columns
from fastlloyd.records.files import open_binary
from fastlloyd.records.reader import BLOCK_CELLS, Missing
from fastlloyd.records.stores import is_address

_WHAT = "a Parquet file"
_BUFFERS = 1 << 24  # bytes read ahead, all columns together
_LEAST, _MOST = 1 << 14, 1 << 16  # bytes read ahead for one column
_AHEAD = 1 << 25  # bytes of blocks read ahead: four times as many were no faster


def open_parquet(
    path: str,
    columns: Columns,
    missing: Missing,
    unit: str | None = None,
    groups: Sequence[int] | None = None,
    text_columns: frozenset[str] = frozenset(),
) -> ArrowRecords:
    """Return the records of a file, after a check of its schema. Raises DataError if the file
    cannot be read, or lacks a chosen column of numbers.

    groups : indices of the row groups to read, or None for all.
    text_columns : as in `ArrowRecords.of`.
    """
    stored = is_address(path)

    def opened(n_columns: int) -> Any:
        # pre_buffer would hold the whole file, and no buffer_size a whole column of a row group: of
        # what a store holds the columns of a row group are asked for at once, as each answer takes
        # its time
        buffer = 0 if stored else min(max(_BUFFERS // n_columns, _LEAST), _MOST)
        return _opened(path, pre_buffer=stored, buffer_size=buffer, page_checksum_verification=True)

    def batches(names: tuple[str, ...]) -> Iterator[Any]:
        with opened(len(names)) as file:
            # one thread: it reads ahead while others work on the block before, who would only be in
            # each other's way
            rows = max(1, BLOCK_CELLS // len(names))
            every = range(file.num_row_groups) if groups is None else groups
            for together in [[group] for group in every] if stored else [list(every)]:
                yield from file.iter_batches(
                    batch_size=rows, columns=list(names), use_threads=False, row_groups=together
                )

    with errors(path, _WHAT), opened(1) as file:
        schema = file.schema_arrow
        n_rows = (
            file.metadata.num_rows
            if groups is None
            else sum(file.metadata.row_group(i).num_rows for i in groups)
        )
        schema.names  # noqa: B018 - may not be text
    records = ArrowRecords.of(
        schema,
        columns,
        batches,
        source=path,
        what=_WHAT,
        n_rows=n_rows,
        missing=missing,
        unit=unit,
        text_columns=text_columns,
    )
    return replace(
        records, n_ahead=max(1, _AHEAD // (BLOCK_CELLS * np.dtype(records.dtype).itemsize))
    )


def row_groups(path: str) -> list[int]:
    """Return the number of records of each row group. Raises DataError if the file cannot be
    read.
    """
    with errors(path, _WHAT), _opened(path) as file:
        return [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]


def _opened(path: str, **options: Any) -> Any:
    parquet = load("pyarrow.parquet", path)
    return parquet.ParquetFile(open_binary(path, buffer=0) if is_address(path) else path, **options)
