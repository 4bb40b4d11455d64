"""Where the records are: the sum of x - g, clipped."""

from dataclasses import dataclass

import numpy as np

from fastlloyd.base.arrays import IntArray
from fastlloyd.clustering.domain import Domain, GridArray
from fastlloyd.mechanisms.queries.clipping import check_units, clipped
from fastlloyd.mechanisms.queries.parameters import Parameter
from fastlloyd.mechanisms.queries.sensitivity import Sensitivity
from fastlloyd.mechanisms.queries.spaces import centre_and_radius


@dataclass(frozen=True, slots=True, kw_only=True)
class ClippedSum:
    """Sum over the records of z = clip(x - centre): (1, d), radius / units grid units each.

    One record added or removed moves it by z, |z|_2 <= units; one replaced by at most twice that.
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
        U = self.units
        return Sensitivity(entries=(U,), added=((U**2,),), replaced=((4 * U**2,),))

    def answer(self, X: GridArray, *, centre: IntArray, radius: int) -> IntArray:
        """See `Question.answer`."""
        total = np.zeros(self.shape, dtype=np.int64)
        for Z in clipped(X, centre, radius, self.units):
            total += Z.sum(axis=0).astype(np.int64)
        return total
