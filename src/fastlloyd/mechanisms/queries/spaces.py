"""Spaces of a query: all features, or a few directions from an origin.

In a subspace a record x becomes y = V'(x - g), rounded towards zero to the grid of the features. V
is a matrix of integers in units of 2**-20. The products of integers are exact in float64, so every
machine computes the same y.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from fastlloyd.base.arrays import GridArray, IntArray, fixed
from fastlloyd.clustering.domain import EXACT_BITS, Domain
from fastlloyd.clustering.gridding import FEW_FEATURES
from fastlloyd.clustering.kernels import blocks
from fastlloyd.clustering.parallel import NUMPY_STEPS, over_spans
from fastlloyd.errors import PlanError
from fastlloyd.mechanisms.queries.parameters import Parameter, symmetric

DIRECTION_BITS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """Space of all features, in which a record is its own point."""

    # nothing must be known to find a record's point
    parameters: ClassVar[tuple[Parameter, ...]] = ()
    domain: Domain

    @property
    def limits(self) -> IntArray:
        """Largest coordinate of points and centroids in each feature, B."""
        return self.domain.half_widths

    def place(self, X: GridArray) -> GridArray:
        """Return the grid points X (n, n_features) unchanged, as points of the space."""
        return X


@dataclass(frozen=True, kw_only=True)
class Subspace:
    """Subspace of `n_directions` directions. Columns of unused directions are zeros.

    The parameters are `origin` (g, a point in the box) and `directions` (V). V is int64
    (n_features, n_directions) in units of 2**-20, and each column has norm at most 1. Columns need
    not be orthogonal, because no bound depends on it. Raises PlanError if distances would not be
    exact.
    """

    domain: Domain
    n_directions: int

    def __post_init__(self) -> None:
        if (
            type(self.n_directions) is not int
            or not 1 <= self.n_directions <= self.domain.n_features
        ):
            raise PlanError(
                f"n_directions is {self.n_directions!r:.40}; expected 1 to {self.domain.n_features}"
            )
        if squared_diameter(self.limits) >= 1 << EXACT_BITS:
            raise PlanError(
                f"fraction_bits {self.domain.fraction_bits} is too large for {self.n_directions}"
                " directions; use fewer fraction_bits or fewer directions"
            )

    @cached_property
    def limits(self) -> IntArray:
        """Largest coordinate along each direction: the diagonal of the box.

        The coordinate of a record x along direction V_j has |V_j'(x - g)| <= |x - g|, because V_j
        has norm at most 1. The distance |x - g| is at most the diagonal.
        """
        diagonal = math.isqrt(squared_diameter(self.domain.half_widths))
        return fixed(np.full(self.n_directions, diagonal, dtype=np.int64))

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """Parameters `origin` and `directions`."""
        d, B, one = self.domain.n_features, self.domain.half_widths, 1 << DIRECTION_BITS
        directions = Parameter(
            name="directions",
            shape=(d, self.n_directions),
            least=-one,
            most=one,
            column_square=one * one,
        )
        return symmetric("origin", (d,), B), directions

    def place(self, X: GridArray, *, origin: IntArray, directions: IntArray) -> GridArray:
        """Return V'(x - g) for the rows x of X, with V = `directions` and g = `origin`, rounded
        towards zero to grid units, int32.
        """
        V, g = directions.astype(np.float64), origin.astype(np.float64)
        points = np.empty(
            (len(X), self.n_directions),
            dtype=np.int32,
            order="F" if self.n_directions <= FEW_FEATURES else "C",
        )

        def place_span(first: int, last: int) -> None:
            for start, stop in blocks(last - first, max(V.shape), None):
                Z = X[first + start : first + stop].astype(np.float64)
                Z -= g
                Y = Z @ V
                Y *= 2.0**-DIRECTION_BITS  # exact: a power of two
                points[first + start : first + stop] = np.trunc(Y)

        over_spans(place_span, X, NUMPY_STEPS, blas=True)
        return points


Space = Features | Subspace


def squared_diameter(limits: IntArray) -> int:
    """Return the largest squared distance between two points.

    limits : largest absolute value of each coordinate.
    """
    values: list[int] = limits.tolist()
    return 4 * sum(limit * limit for limit in values)  # Python's integers: they do not wrap around


def radius(limits: IntArray) -> Parameter:
    """Return the `Parameter` for a radius around points.

    The radius is from 1 to the smallest integer that no distance between two points exceeds.

    limits : largest absolute value of each coordinate.
    """
    return Parameter(
        name="radius", shape=(), least=1, most=math.isqrt(squared_diameter(limits) - 1) + 1
    )
