"""Axes of panels and the lines on them: scale, range, and style of each method's line.

One value far from all others would flatten the curves into a line, for example if a method reaches
a reference exactly. Such a value is left off the axis, marked at the edge, and noted below the
figure. A method has the same colour in every figure. Its lines differ in shade, dashes and marks.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fastlloyd.reports.figures import PALETTE
from fastlloyd_lab.pictures.sheet import SMALL, TICK, name_panel, width
from fastlloyd_lab.pictures.summaries import DataSet, Summaries, Summary, Variant

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

SPREAD = 5.0  # an axis is logarithmic where means span more than this factor
GAP = 1e3  # factor between neighbouring means beyond which the fewer of them are off the axis
_REACH = 3.0  # by which factor beyond its mean an interval can widen a logarithmic axis
_MARGIN = 0.06  # of the axis
_LARGEST = 1e300  # what an axis can reach
_APART = 0.028  # inches between two numbers of an axis
_BLUE, _VERMILION, _GREEN, _PURPLE, _SKY, _ORANGE, _BLACK, *_ = PALETTE
_Dashes = tuple[int, tuple[float, ...]]
_SOLID: _Dashes = (0, ())
Points = Sequence[tuple[float, Summary]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Scale of a vertical axis.

    low, high : smallest and largest mean on the axis.
    ends : limits of the axis.
    cut : whether an interval extends beyond the limits.
    """

    low: float
    high: float
    ends: tuple[float, float]
    logarithmic: bool
    cut: bool

    def holds(self, value: float) -> bool:
        """Return whether the value is on the axis."""
        return self.low <= value <= self.high

    def apply(self, panel: "Axes") -> None:
        """Set the scale, the limits and the ticks of the panel's vertical axis."""
        if self.logarithmic:
            mark_decades(panel)
        else:
            panel.locator_params(axis="y", nbins=5)
        panel.set_ylim(*self.ends)


def scale(means: Sequence[Summary], *, bounded: bool = False) -> Scale | None:
    """Return the scale for means with their intervals, or None if there are none.

    bounded : whether the values are scores with a largest value.
    """
    values = sorted(each.mean for each in means)
    if not values:
        return None
    low, high = (values[0], values[-1]) if bounded else _together(values)
    on_axis = [each for each in means if low <= each.mean <= high]
    logarithmic = not bounded and low > 0 and high > SPREAD * low
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


def mark_decades(panel: "Axes") -> None:
    """Give the panel a logarithmic axis with few ticks and plain numbers.

    The ticks follow the limits of the axis, also if these change later.
    """
    from matplotlib.ticker import FuncFormatter, Locator, NullFormatter, NullLocator

    class Marks(Locator):
        def __call__(self) -> list[float]:
            return self.tick_values(*panel.get_ylim())

        def tick_values(self, vmin: float, vmax: float) -> list[float]:
            return logarithmic_marks(vmin, vmax)

    panel.set_yscale("log")
    panel.yaxis.set_major_locator(Marks())
    panel.yaxis.set_major_formatter(
        FuncFormatter(lambda value, _: re.sub(r"e\+0?", "e", f"{value:.5g}"))
    )
    panel.yaxis.set_minor_locator(NullLocator())
    panel.yaxis.set_minor_formatter(NullFormatter())


def logarithmic_marks(low: float, high: float) -> list[float]:
    """Return ticks between low and high: powers of ten.

    If there are many, only some are kept. If there are few, 1, 2 and 5 times the powers are
    returned.
    """
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    decades = math.log10(high / low)
    of_decades: dict[float, tuple[float, ...]] = {
        1.0: (1, 1.5, 2, 3, 4, 6, 8),
        1.6: (1, 2, 5),
        2.5: (1, 3),
    }
    steps = next((few for most, few in of_decades.items() if decades < most), (1,))
    every = max(1, math.ceil(decades / 6))
    marks = [step * 10.0**power for power in range(first, last + 1, every) for step in steps]
    room = 10 ** (0.06 * decades)
    return [mark for mark in marks if low / room <= mark <= high * room]


def _together(values: list[float]) -> tuple[float, float]:
    """Return the ends of the axis: the smallest and the largest value of one group. A group is a
    run of values in which no value is more than `GAP` times the value before it. The group with the
    most values is used.

    values : ascending values. Values that are not positive are left out if the largest of the
        others is more than `GAP` times the smallest.
    """
    positive = [value for value in values if value > 0]
    if len(positive) < len(values) and (
        not positive or values[0] < 0 or positive[-1] <= GAP * positive[0]
    ):
        return values[0], values[-1]
    groups = [[positive[0]]]
    for value in positive[1:]:
        if value > GAP * groups[-1][-1]:
            groups.append([])
        groups[-1].append(value)
    largest = max(reversed(groups), key=len)  # the upper one of two
    return largest[0], largest[-1]


