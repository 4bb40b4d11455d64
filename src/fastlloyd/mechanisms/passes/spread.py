"""Shares of rows that are read in passes: those of `mechanisms.spread`, bit for bit, in memory that does not grow with them.

A row waits on disk as four words: the 128 bits of its person, its 64-bit hash, its number. Rows are sorted into parts by the
first byte of the person, and a part that is still too large by the next byte, until the rows of whole persons fit into memory.
No byte of the person divides the rows of one person: they are sorted into parts by their hash, and of each part no more rows
are kept than could have a share more than the others.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastlloyd.base.arrays import IntArray
from fastlloyd.clustering.domain import GridArray
from fastlloyd.mechanisms.passes.scratch import Scratch, Words
from fastlloyd.mechanisms.passes.shares import Collected, SharesOnDisk
from fastlloyd.mechanisms.passes.spill import N_PARTS, Spill
from fastlloyd.mechanisms.spread import numbered_hashes, person_hashes, ranks, row_hashes, spread
from fastlloyd.records.ids import Ids

MOST_ROWS = 1 << 19  # sorted at once

_PERSON, _HASH, _ROW, _WIDTH = slice(2), 2, 3, 4  # the words of a row
_FIRST_OF_HASH = 16  # of the bytes of a row, after those of the person


class Part(NamedTuple):
    """Rows that wait on disk: how many, and their words in pieces, in the order of their numbers, as often as asked."""

    n_rows: int
    pieces: Callable[[], Iterable[Words]]


def spread_in_passes(rows: Iterable[tuple[GridArray, Ids]], key: bytes, weight_bits: int) -> tuple[SharesOnDisk, int]:
    """The shares of each row, in one pass, and how many persons there are: as `mechanisms.spread.shares_of`.

    Raises what reading the rows raises, and DataError where the disk is full.
    """
    scratch = Scratch()
    try:
        n_rows, waiting = _waiting(scratch, rows, key)
        spreading = _Spreading(scratch, Collected(n_rows), weight_bits)
        n_persons = sum(spreading.settle(part, 1) for part in _parts(waiting))
    finally:
        scratch.close()
    return spreading.found.on_disk(), n_persons


def _waiting(scratch: Scratch, rows: Iterable[tuple[GridArray, Ids]], key: bytes) -> tuple[int, Spill]:
    """How many rows there are; they wait in parts by the first byte of their person."""
    waiting, n_rows = Spill(scratch, _WIDTH), 0
    for X, ids in rows:
        words = np.empty((len(X), _WIDTH), dtype=np.uint64)
        words[:, _PERSON] = persons = _persons(ids, key)
        words[:, _HASH] = row_hashes(persons, X)
        words[:, _ROW] = np.arange(n_rows, n_rows + len(X))
        waiting.add(_byte(words, 0), words)
        n_rows += len(X)
    return n_rows, waiting


def _persons(ids: Ids, key: bytes) -> Words:
    """The `person_hashes` of each row; each person of a block is hashed once."""
    numbers: dict[bytes, int] = {}
    persons = [numbers.setdefault(each, len(numbers)) for each in ids.texts()]
    return person_hashes(list(numbers), key)[persons]


class _Spreading:
    """Spreads the shares of persons whose rows wait on disk; found : where they are collected."""

    def __init__(self, scratch: Scratch, found: Collected, weight_bits: int) -> None:
        self.found, self._scratch, self._bits = found, scratch, weight_bits

    def settle(self, part: Part, byte: int) -> int:
        """Find the shares of all rows of a part, and how many persons it has; byte : of the person, the next one to sort by."""
        if part.n_rows <= MOST_ROWS:
            return self._whole_persons(part)
        if _are_equal(part, _PERSON):
            self._one_person(part)
            return 1
        return sum(self.settle(smaller, byte + 1) for smaller in self._sorted(part, byte))

    def _whole_persons(self, part: Part) -> int:
        words = np.concatenate(list(part.pieces()))
        shares, n_persons = spread(words[:, _PERSON], words[:, _HASH], self._bits)
        self.found.add(words[:, _ROW], shares)
        return n_persons

    def _one_person(self, part: Part) -> None:
        """All rows have the same number of shares, but for one more of those that come first."""
        least, left = divmod(1 << self._bits, part.n_rows)
        for words in part.pieces():
            self.found.add(words[:, _ROW], np.full(len(words), least, dtype=np.uint16))
        first = np.empty((3, 0), dtype=np.uint64)
        for more in self._ordered(part, _FIRST_OF_HASH):
            first = np.concatenate([first, more], axis=1)
            first = first[:, np.lexsort(first[::-1])[:left]]
        self.found.add(first[-1], np.ones(first.shape[1], dtype=np.uint16))

    def _ordered(self, part: Part, byte: int) -> Iterator[Words]:
        """What the rows of one person are ordered by, uint64 (3, n): numbered hashes, hashes and numbers of rows."""
        if part.n_rows <= MOST_ROWS:
            words = np.concatenate(list(part.pieces()))
            words = words[np.argsort(words[:, _HASH], kind="stable")]
            yield _order(words, ranks(words[:, _HASH]))
        elif _are_equal(part, _HASH):
            n = 0
            for words in part.pieces():
                yield _order(words, np.arange(n, n + len(words), dtype=np.int64))
                n += len(words)
        else:
            for smaller in self._sorted(part, byte):
                yield from self._ordered(smaller, byte + 1)

    def _sorted(self, part: Part, byte: int) -> Iterator[Part]:
        """The rows of a part in parts by a byte."""
        smaller = Spill(self._scratch, _WIDTH)
        for words in part.pieces():
            smaller.add(_byte(words, byte), words)
        return _parts(smaller)


def _parts(spill: Spill) -> Iterator[Part]:
    return (Part(n, partial(spill.rows, part)) for part in range(N_PARTS) if (n := spill.size(part)))


def _byte(words: Words, byte: int) -> NDArray[np.uint8]:
    """A byte of each row, the first one of a word being its highest."""
    word, within = divmod(byte, 8)
    return (words[:, word] >> np.uint64(56 - 8 * within)).astype(np.uint8)


def _are_equal(part: Part, of: int | slice) -> bool:
    """Whether all rows have the same words of that kind."""
    first = next(iter(part.pieces()))[0, of]
    return all((words[:, of] == first).all() for words in part.pieces())


def _order(words: Words, numbers: IntArray) -> Words:
    return np.array([numbered_hashes(words[:, _HASH], numbers), words[:, _HASH], words[:, _ROW]])
