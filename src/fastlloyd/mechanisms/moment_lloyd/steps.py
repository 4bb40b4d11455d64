"""One step of the clustering, in which centroids move by clipped offsets of their records (step 4
of docs/momentlloyd.md).
"""

import math
from fractions import Fraction

import numpy as np

from fastlloyd.base.arrays import FloatArray
from fastlloyd.mechanisms.moment_lloyd.directions import basis, used
from fastlloyd.mechanisms.moment_lloyd.location import divisor, records
from fastlloyd.mechanisms.moment_lloyd.state import (
    NUMBER_BITS,
    MomentFields,
    Noisy,
    State,
    known,
    limit,
    rounded,
)

LEAST_RADIUS = Fraction(1, 1000)  # half widths
# Few moves tell little of how much moves vary, and to move too little costs more than to move too
# far: what is found is raised towards what is likely, never lowered. See Constants in
# docs/results/momentlloyd-evidence.md.
LIKELY = 1.5  # variances of their noise
LIKELY_WEIGHT = 8.0  # as if seen in so many coordinates


def step(
    m: MomentFields, state: State, sums: Noisy, counts: Noisy, *, in_directions: bool
) -> State:
    """Return the state after one step: divide sums of offsets by sizes, shrink the moves, and move.

    The new state's sizes add up to the estimated number of records. The sizes by which sums are
    divided are raised to a minimum, so they may add up to more. If the offsets have coordinates in
    all features, a move is split into its part along the directions and the rest. Each part is
    shrunk separately.

    sums, counts : noisy sums of offsets, and noisy counts.
    in_directions : whether the offsets have coordinates along the directions.
    """
    n, told = sizes(counts, divisor(m, state)), sizes(counts, records(state))
    told *= records(state) / told.sum()
    moves, variances = sums.values / n[:, None], (sums.deviation / n) ** 2
    V, found, B = basis(state), used(state), m.domain.half_widths
    state = known(
        m,
        state,
        sizes=np.clip(np.rint(told * 2**NUMBER_BITS), 0, m.n_records << NUMBER_BITS).astype(
            np.int64
        ),
    )
    if in_directions:
        points = state.points.astype(np.float64)
        points[:, :found] += shrunk(
            moves[:, :found], variances, n, found, _most(m, state.inner_spread, found)
        )
        centroids = state.centre + points[:, :found] @ V.T
        return known(
            m, state, points=rounded(points, limit(m, "points")), centroids=rounded(centroids, B)
        )
    along = moves @ V
    rest = moves - along @ V.T
    most = _most(m, state.spread, m.n_features)
    moves = shrunk(along, variances, n, found, most) @ V.T + shrunk(
        rest, variances, n, m.n_features - found, most
    )
    return known(m, state, centroids=rounded(state.centroids + moves, B))


def _most(m: MomentFields, spread: int, dimensions: int) -> float:
    """Return the expected squared offset in one of `dimensions` coordinates, at least
    `LEAST_RADIUS`**2.

    For a step in all features, the result is the same along and across the directions. Offsets are
    longer along them, so moves along them may be shrunk more than necessary.

    spread : expected squared offset.
    """
    least = math.ldexp(float(LEAST_RADIUS), m.domain.fraction_bits)
    return max(float(spread), least**2) / max(dimensions, 1)


def sizes(counts: Noisy, n: float) -> FloatArray:
    """Return the estimated number of records of each cluster, float64 (k,).

    Noisy counts are adjusted to sum up to n, and shrunk towards n / k (James and Stein). Then each
    size is raised to a minimum.
    """
    noisy, sigma = counts.values.ravel(), counts.deviation
    k = len(noisy)
    excess = noisy - noisy.mean()
    squared = float(excess @ excess)
    factor = max(0.0, 1 - (k - 1) * sigma**2 / squared) if squared else 0.0
    return np.asarray(np.maximum(n / k + factor * excess, max(1.0, 0.5 * min(sigma, n / k))))


def shrunk(
    moves: FloatArray, variances: FloatArray, sizes: FloatArray, dimensions: int, most: float
) -> FloatArray:
    """Return the moves, each shrunk towards zero by the factor tau / (tau + variance) (empirical
    Bayes).

    One tau, the variance of a true move in each coordinate, is estimated from all clusters.

    moves : noisy moves of the centroids, float64 (k, .), in a space of `dimensions` dimensions.
    variances : variance of the noise in each coordinate of a move, float64 (k,).
    sizes : weights of the clusters in the estimate of tau, float64 (k,).
    most : upper bound of tau. The mean offset of records is no longer than the longest offset.
    """
    if dimensions == 0:
        return np.zeros_like(moves)
    weights, n = sizes / sizes.sum(), len(moves) * dimensions
    found = float(weights @ np.maximum((moves**2).sum(axis=1) / dimensions - variances, 0.0))
    likely = LIKELY * float(weights @ variances)
    tau = min(max(found, (n * found + LIKELY_WEIGHT * likely) / (n + LIKELY_WEIGHT)), most)
    return np.asarray(moves * (tau / np.maximum(tau + variances, 1e-300))[:, None])
