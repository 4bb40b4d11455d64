"""Cells without a value: what counts as one, and what becomes of its record.

Readers put NaN where a cell is missing. Infinity is a value, and a wrong one: it is refused always.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from fastlloyd.base.arrays import RealArray
from fastlloyd.errors import DataError
from fastlloyd.records.table import ColumnBlock

WORDS = frozenset({"", "na", "nan", "null", "?"})  # in text files, in any case and with spaces around
FEW = 32  # features that are looked at one by one, though they do not lie so in memory
DROP_HINT = " (--missing drop leaves out all such records)"
NOT_THERE = "the cell is missing; fill it in or take the record out" + DROP_HINT
NOT_FINITE = "not a finite number; correct the cell or take the record out"


class Missing(enum.Enum):
    """What becomes of a record with a missing cell. Either is decided for each record by that record alone."""

    REFUSE = "refuse"  # the file is refused, and where the cell is missing is said
    DROP = "drop"  # the record is left out, and counted


def complete(
    block: RealArray | ColumnBlock, columns: Sequence[str], missing: Missing, source: str, first: int
) -> RealArray | ColumnBlock:
    """The records without missing cells of a block (n, n_features), NaN where a cell is missing; memory order is kept.

    `first` is the number of the block's first record. Raises DataError for the first record with an infinite cell, or with a
    missing one unless these are dropped.
    """
    arrays = block.arrays if isinstance(block, ColumnBlock) else (block,)
    wrong = np.isinf if missing is Missing.DROP else _is_not_finite
    if np.any([wrong(array).any() for array in arrays]):
        raise _refusal(np.asarray(block), columns, missing, source, first)
    if missing is Missing.REFUSE:
        return block
    # all records are copied, whether one is left out or none is: those that stay take the same path
    if isinstance(block, ColumnBlock):
        whole = ~_any_missing(block.arrays)
        return ColumnBlock([array[whole] for array in block.arrays])
    by_feature = block.flags.f_contiguous or block.shape[1] <= FEW
    kept = ~_any_missing(block.T) if by_feature else ~np.isnan(block).any(axis=1)
    if block.flags.f_contiguous:
        return np.array([column[kept] for column in block.T]).T
    return np.compress(kept, block, axis=0)


def _any_missing(features: Iterable[RealArray]) -> npt.NDArray[np.bool_]:
    """Which records have NaN in one of the features, each (n,)."""
    gaps: npt.NDArray[np.bool_] = np.isnan(next(iter(features)))
    for values in features:
        gaps |= np.isnan(values)
    return gaps


def _is_not_finite(values: RealArray) -> npt.NDArray[np.bool_]:
    return ~np.isfinite(values)


def _refusal(values: RealArray, columns: Sequence[str], missing: Missing, source: str, first: int) -> DataError:
    faults = np.isinf(values) if missing is Missing.DROP else ~np.isfinite(values)
    record = int(faults.any(axis=1).argmax())
    column = int(faults[record].argmax())
    fault = NOT_THERE if np.isnan(values[record, column]) else NOT_FINITE
    return DataError(f"{source}, record {first + record}, column {columns[column]!r}: {fault}")
