"""Private estimate of the loss, which the paper does not have: its share of the budget, and its
round.
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
    """Return the share of the budget for the loss: 0 if it is not estimated, otherwise the one
    asked for or the planned one.
    """
    s = settings
    if not s.estimate_loss:
        return Fraction(0)
    if s.loss_share is not None:
        return Fraction(s.loss_share)
    return planned_share(s.algorithm.noise, s.expected, epsilon=s.planned_epsilon, mu=s.planned_mu)


def planned_share(noise: Noise, n_expected: int, *, epsilon: float, mu: float | None) -> Fraction:
    """Return the share of the budget for the loss: of mu^2 with Gaussian noise, of epsilon with
    Laplace noise.

    The least in [1/100, 1/5], a multiple of 1/1000, with which the noise deviates by at most
    LOSS_TOLERANCE of a typical loss: n_expected records at half the radius from their centroid (the
    distance that Section 5.5 assumes), so a quarter of the cap each. The cap cancels out: noise of
    a multiplier s deviates by s caps, and Laplace noise by sqrt 2 / epsilon caps.
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
    """Return the round of the loss with its share of the budget, or None if the loss is not
    estimated. Its noise scale is rounded up.

    A record counts at most eta_d^2 in squared grid units, whatever radius a round has. FastLloyd
    would move no centroid for a record that is farther from every centroid, and one cap for all
    algorithms makes their losses comparable. The cap is at most the squared diagonal, because no
    two points of the domain are farther apart. The loss travels in the finest units in which one
    record counts at most `largest`, the most by which one record moves a coordinate of a sum. So a
    ring that fits the sums fits the loss.
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
    """Return a scale, a number of 50 digits, rounded up to a multiple of 1 / SCALE_UNITS."""
    # 50 digits and a margin: the result is never below the exact scale
    units = digits.ceil(scale * SCALE_UNITS * (1 + exact(digits, _MARGIN)))
    return Fraction(max(1, int(units)), SCALE_UNITS)  # `math.ceil` would go through a float
