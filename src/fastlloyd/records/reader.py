"""Interface of a format's reader, and the treatment of missing cells.

Readers use NaN for a missing cell. Infinity is a wrong value, and is always refused.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from fastlloyd.base.arrays import RealArray
from fastlloyd.errors import DataError
from fastlloyd.records.declared import INFINITE, MISSING
from fastlloyd.records.table import ColumnBlock, numbered
from fastlloyd.records.text_cells import CellBlock, cells_of

FEW = 32  # features that are looked at one by one, though they do not lie so in memory
DROP_HINT = " (--missing drop leaves out all such records)"
NOT_THERE = "the cell is missing; fill it in or take the record out" + DROP_HINT
NOT_FINITE = "not a finite number; correct the cell or take the record out"
# of a block: 8 MiB of float32, large enough that what a block costs beside its cells is nothing
BLOCK_CELLS = 1 << 21


class Missing(enum.Enum):
    """Treatment of a record with a missing cell. It never depends on other records."""

    REFUSE = "refuse"  # the file is refused, and where the cell is missing is said
    DROP = "drop"  # the record is left out, and counted


def complete(
    block: RealArray | ColumnBlock,
    columns: Sequence[str],
    missing: Missing,
    where: Callable[[int], str],
    first: int,
) -> RealArray | ColumnBlock:
    """Return the records of a block (n, n_features) without missing cells (NaN).

    The result has the memory order of the block.

    columns : names of the features, for error messages.
    where : function that returns the place of a record in its source, given the record's number.
    first : number of the block's first record.

    Raises DataError for the first record with an infinite cell. Unless records with missing cells
    are dropped, also raises DataError for the first missing cell.
    """
    arrays = block.arrays if isinstance(block, ColumnBlock) else (block,)
    if np.any([wrong_cells(array, missing).any() for array in arrays]):
        values = np.asarray(block)
        wrong = wrong_cells(values, missing)
        record = int(wrong.any(axis=1).argmax())
        column = int(wrong[record].argmax())
        fault, code = NOT_FINITE, INFINITE
        if np.isnan(values[record, column]):
            fault, code = NOT_THERE, MISSING
        raise DataError(
            f"{where(first + record)}, column {columns[column]!r}: {fault}",
            code=code,
            field=columns[column],
        )
    if missing is Missing.REFUSE:
        return block
    # all records are copied, whether one is left out or none is: those that stay take the same path
    if isinstance(block, ColumnBlock):
        whole = ~_any_missing(block.arrays)
        return ColumnBlock(
            [array[whole] for array in block.arrays],
            None if block.ids is None else block.ids.kept(whole),
        )
    by_feature = block.flags.f_contiguous or block.shape[1] <= FEW
    kept = ~_any_missing(block.T) if by_feature else ~np.isnan(block).any(axis=1)
    if block.flags.f_contiguous:
        return np.array([column[kept] for column in block.T]).T
    return np.compress(kept, block, axis=0)


def wrong_cells(values: RealArray, missing: Missing) -> npt.NDArray[np.bool_]:
    """Return whether each cell is refused, as a bool array of the same shape.

    Infinite cells are refused. Missing cells are refused unless their records are dropped.
    """
    return np.isinf(values) if missing is Missing.DROP else ~np.isfinite(values)


def _any_missing(features: Iterable[RealArray]) -> npt.NDArray[np.bool_]:
    """Return whether each record has NaN in one of the features, bool (n,).

    features : values of each feature, (n,).
    """
    gaps: npt.NDArray[np.bool_] = np.isnan(next(iter(features)))
    for values in features:
        gaps |= np.isnan(values)
    return gaps


class Reader(ABC):
    """Interface that every format implements.

    names : names of all columns.
    columns : names of the chosen columns.
    n_rows : number of records, or None if it is known only after reading.
    n_ahead : number of blocks to read ahead, given the memory that they take.
    ids : kind of the ids, "integers" or "text", or None without ids. With ids, every block is a
        ColumnBlock with ids.
    has_fixed_separator : the separator of cells in text is stated, or a header settles it.
        Otherwise it follows from the records.
    """

    names: tuple[str, ...]
    columns: tuple[str, ...]
    n_rows: int | None
    n_ahead = 1
    ids: str | None = None
    has_fixed_separator = True

    @abstractmethod
    def blocks(self) -> Iterator[RealArray | ColumnBlock]:
        """Yield the records from the beginning, float32 or float64 (n_i, n_features).

        A missing cell is NaN.
        """

    def cells(self) -> Iterator[CellBlock]:
        """Yield the records from the beginning as blocks of columns, which may be text.

        A reader that was opened with columns of text can be read only by this method.
        """
        yield from map(cells_of, self.blocks())

    def place(self, record: int) -> str:
        """Return the place of a record in the file, for error messages.

        record : number of the record, from 1.
        """
        return numbered(record)
