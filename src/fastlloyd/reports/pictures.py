"""Pictures of a result, with the noise around its centroids, and of an advice.

A result of one or two features is a map; of more features each has a panel, in its own units, with
all clusters in it. Nothing here looks at records: which features are shown, and in which order,
follows from noisy centroids and their errors. matplotlib is imported when a picture is drawn, and
drawn on a canvas of its own: no window, no global state.
"""

import math
import textwrap
from typing import TYPE_CHECKING, Any, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from fastlloyd.base.arrays import FloatArray, IntArray
from fastlloyd.base.precision import delta_up, epsilon_up
from fastlloyd.dp.noise import Noise
from fastlloyd.mechanisms.mechanism import Mechanism
from fastlloyd.mechanisms.persons import RECORD, Unit
from fastlloyd.reports.figures import DOTS_PER_INCH, PALETTE, frame, new_figure, plain, to_png

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BoolArray = NDArray[np.bool_]
HEIGHT = 6.0
CONTAINS_RECORDS = "contains raw data: NOT PRIVATE"
LARGEST_MARK, SMALLEST_MARK = 600.0, 40.0  # square points
# standard errors: half width of a bar, and radius of an ellipse that a normal law leaves as rarely
BAR, ELLIPSE = 2.0, 2.486
MAX_LABELLED = 60
NUMBER = 11.0  # points of a cluster's number in a map
AROUND = 2.4  # inches: what stands above and below the lines of one feature
MAX_PANELS = 8
PANEL, BESIDE = 1.5, 1.0  # inches: width of a panel, of what stands on the left
LEAST_WIDTH, ABOVE = 8.0, 1.75
NAME = 20  # characters of a feature's name that fit above a panel
LETTERS = 19  # so many characters of numbers fit below a panel, in some three numbers
LEAST, MOST = 25.0, 100.0  # square points of a mark
ROOM = 0.1  # of the range of a panel, on both sides
WALL = "wall"  # what a line at a bound is called


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """What is drawn, in original units.

    centroids, errors : float64 (n_clusters, n_features); errors are standard errors, NaN where
    unknown. settled : bool (n_clusters,), where these hold (`uncertainty.Status`); the others are
    drawn hollow, without an ellipse. None: where known. noisy_counts : float64 (n_clusters,).
    centre, half_widths : float64 (n_features,), the domain. records : float64 (n, n_features),
    drawn if given, which makes the picture not private, as it then says.
    """

    features: tuple[str, ...]
    centroids: FloatArray
    errors: FloatArray
    noisy_counts: FloatArray
    centre: FloatArray
    half_widths: FloatArray
    title: str
    private: bool = True
    covered: bool = True  # whether no setting was taken from the data
    records: FloatArray | None = None
    settled: BoolArray | None = None
    counted: Unit = RECORD

    @classmethod
    def of(
        cls,
        m: Mechanism,
        *,
        private: bool,
        epsilon: float | None = None,
        records: FloatArray | None = None,
        **numbers: Any,
    ) -> Self:
        """Make a picture of a mechanism's result.

        private : no setting was taken from the data; epsilon : where more was spent than the
        mechanism's; numbers : noisy fields.
        """
        clusters = f"{m.n_clusters} cluster{'s' if m.n_clusters > 1 else ''}"
        has_noise = m.noise is not Noise.NONE
        guarantee = (
            (
                f"ε = {epsilon_up(m.epsilon if epsilon is None else epsilon)}"
                + (f", δ = {delta_up(m.delta)}" if m.delta else "")
            )
            if has_noise
            else "no privacy"
        )
        return cls(
            features=m.domain.features,
            centre=m.domain.centre,
            half_widths=m.domain.units * m.domain.half_widths,
            title=f"{m.name}, {clusters}, {guarantee}",
            private=has_noise,
            covered=private or not has_noise,
            counted=m.unit,
            records=records,
            **numbers,
        )

    @property
    def is_known(self) -> BoolArray:
        """Whether the error of each centroid is known, bool (n_clusters,)."""
        known = np.asarray(np.isfinite(self.errors).all(axis=1))
        return known if self.settled is None else np.asarray(known & self.settled)

    @property
    def what_marks_say(self) -> str:
        """What their area stands for."""
        of_persons = "" if self.counted == RECORD else f" of {self.counted.many}"
        return ("noisy count" if self.private else "count") + of_persons

    @property
    def name(self) -> str:
        """The title, and whether the picture may be shown."""
        return self.title + (
            "" if self.private and self.covered and self.records is None else ", NOT PRIVATE"
        )


def draw(picture: Picture) -> bytes:
    """The picture as PNG. Raises OutputError if matplotlib is not installed."""
    return to_png(figure_of(picture), picture.name)


