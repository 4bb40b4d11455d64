"""Layout of every figure: title and legend above the panels, notes below.

Sizes are those of a figure over two columns of a paper, so letters are printed at the size that is
set here. Text is measured as it is drawn, because names come from users, and must not overlap or be
cut.
"""

import io
import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from fastlloyd.reports.figures import DOTS_PER_INCH, new_figure, plain, to_png
from fastlloyd_lab.pictures.summaries import Sample, Summary

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
_ROOM = WIDTH - 2 * _MARGIN  # for a line of letters
_LEAST = 3  # letters of a name that is cut
_SALT = "fastlloyd"  # names inside an SVG follow from it instead of from chance


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """Finished figure.

    name : name of its file, without suffix.
    caption : description in sentences.
    """

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
    """Return a figure with rows and columns of panels, and with room for the text above and below.

    title : title of the figure.
    panel_height : height of each panel in inches.
    shape : number of rows, and number of columns.
    legend : labels with samples of their lines.
    notes : sentences below the panels.
    """
    n_rows, n_columns = shape
    legend = {fitted(label, TEXT, _ROOM - _HANDLE): sample for label, sample in legend.items()}
    across, deep = legend_shape(list(legend))
    heading = wrapped(title, TITLE, _ROOM, bold=True)
    foot = wrapped(" ".join([NOT_PRIVATE, *filter(None, notes)]), SMALL, _ROOM)
    above = _MARGIN + len(heading) * _LINE[TITLE]
    header = above + (deep * _LINE[TEXT] + _MARGIN if legend else 0)
    footer = _MARGIN + len(foot) * _LINE[SMALL]
    height = header + n_rows * panel_height + footer
    figure = new_figure(height, title, WIDTH)
    layout = figure.get_layout_engine()
    layout.set(  # type: ignore[union-attr,call-arg]  # the constrained layout of new_figure
        rect=(0, footer / height, 1, 1 - (header + footer) / height), w_pad=0.04, h_pad=0.04
    )
    left, top, bottom = _MARGIN / WIDTH, 1 - _MARGIN / height, 0.6 * _MARGIN / height
    figure.text(left, top, plain("\n".join(heading)), fontsize=TITLE, fontweight="bold", va="top")
    figure.text(left, bottom, plain("\n".join(foot)), fontsize=SMALL, color="#555555", va="bottom")
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
    """Return the number of columns of a legend that fit, and the number of its rows. The legend is
    filled column by column.
    """
    for across in range(len(labels), 1, -1):
        deep = math.ceil(len(labels) / across)
        columns = [labels[start : start + deep] for start in range(0, len(labels), deep)]
        if (
            sum(max(width(label, TEXT) for label in column) + _HANDLE for column in columns)
            <= _ROOM
        ):
            return len(columns), deep
    return 1, len(labels)


def name_axis(figure: "Figure", label: str) -> None:
    """Write one label for the vertical axes of all panels, to their left."""
    layout = figure.get_layout_engine()
    _, low, _, height = layout.get()["rect"] if layout else (0, 0, 1, 1)
    label = fitted(label, TEXT, height * figure.get_size_inches()[1])
    figure.supylabel(plain(label), fontsize=TEXT, y=low + height / 2)


def name_panel(panel: "Axes", name: str, inches: float, pad: float | None = None) -> None:
    """Write a name above a panel, at most `inches` wide.

    pad : distance between name and panel, in points.
    """
    panel.set_title(
        plain(fitted(name, TEXT, inches, bold=True)), fontsize=TEXT, fontweight="bold", pad=pad
    )


def save(drawing: Drawing, kind: str) -> bytes:
    """Return a figure as PNG, SVG or PDF. The same results give the same bytes."""
    if (
        layout := drawing.figure.get_layout_engine()
    ):  # panels find their places once, for all kinds of file
        with boxes_for_letters_the_font_lacks():
            layout.execute(drawing.figure)
        drawing.figure.set_layout_engine("none")
    if kind == "png":
        return to_png(drawing.figure, drawing.title)
    from matplotlib import rc_context

    undated = {
        "svg": {"Date": None, "Creator": None},
        "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    }[kind]
    file = io.BytesIO()
    with (
        rc_context({"svg.hashsalt": _SALT, "pdf.fonttype": 42}),
        boxes_for_letters_the_font_lacks(),
    ):
        drawing.figure.savefig(file, format=kind, metadata={"Title": drawing.title, **undated})
    return file.getvalue()


def left_out(samples: Iterable[Sample | Summary]) -> list[str]:
    """Return sentences that count failed trials and values that are not finite, or an
    empty list.
    """
    listed = list(samples)
    failed, infinite = sum(s.n_failed for s in listed), sum(s.n_infinite for s in listed)
    counts = ((failed, "failed trial"), (infinite, "infinite value"))
    return [f"{n:,} {what}{'s are' if n > 1 else ' is'} left out." for n, what in counts if n]


def runs(samples: Iterable[Sample | Summary]) -> str:
    """Return a sentence with the number of runs over which the means of a figure are taken."""
    counts = sorted({sample.n for sample in samples if sample.n})
    if not counts:
        return ""
    number = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
    return f"Means of {number} run{'s' if counts[-1] > 1 else ''}" + (
        ", 95% intervals shaded." if counts[-1] > 1 else "."
    )


@contextmanager
def boxes_for_letters_the_font_lacks() -> Iterator[None]:
    """Context manager that hides the warning about letters that the font lacks. They are drawn as
    boxes.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")
        yield


@lru_cache(maxsize=4096)
def width(text: str, size: float, *, bold: bool = False) -> float:
    """Return the width of a line of text in inches, at a size in points."""
    from matplotlib.backends.backend_agg import RendererAgg
    from matplotlib.font_manager import FontProperties

    font = FontProperties(size=size, weight="bold" if bold else "normal")
    with boxes_for_letters_the_font_lacks():
        renderer: Any = RendererAgg
        dots, _, _ = renderer(1, 1, DOTS_PER_INCH).get_text_width_height_descent(
            text, font, ismath=False
        )
    return float(dots) / DOTS_PER_INCH


def fitted(text: str, size: float, inches: float, *, bold: bool = False) -> str:
    """Return the text if it is at most `inches` wide. Otherwise return its beginning and its end,
    because names often differ at the end.
    """
    if width(text, size, bold=bold) <= inches:
        return text
    fits, most = _LEAST, len(text)
    while most - fits > 1:
        tried = (fits + most) // 2
        fits, most = (
            (tried, most) if width(_cut(text, tried), size, bold=bold) <= inches else (fits, tried)
        )
    return _cut(text, fits)


def wrapped(text: str, size: float, inches: float, *, bold: bool = False) -> list[str]:
    """Return the text in lines of at most `inches`. A wider word is cut."""
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and width(longer, size, bold=bold) <= inches:
            lines[-1] = longer
        else:
            lines.append(fitted(word, size, inches, bold=bold))
    return lines


def _cut(text: str, n: int) -> str:
    """Return n letters of the text, two thirds of them from its beginning."""
    tail = n // 3
    return f"{text[: n - tail]}…{text[len(text) - tail :]}"
