"""One step of the clustering: centroids follow the clipped offsets of their records (step 4 of docs/momentlloyd.md)."""

import math
from fractions import Fraction

import numpy as np

from fastlloyd.mechanisms.moment_lloyd.directions import basis, used
from fastlloyd.mechanisms.moment_lloyd.location import divisor, records
from fastlloyd.mechanisms.moment_lloyd.noisy import Noisy, rounded
from fastlloyd.mechanisms.moment_lloyd.rounds import MomentFields, StepRound
from fastlloyd.mechanisms.moment_lloyd.shrinkage import shrunk, sizes
from fastlloyd.mechanisms.moment_lloyd.state import NUMBER_BITS, State, fields, known

LEAST_RADIUS = Fraction(1, 1000)  # half widths


def step(m: MomentFields, state: State, round: StepRound, sums: Noisy, counts: Noisy) -> State:
    """Divide sums of offsets by sizes, shrink the moves, move.

    The sizes that are told add up to the number of records as it was found, not to what sums are divided by.
    Among the features a move is split into its part along the directions and the rest, which are shrunk each on its own.
    """
    n, told = sizes(counts, divisor(m, state)), sizes(counts, records(state))
    told *= records(state) / told.sum()
    moves, variances = sums.values / n[:, None], (sums.deviation / n) ** 2
    V, found, B = basis(state), used(state), m.domain.half_widths
    state = known(m, state, sizes=np.clip(np.rint(told * 2**NUMBER_BITS), 0, m.n_records << NUMBER_BITS).astype(np.int64))
    if round.in_directions:
        points = state.points.astype(np.float64)
        points[:, :found] += shrunk(moves[:, :found], variances, n, found, _most(m, state.inner_spread, found))
        limit = next(field.most for field in fields(m) if field.name == "points")
        centroids = state.centre + points[:, :found] @ V.T
        return known(m, state, points=rounded(points, limit), centroids=rounded(centroids, B))
    along = moves @ V
    rest = moves - along @ V.T
    most = _most(m, state.spread, m.n_features)
    moves = shrunk(along, variances, n, found, most) @ V.T + shrunk(rest, variances, n, m.n_features - found, most)
    return known(m, state, centroids=rounded(state.centroids + moves, B))


def _most(m: MomentFields, spread: int, dimensions: int) -> float:
    """A coordinate's part of the squared offset to be expected, over so many dimensions.

    Among the features the same along the directions and across: offsets reach farther along them, and noise is believed less.
    """
    least = math.ldexp(float(LEAST_RADIUS), m.domain.fraction_bits)
    return max(float(spread), least**2) / max(dimensions, 1)
