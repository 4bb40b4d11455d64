"""How far the noise may have moved the results: from noisy answers and public scales alone, so it costs no privacy."""

import enum
import math
from statistics import NormalDist

import msgspec
import numpy as np
import numpy.typing as npt

from fastlloyd.base.arrays import FloatArray
from fastlloyd.mechanisms.mechanism import Clustering, Mechanism

BoolArray = npt.NDArray[np.bool_]

FINE, MOSTLY_NOISE = 0.1, 0.5  # of the radius: beyond the second, a centroid may well be that of its neighbour
NOISE_DOMINATES = (
    "The noise dominates: these centroids say more about the noise than about the records. More records, fewer clusters or "
    "features, tighter bounds or a larger epsilon would help."
)


class Verdict(enum.Enum):
    """What a centroid's relative error (see `relative_errors`) means for whoever reads it."""

    FINE = "fine"
    NOISY = "noisy"
    MOSTLY_NOISE = "mostly noise"

    @classmethod
    def on(cls, relative_error: float) -> "Verdict":
        """The verdict on a relative error; infinity is one."""
        return cls.FINE if relative_error <= FINE else cls.NOISY if relative_error <= MOSTLY_NOISE else cls.MOSTLY_NOISE


class NoiseDeviation(msgspec.Struct, frozen=True, kw_only=True):
    """Standard deviation of the noise in the last answer: of one coordinate of a sum (in its units), of a count (records)."""

    sums: float
    counts: float


def noise_deviation(mechanism: Mechanism) -> NoiseDeviation:
    """Of the central model, and of `server-noise`."""
    (sums, counts), spread = mechanism.rounds[-1].scales, mechanism.noise.spread
    return NoiseDeviation(sums=spread * float(sums), counts=spread * float(counts / 2**mechanism.count_bits))


def noise_errors(mechanism: Mechanism, clustering: Clustering, noise: NoiseDeviation, sizes: FloatArray) -> FloatArray:
    """How far noise moves the mean that the last answer shows: one standard deviation of every coordinate, original units.

    float64 (n_clusters, n_features). The last update set m = (R + r) / (C + c), with noise r on the sum and c on the count.
    To first order its error is (r - m c) / C, so se_i = units_i sqrt(sd(r)^2 + sd(c)^2 m_i^2) / C, where `sizes`
    (n_clusters,) stand for C, and for m the displacement of the last update (the centroid itself where sums are absolute), as
    it is after clipping and folding. It speaks of the noise only, given the previous centroids: not of how the records are
    spread.
    """
    moves = (clustering.centroids - clustering.previous if mechanism.sums_are_relative else clustering.centroids).astype(
        np.float64
    )
    errors: FloatArray = (
        mechanism.domain.units * np.sqrt((clustering.unit * noise.sums) ** 2 + (noise.counts * moves) ** 2) / sizes[:, None]
    )
    return errors


def relative_errors(mechanism: Mechanism, errors: FloatArray) -> FloatArray:
    """Length of each centroid's standard error over the radius a cluster is planned to have, float64 (n_clusters,).

    The radius is eta_d, alpha times that of n_clusters equal cubes filling the domain (Section 5.6 of the paper), also for
    the algorithms that use none. Near 1 and above, the centroid says more about the noise than about the records.
    """
    lengths = np.sqrt(((errors / mechanism.domain.units) ** 2).sum(axis=1))
    ratios: FloatArray = lengths / max(mechanism.planned_radius, 1.0)
    return ratios


def chi_squared_quantile(degrees: int, exceeded: float) -> float:
    """What a chi-squared variable of so many degrees of freedom exceeds with this probability, to three percent.

    Wilson and Hilferty 1931. With one degree it is the square of a normal quantile, exact up to rounding. degrees >= 1.
    """
    if degrees == 1:
        return NormalDist().inv_cdf(1 - exceeded / 2) ** 2
    spread = 2 / (9 * degrees)
    return degrees * (1 - spread + NormalDist().inv_cdf(1 - exceeded) * math.sqrt(spread)) ** 3


class LossEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """The noisy loss of the final centroids and the standard error of its noise, squared half widths of the domain.

    The sum over all records of the squared distance to the nearest centroid, at most the cap each. Unbiased: where the noise is
    larger than the loss it may come out negative, and is left so.
    """

    value: float
    standard_error: float


def loss_estimate(mechanism: Mechanism, clustering: Clustering, deviation: float | None = None) -> LossEstimate | None:
    """The loss that the clustering ended with; None where the mechanism does not ask for it.

    deviation : of its noise, squared half widths of the domain; None for that of the central model and of `server-noise`.
    """
    if mechanism.loss is None:
        return None
    if clustering.loss is None:
        raise AssertionError("a mechanism that asks for the loss ends with one")
    unit = mechanism.loss.unit(mechanism.domain.fraction_bits)
    deviation = mechanism.loss_deviation if deviation is None else deviation
    return LossEstimate(value=clustering.loss * unit, standard_error=deviation)
