"""The area under a measure against epsilon, relative to one method, against dimension or number of clusters."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fastlloyd.errors import DataError
from fastlloyd.evaluation.experiments.measures import quantity
from fastlloyd.evaluation.pictures.axes import Style, draw_ratios, legend, spaced, styles
from fastlloyd.evaluation.pictures.sheet import TEXT, Drawing, fitted, left_out, runs, sheet
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

PANEL_HEIGHT = 2.4  # inches
_AXES = {"n_features": "number of dimensions d", "n_clusters": "number of clusters k"}
_Curve = list[tuple[int, Summary]]


def draw(summaries: Summaries) -> Iterator[Drawing]:
    """A drawing for each family in which either dimensions or clusters vary.

    Raises DataError if there is none, and after the others for families without the baseline.
    """
    measure = summaries.main_measure
    found = [(family, axis) for family in families(summaries) if (axis := family.single_axis())]
    if not found:
        raise DataError(
            "figure 'scaling' needs a family of sets, such as g2-D-S, in which only n_features or n_clusters varies"
        )
    lonely = []
    for family, axis in found:
        samples: list[Sample] = []
        curves = {variant: _curve(summaries, family, axis, variant, measure, samples) for variant in summaries.variants}
        if curves := {variant: curve for variant, curve in curves.items() if curve}:
            yield _draw(summaries, family, axis, measure, curves, samples)
        else:
            lonely.append(f"{family.name}-...")
    if lonely:
        raise DataError(f"figure 'scaling' needs {BASELINE} at two epsilons or more on the sets {', '.join(lonely)}")


def _draw(
    summaries: Summaries, family: Family, axis: str, measure: str, curves: dict[Variant, _Curve], samples: list[Sample]
) -> Drawing:
    baseline = summaries.method_label(BASELINE)
    title = f"Area under {quantity(measure).title} against epsilon, relative to {baseline}: {family.name}"
    foot = [runs(samples), *left_out(samples), _averaged(family, axis)]
    figure, panels = sheet(title, PANEL_HEIGHT, (1, 1), legend(summaries, list(curves)), foot)
    _panel(panels[0], curves, styles(summaries))
    panels[0].set_xlabel(_AXES[axis], fontsize=TEXT)
    panels[0].set_ylabel(plain(fitted(f"area relative to {baseline}", TEXT, PANEL_HEIGHT)), fontsize=TEXT)
    caption = f"{title}, against the {_AXES[axis]}. " + " ".join(foot)
    return Drawing(name=f"scaling-{family.name}-{axis}", title=title, caption=caption.strip(), figure=figure)


def _curve(summaries: Summaries, family: Family, axis: str, variant: Variant, measure: str, samples: list[Sample]) -> _Curve:
    """Ratios of areas averaged over the sets of one size; what was averaged is appended to `samples`."""
    reference = summaries.reference(variant)
    curve: _Curve = []
    if reference is None:
        return curve
    for size, sets in family.by_size(axis).items():
        own = pooled([summaries.areas(each.name, variant, measure) for each in sets])
        samples.append(own)
        ratio = relative(own, pooled([summaries.areas(each.name, reference, measure) for each in sets]))
        if ratio.n:
            curve.append((size, ratio))
    return curve


def _averaged(family: Family, axis: str) -> str:
    most = max(len(sets) for sets in family.by_size(axis).values())
    return f"Each point averages up to {most} sets." if most > 1 else ""


def _panel(panel: "Axes", curves: dict[Variant, _Curve], looks: dict[Variant, Style]) -> None:
    sizes = sorted({size for curve in curves.values() for size, _ in curve})
    panel.set_xscale("log", base=2)
    ratios = [ratio.mean for curve in curves.values() for _, ratio in curve]
    draw_ratios(panel, [(looks[variant], curve) for variant, curve in curves.items()], ratios)
    shown = sizes if len(sizes) <= 16 else [int(size) for size in spaced(sizes, 0.06)]
    panel.set_xticks(shown, [f"{size:,}" for size in shown])
    panel.minorticks_off()
