"""Error bars of a forecast in the units of the columns, and the largest error bars that a user
accepts.
"""

import math
from collections.abc import Mapping

import msgspec

from fastlloyd.base.names import unknown_name
from fastlloyd.clustering.domain import Domain
from fastlloyd.errors import PlanError
from fastlloyd.reports.units import units_of


class Bar(msgspec.Struct, frozen=True):
    """Error bar: half of the interval that a result will probably show for one feature of a
    centroid whose interval is reliable (settled).

    feature : name of the feature.
    size : half of the interval in the units of the column. It is a factor for a feature whose
        logarithms are clustered, a number of days for a date, and a share for a category. It is
        infinite if hardly any centroid would have a reliable interval.
    text : size as text for readers, rounded up to two significant digits.
    """

    feature: str
    size: float
    text: str


def bars_of(domain: Domain, bar: float) -> tuple[Bar, ...]:
    """Return the error bar of each feature.

    bar : error bar of a feature with weight 1, as a fraction of the width of the bounds.
    """
    found = []
    for name, units, half in zip(
        domain.features, units_of(domain), _halves(domain, bar), strict=True
    ):
        size = units.size(half) if math.isfinite(half) else math.inf
        text = units.bar(half) if math.isfinite(size) else "unknown"
        found.append(Bar(name, size, text))
    return tuple(found)


def largest_bar(domain: Domain | None, wanted: Mapping[str, float]) -> float:
    """Return the largest error bar, as a fraction of the width of the bounds, with which no feature
    has a longer error bar than wanted.

    wanted : error bar of each named feature, as in `Bar.size`.

    Raises PlanError for an unknown feature, or if an error bar is not a finite number above 0. If a
    feature's logarithms are clustered, the number must be above 1.
    """
    if domain is None:
        raise PlanError(
            f"a wanted error of {next(iter(wanted))!r} needs the units of the columns; state"
            " bounds, or pass a recipe",
            field="wanted_error",
        )
    one = dict(
        zip(domain.features, zip(units_of(domain), _halves(domain, 1.0), strict=True), strict=True)
    )
    most = math.inf
    for name, size in wanted.items():
        if name not in one:
            raise PlanError(
                f"wanted_error: feature {unknown_name(name, domain.features)}", field="wanted_error"
            )
        units, whole = one[name]
        least = units.size(0.0)
        if not least < size < math.inf:
            raise PlanError(
                f"the wanted error of {name!r} is {size:g}; expected a finite"
                f" {'factor' if least else 'number'} above {least:g}",
                field="wanted_error",
            )
        most = min(most, units.difference(size) / whole)
    return most


def _halves(domain: Domain, bar: float) -> list[float]:
    """Return half of the interval of each feature, in the units in which the feature is
    clustered.
    """
    return [2 * bar * 2**domain.fraction_bits * unit for unit in domain.units.tolist()]
