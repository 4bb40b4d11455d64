"""Nearest centroid of every record: float32 proposes a centroid. If it may be wrong, exact numbers
decide.

The score of a record x and a centroid c is |c|^2 - 2 x.c, which orders centroids as distances do.
In float32 its error is at most e (|x|^2 + |c|^2), and the margin of a record follows from this
bound (docs/proofs/filter.md). A record is doubtful if its two smallest scores differ by less than
the margin. It is also doubtful if its squared distance and the squared radius differ by less than
the margin. The distances of a doubtful record are computed exactly (`compiled/doubts.py`). So
labels are those of exact arithmetic (ties: lowest index), and no record changes the cost of
another.
"""

from collections.abc import Iterator
from functools import cache

import numpy as np
from numpy.typing import NDArray

from fastlloyd.base.arrays import IntArray

Labels = NDArray[np.int32]

MOST_FEATURES = 1 << 15  # for the proof
# of a matrix product: OpenBLAS multiplies in place up to a million, and copies what is larger
PRODUCT_STEPS = 900_000
PART_CELLS = 1 << 13  # of the records of a product, or twice as many where clusters are few
FEW_CLUSTERS = 16
# from here on, records that come one after the other are best copied feature by feature
TURNED_CLUSTERS = 128
# up to here, a product has room for 64 of them and eight centroids
TURNED_FEATURES = PRODUCT_STEPS >> 9
BLOCK_CELLS = 1 << 18  # of the records that are worked on together: a megabyte
SCORE_CELLS = 1 << 17  # of their scores


