"""Columns of text: their distinct texts, and for each record the position of its text among
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fastlloyd.base.arrays import RealArray
from fastlloyd.records.cells import is_missing, plain
from fastlloyd.records.day_cells import DayCells
from fastlloyd.records.ids import Ids
from fastlloyd.records.table import ColumnBlock, ids_of

GONE = -1  # code of a missing cell


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TextCells:
    """Cells of one column as text. The repr shows no cell.

    texts : distinct texts, without spaces at their ends, normalised (NFC).
    codes : position of each record's text in `texts`, int32 (n,), or -1 for a missing cell.
    """

    texts: list[str]
    codes: npt.NDArray[np.int32]

    @classmethod
    def of(cls, cells: Iterable[str | None], words: frozenset[str] = frozenset()) -> TextCells:
        """Return the column with these cells.

        cells : cells as they are written in a file, or None for a missing cell.

        words : words that stand for a missing cell (`as_words`), besides the usual ones.
        """
        places: dict[str | None, int] = {}
        codes = [places.setdefault(cell, len(places)) for cell in cells]
        return cls.coded(list(places), np.array(codes, dtype=np.int32), words)

    @classmethod
    def coded(
        cls,
        cells: Sequence[str | None],
        codes: npt.NDArray[Any],
        words: frozenset[str] = frozenset(),
    ) -> TextCells:
        """Return the column with these distinct cells.

        cells : distinct cells as they are written in a file, or None for a missing cell.
        codes : for each record, the position of its cell in `cells`, or -1 for a missing cell.
        words : as in `of`.
        """
        places: dict[str, int] = {}
        stands = np.full(len(cells) + 1, GONE, dtype=np.int32)  # the last one is that of code -1
        for at, cell in enumerate(cells):
            text = "" if cell is None else plain(cell)
            if not is_missing(text) and text.lower() not in words:
                stands[at] = places.setdefault(text, len(places))
        return cls(list(places), stands[codes])

    @classmethod
    def missing(cls, n: int) -> TextCells:
        """Return a column of n missing cells."""
        return cls([], np.full(n, GONE, dtype=np.int32))

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self.codes)

    @property
    def gaps(self) -> npt.NDArray[np.float64]:
        """Array (n,) with NaN for each missing cell, and 0 for any other."""
        return np.where(self.codes < 0, np.nan, 0.0)

    def mapped(
        self, value_of: Callable[[str], float | None]
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
        """Return two arrays (n,): a number for each record, and whether the record has a text
        without a number.

        A text without a number gives NaN. A missing cell gives NaN too, and is not marked in the
        second array.

        value_of : function from a text to its number, or None if it has none.
        """
        found = [value_of(text) for text in self.texts]
        values = np.array([np.nan if value is None else value for value in found] + [np.nan])
        unknown = np.array([value is None for value in found] + [False])
        return values[self.codes], unknown[self.codes]


class CellBlock:
    """Records as chosen columns. Each column has numbers, text or days.

    cells : one entry for each column: float32 or float64 (n_records,) with NaN for a missing cell,
        text, or days.
    ids : ids of the persons of the records, or None without ids.
    """

    __slots__ = ("cells", "ids")

    def __init__(
        self, cells: Sequence[RealArray | TextCells | DayCells], ids: Ids | None = None
    ) -> None:
        self.cells, self.ids = tuple(cells), ids

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self.cells[0])


def cells_of(block: RealArray | ColumnBlock | CellBlock) -> CellBlock:
    """Return the records of a block column by column."""
    if isinstance(block, CellBlock):
        return block
    arrays = block.arrays if isinstance(block, ColumnBlock) else np.ascontiguousarray(block.T)
    return CellBlock(list(arrays), ids_of(block))
