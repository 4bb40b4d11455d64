"""What is drawn of a result; and the picture of one or two features: centroids with the ellipses of their noise.

matplotlib is imported when a picture is drawn, and drawn on a canvas of its own: no window, no global state.
"""

import io
import math
import warnings
from typing import TYPE_CHECKING, Any, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from fastlloyd.base import extras
from fastlloyd.base.arrays import FloatArray
from fastlloyd.dp.noise import Noise
from fastlloyd.errors import OutputError
from fastlloyd.mechanisms.mechanism import Mechanism

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BoolArray = NDArray[np.bool_]
# Okabe and Ito: told apart with every common colour vision, and in print by the numbers beside the marks
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#7A5195")
WIDTH, HEIGHT, DOTS_PER_INCH = 8.0, 6.0, 200  # inches; twice the pixels of a page 800 wide
ON_SCREEN = 100  # dots per inch in a notebook
CONTAINS_RECORDS = "contains raw data: NOT PRIVATE"
LARGEST_MARK, SMALLEST_MARK = 600.0, 40.0  # square points
NORMAL_95, RAYLEIGH_95 = 1.959964, 2.447747  # half width of a 95% interval, radius of a 95% disk, in standard errors
MAX_LABELLED = 60


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """What is drawn, in original units.

    centroids, errors : float64 (n_clusters, n_features); errors are standard errors, NaN where unknown. settled : bool
    (n_clusters,), where these hold (`accuracy.Status`); the others are drawn hollow, without an ellipse. None: where known.
    noisy_counts : float64 (n_clusters,). centre, half_widths : float64 (n_features,), the domain; unit : float64
    (n_features,), the half width of the scaled domain, the same as half_widths unless features share one scale. records :
    float64 (n, n_features), drawn if given, which makes the picture not private, as it then says.
    """

    features: tuple[str, ...]
    centroids: FloatArray
    errors: FloatArray
    noisy_counts: FloatArray
    centre: FloatArray
    half_widths: FloatArray
    unit: FloatArray
    title: str
    private: bool = True
    covered: bool = True  # whether no setting was taken from the data
    records: FloatArray | None = None
    settled: BoolArray | None = None

    @classmethod
    def of(cls, m: Mechanism, *, private: bool, records: FloatArray | None = None, **numbers: Any) -> Self:
        """Of a result of this mechanism. private : whether no setting was taken from the data; numbers : the noisy fields."""
        clusters = f"{m.n_clusters} cluster{'s' if m.n_clusters > 1 else ''}"
        has_noise = m.noise is not Noise.NONE
        guarantee = (f"ε = {m.epsilon:.4g}" + (f", δ = {m.delta:.2g}" if m.delta else "")) if has_noise else "no privacy"
        return cls(
            features=m.domain.features,
            centre=m.domain.centre,
            half_widths=m.domain.units * m.domain.half_widths,
            unit=m.domain.units * 2**m.domain.fraction_bits,
            title=f"{m.name}, {clusters}, {guarantee}",
            private=has_noise,
            covered=private or not has_noise,
            records=records,
            **numbers,
        )

    @property
    def is_known(self) -> BoolArray:
        """Of which centroids it is known how far they may be off, bool (n_clusters,)."""
        known = np.asarray(np.isfinite(self.errors).all(axis=1))
        return known if self.settled is None else np.asarray(known & self.settled)

    @property
    def name(self) -> str:
        """The title, and whether the picture may be shown."""
        return self.title + ("" if self.private and self.covered and self.records is None else ", NOT PRIVATE")


class View(msgspec.Struct, frozen=True):
    """A plane to look at: x -> (x - origin) @ axes, with axes float64 (n_features, 2), a label and limits for each axis."""

    origin: FloatArray
    axes: FloatArray
    labels: tuple[str, str]
    limits: tuple[tuple[float, float], tuple[float, float]]

    def project(self, points: FloatArray) -> FloatArray:
        """Coordinates of points (n, n_features) in the plane, (n, 2)."""
        projected: FloatArray = (points - self.origin) @ self.axes
        return projected

    def covariance(self, errors: FloatArray) -> FloatArray:
        """What independent errors of the features look like in the plane, (2, 2)."""
        projected: FloatArray = (self.axes.T * errors**2) @ self.axes
        return projected


