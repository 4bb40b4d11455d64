"""Nearest centroid of every record: bytes propose centroids, and integers decide among them.

The copy of a record or centroid in bytes differs from it by a vector of known norm. By the
inequality of Cauchy and Schwarz, products of copies show which centroids cannot be the nearest
(docs/proofs/eight-bits.md). If many centroids are left, products in float32 leave fewer. If several
are left, their exact distances are compared. So labels are those of exact arithmetic (ties: lowest
index).

Shapes, public bounds, centroids and the processor decide whether this way is chosen, and records do
not. A processor with instructions for such products (VNNI) does four to eight of them in the time
of one in float32.
"""

from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastlloyd.base.arrays import IntArray
from fastlloyd.clustering.filter import BLOCK_CELLS, MOST_FEATURES, Labels, Nearest, relative_error

_Floats = NDArray[np.float32]

LEAST_CLUSTERS, LEAST_FEATURES = 256, 64  # from here on it is the faster way
LEAST_RECORDS = 512  # that repay the conversion of the centroids
# of one record whose exact distances are computed, and an eighth of all: with more, products in
# float32, which leave fewer candidates, are faster
MOST_CANDIDATES = 64
BYTE_CELLS, BOUND_CELLS, MOST_ROWS = 24 << 10, 1 << 16, 96  # of a group of records
LARGEST = 1 << 27  # coordinate, more than any whose squares are exact


