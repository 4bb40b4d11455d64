"""Drawings of the page. Horizontal positions are in per cent, so drawings stretch with the page.
Text does not.
"""

import math
from typing import Final, NamedTuple, Self

import numpy as np

from fastlloyd.base.markup import Markup, element
from fastlloyd.reports.page.view import View
from fastlloyd.reports.units import SIDES, Units

LABEL: Final = 7  # characters of three labels below an axis
MOST_TICKS: Final = 3
_SIDES: Final = {1: "up", -1: "dn", 0: ""}
_STEPS: Final = (1, 2, 2.5, 5, 10)
_MOST_LINES: Final = 30  # clusters of which a strip shows the others


def percent(share: float) -> str:
    """Return a fraction of the width as a percentage, for CSS."""
    return f"{100 * share:.2f}%"


class Axis(NamedTuple):
    """Horizontal axis of a feature, in the numbers that are clustered.

    low, high : ends.
    """

    low: float
    high: float

    @classmethod
    def of(cls, view: View, feature: int) -> Self:
        """Return the axis of a feature.

        The axis contains all intervals of two standard errors, with some room. Its length is at
        least a twentieth of the range between the bounds, and hardly more than this range.
        """
        half = float(view.half_widths[feature])
        domain, values = view.mechanism.domain, view.centroids[:, feature]
        reach = np.where(view.settled, SIDES * np.nan_to_num(view.errors[:, feature]), 0.0)
        first, last = float((values - reach).min()), float((values + reach).max())
        lacking = max(0.1 * half - (last - first), 0.0) / 2
        room = 0.08 * (last - first + 2 * lacking)
        least = min(domain.lower[feature] - 0.02 * half, float(values.min()))
        most = max(domain.upper[feature] + 0.02 * half, float(values.max()))
        return cls(max(first - lacking - room, least), min(last + lacking + room, most))

    def share(self, number: float) -> float:
        """Return the position of a number along the axis, as a fraction from 0 (left end) to 1
        (right end).
        """
        return (number - self.low) / (self.high - self.low)

    def inside(self, number: float) -> float:
        """Return the position of a number along the axis, as `share` does. A number outside the
        axis is moved to the nearest end.
        """
        return min(max(self.share(number), 0.0), 1.0)

    def ticks(self, units: Units, most: int = MOST_TICKS) -> list[tuple[float, str]]:
        """Return the number and the label of each mark of the axis."""
        marks = units.ticks(self.low, self.high, most)
        if marks is None:
            marks = self._even(most)
            longest = max((len(units.tick(mark)) for mark in marks), default=0)
            if longest > LABEL and most == MOST_TICKS:
                marks = self._even(1)[:2]
        return [(mark, units.tick(mark)) for mark in marks]

    def _even(self, most: int) -> list[float]:
        span = self.high - self.low
        ten = 10.0 ** math.floor(math.log10(span / most))
        for step in (ten * f for f in _STEPS):
            first, last = math.ceil(self.low / step), math.floor(self.high / step)
            if last - first < most:
                break
        return [number * step for number in range(first, last + 1)]


def side(view: View, cluster: int, feature: int) -> str:
    """Return the CSS class of a centre's mark. There is one class for a centre above the mean of
    all centres, and one for a centre below it. The class is "" if the error allows no statement,
    and "unk" if the error is not known.
    """
    if not view.settled[cluster]:
        return "unk"
    return _SIDES[int(view.profile.sides[cluster, feature])]


def bars(view: View, axis: Axis, cluster: int, feature: int, y: str) -> list[Markup]:
    """Return the error bar of two standard errors, and the thin line that is as wide as the
    interval on which sentences are based.

    y : vertical position.
    """
    error, value = view.error(cluster, feature), float(view.centroids[cluster, feature])
    if not error > 0:
        return []
    reach = max(float(view.profile.reaches[cluster, feature]), SIDES * error)
    thin = [("thin", (value - reach, value + reach))] if view.compares else []
    return [
        element(
            "line",
            x1=_at(axis, ends[0]),
            x2=_at(axis, ends[1]),
            y1=y,
            y2=y,
            class_=name,
        )
        for name, ends in [*thin, ("bar", view.ends(cluster, feature))]
    ]


def _at(axis: Axis, number: float) -> str:
    return percent(axis.inside(number))


def dot(axis: Axis, number: float, y: str) -> Markup:
    """Return the mark of a centre, at this number on the axis."""
    return element("circle", cx=_at(axis, number), cy=y, r=5, class_="dot")


def upright(axis: Axis, number: float, name: str, ends: tuple[str, str]) -> Markup:
    """Return a vertical line at a number on the axis.

    name : CSS class of the line.
    ends : vertical positions of its ends.
    """
    x = _at(axis, number)
    return element("line", x1=x, x2=x, y1=ends[0], y2=ends[1], class_=name)


def strip(view: View, axis: Axis, cluster: int, feature: int) -> Markup:
    """Return one row of a cluster's card: the cluster's centre with its error bar, the mean of all
    centres, and the centres of the other groups.
    """
    values = view.centroids[:, feature].tolist()
    others = (
        [
            upright(axis, value, "o", ("28%", "72%"))
            for other, value in enumerate(values)
            if other != cluster
        ]
        if len(values) <= _MOST_LINES
        else []
    )
    together = (
        [upright(axis, float(view.profile.together[feature]), "all", ("4%", "96%"))]
        if view.compares
        else []
    )
    return element(
        "svg",
        element("line", x1=0, x2="100%", y1="50%", y2="50%", class_="base"),
        others,
        together,
        bars(view, axis, cluster, feature, "50%"),
        dot(axis, values[cluster], "50%"),
        class_=f"strip {side(view, cluster, feature)}".strip(),
        aria_hidden="true",
    )


def size_bar(view: View, cluster: int) -> Markup:
    """Return the bar of a noisy count, with two standard errors to either side. Its whole length is
    the sum of all counts.
    """
    error = view.stored.count_error
    top = max(float(np.maximum(view.counts, 0.0).sum()), 1.0)
    count = max(float(view.counts[cluster]), 0.0)
    low, high = max(count - SIDES * error, 0.0), min(count + SIDES * error, top)
    line = element(
        "line", x1=percent(low / top), x2=percent(high / top), y1="50%", y2="50%", class_="bar"
    )
    return element(
        "svg",
        element("rect", x=0, y=0, width="100%", height="100%", rx=3, class_="bg"),
        element("rect", x=0, y=0, width=percent(count / top), height="100%", rx=3, class_="fg"),
        line if error > 0 else None,
        class_="size",
        aria_hidden="true",
    )
