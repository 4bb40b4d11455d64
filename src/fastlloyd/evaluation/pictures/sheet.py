"""The sheet that every figure is drawn on: title and legend above, panels, and what it was computed from at its foot.

Sizes are those at which a paper prints a figure over two columns, so that letters are read as they are set here.
"""

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fastlloyd.evaluation.pictures import letters
from fastlloyd.evaluation.pictures.scales import SPREAD, mark_decades
from fastlloyd.reports.pictures import new_figure, plain, to_png

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 7.2  # inches
TITLE, TEXT, TICK, SMALL = 10.0, 8.0, 7.0, 6.5  # points
FORMATS = ("png", "svg", "pdf")
NOT_PRIVATE = "Computed on raw data: not private."
_LINE = {TITLE: 0.22, TEXT: 0.17, SMALL: 0.125}  # inches from line to line
_HANDLE = 0.62  # inches of a legend's sample of a line
_MARGIN = 0.08
_APART = 0.028  # between two numbers of an axis
_ROOM = WIDTH - 2 * _MARGIN  # for a line of letters
_SALT = "fastlloyd"  # names inside an SVG follow from it instead of from chance


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A finished figure. name : the file's, without its ending; caption : what is drawn, in sentences."""

    name: str
    title: str
    caption: str
    figure: "Figure"


def sheet(
    title: str,
    panel_height: float,
    shape: tuple[int, int],
    legend: Mapping[str, "Artist"],
    notes: Sequence[str] = (),
) -> tuple["Figure", list["Axes"]]:
    """A figure of rows by columns of panels, each `panel_height` inches high, with room for what stands above and below."""
    n_rows, n_columns = shape
    legend = {letters.fitted(label, TEXT, _ROOM - _HANDLE): sample for label, sample in legend.items()}
    across, deep = legend_shape(list(legend))
    heading = letters.wrapped(title, TITLE, _ROOM, bold=True)
    foot = letters.wrapped(" ".join([NOT_PRIVATE, *notes]), SMALL, _ROOM)
    above = _MARGIN + len(heading) * _LINE[TITLE]
    header = above + (deep * _LINE[TEXT] + _MARGIN if legend else 0)
    footer = _MARGIN + len(foot) * _LINE[SMALL]
    height = header + n_rows * panel_height + footer
    figure = new_figure(height, title, WIDTH)
    layout = figure.get_layout_engine()
    layout.set(  # type: ignore[union-attr,call-arg]  # the constrained layout of new_figure
        rect=(0, footer / height, 1, 1 - (header + footer) / height), w_pad=0.04, h_pad=0.04
    )
    left = _MARGIN / WIDTH
    figure.text(left, 1 - _MARGIN / height, plain("\n".join(heading)), fontsize=TITLE, fontweight="bold", va="top")
    figure.text(left, 0.6 * _MARGIN / height, plain("\n".join(foot)), fontsize=SMALL, color="#555555", va="bottom")
    if legend:
        figure.legend(
            list(legend.values()),
            [plain(label) for label in legend],
            loc="upper left",
            bbox_to_anchor=(left, 1 - (above + 0.03) / height),
            ncols=across,
            frameon=False,
            fontsize=TEXT,
            handlelength=3.2,
            columnspacing=1.6,
            labelspacing=0.3,
            borderaxespad=0,
            borderpad=0,
        )
    panels = [panel for row in figure.subplots(n_rows, n_columns, squeeze=False) for panel in row]
    for panel in panels:
        panel.tick_params(labelsize=TICK, length=2.5, pad=2)
        panel.spines[["top", "right"]].set_visible(False)
    return figure, panels


def legend_shape(labels: Sequence[str]) -> tuple[int, int]:
    """How many columns of a legend fit beside each other, and how many rows that makes; it is filled column by column."""
    for across in range(len(labels), 1, -1):
        deep = math.ceil(len(labels) / across)
        columns = [labels[start : start + deep] for start in range(0, len(labels), deep)]
        if sum(max(letters.width(label, TEXT) for label in column) + _HANDLE for column in columns) <= _ROOM:
            return len(columns), deep
    return 1, len(labels)


