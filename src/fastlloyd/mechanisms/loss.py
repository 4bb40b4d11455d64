"""How much of the budget the estimate of the loss gets, and what its exchange is."""

from fractions import Fraction
from typing import Any

from fastlloyd.base.precision import exact, fifty_digits
from fastlloyd.dp.noise import Noise
from fastlloyd.errors import BudgetError, PlanError
from fastlloyd.mechanisms.lloyd import budget
from fastlloyd.mechanisms.mechanism import MAX_LOSS_CAP
from fastlloyd.mechanisms.rounds import SCALE_UNITS, LossRound


def check_loss_share(loss_share: float | Fraction | None, *, estimate_loss: bool) -> None:
    """Refuse a share of the budget for nothing."""
    if loss_share is not None and not estimate_loss:
        raise PlanError("loss_share is for a private estimate of the loss; ask for the estimate too, or leave loss_share out")


def chosen_loss_share(
    noise: Noise, n_expected: int, epsilon: float, mu: float | None, wanted: float | Fraction | None
) -> Fraction:
    """The share of the budget that the loss gets: the one wanted, else the planner's. Raises BudgetError."""
    if wanted is None:
        return budget.loss_share(noise, n_expected, epsilon=epsilon, mu=mu)
    if not 0 < wanted < 1:  # NaN included
        raise BudgetError(f"loss_share is {wanted}; expected a share of the budget, above 0 and below 1, such as 0.05")
    return Fraction(wanted)


def loss_round(noise: Noise, squared_cap: int, largest: int, epsilon: Fraction, mu_squared: Fraction) -> LossRound:
    """The loss with what it has of the budget; its noise scale is rounded up.

    It travels in the finest units in which one record counts no more than `largest`, the most by which one moves a coordinate
    of a sum: so a ring that holds the sums holds the loss.
    """
    shift = 0
    while squared_cap >> shift > min(largest, MAX_LOSS_CAP):
        shift += 1
    cap = squared_cap >> shift
    with fifty_digits() as mp:
        match noise:
            case Noise.NONE:
                scale = Fraction(0)
            case Noise.LAPLACE:
                scale = scale_up(mp, cap / exact(mp, epsilon))
            case Noise.GAUSSIAN:
                scale = scale_up(mp, (cap**2 / exact(mp, mu_squared)) ** 0.5)
    return LossRound(scale=scale, cap=cap, shift=shift)


def scale_up(mp: Any, scale: budget.Real) -> Fraction:
    """A scale rounded up to a multiple of 1 / SCALE_UNITS."""
    # 50 digits and a margin of 1e-40: the result is never below the exact scale
    units = mp.ceil(scale * SCALE_UNITS * (1 + exact(mp, Fraction(1, 10**40))))
    return Fraction(max(1, int(units)), SCALE_UNITS)  # `math.ceil` would go through a float
