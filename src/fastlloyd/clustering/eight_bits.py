"""Nearest centroid of every record: bytes propose centroids, and integers decide among them.

The copy of a record or centroid in bytes differs from it by a known length. By the inequality of
Cauchy and Schwarz, products of copies show which centroids cannot be the nearest
(docs/proofs/eight-bits.md). If several centroids are left, their exact distances are compared. So
labels are those of exact arithmetic (ties: lowest index).

Shapes, public bounds, centroids and the processor decide whether this way is chosen, and records do
not. A processor with instructions for such products (VNNI) does four to eight of them in the time
of one in float32.
"""

from collections.abc import Iterator
from contextlib import suppress
from functools import cache

import numpy as np
from numpy.typing import NDArray

from fastlloyd.base.arrays import IntArray
from fastlloyd.clustering.filter import BLOCK_CELLS, MOST_FEATURES, Labels, Nearest, relative_error

LEAST_CLUSTERS, LEAST_FEATURES = 256, 64  # from here on it is the faster way
LEAST_RECORDS = 512  # that repay the conversion of the centroids
# of one record whose exact distances are computed, and an eighth of all: with more, float32, which
# proposes fewer, is faster
MOST_CANDIDATES = 64
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
        from fastlloyd.clustering.compiled.byte_products import PANEL, lanes
        from fastlloyd.clustering.compiled.eight_bits import label_rows, pack

        (self.k, d), wide = C.shape, lanes()
        self._width, self._label = (0,) * wide, label_rows[wide]
        self._rows = block_rows or max(64, BLOCK_CELLS // d)
        scale, n = max(1, -(-min(largest, LARGEST) // 127)), -(-self.k // PANEL) * PANEL
        packed = _aligned(n * (-(-d // 4) * 4)).reshape(n // wide, -1, wide, 4)
        terms = _aligned(20 * n).view(np.float32).reshape(5, n)
        small, middle = np.empty(C.shape, dtype=np.int32), np.empty(d, dtype=np.int32)
        rounded = pack[wide](C, float(scale), packed, terms, small, middle, self._width)
        self._packed = packed, terms, small, middle
        self._frame = np.array([scale, rounded, relative_error(d), squared_radius])
        # made whether a record needs it or not, so that the records do not decide about its time
        self._near = Nearest(C, squared_radius, by_feature=False)

    def labels(
        self, Z: NDArray[np.int32], start: int, stop: int
    ) -> Iterator[tuple[int, Labels, int]]:
        """Yield blocks of the records from `start` to `stop`, as `filter.Nearest.labels` does.

        The last entry of a block is the number of its records that float32 decides.
        """
        most = max(1, min(MOST_CANDIDATES, self.k // 8))
        labels, many = np.empty((2, min(self._rows, stop - start)), dtype=np.int32)
        for place in range(start, stop, self._rows):
            block = labels[: stop - place]
            n = self._set(Z, place, most, block, many)
            if n:
                block[many[:n]] = self._of_many(Z[place + many[:n].astype(np.int64)])
            yield place, block, n

    def _set(
        self, Z: NDArray[np.int32], start: int, most: int, labels: Labels, many: Labels
    ) -> int:
        return self._label(
            Z, start, self._packed, self._frame, most, labels, many, self._width
        )  # fmt: skip

    def _of_many(self, Z: NDArray[np.int32]) -> Labels:
        """Return the labels of records with many candidates: by float32, or by exact numbers if
        float32 is not certain.
        """
        labels = np.empty(len(Z), dtype=np.int32)
        if self._near.is_certain:
            for place, found, _ in self._near.labels(Z, 0, len(Z)):
                labels[place : place + len(found)] = found
        else:
            self._set(Z, 0, self.k, labels, labels[:0])
        return labels


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

    The check searches the nearest centroids of records with bytes of 0 and 255, by bytes and by
    float32. Both must find the right labels. The check also compiles all code of the search, so no
    record decides about the time of compiling.
    """
    with suppress(Exception):  # a compiler without this instruction raises its own errors
        from fastlloyd.clustering.compiled.byte_products import lanes

        if not lanes():
            return False
        d = 1029
        C = np.where(np.arange(256)[:, None] > np.arange(d) % 256, 127, -127)
        Z = np.ascontiguousarray(C[::5], dtype=np.int32)
        search = EightBits(C, np.inf, largest=127)
        found = [labels.copy() for _, labels, _ in search.labels(Z, 0, len(Z))]
        right = np.arange(0, 256, 5)
        by_float32 = search._of_many(Z)  # noqa: SLF001
        return np.array_equal(np.concatenate(found), right) and np.array_equal(by_float32, right)
    return False


def _aligned(size: int) -> NDArray[np.int8]:
    """Return zeros at an address that is a multiple of 64, so that no vector crosses a line of the
    cache.
    """
    memory = np.zeros(size + 64, dtype=np.int8)
    first = -memory.ctypes.data % 64
    return memory[first : first + size]
