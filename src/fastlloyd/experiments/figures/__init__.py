"""Figures of experiments, each kind in a file of its own; what is drawn is not private."""

from collections.abc import Sequence

from fastlloyd.errors import DataError
from fastlloyd.experiments.figures import ablation, curves, heatmaps, overhead, scaling
from fastlloyd.experiments.figures.sheet import FORMATS, Drawing, save
from fastlloyd.experiments.summaries import Summaries
from fastlloyd.figures import new_figure
from fastlloyd.names import unknown_name

FIGURES = {
    "curves": curves.draw,
    "scaling": scaling.draw,
    "heatmaps": heatmaps.draw,
    "ablation": ablation.draw,
    "overhead": overhead.draw,
}
__all__ = ["FIGURES", "FORMATS", "Drawing", "check_names", "draw", "save"]


def check_names(names: Sequence[str]) -> None:
    """Raise DataError if a name is that of no kind of figure."""
    for name in names:
        if name not in FIGURES:
            raise DataError(f"figure {unknown_name(name, list(FIGURES))}")


def draw(summaries: Summaries, names: Sequence[str] = ()) -> list[Drawing]:
    """The named kinds of figure, or those that the specification asks for.

    Raises DataError if one cannot be drawn of these results, OutputError without matplotlib.
    """
    chosen = list(dict.fromkeys(names or summaries.results.figures))
    check_names(chosen)
    new_figure(1.0, "a figure")  # without matplotlib this says so, before anything else needs it
    drawings = [drawing for name in chosen for drawing in FIGURES[name](summaries)]
    if not drawings:
        raise DataError(f"there is nothing to draw for {', '.join(chosen)}: no private method has a value at any epsilon")
    return drawings