def label_ticks(panel: "Axes", values: Sequence[float], inches: float) -> None:
    """Draw a tick at each value. The first and the last tick have a number. Other ticks have a
    number if there is room.

    values : ascending values.
    inches : width of the panel. The zero before a decimal point is left out if all numbers then
        fit.
    """
    plain_numbers = [f"{value:g}" for value in values]
    short = [
        number.removeprefix("0") if number.startswith("0.") else number for number in plain_numbers
    ]
    span = (values[-1] - values[0]) or 1.0
    # the axis reaches a little beyond both ends
    places = [inches / 1.1 * (value - values[0]) / span for value in values]
    labels = next(
        (each for each in (plain_numbers, short) if len(_apart(places, each)) == len(values)),
        plain_numbers,
    )
    kept = _apart(places, labels)
    panel.set_xticks(list(values), [label if i in kept else "" for i, label in enumerate(labels)])


def _apart(places: Sequence[float], labels: Sequence[str]) -> list[int]:
    """Return the indices of labels that can be shown without overlap. The first and the last label
    are always among them.

    places : positions of the labels' middles, in inches.
    """
    halves = [width(label, TICK) / 2 + _APART / 2 for label in labels]
    return _kept(len(labels), lambda i, j: abs(places[i] - places[j]) < halves[i] + halves[j])


def spaced(values: Sequence[float], least: float) -> list[float]:
    """Return ascending values with some left out, so that neighbours are far enough apart: at least
    the fraction `least` of the whole range.

    The first and the last value are always kept.
    """
    return [
        values[i]
        for i in _kept(
            len(values), lambda i, j: values[j] - values[i] < least * (values[-1] - values[0])
        )
    ]


def _kept(n: int, meet: Callable[[int, int], bool]) -> list[int]:
    """Return the indices of the things that can be shown without overlap, of n things in a row.

    The first and the last thing are kept. From left to right, each further thing is kept if it
    overlaps no kept thing.

    n : number of things.
    meet : function of two indexes that returns whether the things overlap.
    """
    kept = list(range(min(n, 1)))
    for i in range(1, n - 1):
        if not meet(kept[-1], i) and not meet(i, n - 1):
            kept.append(i)
    return [*kept, n - 1] if n > 1 else kept


@dataclass(frozen=True, slots=True)
class Style:
    """Style of a line: colour, dashes in line widths, and mark. An open mark shows a line
    underneath.

    size : size of the mark in points.
    """

    colour: str
    dashes: _Dashes
    mark: str
    size: float = 3.4
    is_open: bool = False

    def of_line(self) -> dict[str, Any]:
        """Return the keywords of `Axes.plot`. Solid lines are drawn below dashed lines, and are
        visible through the gaps.
        """
        return {
            "color": self.colour,
            "linestyle": self.dashes,
            "marker": self.mark,
            "markersize": self.size,
            "markerfacecolor": "none" if self.is_open else self.colour,
            "markeredgewidth": 1.0,
            "linewidth": 1.3,
            "zorder": 3 if self.dashes == _SOLID else 4,
        }

    def sample(self) -> "Line2D":
        """Return a piece of the line for a legend."""
        from matplotlib.lines import Line2D

        return Line2D([], [], **self.of_line())


LOOKS = {
    "lloyd": Style(_BLACK, (0, (1, 1.5)), ""),
    "sulloyd": Style(_VERMILION, (0, (5, 2)), "s", 5.0, is_open=True),
    "glloyd": Style(_GREEN, (0, (6, 1.5, 1, 1.5)), "^", 5.6, is_open=True),
    "fastlloyd": Style(_BLUE, _SOLID, "o", 3.0),
    "momentlloyd": Style(_PURPLE, (0, (3, 1.5)), "D", 4.6, is_open=True),
    "pe-means": Style(_ORANGE, (0, (8, 2)), "v"),
}
"""The look of each method by its name in results, the same in every figure."""
_OTHERS = (_SKY, "#7818D8", "#603000")  # violet and brown: colours of methods of users
_MARKS = ("P", "X", "*", "<", ">", "h", "d", "p", "8")
_DASHES: tuple[_Dashes, ...] = ((0, (4, 1, 1, 1, 1, 1)), _SOLID, (0, (3, 1.5)), (0, (8, 2)))
_SHADES = (-0.5, 0.5, -0.25, 0.7)  # parts of white, or of black where negative


