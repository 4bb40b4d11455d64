"""Records on the grid, pass after pass: kept in memory where they are few, read anew where they are many.

Every round of the clustering is one pass. Nothing else of the records stays in memory between two blocks, so that a file may be
larger than memory.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from numpy.typing import ArrayLike

from fastlloyd.clustering.domain import Domain, GridArray
from fastlloyd.clustering.outside import Outside, records_outside

KEPT_CELLS = 1 << 26  # 256 MiB of int32


class Blocks(Protocol):
    """Finite records that can be passed over again and again: a `Table` in one block, a `RecordFile` in many."""

    @property
    def source(self) -> str: ...  # noqa: D102 - see the class
    def blocks(self) -> Iterator[ArrayLike]: ...  # noqa: D102


class GridRecords:
    """Grid points of records under a domain, int32 blocks (n_i, n_features); iterate once per pass.

    `n_outside` says, after a complete pass, how many records have values outside the bounds (a private number). Raises
    DataError for such a record under `Outside.REFUSE`, and what the records' own `blocks` raises.
    """

    def __init__(self, records: Blocks, domain: Domain, outside: Outside, *, kept_cells: int = KEPT_CELLS) -> None:
        self.n_outside: int | None = None
        self._records, self._domain, self._outside = records, domain, outside
        self._kept_cells = kept_cells
        self._kept: list[GridArray] | None = None

    def __repr__(self) -> str:
        """No records, and no number of them."""
        return f"GridRecords(source={self._records.source!r})"

    def __iter__(self) -> Iterator[GridArray]:
        """One pass over all records."""
        if self._kept is not None:
            return iter(self._kept)
        return self._first_pass() if self.n_outside is None else _ahead(self._grid())

    def _first_pass(self) -> Iterator[GridArray]:
        """Count the records outside, and keep the grid points as long as they are few."""
        kept: list[GridArray] = []
        cells, self._seen_outside = 0, 0
        for grid in _ahead(self._counted()):
            cells += grid.size
            if cells <= self._kept_cells:
                kept.append(grid)
            else:
                kept.clear()
            yield grid
        self.n_outside = self._seen_outside
        if cells <= self._kept_cells:
            self._kept = kept

    def _counted(self) -> Iterator[GridArray]:
        first = 1
        for block in self._records.blocks():
            grid = self._domain.to_grid(block)
            self._seen_outside += records_outside(self._domain, block, self._outside, source=self._records.source, first=first)
            first += len(grid)
            yield grid

    def _grid(self) -> Iterator[GridArray]:
        return map(self._domain.to_grid, self._records.blocks())


def _ahead(blocks: Iterator[GridArray]) -> Iterator[GridArray]:
    """The same blocks, the next one being read by another thread while one is worked on."""
    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(next, blocks, None)
        while (block := coming.result()) is not None:
            coming = reader.submit(next, blocks, None)
            yield block
