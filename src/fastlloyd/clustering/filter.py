"""The nearest centroid of every record: float32 proposes it, and exact numbers decide where that leaves a doubt.

The score of a record x and a centroid c is |c|^2 - 2 x.c, which orders centroids as distances do. In float32 it is off by at
most e (|x|^2 + |c|^2), and the margin of a record follows from that (docs/proofs/filter.md). If its two least scores, or its
distance and the radius, are nearer to each other than the margin, the record is in doubt. Then its distances to the centroids
that may be the nearest are worked out exactly. So labels are those of exact arithmetic, ties going to the lowest index, and no
record changes what another costs.
"""

from collections.abc import Iterator
from functools import cache

import numpy as np
from numpy.typing import NDArray

from fastlloyd.base.arrays import IntArray

Labels = NDArray[np.int32]

MOST_FEATURES = 1 << 15  # for the proof
LEAST_FEATURES, MOST_IN_PLACE, MOST_CLUSTERS = 9, 32, 8  # up to here a loop of our own is faster than a matrix product
IN_PLACE_ROWS = 512  # its records: with their scores they stay in the cache
IN_PLACE_CELLS = 1 << 17  # of records that are labelled at once: they are still in the cache when they are added up
PRODUCT_STEPS = 900_000  # of a matrix product: OpenBLAS multiplies in place up to a million, and copies what is larger
PART_CELLS = 1 << 13  # of the records of a product
TURNED_CLUSTERS = 128  # from here on, records that come one after the other are best copied feature by feature
BLOCK_CELLS = 1 << 18  # of the records that are worked on together: a megabyte
SCORE_CELLS = 1 << 17  # of their scores


