"""What is measured on a clustering: one record per measure, all exact on public records, NOT PRIVATE."""

from collections.abc import Callable
from dataclasses import dataclass

from fastlloyd import metrics
from fastlloyd.clustering.domain import FloatArray
from fastlloyd.experiments.problem import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A column of the results, and how it is computed from a problem and centroids (k, d) in its scaled units."""

    name: str
    label: str
    compute: Callable[[Problem, FloatArray], float]


MEASURES = {
    measure.name: measure
    for measure in (
        Measure(name="nicv", label="NICV", compute=lambda p, C: metrics.nicv(p.X, C)),
        Measure(name="wcss", label="WCSS", compute=lambda p, C: metrics.wcss(p.X, C)),
        Measure(name="centroid_mse", label="Centroid MSE", compute=lambda p, C: metrics.matched_centroid_mse(C, p.reference)),
        Measure(name="n_empty", label="Empty clusters", compute=lambda p, C: float(metrics.n_empty_clusters(p.X, C))),
    )
}