def shade(colour: str, part: float) -> str:
    """Return the colour mixed with white, or with black if `part` is negative. The absolute value
    of `part` is the share of white or black.
    """
    from matplotlib.colors import to_hex, to_rgb

    goal = 1.0 if part > 0 else 0.0
    red, green, blue = (value + abs(part) * (goal - value) for value in to_rgb(colour))
    return to_hex((red, green, blue))


def styles(summaries: Summaries) -> dict[Variant, Style]:
    """Return the style of every line. The first variant of a method has the method's colour, and
    the others have shades of it.
    """
    looks: dict[Variant, Style] = {}
    colours: dict[str, str] = {name: look.colour for name, look in LOOKS.items()}
    n_variants: Counter[str] = Counter()
    for variant in summaries.variants:
        method, earlier = variant.method, n_variants[variant.method]
        n_variants[method] += 1
        if method in LOOKS and not earlier:
            looks[variant] = LOOKS[method]
            continue
        colour = colours.setdefault(method, _OTHERS[(len(colours) - len(LOOKS)) % len(_OTHERS)])
        number = sum(look not in LOOKS.values() for look in looks.values())
        looks[variant] = Style(
            shade(colour, _SHADES[(earlier - 1) % len(_SHADES)]) if earlier else colour,
            _DASHES[number % len(_DASHES)],
            _MARKS[number % len(_MARKS)],
            4.6,
            is_open=number % 2 == 0,
        )
    return looks


def legend(summaries: Summaries, variants: list[Variant]) -> dict[str, Any]:
    """Return labels with samples of their lines, for the variants in a figure."""
    looks = styles(summaries)
    return {
        summaries.label(each) + ("" if summaries.is_private(each) else ", no noise"): (
            looks[each].sample()
        )
        for each in summaries.variants
        if each in variants
    }


def name_set(panel: "Axes", dataset: DataSet, inches: float) -> None:
    """Write the name and the shape of a set above its panel, at most `inches` wide."""
    name_panel(panel, dataset.name, inches, pad=12)
    numbers = f"N={dataset.n_records:,}  d={dataset.n_features:,}  k={dataset.n_clusters:,}"
    shapes = (numbers, numbers.replace("  ", " "), numbers.replace("  ", " ").replace(",", ""))
    shape = next((each for each in shapes if width(each, SMALL) <= inches), shapes[-1])
    panel.annotate(
        shape, (0.5, 1), (0, 3), xycoords="axes fraction", textcoords="offset points",
        fontsize=SMALL, color="#555555", ha="center",
    )  # fmt: skip


def grid(panel: "Axes") -> None:
    """Draw faint grid lines behind the data."""
    panel.grid(color="#E2E2E2", linewidth=0.5)
    panel.set_axisbelow(True)


def draw_lines(panel: "Axes", curves: Iterable[tuple[Style, Points]]) -> None:
    """Draw the means of each curve, joined by a line."""
    for style, points in curves:
        panel.plot([x for x, _ in points], [each.mean for _, each in points], **style.of_line())


def draw_bands(panel: "Axes", curves: Iterable[tuple[Style, Points]]) -> None:
    """Draw 95% intervals around the lines. They do not widen a logarithmic axis: they are cut off
    at its limits.
    """
    for style, points in curves:
        low, high = [each.low for _, each in points], [each.high for _, each in points]
        if panel.get_yscale() == "log":
            ends = panel.get_ylim()
            low, high = np.clip(low, *ends).tolist(), np.clip(high, ends[0], None).tolist()
        panel.fill_between(
            [x for x, _ in points], low, high, color=style.colour, alpha=0.18, linewidth=0, zorder=2
        )


def draw_ratios(
    panel: "Axes",
    curves: Sequence[tuple[Style, Points]],
    ratios: Sequence[float],
    *,
    factor: float = SPREAD,
) -> None:
    """Draw curves that are relative to a reference, which is a line at 1.

    ratios : ratios of all curves on this axis.
    factor : factor between the largest and the smallest ratio above which the axis is logarithmic.
    """
    low, high = min(ratios, default=0.0), max(ratios, default=0.0)
    if 0 < factor * low < high:
        mark_decades(panel)
    else:
        panel.locator_params(axis="y", nbins=5)
    panel.axhline(1, color="#999999", linewidth=0.7, zorder=1)
    draw_lines(panel, curves)
    draw_bands(panel, curves)
    grid(panel)
