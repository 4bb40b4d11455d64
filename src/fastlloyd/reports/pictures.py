"""Pictures of a result: centroids, and the errors that noise causes.

A result with one or two features is drawn as a map. A result with more features has a panel for
each feature, in the units of the feature, with all clusters. The choice and order of panels follow
from noisy centroids and their errors, never from records. matplotlib is imported when a picture is
drawn. Each picture has a canvas of its own, so no window and no global state is needed.
"""

import math
import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from fastlloyd.base.arrays import FloatArray, IntArray
from fastlloyd.base.precision import brief_count
from fastlloyd.mechanisms.facts import Fact
from fastlloyd.reports.facts import sentence
from fastlloyd.reports.figures import (
    DOTS_PER_INCH,
    PALETTE,
    check_axes,
    frame,
    new_figure,
    plain,
    to_png,
)
from fastlloyd.reports.map_picture import draw_map, draw_marks
from fastlloyd.reports.picture import BAR, Picture, caution, short
from fastlloyd.reports.profile import by_importance
from fastlloyd.reports.units import Units

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_PANELS = 8
PANEL, BESIDE = 1.5, 1.0  # inches: width of a panel, of what stands on the left
LEAST_WIDTH, ABOVE = 8.0, 1.75
NAME = 20  # characters of a feature's name that fit above a panel
LETTERS = 19  # so many characters of numbers fit below a panel, in some three numbers
LEAST, MOST = 25.0, 100.0  # square points of a mark
LINE, ROOMY = 0.34, 0.44  # inches: distance of rows, and of rows with values
FEW = 12  # clusters whose names, counts and values are written
LETTER = 0.075  # inches: width of a letter of a label, beyond the two of a number
EDGE = 0.2  # share of a panel at whose edge a value is not centred
ROOM = 0.1  # of the range of a panel, on both sides
WALL = "wall"  # label of a line at a bound


def draw(picture: Picture) -> bytes:
    """Return the picture as PNG. Raises OutputError if matplotlib cannot be imported."""
    return to_png(figure_of(picture), picture.name)


def figure_of(
    picture: Picture, name: str = "clusters.png", dots_per_inch: int = DOTS_PER_INCH
) -> "Figure":
    """Return the picture as a matplotlib figure.

    name : name of the picture, for error messages.

    Raises OutputError if matplotlib cannot be imported.
    """
    return (draw_map if len(picture.features) <= 2 else draw_profiles)(picture, name, dots_per_inch)


def draw_into(ax: "Axes", picture: Picture) -> "Figure":
    """Draw the picture into axes, with a title and without a caption. Return the figure of the
    axes.

    A row of panels fills the room of the axes, which then have no lines of their own.

    ax : axes with two straight axes.

    Raises DataError for anything else, and OutputError if matplotlib cannot be imported.
    """
    check_axes(ax)
    warning, pad = caution(picture), 6.0
    if len(picture.features) <= 2:
        draw_marks(ax, picture)
    else:
        shown = features_shown(picture)
        share, first = 1 / len(shown), None
        ax.set_axis_off()
        for n, feature in enumerate(shown):
            panel = ax.inset_axes((n * share, 0, 0.9 * share, 1), sharey=first)
            _draw_panel(panel, picture, feature)
            panel.tick_params(labelleft=first is None)
            first = panel if first is None else first
        if first is not None:
            _label_clusters(first, _labels(picture))
        pad = 34.0  # above the names of the features
    title = plain(picture.title)
    ax.set_title(f"{warning}\n{title}" if warning else title, fontweight="bold", pad=pad)
    figure: Figure = ax.figure.figure  # of a part of a figure, the whole
    return figure


def draw_profiles(picture: Picture, name: str, dots_per_inch: int = DOTS_PER_INCH) -> "Figure":
    """Return a figure with a row of panels, one per feature.

    name : name of the picture, for error messages.

    Raises OutputError if matplotlib cannot be imported.
    """
    shown, k = features_shown(picture), len(picture.centroids)
    height = ABOVE + max(1.2, k * min(LINE if k > FEW else ROOMY, 9.0 / k + 0.05))
    labels = _labels(picture)
    width = max(
        LEAST_WIDTH, BESIDE + LETTER * max(max(map(len, labels)) - 2, 0) + PANEL * len(shown)
    )
    figure = new_figure(height, name, width, dots_per_inch=dots_per_inch)
    panels = figure.subplots(1, len(shown), sharey=True, squeeze=False)[0]
    for panel, feature in zip(panels, shown, strict=True):
        _draw_panel(panel, picture, feature)
    _label_clusters(panels[0], labels)
    _write_profiles_titles(figure, picture, len(shown))
    return figure


