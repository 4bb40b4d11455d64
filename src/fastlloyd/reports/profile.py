"""Differences between the clusters of a result that its noise allows to state.

Everything follows from noisy centroids, noisy counts and their standard errors, so it costs no
privacy. A cluster is settled if its status is "settled", and its standard errors are known.

Rule. S clusters are settled, with d features, centroids m_ij, standard errors e_ij, and noisy
counts n_i whose standard error is s. Two standard errors cover a centre in nine of ten cases or
more (`Mechanism.promise`). A normal law for which exactly that is true has the deviation

    s_ij = KAPPA e_ij,    KAPPA = 2 / Phi^-1(.95).

*All together* is the mean a_j = sum_i w_i m_ij of the settled centres. Here w_i is n_i (at least
s), divided by the sum N of these numbers. The contrast of a cluster is c_ij = m_ij - a_j. Its
variance is

    (1 - w_i)^2 s_ij^2 + sum_{l != i} w_l^2 s_lj^2 + sum_l ((m_lj - a_j) / N)^2 (KAPPA s)^2.

There are two families of S d intervals each: m_ij +- z s_ij for centres, and c_ij +- z sd(c_ij) for
contrasts. With z = Phi^-1(1 - ALPHA / (2 * 2 S d)), all intervals hold together with probability 1
- ALPHA, whatever their dependence (Bonferroni). So each sentence that is chosen from them
afterwards is covered, too.

- A centre is *higher* or *lower* if the interval of its contrast excludes 0.
- It is *the highest* or *the lowest* if, in addition, its interval is beyond the intervals of all
  other centres. An extreme is stated only if all clusters are settled, and there are more than two.
- A cluster is described by at most `MOST` features. They are ranked by the distance of the interval
  of the contrast from 0. The unit is the spread of the settled clusters beyond noise (at least a
  hundredth of half the range between the bounds). A feature below `LEAST_SHARE` of the first is
  left out.
"""

import math
from statistics import NormalDist
from typing import Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from fastlloyd.base.arrays import FloatArray, IntArray

ALPHA: Final = 0.05
KAPPA: Final = 2 / NormalDist().inv_cdf(0.95)
MOST: Final = 3
LEAST_SHARE: Final = 0.25
LEAST_SPREAD: Final = 0.01  # of half the range between the bounds

BoolArray = NDArray[np.bool_]


class Claim(NamedTuple):
    """Statement about the centre of one cluster.

    feature : index of the feature.
    side : 1 if the centre is higher than the mean of all settled centres, -1 if it is lower.
    is_extreme : whether it is the highest, or the lowest, of all.
    """

    feature: int
    side: int
    is_extreme: bool


class Centres(NamedTuple):
    """Noisy results of a clustering, in the numbers that are clustered.

    values, errors : centroids and their standard errors, float64 (n_clusters, n_features).
    counts : noisy counts, float64 (n_clusters,).
    count_error : standard error of each count.
    settled : bool (n_clusters,), True if the standard errors are known and reliable.
    half_widths : half the range between the bounds, float64 (n_features,).
    """

    values: FloatArray
    errors: FloatArray
    counts: FloatArray
    count_error: float
    settled: BoolArray
    half_widths: FloatArray


