"""Records in memory: finite numbers in named columns, as one array or as separate columns."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from fastlloyd.base.arrays import RealArray
from fastlloyd.errors import DataError
from fastlloyd.records.ids import Ids


class ColumnBlock:
    """Records (n_records, n_features) as contiguous float32 or float64 arrays, one for each
    feature.

    NumPy can convert a block to an array.

    ids : ids of the persons of the records, or None without ids.
    """

    __slots__ = ("arrays", "ids")

    def __init__(self, arrays: Sequence[RealArray], ids: Ids | None = None) -> None:
        self.arrays, self.ids = tuple(arrays), ids

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self.arrays[0])

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the table: (n_records, n_features)."""
        return len(self), len(self.arrays)

    @property
    def is_plain(self) -> bool:
        """Return whether compiled code can read all columns by their addresses.

        Each column then has n_records numbers, aligned and contiguous.
        """
        return all(
            array.shape == (len(self),)
            and array.flags.c_contiguous
            and array.flags.aligned
            and array.dtype in (np.float32, np.float64)
            for array in self.arrays
        )

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> RealArray:
        """Return a copy as an array (n_records, n_features), in column-major order."""
        if copy is False:
            raise ValueError(
                "the columns are not adjacent in memory, so they become a table only by a copy"
            )
        return np.array(self.arrays, dtype=dtype).T


def with_ids(block: RealArray | ColumnBlock, ids: Ids | None) -> RealArray | ColumnBlock:
    """Return the records, float32 or float64 (n, n_features), with their ids.

    If `ids` is None, the block is returned unchanged.
    """
    if ids is None:
        return block
    arrays = block.arrays if isinstance(block, ColumnBlock) else np.ascontiguousarray(block.T)
    return ColumnBlock(list(arrays), ids)


def ids_of(block: RealArray | ColumnBlock) -> Ids | None:
    """Return the ids of a block's records, or None without ids."""
    return block.ids if isinstance(block, ColumnBlock) else None


def numbered(record: int) -> str:
    """Return words for a record's place in a source without lines, for error messages."""
    return f"record {record}"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Table:
    """Records of one client: finite numbers in named columns.

    The repr does not show values. Do not publish `n_rows` or `dropped`.

    values : float64 (n_records, n_features), read-only, at least one record.
    columns : n_features distinct names.
    source : name of the source of the records, for error messages.
    dropped : number of records that were left out because of a missing cell.
    others : names of the columns of the source that were not chosen.
    place : function that returns the place of a record in the source ("line 17"), given the
        record's number from 1.
    ids : ids of the persons of the records, or None without ids.

    Raises DataError if the fields do not fit together.
    """

    n_ahead: ClassVar[int] = 0  # all records are in memory

    values: npt.NDArray[np.float64] = field(repr=False)
    columns: tuple[str, ...]
    source: str
    dropped: int = field(default=0, repr=False)
    others: tuple[str, ...] = field(default=(), repr=False)
    place: Callable[[int], str] = field(default=numbered, repr=False)
    ids: Ids | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        values = np.asarray(self.values).view()
        values.flags.writeable = False
        object.__setattr__(self, "values", values)
        if values.dtype != np.float64 or values.ndim != 2 or 0 in values.shape:
            raise DataError(
                f"{self.source}: records must be a float64 matrix with at least one row and one"
                f" column, got {values.dtype} of shape {values.shape}"
            )
        if len(self.columns) != values.shape[1] or len(set(self.columns)) != len(self.columns):
            raise DataError(
                f"{self.source}: {values.shape[1]} distinct column names are needed, got"
                f" {self.columns}"
            )
        if not (finite := np.isfinite(values)).all():
            record, column = np.argwhere(~finite)[0]
            raise DataError(
                f"{self.source}, record {record + 1}, column {self.columns[column]!r}: not a finite"
                " number"
            )

    @property
    def n_rows(self) -> int:
        """Number of records. Do not publish it."""
        return len(self.values)

    def blocks(self) -> Iterator[npt.NDArray[np.float64]]:
        """Yield all records in one block. Each call yields them again."""
        yield self.values

    def blocks_to_check(self) -> Iterator[tuple[int, RealArray | ColumnBlock]]:
        """Yield one pair: 1 (the number of the first record), and all records in one block."""
        yield 1, with_ids(self.values, self.ids)

    def check(self, _block: object, _first: int, /) -> None:
        """Do nothing, because all cells are finite."""


def joined(blocks: Iterable[RealArray | ColumnBlock], n_features: int) -> npt.NDArray[np.float64]:
    """Return all records of blocks (n_i, n_features) in one float64 array.

    The array grows in place, so it is never in memory twice.
    """
    cells = array("d")
    for block in blocks:
        cells.frombytes(
            np.ascontiguousarray(block, dtype=np.float64).reshape(-1).view(np.uint8).data
        )
    return np.frombuffer(cells).reshape(-1, n_features)
