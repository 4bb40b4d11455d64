"""Picture of an advice: relative error by epsilon."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fastlloyd.mechanisms.uncertainty import FINE, MOSTLY_NOISE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

from fastlloyd.reports.figures import PALETTE, frame, new_figure, to_png

ADVICE_HEIGHT = 5.0  # inches


MARKERS = ("o", "s", "^")


BEYOND = 1.35  # factor between the outermost point and the frame


def draw_advice(
    title: str, epsilons: Sequence[float], curves: Mapping[int, Sequence[float]], asked: int
) -> bytes:
    """Return a PNG with one line per number of clusters. Both axes are logarithmic.

    Lines differ in colour (distinct with every common colour vision), marker and width.

    title : title of the picture.
    epsilons : ascending epsilons.
    curves : relative errors at the epsilons, by number of clusters.
    asked : number of clusters whose line is thick.

    Raises OutputError if matplotlib cannot be imported.
    """
    figure = new_figure(ADVICE_HEIGHT, "advise.png")
    ax = figure.add_subplot()
    errors = [error for curve in curves.values() for error in curve]
    low, high = min(*errors, FINE / 2) / BEYOND, max(*errors, 2 * MOSTLY_NOISE) * BEYOND
    ax.set(
        xscale="log",
        yscale="log",
        xlim=(epsilons[0] / BEYOND, epsilons[-1] * BEYOND),
        ylim=(low, high),
    )
    _draw_verdicts(ax, low, high)
    for i, (k, curve) in enumerate(curves.items()):
        bold = k == asked
        ax.plot(
            epsilons,
            curve,
            color=PALETTE[i],
            marker=MARKERS[i],
            linestyle="-" if bold else "--",
            linewidth=2.6 if bold else 1.5,
            markersize=7 if bold else 5,
            label=f"{k} cluster{'s' if k > 1 else ''}" + (" (asked for)" if bold else ""),
            zorder=4 if bold else 3,
        )
    ax.legend(loc="upper right", frameon=True, framealpha=0.9, edgecolor="none")
    _label_advice(ax, title, epsilons)
    return to_png(figure, title.replace("\n", ", "))


def _draw_verdicts(ax: "Axes", low: float, high: float) -> None:
    """Draw a band behind the lines for each verdict, with its name to the right of the frame.

    low, high : limits of the vertical axis.
    """
    ends = (low, FINE, MOSTLY_NOISE, high)
    words = ("fine", "noisy", "mostly\nnoise")
    for name, bottom, top, grey in zip(
        words, ends, ends[1:], ("#FFFFFF", "#EEEEEE", "#D8D8D8"), strict=False
    ):
        ax.axhspan(bottom, top, color=grey, linewidth=0, zorder=0)
        ax.annotate(
            name, (1, math.sqrt(bottom * top)), (6, 0), xycoords=("axes fraction", "data"),
            textcoords="offset points",
            fontsize=10, color="#444444", va="center", zorder=2,
        )  # fmt: skip


def _label_advice(ax: "Axes", title: str, epsilons: Sequence[float]) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    marks: dict[str, Any] = {"loc": "left", "fontsize": 13, "fontweight": "bold", "pad": 12}
    ax.set_title(title, **marks)
    ax.set(xlabel="epsilon", ylabel="error of a centroid / radius of a cluster")
    ax.set_xticks(list(epsilons) if len(epsilons) <= 10 else [epsilons[0], epsilons[-1]])
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:,.5g}%"))
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_minor_formatter(NullFormatter())
    frame(ax, "#CCCCCC", ["top", "right"])
