"""The number of shares of each row, which are found in any order and read in that of the rows."""

import numpy as np
from numpy.typing import NDArray

from fastlloyd.mechanisms.passes.scratch import Scratch, Sheet
from fastlloyd.mechanisms.passes.spill import N_PARTS, Spill
from fastlloyd.mechanisms.spread import Shares

SPAN = 1 << 20  # rows whose shares are collected at once, where there are at most N_PARTS times as many
_SHARE_BITS = np.uint64(16)
_SHARE = np.uint64((1 << 16) - 1)


class SharesOnDisk:
    """The shares of rows 0, 1, ..., uint16; each span of rows is a sheet."""

    def __init__(self, scratch: Scratch, sheets: list[Sheet], span: int, n_rows: int) -> None:
        self.n_rows = n_rows
        self._scratch, self._sheets, self._span = scratch, sheets, span

    def of(self, first: int, n: int) -> Shares:
        """Those of n rows from number `first` on."""
        parts, stop = list[NDArray[np.uint8]](), first + n
        while first < stop:
            at, within = divmod(first, self._span)
            n = min(stop - first, self._span - within)
            parts.append(self._scratch.read(self._sheets[at], 2 * within, 2 * n))
            first += n
        return np.concatenate([np.empty(0, dtype=np.uint8), *parts]).view(np.uint16)


class Collected:
    """Shares of rows as they are found; what is added to a row adds up, and a row to which nothing is added has none."""

    def __init__(self, n_rows: int) -> None:
        self._n_rows, self._span = n_rows, max(SPAN, -(-n_rows // N_PARTS))
        self._found = Spill(Scratch(), 1)

    def add(self, rows: NDArray[np.uint64], shares: Shares) -> None:
        """Add shares to rows of these numbers."""
        parts = (rows // np.uint64(self._span)).astype(np.uint8)
        self._found.add(parts, (rows << _SHARE_BITS | shares)[:, np.newaxis])

    def on_disk(self) -> SharesOnDisk:
        """All of them."""
        scratch, sheets = Scratch(), list[Sheet]()
        for part, first in enumerate(range(0, self._n_rows, self._span)):
            shares = np.zeros(min(self._span, self._n_rows - first), dtype=np.uint16)
            for words in self._found.rows(part):
                rows = (words[:, 0] >> _SHARE_BITS) - np.uint64(first)
                np.add.at(shares, rows, (words[:, 0] & _SHARE).astype(np.uint16))
            sheets.append(scratch.write(shares))
        return SharesOnDisk(scratch, sheets, self._span, self._n_rows)