def draw_map(picture: Picture, name: str, dots_per_inch: int = DOTS_PER_INCH) -> "Figure":
    """Centroids of one or two features where they are. OutputError, which names the file, if matplotlib is not installed."""
    figure = new_figure(_height(picture), name, dots_per_inch=dots_per_inch)
    ax = figure.add_subplot()
    view = choose_view(picture)
    _draw_domain(ax, picture, view)
    _draw_records(ax, picture, view)
    _draw_centroids(ax, picture, view)
    _write_titles(ax, picture)
    return figure


def new_figure(height: float, name: str, width: float = WIDTH, *, dots_per_inch: int = DOTS_PER_INCH) -> "Figure":
    """An empty figure, `width` by `height` inches; without matplotlib OutputError that names the file."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure as Base
        from matplotlib.layout_engine import ConstrainedLayoutEngine
    except ImportError:
        raise OutputError(f"{name} was left out because matplotlib is not installed: {extras.command('plot')}") from None

    class Figure(Base):
        """A figure that notebooks show without pyplot."""

        def _repr_png_(self) -> bytes:
            return to_png(self, name)

    margins = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12)
    figure = Figure(figsize=(width, height), dpi=dots_per_inch, layout=margins)
    FigureCanvasAgg(figure)
    return figure


def to_png(figure: "Figure", title: str) -> bytes:
    """The figure as PNG, with its title among the file's metadata."""
    png = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a name in a script the font lacks is drawn as boxes
        figure.savefig(png, format="png", metadata={"Title": title})
    return png.getvalue()


def _height(picture: Picture) -> float:
    return HEIGHT if len(picture.features) > 1 else min(HEIGHT, 2.4 + 0.3 * len(picture.centroids))


def choose_view(picture: Picture) -> View:
    """The plane of two features; a single one is drawn along a line, its centroids one below the other on parallels of it."""
    lower, upper = picture.centre - picture.half_widths, picture.centre + picture.half_widths
    room = 0.04 * (upper - lower)
    ends = [(float(low), float(high)) for low, high in zip(lower - room, upper + room, strict=True)]
    names = [_short(name) for name in picture.features]
    if len(names) == 1:
        rows = (-0.8, len(picture.centroids) + 0.2)
        return View(np.zeros(1), np.array([[1.0, 0.0]]), (names[0], ""), (ends[0], rows))
    return View(np.zeros(2), np.eye(2), (names[0], names[1]), (ends[0], ends[1]))


def _draw_domain(ax: "Axes", picture: Picture, view: View) -> None:
    (left, right), (low, high) = view.limits
    ax.set(xlim=(left, right), ylim=(low, high), xlabel=plain(view.labels[0]), ylabel=plain(view.labels[1]))
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:,.7g}")  # whole numbers, instead of a factor such as 1e6 in a corner
    ax.grid(color="#E2E2E2", linewidth=0.6)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    walls: dict[str, Any] = {"color": "#888888", "linewidth": 0.9, "linestyle": (0, (4, 3)), "zorder": 1}
    ends = np.column_stack([picture.centre - picture.half_widths, picture.centre + picture.half_widths])
    for end in ends[0]:
        ax.axvline(float(end), **walls)
    if len(ends) == 2:
        for end in ends[1]:
            ax.axhline(float(end), **walls)
    if len(ends) == 1:
        ax.set_yticks([])
        ax.spines["left"].set_visible(False)
        ax.hlines(np.arange(len(picture.centroids)), *ends[0], color="#DDDDDD", linewidth=0.8, zorder=1)


def _draw_records(ax: "Axes", picture: Picture, view: View) -> None:
    if picture.records is None:
        return
    points = view.project(picture.records)
    if len(picture.features) == 1:
        ax.plot(points[:, 0], np.full(len(points), -0.55), "|", color="#666666", markersize=12, alpha=0.3, zorder=1)
    else:
        ax.scatter(points[:, 0], points[:, 1], s=7, color="#888888", alpha=0.45, linewidths=0, zorder=1)


