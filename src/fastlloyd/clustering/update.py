"""Next centroids from noisy statistics, computed in integers only.

Independent clients must compute bit-identical centroids on every machine, so no value here is ever
a float. Everything in this file is post-processing of noisy answers, and costs no privacy.

Departs from the paper, where centroids are reals. Here they are rounded to the grid. Without
post-processing they are saturated, so that squared distances stay exact. A centroid with a noisy
count below `min_count` stays in place, because a division could move it anywhere.
"""

import enum
import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastlloyd.base.arrays import IntArray


class Postprocessing(enum.Enum):
    """Treatment of a centroid outside the domain (Appendix B of the paper)."""

    # it stays there, saturated at `Domain.saturation` so that arithmetic remains exact
    NONE = "none"
    TRUNCATE = "truncate"  # it moves to the wall
    FOLD = "fold"  # it is reflected at the wall


def divide(numerator: IntArray, counts: IntArray, count_bits: int) -> NDArray[Any]:
    """Return numerator / (counts / 2**count_bits) for each row, rounded half up.

    The result is integers (k, d). They are int64 if all intermediate values fit, and otherwise
    Python integers (dtype object).

    numerator : int64 (k, d).
    counts : counts in units of 2**-count_bits records, int64 (k,), which must not be 0.
    """
    fits = (_magnitude(numerator) << (count_bits + 1)) + 2 * _magnitude(counts) < 1 << 63
    exact = np.int64 if fits else object
    twice_R, C = (
        numerator.astype(exact, copy=False) << (count_bits + 1),
        counts.astype(exact, copy=False)[:, None],
    )
    quotient: NDArray[Any] = (twice_R + C) // (2 * C)  # floor(R / C + 1/2), also for a negative C
    return quotient


def _magnitude(values: NDArray[Any]) -> int:
    """Return the largest absolute value. It is also right for -2**63, which `np.abs` would leave
    negative.
    """
    return max(int(values.max(initial=0)), -int(values.min(initial=0)))


def clip_to_radius(moves: NDArray[Any], squared_radius: int) -> IntArray:
    """Return the moves, each shortened to the radius if it is longer (Section 5.1).

    The result is int64 (k, d), and every squared norm is at most `squared_radius`. Coordinates are
    rounded toward zero.

    moves : integers (k, d).
    squared_radius : square of the radius, in squared grid units.
    """
    fits = moves.dtype == np.int64 and _magnitude(moves) ** 2 * moves.shape[1] < 1 << 63
    exact = moves if fits else moves.astype(object)
    squared_norms = (exact * exact).sum(axis=1)
    clipped = exact.copy()
    far = (squared_norms > squared_radius).nonzero()[0]
    if far.size:
        # |m_i| isqrt(H2) / (isqrt(n2) + 1) has a norm below isqrt(H2) whatever the rounding; H2 <
        # n2, so it fits where n2 does
        radius, lengths = (
            math.isqrt(squared_radius),
            [math.isqrt(n2) for n2 in squared_norms[far].tolist()],
        )
        longer = np.array(lengths, dtype=exact.dtype)[:, None] + 1
        clipped[far] = np.sign(exact[far]) * (np.abs(exact[far]) * radius // longer)
    return clipped.astype(np.int64, copy=False)


def saturate(points: NDArray[Any], limit: int) -> IntArray:
    """Return the points with each coordinate clipped to [-limit, limit], int64."""
    limited: IntArray = np.maximum(np.minimum(points, limit), -limit).astype(np.int64, copy=False)
    return limited


def fold(points: IntArray, half_widths: IntArray) -> IntArray:
    """Return the points with coordinates reflected at the walls -B and B. Coordinates inside do not
    change. The function has period 4B.

    Departs from the paper: its formula has period 2B and would map 0.5 to -0.5.
    """
    B = half_widths
    folded: IntArray = B - np.abs((points + B) % (4 * B) - 2 * B)
    return folded


def postprocess(points: IntArray, half_widths: IntArray, rule: Postprocessing) -> IntArray:
    """Return the centroids, brought back into the domain by `rule`."""
    match rule:
        case Postprocessing.NONE:
            return points
        case Postprocessing.TRUNCATE:
            return np.clip(points, -half_widths, half_widths)
        case Postprocessing.FOLD:
            return fold(points, half_widths)


def is_large_enough(counts: IntArray, count_bits: int, min_count: Fraction) -> NDArray[np.bool_]:
    """Return whether each noisy count suffices for a division, bool (k,).

    With min_count 0 (preset `paper`) every count but 0 suffices, even a negative one.

    counts : counts in units of 2**-count_bits records.
    """
    # min_count * 2**count_bits, rounded up
    floor = -((-min_count.numerator << count_bits) // min_count.denominator)
    worth: NDArray[np.bool_] = counts >= floor if min_count else counts != 0
    return worth
