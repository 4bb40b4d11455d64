"""Figure of a measure relative to the naive baseline, by alpha. Each radius has a panel, and each
combination of postprocessing and clipping has a line.

Private methods that do not have these options are horizontal lines, the same in every panel.
"""

from dataclasses import replace

from fastlloyd.base.names import fraction
from fastlloyd.errors import DataError, PlanError
from fastlloyd.reports.figures import plain
from fastlloyd_lab.experiments.measures import quantity
from fastlloyd_lab.pictures.axes import LOOKS, Style, draw_ratios, shade, spaced, styles
from fastlloyd_lab.pictures.sheet import TEXT, Drawing, fitted, left_out, name_panel, runs, sheet
from fastlloyd_lab.pictures.summaries import (
    Sample,
    Summaries,
    Summary,
    Variant,
    place,
    pooled,
    relative,
)

PANEL_HEIGHT = 2.3  # inches
NAIVE = "glloyd"  # Gaussian noise without radius and postprocessing
# shade of the method's colour, and mark
_LOOKS = {"none": (0.55, "s"), "truncate": (-0.6, "^"), "fold": (0.0, "o")}
_YES, _NO = ("true", "1", "yes"), ("false", "0", "no", "none", "")
_Kind = tuple[str, str]  # postprocessing, clipping
_Curve = list[tuple[float, Summary]]


def draw(summaries: Summaries) -> list[Drawing]:
    """Return one drawing for each epsilon.

    Raises DataError if no method has the option alpha, or if there is no naive baseline.
    """
    measure = summaries.main_measure
    swept = [
        variant
        for variant in summaries.variants
        if variant.option("alpha") and not _is_naive(variant)
    ]
    if not swept:
        raise DataError("figure 'ablation' needs results in which the option alpha was swept")
    naive = _naive(summaries)
    epsilons = summaries.epsilons()
    suffixed = len(epsilons) > 1
    return [
        _draw(summaries, measure, swept, naive, e, f"-epsilon-{e:g}" if suffixed else "")
        for e in epsilons
    ]


def _is_naive(variant: Variant) -> bool:
    return variant.option("radius") == "none" and variant.option("postprocessing") == "none"


def _naive(summaries: Summaries) -> Variant:
    """Return the baseline, which uses neither the radius nor postprocessing: the variant with both
    switched off, or a method that never has them.
    """
    found = [each for each in summaries.variants if _is_naive(each)]
    found += [
        each for each in summaries.variants if each.method == NAIVE and not each.option("alpha")
    ]
    if not found:
        raise DataError(
            f"figure 'ablation' needs the naive baseline: {NAIVE}, or radius and postprocessing"
            " both 'none'"
        )
    return found[0]


def _draw(
    summaries: Summaries,
    measure: str,
    swept: list[Variant],
    naive: Variant,
    epsilon: float,
    suffix: str,
) -> Drawing:
    names = list(summaries.datasets)
    pool = {
        each: pooled([summaries.sample(name, each, epsilon, measure) for name in names])
        for each in summaries.variants
    }
    reference, own = pool[naive], {each: pool[each] for each in swept}
    # private methods that take none of the swept options, averaged over the same sets: lines
    # without marks
    others = [each for each in pool if each not in {*swept, naive} and summaries.is_private(each)]
    every = styles(summaries)
    level = {
        each: (replace(every[each], mark=""), ratio)
        for each in others
        if (ratio := relative(pool[each], reference)).n
    }
    radii = sorted(
        {each.option("radius") for each in swept}, key=lambda radius: (radius != "step", radius)
    )
    panels_of = {radius: _curves(radius, own, reference) for radius in radii}
    kinds = sorted(
        {kind for curves in panels_of.values() for kind in curves},
        key=lambda kind: (place(kind[0], _LOOKS), kind),
    )
    looks = {kind: _style(kind) for kind in kinds}
    title = (
        f"{quantity(measure).title} relative to no radius and no postprocessing, epsilon"
        f" {epsilon:g}"
    )
    samples = [reference, *own.values()]
    foot = [runs(samples), f"Averaged over {len(names)} data sets.", *left_out(samples)]
    samples_of_lines = {_label(kind): looks[kind].sample() for kind in kinds} | {
        summaries.label(other): line.sample() for other, (line, _) in level.items()
    }
    figure, panels = sheet(title, PANEL_HEIGHT, (1, len(radii)), samples_of_lines, foot)
    values = [
        ratio.mean
        for curves in panels_of.values()
        for curve in curves.values()
        for _, ratio in curve
    ]
    values += [ratio.mean for _, ratio in level.values()]
    for panel, (radius, curves) in zip(panels, panels_of.items(), strict=True):
        lines = [(looks[kind], curve) for kind, curve in curves.items()]
        draw_ratios(panel, lines, values, factor=2)  # the smallest ones matter
        alphas = spaced(sorted({alpha for curve in curves.values() for alpha, _ in curve}), 0.08)
        panel.set_xticks(alphas, [f"{alpha:g}" for alpha in alphas])
        for line, ratio in level.values():
            panel.axhline(ratio.mean, **line.of_line())
        name_panel(panel, f"radius: {radius}" if radius else "radius of the method", 6 / len(radii))
        panel.set_xlabel("alpha", fontsize=TEXT)
    low, high = min(p.get_ylim()[0] for p in panels), max(p.get_ylim()[1] for p in panels)
    for panel in panels:
        panel.set_ylim(low, high)
    name = fitted(
        f"{quantity(measure).title} / that of {summaries.label(naive)}", TEXT, PANEL_HEIGHT
    )
    panels[0].set_ylabel(plain(name), fontsize=TEXT)
    caption = f"{title}, against alpha. " + " ".join(foot)
    return Drawing(name=f"ablation{suffix}", title=title, caption=caption, figure=figure)


def _curves(radius: str, own: dict[Variant, Sample], reference: Sample) -> dict[_Kind, _Curve]:
    curves: dict[_Kind, _Curve] = {}
    for variant, sample in own.items():
        ratio = relative(sample, reference)
        if variant.option("radius") == radius and ratio.n:
            kind = (variant.option("postprocessing"), variant.option("clipping").lower())
            curves.setdefault(kind, []).append((_alpha(variant), ratio))
    return {kind: sorted(curve, key=lambda point: point[0]) for kind, curve in curves.items()}


def _alpha(variant: Variant) -> float:
    try:
        return float(fraction(variant.option("alpha"), "figure 'ablation': alpha"))
    except PlanError as error:
        raise DataError(str(error)) from None


def _style(kind: _Kind) -> Style:
    """Return the style of a line: shade and mark show the postprocessing, dashes show the
    clipping.
    """
    postprocessing, clipping = kind
    part, mark = _LOOKS.get(postprocessing, (0.75, "D"))
    off = clipping in _NO
    dashes: tuple[int, tuple[float, ...]] = (0, (4, 2)) if off else (0, ())
    return Style(shade(LOOKS["fastlloyd"].colour, part), dashes, mark, 4.4, is_open=off)


def _label(kind: _Kind) -> str:
    postprocessing, clipping = kind
    first = {"none": "no postprocessing", "": "postprocessing of the method"}.get(
        postprocessing, postprocessing
    )
    second = (
        "clipping"
        if clipping in _YES
        else "no clipping"
        if clipping in _NO
        else f"clipping {clipping}"
    )
    return f"{first}, {second}"
