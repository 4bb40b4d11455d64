"""Records that show their blocks to somebody else while they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fastlloyd.base.arrays import RealArray
from fastlloyd.records.record_file import RecordFile
from fastlloyd.records.table import ColumnBlock, Table

Block = RealArray | ColumnBlock


class SeenRecords:
    """The same records; `see` is called with each block of the next pass, in original units, and forgotten with it."""

    def __init__(self, records: Table | RecordFile, see: Callable[[Block], None] | None = None) -> None:
        self._records, self.see = records, see
        self.n_rows, self.n_ahead, self.check, self.place = records.n_rows, records.n_ahead, records.check, records.place

    def blocks_to_check(self) -> Iterator[tuple[int, Block]]:
        """As of the records."""
        see, self.see = self.see, None
        for first, block in self._records.blocks_to_check():
            if see is not None:
                see(block)
            yield first, block
