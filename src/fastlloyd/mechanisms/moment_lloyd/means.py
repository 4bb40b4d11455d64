"""How much farther out than the centre the mean of a cluster's records may lie.

A step cuts offsets at its radius, so what it shows is the centre of the records. Two noisy answers
tell how far the mean may be from that. The votes show records beyond the radius, as far out as
there are candidates. The first sum counts every record in full, so what it exceeds the last step by
is what that step has cut. Nobody knows from which cluster, so each is charged with all of it.
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
    """How much higher, and how much lower, the mean of a cluster may lie than its centre: float64
    (k, d), grid units, from 0 to three radii.

    The larger of what the votes show and of what the first sum shows, each with one deviation of
    its noise. beyond : how far records beyond the radius move each mean, by the votes. total, last
    : the first sum, and the last step.
    """
    cut = missing(total, last)
    above = np.maximum(beyond.values + SLACK * beyond.noise, cut.values + SLACK * cut.noise)
    below = np.maximum(SLACK * beyond.noise - beyond.values, SLACK * cut.noise - cut.values)
    most = MOST * radius
    return np.clip(above, 0.0, most), np.clip(below, 0.0, most)


def missing(total: Total, last: Step) -> Estimate:
    """What the last step has cut from all offsets, over the records of each cluster.

    A sum of offsets from h, the mean that the step shows of all records: T (S / N - h), with S and
    N the first sum and count and T the records in the step, which may be of fewer clients. Offsets
    from h have the least noise.
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
