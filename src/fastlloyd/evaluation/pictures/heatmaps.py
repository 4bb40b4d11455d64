"""Areas under a measure over number of clusters and dimension: a method, another, and what it improves (Figure 4)."""

import math
from typing import TYPE_CHECKING

from fastlloyd.errors import DataError
from fastlloyd.evaluation.experiments.measures import quantity
from fastlloyd.evaluation.pictures.sheet import TEXT, Drawing, fitted, left_out, runs, sheet, width
from fastlloyd.evaluation.pictures.summaries import (
    BASELINE,
    Family,
    Sample,
    Summaries,
    Summary,
    Variant,
    families,
    pooled,
    relative,
)  # fmt: skip
from fastlloyd.reports.pictures import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap, Normalize

ROW_HEIGHT = 0.24  # inches of one row of numbers
_AROUND = 0.75  # inches above and below the rows: a panel's name, its numbers of clusters and what they are
_ROWS_ARE = "number of dimensions d"
_AREAS, _CHANGES = "cividis_r", "PuOr_r"  # told apart with every common colour vision, and in grey
_Cells = dict[tuple[int, int], Summary]  # by number of clusters and dimensions


def draw(summaries: Summaries) -> list[Drawing]:
    """A drawing for each family whose sets vary in both, and each private method beside the baseline; DataError if none."""
    measure = summaries.main_measure
    found = [family for family in families(summaries) if len(family.sizes("n_features")) > 1 < len(family.sizes("n_clusters"))]
    if not found:
        raise DataError(
            "figure 'heatmaps' needs a family of sets, such as synth-K-D-R, in which n_clusters and n_features vary"
        )
    others = [v for v in summaries.variants if v.method != BASELINE and summaries.is_private(v) and summaries.reference(v)]
    if not others:
        raise DataError(f"figure 'heatmaps' compares private methods with {BASELINE}; the results need it and another one")
    return [_draw(summaries, measure, family, variant, n) for family in found for n, variant in enumerate(others, 1)]


def _draw(summaries: Summaries, measure: str, family: Family, variant: Variant, number: int) -> Drawing:
    from matplotlib import colormaps
    from matplotlib.colors import LogNorm, Normalize

    reference = summaries.reference(variant)
    if reference is None:
        raise AssertionError("draw() asks for pairs only")
    theirs, own = _samples(summaries, family, reference, measure), _samples(summaries, family, variant, measure)
    names = [summaries.label(reference), summaries.label(variant)]
    areas = [{shape: sample.summary() for shape, sample in each.items() if sample.by_run} for each in (theirs, own)]
    changes = {shape: _improvement(own[shape], theirs[shape]) for shape in own}
    title = f"Area under {quantity(measure).title} against epsilon: {names[1]} beside {names[0]}, {family.name}"
    foot = [
        runs([*theirs.values(), *own.values()]).replace(", 95% intervals shaded", ""),
        "Brackets: the 95% interval of an improvement holds 0.",
        *left_out([*theirs.values(), *own.values()]),
    ]
    rows = max(ROW_HEIGHT * len(family.sizes("n_features")), width(_ROWS_ARE, TEXT))  # the label is written upwards
    figure, panels = sheet(title, _AROUND + rows, (1, 3), {}, foot)
    values = [summary.mean for each in areas for summary in each.values()]
    positive = bool(values) and min(values) > 0
    shared = LogNorm(min(values), max(values)) if positive else Normalize(min(values, default=0), max(values, default=1))
    for panel, name, each in zip(panels, names, areas, strict=False):
        _panel(panel, family, each, name, colormaps[_AREAS], shared)
    finite = {shape: change for shape, change in changes.items() if change.n}
    reach = max((abs(change.mean) for change in finite.values()), default=1.0) or 1.0
    _panel(panels[2], family, finite, "Improvement, %", colormaps[_CHANGES], Normalize(-reach, reach), signed=True)
    panels[0].set_ylabel(_ROWS_ARE, fontsize=TEXT)
    for panel in panels:
        panel.set_xlabel("number of clusters k", fontsize=TEXT)
    name = f"heatmaps-{family.name}" + (f"-{number}" if number > 1 else "")
    return Drawing(
        name=name, title=title, caption=f"{title}, and by how many percent it is smaller. " + " ".join(foot), figure=figure
    )


def _samples(summaries: Summaries, family: Family, variant: Variant, measure: str) -> dict[tuple[int, int], Sample]:
    return {
        (k, d): pooled([summaries.areas(each.name, variant, measure) for each in sets])
        for k in family.sizes("n_clusters")
        for d in family.sizes("n_features")
        if (sets := family.of_shape(k, d))
    }


def _improvement(own: Sample, theirs: Sample) -> Summary:
    """By how many percent of the other's an area is smaller."""
    ratio = relative(own, theirs)
    return Summary(n=ratio.n, mean=100 * (1 - ratio.mean), half_width=100 * ratio.half_width, median=100 * (1 - ratio.median))


def _panel(
    panel: "Axes", family: Family, cells: _Cells, name: str, colours: "Colormap", scale: "Normalize", *, signed: bool = False
) -> None:
    """A coloured cell with its number for each shape; where there is no set, or no value yet, the cell stays empty."""
    from matplotlib.patches import Rectangle

    ks, ds = family.sizes("n_clusters"), family.sizes("n_features")
    for (k, d), summary in cells.items():
        column, row = ks.index(k), ds.index(d)
        colour = colours(float(scale(summary.mean)))
        panel.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, facecolor=colour, edgecolor="white", linewidth=0.6))
        luminance = 0.2126 * colour[0] ** 2.2 + 0.7152 * colour[1] ** 2.2 + 0.0722 * colour[2] ** 2.2
        panel.text(
            column, row, _number(summary, signed=signed), fontsize=_size(len(ks)), ha="center", va="center",
            color="white" if luminance < 0.22 else "black",
        )  # fmt: skip
    panel.set(xlim=(-0.5, len(ks) - 0.5), ylim=(-0.5, len(ds) - 0.5))
    panel.set_xticks(range(len(ks)), [f"{k:,}" for k in ks])
    panel.set_yticks(range(len(ds)), [f"{d:,}" for d in ds])
    panel.tick_params(length=0)
    for side in panel.spines.values():
        side.set_visible(False)
    panel.set_title(plain(fitted(name, TEXT, 2.0, bold=True)), fontsize=TEXT, fontweight="bold")


def _number(summary: Summary, *, signed: bool) -> str:
    if not signed:
        return f"{summary.mean:#.3g}".removesuffix(".") if 1e-3 <= abs(summary.mean) < 1e5 else f"{summary.mean:.1e}"
    text = f"{summary.mean:+.0f}" if abs(summary.mean) >= 10 else f"{summary.mean:+.1f}"
    holds_zero = not math.isnan(summary.half_width) and summary.low <= 0 <= summary.high
    return f"({text})" if holds_zero else text


def _size(n_columns: int) -> float:
    """Letters that fit into a cell: points."""
    return max(4.5, min(TEXT - 1, 36 / n_columns))
