"""The picture of a result: a map of one or two features, profiles of more. Only noisy numbers decide what it shows."""

from typing import TYPE_CHECKING

from fastlloyd.reports.pictures import DOTS_PER_INCH, Picture, draw_map, to_png
from fastlloyd.reports.profiles import draw_profiles

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(picture: Picture) -> bytes:
    """The picture as PNG. Raises OutputError if matplotlib is not installed."""
    return to_png(figure_of(picture), picture.name)


def figure_of(picture: Picture, name: str = "clusters.png", dots_per_inch: int = DOTS_PER_INCH) -> "Figure":
    """The picture as a figure of matplotlib. Raises OutputError, which names it, if matplotlib is not installed."""
    return (draw_map if len(picture.features) <= 2 else draw_profiles)(picture, name, dots_per_inch)
