"""How far the records spread in each feature: the sum of the squares of clipped x - g."""

from dataclasses import dataclass

import numpy as np

from fastlloyd.base.arrays import IntArray
from fastlloyd.clustering.domain import Domain, GridArray
from fastlloyd.clustering.parallel import NUMPY_STEPS, sum_over_spans
from fastlloyd.mechanisms.queries.clipping import check_units, clipped
from fastlloyd.mechanisms.queries.parameters import Parameter
from fastlloyd.mechanisms.queries.sensitivity import Sensitivity
from fastlloyd.mechanisms.queries.spaces import centre_and_radius


@dataclass(frozen=True, slots=True, kw_only=True)
class ClippedSquares:
    """Sum over the records of z * z, coordinate by coordinate, z = clip(x - centre): (1, d), (radius / units)**2 each.

    |z * z|_2 <= |z * z|_1 = |z|_2**2 <= units**2. No entry is negative, so two records differ by at most sqrt(2) times that,
    and in one dimension by no more than that.
    """

    domain: Domain
    units: int

    def __post_init__(self) -> None:
        check_units(self.units)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """`centre` g within the box, and `radius`."""
        return centre_and_radius(self.domain.half_widths)

    @property
    def shape(self) -> tuple[int, int]:
        """One row."""
        return 1, self.domain.n_features

    @property
    def parts(self) -> tuple[int, ...]:
        """One."""
        return (self.domain.n_features,)

    @property
    def sensitivity(self) -> Sensitivity:
        """See the class."""
        U, ways = self.units, min(2, self.domain.n_features)
        return Sensitivity(entries=(U**2,), added=((U**4,),), replaced=((ways * U**4,),))

    def answer(self, X: GridArray, *, centre: IntArray, radius: int) -> IntArray:
        """See `Question.answer`."""

        def of_span(start: int, stop: int) -> IntArray:
            total = np.zeros(self.shape, dtype=np.int64)
            for Z in clipped(X[start:stop], centre, radius, self.units):
                total += np.einsum("ij,ij->j", Z, Z).astype(np.int64)
            return total

        return sum_over_spans(of_span, X, NUMPY_STEPS, blas=True)
