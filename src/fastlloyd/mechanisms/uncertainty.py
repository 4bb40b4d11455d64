"""Estimates of the accuracy of released centroids and of the loss.

For each centroid, an estimate says how far it is from the centre of its records (`FarRecords`), or
that this distance is unknown. Another estimate is for the noise in the loss.

The estimates use noisy answers and public scales alone, so they cost no privacy. Noise is only one
part of the distance. A move may have been shrunk, and the centroids may not have converged. All
parts are estimated from the last answer, with constants that were chosen on synthetic groups. The
study on other groups is docs/results/coverage.md.
"""

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, median

import msgspec
import numpy as np
import numpy.typing as npt

from fastlloyd.base.arrays import FloatArray, IntArray
from fastlloyd.dp.noise import Noise
from fastlloyd.mechanisms.facts import Fact, FarRecords
from fastlloyd.mechanisms.mechanism import Clustering, Evidence, Mechanism, cautious

BoolArray = npt.NDArray[np.bool_]

# of the radius: beyond the second, a centroid may well be that of its neighbour
FINE, MOSTLY_NOISE = 0.1, 0.5
FEW = 3  # a noisy count of so many standard deviations is hardly one of no records
ENOUGH = 6  # of a typical cluster: then hardly any noisy count is one of few records
OWN = 0.7  # of a move that noise does not explain may be to come;
# and so much of that of all clusters; the second where moves were shrunk
OTHERS, OTHERS_SHRUNK = 1.0, 0.3
EXPLAINED = 2.0  # deviations of noise explain a move
# of the radius: a longer move is not over; the second holds where the last move was the first
MOVED, FIRST_MOVED = 0.1, 0.3
# of a skewed column: its records begin at a bound that is no farther than so many radii, and the
# other bound is so many times as far
BEGINS, ENDS = 4.0, 2.0
BY_CHANCE = 0.001  # probability that noise alone makes a move look like one


class Verdict(enum.Enum):
    """Effect of the noise on a clustering, expected or found."""

    CLEAR = "clear"
    BLURRED = "blurred"
    MOSTLY_NOISE = "mostly noise"

    @classmethod
    def on(cls, relative_error: float, size: float, count_noise: float) -> "Verdict":
        """Return the verdict on a typical cluster.

        relative_error : relative error of the cluster's centroid (`relative_errors`), which may be
            infinite.
        size : number of records or persons of the cluster: true, expected or noisy.
        count_noise : standard deviation of the noise in a count. If the noise is smaller than one
            record, the size does not matter.
        """
        hides_sizes = count_noise * FEW >= 1
        if relative_error > MOSTLY_NOISE or (hides_sizes and size < FEW * count_noise):
            return cls.MOSTLY_NOISE
        if relative_error > FINE or (hides_sizes and size < ENOUGH * count_noise):
            return cls.BLURRED
        return cls.CLEAR


class NoiseDeviation(msgspec.Struct, frozen=True, kw_only=True):
    """Standard deviations of the noise in the last answer.

    sums : standard deviation in a coordinate of a sum, in the units of the sum.
    counts : standard deviation in a count, in records or persons.
    """

    sums: float
    counts: float


def noise_deviation(mechanism: Mechanism) -> NoiseDeviation:
    """Return the deviation of the noise in the last answer, for the central model and
    `server-noise`.
    """
    (sums, counts), spread = mechanism.rounds[-1].scales, mechanism.noise.spread
    return NoiseDeviation(
        sums=spread * float(sums), counts=spread * float(counts / 2**mechanism.number_bits)
    )


def noise_errors(
    mechanism: Mechanism, clustering: Clustering, noise: NoiseDeviation, sizes: FloatArray
) -> FloatArray:
    """Return the standard deviation of the noise in the mean that the last answer shows.

    The result is float64 (n_clusters, n_features), in original units. The last update set m = (R +
    r) / (C + c), with the exact sum R, the exact count C, and their noise r and c. To first order
    its error is (r - m c) / C, so se_i = units_i sqrt(sd(r)^2 + sd(c)^2 m_i^2) / C. Here C is taken
    from `sizes` (n_clusters,), and m is the displacement of the last update, after clipping and
    folding. If sums are absolute, m is the centroid.

    The errors describe the noise alone, given the previous centroids. They do not describe the
    spread of the records.
    """
    moves = (
        clustering.centroids - clustering.previous
        if mechanism.sums_are_relative
        else clustering.centroids
    ).astype(np.float64)
    errors: FloatArray = (
        mechanism.domain.units
        * np.sqrt((clustering.unit * noise.sums) ** 2 + (noise.counts * moves) ** 2)
        / sizes[:, None]
    )
    return errors


