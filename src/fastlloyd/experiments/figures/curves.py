"""A measure against epsilon, a panel for each data set (Figure 2 of the paper)."""

import math
from typing import TYPE_CHECKING

from fastlloyd.errors import DataError
from fastlloyd.experiments.figures import notes, styles
from fastlloyd.experiments.figures.families import main_measure
from fastlloyd.experiments.figures.sheet import SMALL, TEXT, Drawing, band, name_axis, scale_values, sheet, spaced
from fastlloyd.experiments.quantities import Quantity, quantity
from fastlloyd.experiments.summaries import DataSet, Sample, Summaries, Summary, Variant
from fastlloyd.figures import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ACROSS, PER_SHEET = 5, 20  # panels
PANEL_HEIGHT = 1.65  # inches
LOGARITHMIC = "Axes are logarithmic where means span more than a decade."
_LONG = 18  # letters of a name above a panel
_Lines = dict[Variant, list[tuple[float, Sample]]]


def draw(summaries: Summaries) -> list[Drawing]:
    """One drawing for each measure, more if there are many sets. Sets without private methods have no such curve.

    Raises DataError if there is no curve at all.
    """
    sets = [each for each in summaries.datasets.values() if summaries.epsilons(each.name)]
    main_measure(summaries)
    if not sets:
        raise DataError("figure 'curves' needs a private method, which is run at an epsilon; there is nothing to draw")
    sheets = [sets[start : start + PER_SHEET] for start in range(0, len(sets), PER_SHEET)]
    drawings = []
    for measure in summaries.measures:
        for number, shown in enumerate(sheets, 1):
            drawings.append(_draw(summaries, measure, shown, f"-{number}" if len(sheets) > 1 else ""))
    return drawings


def _draw(summaries: Summaries, measure: str, sets: list[DataSet], suffix: str) -> Drawing:
    lines = {each.name: _lines(summaries, each.name, measure) for each in sets}
    samples = [
        sample
        for of_set in lines.values()
        for variant, points in of_set.items()
        for _, sample in (points if summaries.is_private(variant) else points[:1])  # which is the same at every epsilon
    ]
    variants = [variant for variant in summaries.variants if any(variant in of_set for of_set in lines.values())]
    n_columns = min(ACROSS, len(sets))
    shape = (math.ceil(len(sets) / n_columns), n_columns)
    title = f"{quantity(measure).title} against epsilon"
    foot = [notes.runs(samples), LOGARITHMIC, *notes.left_out(samples)]
    height = PANEL_HEIGHT if n_columns > 2 else 1.6 * PANEL_HEIGHT
    figure, panels = sheet(title, height, shape, styles.legend(summaries, variants), foot)
    looks = styles.styles(summaries)
    for panel, each in zip(panels, sets, strict=False):
        _panel(panel, each, lines[each.name], looks, quantity(measure))
    for panel in panels[len(sets) :]:
        panel.remove()
    for panel in panels[max(0, len(sets) - n_columns) : len(sets)]:  # with no other below
        panel.set_xlabel("epsilon", fontsize=TEXT)
    name_axis(figure, quantity(measure).axis)
    caption = f"{title}, one panel for each of {len(sets)} data sets. " + " ".join(foot)
    return Drawing(name=f"curves-{measure}{suffix}", title=title, caption=caption.strip(), figure=figure)


def _lines(summaries: Summaries, dataset: str, measure: str) -> _Lines:
    """What there is to draw of each variant: (epsilon, sample) where it has a value or should have one."""
    epsilons = summaries.epsilons(dataset)
    found: _Lines = {}
    for variant in summaries.variants:
        if summaries.has(dataset, variant):
            points = [(e, summaries.sample(dataset, variant, e, measure)) for e in epsilons]
            found[variant] = [(e, s) for e, s in points if s.by_run or s.n_failed or s.n_infinite]
    return found


def _panel(panel: "Axes", dataset: DataSet, lines: _Lines, looks: dict[Variant, styles.Style], measure: Quantity) -> None:
    means: dict[Variant, list[tuple[float, Summary]]] = {
        variant: [(epsilon, sample.summary()) for epsilon, sample in points if sample.by_run]
        for variant, points in lines.items()
    }
    shown = [summary.mean for points in means.values() for _, summary in points]
    scale_values(panel, shown, bounded=measure.better > 0)
    for variant, points in means.items():
        x, y = [epsilon for epsilon, _ in points], [summary.mean for _, summary in points]
        panel.plot(x, y, **looks[variant].of_line(zorder=3))
    for variant, points in means.items():  # when the limits of the axis are known
        x = [epsilon for epsilon, _ in points]
        band(panel, x, [s.low for _, s in points], [s.high for _, s in points], looks[variant].colour)
    epsilons = sorted({epsilon for points in lines.values() for epsilon, _ in points})
    panel.set_xticks(spaced(epsilons, 0.25), [f"{epsilon:g}" for epsilon in spaced(epsilons, 0.25)])
    panel.grid(color="#E2E2E2", linewidth=0.5)
    panel.set_axisbelow(True)
    name = dataset.name if len(dataset.name) <= _LONG else dataset.name[: _LONG - 1] + "…"
    panel.set_title(plain(name), fontsize=TEXT, fontweight="bold", pad=12)
    panel.annotate(
        f"N={dataset.n_records:,}  d={dataset.n_features:,}  k={dataset.n_clusters:,}",
        (0.5, 1), (0, 3), xycoords="axes fraction", textcoords="offset points",
        fontsize=SMALL, color="#555555", ha="center",
    )  # fmt: skip
