"""Queries of Lloyd's iterations: sums and counts of each cluster, and the loss at the end.

Departs from the paper, which multiplies both sums and counts by 2**16. Here sums are in grid units,
and counts in units of 2**-count_bits records.
"""

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from fastlloyd.base.arrays import GridArray, IntArray
from fastlloyd.clustering import kernels
from fastlloyd.clustering.domain import Domain
from fastlloyd.mechanisms.queries.inequalities import Inequality, parts_of_records, sums_and_counts
from fastlloyd.mechanisms.queries.parameters import Parameter, symmetric
from fastlloyd.mechanisms.queries.query import Question
from fastlloyd.mechanisms.queries.sensitivity import Sensitivity


@dataclass(frozen=True, kw_only=True)
class _AroundCentroids(Question):
    """Base of queries whose only parameter is the centroids."""

    domain: Domain
    n_clusters: int

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """Parameter `centroids`, int64 (n_clusters, n_features), grid units, within
        `Domain.saturation`.
        """
        shape = self.n_clusters, self.domain.n_features
        return (symmetric("centroids", shape, np.full(shape[1], self.domain.saturation)),)

    @property
    def digest_prefix(self) -> bytes:
        """Bytes that `centroids_digest` hashes before the centroids."""
        return _prefix(self.n_clusters, self.domain.n_features)


@dataclass(frozen=True, kw_only=True)
class Moments(_AroundCentroids):
    """Query for a sum over the records nearest to each centroid (ties: lowest index), and their
    number.

    The answer is (k, d + 1). Sums are in grid units, counts in units of 2**-count_bits records.
    With squared_radius H2, only records within the radius of their centroid count, and the sum is
    of their offsets from the centroid (Section 5.1). With None all records count, and the sum is of
    the records themselves, as in Su et al. and GLloyd.

    Adding or removing a record changes one row. With a radius, the row changes by an offset v with
    |v|_2^2 <= H2. Then |v|_1 <= isqrt(d H2), because |v|_1 is an integer. Without a radius, it
    changes by a grid point x with |x_i| <= B_i (docs/proofs/sensitivity.md).
    """

    squared_radius: int | None
    count_bits: int = 0

    @property
    def n_rows(self) -> int:
        """Number of rows of the answer, one for each cluster."""
        return self.n_clusters

    @property
    def parts(self) -> tuple[int, ...]:
        """Number of columns with sums, and number of columns with counts."""
        return self.domain.n_features, 1

    @cached_property
    def sensitivity(self) -> Sensitivity:
        """Return the sensitivity derived in the docstring of the class."""
        H2, domain, one = self.squared_radius, self.domain, 1 << self.count_bits
        if H2 is None:
            B: list[int] = domain.half_widths.tolist()
            return Sensitivity.of_rows(
                self.n_clusters,
                entry=max(B),
                squared=domain.squared_half_diagonal,
                l1=sum(B),
                count=one,
            )
        l1 = math.isqrt(domain.n_features * H2)
        return Sensitivity.of_rows(
            self.n_clusters, entry=math.isqrt(H2), squared=H2, l1=l1, count=one
        )

    def answer(self, X: GridArray, *, centroids: IntArray) -> IntArray:
        """Return the exact sums and counts of the records of each cluster."""
        sums, counts = kernels.cluster_statistics(
            X, centroids, self.squared_radius, limits=self.domain.half_widths
        )
        if self.squared_radius is None:
            sums += counts[:, None] * centroids  # the kernel sums offsets from the centroids
        return np.column_stack([sums, counts << self.count_bits])

    def inequalities(self, answer: IntArray, n_records: int) -> tuple[Inequality, ...]:
        """Return inequalities between the sums and counts of every exact answer."""
        H2, B = self.squared_radius, self.domain.half_widths
        bounds = B if H2 is None else np.full(len(B), math.isqrt(H2))
        return sums_and_counts(answer, bounds, 1 << self.count_bits, n_records)


@dataclass(frozen=True, kw_only=True)
class ClippedLoss(_AroundCentroids):
    """Query for the sum of squared distances to the nearest centroid.

    Each squared distance counts as at most cap << shift. The answer is one number in units of
    2**shift. A record adds an integer from 0 to cap. So adding, removing or replacing a record
    changes the sum by at most cap.
    """

    parts: ClassVar[tuple[int, ...]] = (1,)
    cap: int
    shift: int

    @cached_property
    def sensitivity(self) -> Sensitivity:
        """Return the sensitivity derived in the docstring of the class."""
        cap, squared = (self.cap,), ((self.cap**2,),)
        return Sensitivity(
            entries=cap, added=squared, replaced=squared, l1_added=cap, l1_replaced=cap
        )

    def answer(self, X: GridArray, *, centroids: IntArray) -> IntArray:
        """Return the exact sum of clipped squared distances to the nearest centroid."""
        return np.array(
            [[kernels.clipped_loss(X, centroids, self.cap << self.shift, self.shift)]],
            dtype=np.int64,
        )

    def inequalities(self, answer: IntArray, n_records: int) -> tuple[Inequality, ...]:
        """Return inequalities that every exact answer satisfies: a record adds from 0 to cap."""
        return parts_of_records(answer, 0, self.cap, n_records)


def centroids_digest(centroids: IntArray) -> bytes:
    """Return the SHA-256 of the shape and of the centroids as little-endian int64, 32 bytes."""
    return hashlib.sha256(_prefix(*centroids.shape) + centroids.astype("<i8").tobytes()).digest()


def _prefix(n_clusters: int, n_features: int) -> bytes:
    return (
        b"fastlloyd/v1/centroids"
        + n_clusters.to_bytes(8, "little")
        + n_features.to_bytes(8, "little")
    )
