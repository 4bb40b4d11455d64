"""Picture of a result with one or two features: a map of the centroids."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from fastlloyd.base.arrays import FloatArray
from fastlloyd.mechanisms.facts import Fact
from fastlloyd.reports.facts import sentence
from fastlloyd.reports.figures import DOTS_PER_INCH, PALETTE, frame, new_figure, plain
from fastlloyd.reports.picture import (
    BAR,
    ELLIPSE,
    LARGEST_MARK,
    MAX_LABELLED,
    SMALLEST_MARK,
    Picture,
    caution,
    short,
)
from fastlloyd.reports.units import Units

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


HEIGHT = 6.0


MOST_TICKS = 6  # of an axis
NUMBER = 11.0  # points of a cluster's number in a map


AROUND = 2.4  # inches: what stands above and below the lines of one feature


def draw_map(picture: Picture, name: str, dots_per_inch: int = DOTS_PER_INCH) -> "Figure":
    """Return a map of the centroids, for one or two features.

    name : name of the picture, for error messages.

    Raises OutputError if matplotlib cannot be imported.
    """
    n = min(len(picture.centroids), MAX_LABELLED)
    height = HEIGHT if len(picture.features) > 1 else AROUND + n * _line(n)
    figure = new_figure(height, name, dots_per_inch=dots_per_inch)
    ax = figure.add_subplot()
    draw_marks(ax, picture)
    _write_titles(ax, picture)
    return figure


def draw_marks(ax: "Axes", picture: Picture) -> None:
    """Draw the map without its title and its caption."""
    _draw_domain(ax, picture)
    _draw_records(ax, picture)
    _draw_centroids(ax, picture)


def _line(n: int) -> float:
    """Return the distance in inches between the lines of a map of n centroids with one feature."""
    return min(0.3, 3.6 / n + 0.08)


def _draw_domain(ax: "Axes", picture: Picture) -> None:
    """Draw axes, limits and bounds.

    For a single feature, each centroid has a horizontal line of its own, one below the other.
    """
    lower, upper = picture.centre - picture.half_widths, picture.centre + picture.half_widths
    room = 0.04 * (upper - lower)
    limits = [
        (float(low), float(high)) for low, high in zip(lower - room, upper + room, strict=True)
    ]
    labels = [plain(short(name)) for name in picture.features]
    if len(labels) == 1:
        limits, labels = [*limits, (-0.8, len(picture.centroids) + 0.2)], [*labels, ""]
    ax.set(xlim=limits[0], ylim=limits[1], xlabel=labels[0], ylabel=labels[1])
    for feature, axis in zip(range(len(picture.features)), (ax.xaxis, ax.yaxis), strict=False):
        _label_axis(axis, picture.units_at(feature), *limits[feature])
    frame(ax, "#E2E2E2", ["top", "right"])
    walls: dict[str, Any] = {
        "color": "#888888",
        "linewidth": 0.9,
        "linestyle": (0, (4, 3)),
        "zorder": 1,
    }
    for end in (lower[0], upper[0]):
        ax.axvline(float(end), **walls)
    if len(lower) == 2:
        for end in (lower[1], upper[1]):
            ax.axhline(float(end), **walls)
    else:
        ax.set_yticks([])
        ax.spines["left"].set_visible(False)
        ax.hlines(
            np.arange(len(picture.centroids)),
            lower[0],
            upper[0],
            color="#DDDDDD",
            linewidth=0.8,
            zorder=1,
        )


def _label_axis(axis: Any, units: Units, low: float, high: float) -> None:
    """Label an axis in the units of its feature, with whole numbers and without a common factor."""
    from matplotlib.ticker import FixedLocator

    if (ticks := units.ticks(low, high, MOST_TICKS)) is not None:
        axis.set_major_locator(FixedLocator(ticks))
    axis.set_major_formatter(lambda value, _: units.tick(value))


def _draw_records(ax: "Axes", picture: Picture) -> None:
    if picture.records is None:
        return
    if len(picture.features) == 1:
        rows = np.full(len(picture.records), -0.55)
        ax.plot(
            picture.records[:, 0], rows, "|", color="#666666", markersize=12, alpha=0.3, zorder=1
        )
    else:
        ax.scatter(
            picture.records[:, 0],
            picture.records[:, 1],
            s=7,
            color="#888888",
            alpha=0.45,
            linewidths=0,
            zorder=1,
        )


def _draw_centroids(ax: "Axes", picture: Picture) -> None:
    points = picture.centroids
    if len(picture.features) == 1:
        points = np.column_stack([points, np.arange(len(points))[::-1]])
    counts = np.maximum(picture.noisy_counts, 0.0)
    areas = np.maximum(
        LARGEST_MARK * counts / max(counts.max(), 1.0) * min(1.0, 8 / len(counts)), SMALLEST_MARK
    )
    for i, (point, area) in enumerate(zip(points, areas, strict=True)):
        colour = PALETTE[i % len(PALETTE)]
        known = bool(picture.is_known[i])
        if known and picture.errors[i].any():
            _draw_region(ax, point, picture.errors[i], colour)
        face = (colour + "C0") if known else "none"
        ax.scatter(
            point[0], point[1], s=area, facecolors=face, edgecolors=colour, linewidths=1.6, zorder=4
        )
    if len(points) <= MAX_LABELLED:
        size = NUMBER if len(picture.features) > 1 else min(NUMBER, 0.7 * 72 * _line(len(points)))
        _write_numbers(ax, picture, points, areas, size)


def _draw_region(ax: "Axes", point: FloatArray, errors: FloatArray, colour: str) -> None:
    """Draw the error of a centroid: an ellipse, or an interval for a single feature."""
    from matplotlib.patches import Ellipse

    if len(errors) == 1:
        reach = BAR * errors[0]
        ax.plot(
            [point[0] - reach, point[0] + reach],
            [point[1]] * 2,
            color=colour,
            linewidth=3,
            alpha=0.5,
            zorder=2,
        )
        return
    width, height = 2 * ELLIPSE * errors
    ax.add_patch(
        Ellipse((point[0], point[1]), width, height, zorder=2, facecolor=colour, alpha=0.13)
    )
    ax.add_patch(
        Ellipse(
            (point[0], point[1]),
            width,
            height,
            zorder=2,
            facecolor="none",
            edgecolor=colour,
            linewidth=1.2,
        )
    )


def _write_numbers(
    ax: "Axes", picture: Picture, points: FloatArray, areas: FloatArray, size: float
) -> None:
    from matplotlib.patheffects import withStroke

    for number, (point, area) in enumerate(
        zip(points, areas, strict=True)
    ):  # as labels are numbered
        beside = math.sqrt(area / math.pi) + 3
        ax.annotate(
            _label(picture, number),
            (point[0], point[1]),
            xytext=(beside, beside * 0.6),
            textcoords="offset points",
            fontsize=size,
            fontweight="bold",
            path_effects=[withStroke(linewidth=3, foreground="white")],
            zorder=5,
        )


def _label(picture: Picture, number: int) -> str:
    """Return the number of a cluster, and its name if it has one."""
    name = picture.names.clusters.get(number)
    return str(number) if name is None else plain(f"{number} {short(name)}")


def _write_titles(ax: "Axes", picture: Picture) -> None:
    marks: dict[str, Any] = {"loc": "left", "fontsize": 13, "fontweight": "bold", "pad": 38}
    ax.set_title(plain(picture.title), **marks)
    noisy = bool(picture.errors[picture.is_known].any())
    caption = f"Mark area: {picture.what_marks_say}"
    caption += "; dashed: bounds"
    if noisy:
        one = len(picture.features) == 1
        caption += (
            f"; bar: {BAR:g} standard errors"
            if one
            else f"; ellipse: {ELLIPSE:.1f} standard errors"
        )
    if not picture.is_known.all():
        caption += "; hollow: standard error not reliable"
    caption += f"\n{sentence(Fact.of('picture_other_run'))}"
    ax.annotate(
        caption,
        (0, 1),
        (0, 8),
        xycoords="axes fraction",
        textcoords="offset points",
        fontsize=9.5,
        color="#444444",
    )
    if warning := caution(picture):
        ax.annotate(  # on the line above the title, which takes as much room as it needs
            warning, (0, 1), (0, 58), xycoords="axes fraction", textcoords="offset points",
            fontsize=9.5, fontweight="bold", color="#B00020",
        )  # fmt: skip
