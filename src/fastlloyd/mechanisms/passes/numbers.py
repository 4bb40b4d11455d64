"""A number for each row, of shares for example, which is found in any order and read in that of the rows."""

import numpy as np
from numpy.typing import NDArray

from fastlloyd.mechanisms.passes.scratch import N_PARTS, Scratch, Sheet, Spill

SPAN = 1 << 20  # rows whose numbers are collected at once, where there are at most N_PARTS times as many
_BITS = np.uint64(16)
_NUMBER = np.uint64((1 << 16) - 1)

Numbers = NDArray[np.uint16]


class NumbersOnDisk:
    """The numbers of rows 0, 1, ...; those of each span of rows are a sheet."""

    def __init__(self, scratch: Scratch, sheets: list[Sheet], span: int) -> None:
        self._scratch, self._sheets, self._span = scratch, sheets, span

    def of(self, first: int, n: int) -> Numbers:
        """Those of n rows from row `first` on, uint16 (n,)."""
        parts, stop = [np.empty(0, dtype=np.uint8)], first + n
        while first < stop:
            at, within = divmod(first, self._span)
            n = min(stop - first, self._span - within)
            parts.append(self._scratch.read(self._sheets[at], 2 * within, 2 * n))
            first += n
        return np.concatenate(parts).view(np.uint16)


class Collected:
    """Numbers of rows as they are found; what is added to a row adds up, from 0."""

    def __init__(self, n_rows: int) -> None:
        self._n_rows, self._span = n_rows, max(SPAN, -(-n_rows // N_PARTS))
        self._found = Spill(Scratch(), 1)

    def add(self, rows: NDArray[np.uint64], numbers: Numbers) -> None:
        """Add numbers to rows, uint64 (n,)."""
        parts = (rows // np.uint64(self._span)).astype(np.uint8)
        self._found.add(parts, (rows << _BITS | numbers)[:, np.newaxis])

    def on_disk(self) -> NumbersOnDisk:
        """All of them."""
        scratch, sheets = Scratch(), list[Sheet]()
        for part, first in enumerate(range(0, self._n_rows, self._span)):
            numbers = np.zeros(min(self._span, self._n_rows - first), dtype=np.uint16)
            for words in self._found.rows(part):
                rows = (words[:, 0] >> _BITS) - np.uint64(first)
                np.add.at(numbers, rows, (words[:, 0] & _NUMBER).astype(np.uint16))
            sheets.append(scratch.write(numbers))
        return NumbersOnDisk(scratch, sheets, self._span)
