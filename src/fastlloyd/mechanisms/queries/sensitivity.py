"""Sensitivity of answers whose columns come in parts, as exact integers.

The squared changes of the parts, (|D_1|^2, ..., |D_P|^2), are never outside the convex hull of a
few *corners*, vectors of integers. With Gaussian noise of variance v_p in part p a release costs

    mu^2 = max over neighbours of sum_p |D_p|^2 / v_p  <=  max over corners a of sum_p a_p / v_p,

because a linear function is largest in a corner. One record may, for instance, move either the
diagonal of a matrix or what is above it to the full, but not both: two corners say so, two separate
sensitivities could not. Laplace noise is drawn for parts that are bounded one by one.
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

    entries : largest change of one entry of each part by one record added or removed (the bound of
    the ring). added : corners for one record added or removed. replaced : corners for one record
    replaced by another, both of them used. l1_added, l1_replaced : largest sum of absolute changes
    of each part, empty for questions that take no Laplace noise.
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
        """Return the sensitivity of sums and a count in each row, if a record belongs to at most
        one row.

        One record added or removed moves an entry of the sums by at most `entry`, the sums of its
        row by `l1` in all and by `squared` in squares, and the count by `count`. One replaced
        record moves the sums of one row twice as far and no count, or the sums and counts of two
        rows once.
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
        """Return the largest change of the answer in shares by one person, if this is that of the
        answer for records by one record.

        A person with W shares at each of c clients moves it by c W times a weighted mean of changes
        by single records. Squares are convex, so every corner grows by (c W)**2. A person who is
        replaced may have more or fewer usable rows than before, so `corners` has those of `added`
        too. At one client an entry moves by W times what a record moves it by.
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
        """Return the corners for one neighbouring relation.

        Replacing a record may also just remove one, or add one, because a row with a missing cell
        is dropped first. So the corners of a replacement include those of one record added or
        removed.
        """
        return (
            self.added
            if relation is NeighboringRelation.ADD_OR_REMOVE_ONE
            else (*self.replaced, *self.added)
        )

    def releases(
        self, noise: Noise, scales: Sequence[Fraction], relation: NeighboringRelation
    ) -> list[Release]:
        """Return the releases of one answer for the accountant. scales : of the noise, one per
        part.
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
        """Return the releases of the most expensive corner, with Gaussian noise of these
        deviations.
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
