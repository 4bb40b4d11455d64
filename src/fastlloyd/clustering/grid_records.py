"""Records on the grid, in passes. If there are few records, their grid points are kept in memory.
Otherwise every pass reads the records again.

Every round of the clustering is one pass. If there are many records, only a few blocks of them are
in memory at a time, so a file may be larger than memory. A value outside the public bounds is
clipped and counted, or its record is refused. The treatment depends on the record and the bounds
only. The count is exact, and a refusal and its place reveal an exact fact. Only the owner may see
them on a screen.
"""

import enum
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np

from fastlloyd.base.arrays import GridArray, RealArray
from fastlloyd.base.compiling import is_compiled
from fastlloyd.base.threads import reading_ahead
from fastlloyd.clustering.domain import Domain
from fastlloyd.clustering.outside import Clipped
from fastlloyd.errors import DataError
from fastlloyd.records.ids import Ids
from fastlloyd.records.table import ColumnBlock, ids_of

KEPT_CELLS = 1 << 26  # 256 MiB of int32
OUTSIDE_BOUNDS = (
    "the value lies outside the bounds; correct it, state wider bounds from public knowledge, or"
    " clip such values with --outside clip"
)

Block = tuple[int, RealArray | ColumnBlock]
Report = Callable[[int, int | None], None]


def unreported(_number: int, _n_records: int | None) -> None:
    """Ignore a report of progress."""


class Outside(enum.Enum):
    """Treatment of a record with a value outside the bounds."""

    # the value moves to the nearer bound (`Domain.to_grid`), and the record is counted
    CLIP = "clip"
    REFUSE = "refuse"  # the records are refused, and where the value stands is said


class Blocks(Protocol):
    """Records that can be read again and again: a `Table` in one block, a `RecordFile` in many.

    n_rows : upper bound on the number of records, or None if it is known only after reading.
    n_ahead : number of blocks that are read ahead.

    `blocks_to_check` yields blocks with the position of their first record. `check` refuses a block
    with a cell that is not finite. `place` returns the place of a record, for error messages.
    """

    @property
    def n_rows(self) -> int | None: ...  # noqa: D102 - see the class
    @property
    def n_ahead(self) -> int: ...  # noqa: D102
    def blocks_to_check(self) -> Iterator[Block]: ...  # noqa: D102
    def check(self, block: Any, first: int, /) -> None: ...  # noqa: D102
    def place(self, record: int, /) -> str: ...  # noqa: D102


class Rows(Protocol):
    """Grid points with the ids of their persons, which can be read again and again.

    `GridRecords` has this interface, and so has a wrapper of it that shows progress.
    """

    @property
    def domain(self) -> Domain: ...  # noqa: D102 - see `GridRecords`
    @property
    def are_kept(self) -> bool: ...  # noqa: D102
    def with_ids(self) -> Iterator[tuple[GridArray, Ids | None]]: ...  # noqa: D102


