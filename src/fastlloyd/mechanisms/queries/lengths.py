"""How far the records are from a centre: the sum of |x - g|, clipped."""

from dataclasses import dataclass

import numpy as np

from fastlloyd.base.arrays import IntArray
from fastlloyd.clustering.domain import Domain, GridArray
from fastlloyd.clustering.parallel import NUMPY_STEPS, sum_over_spans
from fastlloyd.mechanisms.queries.clipping import centred, check_units, clipped_lengths
from fastlloyd.mechanisms.queries.parameters import Parameter
from fastlloyd.mechanisms.queries.sensitivity import Sensitivity
from fastlloyd.mechanisms.queries.spaces import centre_and_radius


@dataclass(frozen=True, slots=True, kw_only=True)
class ClippedLengths:
    """Sum over the records of min(|x - centre|, radius): (1, 1), radius / units grid units.

    A record adds a number from 0 to `units`: added, removed or replaced, it moves the sum by at most that.
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
        """One number."""
        return 1, 1

    @property
    def parts(self) -> tuple[int, ...]:
        """One."""
        return (1,)

    @property
    def sensitivity(self) -> Sensitivity:
        """See the class."""
        U = self.units
        return Sensitivity(entries=(U,), added=((U**2,),), replaced=((U**2,),))

    def answer(self, X: GridArray, *, centre: IntArray, radius: int) -> IntArray:
        """See `Question.answer`."""

        def of_span(start: int, stop: int) -> IntArray:
            totals = [int(clipped_lengths(Z, radius, self.units).sum()) for Z in centred(X[start:stop], centre)]
            return np.array([[sum(totals)]], dtype=np.int64)

        return sum_over_spans(of_span, X, NUMPY_STEPS, blas=True)
