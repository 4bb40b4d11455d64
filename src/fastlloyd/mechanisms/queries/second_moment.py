"""In which directions the records spread: the sum of z z' of clipped x - g, every pair of features once."""

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
class SecondMoment:
    """Sum over the records of z_i z_j, i <= j, z = clip(x - centre): (1, d (d + 1) / 2), (radius / units)**2 each.

    Two parts: the diagonal in order, then the entries above it row by row (`numpy.triu_indices(d, 1)`). With a and b the
    squared norms of their changes, a + 2 b is that of the whole symmetric matrix, |z|**4 <= units**4. So noise of deviation s
    on the diagonal and s / sqrt(2) above it costs units**4 / s**2. Replacing a record costs at most twice that.
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
        return 1, sum(self.parts)

    @property
    def parts(self) -> tuple[int, ...]:
        """Diagonal, and above it; the latter has no columns where there is one feature."""
        d = self.domain.n_features
        return d, d * (d - 1) // 2

    @property
    def sensitivity(self) -> Sensitivity:
        """See the class; |z_i z_j| <= (z_i**2 + z_j**2) / 2 bounds an entry above the diagonal."""
        U = self.units
        return Sensitivity(entries=(U**2, U**2 // 2), added=((U**4, 0), (0, U**4 // 2)), replaced=((2 * U**4, 0), (0, U**4)))

    def answer(self, X: GridArray, *, centre: IntArray, radius: int) -> IntArray:
        """See `Question.answer`."""
        d = self.domain.n_features

        def of_span(start: int, stop: int) -> IntArray:
            total = np.zeros((d, d), dtype=np.int64)
            for Z in clipped(X[start:stop], centre, radius, self.units):
                total += (Z.T @ Z).astype(np.int64)
            return total

        total = sum_over_spans(of_span, X, NUMPY_STEPS, blas=True)
        return np.concatenate([total.diagonal(), total[np.triu_indices(d, 1)]])[np.newaxis]