def _draw_centroids(ax: "Axes", picture: Picture, view: View) -> None:
    points = view.project(picture.centroids)
    if len(picture.features) == 1:
        points[:, 1] = np.arange(len(points))[::-1]
    counts = np.maximum(picture.noisy_counts, 0.0)
    areas = np.maximum(LARGEST_MARK * counts / max(counts.max(), 1.0) * min(1.0, 8 / len(counts)), SMALLEST_MARK)
    for i, (point, area) in enumerate(zip(points, areas, strict=True)):
        colour = PALETTE[i % len(PALETTE)]
        known = bool(picture.is_known[i])
        if known and picture.errors[i].any():
            _draw_noise(ax, point, view.covariance(picture.errors[i]), colour, flat=len(picture.features) == 1)
        face = (colour + "C0") if known else "none"
        ax.scatter(point[0], point[1], s=area, facecolors=face, edgecolors=colour, linewidths=1.6, zorder=4)
    if len(points) <= MAX_LABELLED:
        _write_numbers(ax, points, areas)


def _draw_noise(ax: "Axes", point: FloatArray, covariance: FloatArray, colour: str, *, flat: bool) -> None:
    """The region that should hold the mean of the centroid's records in 95% of cases: an ellipse, or an interval on a line."""
    from matplotlib.patches import Ellipse

    if flat:
        reach = NORMAL_95 * math.sqrt(covariance[0, 0])
        ax.plot([point[0] - reach, point[0] + reach], [point[1]] * 2, color=colour, linewidth=3, alpha=0.5, zorder=2)
        return
    variances, directions = np.linalg.eigh(covariance)
    height, width = 2 * RAYLEIGH_95 * np.sqrt(np.maximum(variances, 0.0))
    angle = math.degrees(math.atan2(directions[1, 1], directions[0, 1]))
    for style in ({"facecolor": colour, "alpha": 0.13}, {"facecolor": "none", "edgecolor": colour, "linewidth": 1.2}):
        ax.add_patch(Ellipse((point[0], point[1]), width, height, angle=angle, zorder=2, **style))


def _write_numbers(ax: "Axes", points: FloatArray, areas: FloatArray) -> None:
    from matplotlib.patheffects import withStroke

    for number, (point, area) in enumerate(zip(points, areas, strict=True)):  # as labels are numbered
        beside = math.sqrt(area / math.pi) + 3
        ax.annotate(
            str(number),
            (point[0], point[1]),
            xytext=(beside, beside * 0.6),
            textcoords="offset points",
            fontsize=11,
            fontweight="bold",
            path_effects=[withStroke(linewidth=3, foreground="white")],
            zorder=5,
        )


def caution(picture: Picture) -> str:
    """What stands above a picture that is not private; "" above one that is."""
    if picture.records is not None:
        return CONTAINS_RECORDS
    if not picture.private:
        return "no noise was added: NOT PRIVATE"
    return "" if picture.covered else "settings from the data: NOT PRIVATE"


def _write_titles(ax: "Axes", picture: Picture) -> None:
    marks: dict[str, Any] = {"loc": "left", "fontsize": 13, "fontweight": "bold", "pad": 26}
    ax.set_title(plain(picture.title), **marks)
    noisy = bool(picture.errors[picture.is_known].any())
    caption = "Mark area: noisy count" if picture.private else "Mark area: count"
    caption += "; dashed: bounds"
    if noisy:
        caption += "; " + ("bar" if len(picture.features) == 1 else "ellipse") + ": 95%"
    if not picture.is_known.all():
        caption += "; hollow: not settled, error unknown"
    ax.annotate(caption, (0, 1), (0, 8), xycoords="axes fraction", textcoords="offset points", fontsize=9.5, color="#444444")
    if warning := caution(picture):
        ax.annotate(
            warning, (1, 1), (0, 27), xycoords="axes fraction", textcoords="offset points",
            fontsize=9.5, fontweight="bold", color="#B00020", ha="right",
        )  # fmt: skip


def _short(name: str) -> str:
    return name if len(name) <= 28 else name[:27] + "…"


def plain(text: str) -> str:
    """Names are text, never mathematics: a dollar sign starts none."""
    return text.replace("$", r"\$")