class Exact:
    """Centroids C and their squared norms in float64, padded as `compiled/doubts.py` needs them.

    k : number of centroids without padding.
    """

    def __init__(self, C: IntArray) -> None:
        self.k, d = C.shape
        self.C = np.zeros((self.k + self.k % 2, 4 if d <= 4 else (d + 7) // 8 * 8))
        self.norms = np.full(len(self.C), np.inf)
        self.C[: self.k, :d] = C
        self.norms[: self.k] = np.einsum("ij,ij->i", self.C[: self.k], self.C[: self.k])


class Nearest:
    """Search for the centroid that is nearest to each record. The label of a record beyond the
    radius is k, the number of centroids.

    (|x| + |c|)^2 < 2**53 must hold for all records x and centroids c.

    C : centroids, int64 (k, d).
    squared_radius : square of the radius.
    by_feature : whether records are stored feature by feature.
    block_rows : number of records that are processed together, or None for the default.
    """

    def __init__(
        self, C: IntArray, squared_radius: float, *, by_feature: bool, block_rows: int | None = None
    ) -> None:
        k, d = C.shape
        self.k, self.squared_radius, self.by_feature, self.exact = (
            k,
            squared_radius,
            by_feature,
            Exact(C),
        )
        self.is_turned = not by_feature and k >= TURNED_CLUSTERS
        if block_rows:
            self.rows, self.parts = block_rows, 1
        elif self.is_turned:
            self.rows, self.parts = _part(k, d, 64 if d <= TURNED_FEATURES else 32)
        else:
            self.rows, self.parts = _part(k, d if by_feature else max(d, 1 << 8), 32)
        self.size = k  # of a chunk of centroids
        if self.rows * k * d > PRODUCT_STEPS:
            chunks = -(-k // max(4, PRODUCT_STEPS // (self.rows * d) // 4 * 4))
            self.size = (-(-k // chunks) + 3) // 4 * 4
        # more centroids stand behind the last, infinitely far away
        self.width = -(-k // self.size) * self.size
        self.e = relative_error(d)
        self.most = 4.0 * self.e * float(self.exact.norms[:k].max())
        self.constants = np.full(self.width, np.inf, dtype=np.float32)
        self.constants[:k] = self.exact.norms[:k] * (1.0 - 2.0 * self.e)
        A = np.zeros((self.width, d), dtype=np.float32)
        A[:k] = C
        A *= np.float32(-2)
        self.A = A.reshape(-1, 1, self.size, d)

    @property
    def is_certain(self) -> bool:
        """Return whether the proof holds for this number of features, and for matrix products of
        these shapes on this machine.
        """
        d = self.A.shape[-1]
        return d <= MOST_FEATURES and _float32_is_whole(
            self.size, d, self.rows, self.by_feature or self.is_turned
        )

    def labels(
        self, Z: NDArray[np.int32], start: int, stop: int
    ) -> Iterator[tuple[int, Labels, int]]:
        """Yield blocks of the records from `start` to `stop`.

        A block consists of the position of its first record, its labels, and the number of doubtful
        records. The next block overwrites the labels.

        Z : records, int32 (n, d), or (d, n) if stored feature by feature, in C order.
        """
        from fastlloyd.clustering.compiled.doubts import decide_rows
        from fastlloyd.clustering.compiled.filter import (
            load_features,
            load_rows,
            propose,
            turn_rows,
        )

        rows, d = self.rows, Z.shape[0 if self.by_feature else 1]
        parts = max(1, min(self.parts, -(-(stop - start) // rows)))
        at_once = max(1, min(parts, SCORE_CELLS // (self.width * rows)))
        squares, limits = np.empty((2, parts * rows), dtype=np.float32)
        labels, doubtful = np.empty((2, parts * rows), dtype=np.int32)
        scores = np.empty(self.width * at_once * rows, dtype=np.float32)
        if self.by_feature or self.is_turned:
            block = columns = np.empty((parts, d, rows), dtype=np.float32)
            load = load_features if self.by_feature else turn_rows
        else:
            block = np.empty((parts, rows, d), dtype=np.float32)
            load, columns = load_rows, block.transpose(0, 2, 1)
        for place in range(start, stop, parts * rows):
            m, n = min(parts * rows, stop - place), 0
            load(Z, place, m, block, squares)
            for p in range(0, -(-m // rows), at_once):
                some, before = columns[p : min(p + at_once, -(-m // rows))], n
                products = scores[: self.width * len(some) * rows].reshape(
                    -1, len(some), self.size, rows
                )
                np.matmul(self.A, some, out=products)
                n = propose(
                    p * rows, m, products, self.constants, squares, self.k, self.squared_radius,
                    self.e, self.most,
                    labels, limits, doubtful, n,
                )  # fmt: skip
                if not self.by_feature:
                    decide_rows(
                        Z, place, doubtful[before:n], p * rows, products, self.constants, limits,
                        self.exact.C, self.k,
                        self.squared_radius, labels,
                    )  # fmt: skip
            if self.by_feature:
                decide(Z, place, doubtful[:n], self.exact, self.squared_radius, labels)
            yield place, labels[:m], n


def decide(
    XT: NDArray[np.int32],
    start: int,
    doubtful: Labels,
    of: Exact,
    squared_radius: float,
    labels: Labels,
) -> None:
    """Set the labels of doubtful records exactly.

    The records are XT[:, start + i] for each i in `doubtful`.

    of : centroids.
    """
    from fastlloyd.clustering.compiled.doubts import ASIDE, decide_columns

    width = min(of.C.shape[1], max(ASIDE))
    decide_columns[width](
        XT,
        start,
        doubtful,
        of.C,
        of.norms,
        of.k,
        squared_radius,
        labels,
        ASIDE[width],
        (0,) * width,
    )


def relative_error(d: int) -> float:
    """Return the bound e of docs/proofs/filter.md for d features.

    It is large enough for the d + 3 roundings of each product of two coordinates, and for all
    further roundings in the proof.
    """
    return (d + 12) * 2.0**-24 * 1.01


def _part(k: int, d: int, least: int) -> tuple[int, int]:
    """Return the number of records that one matrix product includes, and the number of products in
    a block.

    k, d : number of centroids, and number of features.
    least : smallest number of records.
    """
    cells = PART_CELLS * 2 if k <= FEW_CLUSTERS else PART_CELLS
    rows = max(least, min(512, cells >> (d - 1).bit_length()))
    return rows, BLOCK_CELLS // (d * rows)


@cache
def _float32_is_whole(k: int, d: int, rows: int, by_feature: bool) -> bool:
    """Return whether products (k, d) (d, rows) keep all 24 bits of every factor.

    Some libraries round factors to fewer bits for some shapes. So products of odd numbers of 24
    bits, with all other entries 0, must equal those of single numbers.
    """
    odd = ((np.arange(k + d * rows) * 0x9E3779B1 % (1 << 22)) * 2 + (1 << 23) + 1).astype(
        np.float32
    )
    A, B, features = np.zeros((k, d), dtype=np.float32), odd[k:].reshape(d, rows), np.arange(k) % d
    A[np.arange(k), features] = odd[:k]
    products = np.matmul(A, B if by_feature else np.ascontiguousarray(B.T).T)
    return np.array_equal(products, odd[:k, np.newaxis] * B[features])
