"""The picture of a result: centroids with their noise ellipses, along directions chosen without the records.

matplotlib is imported when a picture is drawn, and drawn on a canvas of its own: no window, no global state.
"""

import io
import math
import textwrap
import warnings
from typing import TYPE_CHECKING, Any, Self

import msgspec
import numpy as np

from fastlloyd import extras
from fastlloyd.algorithms import Noise
from fastlloyd.clustering.domain import FloatArray
from fastlloyd.errors import OutputError
from fastlloyd.mechanism import Mechanism

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito: told apart with every common colour vision, and in print by the numbers beside the marks
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#7A5195")
WIDTH, HEIGHT, DOTS_PER_INCH = 8.0, 6.0, 200  # inches; twice the pixels of a page 800 wide
ON_SCREEN = 100  # dots per inch in a notebook
SHAPE = 1.48  # width over height of what is left beside titles and labels
CONTAINS_RECORDS = "contains raw data: NOT PRIVATE"
LARGEST_MARK, SMALLEST_MARK = 600.0, 40.0  # square points
NORMAL_95, RAYLEIGH_95 = 1.959964, 2.447747  # half width of a 95% interval, radius of a 95% disk, in standard errors
MAX_LABELLED = 60
LABEL = 64  # characters of a line that fits along either axis
MINUS, NO_BREAK = "\N{MINUS SIGN}", "\N{NO-BREAK SPACE}"


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """What is drawn, in original units.

    centroids, errors : float64 (n_clusters, n_features); errors are standard errors, NaN where unknown: drawn hollow.
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


def draw(picture: Picture) -> bytes:
    """The picture as PNG. Raises OutputError if matplotlib is not installed."""
    return to_png(figure_of(picture), picture.name)


def figure_of(picture: Picture, name: str = "clusters.png", dots_per_inch: int = DOTS_PER_INCH) -> "Figure":
    """The picture as a figure of matplotlib. Raises OutputError, which names it, if matplotlib is not installed."""
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
    """The plane of the features if there are one or two, otherwise that of the two main directions of the noisy centroids.

    A single feature is drawn along a line, its centroids one below the other on parallels of it.
    """
    d = len(picture.features)
    if d > 2:
        return _principal_view(picture)
    lower, upper = picture.centre - picture.half_widths, picture.centre + picture.half_widths
    room = 0.04 * (upper - lower)
    ends = [(float(low), float(high)) for low, high in zip(lower - room, upper + room, strict=True)]
    names = [_short(name) for name in picture.features]
    if d == 1:
        rows = (-0.8, len(picture.centroids) + 0.2)
        return View(np.zeros(1), np.array([[1.0, 0.0]]), (names[0], ""), (ends[0], rows))
    return View(np.zeros(2), np.eye(2), (names[0], names[1]), (ends[0], ends[1]))


def principal_directions(points: FloatArray, weights: FloatArray) -> FloatArray:
    """Two orthonormal directions in which weighted points vary most, float64 (n_features, 2); n_features > 2.

    points : (n, n_features); weights : (n,), negative ones count as 0. Where the points do not span a plane, the feature
    the direction found so far says least about completes it. The largest loading of each direction is positive.
    """
    w = np.maximum(weights, 0.0)
    w = w / w.sum() if w.sum() > 0 else np.full(len(points), 1 / len(points))
    spread = np.sqrt(w)[:, None] * (points - w @ points)
    _, scales, rows = np.linalg.svd(spread, full_matrices=False)
    directions = [row for row, scale in zip(rows[:2], scales[:2], strict=False) if scale > 1e-9]
    while len(directions) < 2:
        found = np.array(directions).reshape(len(directions), points.shape[1])
        missing = np.eye(points.shape[1])[np.argmin((found**2).sum(axis=0))]
        missing = missing - found.T @ (found @ missing)
        directions.append(missing / np.linalg.norm(missing))
    plane: FloatArray = np.array([row * np.sign(row[np.argmax(np.abs(row))]) for row in directions]).T
    return plane


def _principal_view(picture: Picture) -> View:
    """In half widths of the scaled domain; the limits hold centroids and ellipses, and hardly more than the domain."""
    scaled = (picture.centroids - picture.centre) / picture.unit
    directions = principal_directions(scaled, picture.noisy_counts)
    axes = directions / picture.unit[:, None]
    view = View(
        picture.centre,
        axes,
        (_loadings(directions[:, 0], picture, "most"), _loadings(directions[:, 1], picture, "second most")),
        ((0, 0), (0, 0)),
    )
    points = view.project(picture.centroids)
    variances = np.array([np.diag(view.covariance(errors)) for errors in picture.errors])
    reach = RAYLEIGH_95 * np.sqrt(np.nan_to_num(variances))
    low, high = (points - reach).min(axis=0), (points + reach).max(axis=0)
    if picture.records is not None:
        drawn = view.project(picture.records)
        low, high = np.minimum(low, drawn.min(axis=0)), np.maximum(high, drawn.max(axis=0))
    room = 0.15 * np.maximum(high - low, 0.2)
    walls = 1.04 * picture.half_widths @ np.abs(axes)
    low, high = np.maximum(low - room, -walls), np.minimum(high + room, walls)
    return View(view.origin, view.axes, view.labels, _limits(low, high))


def _limits(low: FloatArray, high: FloatArray) -> tuple[tuple[float, float], tuple[float, float]]:
    """The smallest window of the picture's shape around a rectangle."""
    (x, y), (width, height) = ((low + high) / 2).tolist(), ((high - low) / 2).tolist()
    width = max(width, SHAPE * height)
    return (x - width, x + width), (y - width / SHAPE, y + width / SHAPE)


