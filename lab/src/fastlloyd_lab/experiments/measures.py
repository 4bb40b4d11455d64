"""Measures of a clustering, their names for readers, and the kinds of figures that show them.

Measures are computed on public records without noise: NOT PRIVATE.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fastlloyd.base.arrays import FloatArray
from fastlloyd.base.names import unknown_name
from fastlloyd.errors import DataError
from fastlloyd.evaluation import metrics
from fastlloyd_lab import partitions
from fastlloyd_lab.experiments.problem import Problem

SCALED = "scaled units"
FIGURES = ("curves", "scaling", "heatmaps", "ablation", "overhead")
"""The kinds of figures that a specification may ask for; `fastlloyd_lab.pictures` draws
them.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """Number in a column of the results.

    better : -1 if smaller values are better, 1 if larger values are, 0 if that is not known.
    """

    column: str
    title: str
    unit: str = ""
    better: int = 0
    low: float = -math.inf  # what it cannot be below
    high: float = math.inf

    @property
    def axis(self) -> str:
        """Label of an axis for this quantity."""
        return f"{self.title}, {self.unit}" if self.unit else self.title


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure(Quantity):
    """Quantity that is computed from a problem and centroids (k, d) in its scaled units.

    prepare : function that computes the part that is the same for all trials of a problem. Its time
        is not added to the time of any trial.
    """

    compute: Callable[[Problem, FloatArray], float]
    prepare: Callable[[Problem], object] = lambda _: None
    low: float = 0.0


def _of_records(
    metric: Callable[[FloatArray, FloatArray], float],
) -> Callable[[Problem, FloatArray], float]:
    return lambda problem, C: float(metric(problem.X, C))


MEASURES = {
    measure.column: measure
    for measure in (
        Measure(column="nicv", title="NICV", unit=SCALED, better=-1,
          compute=_of_records(metrics.nicv)),
        Measure(
            column="silhouette", title="Silhouette score", better=1, low=-1.0, high=1.0,
            compute=lambda p, C: partitions.silhouette(p.X, C, p.sample),
            prepare=lambda p: p.sample,
        ),
        Measure(
            column="davies_bouldin", title="Davies-Bouldin index", better=-1,
            compute=_of_records(partitions.davies_bouldin),
        ),
        Measure(
            column="centroid_mse", title="Centroid MSE", unit=SCALED, better=-1,
            compute=lambda p, C: metrics.matched_centroid_mse(C, p.reference),
            prepare=lambda p: p.reference,
        ),
        Measure(column="wcss", title="WCSS", unit=SCALED, better=-1,
          compute=_of_records(metrics.wcss)),
        Measure(column="n_empty", title="Empty clusters", better=-1,
          compute=_of_records(metrics.n_empty_clusters)),
        Measure(column="bcss", title="BCSS", unit=SCALED, compute=_of_records(partitions.bcss)),
        Measure(
            column="calinski_harabasz", title="Calinski-Harabasz index",
            compute=_of_records(partitions.calinski_harabasz),
        ),
        Measure(column="dunn", title="Dunn index", compute=_of_records(partitions.dunn)),
    )
}  # fmt: skip
"""Measures by their column in the results. Those of the paper come first, in its order."""


def quantity(column: str) -> Quantity:
    """Return the quantity that a column contains.

    A quantity unknown to this package has the name of its column, and no limits on its values.
    """
    return MEASURES.get(column) or Quantity(column=column, title=column.replace("_", " "))


def in_order(columns: set[str]) -> list[str]:
    """Return the columns: known measures in the order of `MEASURES`, then all others by name."""
    return [column for column in MEASURES if column in columns] + sorted(
        columns.difference(MEASURES)
    )


def check_figures(names: Iterable[str]) -> None:
    """Raise DataError if a name is not the name of a kind of figure."""
    for name in names:
        if name not in FIGURES:
            raise DataError(f"figure {unknown_name(name, FIGURES)}")