def relative_errors(mechanism: Mechanism, errors: FloatArray) -> FloatArray:
    """Return the relative error of each centroid, float64 (n_clusters,).

    It is the Euclidean norm of the centroid's standard errors, divided by the planned radius eta_d
    of a cluster. If n_clusters equal cubes fill the domain, eta_d is alpha times the radius of one
    cube (Section 5.6 of the paper). It is used for algorithms without a radius, too. With an error
    near or above 1, a centroid reflects the noise more than the records.
    """
    lengths = np.sqrt(((errors / mechanism.domain.units) ** 2).sum(axis=1))
    ratios: FloatArray = lengths / max(mechanism.planned_radius, 1.0)
    return ratios


def chi_squared_quantile(degrees: int, exceeded: float) -> float:
    """Return the value that a chi-squared variable exceeds with probability `exceeded`.

    The value is accurate to three percent (Wilson and Hilferty 1931). With one degree of freedom it
    is the square of a normal quantile, exact up to rounding.

    degrees : number of degrees of freedom, at least 1.
    """
    if degrees == 1:
        return NormalDist().inv_cdf(1 - exceeded / 2) ** 2
    spread = 2 / (9 * degrees)
    return degrees * (1 - spread + NormalDist().inv_cdf(1 - exceeded) * math.sqrt(spread)) ** 3


class LossEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """Noisy loss of the final centroids, and its standard error, in squared half widths of the
    domain.

    The loss is the sum over all records of the squared distance to the nearest centroid, each
    clipped to a cap. The noisy loss is unbiased, so it may be negative if the noise exceeds the
    loss.
    """

    value: float
    standard_error: float


def loss_estimate(
    mechanism: Mechanism, clustering: Clustering, deviation: float | None = None
) -> LossEstimate | None:
    """Return the noisy loss of the final clustering, or None if the mechanism has no round for the
    loss.

    deviation : standard deviation of the noise in the loss, in squared half widths of the domain.
        None stands for the deviation in the central model and in `server-noise`.
    """
    if mechanism.loss is None:
        return None
    if clustering.loss is None:
        raise AssertionError(
            "a mechanism that estimates the loss must end with a round for the loss"
        )
    deviation = mechanism.loss_deviation if deviation is None else deviation
    return LossEstimate(value=clustering.loss * mechanism.loss_unit, standard_error=deviation)


class Status(enum.Enum):
    """Reliability of a centroid's interval."""

    SETTLED = "settled"  # its interval holds
    MOVING = "moving"  # it may still be moving, or its records may be several groups
    FEW = "few"  # its noisy count may be that of few records, or of none
    STAYED = "stayed"  # its noisy count was too small to divide by: it stayed in the last round


class Accuracy(msgspec.Struct, frozen=True, kw_only=True):
    """Estimated error of each centroid, and whether the estimate is reliable.

    errors : standard errors of the centroids in original units, float64 (n_clusters, n_features).
        NaN for a centroid that was not moved. `Mechanism.promise` states what two standard errors
        cover.
    status : status of each cluster.
    radius : radius R that `Mechanism.promise` names, in original units, float64 (n_features,), or
        None if it names none.
    beyond : largest distance by which the mean of a cluster's records may be outside the interval
        of two standard errors, float64 (n_clusters, n_features), in original units. It is positive
        above the interval and negative below, and NaN if nothing is stated. None if the answers do
        not determine it, or if the centre is the mean.
    """

    errors: FloatArray
    status: tuple[Status, ...]
    radius: FloatArray | None = None
    beyond: FloatArray | None = None


