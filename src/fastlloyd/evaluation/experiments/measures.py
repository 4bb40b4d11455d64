"""What is measured on a clustering: one record per measure, all exact on public records, NOT PRIVATE."""

from collections.abc import Callable
from dataclasses import dataclass

from fastlloyd.clustering.domain import FloatArray
from fastlloyd.evaluation import metrics
from fastlloyd.evaluation.experiments.problem import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A column of the results, and how it is computed from a problem and centroids (k, d) in its scaled units.

    prepare : makes what the problem keeps for all trials, so that it counts for none of them. needs : modules of extras.
    """

    name: str
    label: str
    compute: Callable[[Problem, FloatArray], float]
    prepare: Callable[[Problem], object] = lambda _: None
    needs: str = ""


MEASURES = {
    measure.name: measure
    for measure in (
        Measure(name="nicv", label="NICV", compute=lambda p, C: metrics.nicv(p.X, C)),
        Measure(name="wcss", label="WCSS", compute=lambda p, C: metrics.wcss(p.X, C)),
        Measure(name="bcss", label="BCSS", compute=lambda p, C: metrics.bcss(p.X, C)),
        Measure(
            name="silhouette",
            label="Silhouette",
            compute=lambda p, C: metrics.silhouette(p.X, C, p.sample),
            prepare=lambda p: p.sample,
            needs="sklearn",
        ),
        Measure(
            name="davies_bouldin",
            label="Davies-Bouldin index",
            compute=lambda p, C: metrics.davies_bouldin(p.X, C),
            needs="sklearn",
        ),
        Measure(
            name="calinski_harabasz",
            label="Calinski-Harabasz index",
            compute=lambda p, C: metrics.calinski_harabasz(p.X, C),
            needs="sklearn",
        ),
        Measure(name="dunn", label="Dunn index", compute=lambda p, C: metrics.dunn(p.X, C)),
        Measure(
            name="centroid_mse",
            label="Centroid MSE",
            compute=lambda p, C: metrics.matched_centroid_mse(C, p.reference),
            prepare=lambda p: p.reference,
            needs="sklearn",
        ),
        Measure(name="n_empty", label="Empty clusters", compute=lambda p, C: float(metrics.n_empty_clusters(p.X, C))),
    )
}