def figure_of(
    picture: Picture, name: str = "clusters.png", dots_per_inch: int = DOTS_PER_INCH
) -> "Figure":
    """The picture as a figure of matplotlib. Raises OutputError, which names it, if matplotlib is
    not installed.
    """
    return (draw_map if len(picture.features) <= 2 else draw_profiles)(picture, name, dots_per_inch)


def draw_map(picture: Picture, name: str, dots_per_inch: int = DOTS_PER_INCH) -> "Figure":
    """Draw centroids of one or two features where they are. Raises OutputError, which names the
    file, without matplotlib.
    """
    n = min(len(picture.centroids), MAX_LABELLED)
    height = HEIGHT if len(picture.features) > 1 else AROUND + n * _line(n)
    figure = new_figure(height, name, dots_per_inch=dots_per_inch)
    ax = figure.add_subplot()
    _draw_domain(ax, picture)
    _draw_records(ax, picture)
    _draw_centroids(ax, picture)
    _write_titles(ax, picture)
    return figure


def _line(n: int) -> float:
    """Inches between the lines of so many centroids of one feature."""
    return min(0.3, 3.6 / n + 0.08)


def _draw_domain(ax: "Axes", picture: Picture) -> None:
    """Axes, limits and bounds; a single feature is drawn along a line, its centroids one below the
    other on parallels of it.
    """
    lower, upper = picture.centre - picture.half_widths, picture.centre + picture.half_widths
    room = 0.04 * (upper - lower)
    limits = [
        (float(low), float(high)) for low, high in zip(lower - room, upper + room, strict=True)
    ]
    labels = [plain(_short(name)) for name in picture.features]
    if len(labels) == 1:
        limits, labels = [*limits, (-0.8, len(picture.centroids) + 0.2)], [*labels, ""]
    ax.set(xlim=limits[0], ylim=limits[1], xlabel=labels[0], ylabel=labels[1])
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(
            lambda value, _: f"{value:,.7g}"
        )  # whole numbers, instead of a factor such as 1e6 in a corner
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
        _write_numbers(ax, points, areas, size)


def _draw_region(ax: "Axes", point: FloatArray, errors: FloatArray, colour: str) -> None:
    """Draw an ellipse, or an interval on a line, around the centre of the centroid's records."""
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


def _write_numbers(ax: "Axes", points: FloatArray, areas: FloatArray, size: float) -> None:
    from matplotlib.patheffects import withStroke

    for number, (point, area) in enumerate(
        zip(points, areas, strict=True)
    ):  # as labels are numbered
        beside = math.sqrt(area / math.pi) + 3
        ax.annotate(
            str(number),
            (point[0], point[1]),
            xytext=(beside, beside * 0.6),
            textcoords="offset points",
            fontsize=size,
            fontweight="bold",
            path_effects=[withStroke(linewidth=3, foreground="white")],
            zorder=5,
        )


def caution(picture: Picture) -> str:
    """Return the warning above a picture that is not private, "" for one that is."""
    if picture.records is not None:
        return CONTAINS_RECORDS
    if not picture.private:
        return "no noise was added: NOT PRIVATE"
    return "" if picture.covered else "settings from the data: NOT PRIVATE"


def _write_titles(ax: "Axes", picture: Picture) -> None:
    marks: dict[str, Any] = {"loc": "left", "fontsize": 13, "fontweight": "bold", "pad": 26}
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
        caption += "; hollow: not settled, error unknown"
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
            warning, (0, 1), (0, 46), xycoords="axes fraction", textcoords="offset points",
            fontsize=9.5, fontweight="bold", color="#B00020",
        )  # fmt: skip


def _short(name: str) -> str:
    return name if len(name) <= 28 else name[:27] + "…"


def draw_profiles(picture: Picture, name: str, dots_per_inch: int = DOTS_PER_INCH) -> "Figure":
    """Draw a row of panels, one per feature. Raises OutputError, which names the file, if
    matplotlib is not installed.
    """
    shown, order = features_shown(picture), clusters_in_order(picture)
    height = ABOVE + max(1.2, len(order) * min(0.34, 9.0 / len(order) + 0.05))
    width = max(LEAST_WIDTH, BESIDE + PANEL * len(shown))
    figure = new_figure(height, name, width, dots_per_inch=dots_per_inch)
    panels = figure.subplots(1, len(shown), sharey=True, squeeze=False)[0]
    for panel, feature in zip(panels, shown, strict=True):
        _draw_panel(panel, picture, feature, order)
    _label_clusters(panels[0], order)
    _write_profiles_titles(figure, picture, len(shown))
    return figure


