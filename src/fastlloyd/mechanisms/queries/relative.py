"""What an algorithm may ask of the records: sums over records, with exact integer sensitivities.

A query turns records into one int64 matrix. In a round of the clustering it is (n_clusters, n_features + 1): per cluster a sum
in grid units and, in the last column, a count on a grid of 2**-count_bits records. For the loss it is one number. Answers of
disjoint sets of records add up to the answer of their union. (Departs from the paper, which scales counts by 2**16 like sums.)

Neighbouring relation of every sensitivity below: one record added or removed. Such a record touches one row only.
"""

import hashlib
import math
from typing import Protocol

import msgspec
import numpy as np

from fastlloyd.base.arrays import IntArray
from fastlloyd.clustering import kernels
from fastlloyd.clustering.domain import Domain, GridArray


class Query(Protocol):
    """A linear query over records."""

    @property
    def digest(self) -> bytes:
        """SHA-256 of all it depends on beside the plan, 32 bytes: it is bound into the masks of its answer."""

    def evaluate(self, X: GridArray) -> IntArray:
        """The exact answer for grid points X, int32 or int64 (n, n_features): an int64 matrix."""


class RelativeMoments(msgspec.Struct, frozen=True):
    """Offsets from the nearest centroid, summed over the records within the radius, and their counts (Section 5.1).

    limits : B_i of each feature, int64 (n_features,), which tells `kernels` the range of records; None: any domain's.
    """

    centroids: IntArray
    squared_radius: int
    count_bits: int = 0
    limits: IntArray | None = None

    @property
    def digest(self) -> bytes:
        """Of the centroids."""
        return centroids_digest(self.centroids)

    def evaluate(self, X: GridArray) -> IntArray:
        """Relative sums and counts of the records within the radius."""
        sums, counts = kernels.cluster_statistics(X, self.centroids, self.squared_radius, limits=self.limits)
        return np.column_stack([sums, counts << self.count_bits])


class Moments(msgspec.Struct, frozen=True):
    """Sums of the records nearest to each centroid, and their counts: the query of Su et al. and of GLloyd.

    limits : as above.
    """

    centroids: IntArray
    count_bits: int = 0
    limits: IntArray | None = None

    @property
    def digest(self) -> bytes:
        """Of the centroids."""
        return centroids_digest(self.centroids)

    def evaluate(self, X: GridArray) -> IntArray:
        """Sums and counts of all records."""
        sums, counts = kernels.cluster_statistics(X, self.centroids, None, limits=self.limits)
        return np.column_stack([sums + counts[:, None] * self.centroids, counts << self.count_bits])


class ClippedLoss(msgspec.Struct, frozen=True):
    """Squared distances to the nearest centroid, each at most cap << shift, in units of 2**shift: summed over the records.

    Every record is an integer from 0 to cap, so one record added, removed or replaced moves the sum by at most cap.
    """

    centroids: IntArray
    cap: int
    shift: int

    @property
    def digest(self) -> bytes:
        """Of the centroids."""
        return centroids_digest(self.centroids)

    def evaluate(self, X: GridArray) -> IntArray:
        """The sum over all records, (1, 1)."""
        return np.array([[kernels.clipped_loss(X, self.centroids, self.cap << self.shift, self.shift)]], dtype=np.int64)


def centroids_digest(centroids: IntArray) -> bytes:
    """SHA-256 of centroids as little-endian int64 with their shape, 32 bytes."""
    shape = b"".join(n.to_bytes(8, "little") for n in centroids.shape)
    return hashlib.sha256(b"fastlloyd/v1/centroids" + shape + centroids.astype("<i8").tobytes()).digest()


class Sensitivity(msgspec.Struct, frozen=True):
    """How far one added or removed record can move the sums of its cluster, in grid units, and its count.

    squared_l2 and l1 bound the change of the sums; coordinate bounds the change of one coordinate; count that of the count.
    """

    squared_l2: int
    l1: int
    coordinate: int
    count: int


def sensitivity(domain: Domain, squared_radius: int | None, count_bits: int) -> Sensitivity:
    """Exact sensitivity of `RelativeMoments` (with a radius) or `Moments` (None) over grid points of the domain.

    With a radius the offset v of one record has |v|_2^2 <= H2, so |v|_1 <= isqrt(d H2) because |v|_1 is an integer.
    Without, a grid point x has |x_i| <= B_i. See docs/proofs/sensitivity.md.
    """
    if squared_radius is None:
        B = [int(b) for b in domain.half_widths]
        return Sensitivity(domain.squared_half_diagonal, sum(B), max(B), 1 << count_bits)
    l1 = math.isqrt(domain.n_features * squared_radius)
    return Sensitivity(squared_radius, l1, math.isqrt(squared_radius), 1 << count_bits)