class GridRecords:
    """Grid points of records, in int32 blocks (n_i, n_features). Each iteration is one pass.

    If the points are few, they are made in the first pass and kept. Otherwise they are made in each
    pass.

    records : records in original units.
    domain : domain that converts records to points.
    outside : treatment of a record with a value outside the bounds.
    source : name of the records, for error messages.
    kept_cells : largest number of coordinates to keep in memory.
    report : function of the number of the pass, from 1, and the number of records read in this
        pass. The second number is None at the end of the pass. An error of `report` ends the pass.
        Do not publish the numbers.
    clipped : numbers of records and values outside the bounds, after a complete pass. Do not
        publish them.

    Raises DataError for a record outside the bounds with `Outside.REFUSE`, and the errors of the
    reader.
    """

    def __init__(
        self,
        records: Blocks,
        domain: Domain,
        outside: Outside,
        *,
        source: str,
        kept_cells: int = KEPT_CELLS,
        report: Report = unreported,
    ) -> None:
        self.clipped = Clipped()
        self._report, self._n_passes = report, 0
        self.domain = domain
        self._records, self._outside = records, outside
        self._source, self._kept_cells = source, kept_cells
        self._may_be_kept = (
            records.n_rows is None or records.n_rows * domain.n_features <= kept_cells
        )
        self._counted = False
        self._kept: list[GridArray] | None = None

    @property
    def n_outside(self) -> int:
        """Number of records with a value outside the bounds. Do not publish it."""
        return self.clipped.n_outside

    def __repr__(self) -> str:
        """Return a text with the source, without records or their number."""
        return f"GridRecords(source={self._source!r})"

    def __iter__(self) -> Iterator[GridArray]:
        """Yield the blocks of one pass over all records."""
        return (grid for grid, _ in self.with_ids())

    @property
    def are_kept(self) -> bool:
        """Return whether the points of the first pass are kept, so that no later pass reads the
        records.
        """
        return self._kept is not None

    def with_ids(self) -> Iterator[tuple[GridArray, Ids | None]]:
        """Yield the blocks of one pass, each with the ids of its records.

        The ids are None if the records have none, or if the points are kept.
        """
        return self._reported(self._pass())

    def _pass(self) -> Iterator[tuple[GridArray, Ids | None]]:
        if self._kept is not None:
            return ((self._checked(grid), None) for grid in self._kept)
        if self._counted:
            return (
                (self._grid(*block, Outside.CLIP)[0], ids_of(block[1])) for block in self._ahead()
            )
        return self._first_pass()

    def _reported(
        self, blocks: Iterator[tuple[GridArray, Ids | None]]
    ) -> Iterator[tuple[GridArray, Ids | None]]:
        """Yield the blocks. Report the number of records so far before the first block and after
        each block.
        """
        self._n_passes += 1
        number, n = self._n_passes, 0
        self._report(number, n)
        try:
            for grid, ids in blocks:
                yield grid, ids
                n += len(grid)
                self._report(number, n)
        finally:
            self._report(number, None)

    def _first_pass(self) -> Iterator[tuple[GridArray, Ids | None]]:
        """Yield the blocks of the first pass, keep the points if they are few, and count values
        outside.
        """
        kept: list[GridArray] = []
        n_cells, clipped = 0, Clipped()
        for first, block in self._ahead():
            grid, beyond = self._grid(first, block, self._outside)
            clipped += beyond
            n_cells += grid.size
            if self._may_be_kept and n_cells <= self._kept_cells:
                kept.append(grid)
            else:
                kept.clear()
            yield grid, ids_of(block)
        self.clipped, self._counted, self._kept = clipped, True, kept or None

    def _grid(
        self, first: int, block: RealArray | ColumnBlock, outside: Outside
    ) -> tuple[GridArray, Clipped]:
        """Return the grid points of a block, and the numbers of its records and values outside the
        bounds.

        first : position of the block's first record.

        With `Outside.REFUSE`, raises DataError for the first record with a value outside. The
        message names its place and column, and no value.
        """
        try:
            grid, marks = self.domain.to_grid_and_outside(block)
        except DataError:
            self._records.check(block, first)  # knows better where it stands
            raise
        clipped = Clipped.of(marks)
        if clipped.n_outside and outside is Outside.REFUSE:
            record = int(marks.records.argmax())
            values, domain = np.asarray(block)[record], self.domain
            column = domain.features[
                int(np.argmax((values < domain.lower) | (values > domain.upper)))
            ]
            raise DataError(
                f"{self._source}, {self._records.place(first + record)}, column {column!r}:"
                f" {OUTSIDE_BOUNDS}"
            )
        return grid, clipped

    def _checked(self, kept: GridArray) -> GridArray:
        """Return the points that an earlier pass kept. Raises DataError if a caller has moved a
        point out of the box.
        """
        self.domain.check_grid(kept)
        return kept

    def _ahead(self) -> Iterator[Block]:
        """Yield the blocks, while another thread reads the next ones."""
        blocks = self._records.blocks_to_check()
        if not self._records.n_ahead:  # all of it is here, and no thread needs a core to read it
            yield from blocks
            return
        with ThreadPoolExecutor(1) as reader, reading_ahead():
            coming = deque(reader.submit(next, blocks, None) for _ in range(self._records.n_ahead))
            try:
                # loads compiled code while those are read
                is_compiled((self._records.n_rows or 0) * self.domain.n_features)
                while (block := coming.popleft().result()) is not None:
                    coming.append(reader.submit(next, blocks, None))
                    yield block
            finally:  # who gives a pass up need not wait for what was still to be read
                for unread in coming:
                    unread.cancel()
