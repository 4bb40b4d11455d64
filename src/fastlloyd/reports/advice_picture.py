"""Picture of forecasts: length of the error bars by epsilon."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fastlloyd.jobs.forecast import Forecast
from fastlloyd.mechanisms.uncertainty import Verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes

from fastlloyd.reports.figures import PALETTE, frame, new_figure, to_png

ADVICE_HEIGHT = 5.0  # inches


MARKERS = ("o", "s", "^")


BEYOND = 1.35  # factor between the outermost point and the frame


def draw_advice(title: str, curves: Mapping[int, Sequence[Forecast]], asked: int) -> bytes:
    """Return a PNG with the length of the error bars by epsilon, one line per number of clusters.
    Both axes are logarithmic.

    Lines differ in colour (distinct with every common colour vision), marker and width. Markers are
    filled if the verdict is clear, and white if it is blurred. No marker means mostly noise.

    title : title of the picture.
    curves : forecasts at ascending epsilons, by number of clusters.
    asked : number of clusters whose line is thick.

    Raises OutputError if matplotlib cannot be imported.
    """
    figure = new_figure(ADVICE_HEIGHT, "advise.png")
    ax = figure.add_subplot()
    epsilons = [each.epsilon for each in curves[asked]]
    ax.set(xscale="log", yscale="log", xlim=(epsilons[0] / BEYOND, epsilons[-1] * BEYOND))
    for i, (k, curve) in enumerate(curves.items()):
        bold, colour = k == asked, PALETTE[i]
        shown = [
            each
            for each in curve
            if each.verdict is not Verdict.MOSTLY_NOISE and math.isfinite(each.bar)
        ]
        ax.plot(
            [each.epsilon for each in shown],
            [each.bar for each in shown],
            color=colour,
            linestyle="-" if bold else "--",
            linewidth=2.6 if bold else 1.5,
            label=f"{k} cluster{'s' if k > 1 else ''}"
            + (" (asked for)" if bold else "")
            + ("" if shown else ": mostly noise"),
            zorder=4 if bold else 3,
        )
        ax.scatter(
            [each.epsilon for each in shown],
            [each.bar for each in shown],
            s=49 if bold else 25,
            marker=MARKERS[i],
            facecolors=[colour if each.verdict is Verdict.CLEAR else "#FFFFFF" for each in shown],
            edgecolors=colour,
            zorder=5,
        )
    ax.legend(loc="upper right", frameon=True, framealpha=0.9, edgecolor="none")
    _label_advice(ax, title, epsilons)
    return to_png(figure, title.replace("\n", ", "))


def _label_advice(ax: "Axes", title: str, epsilons: Sequence[float]) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    marks: dict[str, Any] = {"loc": "left", "fontsize": 13, "fontweight": "bold", "pad": 12}
    ax.set_title(title, **marks)
    ax.set(
        xlabel="epsilon",
        ylabel="two standard errors / width of the bounds\n(filled markers: clear, white: blurred)",
    )
    ax.set_xticks(list(epsilons) if len(epsilons) <= 10 else [epsilons[0], epsilons[-1]])
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:,.5g}%"))
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_minor_formatter(NullFormatter())
    frame(ax, "#CCCCCC", ["top", "right"])
