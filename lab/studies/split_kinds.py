"""Synthetic records with a known number of groups for the study of splits: far, near, many, and no
groups.

All records are within the public bounds -1 to 1 of every feature, which are wider than the range of
the records.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fastlloyd.base.arrays import FloatArray

Rng = np.random.Generator
N_RECORDS = 10_000


class Kind(NamedTuple):
    """Kind of records.

    n_groups : number of groups, 1 for records without groups.
    make : function of a random generator and d that returns records (n, d).
    """

    name: str
    n_groups: int
    make: Callable[[Rng, int], FloatArray]

    def records(self, rng: Rng, d: int) -> FloatArray:
        """Return records (n, d), clipped to the bounds."""
        return np.clip(self.make(rng, d), -1.0, 1.0)


def around(rng: Rng, centres: FloatArray, deviation: float) -> FloatArray:
    """Return records of spherical normal groups of about equal size."""
    owners = rng.integers(0, len(centres), N_RECORDS)
    return np.asarray(centres[owners] + rng.normal(0, deviation, (N_RECORDS, centres.shape[1])))


def apart(rng: Rng, k: int, d: int, distance: float) -> FloatArray:
    """Return k random points at least `distance` apart, (k, d). If there is no room, the distance
    is reduced a little.
    """
    while True:
        points = rng.uniform(-0.75, 0.75, (k, d))
        gaps = np.linalg.norm(points[:, None] - points, axis=2) + 9 * np.eye(k)
        if gaps.min() >= distance:
            return points
        distance *= 0.98


def groups(k: int, deviation: float, distance: float) -> Callable[[Rng, int], FloatArray]:
    """Return a function that makes records of k groups."""
    return lambda rng, d: around(rng, apart(rng, k, d, distance), deviation)


def one_far_two_near(rng: Rng, d: int) -> FloatArray:
    """Return records of two groups 5.7 standard deviations apart, and one group 19 standard
    deviations from both.
    """
    axes, _ = np.linalg.qr(rng.normal(size=(d, 2)))
    along, across = axes.T
    centres = np.stack([-0.6 * along, 0.5 * along + 0.16 * across, 0.5 * along - 0.16 * across])
    return around(rng, centres, 0.056)


def two_and_three(rng: Rng, d: int) -> FloatArray:
    """Return records of five groups: two near each other, and far from them three near each
    other.
    """
    axes, _ = np.linalg.qr(rng.normal(size=(d, 2)))
    along, across = axes.T
    steps = [(-0.55, -0.15), (-0.55, 0.15), (0.55, -0.3), (0.55, 0.0), (0.55, 0.3)]
    return around(rng, np.stack([a * along + b * across for a, b in steps]), 0.05)


def gaussian(rng: Rng, d: int) -> FloatArray:
    """Return records of one spherical normal group."""
    return rng.normal(0, 0.25, (N_RECORDS, d))


def long_gaussian(rng: Rng, d: int) -> FloatArray:
    """Return records of one normal group, four times as long in the first feature as in the
    others.
    """
    return rng.normal(0, [0.4, *[0.1] * (d - 1)], (N_RECORDS, d))


def uniform(rng: Rng, d: int) -> FloatArray:
    """Return records that are uniform in a cube."""
    return rng.uniform(-0.8, 0.8, (N_RECORDS, d))


def exponential(rng: Rng, d: int) -> FloatArray:
    """Return records of exponential features, in which most values are near the lower end."""
    return rng.exponential(0.25, (N_RECORDS, d)) - 0.8


KINDS = (
    Kind("one Gaussian", 1, gaussian),
    Kind("one long Gaussian", 1, long_gaussian),
    Kind("uniform in a cube", 1, uniform),
    Kind("exponential features", 1, exponential),
    Kind("one far group, two near", 3, one_far_two_near),
    Kind("two near groups far from three near", 5, two_and_three),
    Kind("3 groups", 3, groups(3, 0.07, 0.45)),
    Kind("5 groups", 5, groups(5, 0.07, 0.45)),
    Kind("8 groups", 8, groups(8, 0.06, 0.4)),
    Kind("15 groups", 15, groups(15, 0.045, 0.3)),
)
