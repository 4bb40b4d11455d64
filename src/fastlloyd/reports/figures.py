"""Matplotlib figures that need no screen, and their PNG files."""

import io
import warnings
from typing import TYPE_CHECKING, Literal

from fastlloyd.base import extras
from fastlloyd.errors import DataError, OutputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# Okabe and Ito: told apart with every common colour vision, and in print by the numbers beside the
# marks
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#7A5195")


WIDTH, DOTS_PER_INCH = 8.0, 200  # inches; twice the pixels of a page 800 wide


ON_SCREEN = 100  # dots per inch in a notebook


def new_figure(
    height: float, name: str, width: float = WIDTH, *, dots_per_inch: int = DOTS_PER_INCH
) -> "Figure":
    """Return an empty figure of `width` by `height` inches.

    name : name of the picture, for error messages.

    Raises OutputError if matplotlib cannot be imported.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure as Base
        from matplotlib.layout_engine import ConstrainedLayoutEngine
    except Exception as error:  # noqa: BLE001 - a package may fail in any way
        raise OutputError(
            f"{name} was left out because matplotlib {extras.why_not(error, 'plot')}"
        ) from None

    class Figure(Base):
        """Figure that notebooks show without pyplot."""

        def _repr_png_(self) -> bytes:
            return to_png(self, name)

    margins = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12)
    figure = Figure(figsize=(width, height), dpi=dots_per_inch, layout=margins)
    FigureCanvasAgg(figure)
    return figure


def check_axes(ax: object) -> None:
    """Raise DataError if `ax` is not an object into which a picture with straight axes can be
    drawn, and OutputError if matplotlib cannot be imported.
    """
    try:
        from matplotlib.axes import Axes
    except Exception as error:  # noqa: BLE001 - a package may fail in any way
        raise OutputError(
            f"the picture was left out because matplotlib {extras.why_not(error, 'plot')}"
        ) from None
    if not isinstance(ax, Axes) or ax.name != "rectilinear":
        raise DataError(
            f"ax is {type(ax).__name__}; expected one matplotlib Axes with straight axes, as"
            " `plt.subplots()[1]` is"
        )


def to_png(figure: "Figure", title: str) -> bytes:
    """Return the figure as PNG. The title is stored in the file's metadata."""
    png = io.BytesIO()
    with warnings.catch_warnings():
        # a name in a script the font lacks is drawn as boxes
        warnings.filterwarnings("ignore", "Glyph .* missing")
        figure.savefig(png, format="png", metadata={"Title": title})
    return png.getvalue()


def frame(ax: "Axes", grid: str, without: list[str], axis: Literal["both", "x"] = "both") -> None:
    """Draw a grid behind the data, and hide some lines of the frame.

    ax : axes to draw on.
    grid : colour of the grid.
    without : sides of the frame to hide.
    axis : axes that have grid lines.
    """
    ax.grid(axis=axis, color=grid, linewidth=0.6)
    ax.set_axisbelow(True)
    ax.spines[without].set_visible(False)


def plain(text: str) -> str:
    """Return the text with escaped dollar signs, because matplotlib would read them as
    mathematics.
    """
    return text.replace("$", r"\$")
