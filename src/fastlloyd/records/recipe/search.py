"""Features of a recipe whose bounds are to be found within a public range."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from fastlloyd.records.recipe.checks import BOUND, DROP, LEAST_RATIO, LIMIT, MIDDLE, ORDER
from fastlloyd.records.recipe.dates import date_of
from fastlloyd.records.recipe.feature import Feature
from fastlloyd.records.recipe.scales import Scale
from fastlloyd.records.recipe.ways import way_of

_NARROWEST = math.log(LEAST_RATIO) * 1.01


def searched_features(features: Sequence[Feature], keys: Sequence[str]) -> tuple[Feature, ...]:
    """Return the features for a search for the bounds of `keys`. Their bounds are the stated range.

    All have weight 1. Bounds are not known yet. So a cell such as "<0.3" that would count as the
    lower bound counts as 0.3. If a missing cell would be replaced by the middle of the bounds, its
    record is dropped. If a feature measures the time until a date, the result contains the feature
    of that date, too.
    """
    needed = {*keys, *(each.until for each in features if each.key in keys)}
    return tuple(
        msgspec.structs.replace(
            each,
            weight=1.0,
            below=LIMIT if each.below == BOUND else each.below,
            missing=DROP if each.missing == MIDDLE else each.missing,
        )
        for each in features
        if each.key in needed or each.role == ORDER
    )


def found_bounds(feature: Feature, lower: float, upper: float) -> tuple[float | str, float | str]:
    """Return bounds in the units of the column, as a recipe states them.

    Dates are rounded outwards to whole days. A bound that is an end of the range is written as it
    was stated.

    feature : number or date whose bounds are the range.
    lower, upper : bounds within the range, as numbers that are clustered.
    """
    column, stated = way_of(feature).columns[0], feature.bounds
    if stated is None:
        raise AssertionError("a feature whose bounds are to be found must have a range")
    if column.scale is Scale.DAYS:
        days = date_of(math.floor(lower)), date_of(math.ceil(upper))
        low, high = (str(day) for day in days)
    else:
        if column.scale is Scale.LOG:
            upper = min(max(upper, lower + _NARROWEST), column.upper)
            lower = min(lower, max(upper - _NARROWEST, column.lower))
        low, high = column.scale.to_column([lower, upper]).tolist()
    return (
        stated[0] if lower <= column.lower else low,
        stated[1] if upper >= column.upper else high,
    )
