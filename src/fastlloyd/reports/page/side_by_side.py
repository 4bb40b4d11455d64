"""Section of the page that compares all groups: a panel for each feature. If there are many
features, only those in which the groups differ most have panels, and a heat map shows all.
"""

from typing import Final

import numpy as np

from fastlloyd.base.arrays import IntArray
from fastlloyd.base.markup import Child, Markup, element
from fastlloyd.mechanisms.facts import Fact
from fastlloyd.reports.page.drawing import Axis, bars, dot, percent, side, upright
from fastlloyd.reports.page.view import View
from fastlloyd.reports.page.words import breakable

PANELS, PANEL_ROWS = 8, 40
_LEFT, _WIDTH = 0.11, 0.86  # shares of a panel
_ROOMY: Final = 15  # groups, up to which rows are far apart
_SHADES: Final = 3


class _Inner(Axis):
    """Axis that leaves room on the left for the numbers of the groups."""

    def inside(self, number: float) -> float:
        return _LEFT + _WIDTH * super().inside(number)


def side_by_side(view: View) -> list[Child]:
    """Return the section that compares the groups, or nothing for one group."""
    if view.n_clusters == 1:
        return []
    shown = sorted(view.profile.by_importance[:PANELS].tolist())
    n_features, k = len(view.features), view.n_clusters
    legend = _legend(view, "legend_sides" if view.has_noise else "legend_sides_without_noise")
    words: list[Child] = [legend]
    if n_features > PANELS:
        words += [" ", view.said("shown_features", n=PANELS, of=n_features)]
    if k > PANEL_ROWS:
        words += [" ", view.said("shown_groups", n=PANEL_ROWS, of=k)]
    return [
        element("h2", view.said("heading_compare"), id="compare"),
        element("p", words, class_="soft"),
        element("div", [_panel(view, feature) for feature in shown], class_="panels"),
        _heat(view) if n_features > PANELS else None,
    ]


def _legend(view: View, name: str) -> Markup:
    return view.said(name, high=Fact.of("legend_high"), low=Fact.of("legend_low"))


def _panel(view: View, feature: int) -> Markup:
    axis = _Inner(*Axis.of(view, feature))
    shown = range(min(view.n_clusters, PANEL_ROWS))
    step = 1.35 if len(shown) <= _ROOMY else 1.0
    bottom = 0.3 + step * len(shown)
    floor = f"{bottom:.2f}rem"
    parts: list[Child] = []
    for mark, label in axis.ticks(view.units[feature]):
        x = percent(axis.inside(mark))
        parts.append(upright(axis, mark, "grid", ("0", floor)))
        parts.append(element("text", label, x=x, y=f"{bottom + 1.05:.2f}rem", text_anchor="middle"))
    if view.compares:
        parts.append(upright(axis, float(view.profile.together[feature]), "all", ("0", floor)))
    for row, cluster in enumerate(shown):
        middle = 0.2 + step * (row + 0.5)
        y = f"{middle:.2f}rem"
        parts.append(element("text", str(cluster), x=0, y=f"{middle + 0.28:.2f}rem", class_="id"))
        parts.append(
            element(
                "g",
                bars(view, axis, cluster, feature, y),
                dot(axis, float(view.centroids[cluster, feature]), y),
                class_=side(view, cluster, feature) or None,
            )
        )
    ends = percent(_LEFT), percent(_LEFT + _WIDTH)
    parts.append(element("line", x1=ends[0], x2=ends[1], y1=floor, y2=floor, class_="axis"))
    values = tuple(
        Fact.of("panel_value", number=cluster, value=view.value(cluster, feature))
        for cluster in shown
    )
    name = view.labels[feature]
    return element(
        "figure",
        element("h3", breakable(name)),
        element(
            "svg",
            parts,
            height=f"{bottom + 1.4:.2f}rem",
            role="img",
            aria_label=view.text("panel_label", name=name, values=values),
        ),
        class_="panel",
    )


def _heat(view: View) -> list[Child]:
    """Return the heat map of all groups and features, with its caption."""
    order = view.profile.by_importance.tolist()
    names = [element("li", breakable(view.labels[feature])) for feature in order]
    return [
        element("h2", view.said("heading_heat")),
        element(
            "figure",
            element(
                "div",
                _cells(view, order),
                class_="heat",
                tabindex=0,
                role="region",
                aria_label=view.text("heading_heat"),
            ),
            element("figcaption", _legend(view, "heat_caption"), class_="small"),
            element(
                "details",
                element("summary", view.said("heat_columns")),
                element("ol", names, class_="small"),
            ),
        ),
    ]


def _cells(view: View, order: list[int]) -> Markup:
    """Return the cells of the heat map.

    order : features of the columns, from left to right.
    """
    k, d = view.n_clusters, len(order)
    width, height = max(7, min(28, 700 // d)), max(7, min(20, 900 // k))
    left, top = 34, 8
    paths: dict[int, list[str]] = {}
    levels = _levels(view)
    for row in range(k):
        for column, feature in enumerate(order):
            cell = f"M{left + column * width} {top + row * height}h{width - 1}v{height - 1}"
            paths.setdefault(int(levels[row, feature]), []).append(f"{cell}h{1 - width}z")
    numbers = [
        element(
            "text",
            str(row),
            x=left - 6,
            y=f"{top + height * (row + 0.85):.1f}",
            text_anchor="end",
            font_size=min(12, height),
        )
        for row in range(k)
    ]
    cells = [element("path", d="".join(path), class_=_shade(n)) for n, path in paths.items()]
    size = left + width * d, top + height * k + 4
    return element(
        "svg",
        cells,
        numbers if height >= 9 else None,
        viewBox=f"0 0 {size[0]} {size[1]}",
        width=size[0],
        role="img",
        aria_label=view.text("heat_label", n_clusters=k, n_features=d),
    )


def _levels(view: View) -> IntArray:
    """Return the shade of each cell of the heat map, from -3 to 3, int64 (n_clusters, n_features).
    The shade grows with the square root of the difference from the mean of the centres. It is 0 if
    nothing is stated.
    """
    stated = view.profile.sides != 0
    sizes = np.where(stated, np.abs(view.profile.contrasts) / view.half_widths, 0.0)
    largest = float(sizes.max()) or 1.0
    shades = np.ceil(_SHADES * np.sqrt(sizes / largest)) * view.profile.sides
    levels: IntArray = shades.astype(np.int64)
    return levels


def _shade(level: int) -> str:
    return "z" if level == 0 else f"{'h' if level > 0 else 'l'}{abs(level)}"