def assess(mechanism: Mechanism, clustering: Clustering, noise: NoiseDeviation) -> Accuracy:
    """Return the estimated error of each centroid.

    noise : deviation of the noise in the last answer.

    Without noise all errors are 0, because nothing is estimated. Otherwise a squared standard error
    is the sum of the squares of four distances:

    - the noise in the centre that the answers show,
    - the distance of the centroid from that centre, because moves were shrunk,
    - the next move to expect, if noise does not explain the last one,
    - the effect of records beyond the radius of the last round, estimated from the votes.
    """
    updated, radius = clustering.updated, _radius(mechanism, clustering)
    if mechanism.noise is Noise.NONE:
        errors = np.where(updated[:, None], np.zeros(clustering.centroids.shape), np.nan)
        no = np.zeros_like(updated)
        return Accuracy(errors=errors, status=_status(updated, no, no), radius=radius)
    move = _last_move(mechanism, clustering, noise)
    seen = clustering.evidence or _evidence(mechanism, clustering, move)
    left = seen.means - clustering.centroids
    others = OTHERS if clustering.evidence is None else OTHERS_SHRUNK
    squares = seen.deviations**2 + left**2 + _to_come(move, seen.radius, others) + seen.hidden**2
    errors = np.where(updated[:, None], mechanism.domain.units * np.sqrt(squares), np.nan)
    # a large count among such that say nothing may be small
    few = np.minimum(move.counts, seen.sizes) < FEW * noise.counts
    status = _status(updated, few, _is_moving(move, seen) | seen.crowded)
    beyond = _beyond(mechanism, clustering.centroids, seen, settled(status))
    return Accuracy(errors=errors, status=status, radius=radius, beyond=beyond)


def settled(status: Sequence[Status]) -> BoolArray:
    """Return whether the interval of each cluster is reliable (its status is "settled"), bool
    (n_clusters,).
    """
    return np.array([each is Status.SETTLED for each in status])


def cautions(status: Sequence[Status], count_error: float) -> list[Fact]:
    """Return a fact for each status that some cluster has, except "settled" and "stayed".

    The fact about clusters with few records is left out if the noise in counts is smaller than one
    record. The noisy counts already show which clusters have few records.
    """
    kinds = [Status.MOVING, *([] if FEW * count_error < 1 else [Status.FEW])]
    numbers = [(kind, sum(each is kind for each in status)) for kind in kinds]
    return [
        Fact.of(f"status_{kind.value}", n=n, n_clusters=len(status), deviations=FEW)
        for kind, n in numbers
        if n
    ]


def verdict(
    mechanism: Mechanism, accuracy: Accuracy, noisy_counts: FloatArray, count_error: float
) -> Verdict:
    """Return the verdict on a result. It is about a cluster with the median noisy count. If most
    clusters have few records or did not move, it is about a cluster without records.
    """
    error = typical_error(mechanism, accuracy, noisy_counts, count_error)
    n_few = sum(each in (Status.FEW, Status.STAYED) for each in accuracy.status)
    size = 0.0 if 2 * n_few > len(accuracy.status) else float(median(noisy_counts.tolist()))
    return Verdict.on(error, size, count_error)


def typical_error(
    mechanism: Mechanism, accuracy: Accuracy, noisy_counts: FloatArray, count_error: float
) -> float:
    """Return the median of the relative errors (`relative_errors`).

    The error of a centroid that was not moved counts as infinite. If the mechanism divides by noisy
    counts as they are, the error of a cluster with few records is infinite too. If the noise in
    counts is smaller than one record, the error of an empty cluster's centroid counts as 0.
    """
    ratios = np.nan_to_num(relative_errors(mechanism, accuracy.errors))
    stayed = np.array([each is Status.STAYED for each in accuracy.status])
    few = noisy_counts < FEW * count_error
    ratios[stayed | (few & mechanism.divides_by_noisy_counts)] = np.inf
    most_of_none = FEW * count_error
    if most_of_none < 1:
        ratios[stayed & (noisy_counts <= most_of_none)] = 0.0
    return float(median(ratios.tolist()))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Move:
    """Moves that the last answer asks for, (n_clusters, n_features), in grid units.

    asked : move from the previous centroid to the mean that the answer shows.
    deviations : deviations of the noise in that mean.
    unlikely : for each cluster, the sum of the squared coordinates of `asked`, each divided by its
        variance under noise alone.
    counts : noisy counts, (n_clusters,).

    `asked` and `deviations` are computed with the noisy count minus its standard error, because the
    true count may be smaller than the noisy one.
    """

    asked: FloatArray
    deviations: FloatArray
    unlikely: FloatArray
    counts: FloatArray

    @property
    def squared_excess(self) -> FloatArray:
        """Squared Euclidean norm of the move, minus its expected value under noise alone,
        (n_clusters,).

        It is below 0 if noise explains more than the move.
        """
        excess: FloatArray = (self.asked**2 - self.deviations**2).sum(axis=1)
        return excess


