"""Checks of public bounds, before a grid is made of them."""

import math
from collections.abc import Iterable

from fastlloyd.errors import PlanError
from fastlloyd.records.declared import AMBIGUOUS
from fastlloyd.records.labels import labels_of

UNUSABLE_BOUNDS = "unusable-bounds"


# of a bound, and the reciprocal of the least width: centroids and their errors stay finite
_LARGEST = 1e300


def _floats(ends: Iterable[float]) -> tuple[float, ...]:
    if labels_of(ends) is not None:
        raise PlanError(
            (
                "bounds must be in the order of the features, without labels; if `limits` is your"
                " labelled series of bounds, pass limits.loc[list(features)].tolist()"
            ),
            code=AMBIGUOUS,
        )
    return tuple(float(end) for end in ends)


def _check_bounds(name: str, low: float, high: float) -> None:
    if not (math.isfinite(low) and math.isfinite(high)):
        raise _unusable(
            name,
            f"the bounds of feature {name!r} are [{low}, {high}]; expected two finite numbers",
        )
    if low > high:
        raise _unusable(
            name,
            f"the bounds of feature {name!r} are reversed: [{low}, {high}]; write the smaller"
            " number first",
        )
    if low == high:
        raise _unusable(
            name,
            f"the bounds of feature {name!r} are equal: [{low}, {high}]; widen the bounds, or leave"
            " the feature out",
        )
    if not max(-low, high, high - low) <= _LARGEST or high - low < 1 / _LARGEST:
        raise _unusable(
            name,
            f"the bounds of feature {name!r} are [{low}, {high}], too wide or too narrow; rescale"
            " the feature",
        )


def _check_steps(name: str, low: float, high: float, grid_unit: float) -> None:
    """Raise PlanError if float64 cannot distinguish grid points near the bounds.

    With two floats or more in a grid unit, rounding moves a value by at most a quarter of the unit.
    So conversion to original units and back changes no grid point.
    """
    step = math.ulp(max(abs(low), abs(high)))
    if grid_unit < 2 * step:
        raise _unusable(
            name,
            f"the bounds of feature {name!r} are [{low}, {high}], too close together for numbers"
            f" of this size: here float64 distinguishes only steps of {step:.1g}, but the grid"
            f" needs steps of {grid_unit / 2:.1g}; subtract a constant, such as the lower bound,"
            " from the column and from its bounds, or use fewer fraction_bits",
        )


def _unusable(name: str, sentence: str) -> PlanError:
    return PlanError(sentence, code=UNUSABLE_BOUNDS, field=name)
