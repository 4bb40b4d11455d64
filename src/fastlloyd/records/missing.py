"""Cells without a value: what counts as one, and what becomes of its record.

Readers put NaN where a cell is missing. Infinity is a value, and a wrong one: it is refused always.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

import numpy as np

from fastlloyd.errors import DataError
from fastlloyd.records.column_block import ColumnBlock, FloatArray

WORDS = frozenset({"", "na", "nan", "null", "?"})  # in text files, in any case and with spaces around
DROP_HINT = " (--missing drop leaves out all such records)"
NOT_THERE = "the cell is missing; fill it in or take the record out" + DROP_HINT
NOT_FINITE = "not a finite number; correct the cell or take the record out"


class Missing(enum.Enum):
    """What becomes of a record with a missing cell. Either is decided for each record by that record alone."""

    REFUSE = "refuse"  # the file is refused, and where the cell is missing is said
    DROP = "drop"  # the record is left out, and counted


def complete(
    block: FloatArray | ColumnBlock, columns: Sequence[str], missing: Missing, source: str, first: int
) -> FloatArray | ColumnBlock:
    """The records without missing cells of a block (n, n_features), NaN where a cell is missing; memory order is kept.

    `first` is the number of the block's first record. Raises DataError for the first record with an infinite cell, or with a
    missing one unless these are dropped.
    """
    if isinstance(block, ColumnBlock) and all(np.isfinite(array).all() for array in block.arrays):
        return block
    values = np.asarray(block)
    finite = np.isfinite(values)
    if finite.all():
        return values
    faults = np.isinf(values) if missing is Missing.DROP else ~finite
    faulty = faults.any(axis=1)
    if faulty.any():
        record = int(faulty.argmax())
        column = int(faults[record].argmax())
        fault = NOT_THERE if np.isnan(values[record, column]) else NOT_FINITE
        raise DataError(f"{source}, record {first + record}, column {columns[column]!r}: {fault}")
    kept = finite.all(axis=1)
    return np.compress(kept, values.T, axis=1).T if values.flags.f_contiguous else values[kept]
