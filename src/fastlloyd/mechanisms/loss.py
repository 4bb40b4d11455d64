"""Estimate of the loss with differential privacy: its share of the budget, and its round.

The paper has no such estimate.
"""

from fractions import Fraction
from typing import Any

from fastlloyd.base.precision import exact, fifty_decimals
from fastlloyd.clustering.radius import usable_radius
from fastlloyd.dp.noise import Noise
from fastlloyd.mechanisms.mechanism import MAX_LOSS_CAP
from fastlloyd.mechanisms.persons import reach
from fastlloyd.mechanisms.rounds import SCALE_UNITS, LossRound
from fastlloyd.mechanisms.settings import AnyAlgorithm, Settings

# of the typical loss: the standard deviation that the noise of its estimate may have
LOSS_TOLERANCE = Fraction(2, 100)
_MARGIN = Fraction(1, 10**40)
MIN_LOSS_SHARE, MAX_LOSS_SHARE = Fraction(1, 100), Fraction(1, 5)


def loss_share(settings: Settings[AnyAlgorithm]) -> Fraction:
    """Return the share of the budget for the loss.

    It is 0 if the loss is not estimated, and otherwise the share in the settings or the planned
    share.
    """
    s = settings
    if not s.estimate_loss:
        return Fraction(0)
    if s.loss_share is not None:
        return Fraction(s.loss_share)
    return planned_share(s.algorithm.noise, s.expected, epsilon=s.planned_epsilon, mu=s.planned_mu)


def planned_share(noise: Noise, n_expected: int, *, epsilon: float, mu: float | None) -> Fraction:
    """Return the planned share of the budget for the loss.

    The budget is mu^2 with Gaussian noise, and epsilon with Laplace noise. The share is a multiple
    of 1/1000 in [1/100, 1/5]. It is the smallest one with which the noise deviates by at most
    LOSS_TOLERANCE of a typical loss.

    In a typical loss, the distance of each of n_expected records from its centroid is half the
    radius, as Section 5.5 of the paper assumes. So each adds a quarter of the squared radius, which
    is the cap of a record's loss. The cap cancels out, because noise is proportional to it.
    Gaussian noise with a multiplier s deviates by s caps, and Laplace noise by sqrt 2 / epsilon
    caps.
    """
    if noise is Noise.NONE:
        return Fraction(0)
    with fifty_decimals() as digits:
        # both in caps
        tolerated = exact(digits, LOSS_TOLERANCE * n_expected / 4)
        multiplier = (
            digits.sqrt(2) / digits.mpf(epsilon)
            if noise is Noise.LAPLACE
            else 1 / digits.mpf(mu or 0)
        )
        share = multiplier / tolerated if noise is Noise.LAPLACE else (multiplier / tolerated) ** 2
        return max(
            MIN_LOSS_SHARE,
            Fraction(int(digits.ceil(1000 * min(share, exact(digits, MAX_LOSS_SHARE)))), 1000),
        )


def loss_round(settings: Settings[AnyAlgorithm], share: Fraction, largest: int) -> LossRound | None:
    """Return the round that estimates the loss, or None if the loss is not estimated.

    A record adds at most eta_d^2 in squared grid units, where eta_d is the planned radius of a
    cluster. The radius of a round does not matter. In FastLloyd, a record farther than eta_d from
    every centroid moves no centroid. One cap for all algorithms makes their losses comparable. The
    cap is at most the squared diagonal, because no two points of the domain are farther apart.

    share : share of the budget that the round spends. The noise scale is rounded up.
    largest : the most that one record can change one coordinate of a sum. The loss is measured in
        the finest units in which a record adds at most this number. So a ring with room for the
        sums has room for the loss.
    """
    if not settings.estimate_loss:
        return None
    domain, algorithm = settings.domain, settings.algorithm
    squared_cap = min(
        usable_radius(domain, settings.n_clusters, algorithm.alpha),
        4 * domain.squared_half_diagonal,
    )
    shift = 0
    while squared_cap >> shift > min(largest, MAX_LOSS_CAP):
        shift += 1
    cap = squared_cap >> shift
    budget, most = share * settings.budget, cap * reach(settings.persons)
    with fifty_decimals() as digits:
        match algorithm.noise:
            case Noise.NONE:
                scale = Fraction(0)
            case Noise.LAPLACE:
                scale = scale_up(digits, most / exact(digits, budget))
            case Noise.GAUSSIAN:
                scale = scale_up(digits, digits.sqrt(most**2 / exact(digits, budget)))
    return LossRound(scale=scale, cap=cap, shift=shift)


def scale_up(digits: Any, scale: Any) -> Fraction:
    """Return a noise scale, given with 50 digits, rounded up to a multiple of 1 / SCALE_UNITS."""
    # 50 digits and a margin: the result is never below the exact scale
    units = digits.ceil(scale * SCALE_UNITS * (1 + exact(digits, _MARGIN)))
    return Fraction(max(1, int(units)), SCALE_UNITS)  # `math.ceil` would go through a float