def _last_move(mechanism: Mechanism, clustering: Clustering, noise: NoiseDeviation) -> _Move:
    counts = clustering.noisy_counts(mechanism.number_bits)
    sizes = cautious(counts, noise.counts, mechanism.n_expected)
    before: FloatArray | IntArray = clustering.previous
    if mechanism.sums_are_relative:
        before = np.zeros_like(before)
    sums = clustering.unit * clustering.answer[:, :-1] - counts[:, None] * before
    variances = (clustering.unit * noise.sums) ** 2 + (noise.counts * before) ** 2
    return _Move(
        asked=sums / sizes[:, None],
        deviations=noise_errors(mechanism, clustering, noise, sizes) / mechanism.domain.units,
        unlikely=(sums**2 / variances).sum(axis=1),
        counts=counts,
    )


def _to_come(move: _Move, radius: float, others: float) -> FloatArray:
    """Return the squares of the moves that may still come, (n_clusters, n_features).

    They depend on each cluster's own last move and on the moves of all clusters, because a moving
    centroid takes records from its neighbours. Moves of larger clusters have more weight.

    radius : largest Euclidean norm of an offset in the last round. Longer offsets were clipped to
        it.
    others : weight of the moves of all clusters.
    """
    variances = move.deviations**2
    own = np.maximum(move.asked**2 - EXPLAINED**2 * variances, 0.0)
    weights = np.maximum(move.counts, 0.0) ** 2
    # one that is far from settled says little of others
    limited = np.minimum(move.squared_excess, (MOVED * radius) ** 2)
    of_all = max(float(weights @ limited) / max(float(weights.sum()), 1.0), 0.0) / own.shape[1]
    return np.asarray(OWN**2 * own + others**2 * of_all)


def _is_moving(move: _Move, seen: Evidence) -> BoolArray:
    """Return whether each centroid may still move, bool (n_clusters,).

    A centroid may still move if noise does not explain its last move, and this move is too long to
    be the last one.
    """
    least = (FIRST_MOVED if seen.is_first else MOVED) * seen.radius
    moving: BoolArray = move.unlikely > chi_squared_quantile(move.asked.shape[1], BY_CHANCE)
    return moving & (move.squared_excess > least**2)


def _evidence(mechanism: Mechanism, clustering: Clustering, move: _Move) -> Evidence:
    """Return the evidence of the last answer alone.

    The effect of records beyond the radius is unknown, and taken as 0.
    """
    shape = clustering.centroids.shape
    return Evidence(
        means=clustering.previous + move.asked,
        deviations=move.deviations,
        sizes=move.counts,
        radius=max(mechanism.last_radius, 1.0),
        hidden=np.zeros(shape),
        crowded=np.zeros(shape[0], dtype=np.bool_),
    )


def _status(updated: BoolArray, few: BoolArray, moving: BoolArray) -> tuple[Status, ...]:
    return tuple(
        Status.STAYED if not u else Status.FEW if f else Status.MOVING if m else Status.SETTLED
        for u, f, m in zip(updated.tolist(), few.tolist(), moving.tolist(), strict=True)
    )


def _radius(mechanism: Mechanism, clustering: Clustering) -> FloatArray | None:
    """Return the radius R within which records count in full, in original units, float64
    (n_features,). Return None if every record counts in full.
    """
    if mechanism.far_records is FarRecords.COUNTED:
        return None
    seen = clustering.evidence
    return np.asarray(
        (mechanism.last_radius if seen is None else seen.radius) * mechanism.domain.units
    )


def _beyond(
    mechanism: Mechanism, centroids: IntArray, seen: Evidence, is_settled: BoolArray
) -> FloatArray | None:
    """Return `Accuracy.beyond`, the distances of the means from their intervals.

    A distance is given only for a centroid near one bound and far from the other, because the
    column may be skewed there.
    """
    if seen.above is None or seen.below is None:
        return None
    half_widths = mechanism.domain.half_widths
    from_lower, from_upper = half_widths + centroids, half_widths - centroids
    near = BEGINS * seen.radius
    higher = (from_lower <= near) & (from_upper >= ENDS * from_lower)
    lower = (from_upper <= near) & (from_lower >= ENDS * from_upper)
    figures = np.where(higher, seen.above, np.where(lower, -seen.below, np.nan))
    return np.where(is_settled[:, None], figures * mechanism.domain.units, np.nan)
