"""Queries about the spread of records around a centre g: sums of clipped functions of x - g."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from fastlloyd.base.arrays import FloatArray, GridArray, IntArray
from fastlloyd.clustering.domain import Domain
from fastlloyd.clustering.parallel import NUMPY_STEPS, sum_over_spans
from fastlloyd.mechanisms.queries.clipping import centred, check_units, clip, clipped_lengths
from fastlloyd.mechanisms.queries.inequalities import Inequality, Term, parts_of_records
from fastlloyd.mechanisms.queries.parameters import Parameter, symmetric
from fastlloyd.mechanisms.queries.query import Question
from fastlloyd.mechanisms.queries.sensitivity import Sensitivity
from fastlloyd.mechanisms.queries.spaces import radius


@dataclass(frozen=True, kw_only=True)
class _Centred(Question):
    """Base of queries with two parameters: `centre`, a point g in the box, and `radius`.

    The answer has one row.
    """

    domain: Domain
    units: int

    def __post_init__(self) -> None:
        check_units(self.units)

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """Parameters `centre` and `radius`."""
        limits = self.domain.half_widths
        return symmetric("centre", limits.shape, limits), radius(limits)

    def answer(self, X: GridArray, *, centre: IntArray, radius: int) -> IntArray:
        """Return the exact sum over all records. Each row x of X adds a function of x - centre,
        clipped to the radius.
        """

        def of_span(start: int, stop: int) -> IntArray:
            total = np.zeros(self._room, dtype=np.int64)
            for Z in centred(X[start:stop], centre):
                total += self._of_block(Z, radius).astype(np.int64)
            return total

        return self._columns(sum_over_spans(of_span, X, NUMPY_STEPS, blas=True))

    @property
    def _room(self) -> tuple[int, int]:
        """Shape of the sum that `_of_block` returns."""
        return self.shape

    def _of_block(self, Z: FloatArray, radius: int) -> FloatArray:
        """Return the integer sum of this query over the rows z = x - g of Z, each clipped to
        `radius`.

        Z : offsets of the records of a block, (n, d), which may be overwritten.
        """
        raise NotImplementedError

    def _columns(self, total: IntArray) -> IntArray:
        """Return the columns of the answer.

        total : sum over all records, in the shape of the sums that `_of_block` returns.
        """
        return total


@dataclass(frozen=True, kw_only=True)
class ClippedLengths(_Centred):
    """Query for the sum of min(|x - centre|, radius) over the records.

    The answer is one integer. A record adds an integer from 0 to `units`, and `units` represents
    the distance `radius`. So adding, removing or replacing a record changes the sum by at most
    `units`.
    """

    parts: ClassVar[tuple[int, ...]] = (1,)

    @cached_property
    def sensitivity(self) -> Sensitivity:
        """Return the sensitivity derived in the docstring of the class."""
        squared = ((self.units**2,),)
        return Sensitivity(entries=(self.units,), added=squared, replaced=squared)

    def _of_block(self, Z: FloatArray, radius: int) -> FloatArray:
        return np.array([clipped_lengths(Z, radius, self.units).sum()])

    def inequalities(self, answer: IntArray, n_records: int) -> tuple[Inequality, ...]:
        """Return inequalities that every exact answer satisfies: a record adds from 0 to
        `units`.
        """
        return parts_of_records(answer, 0, self.units, n_records)


@dataclass(frozen=True, kw_only=True)
class ClippedSquares(_Centred):
    """Query for the sum of z_j**2 over the records, for each feature j. Here z = clip(x - centre)
    is an integer vector, and a vector of norm `radius` becomes one of norm `units`.

    The answer has the shape (1, d). The squares of one record are a vector s >= 0 with |s|_2 <=
    |s|_1 = |z|_2**2 <= units**2. Two such vectors differ by at most sqrt(2) units**2, and in one
    dimension by at most units**2.
    """

    @property
    def parts(self) -> tuple[int, ...]:
        """Number of columns of the only part, one for each feature."""
        return (self.domain.n_features,)

    @cached_property
    def sensitivity(self) -> Sensitivity:
        """Return the sensitivity derived in the docstring of the class."""
        U, ways = self.units, min(2, self.domain.n_features)
        return Sensitivity(entries=(U**2,), added=((U**4,),), replaced=((ways * U**4,),))

    def _of_block(self, Z: FloatArray, radius: int) -> FloatArray:
        z = clip(Z, radius, self.units)
        squares: FloatArray = np.einsum("ij,ij->j", z, z)
        return squares

    def inequalities(self, answer: IntArray, n_records: int) -> tuple[Inequality, ...]:
        """Return inequalities that every exact answer satisfies.

        A record adds squares whose sum |z|**2 is at most units**2.
        """
        return parts_of_records(answer, 0, self.units**2, n_records)


@dataclass(frozen=True, kw_only=True)
class SecondMoment(_Centred):
    """Query for the sum of z_i z_j over the records, for all i <= j. Here z = clip(x - centre) is
    an integer vector, and a vector of norm `radius` becomes one of norm `units`.

    The answer has the shape (1, d (d + 1) / 2). It has two parts. The first part is the diagonal,
    in order. The second part is the entries above the diagonal, row by row (`numpy.triu_indices(d,
    1)`).

    Let one record change the two parts by vectors of squared norms a and b. It changes the full
    symmetric matrix by a matrix of squared norm a + 2 b = |z|**4 <= units**4. So noise of deviation
    s on the diagonal, and s / sqrt(2) above it, costs units**4 / s**2. Replacing a record costs at
    most twice as much.
    """

    @property
    def parts(self) -> tuple[int, ...]:
        """Number of entries on the diagonal, and number of entries above it (0 for one feature)."""
        d = self.domain.n_features
        return d, d * (d - 1) // 2

    @cached_property
    def sensitivity(self) -> Sensitivity:
        """Sensitivity derived in the docstring of the class.

        An entry above the diagonal has |z_i z_j| <= (z_i**2 + z_j**2) / 2.
        """
        U = self.units
        return Sensitivity(
            entries=(U**2, U**2 // 2),
            added=((U**4, 0), (0, U**4 // 2)),
            replaced=((2 * U**4, 0), (0, U**4)),
        )

    @property
    def _room(self) -> tuple[int, int]:
        d = self.domain.n_features
        return d, d

    def _of_block(self, Z: FloatArray, radius: int) -> FloatArray:
        z = clip(Z, radius, self.units)
        return z.T @ z

    def _columns(self, total: IntArray) -> IntArray:
        return np.concatenate([total.diagonal(), total[np.triu_indices(len(total), 1)]])[np.newaxis]

    def inequalities(self, answer: IntArray, n_records: int) -> tuple[Inequality, ...]:
        """Return inequalities that every exact answer satisfies.

        Entries on the diagonal satisfy the inequalities of a sum of squares (`ClippedSquares`).
        Entries above the diagonal satisfy |S_ij| <= (S_ii + S_jj) / 2, because |z_i z_j| <= (z_i**2
        + z_j**2) / 2 for each record.
        """
        d = self.domain.n_features
        diagonal, above, (i, j) = (
            answer[0, :d],
            answer[0, d:].astype(np.float64),
            np.triu_indices(d, 1),
        )
        halves = diagonal / 2
        products = Inequality(
            np.abs(above), halves[i] + halves[j], (Term(1), Term(0, 0.5, times=2))
        )
        return products, *parts_of_records(diagonal, 0, self.units**2, n_records)
