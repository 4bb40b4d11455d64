"""Map of the centres of a result with one or two features."""

import math
from typing import Final

from fastlloyd.base.markup import Child, Markup, element
from fastlloyd.reports.page.drawing import Axis, percent
from fastlloyd.reports.page.view import View
from fastlloyd.reports.page.words import breakable
from fastlloyd.reports.picture import ELLIPSE
from fastlloyd.reports.units import SIDES

_LARGEST, _SMALLEST = 17.0, 4.0  # pixels: radius of a disk
_FEW: Final = 12  # groups, up to which disks have their full size
_PAD: Final = 0.03  # of the range between the bounds
_MOST_NAMED: Final = 30  # groups in the text for screen readers


def centre_map(view: View) -> list[Child]:
    """Return the map of the centres, or nothing for more than two features."""
    if len(view.features) > 2:
        return []
    two = len(view.features) == 2
    caption = "map_caption" if two else "map_line_caption"
    if not view.has_noise:
        caption = "map_caption_without_noise"
    named = tuple(
        view.text("panel_value", number=i, value=", ".join(_values(view, i)))
        for i in range(min(view.n_clusters, _MOST_NAMED))
    )
    label = f"{view.text('heading_map')}: {'; '.join(named)}"
    height = None if two else f"{max(6.0, 1.7 * view.n_clusters):.1f}rem"
    drawing = element("svg", _parts(view, two=two), height=height, role="img", aria_label=label)
    return [
        element("h2", view.said("heading_map"), id="map"),
        element(
            "figure",
            element("p", breakable(view.labels[1]), class_="small soft") if two else None,
            element("div", drawing, class_="plot two-way" if two else "plot"),
            element("p", breakable(view.labels[0]), class_="small soft below"),
            element("figcaption", view.said(caption), class_="small"),
            class_="map",
        ),
    ]


def _values(view: View, cluster: int) -> list[str]:
    return [view.value(cluster, feature) for feature in range(len(view.features))]


def _axis(view: View, feature: int) -> Axis:
    """Return the axis of a feature. It extends from bound to bound, and further only if a centre is
    outside the bounds.
    """
    domain, values = view.mechanism.domain, view.centroids[:, feature]
    pad = 2 * _PAD * float(view.half_widths[feature])
    low = min(domain.lower[feature] - pad, float(values.min()))
    return Axis(low, max(domain.upper[feature] + pad, float(values.max())))


def _parts(view: View, *, two: bool) -> list[Child]:
    across, up = _axis(view, 0), _axis(view, 1 if two else 0)
    heights = [
        1 - up.share(float(view.centroids[i, 1])) if two else (i + 0.5) / view.n_clusters
        for i in range(view.n_clusters)
    ]
    marks = [_mark(view, across, up, i, heights[i], two=two) for i in range(view.n_clusters)]
    labels = [_label(view, across, i, heights[i]) for i in range(view.n_clusters)]
    return [_grid(view, across, up, two=two), marks, labels]


def _grid(view: View, across: Axis, up: Axis, *, two: bool) -> list[Child]:
    parts: list[Child] = []
    for number, label in across.ticks(view.units[0], 5):
        x = percent(across.share(number))
        parts.append(element("line", x1=x, x2=x, y1=0, y2="100%", class_="grid"))
        parts.append(element("text", label, x=x, y="100%", dy="1.25em", text_anchor="middle"))
    domain = view.mechanism.domain
    left, right = across.share(domain.lower[0]), across.share(domain.upper[0])
    top, bottom = 0.0, 1.0
    if two:
        for number, label in up.ticks(view.units[1], 5):
            y = percent(1 - up.share(number))
            parts.append(element("line", x1=0, x2="100%", y1=y, y2=y, class_="grid"))
            parts.append(element("text", label, x=0, y=y, dx="-.5em", dy=".3em", text_anchor="end"))
        top, bottom = 1 - up.share(domain.upper[1]), 1 - up.share(domain.lower[1])
    wall = element(
        "rect",
        x=percent(left),
        y=percent(top),
        width=percent(right - left),
        height=percent(bottom - top),
        class_="wall",
    )
    return [*parts, wall]


def _radius(view: View, cluster: int) -> float:
    """Return the radius of a disk in pixels. Its area grows with the noisy count."""
    scale = min(1.0, math.sqrt(_FEW / view.n_clusters))
    share = max(float(view.counts[cluster]), 0.0) / max(float(view.counts.max()), 1.0)
    return max(_SMALLEST, _LARGEST * scale * math.sqrt(share))


def _mark(view: View, across: Axis, up: Axis, cluster: int, height: float, *, two: bool) -> Child:
    x, y = percent(across.share(float(view.centroids[cluster, 0]))), percent(height)
    known = bool(view.settled[cluster])
    disk = element(
        "circle",
        cx=x,
        cy=y,
        r=f"{_radius(view, cluster):.1f}",
        class_="pt" if known else "pt unk",
    )
    centre = element("circle", cx=x, cy=y, r=1.8, class_="c")
    return [disk, _reach(view, across, up, cluster, y, two=two) if known else None, centre]


def _reach(view: View, across: Axis, up: Axis, cluster: int, y: str, *, two: bool) -> Markup | None:
    """Return the ring around a centre, or its error bar if there is one feature."""
    errors, middle = view.errors[cluster], float(view.centroids[cluster, 0])
    if not errors.any():
        return None
    if two:
        rx = ELLIPSE * float(errors[0]) / (across.high - across.low)
        ry = ELLIPSE * float(errors[1]) / (up.high - up.low)
        x = percent(across.share(middle))
        return element("ellipse", cx=x, cy=y, rx=percent(rx), ry=percent(ry), class_="ell")
    ends = [percent(across.inside(middle + s * SIDES * float(errors[0]))) for s in (-1, 1)]
    return element("line", x1=ends[0], x2=ends[1], y1=y, y2=y, class_="bar")


def _label(view: View, across: Axis, cluster: int, height: float) -> Markup:
    radius = _radius(view, cluster)
    return element(
        "text",
        str(cluster),
        x=percent(across.share(float(view.centroids[cluster, 0]))),
        y=percent(height),
        dx=f"{radius * 0.75 + 3:.1f}",
        dy=f"{-radius * 0.5 - 2:.1f}",
        class_="id",
    )