def _loadings(direction: FloatArray, picture: Picture, rank: str) -> str:
    """The weights of features in a direction, largest first: at most three, and none below a fifth of the largest."""
    order = np.argsort(-np.abs(direction), kind="stable")
    main = [i for i in order[:3] if abs(direction[i]) >= 0.2 * abs(direction[order[0]])]
    if direction[main[0]] > 0.995:
        return f"{_short(picture.features[main[0]])}\n(half widths of the domain)"
    signs = ["" if direction[i] > 0 else MINUS for i in main]
    weights = [f"{sign}{abs(direction[i]):.2f} {_short(picture.features[i])}" for sign, i in zip(signs, main, strict=True)]
    others = ", …" if np.sum(direction[main] ** 2) < 0.98 else ""
    unbroken = [weight.replace(" ", NO_BREAK) for weight in weights]
    lines = textwrap.wrap(f"weights: {', '.join(unbroken)}{others}", LABEL, break_on_hyphens=False)
    return "\n".join([f"where centroids differ {rank} (half widths of the domain)", *lines]).replace(NO_BREAK, " ")


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
    if len(ends) > 2:  # both axes have one unit, so noise looks as long along one as along the other
        ax.set_aspect("equal", adjustable="box", anchor="W")
    if len(ends) <= 2:
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
        known = bool(np.isfinite(picture.errors[i]).all())
        if known and picture.errors[i].any():
            _draw_noise(ax, point, view.covariance(picture.errors[i]), colour, flat=len(picture.features) == 1)
        face = (colour + "C0") if known else "none"
        ax.scatter(point[0], point[1], s=area, facecolors=face, edgecolors=colour, linewidths=1.6, zorder=4)
    if len(points) <= MAX_LABELLED:
        _write_numbers(ax, points, areas)


def _draw_noise(ax: "Axes", point: FloatArray, covariance: FloatArray, colour: str, *, flat: bool) -> None:
    """The region that holds the noiseless centroid with probability 95%: an ellipse, or an interval on a line."""
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


def _write_titles(ax: "Axes", picture: Picture) -> None:
    marks: dict[str, Any] = {"loc": "left", "fontsize": 13, "fontweight": "bold", "pad": 26}
    ax.set_title(plain(picture.title), **marks)
    noisy = bool(np.nan_to_num(picture.errors).any())
    caption = "Mark area: noisy count" if picture.private else "Mark area: count"
    if len(picture.features) <= 2:
        caption += "; dashed: bounds"
    if noisy:
        caption += "; " + ("bar" if len(picture.features) == 1 else "ellipse") + ": noise, 95%"
    if np.isnan(picture.errors).any():
        caption += "; hollow: stayed in the last round"
    ax.annotate(caption, (0, 1), (0, 8), xycoords="axes fraction", textcoords="offset points", fontsize=9.5, color="#444444")
    warning = CONTAINS_RECORDS if picture.records is not None else "" if picture.private else "no noise was added: NOT PRIVATE"
    if not warning and not picture.covered:
        warning = "settings from the data: NOT PRIVATE"
    if warning:
        ax.annotate(
            warning, (1, 1), (0, 27), xycoords="axes fraction", textcoords="offset points",
            fontsize=9.5, fontweight="bold", color="#B00020", ha="right",
        )  # fmt: skip


def _short(name: str) -> str:
    return name if len(name) <= 28 else name[:27] + "…"


def plain(text: str) -> str:
    """Names are text, never mathematics: a dollar sign starts none."""
    return text.replace("$", r"\$")