class EightBits:
    """Search for the centroid that is nearest to each record. Its interface is that of
    `filter.Nearest`.

    C : centroids, int64 (k, d).
    squared_radius : square of the radius.
    largest : largest absolute coordinate of records. A wrong number costs time only.
    block_rows : number of records that are processed together, or None for the default.
    """

    by_feature = False
    is_certain = True

    def __init__(
        self,
        C: IntArray,
        squared_radius: float,
        *,
        largest: int,
        block_rows: int | None = None,
    ) -> None:
        from fastlloyd.clustering.compiled.byte_products import PANEL, ROWS, lanes
        from fastlloyd.clustering.compiled.eight_bits import label_rows, pack

        (self.k, d), wide = C.shape, lanes()
        self._width, self._label = (0,) * wide, label_rows[wide]
        self._rows = block_rows or max(64, BLOCK_CELLS // d)
        scale, n = max(1, -(-min(largest, LARGEST) // 127)), -(-self.k // PANEL) * PANEL
        packed = _aligned(n * (-(-d // 4) * 4)).reshape(n // wide, -1, wide, 4)
        # made whether a record needs it or not, so that the records do not decide about its time
        floats = _floats(n // wide, d * wide).reshape(-1, d, wide)
        terms, float_terms, small = _floats(5, n), _floats(5, n), np.empty(C.shape, dtype=np.int32)
        middle = (C.sum(axis=0) // self.k).astype(np.int32)
        self._packed = packed, terms, floats, float_terms, small, middle
        rounded = pack[wide](C, float(scale), relative_error(d), self._packed, self._width)
        cells = 4 * packed.shape[1]
        group = max(1, min(MOST_ROWS, BYTE_CELLS // cells, BOUND_CELLS // n) // ROWS) * ROWS
        # of a group of records: bytes, float32, bounds, best bounds, and margins
        self._shapes = (group, cells), (group, d), (group, n), (group, wide), (group, 2)
        self._candidates = self.k + PANEL
        self._frame = np.array([scale, rounded, relative_error(d), squared_radius])

    def labels(
        self, Z: NDArray[np.int32], start: int, stop: int
    ) -> Iterator[tuple[int, Labels, int]]:
        """Yield blocks of the records from `start` to `stop`, as `filter.Nearest.labels` does.

        The last entry of a block is the number of its records for which float32 proposes centroids.
        """
        most = max(1, min(MOST_CANDIDATES, self.k // 8))
        labels, many = np.empty((2, min(self._rows, stop - start)), dtype=np.int32)
        scratch = self._scratch()
        for place in range(start, stop, self._rows):
            block = labels[: stop - place]
            yield place, block, self._set(Z, place, most, scratch, block, many)

    def _scratch(self) -> tuple[NDArray[Any], ...]:
        """Return memory for a group of records."""
        (group, cells), *others = self._shapes
        return (
            _aligned(group * cells).view(np.uint8).reshape(group, cells),
            *(_floats(*shape) for shape in others),
            np.empty(group),
            np.empty(self._candidates, dtype=np.int64),
        )

    def _set(
        self,
        Z: NDArray[np.int32],
        start: int,
        most: int,
        scratch: tuple[NDArray[Any], ...],
        labels: Labels,
        many: Labels,
    ) -> int:
        return self._label(
            Z, start, self._packed, self._frame, most, scratch, labels, many, self._width
        )  # fmt: skip

    def finds_by_exact_products(self, Z: NDArray[np.int32], right: Labels) -> bool:
        """Return whether labels and products of a group of records are right, in bytes and in
        float32.

        Records and centroids are bytes with d 127^2 < 2^24, and the mean of the centroids is 0.
        There is no search afterwards: products take the place of bounds, half of those of bytes
        with 2^31 added, where sums wrap. In float32, records are signs, so sums of 14-bit centroids
        are exact.

        right : labels of the records.
        """
        from fastlloyd.clustering.compiled.eight_bits import FEW_RECORDS

        _, terms, floats, float_terms, C, _ = self._packed
        scratch, (labels, many) = self._scratch(), np.empty((2, len(Z)), dtype=np.int32)
        for most in (self.k, -1):
            labels[:] = self.k
            self._set(Z, 0, most, scratch, labels, many)
            if not np.array_equal(labels, right):
                return False
        terms[1:] = float_terms[1:] = [[1], [0], [0], [0]]
        signs = Z // 127
        floats *= 129  # 14 bits, more than any short form of float32 has
        self._set(signs, 0, -1, scratch, labels, many)
        if not np.array_equal(scratch[2][: len(Z) - FEW_RECORDS], signs[FEW_RECORDS:] @ C.T * 129):
            return False
        exact = np.rint(Z.astype(np.float64) @ C.T).astype(np.int32)
        exact[:, ::2] ^= np.int32(-1 << 31)
        terms[0].view(np.int32)[::2] ^= np.int32(-1 << 31)
        self._set(Z, 0, self.k, scratch, labels, many)
        return np.array_equal(scratch[2][: len(Z)], exact.astype(np.float32))


Search = Nearest | EightBits


def bytewise(
    C: IntArray,
    squared_radius: float,
    n: int,
    limits: IntArray | None,
    block_rows: int | None,
) -> EightBits | None:
    """Return the search by bytes if it is the fastest for n records that are stored row by row,
    otherwise None.

    limits : largest absolute coordinates of records, or None if they are not known.
    """
    if (
        limits is None
        or n < LEAST_RECORDS
        or len(C) < LEAST_CLUSTERS
        or not LEAST_FEATURES <= C.shape[1] <= MOST_FEATURES
        or not is_exact()
    ):
        return None
    return EightBits(C, squared_radius, largest=int(limits.max()), block_rows=block_rows)


@cache
def is_exact() -> bool:
    """Return whether this processor has an instruction for products of bytes, and the compiler uses
    it as the proof requires.

    The check multiplies bytes from -127 to 127, random and largest ones, and searches nearest
    centroids by bytes and by float32. The check also compiles all code of the search, so no record
    decides about the time of compiling.
    """
    with suppress(Exception):  # a compiler without this instruction raises its own errors
        from fastlloyd.clustering.compiled.byte_products import lanes

        if not lanes():
            return False
        words = np.arange(128 * 517, dtype=np.uint32).reshape(128, 517) * np.uint32(0x9E3779B1)
        words = (words ^ words >> np.uint32(16)) * np.uint32(0x85EBCA6B)
        half = (words >> np.uint32(24)).astype(np.int64) % 255 - 127
        half[::2] = np.where(half[::2] < 0, -127, 127)
        half[0] = half[:, 0] = 127
        C = np.concatenate([half, -half])
        search = EightBits(C, np.inf, largest=127)
        right = np.arange(32, dtype=np.int32) * 37 % 256
        return search.finds_by_exact_products(C[right].astype(np.int32), right)
    return False


def _floats(rows: int, columns: int) -> _Floats:
    return _aligned(4 * rows * columns).view(np.float32).reshape(rows, columns)


def _aligned(size: int) -> NDArray[np.int8]:
    """Return zeros at an address that is a multiple of 64, so that no vector crosses a line of the
    cache.
    """
    memory = np.zeros(size + 64, dtype=np.int8)
    first = -memory.ctypes.data % 64
    return memory[first : first + size]