class Nearest:
    """Centroids C (k, d), int64, that records are compared with; k is the label of a record beyond the squared radius.

    |x - c|^2 < 2**53 for all records x and centroids c. by_feature : how records will lie in memory.
    block_rows : records that are multiplied at once, None for a good number, or for no product where a loop is faster.
    """

    def __init__(self, C: IntArray, squared_radius: float, *, by_feature: bool, block_rows: int | None = None) -> None:
        k, d = C.shape
        self.C, self.squared_radius, self.by_feature = C.astype(np.float64), squared_radius, by_feature
        self.is_turned = not by_feature and k >= TURNED_CLUSTERS
        self.rows, self.parts = (block_rows, 1) if block_rows else _part(d if by_feature or self.is_turned else max(d, 1 << 8))
        self.size = k  # of a chunk of centroids
        if self.rows * k * d > PRODUCT_STEPS:
            chunks = -(-k // max(4, PRODUCT_STEPS // (self.rows * d) // 4 * 4))
            self.size = (-(-k // chunks) + 3) // 4 * 4
        self.width = -(-k // self.size) * self.size  # more centroids stand behind the last, infinitely far away
        self.e = relative_error(d)
        squares = np.einsum("ij,ij->i", self.C, self.C)
        self.most = 4.0 * self.e * float(squares.max())
        self.is_in_place = by_feature and not block_rows and LEAST_FEATURES <= d <= MOST_IN_PLACE and k <= MOST_CLUSTERS
        self.constants = np.full(self.width, np.inf, dtype=np.float32)
        self.constants[:k] = squares * (1.0 - 2.0 * self.e)
        A = np.zeros((self.width, d), dtype=np.float32)
        np.multiply(self.C, -2.0, out=A[:k], casting="same_kind")
        self.A = A.reshape(-1, 1, self.size, d)

    @property
    def is_certain(self) -> bool:
        """Whether the proof holds for so many features, and for matrix products of these shapes here."""
        d = self.C.shape[1]
        if self.is_in_place:
            return True
        return d <= MOST_FEATURES and _float32_is_whole(self.size, d, self.rows, self.by_feature or self.is_turned)

    def labels(self, Z: NDArray[np.int32], start: int, stop: int) -> Iterator[tuple[int, Labels, int]]:
        """Block by block of the records from start to stop: the place of the first, their labels, how many were in doubt.

        Z : int32 (n, d), by feature (d, n), in C order. The next block overwrites the labels.
        """
        return (self._in_place if self.is_in_place else self._by_products)(Z, start, stop)

    def _in_place(self, Z: NDArray[np.int32], start: int, stop: int) -> Iterator[tuple[int, Labels, int]]:
        """All in one compiled loop, some records after the others."""
        from fastlloyd.clustering.compiled.filter import few_labels

        k, d = self.C.shape
        A, constants = np.zeros((k + k % 2, -(-d // 4) * 4), dtype=np.float32), np.full(k + k % 2, np.inf, dtype=np.float32)
        A[:k, :d], constants[:k] = self.A.reshape(-1, d)[:k], self.constants[:k]
        at_once = IN_PLACE_CELLS // d
        labels = np.empty(min(at_once, stop - start), dtype=np.int32)
        for place in range(start, stop, at_once):
            m = min(at_once, stop - place)
            yield place, labels[:m], few_labels(
                Z, place, m, A, constants, self.C, self.squared_radius, self.e, self.most, IN_PLACE_ROWS, labels
            )  # fmt: skip

    def _by_products(self, Z: NDArray[np.int32], start: int, stop: int) -> Iterator[tuple[int, Labels, int]]:
        """By matrix products."""
        from fastlloyd.clustering.compiled.filter import decide, load_features, load_rows, turn_rows

        rows, d = self.rows, self.C.shape[1]
        parts = max(1, min(self.parts, -(-(stop - start) // rows)))
        at_once = max(1, min(parts, SCORE_CELLS // (self.width * rows)))
        squares, labels = np.empty(parts * rows, dtype=np.float32), np.empty(parts * rows, dtype=np.int32)
        scores = np.empty(self.width * at_once * rows, dtype=np.float32)
        if self.by_feature or self.is_turned:
            block = columns = np.empty((parts, d, rows), dtype=np.float32)
            load = load_features if self.by_feature else turn_rows
        else:
            block = np.empty((parts, rows, d), dtype=np.float32)
            load, columns = load_rows, block.transpose(0, 2, 1)
        XT = Z if self.by_feature else Z.T
        for place in range(start, stop, parts * rows):
            m, n_doubts = min(parts * rows, stop - place), 0
            load(Z, place, m, block, squares)
            for p in range(0, -(-m // rows), at_once):
                some = columns[p : min(p + at_once, -(-m // rows))]
                products = scores[: self.width * len(some) * rows].reshape(-1, len(some), self.size, rows)
                np.matmul(self.A, some, out=products)
                n_doubts += decide(
                    XT, place, p * rows, m, products, self.constants, squares, self.C,
                    self.squared_radius, self.e, self.most, labels,
                )  # fmt: skip
            yield place, labels[:m], n_doubts


def relative_error(d: int) -> float:
    """The e of the proof, for d features: more than d + 3 roundings and some for what is done with their result."""
    return (d + 12) * 2.0**-24 * 1.01


def _part(d: int) -> tuple[int, int]:
    """How many records of d features are multiplied at once, and how many times as many are loaded together."""
    rows = max(32, min(512, PART_CELLS >> (d - 1).bit_length()))
    return rows, BLOCK_CELLS // (d * rows)


@cache
def _float32_is_whole(k: int, d: int, rows: int, by_feature: bool) -> bool:
    """Whether products (k, d) (d, rows) round no factor to fewer than 24 bits, as some libraries may, for some shapes.

    Products of odd numbers of 24 bits with one another, all else being 0, must be those of single numbers.
    """
    odd = ((np.arange(k + d * rows) * 0x9E3779B1 % (1 << 22)) * 2 + (1 << 23) + 1).astype(np.float32)
    A, B, features = np.zeros((k, d), dtype=np.float32), odd[k:].reshape(d, rows), np.arange(k) % d
    A[np.arange(k), features] = odd[:k]
    products = np.matmul(A, B if by_feature else np.ascontiguousarray(B.T).T)
    return np.array_equal(products, odd[:k, np.newaxis] * B[features])
