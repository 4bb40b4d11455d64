"""Rows of words that are sorted into parts and wait on disk, of which one part after the other is read again."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fastlloyd.mechanisms.passes.scratch import Scratch, Sheet, Words

N_PARTS = 256
HELD_ROWS = 1 << 19  # before they are written: a part then has some kilobytes of each sheet


class Spill:
    """Rows of `width` words, uint64 (n, width), in N_PARTS parts, each in the order in which they were added."""

    def __init__(self, scratch: Scratch, width: int) -> None:
        self._scratch, self._width = scratch, width
        self._held: list[tuple[NDArray[np.uint8], Words]] = []
        self._n_held = 0
        self._sheets: list[tuple[Sheet, NDArray[np.intp]]] = []  # where each part of it begins and the last one ends
        self._sizes = np.zeros(N_PARTS, dtype=np.int64)

    def add(self, parts: NDArray[np.uint8], rows: Words) -> None:
        """Add rows, each to the part of its number, uint8 (n,)."""
        self._held.append((parts, rows))
        self._n_held += len(rows)
        if self._n_held >= HELD_ROWS:
            self._write()

    def size(self, part: int) -> int:
        """How many rows a part has."""
        self._write()
        return int(self._sizes[part])

    def rows(self, part: int) -> Iterator[Words]:
        """The rows of a part in pieces of at most HELD_ROWS, as often as asked; nothing is added afterwards."""
        self._write()
        row_bytes = self._width * np.dtype(np.uint64).itemsize
        for sheet, bounds in self._sheets:
            for start in range(bounds[part], bounds[part + 1], HELD_ROWS):
                n = min(HELD_ROWS, bounds[part + 1] - start)
                content = self._scratch.read(sheet, start * row_bytes, n * row_bytes)
                yield content.view(np.uint64).reshape(n, self._width)

    def _write(self) -> None:
        if not self._n_held:
            return
        parts = np.concatenate([parts for parts, _ in self._held])
        rows = np.concatenate([rows for _, rows in self._held])
        self._held, self._n_held = [], 0
        sizes = np.bincount(parts, minlength=N_PARTS)
        sheet = self._scratch.write(rows[np.argsort(parts, kind="stable")])
        self._sheets.append((sheet, np.append(0, np.cumsum(sizes))))
        self._sizes += sizes
