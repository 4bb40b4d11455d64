"""The vertical axis of a panel: logarithmic or not, and how far it reaches, so that curves can be read.

What lies far from all the rest, as a method that reaches a reference exactly, would press the curves into a line; it is off the
axis, marked at the axis's edge and said at the foot.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastlloyd.evaluation.pictures.summaries import Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SPREAD = 5.0  # an axis is logarithmic where means span more than this factor
GAP = 1e3  # factor between neighbouring means beyond which the fewer of them are off the axis
_REACH = 3.0  # by which factor beyond its mean an interval can widen a logarithmic axis
_MARGIN = 0.06  # of the axis
_LARGEST = 1e300  # what an axis can reach


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """low, high : the least and greatest mean on the axis. ends : of the axis. cut : whether an interval goes beyond them."""

    low: float
    high: float
    ends: tuple[float, float]
    logarithmic: bool
    cut: bool

    def holds(self, value: float) -> bool:
        """Whether the axis reaches that far."""
        return self.low <= value <= self.high

    def apply(self, panel: "Axes") -> None:
        """Set kind, limits and marks of the vertical axis."""
        if self.logarithmic:
            mark_decades(panel, *self.ends)
        else:
            panel.locator_params(axis="y", nbins=5)
        panel.set_ylim(*self.ends)


def scale(means: Sequence[Summary], *, bounded: bool = False, factor: float = SPREAD) -> Scale | None:
    """The axis for means with their intervals, None if there are none; bounded: scores with a largest value."""
    values = sorted(each.mean for each in means)
    if not values:
        return None
    low, high = (values[0], values[-1]) if bounded else _together(values)
    on_axis = [each for each in means if low <= each.mean <= high]
    logarithmic = not bounded and low > 0 and high > factor * low
    if logarithmic:
        least = min(max(each.low, each.mean / _REACH) for each in on_axis)
        most = max(min(each.high, each.mean * _REACH) for each in on_axis)
        room = (most / least) ** _MARGIN
        ends = least / room, min(most * room, _LARGEST)
    else:
        reach = (high - low) or max((each.high - each.low for each in on_axis), default=0.0)
        least = max(min(each.low for each in on_axis), low - reach)
        most = min(max(each.high for each in on_axis), high + reach)
        margin = _MARGIN * (most - least) or 0.05 * abs(low) or 0.5
        ends = max(least - margin, -_LARGEST), min(most + margin, _LARGEST)
    cut = any(each.low < ends[0] or each.high > ends[1] for each in on_axis)
    return Scale(low=low, high=high, ends=ends, logarithmic=logarithmic, cut=cut)


def mark_decades(panel: "Axes", low: float, high: float) -> None:
    """A logarithmic axis with few marks, whose numbers are plain."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

    panel.set_yscale("log")
    panel.yaxis.set_major_locator(FixedLocator(logarithmic_marks(low, high)))
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    panel.yaxis.set_minor_locator(NullLocator())
    panel.yaxis.set_minor_formatter(NullFormatter())


def logarithmic_marks(low: float, high: float) -> list[float]:
    """Powers of ten, thinned if there are many; 1, 2 and 5 times them if there are few."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    decades = math.log10(high / low)
    of_decades: dict[float, tuple[float, ...]] = {1.0: (1, 1.5, 2, 3, 4, 6, 8), 1.6: (1, 2, 5), 2.5: (1, 3)}
    steps = next((few for most, few in of_decades.items() if decades < most), (1,))
    every = max(1, math.ceil(decades / 6))
    marks = [step * 10.0**power for power in range(first, last + 1, every) for step in steps]
    room = 10 ** (0.06 * decades)
    return [mark for mark in marks if low / room <= mark <= high * room]


def _together(values: list[float]) -> tuple[float, float]:
    """The ends of the largest group of ascending values in which no neighbours are further apart than the gap.

    What is not positive has no place among them if the others alone span more than the gap.
    """
    positive = [value for value in values if value > 0]
    if len(positive) < len(values) and (not positive or values[0] < 0 or positive[-1] <= GAP * positive[0]):
        return values[0], values[-1]
    groups = [[positive[0]]]
    for value in positive[1:]:
        if value > GAP * groups[-1][-1]:
            groups.append([])
        groups[-1].append(value)
    largest = max(reversed(groups), key=len)  # the upper one of two
    return largest[0], largest[-1]
