"""How far one record moves an answer whose columns come in parts, as exact integers.

The squared changes of the parts, (|D_1|^2, ..., |D_P|^2), never lie beyond the convex hull of a few *corners*, vectors of
integers. With noise of variance v_p in part p a release costs

    mu^2 = max over neighbours of sum_p |D_p|^2 / v_p  <=  max over corners a of sum_p a_p / v_p,

because a linear function is largest in a corner. One record may, for instance, move either the diagonal of a matrix or what is
above it to the full, but not both: two corners say so, two separate sensitivities could not.
"""

from collections.abc import Sequence
from fractions import Fraction

import msgspec

from fastlloyd.dp.accountant import GaussianRelease
from fastlloyd.dp.neighboring import NeighboringRelation

Corner = tuple[int, ...]


class Sensitivity(msgspec.Struct, frozen=True, kw_only=True):
    """Of one answer, part by part.

    entries : by how much one record added or removed moves one entry of the part at most (the bound of the ring).
    added : corners for one record added or removed. replaced : corners for one record replaced by another, both of them used.
    """

    entries: tuple[int, ...]
    added: tuple[Corner, ...]
    replaced: tuple[Corner, ...]

    def corners(self, relation: NeighboringRelation) -> tuple[Corner, ...]:
        """Those of one neighbouring relation.

        Replacing a record may take one away, or bring one in, and no more: a row with a missing cell is dropped before anything
        is asked. So the corners of a replacement include those of one record added or removed.
        """
        return self.added if relation is NeighboringRelation.ADD_OR_REMOVE_ONE else (*self.replaced, *self.added)

    def releases(self, variances: Sequence[Fraction], relation: NeighboringRelation) -> list[GaussianRelease]:
        """The dearest corner, as the accountant takes it; variances : of the noise, one per part."""

        def at(corner: Corner) -> list[GaussianRelease]:
            return [GaussianRelease(Fraction(a), v) for a, v in zip(corner, variances, strict=True)]

        return max(map(at, self.corners(relation)), key=lambda parts: sum((r.mu_squared for r in parts), Fraction(0)))
