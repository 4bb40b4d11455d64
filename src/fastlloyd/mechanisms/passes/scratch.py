"""Encrypted numbers on disk, in a file without a name, which disappears with the process.

A `Spill` sorts rows of numbers into parts. Each part can be read afterwards. A `Collected` receives
a number for each row of records, such as its number of shares, in any order. It returns the numbers
in the order of the rows.
"""

import errno
import os
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from numpy.typing import NDArray

from fastlloyd.errors import DataError

Words = NDArray[np.uint64]
Numbers = NDArray[np.uint16]

N_PARTS = 256
# rows whose numbers are collected at once, where there are at most N_PARTS times as many
SPAN = 1 << 20
HELD_ROWS = 1 << 19  # before they are written: a part then has some kilobytes of each sheet
_BITS = np.uint64(16)  # of a number, beside the row that it belongs to
_NUMBER = np.uint64((1 << 16) - 1)
_KEY_BYTES: Final = 32
_BLOCK: Final = 64  # bytes of keystream that ChaCha20 numbers with 32 bits


class Sheet(NamedTuple):
    """Piece of the file that was written in one step.

    start : position of the first byte in the file.
    number : index of the sheet.
    """

    start: int
    number: int


class Scratch:
    """Encrypted file without a name in the folder for temporary files (TMPDIR).

    Only this object has the key. Each sheet is encrypted by ChaCha20 (RFC 8439) with its number as
    the nonce. `close`, or the end of the object, frees the space. Raises DataError if the disk is
    full or cannot be used.
    """

    def __init__(self) -> None:
        self._key, self._end, self._sheets = os.urandom(_KEY_BYTES), 0, 0
        with _on_disk():
            # open as long as this object is there
            self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
        self.close = weakref.finalize(self, self._file.close)

    def write(self, numbers: NDArray[np.unsignedinteger]) -> Sheet:
        """Append numbers to the file, and return their sheet."""
        sheet = Sheet(self._end, self._sheets)
        hidden = memoryview(
            self._encrypted(sheet, 0, np.ascontiguousarray(numbers).reshape(-1).view(np.uint8))
        )
        with _on_disk():
            self._file.seek(self._end)
            while hidden:
                hidden = hidden[self._file.write(hidden) :]
        self._end, self._sheets = self._end + numbers.nbytes, self._sheets + 1
        return sheet

    def read(self, sheet: Sheet, first: int, n_bytes: int) -> NDArray[np.uint8]:
        """Return `n_bytes` bytes of a sheet, beginning with byte `first`."""
        hidden = np.empty(n_bytes, dtype=np.uint8)
        with _on_disk():
            self._file.seek(sheet.start + first)
            left = hidden.data
            while left:
                n = self._file.readinto(left)
                if not n:
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
                left = left[n:]
        return np.frombuffer(self._encrypted(sheet, first, hidden), dtype=np.uint8)

    def _encrypted(self, sheet: Sheet, first: int, content: NDArray[np.uint8]) -> bytes:
        """Encrypt or decrypt a part of a sheet that begins at byte `first` of the sheet."""
        block, skipped = divmod(first, _BLOCK)
        nonce = block.to_bytes(4, "little") + sheet.number.to_bytes(12, "little")
        stream = Cipher(algorithms.ChaCha20(self._key, nonce), mode=None).encryptor()
        stream.update(bytes(skipped))
        return stream.update(content.data)


class Spill:
    """Rows of `width` words, uint64 (n, width), in N_PARTS parts.

    Each part keeps the order in which its rows were added.
    """

    def __init__(self, scratch: Scratch, width: int) -> None:
        self._scratch, self._width = scratch, width
        self._held: list[tuple[NDArray[np.uint8], Words]] = []
        self._n_held = 0
        # where each part of it begins and the last one ends
        self._sheets: list[tuple[Sheet, NDArray[np.intp]]] = []
        self._sizes = np.zeros(N_PARTS, dtype=np.int64)

    def add(self, parts: NDArray[np.uint8], rows: Words) -> None:
        """Add rows.

        parts : index of the part for each row, uint8 (n,).
        """
        self._held.append((parts, rows))
        self._n_held += len(rows)
        if self._n_held >= HELD_ROWS:
            self._write()

    def size(self, part: int) -> int:
        """Return the number of rows of a part."""
        self._write()
        return int(self._sizes[part])

    def rows(self, part: int) -> Iterator[Words]:
        """Yield the rows of a part in pieces of at most HELD_ROWS.

        It may be called again, but no rows may be added afterwards.
        """
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


class NumbersOnDisk:
    """One number for each of the rows 0, 1, ..., on disk. Each span of rows is one sheet."""

    def __init__(self, scratch: Scratch, sheets: list[Sheet], span: int) -> None:
        self._scratch, self._sheets, self._span = scratch, sheets, span

    def of(self, first: int, n: int) -> Numbers:
        """Return the numbers stored for n rows, from row `first` onwards, uint16 (n,)."""
        parts, stop = [np.empty(0, dtype=np.uint8)], first + n
        while first < stop:
            at, within = divmod(first, self._span)
            n = min(stop - first, self._span - within)
            parts.append(self._scratch.read(self._sheets[at], 2 * within, 2 * n))
            first += n
        return np.concatenate(parts).view(np.uint16)


class Collected:
    """Collector of one number for each row. Each number begins at 0, and the numbers that are added
    to a row are summed.
    """

    def __init__(self, n_rows: int) -> None:
        self._n_rows, self._span = n_rows, max(SPAN, -(-n_rows // N_PARTS))
        self._found = Spill(Scratch(), 1)

    def add(self, rows: NDArray[np.uint64], numbers: Numbers) -> None:
        """Add numbers to rows.

        rows : index of the row for each number, uint64 (n,).
        """
        parts = (rows // np.uint64(self._span)).astype(np.uint8)
        self._found.add(parts, (rows << _BITS | numbers)[:, np.newaxis])

    def on_disk(self) -> NumbersOnDisk:
        """Return the numbers of all rows in order, stored on disk."""
        scratch, sheets = Scratch(), list[Sheet]()
        for part, first in enumerate(range(0, self._n_rows, self._span)):
            numbers = np.zeros(min(self._span, self._n_rows - first), dtype=np.uint16)
            for words in self._found.rows(part):
                rows = (words[:, 0] >> _BITS) - np.uint64(first)
                np.add.at(numbers, rows, (words[:, 0] & _NUMBER).astype(np.uint16))
            sheets.append(scratch.write(numbers))
        return NumbersOnDisk(scratch, sheets, self._span)


@contextmanager
def _on_disk() -> Iterator[None]:
    """Convert errors of the file system to DataError."""
    try:
        yield
    except OSError as error:
        folder = tempfile.gettempdir() if tempfile.tempdir else "the folder for temporary files"
        reason = (
            "is full"
            if error.errno in (errno.ENOSPC, errno.EDQUOT)
            else f"cannot be used ({error.strerror})"
        )
        raise DataError(
            f"{folder} {reason}, and a run that protects persons needs about 45 bytes there for"
            " each record; make room, or name another folder in TMPDIR, and start again"
        ) from None
