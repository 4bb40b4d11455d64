"""Figure of a measure by epsilon, with a panel for each data set (Figure 2 of the paper)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastlloyd.errors import DataError
from fastlloyd_lab.experiments.measures import Quantity, quantity
from fastlloyd_lab.pictures import axes, sheet
from fastlloyd_lab.pictures.sheet import Drawing
from fastlloyd_lab.pictures.summaries import DataSet, Summaries, Summary, Variant

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ACROSS, PER_SHEET = 5, 20  # panels
PANEL_HEIGHT = 1.65  # inches
LOGARITHMIC = f"Axes are logarithmic if means span more than a factor of {axes.SPREAD:g}."
CUT = "Intervals that reach beyond an axis are cut off there."
_NUMBERS = 0.4  # inches of the numbers beside a panel
_NAMED = 6  # names in a sentence at the foot
_SEVERAL = 5  # runs, beside which a mean of one run is said to be one
_Points = list[tuple[float, Summary]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """Content of a panel: for each variant, a summary at every epsilon at which it was run.

    scale : scale of the vertical axis, or None if there are no values.
    """

    dataset: DataSet
    epsilons: Sequence[float]
    points: dict[Variant, _Points]
    scale: axes.Scale | None

    def means(self, variant: Variant) -> _Points:
        """Return the points of a variant that have a value."""
        return [(epsilon, each) for epsilon, each in self.points[variant] if each.n]

    def off(self, variant: Variant) -> _Points:
        """Return the points of a variant that lie outside the axis, each as epsilon and mean."""
        return [
            (epsilon, each)
            for epsilon, each in self.means(variant)
            if self.scale and not self.scale.holds(each.mean)
        ]


def draw(summaries: Summaries) -> list[Drawing]:
    """Return one figure for each measure, or several if there are many sets.

    A set without private methods has no panel. Raises DataError if there is no panel at all.
    """
    sets = [each for each in summaries.datasets.values() if summaries.epsilons(each.name)]
    _ = summaries.main_measure  # which there is none of if every trial failed
    if not sets:
        raise DataError(
            "figure 'curves' needs a private method, which is run at an epsilon; there is nothing"
            " to draw"
        )
    return [
        drawing
        for measure in summaries.results.measures
        for drawing in _sheets(summaries, quantity(measure), sets)
    ]


def _sheets(summaries: Summaries, measure: Quantity, sets: list[DataSet]) -> list[Drawing]:
    """Return the drawings of one measure. A set without this measure has no panel, and a note says
    so.
    """
    curves = [_curves(summaries, each, measure) for each in sets]
    without = [each.dataset.name for each in curves if not any(each.points.values())]
    curves = [each for each in curves if any(each.points.values())]
    sheets = [curves[start : start + PER_SHEET] for start in range(0, len(curves), PER_SHEET)]
    return [
        _draw(summaries, measure, shown, f"-{number}" if len(sheets) > 1 else "", without)
        for number, shown in enumerate(sheets, 1)
    ]


def _draw(
    summaries: Summaries,
    measure: Quantity,
    curves: Sequence[Curves],
    suffix: str,
    without: Sequence[str],
) -> Drawing:
    variants = [
        variant for variant in summaries.variants if any(variant in each.points for each in curves)
    ]
    n_columns = min(ACROSS, len(curves))
    shape = (math.ceil(len(curves) / n_columns), n_columns)
    title = f"{measure.title} against epsilon"
    foot = _foot(summaries, curves, without)
    height = PANEL_HEIGHT if n_columns > 2 else 1.6 * PANEL_HEIGHT
    figure, panels = sheet.sheet(title, height, shape, axes.legend(summaries, variants), foot)
    looks = axes.styles(summaries)
    for panel, each in zip(panels, curves, strict=False):
        _panel(panel, each, looks, sheet.WIDTH / n_columns - _NUMBERS)
    for panel in panels[len(curves) :]:
        panel.remove()
    for panel in panels[max(0, len(curves) - n_columns) : len(curves)]:  # with no other below
        panel.set_xlabel("epsilon", fontsize=sheet.TEXT)
    sheet.name_axis(figure, measure.axis)
    caption = f"{title}, one panel for each of {len(curves)} data sets. " + " ".join(foot)
    return Drawing(
        name=f"curves-{measure.column}{suffix}", title=title, caption=caption.strip(), figure=figure
    )


def _curves(summaries: Summaries, dataset: DataSet, measure: Quantity) -> Curves:
    epsilons = summaries.epsilons(dataset.name)
    points: dict[Variant, _Points] = {}
    for variant in summaries.variants_of(dataset.name):
        found = [
            (e, summaries.sample(dataset.name, variant, e, measure.column).summary())
            for e in epsilons
        ]
        points[variant] = [
            (e, each) for e, each in found if each.n or each.n_failed or each.n_infinite
        ]
    shown = [each for of_variant in points.values() for _, each in of_variant if each.n]
    return Curves(
        dataset=dataset,
        epsilons=epsilons,
        points=points,
        scale=axes.scale(shown, bounded=measure.better > 0),
    )


def _foot(summaries: Summaries, curves: Sequence[Curves], without: Sequence[str]) -> list[str]:
    """Return the notes below a figure: the source of its numbers, and the values that cannot be
    seen.

    curves : content of the panels.
    without : names of the data sets without a panel.
    """
    listed = [
        (
            each,
            variant,
            points if summaries.is_private(variant) else points[:1],
        )  # which are the same at every epsilon
        for each in curves
        for variant, points in each.points.items()
    ]
    every = [summary for _, _, points in listed for _, summary in points]
    scales = [each.scale for each in curves if each.scale]
    few = [
        f"{each.dataset.name} ({summaries.label(variant)})"
        for each, variant, points in listed
        if any(0 < s.n < (s.n + s.n_failed + s.n_infinite) / 2 for _, s in points)
    ]
    off = [
        f"{each.dataset.name}, {summaries.label(variant)} at"
        f" {_span([s.mean for _, s in each.off(variant)])}"
        for each, variant, _ in listed
        if each.off(variant)
    ]
    said = [
        sheet.runs(every),
        LOGARITHMIC if any(each.logarithmic for each in scales) else "",
        CUT if any(each.cut for each in scales) else "",
        *sheet.left_out(every),
        f"Not measured: {_some(without)}." if without else "",
        f"Means of fewer than half of the runs: {_some(few)}." if few else "",
        f"Off the axis, marked at its edge: {_some(off)}." if off else "",
    ]
    return [sentence for sentence in said if sentence]


def _some(listed: Sequence[str]) -> str:
    more = len(listed) - _NAMED
    return "; ".join(listed[:_NAMED]) + (f"; and {more:,} more" if more > 0 else "")


def _span(values: Sequence[float]) -> str:
    return " to ".join(dict.fromkeys(f"{end:.2g}" for end in (min(values), max(values))))


def _panel(panel: "Axes", curves: Curves, looks: dict[Variant, axes.Style], inches: float) -> None:
    lines = [(looks[variant], curves.means(variant)) for variant in curves.points]
    axes.draw_lines(panel, lines)
    axes.name_set(panel, curves.dataset, inches + 0.8 * _NUMBERS)
    axes.grid(panel)
    axes.label_ticks(panel, curves.epsilons, inches)
    if curves.scale is None:
        infinite = any(each.n_infinite for points in curves.points.values() for _, each in points)
        why = "no finite value" if infinite else "all trials failed"
        panel.text(
            0.5,
            0.5,
            why,
            transform=panel.transAxes,
            ha="center",
            va="center",
            fontsize=sheet.TEXT,
            color="#555555",
        )
        panel.set_yticks([])
        return
    curves.scale.apply(panel)
    axes.draw_bands(panel, lines)  # when the limits of the axis are known
    for variant in curves.points:
        _mark(panel, curves, variant, looks[variant].colour)


def _mark(panel: "Axes", curves: Curves, variant: Variant, colour: str) -> None:
    """Mark each mean that lies outside the axis, and each mean that comes from a single run.

    A mean from a single run is marked only if other means of the figure come from several runs.
    """
    from matplotlib.markers import CARETDOWN, CARETUP
    from matplotlib.patheffects import withStroke

    for epsilon, each in curves.off(variant):
        above = each.mean > curves.scale.high if curves.scale else False
        edge, mark = (1, CARETUP) if above else (0, CARETDOWN)
        panel.plot(
            [epsilon], [edge], transform=panel.get_xaxis_transform(), clip_on=False,
            marker=mark, color=colour, markersize=5, zorder=5,
        )  # fmt: skip
    most = max(each.n for points in curves.points.values() for _, each in points)
    lone = [
        (epsilon, each)
        for epsilon, each in curves.means(variant)
        if each.n == 1 and most >= _SEVERAL
    ]
    if len(lone) == 1:  # of more there is a sentence at the foot
        ((epsilon, each),) = lone
        panel.annotate(
            "1 run",
            (epsilon, each.mean),
            (-3, 4),
            textcoords="offset points",
            fontsize=sheet.SMALL,
            color=colour,
            va="bottom",
            zorder=6,
            path_effects=[withStroke(linewidth=2, foreground="white")],
        )
