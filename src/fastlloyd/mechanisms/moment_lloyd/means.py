"""Bounds on the distance from the centre of a cluster's records to their mean.

A step cuts offsets at its radius, so it shows the centre of the records. Two noisy answers tell how
far the mean may be from the centre. The votes show records beyond the radius, as far out as there
are candidates. The first sum counts every record in full, so its excess over the last step is what
that step has cut. The answers do not tell which cluster lost that part, so each is charged with all
of it.
"""

from typing import NamedTuple

import numpy as np

from fastlloyd.base.arrays import FloatArray
from fastlloyd.mechanisms.moment_lloyd.state import Step, Total

MOST = 3.0  # radii
SLACK = 1.0  # deviations of the noise


class Estimate(NamedTuple):
    """Noisy values, (k, d), and the deviations of their noise."""

    values: FloatArray
    noise: FloatArray


def farther(
    beyond: Estimate, total: Total, last: Step, radius: float
) -> tuple[FloatArray, FloatArray]:
    """Return how much higher, and how much lower, the mean of a cluster may lie than its centre.

    Both are float64 (k, d), grid units, from 0 to three radii: the larger of the estimate from the
    votes and the estimate from the first sum, each with one deviation of its noise. beyond : how
    far records beyond the radius move each mean, by the votes. total, last : the first sum, and the
    last step.
    """
    cut = missing(total, last)
    above = np.maximum(beyond.values + SLACK * beyond.noise, cut.values + SLACK * cut.noise)
    below = np.maximum(SLACK * beyond.noise - beyond.values, SLACK * cut.noise - cut.values)
    most = MOST * radius
    return np.clip(above, 0.0, most), np.clip(below, 0.0, most)


def missing(total: Total, last: Step) -> Estimate:
    """Estimate the sum of all offsets that the last step has cut, over the records of each cluster.

    The sum is of offsets from h, the mean of all records by the step: T (S / N - h). S and N are
    the first sum and count. T is the number of records in the step, which may be of fewer clients.
    Offsets from h have the least noise.
    """
    n = last.counts.values.ravel()
    everyone = max(float(n.sum()), last.counts.deviation, 1.0)
    here = (n @ last.centroids + last.sums.values.sum(axis=0)) / everyone
    number = max(float(total.count.values[0, 0]), total.count.deviation, 1.0)
    cut = everyone * (total.sums.values[0] / number - here)
    variance = (
        total.sums.deviation**2
        + (total.count.deviation * here) ** 2
        + len(n) * last.sums.deviation**2
        + last.counts.deviation**2 * ((last.centroids - here) ** 2).sum(axis=0)
    )
    of_each = np.maximum(n, max(last.counts.deviation, 1.0))[:, None]
    return Estimate(cut / of_each, np.sqrt(variance) / of_each)
