"""Who adds the noise and, where clients add it in shares, how large a share is and what adding up
rounded shares costs.
"""

import enum
import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from fastlloyd.base.precision import working_precision
from fastlloyd.mechanisms.rounds import sqrt_up

MIN_SHARE_DEVIATION = (
    4  # grid units: below it, sums of separately rounded shares are too far from a rounded sum
)


class TrustMode(enum.Enum):
    """Who adds the noise, and so against whom the guarantee holds.

    # Departs from the paper, which has the server's noise only: shares from the clients are the
    # default.
    """

    SERVER_NOISE = (  # the paper's: the server adds all of it and must never see a result
        "server-noise"
    )
    CLIENT_NOISE = "client-noise"  # every client adds a share; the server may see results


def share_scales(scales: Iterable[Fraction], n_shares: int) -> tuple[Fraction, ...]:
    """Standard deviations of one share of the noise, rounded up, so that n_shares of them have at
    least these scales.
    """
    return tuple(
        max(Fraction(MIN_SHARE_DEVIATION), sqrt_up(scale**2 / n_shares)) for scale in scales
    )


def aliasing_slack(epsilon: float, n_released: int, n_shares: int) -> float:
    """What adding up separately rounded shares can add to delta, rounded up
    (docs/proofs/shares-of-noise.md).

    (1 + e^epsilon) times the distance. inf where epsilon is too large for the bound to mean
    anything.
    """
    with working_precision(170) as mp:
        bound = (1 + mp.exp(epsilon)) * _distance(mp, n_released, n_shares)
        return math.nextafter(float(bound), math.inf) if bound < 1 else math.inf


def aliasing_distance(n_released: int, n_shares: int) -> float:
    """tau: how far separately rounded shares are from one rounded Gaussian, in total variation,
    rounded up.
    """
    with working_precision(170) as mp:
        return math.nextafter(float(_distance(mp, n_released, n_shares)), math.inf)


def _distance(mp: Any, n_released: int, n_shares: int) -> Any:
    """The number of released coordinates times 5 h exp(-pi^2 s^2 / 2), s = 4 grid units the
    smallest deviation of a share.
    """
    return n_released * 5 * n_shares * mp.exp(-(mp.pi**2) * MIN_SHARE_DEVIATION**2 / 2)
