"""Shares of noise: which party adds noise, the size of a share, and the cost of adding up rounded
shares.
"""

import enum
import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from fastlloyd.base.precision import working_precision
from fastlloyd.mechanisms.rounds import sqrt_up

# grid units: below it, sums of separately rounded shares are too far from a rounded sum
MIN_SHARE_DEVIATION = 4


class TrustMode(enum.Enum):
    """Party that adds the noise, which decides against which parties the guarantee holds.

    # Departs from the paper, in which only the server adds noise: shares from the clients are the
    default.
    """

    # the paper's: the server adds all of it and must never see a result
    SERVER_NOISE = "server-noise"
    CLIENT_NOISE = "client-noise"  # every client adds a share; the server may see results


def share_scales(scales: Iterable[Fraction], n_shares: int) -> tuple[Fraction, ...]:
    """Return the standard deviations of one share of the noise, rounded up, so that n_shares shares
    have at least these scales.
    """
    return tuple(
        max(Fraction(MIN_SHARE_DEVIATION), sqrt_up(scale**2 / n_shares)) for scale in scales
    )


def aliasing_slack(epsilon: float, n_released: int, n_shares: int) -> float:
    """Return the most that adding up separately rounded shares adds to delta, rounded up
    (docs/proofs/shares-of-noise.md).

    It is (1 + e^epsilon) times the distance, or inf if epsilon is too large for a meaningful bound.
    """
    with working_precision(170) as mp:
        bound = (1 + mp.exp(epsilon)) * _distance(mp, n_released, n_shares)
        return math.nextafter(float(bound), math.inf) if bound < 1 else math.inf


def aliasing_distance(n_released: int, n_shares: int) -> float:
    """Return tau, the total variation distance of separately rounded shares from one rounded
    Gaussian, rounded up.
    """
    with working_precision(170) as mp:
        return math.nextafter(float(_distance(mp, n_released, n_shares)), math.inf)


def _distance(mp: Any, n_released: int, n_shares: int) -> Any:
    """Return the number of released coordinates times 5 h exp(-pi^2 s^2 / 2), where s = 4 grid
    units is the smallest standard deviation of a share.
    """
    return n_released * 5 * n_shares * mp.exp(-(mp.pi**2) * MIN_SHARE_DEVIATION**2 / 2)
