"""Figures, tables and reports of experiments. NOT PRIVATE."""

from collections.abc import Callable, Iterable, Sequence

from fastlloyd.errors import DataError
from fastlloyd.reports.figures import new_figure
from fastlloyd_lab.experiments.measures import FIGURES, check_figures
from fastlloyd_lab.pictures import ablation, curves, families, overhead
from fastlloyd_lab.pictures.sheet import FORMATS, Drawing, save
from fastlloyd_lab.pictures.summaries import Summaries

__all__ = ["FIGURES", "FORMATS", "Drawing", "check_figures", "draw", "save"]
_DRAWN_BY: dict[str, Callable[[Summaries], Iterable[Drawing]]] = {
    "curves": curves.draw,
    "scaling": families.lines,
    "heatmaps": families.heat_maps,
    "ablation": ablation.draw,
    "overhead": overhead.draw,
}


def draw(summaries: Summaries, names: Sequence[str] = ()) -> tuple[list[Drawing], list[str]]:
    """Return the figures of the named kinds, and a sentence for each kind that cannot be drawn.

    Without names, the specification determines the kinds. A kind that cannot be drawn does not
    affect the others. Raises OutputError without matplotlib.
    """
    new_figure(1.0, "a figure")  # without matplotlib this says so, before anything else needs it
    drawings: list[Drawing] = []
    refused: list[str] = []
    for name in dict.fromkeys(names or summaries.results.figures):
        try:
            check_figures([name])
            for drawing in _DRAWN_BY[name](summaries):
                # what came before one that cannot be drawn is kept
                drawings.append(drawing)  # noqa: PERF402
        except DataError as error:
            refused.append(str(error))
    return drawings, list(dict.fromkeys(refused))
