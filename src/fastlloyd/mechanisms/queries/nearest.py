"""Queries about the records nearest to given points: their number, and their clipped offsets."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fastlloyd.base.arrays import FloatArray, GridArray, IntArray
from fastlloyd.base.compiling import is_compiled
from fastlloyd.clustering import kernels
from fastlloyd.clustering.filter import Labels
from fastlloyd.clustering.parallel import sum_over_spans
from fastlloyd.clustering.sums import ClusterSums
from fastlloyd.errors import PlanError
from fastlloyd.mechanisms.queries.clipping import check_units, clip, clipped_offsets
from fastlloyd.mechanisms.queries.inequalities import Inequality, parts_of_records, sums_and_counts
from fastlloyd.mechanisms.queries.parameters import Parameter, symmetric
from fastlloyd.mechanisms.queries.query import Question
from fastlloyd.mechanisms.queries.sensitivity import Sensitivity
from fastlloyd.mechanisms.queries.spaces import Space, radius

MAX_POINTS = 1 << 16  # centroids or candidates
MAX_COUNT_BITS = 32
RECORDS_PER_SUM = 64  # with fewer, adding up what threads found takes longer than finding it


@dataclass(frozen=True, kw_only=True)
class Votes(Question):
    """Query for the number of records nearest to each of m candidates. Of equally near candidates,
    the one with the lowest index counts.

    The answer is (m, 1), in units of 2**-count_bits records. Adding or removing a record changes
    one entry by 2**count_bits. Replacing a record changes at most two entries.
    """

    parts: ClassVar[tuple[int, ...]] = (1,)
    space: Space
    n_candidates: int
    count_bits: int = 0

    def __post_init__(self) -> None:
        check_count("n_candidates", self.n_candidates, self.count_bits)

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """Parameter `candidates`, int64 (n_candidates, n_coordinates), and the parameters of the
        space.

        Candidates are points of the space.
        """
        limits = self.space.limits
        return (
            symmetric("candidates", (self.n_candidates, len(limits)), limits),
            *self.space.parameters,
        )

    @property
    def n_rows(self) -> int:
        """Number of rows of the answer, one for each candidate."""
        return self.n_candidates

    @cached_property
    def sensitivity(self) -> Sensitivity:
        """Return the sensitivity derived in the docstring of the class."""
        one = 1 << self.count_bits
        return Sensitivity(entries=(one,), added=((one**2,),), replaced=((2 * one**2,),))

    def answer(self, X: GridArray, *, candidates: IntArray, **frame: IntArray) -> IntArray:
        """Return, for each candidate, the exact number of records that are nearest to it, times
        2**count_bits.
        """
        labels = kernels.assign(self.space.place(X, **frame), candidates, limits=self.space.limits)
        return (
            np.bincount(labels, minlength=self.n_candidates)[:, np.newaxis].astype(np.int64)
            << self.count_bits
        )

    def inequalities(self, answer: IntArray, n_records: int) -> tuple[Inequality, ...]:
        """Return inequalities that every exact answer satisfies: each record has one vote."""
        return parts_of_records(answer, 0, 1 << self.count_bits, n_records)


@dataclass(frozen=True, kw_only=True)
class ClippedOffsets(Question):
    """Query for the sum of clipped offsets of each cluster, and for its number of records.

    The answer is int64 (k, r + 1) for k centroids in r coordinates. A record adds its offset z =
    clip(x - centroid) to the sum of its nearest centroid (of equally near ones, that with the
    lowest index). In sums, the integer `units` represents the distance `radius`. Counts are in
    units of 2**-count_bits records.

    Adding or removing a record changes one row: the sums by |z|_2 <= units, the count by
    2**count_bits. Replacing a record has one of two effects. If the cluster stays the same, the
    sums of one row change by at most 2 units. Otherwise two rows change, each as above. With one
    centroid the answer is the clipped sum and the number of records.
    """

    space: Space
    n_clusters: int
    units: int
    count_bits: int = 0

    def __post_init__(self) -> None:
        check_units(self.units)
        check_count("n_clusters", self.n_clusters, self.count_bits)

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """Parameters `centroids`, int64 (n_clusters, n_coordinates), and `radius`, and the
        parameters of the space.

        Centroids are points of the space.
        """
        limits = self.space.limits
        centroids = symmetric("centroids", (self.n_clusters, len(limits)), limits)
        return centroids, radius(limits), *self.space.parameters

    @property
    def n_rows(self) -> int:
        """Number of rows of the answer, one for each cluster."""
        return self.n_clusters

    @property
    def parts(self) -> tuple[int, ...]:
        """Number of columns with sums, and number of columns with counts."""
        return len(self.space.limits), 1

    @cached_property
    def sensitivity(self) -> Sensitivity:
        """Return the sensitivity derived in the docstring of the class."""
        U, l1 = self.units, math.isqrt(len(self.space.limits) * self.units**2)
        return Sensitivity.of_rows(
            self.n_clusters, entry=U, squared=U**2, l1=l1, count=1 << self.count_bits
        )

    def answer(
        self, X: GridArray, *, centroids: IntArray, radius: int, **frame: IntArray
    ) -> IntArray:
        """Return the exact sum of clipped offsets, and the count, for each cluster."""
        points = self.space.place(X, **frame)
        labels = kernels.assign(points, centroids, limits=self.space.limits)
        compiled = points.dtype.kind == "i" and is_compiled(points.size)
        totals = (_compiled_sums if compiled else _plain_sums)(
            points, labels, centroids, radius, self.units
        )
        totals[:, -1] <<= self.count_bits
        return totals

    def inequalities(self, answer: IntArray, n_records: int) -> tuple[Inequality, ...]:
        """Return inequalities between sums and counts that every exact answer satisfies.

        They hold because no coordinate of a clipped offset z exceeds |z| in magnitude.
        """
        bounds = np.full(len(self.space.limits), self.units)
        return sums_and_counts(answer, bounds, 1 << self.count_bits, n_records)


def _plain_sums(
    points: GridArray, labels: Labels, centroids: IntArray, radius: int, units: int
) -> IntArray:
    """Return the sums of clipped offsets and, in the last column, the counts, (k, r + 1)."""
    C = centroids.astype(np.float64)
    sums = np.zeros(centroids.shape, dtype=np.int64)
    for start, stop in kernels.blocks(len(points), len(C[0]), None):
        owners = labels[start:stop]
        Z = points[start:stop].astype(np.float64)
        Z -= C[owners]
        sums += _sums_by_owner(clip(Z, radius, units), owners, len(C))
    return np.column_stack([sums, np.bincount(labels, minlength=len(C)).astype(np.int64)])


def _compiled_sums(
    points: GridArray, labels: Labels, centroids: IntArray, radius: int, units: int
) -> IntArray:
    """Return the result of `_plain_sums`, computed on all cores, for many records per sum."""

    def of_span(start: int, stop: int) -> IntArray:
        sums = ClusterSums((len(centroids), centroids.shape[1]), units, by_feature=True)
        for place, Z in clipped_offsets(points, start, stop, labels, centroids, radius, units):
            sums.add(Z, 0, labels[place : place + Z.shape[1]])
        return sums.totals()

    return sum_over_spans(of_span, points, least=RECORDS_PER_SUM * len(centroids))


def check_count(name: str, value: int, count_bits: int) -> None:
    """Raise PlanError if a number of points, or `count_bits`, is too large for any run.

    name : name of the number, for the error message.
    """
    if type(value) is not int or not 1 <= value <= MAX_POINTS:
        raise PlanError(f"{name} is {value!r:.40}; expected 1 to {MAX_POINTS}")
    if type(count_bits) is not int or not 0 <= count_bits <= MAX_COUNT_BITS:
        raise PlanError(f"count_bits is {count_bits!r:.40}; expected 0 to {MAX_COUNT_BITS}")


def _sums_by_owner(Z: FloatArray, owners: NDArray[np.int32], k: int) -> IntArray:
    """Return the sum of the rows of Z of each owner, int64 (k, r).

    All partial sums are integers below 2**53, so the result is exact in any order of addition.

    owners : owner of each row, from 0.
    """
    r = Z.shape[1]
    # in the memory order of Z, so that neither is copied below
    places = np.empty_like(Z, dtype=np.int64)
    np.add((owners.astype(np.int64) * r)[:, np.newaxis], np.arange(r), out=places)
    sums = np.bincount(places.ravel(order="K"), weights=Z.ravel(order="K"), minlength=k * r)
    return sums.reshape(k, r).astype(np.int64)
