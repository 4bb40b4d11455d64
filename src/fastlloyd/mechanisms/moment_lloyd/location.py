"""Location of the records: their number, mean and extent (steps 1 and 2 of docs/momentlloyd.md)."""

import math
from fractions import Fraction

import numpy as np

from fastlloyd.base.arrays import FloatArray
from fastlloyd.mechanisms.moment_lloyd.state import (
    NUMBER_BITS,
    MomentFields,
    Noisy,
    State,
    known,
    rounded,
)

# of a number by which sums are divided: see docs/results/momentlloyd-evidence.md
LEAST_DEVIATIONS = 6.0
# of a record's distance from the mean, in half diagonals and their squares
PRIOR_LENGTH, PRIOR_VARIANCE = 0.6, 0.04
LEAST_LENGTH, MOST_LENGTH = 0.05, 0.9  # half diagonals
SLACK = 1.05  # of the squared typical length
ZOOM = 2.7  # deviations to either side, at least
FINE = 2.0  # so many candidates per cluster and axis are enough for each of these deviations
LEAST_VARIANCE = 1e-6  # squared half widths


def mean(m: MomentFields, state: State, sums: Noisy, count: Noisy) -> State:
    """Return the state with the number and the mean of the records.

    With many features the mean is shrunk towards the middle of the box (James and Stein).

    sums, count : noisy sum and number of all records.
    """
    state = known(m, state, number=round(number(m, count) * 2**NUMBER_BITS))
    n = divisor(m, state)
    g, deviation = sums.values[0] / n, sums.deviation / n
    if m.n_directions:
        g *= max(0.0, 1 - (m.n_features - 2) * deviation**2 / max(float(g @ g), 1e-300))
    return known(m, state, centre=rounded(g, m.domain.half_widths))


def number(m: MomentFields, count: Noisy) -> float:
    """Return an estimate of the number of records, at least 1 and at most the cap `n_records`.

    It is the mean of the noisy count and the expected number, each weighted by its precision. The
    expected number is assumed to have a standard deviation of half its value.
    """
    noisy, expected = _precisions(m, count.deviation)
    n = (float(count.values[0, 0]) * noisy + m.n_expected * expected) / (noisy + expected)
    return min(max(n, 1.0), float(m.n_records))


def scaled(m: MomentFields, state: State, share: float) -> State:
    """Return the state with its number of records multiplied by `share`. The result is at least 1
    and at most the cap `n_records`.
    """
    return known(
        m,
        state,
        number=min(
            max(round(state.number * Fraction(share)), 1 << NUMBER_BITS), m.n_records << NUMBER_BITS
        ),
    )


def divisor(m: MomentFields, state: State) -> float:
    """Return the number by which sums over all records are divided.

    It is the number of records, but at least `LEAST_DEVIATIONS` standard deviations of this number.
    A sum divided by a number that is mostly noise would be mostly noise too. The minimum is never
    above a quarter of the expected number, or above the cap `n_records`. It uses the planned
    deviation, which is for all clients. So if clients are missing, the centroids move more
    cautiously.
    """
    deviation = float(m.count_scales[0]) / 2**m.number_bits
    least = LEAST_DEVIATIONS / math.sqrt(sum(_precisions(m, deviation)))
    return max(records(state), min(least, m.n_expected / 4, float(m.n_records)))


def _precisions(m: MomentFields, deviation: float) -> tuple[float, float]:
    """Return the precisions of a noisy count and of the expected number.

    deviation : standard deviation of the noise in the count.
    """
    return 1 / max(deviation, 1e-9) ** 2, 4 / m.n_expected**2


def length(m: MomentFields, state: State, lengths: Noisy) -> State:
    """Return the state with the typical distance of records from their mean.

    It averages the noisy mean distance and a guess, each weighted by its precision.
    """
    # half the diagonal of the box
    n, B = divisor(m, state), math.sqrt(m.domain.squared_half_diagonal)
    noisy, guessed = (n / lengths.deviation) ** 2, 1 / (PRIOR_VARIANCE * B**2)
    a = (float(lengths.values[0, 0]) / n * noisy + PRIOR_LENGTH * B * guessed) / (noisy + guessed)
    return known(m, state, length=round(float(np.clip(a, LEAST_LENGTH * B, MOST_LENGTH * B))))


def box(
    m: MomentFields, state: State, squares: Noisy, mean_deviation: float
) -> tuple[FloatArray, FloatArray]:
    """Return lower and upper corner of a box around most records, within the bounds, float64 (d,)
    each.

    The box extends from the mean by some standard deviations to either side. It is wider if there
    are more candidates for each cluster, because a search for small far clusters then costs little.
    One deviation of the noise is added to each variance.

    squares : noisy sums of squares.
    mean_deviation : standard deviation of the noise in a coordinate of the mean.
    """
    n, B = divisor(m, state), m.domain.half_widths
    v = (squares.values[0] + squares.deviation) / n
    zoom = max(ZOOM, (m.n_candidates / m.n_clusters) ** (1 / m.n_features) / FINE)
    half = (
        zoom
        * np.sqrt(np.clip(v, LEAST_VARIANCE * B.astype(np.float64) ** 2, B.astype(np.float64) ** 2))
        + mean_deviation
    )
    return np.maximum(state.centre - half, -B), np.minimum(state.centre + half, B)


def records(state: State) -> float:
    """Return the state's number of records."""
    return state.number / 2.0**NUMBER_BITS


def squared_length(state: State) -> float:
    """Return the typical squared distance of records from their mean, multiplied by `SLACK`."""
    return SLACK * float(state.length) ** 2