def features_shown(picture: Picture) -> IntArray:
    """Return the indexes of the features that have a panel, ascending.

    If there are up to eight features, each has a panel. Otherwise the eight in which clusters
    differ most have one (`by_importance`).
    """
    best = by_importance(
        picture.centroids, picture.errors, picture.noisy_counts, picture.half_widths
    )
    shown: IntArray = np.sort(best[:MAX_PANELS])
    return shown


def _draw_panel(panel: "Axes", picture: Picture, feature: int) -> None:
    k, known = len(picture.centroids), picture.is_known
    values, errors = picture.centroids[:, feature], picture.errors[:, feature]
    reach = np.where(known, BAR * np.nan_to_num(errors), 0.0)
    counts = np.maximum(picture.noisy_counts, 0.0)
    areas = np.clip(MOST * counts / max(counts.max(), 1.0), LEAST, MOST) * min(1.0, 20 / k + 0.3)
    panel.hlines(
        np.arange(k),
        0,
        1,
        transform=panel.get_yaxis_transform(),
        color="#E6E6E6",
        linewidth=0.8,
        zorder=1,
    )
    if picture.records is not None:
        panel.plot(picture.records[:, feature], np.full(len(picture.records), k - 0.2),
          "|", color="#666666",
                   markersize=9, alpha=0.3, zorder=1)  # fmt: skip
    for row in range(k):
        colour = PALETTE[row % len(PALETTE)]
        panel.scatter(values[row], row, s=areas[row],
          facecolors=colour + "B0" if known[row] else "white", edgecolors=colour,
                      linewidths=1.6, clip_on=False, zorder=3)  # fmt: skip
        panel.plot([values[row] - reach[row], values[row] + reach[row]], [row, row],
          color="#222222", linewidth=1.3,
                   solid_capstyle="butt", zorder=4)  # fmt: skip
    low, high = _ends(picture, feature, values, reach)
    if k <= FEW:
        _write_values(panel, picture, feature, (low, high))
    panel.set(xlim=(low, high), ylim=(k - (0.5 if picture.records is None else -0.2), -0.5))
    panel.set_title(plain(_in_two_lines(picture.features[feature])), fontsize=10, pad=6)
    _draw_walls(panel, picture, feature, (low, high))
    _draw_ticks(panel, picture.units_at(feature), (low, high))
    frame(panel, "#EEEEEE", ["top", "right", "left"], axis="x")


def _draw_walls(panel: "Axes", picture: Picture, feature: int, ends: tuple[float, float]) -> None:
    """Draw the bounds of a feature. If the panel does not show both, also write them.

    ends : limits of the horizontal axis.
    """
    low, high = ends
    walls = (
        picture.centre[feature] + picture.half_widths[feature] * np.array([-1.0, 1.0])
    ).tolist()
    for wall in walls:
        if low <= wall <= high:
            panel.axvline(
                wall,
                color="#888888",
                linewidth=0.9,
                linestyle=(0, (4, 3)),
                zorder=1,
                gid=WALL,
            )
    units = picture.units_at(feature)
    if not low <= walls[0] <= walls[1] <= high:
        zoom = Fact.of("picture_zoom", low=units.tick(walls[0]), high=units.tick(walls[1]))
        panel.set_xlabel(plain(sentence(zoom)), fontsize=7.5, color="#444444")


