"""Figures for a family of generated sets, such as synth-K-D-R: area under the curve of a measure by
epsilon (Figure 4 of the paper).

If only dimensions or only clusters vary, each method has a line, relative to the baseline. If both
vary, there are heat maps of a method, of the baseline, and of the method's improvement.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fastlloyd.errors import DataError
from fastlloyd.reports.figures import plain
from fastlloyd_lab.experiments.measures import quantity
from fastlloyd_lab.pictures.axes import draw_ratios, legend, spaced, styles
from fastlloyd_lab.pictures.sheet import (
    TEXT,
    Drawing,
    fitted,
    left_out,
    name_panel,
    runs,
    sheet,
    width,
)
from fastlloyd_lab.pictures.summaries import (
    BASELINE,
    DataSet,
    Sample,
    Summaries,
    Summary,
    Variant,
    pooled,
    relative,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANEL_HEIGHT = 2.4  # inches, of lines
ROW_HEIGHT = 0.24  # inches of one row of numbers of a heat map
# inches above and below the rows: a panel's name, its numbers of clusters and what they are
_AROUND = 0.75
_AXES = {"n_features": "number of dimensions d", "n_clusters": "number of clusters k"}
_AREAS, _CHANGES = "cividis_r", "PuOr_r"  # told apart with every common colour vision, and in grey
_Shape = tuple[int, int]  # numbers of clusters and dimensions
_Cells = dict[_Shape, Summary]
_Curve = list[tuple[int, Summary]]
_Rgba = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Family:
    """Family of sets whose names begin with the same word."""

    name: str
    sets: tuple[DataSet, ...]

    def sizes(self, axis: str) -> list[int]:
        """Return the values that n_features or n_clusters takes, ascending."""
        return sorted({getattr(each, axis) for each in self.sets})

    @property
    def varying(self) -> list[str]:
        """Return the names, n_features or n_clusters, that take several values in the family."""
        return [axis for axis in _AXES if len(self.sizes(axis)) > 1]

    def of_size(self, **sizes: int) -> list[DataSet]:
        """Return the sets with these sizes, such as n_features=8. They differ in seed or
        separation.
        """
        return [
            each
            for each in self.sets
            if all(getattr(each, axis) == size for axis, size in sizes.items())
        ]


def families(summaries: Summaries) -> list[Family]:
    """Return all families of an experiment, by name."""
    found: dict[str, list[DataSet]] = defaultdict(list)
    for each in summaries.datasets.values():
        if each.family and each.n_clusters:
            found[each.family].append(each)
    return [Family(name, tuple(sets)) for name, sets in sorted(found.items())]


def _areas(summaries: Summaries, sets: list[DataSet], variant: Variant) -> Sample:
    """Return, for each run, the area under the curve of the measure by epsilon, averaged over the
    sets.
    """
    return pooled([summaries.areas(each.name, variant, summaries.main_measure) for each in sets])


def _title(summaries: Summaries) -> str:
    return f"Area under {quantity(summaries.main_measure).title} against epsilon"


# Lines


def lines(summaries: Summaries) -> Iterator[Drawing]:
    """Return a drawing for each family in which only dimensions or only clusters vary.

    Raises DataError if there is no such family. If some families lack the baseline, the other
    drawings are made before DataError is raised.
    """
    _ = summaries.main_measure  # which there is none of if every trial failed
    found = [family for family in families(summaries) if len(family.varying) == 1]
    if not found:
        raise DataError(
            "figure 'scaling' needs a family of sets, such as g2-D-S, in which only n_features or"
            " n_clusters varies"
        )
    lonely = []
    for family in found:
        samples: list[Sample] = []
        curves = {
            variant: _curve(summaries, family, variant, samples) for variant in summaries.variants
        }
        if curves := {variant: curve for variant, curve in curves.items() if curve}:
            yield _draw_lines(summaries, family, curves, samples)
        else:
            lonely.append(f"{family.name}-...")
    if lonely:
        raise DataError(
            f"figure 'scaling' needs {BASELINE} at two epsilons or more on the sets"
            f" {', '.join(lonely)}"
        )


def _curve(summaries: Summaries, family: Family, variant: Variant, samples: list[Sample]) -> _Curve:
    """Return ratios of areas, averaged over the sets of each size. The averaged samples are
    appended to `samples`.
    """
    curve: _Curve = []
    if (reference := summaries.reference(variant)) is None:
        return curve
    (axis,) = family.varying
    for size in family.sizes(axis):
        sets = family.of_size(**{axis: size})
        own = _areas(summaries, sets, variant)
        samples.append(own)
        if (ratio := relative(own, _areas(summaries, sets, reference))).n:
            curve.append((size, ratio))
    return curve


def _draw_lines(
    summaries: Summaries, family: Family, curves: dict[Variant, _Curve], samples: list[Sample]
) -> Drawing:
    (axis,) = family.varying
    sizes = family.sizes(axis)
    baseline = summaries.method_label(BASELINE)
    title = f"{_title(summaries)}, relative to {baseline}: {family.name}"
    most = max(len(family.of_size(**{axis: size})) for size in sizes)
    averaged = f"Each point averages up to {most} sets." if most > 1 else ""
    foot = [runs(samples), *left_out(samples), averaged]
    figure, (panel,) = sheet(title, PANEL_HEIGHT, (1, 1), legend(summaries, list(curves)), foot)
    panel.set_xscale("log", base=2)
    looks = styles(summaries)
    ratios = [ratio.mean for curve in curves.values() for _, ratio in curve]
    draw_ratios(panel, [(looks[variant], curve) for variant, curve in curves.items()], ratios)
    sizes = sorted({size for curve in curves.values() for size, _ in curve})
    shown = sizes if len(sizes) <= 16 else [int(size) for size in spaced(sizes, 0.06)]
    panel.set_xticks(shown, [f"{size:,}" for size in shown])
    panel.minorticks_off()
    panel.set_xlabel(_AXES[axis], fontsize=TEXT)
    panel.set_ylabel(
        plain(fitted(f"area relative to {baseline}", TEXT, PANEL_HEIGHT)), fontsize=TEXT
    )
    caption = f"{title}, against the {_AXES[axis]}. " + " ".join(foot)
    return Drawing(
        name=f"scaling-{family.name}-{axis}", title=title, caption=caption.strip(), figure=figure
    )


# Heat maps


def heat_maps(summaries: Summaries) -> list[Drawing]:
    """For each family in which both n_clusters and n_features vary, return one drawing for each
    private method other than the baseline.

    Raises DataError if there is no such family or method, or no baseline.
    """
    _ = summaries.main_measure  # which there is none of if every trial failed
    found = [family for family in families(summaries) if len(family.varying) == 2]
    if not found:
        raise DataError(
            "figure 'heatmaps' needs a family of sets, such as synth-K-D-R, in which n_clusters and"
            " n_features vary"
        )
    pairs = [
        (variant, reference)
        for variant in summaries.variants
        if variant.method != BASELINE
        and summaries.is_private(variant)
        and (reference := summaries.reference(variant))
    ]
    if not pairs:
        raise DataError(
            f"figure 'heatmaps' compares private methods with {BASELINE}; the results need it and"
            " another one"
        )
    return [
        _draw_maps(summaries, family, *pair, f"-{number}" if number > 1 else "")
        for family in found
        for number, pair in enumerate(pairs, 1)
    ]


def _draw_maps(
    summaries: Summaries, family: Family, variant: Variant, reference: Variant, suffix: str
) -> Drawing:
    from matplotlib import colormaps
    from matplotlib.colors import LogNorm, Normalize

    theirs, own = _by_shape(summaries, family, reference), _by_shape(summaries, family, variant)
    names = [summaries.label(reference), summaries.label(variant)]
    areas = [
        {shape: sample.summary() for shape, sample in each.items() if sample.by_run}
        for each in (theirs, own)
    ]
    title = f"{_title(summaries)}: {names[1]} beside {names[0]}, {family.name}"
    samples = [*theirs.values(), *own.values()]
    foot = [
        runs(samples).replace(", 95% intervals shaded", ""),
        *left_out(samples),
    ]
    ratios = {shape: ratio for shape in own if (ratio := relative(own[shape], theirs[shape])).n}
    changes = {
        shape: replace(r, mean=100 * (1 - r.mean), half_width=100 * r.half_width)
        for shape, r in ratios.items()
    }
    if any(_holds_zero(change) for change in changes.values()):
        foot.insert(1, "Brackets: the 95% interval of an improvement contains 0.")
    upwards = _AXES["n_features"]
    rows = max(ROW_HEIGHT * len(family.sizes("n_features")), width(upwards, TEXT))
    figure, panels = sheet(title, _AROUND + rows, (1, 3), {}, foot)
    values = [summary.mean for each in areas for summary in each.values()]
    positive = bool(values) and min(values) > 0
    shared = (
        LogNorm(min(values), max(values))
        if positive
        else Normalize(min(values, default=0), max(values, default=1))
    )
    for panel, name, each in zip(panels, names, areas, strict=False):
        _map(panel, family, each, name, lambda mean: colormaps[_AREAS](float(shared(mean))), _area)
    reach = max((abs(change.mean) for change in changes.values()), default=1.0) or 1.0
    scale = Normalize(-reach, reach)
    _map(
        panels[2],
        family,
        changes,
        "Improvement, %",
        lambda mean: colormaps[_CHANGES](float(scale(mean))),
        _change,
    )
    panels[0].set_ylabel(upwards, fontsize=TEXT)
    for panel in panels:
        panel.set_xlabel(_AXES["n_clusters"], fontsize=TEXT)
    caption = f"{title}, and by how many percent it is smaller. " + " ".join(foot)
    return Drawing(
        name=f"heatmaps-{family.name}{suffix}", title=title, caption=caption, figure=figure
    )


def _by_shape(summaries: Summaries, family: Family, variant: Variant) -> dict[_Shape, Sample]:
    return {
        (k, d): _areas(summaries, sets, variant)
        for k in family.sizes("n_clusters")
        for d in family.sizes("n_features")
        if (sets := family.of_size(n_clusters=k, n_features=d))
    }


def _map(
    panel: "Axes",
    family: Family,
    cells: _Cells,
    name: str,
    shade: Callable[[float], _Rgba],
    number: Callable[[Summary], str],
) -> None:
    """Draw a coloured cell with its number for each n_clusters and n_features. The cell is empty if
    the family has no data set of this shape, or if the data set has no value.
    """
    from matplotlib.patches import Rectangle

    ks, ds = family.sizes("n_clusters"), family.sizes("n_features")
    size = max(4.5, min(TEXT - 1, 36 / len(ks)))  # points: letters that fit into a cell
    for (k, d), summary in cells.items():
        column, row = ks.index(k), ds.index(d)
        colour = shade(summary.mean)
        panel.add_patch(
            Rectangle(
                (column - 0.5, row - 0.5), 1, 1, facecolor=colour, edgecolor="white", linewidth=0.6
            )
        )
        luminance = (
            0.2126 * colour[0] ** 2.2 + 0.7152 * colour[1] ** 2.2 + 0.0722 * colour[2] ** 2.2
        )
        ink = "white" if luminance < 0.22 else "black"
        panel.text(column, row, number(summary), fontsize=size, ha="center", va="center", color=ink)
    panel.set(xlim=(-0.5, len(ks) - 0.5), ylim=(-0.5, len(ds) - 0.5))
    panel.set_xticks(range(len(ks)), [f"{k:,}" for k in ks])
    panel.set_yticks(range(len(ds)), [f"{d:,}" for d in ds])
    panel.tick_params(length=0)
    for side in panel.spines.values():
        side.set_visible(False)
    name_panel(panel, name, 2.0)


def _area(summary: Summary) -> str:
    """Return the mean as text with three digits, or fewer if three do not fit into a cell."""
    size = abs(summary.mean)
    if not 1e-3 <= size < 1e5:
        return f"{summary.mean:.1e}"
    return f"{summary.mean:#.{3 if size >= 1e-2 else 2}g}".removesuffix(".")


def _change(summary: Summary) -> str:
    text = f"{summary.mean:+.0f}" if abs(summary.mean) >= 10 else f"{summary.mean:+.1f}"
    return f"({text})" if _holds_zero(summary) else text


def _holds_zero(summary: Summary) -> bool:
    return not math.isnan(summary.half_width) and summary.low <= 0 <= summary.high