def name_axis(figure: "Figure", label: str) -> None:
    """One label for the vertical axes of all panels, in the middle of what is left for them."""
    layout = figure.get_layout_engine()
    _, low, _, height = layout.get()["rect"] if layout else (0, 0, 1, 1)
    label = letters.fitted(label, TEXT, height * figure.get_size_inches()[1])
    figure.supylabel(plain(label), fontsize=TEXT, y=low + height / 2)


def scale_values(panel: "Axes", values: Sequence[float], *, factor: float = SPREAD) -> None:
    """A logarithmic axis if the values span more than a factor."""
    low, high = min(values, default=0.0), max(values, default=0.0)
    if 0 < factor * low < high:
        mark_decades(panel, low, high)
    else:
        panel.locator_params(axis="y", nbins=5)


def label_ticks(panel: "Axes", values: Sequence[float], inches: float) -> None:
    """A tick at each of the ascending values; as many of them have a number as fit, the first and the last always.

    inches : what the panel is wide. The zero before a point is left out if that lets all of them fit.
    """
    plain_numbers = [f"{value:g}" for value in values]
    short = [number.removeprefix("0") if number.startswith("0.") else number for number in plain_numbers]
    span = (values[-1] - values[0]) or 1.0
    places = [inches / 1.1 * (value - values[0]) / span for value in values]  # the axis reaches a little beyond both ends
    labels = next((each for each in (plain_numbers, short) if len(_apart(places, each)) == len(values)), plain_numbers)
    kept = _apart(places, labels)
    panel.set_xticks(list(values), [label if i in kept else "" for i, label in enumerate(labels)])


def _apart(places: Sequence[float], labels: Sequence[str]) -> set[int]:
    """Which of the labels can stand at their places without meeting, the first and the last before all others."""
    halves = [letters.width(label, TICK) / 2 + _APART / 2 for label in labels]

    def meet(one: int, other: int) -> bool:
        return abs(places[one] - places[other]) < halves[one] + halves[other]

    kept = [0]
    last = len(labels) - 1
    for i in range(1, last):
        if not meet(kept[-1], i) and not meet(i, last):
            kept.append(i)
    return {*kept, last}


def spaced(values: Sequence[float], least: float) -> list[float]:
    """As many of the ascending values as stand `least` of their range apart, the last and the first always among them."""
    if len(values) < 3:
        return list(values)
    room = least * (values[-1] - values[0])
    kept = [values[0]]
    for value in values[1:-1]:
        if value - kept[-1] >= room and values[-1] - value >= room:
            kept.append(value)
    return [*kept, values[-1]]


def band(panel: "Axes", x: Sequence[float], low: Sequence[float], high: Sequence[float], colour: str) -> None:
    """A 95% interval around a line; on a logarithmic axis it ends where the panel does, which it does not widen."""
    if panel.get_yscale() == "log":
        ends = panel.get_ylim()
        low, high = np.clip(low, *ends).tolist(), np.clip(high, ends[0], None).tolist()
    panel.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0, zorder=2)


def save(drawing: Drawing, kind: str) -> bytes:
    """A figure as png, svg or pdf: the same bytes for the same results."""
    if layout := drawing.figure.get_layout_engine():  # panels find their places once, for all kinds of file
        with letters.boxes_for_letters_the_font_lacks():
            layout.execute(drawing.figure)
        drawing.figure.set_layout_engine("none")
    if kind == "png":
        return to_png(drawing.figure, drawing.title)
    from matplotlib import rc_context

    undated = {"svg": {"Date": None, "Creator": None}, "pdf": {"CreationDate": None, "Creator": None, "Producer": None}}[kind]
    file = io.BytesIO()
    with rc_context({"svg.hashsalt": _SALT, "pdf.fonttype": 42}), letters.boxes_for_letters_the_font_lacks():
        drawing.figure.savefig(file, format=kind, metadata={"Title": drawing.title, **undated})
    return file.getvalue()
