"""Fingerprints of records. They show whether a run uses exactly the records of an earlier run.

The key of the hash never leaves the file of fingerprints (`fingerprint_file`). The fingerprint does
not depend on the order of the records or columns, or on the sizes of blocks. It only shows whether
records are equal. If one bit changes, the fingerprint differs, so it does not detect an owner who
changes a bit in order to use the records again.
"""

import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fastlloyd.base.arrays import RealArray
from fastlloyd.base.randomness import derive, keystream, length_prefixed
from fastlloyd.mechanisms.spread import person_hashes
from fastlloyd.records.table import ColumnBlock, ids_of

_LABEL = b"fastlloyd/v2/fingerprint"
_PERSONS_LABEL = b"fastlloyd/v1/fingerprint/persons"
_LANES: Final = 4
_SPAN: Final = 1 << 13  # number of records whose lanes fit into a core's cache
_HALF, _LOW = np.uint64(32), np.uint64(2**32 - 1)

Words = NDArray[np.uint64]
Block = RealArray | ColumnBlock


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Fingerprint of a set of records.

    digest : `RecordsHash` of the records, 32 bytes. It does not depend on ids.
    of_persons : `PersonsHash` of the records and their ids, 32 bytes, or None without ids.
    """

    digest: bytes
    of_persons: bytes | None = None

    def has_records_of(self, other: "Fingerprint") -> bool:
        """Return whether both fingerprints were made of exactly the same records, under the same
        key.
        """
        return hmac.compare_digest(other.digest, self.digest)

    def goes_on_with(self, begun: "Fingerprint") -> bool:
        """Return whether a run that was begun with `begun` has exactly these records and ids.


        If an id changed in the middle of a run, the weights (shares) of a person's rows would
        change.
        """
        return self.has_records_of(begun) and hmac.compare_digest(
            begun.of_persons or b"", self.of_persons or b""
        )


class Lanes:
    """Function that adds up the four hash words (lanes) of records, which `RecordsHash` defines.
    Its keys are derived from the key of the hash and do not reveal it.

    Parameters
    ----------
    key : key of the file of fingerprints, 32 bytes.
    order : positions of the columns in a block, in the order of the hash.
    label : label from which the keys are derived.
    """

    __slots__ = ("_high", "_low", "_odd", "_order")

    def __init__(
        self, key: bytes, order: Sequence[int], label: bytes = _LABEL, n_words: int = 0
    ) -> None:
        """Derive the keys of the lanes.

        n_words : number of words of a record in addition to its cells.
        """
        d = len(order) + n_words
        drawn = np.frombuffer(keystream(key, label, 8 * _LANES * (2 * d + 2)), dtype="<u8").reshape(
            _LANES, -1
        )
        self._low, self._high, self._odd = (
            drawn[:, :d] & _LOW,
            drawn[:, d : 2 * d] & _LOW,
            drawn[:, 2 * d :] | np.uint64(1),
        )
        self._order = tuple(order)

    def __call__(self, block: Block, *words: Words) -> Words:
        """Return the sum of each of the four lanes (`RecordsHash`) over a block of records, modulo
        2**64, uint64 (4,).

        block : records (n, number of columns), float32 or float64, in original units.
        words : words of the records in addition to their cells, one array uint64 (n,) for each of
            `n_words`.
        """
        columns = block.arrays if isinstance(block, ColumnBlock) else block.T
        sums = np.zeros(_LANES, dtype=np.uint64)
        for start in range(0, len(block), _SPAN):
            span = slice(start, start + _SPAN)
            sums += self._lanes(
                [*(_bits(columns[at][span]) for at in self._order), *(word[span] for word in words)]
            )
        return sums

    def _lanes(self, columns: Sequence[Words]) -> Words:
        """Return the sums of the lanes of all records in these columns, modulo 2**64, uint64
        (4,).
        """
        lanes = np.zeros((_LANES, len(columns[0])), dtype=np.uint64)
        left, right = np.empty((2, len(columns[0])), dtype=np.uint64)
        for bits, lows, highs in zip(columns, self._low.T, self._high.T, strict=True):
            low, high = bits & _LOW, bits >> _HALF
            for lane, a, b in zip(lanes, lows, highs, strict=True):
                np.add(low, a, out=left)
                np.add(high, b, out=right)
                np.multiply(left, right, out=left)
                np.add(lane, left, out=lane)
        for odd in self._odd.T:
            lanes ^= lanes >> _HALF
            lanes *= odd[:, np.newaxis]
        lanes ^= lanes >> _HALF
        return np.asarray(lanes.sum(axis=1, dtype=np.uint64))


def _bits(cells: RealArray) -> Words:
    with np.errstate(invalid="ignore"):  # other checks refuse cells that are not numbers
        return (cells.astype(np.float64) + 0.0).view(np.uint64)  # adding 0.0 turns -0.0 into 0.0


class RecordsHash:
    """Keyed hash of a multiset of records. Records are added in blocks of any size and in any
    order.

    A record becomes four numbers modulo 2**64, its lanes. The lanes are summed over the records,
    and HMAC-SHA256 binds the sums to the columns and the number of records. Let l and h be the
    halves of a cell's 64 bits. A lane is the sum of (l + a)(h + b) over the columns, where a and b
    are keys of 32 bits each (NH: Black et al., UMAC, CRYPTO 1999). So two different records have
    the same lanes with a probability of at most 2**-128. A one-to-one function mixes each lane
    before the sum. Without it, records that swap the cells of a column would have the same sums.

    Parameters
    ----------
    key : key of the file of fingerprints, 32 bytes.
    columns : names of the cells of a record, in the order of the blocks.
    """

    _label, _n_words = _LABEL, 0

    def __init__(self, key: bytes, columns: Sequence[str]) -> None:
        self._key, self._columns, self._order = (
            key,
            columns,
            sorted(range(len(columns)), key=columns.__getitem__),
        )
        self.lanes = Lanes(key, self._order, self._label, self._n_words)
        self._n, self._sums = 0, np.zeros(_LANES, dtype=np.uint64)

    def add(self, block: Block) -> None:
        """Add records (n, number of columns), float32 or float64, in original units."""
        self.add_sums(self.lanes(block), len(block))

    def add_sums(self, sums: Words, n: int) -> None:
        """Add `n` records, given the sums of their lanes (`Lanes`), which were computed
        elsewhere.
        """
        self._sums += sums
        self._n += n

    def digest(self) -> bytes:
        """Return the fingerprint of all added records, 32 bytes."""
        names = length_prefixed(*(self._columns[at].encode() for at in self._order))
        shape = len(self._columns).to_bytes(8, "big") + self._n.to_bytes(8, "big")
        return hmac.digest(
            self._key, self._label + shape + names + self._sums.astype("<u8").tobytes(), "sha256"
        )


class PersonsHash(RecordsHash):
    """Keyed hash of records and their persons. Each record has two more words: the 128-bit hash of
    its id.
    """

    _label, _n_words = _PERSONS_LABEL, 2

    def add(self, block: Block) -> None:
        """Add records with their ids."""
        ids = ids_of(block)
        texts = [] if ids is None else ids.texts()
        self.add_sums(
            self.lanes(block, *person_hashes(texts, derive(self._key, self._label)).T), len(block)
        )
