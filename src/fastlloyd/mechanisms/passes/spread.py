"""Number of shares of each row, computed for rows that are read in passes. The numbers equal those
of `mechanisms.spread` bit for bit.

The memory used does not grow with the number of rows. A row is stored on disk as four 64-bit words:
two for the hash of its person's id, one for its own hash, and one for its number. Rows are sorted
into parts by the first byte of the person's hash. A part that is too large is sorted by the next
byte, until the rows of whole persons fit into memory. If one person has too many rows, they are
sorted by the rows' own hash instead. If a person's shares do not divide evenly, some rows get one
share more. Only the rows that may get it are kept.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastlloyd.base.arrays import GridArray, IntArray
from fastlloyd.mechanisms.passes.scratch import (
    N_PARTS,
    Collected,
    NumbersOnDisk,
    Scratch,
    Spill,
    Words,
)
from fastlloyd.mechanisms.spread import numbered_hashes, person_hashes, ranks, row_hashes, spread
from fastlloyd.records.ids import Ids

MOST_ROWS = 1 << 19  # rows that are sorted at once

PERSON, HASH, ROW, WIDTH = slice(2), 2, 3, 4  # positions of the words of a row, and their number
_FIRST_OF_HASH = 16  # of the bytes of a row, after those of the person


class RowsOnDisk(NamedTuple):
    """Rows that are stored on disk.

    n_rows : number of rows.
    pieces : function that returns the words of the rows in pieces, in the order of the rows.
    """

    n_rows: int
    pieces: Callable[[], Iterable[Words]]


def spread_in_passes(
    rows: Iterable[tuple[GridArray, Ids]], key: bytes, weight_bits: int
) -> tuple[NumbersOnDisk, int]:
    """Return the number of shares of each row, and the number of persons, after one pass.

    The results are those of `mechanisms.spread.shares_of`.

    key : key of `mechanisms.spread.spread_key`.
    weight_bits : base-2 logarithm of the number of shares of a person.

    Raises DataError if the disk is full, and any error of the rows' reader.
    """
    scratch = Scratch()
    try:
        n_rows, parts = waiting(scratch, rows, key)
        spreading = Spreading(scratch, Collected(n_rows), weight_bits)
        for part in parts:
            spreading.settle(part, 1)
    finally:
        scratch.close()
    return spreading.shares.on_disk(), spreading.n_persons


def count_persons(ids: Iterable[Ids]) -> int:
    """Return the number of persons, after one pass over the ids of all rows.

    Raises the errors of `spread_in_passes`.
    """
    return spread_in_passes(
        ((np.empty((len(each), 0), dtype=np.int64), each) for each in ids), os.urandom(32), 1
    )[1]


def waiting(
    scratch: Scratch, rows: Iterable[tuple[GridArray, Ids]], key: bytes
) -> tuple[int, Iterator[RowsOnDisk]]:
    """Write the rows to disk in parts, by the first byte of their person's hash.

    Returns the number of rows, and the parts.
    """
    found, n_rows = Spill(scratch, WIDTH), 0
    for X, ids in rows:
        words = np.empty((len(X), WIDTH), dtype=np.uint64)
        words[:, PERSON] = persons = _persons(ids, key)
        words[:, HASH] = row_hashes(persons, X)
        words[:, ROW] = np.arange(n_rows, n_rows + len(X))
        found.add(_byte(words, 0), words)
        n_rows += len(X)
    return n_rows, _parts(found)


def _persons(ids: Ids, key: bytes) -> Words:
    """Return the `person_hashes` of each row. Each person of a block is hashed once."""
    numbers: dict[bytes, int] = {}
    persons = [numbers.setdefault(each, len(numbers)) for each in ids.texts()]
    return person_hashes(list(numbers), key)[persons]


class Spreading:
    """Gives every person the same number of shares, divided among the person's rows.

    The rows are on disk, sorted by the hash of their person.

    shares : receives the number of shares of each row.
    n_persons : number of persons whose rows have been handled so far.
    """

    def __init__(self, scratch: Scratch, shares: Collected, weight_bits: int) -> None:
        self.shares, self.n_persons = shares, 0
        self._scratch, self._bits = scratch, weight_bits

    def settle(self, part: RowsOnDisk, byte: int) -> None:
        """Compute the shares of all rows of a part.

        byte : index of the byte of the person's hash by which a large part is sorted next.
        """
        if part.n_rows <= MOST_ROWS:
            self.n_persons += self.whole_persons(np.concatenate(list(part.pieces())))
        elif _are_equal(part, PERSON):
            self.n_persons += self.one_person(part)
        else:
            for smaller in self._sorted(part, byte):
                self.settle(smaller, byte + 1)

    def whole_persons(self, words: Words) -> int:
        """Compute the number of shares of each row, and return the number of persons.

        words : all rows of some persons, uint64 (n, 4).
        """
        shares, n_persons = spread(words[:, PERSON], words[:, HASH], self._bits)
        self.shares.add(words[:, ROW], shares)
        return n_persons

    def one_person(self, part: RowsOnDisk) -> int:
        """Compute the number of shares of each row of a person with many rows. Return the number of
        persons in the part, 1.

        The shares are divided evenly. If some are left over, the first rows get one more each.
        """
        least, left = divmod(1 << self._bits, part.n_rows)
        for words in part.pieces():
            self.shares.add(words[:, ROW], np.full(len(words), least, dtype=np.uint16))
        first = np.empty((3, 0), dtype=np.uint64)
        for words, numbers in self.numbered(part):
            first = np.concatenate([first, _order(words, numbers)], axis=1)
            first = first[:, np.lexsort(first[::-1])[:left]]
        self.shares.add(first[-1], np.ones(first.shape[1], dtype=np.uint16))
        return 1

    def numbered(
        self, part: RowsOnDisk, byte: int = _FIRST_OF_HASH
    ) -> Iterator[tuple[Words, IntArray]]:
        """Yield the rows of one person in pieces. With each piece come the positions of its rows
        among the rows with the same hash, int64 (n,).

        byte : index of the byte by which a large part is sorted next. The bytes are those of the
            person's hash and of the row's hash.
        """
        if part.n_rows <= MOST_ROWS:
            words = np.concatenate(list(part.pieces()))
            words = words[np.argsort(words[:, HASH], kind="stable")]
            yield words, ranks(words[:, HASH])
        elif _are_equal(part, HASH):
            n = 0
            for words in part.pieces():
                yield words, np.arange(n, n + len(words), dtype=np.int64)
                n += len(words)
        else:
            for smaller in self._sorted(part, byte):
                yield from self.numbered(smaller, byte + 1)

    def _sorted(self, part: RowsOnDisk, byte: int) -> Iterator[RowsOnDisk]:
        """Return the parts into which the rows of a part are sorted by one byte."""
        smaller = Spill(self._scratch, WIDTH)
        for words in part.pieces():
            smaller.add(_byte(words, byte), words)
        return _parts(smaller)


def _parts(spill: Spill) -> Iterator[RowsOnDisk]:
    return (
        RowsOnDisk(n, partial(spill.rows, part))
        for part in range(N_PARTS)
        if (n := spill.size(part))
    )


def _byte(words: Words, byte: int) -> NDArray[np.uint8]:
    """Return one byte of each row. Byte 0 of a word is its highest byte."""
    word, within = divmod(byte, 8)
    return (words[:, word] >> np.uint64(56 - 8 * within)).astype(np.uint8)


def _are_equal(part: RowsOnDisk, of: int | slice) -> bool:
    """Return whether all rows are equal in the columns `of`."""
    first = next(iter(part.pieces()))[0, of]
    return all((words[:, of] == first).all() for words in part.pieces())


def _order(words: Words, numbers: IntArray) -> Words:
    return np.array([numbered_hashes(words[:, HASH], numbers), words[:, HASH], words[:, ROW]])