def _draw_ticks(panel: "Axes", units: Units, ends: tuple[float, float]) -> None:
    """Draw the marks of the horizontal axis, in the units of the feature.

    ends : limits of the axis.
    """
    from matplotlib.ticker import FixedLocator, MaxNLocator

    low, high = ends
    longest = max(len(units.tick(tick)) for tick in MaxNLocator(nbins=3).tick_values(low, high))
    most = min(3, max(1, LETTERS // longest))
    ticks = units.ticks(low, high, most)
    panel.xaxis.set_major_locator(MaxNLocator(nbins=most) if ticks is None else FixedLocator(ticks))
    panel.xaxis.set_major_formatter(lambda value, _: units.tick(value))
    panel.tick_params(axis="x", labelsize=8.5)
    panel.tick_params(axis="y", length=0)


def _write_values(panel: "Axes", picture: Picture, feature: int, ends: tuple[float, float]) -> None:
    """Write the value above each mark, in the units of the feature.

    ends : ends of the horizontal axis.
    """
    units, (low, high) = picture.units_at(feature), ends
    for row, value in enumerate(picture.centroids[:, feature].tolist()):
        error = float(picture.errors[row, feature]) if picture.is_known[row] else math.nan
        place = (value - low) / (high - low)
        side = "left" if place < EDGE else "right" if place > 1 - EDGE else "center"
        panel.annotate(
            plain(units.brief(value, error)),
            (value, row),
            xytext=(0, 6.5),
            textcoords="offset points",
            ha=side,
            fontsize=7.5,
            color="#222222",
            zorder=5,
        )


def _ends(
    picture: Picture, feature: int, values: FloatArray, reach: FloatArray
) -> tuple[float, float]:
    """Return the limits of the horizontal axis of a panel.

    They contain all bars (and records) with some room. The range is at least a twentieth of the
    domain, and hardly larger than the domain.

    values : coordinates of the centroids in this feature.
    reach : half lengths of the bars.
    """
    centre, half = float(picture.centre[feature]), float(picture.half_widths[feature])
    first, last = float((values - reach).min()), float((values + reach).max())
    if picture.records is not None:
        first, last = (
            min(first, float(picture.records[:, feature].min())),
            max(last, float(picture.records[:, feature].max())),
        )
    lacking = max(0.1 * half - (last - first), 0.0) / 2
    room = ROOM * (last - first + 2 * lacking)
    low, high = (
        min(centre - 1.04 * half, float(values.min())),
        max(centre + 1.04 * half, float(values.max())),
    )
    return max(first - lacking - room, low), min(last + lacking + room, high)


def _labels(picture: Picture) -> list[str]:
    """Return number, name and noisy count of each cluster, or numbers alone if there are many."""
    k = len(picture.centroids)
    if k > FEW:
        return [str(row) for row in range(k)]
    labels = []
    for row, count in enumerate(picture.noisy_counts.tolist()):
        name = picture.names.clusters.get(row)
        about = "" if picture.count_error == 0 else "about "
        words = f"{about}{brief_count(count, picture.count_error)}"
        labels.append(f"{row}  {words}" if name is None else f"{row}  {short(name)}\n{words}")
    return [plain(label) for label in labels]


def _label_clusters(panel: "Axes", labels: list[str]) -> None:
    k = len(labels)
    panel.set_yticks(np.arange(k), labels, fontsize=min(11.0, 5.5 + 90 / k))
    for row, label in enumerate(panel.get_yticklabels()):
        label.set(color=PALETTE[row % len(PALETTE)], fontweight="bold")
    panel.set_ylabel("group, largest first", fontsize=9.5)


def _write_profiles_titles(figure: "Figure", picture: Picture, n_shown: int) -> None:
    said = [
        "a panel per feature",
        f"bar: {BAR:g} standard errors",
        f"mark area: {picture.what_marks_say}",
    ]
    if not picture.private:
        del said[1]
    if not picture.is_known.all():
        said.append("hollow: standard error not reliable")
    if any(line.get_gid() == WALL for panel in figure.axes for line in panel.lines):
        said.append("dashed: bounds")
    if hidden := len(picture.features) - n_shown:
        said[0] = f"the {n_shown} features in which clusters differ most, of {n_shown + hidden}"
    left: dict[str, Any] = {"x": 0.012, "ha": "left"}
    warning = caution(picture)
    figure.suptitle(
        ("\n" if warning else "") + plain(picture.title), fontsize=13, fontweight="bold", **left
    )
    if warning:  # on the line above the title, which takes as much room as it needs
        figure.text(
            y=0.97, s=warning, fontsize=9.5, fontweight="bold", color="#B00020", va="top", **left
        )
    words = f"{'; '.join(said).capitalize()}.\n{sentence(Fact.of('picture_other_run'))}"
    figure.supxlabel(words, fontsize=9, color="#444444", **left)


def _in_two_lines(name: str) -> str:
    """Return the name of a feature, broken into at most two lines."""
    lines = textwrap.wrap(name, NAME) or [""]
    return "\n".join(lines if len(lines) <= 2 else [lines[0], lines[1][: NAME - 1] + "…"])