def features_shown(picture: Picture) -> IntArray:
    """Return the features that have a panel, in their order: all, or the eight in which clusters
    differ most.

    They differ by the spread of centroids, weighted by noisy counts, beyond what their standard
    errors alone would give, over the half width of the domain.
    """
    d = len(picture.features)
    if d <= MAX_PANELS:
        return np.arange(d)
    weights = np.maximum(picture.noisy_counts, 0.0)
    weights = (
        weights / weights.sum() if weights.sum() > 0 else np.full(len(weights), 1 / len(weights))
    )
    spread = weights @ (picture.centroids - weights @ picture.centroids) ** 2
    by_noise = weights @ np.nan_to_num(picture.errors) ** 2
    score = np.maximum(spread - by_noise, 0.0) / picture.half_widths**2
    best: IntArray = np.sort(np.argsort(-score, kind="stable")[:MAX_PANELS])
    return best


def clusters_in_order(picture: Picture) -> IntArray:
    """Return the numbers of the clusters, the largest noisy count first."""
    order: IntArray = np.argsort(-picture.noisy_counts, kind="stable")
    return order


def _draw_panel(panel: "Axes", picture: Picture, feature: int, order: IntArray) -> None:
    from matplotlib.ticker import MaxNLocator

    rows = np.arange(len(order))
    values, errors = picture.centroids[order, feature], picture.errors[order, feature]
    known = picture.is_known[order]
    reach = np.where(known, BAR * np.nan_to_num(errors), 0.0)
    counts = np.maximum(picture.noisy_counts[order], 0.0)
    areas = np.clip(MOST * counts / max(counts.max(), 1.0), LEAST, MOST) * min(
        1.0, 20 / len(order) + 0.3
    )
    panel.hlines(
        rows, 0, 1, transform=panel.get_yaxis_transform(), color="#E6E6E6", linewidth=0.8, zorder=1
    )
    if picture.records is not None:
        panel.plot(picture.records[:, feature], np.full(len(picture.records), len(order) - 0.2),
          "|", color="#666666",
                   markersize=9, alpha=0.3, zorder=1)  # fmt: skip
    for row, cluster in enumerate(order):
        colour = PALETTE[cluster % len(PALETTE)]
        panel.scatter(values[row], row, s=areas[row],
          facecolors=colour + "B0" if known[row] else "white", edgecolors=colour,
                      linewidths=1.6, clip_on=False, zorder=3)  # fmt: skip
        panel.plot([values[row] - reach[row], values[row] + reach[row]], [row, row],
          color="#222222", linewidth=1.3,
                   solid_capstyle="butt", zorder=4)  # fmt: skip
    low, high = _ends(picture, feature, values, reach)
    panel.set(
        xlim=(low, high), ylim=(len(order) - (0.5 if picture.records is None else -0.2), -0.5)
    )
    panel.set_title(plain(_in_two_lines(picture.features[feature])), fontsize=10, pad=6)
    for wall in picture.centre[feature] + picture.half_widths[feature] * np.array([-1.0, 1.0]):
        if low <= wall <= high:
            panel.axvline(
                float(wall),
                color="#888888",
                linewidth=0.9,
                linestyle=(0, (4, 3)),
                zorder=1,
                gid=WALL,
            )
    longest = max(len(_number(tick)) for tick in MaxNLocator(nbins=3).tick_values(low, high))
    panel.xaxis.set_major_locator(MaxNLocator(nbins=min(3, max(1, LETTERS // longest))))
    panel.xaxis.set_major_formatter(lambda value, _: _number(value))
    panel.tick_params(axis="x", labelsize=8.5)
    panel.tick_params(axis="y", length=0)
    frame(panel, "#EEEEEE", ["top", "right", "left"], axis="x")


def _number(value: float) -> str:
    return f"{value:,.6g}"


def _ends(
    picture: Picture, feature: int, values: FloatArray, reach: FloatArray
) -> tuple[float, float]:
    """Return the limits of a panel: all bars with some room, at least a twentieth and hardly more
    than the domain.
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


def _label_clusters(panel: "Axes", order: IntArray) -> None:
    panel.set_yticks(
        np.arange(len(order)),
        [f"{cluster}" for cluster in order],
        fontsize=min(11.0, 5.5 + 90 / len(order)),
    )
    for label, cluster in zip(panel.get_yticklabels(), order, strict=True):
        label.set(color=PALETTE[cluster % len(PALETTE)], fontweight="bold")
    panel.set_ylabel("cluster, largest first", fontsize=9.5)


def _write_profiles_titles(figure: "Figure", picture: Picture, n_shown: int) -> None:
    said = [
        "a panel per feature",
        f"bar: {BAR:g} standard errors",
        f"mark area: {picture.what_marks_say}",
    ]
    if not picture.private:
        del said[1]
    if not picture.is_known.all():
        said.append("hollow: not settled, error unknown")
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
    figure.supxlabel("; ".join(said).capitalize() + ".", fontsize=9, color="#444444", **left)


def _in_two_lines(name: str) -> str:
    """Break a name into at most two lines."""
    lines = textwrap.wrap(name, NAME) or [""]
    return "\n".join(lines if len(lines) <= 2 else [lines[0], lines[1][: NAME - 1] + "…"])