class Profile(NamedTuple):
    """Statements that the noise allows, and the numbers behind them.

    z : half width of each interval, in standard deviations.
    n_intervals : number of intervals that are valid at the same time.
    together, together_errors : mean of the settled centres, and its standard deviations, float64
        (n_features,) each.
    sides : 1 if the centre is higher than the mean, -1 if it is lower, 0 for no statement, int64
        (n_clusters, n_features).
    reaches : half widths of the intervals of contrasts, float64 (n_clusters, n_features).
    contrasts : float64 (n_clusters, n_features), 0 for clusters that are not settled.
    claims : for each cluster, the statements that describe it, the clearest first.
    by_importance : indexes of the features, int64 (n_features,). The feature in which the clusters
        differ most is the first.
    """

    z: float
    n_intervals: int
    together: FloatArray
    together_errors: FloatArray
    sides: IntArray
    reaches: FloatArray
    contrasts: FloatArray
    claims: tuple[tuple[Claim, ...], ...]
    by_importance: IntArray

    @classmethod
    def of(cls, centres: Centres) -> Self:
        """Return the statements that the noise allows about these centres."""
        k, d = centres.values.shape
        settled = centres.settled[:, None]
        n_intervals = 2 * int(centres.settled.sum()) * d
        z = NormalDist().inv_cdf(1 - ALPHA / (2 * max(n_intervals, 1)))
        weights, N = _weights(centres)
        m = np.where(settled, centres.values, 0.0)
        deviations = np.where(settled, KAPPA * np.nan_to_num(centres.errors), 0.0)
        together = weights @ m
        contrasts = np.where(settled, m - together, 0.0)
        counted = ((contrasts / N) ** 2).sum(axis=0) * (KAPPA * centres.count_error) ** 2
        shared = weights[:, None] ** 2 * deviations**2
        others = shared.sum(axis=0) - shared
        variances = (1 - weights[:, None]) ** 2 * deviations**2 + others + counted
        reaches = z * np.sqrt(np.maximum(variances, 0.0))
        stated = settled & (np.abs(contrasts) > reaches) & (n_intervals > 2 * d)
        sides = np.where(stated, np.sign(contrasts), 0).astype(np.int64)
        ranks = _ranks(centres, weights, contrasts, variances, reaches, sides)
        highest, lowest = _extremes(centres, z * deviations)
        return cls(
            z=z,
            n_intervals=n_intervals,
            together=together,
            together_errors=np.sqrt(shared.sum(axis=0) + counted),
            sides=sides,
            reaches=reaches,
            contrasts=contrasts,
            claims=tuple(_claims(ranks[i], sides[i], highest[i], lowest[i]) for i in range(k)),
            by_importance=by_importance(
                centres.values, centres.errors, centres.counts, centres.half_widths
            ),
        )


def _weights(centres: Centres) -> tuple[FloatArray, float]:
    """Return the weights w_i of the clusters, float64 (n_clusters,), and the sum N. The weight of a
    cluster that is not settled is 0.
    """
    least = max(centres.count_error, math.ulp(1.0))
    counts = np.where(centres.settled, np.maximum(centres.counts, least), 0.0)
    N = float(counts.sum()) or 1.0
    return counts / N, N


def _ranks(
    centres: Centres,
    weights: FloatArray,
    contrasts: FloatArray,
    variances: FloatArray,
    reaches: FloatArray,
    sides: IntArray,
) -> FloatArray:
    """Return a number that says how clearly each centre differs from those of the other clusters in
    each feature, float64 (n_clusters, n_features). It is 0 if there is nothing to say.
    """
    spread = weights @ (contrasts**2 - variances)
    least = LEAST_SPREAD * centres.half_widths
    units = np.sqrt(np.maximum(spread, least**2))
    return np.where(sides != 0, (np.abs(contrasts) - reaches) / units, 0.0)


def _extremes(centres: Centres, reaches: FloatArray) -> tuple[BoolArray, BoolArray]:
    """Return whether each centre is the highest, and the lowest, of all.

    reaches : half widths of the intervals of the centres.
    """
    k = len(centres.values)
    never = np.zeros(centres.values.shape, dtype=bool)
    if k <= 2 or not centres.settled.all():
        return never, never.copy()
    low, high = centres.values - reaches, centres.values + reaches
    highs, lows = np.sort(high, axis=0), np.sort(low, axis=0)
    others_high = np.where(high == highs[-1], highs[-2], highs[-1])
    others_low = np.where(low == lows[0], lows[1], lows[0])
    return low > others_high, high < others_low


def _claims(
    ranks: FloatArray, sides: IntArray, highest: BoolArray, lowest: BoolArray
) -> tuple[Claim, ...]:
    """Return the statements about one cluster, the clearest first."""
    best = [j for j in np.argsort(-ranks, kind="stable").tolist() if sides[j]][:MOST]
    return tuple(
        Claim(j, int(sides[j]), bool((highest if sides[j] > 0 else lowest)[j]))
        for j in best
        if ranks[j] >= LEAST_SHARE * ranks[best[0]]
    )


def by_importance(
    values: FloatArray, errors: FloatArray, counts: FloatArray, half_widths: FloatArray
) -> IntArray:
    """Return the indexes of the features, int64 (n_features,), the feature in which the clusters
    differ most first.

    The score of a feature starts with the spread of its centroids, weighted by noisy counts. The
    part that standard errors explain is subtracted. The rest is divided by the squared half range
    between the bounds. The arguments are fields of `Centres`.
    """
    counts = np.maximum(counts, 0.0)
    weights = counts / counts.sum() if counts.sum() > 0 else np.full(len(counts), 1 / len(counts))
    spread = weights @ (values - weights @ values) ** 2
    by_noise = weights @ np.nan_to_num(errors) ** 2
    scores = np.maximum(spread - by_noise, 0.0) / half_widths**2
    order: IntArray = np.argsort(-scores, kind="stable")
    return order
