"""The sheet that every figure is drawn on: title and legend above, panels, and what it was computed from at its foot.

Sizes are those at which a paper prints a figure over two columns, so that letters are read as they are set here.
"""

import io
import math
import textwrap
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fastlloyd.figures import new_figure, plain, to_png

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 7.2  # inches
TITLE, TEXT, SMALL = 10.0, 8.0, 6.5  # points
FORMATS = ("png", "svg", "pdf")
NOT_PRIVATE = "Computed on raw data: not private."
_LINE = {TITLE: 0.22, TEXT: 0.17, SMALL: 0.125}  # inches from line to line
_CHARACTER = 0.066  # inches of an average letter of the legend
_HANDLE = 0.62  # inches of a legend's sample of a line
_MARGIN = 0.08
_NOTE = 150  # letters of a line at the foot
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
    across, deep = legend_shape(list(legend))
    foot = [line for note in (" ".join([NOT_PRIVATE, *notes]),) for line in textwrap.wrap(note, _NOTE)]
    header = _MARGIN + _LINE[TITLE] + (deep * _LINE[TEXT] + _MARGIN if legend else 0)
    footer = _MARGIN + len(foot) * _LINE[SMALL]
    height = header + n_rows * panel_height + footer
    figure = new_figure(height, title, WIDTH)
    layout = figure.get_layout_engine()
    layout.set(  # type: ignore[union-attr,call-arg]  # the constrained layout of new_figure
        rect=(0, footer / height, 1, 1 - (header + footer) / height), w_pad=0.04, h_pad=0.04
    )
    left = _MARGIN / WIDTH
    figure.text(left, 1 - _MARGIN / height, plain(title), fontsize=TITLE, fontweight="bold", va="top")
    figure.text(left, 0.6 * _MARGIN / height, plain("\n".join(foot)), fontsize=SMALL, color="#555555", va="bottom")
    if legend:
        figure.legend(
            list(legend.values()),
            [plain(label) for label in legend],
            loc="upper left",
            bbox_to_anchor=(left, 1 - (_MARGIN + _LINE[TITLE] + 0.03) / height),
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
        panel.tick_params(labelsize=TEXT - 1, length=2.5, pad=2)
        panel.spines[["top", "right"]].set_visible(False)
    return figure, panels


def legend_shape(labels: Sequence[str]) -> tuple[int, int]:
    """How many columns of a legend fit beside each other, and how many rows that makes; it is filled column by column."""
    for across in range(len(labels), 1, -1):
        deep = math.ceil(len(labels) / across)
        columns = [labels[start : start + deep] for start in range(0, len(labels), deep)]
        if sum(max(map(len, column)) * _CHARACTER + _HANDLE for column in columns) <= WIDTH - 2 * _MARGIN:
            return len(columns), deep
    return 1, len(labels)


def name_axis(figure: "Figure", label: str) -> None:
    """One label for the vertical axes of all panels, in the middle of what is left for them."""
    layout = figure.get_layout_engine()
    _, low, _, height = layout.get()["rect"] if layout else (0, 0, 1, 1)
    figure.supylabel(label, fontsize=TEXT, y=low + height / 2)


def scale_values(panel: "Axes", values: Sequence[float], *, bounded: bool = False, factor: float = 10) -> None:
    """A logarithmic axis if the values span more than a factor, unless they are scores with a largest value.

    The numbers beside it are plain.
    """
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

    low, high = min(values, default=0.0), max(values, default=0.0)
    if bounded or low <= 0 or high <= factor * low:
        panel.locator_params(axis="y", nbins=5)
        return
    panel.set_yscale("log")
    marks = _logarithmic_marks(low, high)
    panel.yaxis.set_major_locator(FixedLocator(marks))
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    panel.yaxis.set_minor_locator(NullLocator())
    panel.yaxis.set_minor_formatter(NullFormatter())


def _logarithmic_marks(low: float, high: float) -> list[float]:
    """Powers of ten, thinned if there are many; 1, 2 and 5 times them if there are few."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    decades = math.log10(high / low)
    of_decades: dict[float, tuple[float, ...]] = {1.0: (1, 1.5, 2, 3, 4, 6, 8), 1.6: (1, 2, 5), 2.5: (1, 3)}
    steps = next((few for most, few in of_decades.items() if decades < most), (1,))
    every = max(1, math.ceil(decades / 6))
    marks = [step * 10.0**power for power in range(first, last + 1, every) for step in steps]
    room = 10 ** (0.06 * decades)
    return [mark for mark in marks if low / room <= mark <= high * room]


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
    """A 95% interval around a line; on a logarithmic axis it ends where the panel does."""
    if panel.get_yscale() == "log":
        low = np.maximum(low, panel.get_ylim()[0]).tolist()
    panel.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0, zorder=2)


def save(drawing: Drawing, kind: str) -> bytes:
    """A figure as png, svg or pdf: the same bytes for the same results."""
    if layout := drawing.figure.get_layout_engine():  # panels find their places once, for all kinds of file
        layout.execute(drawing.figure)
        drawing.figure.set_layout_engine("none")
    if kind == "png":
        return to_png(drawing.figure, drawing.title)
    from matplotlib import rc_context

    undated = {"svg": {"Date": None, "Creator": None}, "pdf": {"CreationDate": None, "Creator": None, "Producer": None}}[kind]
    file = io.BytesIO()
    with rc_context({"svg.hashsalt": _SALT, "pdf.fonttype": 42}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a name in a script the font lacks is drawn as boxes
        drawing.figure.savefig(file, format=kind, metadata={"Title": drawing.title, **undated})
    return file.getvalue()
