"""Sensitivity of answers whose columns form parts, as exact integers.

The squared changes of the parts, (|D_1|^2, ..., |D_P|^2), are always in the convex hull of a few
*corners*, vectors of integers. With Gaussian noise of variance v_p in part p, a release costs

    mu^2 = max over neighbours of sum_p |D_p|^2 / v_p  <=  max over corners a of sum_p a_p / v_p,

because a linear function on a convex hull is largest at a corner. For instance, a record may make
the largest change either on the diagonal of a matrix or above the diagonal, but not both. Two
corners express this, and two separate sensitivities could not. Laplace noise is drawn for parts
that are bounded one by one.
"""

from collections.abc import Sequence
from fractions import Fraction

import msgspec

from fastlloyd.dp.accountant import GaussianRelease, GeometricRelease
from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.dp.noise import Noise
from fastlloyd.mechanisms.persons import Persons

Corner = tuple[int, ...]
Release = GaussianRelease | GeometricRelease


class Sensitivity(msgspec.Struct, frozen=True, kw_only=True):
    """Largest change of an answer by one record, part by part.

    entries : for each part, the largest change of one entry if a record is added or removed. The
        ring needs room for this number times the cap on the number of records.
    added : corners if one record is added or removed. Each corner is a tuple with the largest
        squared change of each part of the answer, in one worst case.
    replaced : corners if one record is replaced by another.
    l1_added, l1_replaced : largest sum of absolute changes of each part. Empty for queries without
        Laplace noise.
    """

    entries: tuple[int, ...]
    added: tuple[Corner, ...]
    replaced: tuple[Corner, ...]
    l1_added: tuple[int, ...] = ()
    l1_replaced: tuple[int, ...] = ()

    @classmethod
    def of_rows(
        cls, n_rows: int, *, entry: int, squared: int, l1: int, count: int
    ) -> "Sensitivity":
        """Return the sensitivity of rows of sums with a count, if a record belongs to at most one
        row.

        Adding or removing a record changes an entry of the sums by at most `entry`, and the count
        by `count`. The absolute changes of the row's sums add up to at most `l1`, and the squared
        changes to at most `squared`. Replacing a record has one of two effects. Either it changes
        the sums of one row by up to twice as much, and no count. Or it changes two rows as above.
        """
        within, across = (4 * squared, 0), (2 * squared, 2 * count**2)
        return cls(
            entries=(entry, count),
            added=((squared, count**2),),
            replaced=(within,) if n_rows == 1 else (within, across),
            l1_added=(l1, count),
            l1_replaced=(2 * l1, 2 * count),
        )

    def of_persons(self, persons: Persons) -> "Sensitivity":
        """Return the sensitivity if rows count by their shares and one person changes.

        `self` is the sensitivity if each record counts once and one record changes. A person with W
        shares at each of c clients changes the answer by c W times a weighted mean of changes by
        single records. Squares are convex, so every corner grows by the factor (c W)**2. A replaced
        person may have more or fewer usable rows than before, so `corners` includes those of
        `added`. At one client, an entry changes by at most W times the change by a record.
        """
        W, most = persons.shares, persons.reach
        return Sensitivity(
            entries=tuple(W * entry for entry in self.entries),
            added=tuple(tuple(most**2 * a for a in corner) for corner in self.added),
            replaced=tuple(tuple(most**2 * a for a in corner) for corner in self.replaced),
            l1_added=tuple(most * change for change in self.l1_added),
            l1_replaced=tuple(most * change for change in self.l1_replaced),
        )

    def corners(self, relation: NeighboringRelation) -> tuple[Corner, ...]:
        """Return the corners for one neighbouring relation. A corner is a tuple with the largest
        squared change of each part of the answer, in one worst case.

        A row with a missing cell is dropped first. So to replace a record may in effect only remove
        one, or only add one. Hence the corners of a replacement include those of one record added
        or removed.
        """
        return (
            self.added
            if relation is NeighboringRelation.ADD_OR_REMOVE_ONE
            else (*self.replaced, *self.added)
        )

    def releases(
        self, noise: Noise, scales: Sequence[Fraction], relation: NeighboringRelation
    ) -> list[Release]:
        """Return the releases of one answer, for an accountant.

        scales : noise scales, one for each part.
        """
        match noise:
            case Noise.NONE:
                return []
            case Noise.GAUSSIAN:
                return [*self.gaussian_releases(scales, relation)]
            case Noise.LAPLACE:
                l1 = (
                    self.l1_added
                    if relation is NeighboringRelation.ADD_OR_REMOVE_ONE
                    else self.l1_replaced
                )
                return [
                    GeometricRelease(Fraction(change), scale)
                    for change, scale in zip(l1, scales, strict=True)
                ]

    def gaussian_releases(
        self, scales: Sequence[Fraction], relation: NeighboringRelation
    ) -> list[GaussianRelease]:
        """Return the Gaussian releases of the most expensive corner.

        scales : standard deviations of the noise, one for each part.
        """

        def at(corner: Corner) -> list[GaussianRelease]:
            return [
                GaussianRelease(Fraction(a), scale**2)
                for a, scale in zip(corner, scales, strict=True)
            ]

        each = [at(corner) for corner in self.corners(relation)]
        return (
            max(each, key=lambda parts: sum((r.mu_squared for r in parts), Fraction(0)))
            if len(each) > 1
            else each[0]
        )
