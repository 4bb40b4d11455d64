"""Comparison of a clustering that has noise with Lloyd's algorithm without noise.

NOT PRIVATE: the figures are exact, and only for the owner of the records. Both clusterings start
from the same centroids on the same grid points. So the difference is the price of privacy: the
noise, the radius and the smaller number of iterations.
"""

import math
from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np

from fastlloyd.base.arrays import FloatArray, GridArray, IntArray
from fastlloyd.evaluation import metrics
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.mechanisms.catalogue import design
from fastlloyd.mechanisms.central import run
from fastlloyd.mechanisms.lloyd.algorithm import LLOYD
from fastlloyd.mechanisms.mechanism import Mechanism
from fastlloyd.mechanisms.settings import Settings
from fastlloyd.mechanisms.uncertainty import noise_deviation
from fastlloyd.reports.result import Result


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Exact figures of one clustering, NOT PRIVATE.

    algorithm : name of the algorithm.
    nicv : loss, the mean squared distance of a record from its nearest centroid, in squared half
        widths of the scaled domain.
    n_empty_clusters : number of centroids without records.
    """

    algorithm: str
    nicv: float
    n_empty_clusters: int


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Exact figures of a clustering that has noise and of Lloyd's algorithm without noise, NOT
    PRIVATE.

    centroid_distance : root mean square distance between the centroids of the two clusterings, in
        half widths of the scaled domain. Centroids are matched one to one.
    """

    with_noise: Figures
    without_noise: Figures
    centroid_distance: float


def lloyd(m: Mechanism, X: Iterable[GridArray], beside: IntArray | None = None) -> Result:
    """Return Lloyd's clustering without noise, from the initial centroids of m. NOT PRIVATE.

    X : blocks of grid points (n_i, n_features).
    beside : centroids of another clustering, int64 (n_clusters, n_features), grid units. Each
        cluster then gets the position of the centroid that it matches. None keeps the clusters' own
        order.
    """
    settings = Settings(
        algorithm=LLOYD,
        domain=m.domain,
        n_clusters=m.n_clusters,
        n_records=(
            m.n_records if m.persons is None else max(sum(map(len, X)), m.n_clusters)
        ),  # a cap on rows is not known
        epsilon=m.epsilon,
        public_seed=m.seed,
        initialization=m.initialization,
    )
    plain = design(settings)
    records = LocalRecords(plain.domain, X)
    clustering = run(
        plain, lambda number, query: (records.answer(query)[0], plain.answer_noise(number))
    )
    if beside is not None:
        clustering = clustering.of(_matching(clustering.centroids, beside))
    return Result.of(plain, clustering, noise_deviation(plain))


def _matching(centroids: IntArray, reference: IntArray) -> IntArray:
    """Match centroids one to one with the rows of the reference, so that the mean squared distance
    is smallest. Return, for each row of the reference, the index of its centroid.
    """
    from scipy.optimize import linear_sum_assignment
    from scipy.spatial.distance import cdist

    squared = cdist(reference.astype(np.float64), centroids.astype(np.float64), "sqeuclidean")
    order: IntArray = linear_sum_assignment(squared)[1]
    return order


def compare(private: Result, without_noise: Result, X: Iterable[GridArray]) -> Comparison:
    """Return the figures of two results on the same domain. NOT PRIVATE.

    X : blocks of grid points (n_i, n_features).
    """
    distance = metrics.matched_centroid_mse(_scaled(private), _scaled(without_noise))
    return Comparison(
        with_noise=figures(private, X),
        without_noise=figures(without_noise, X),
        centroid_distance=math.sqrt(distance),
    )


def _scaled(result: Result) -> FloatArray:
    """Return the centroids in half widths of the scaled domain."""
    domain = result.mechanism.domain
    return np.asarray((result.centroids - domain.centre) / domain.units / 2**domain.fraction_bits)


def figures(result: Result, X: Iterable[GridArray]) -> Figures:
    """Return the exact figures of a result. NOT PRIVATE.

    X : blocks of grid points (n_i, n_features).
    """
    centroids, half_width = _scaled(result), 2**result.mechanism.domain.fraction_bits
    n, loss, occupied = 0, 0.0, np.zeros(len(centroids), dtype=bool)
    for block in X:
        records = block / half_width
        n += len(records)
        loss += metrics.wcss(records, centroids)
        occupied[metrics.assign(records, centroids)] = True
    return Figures(
        algorithm=result.mechanism.name,
        nicv=loss / n,
        n_empty_clusters=len(centroids) - int(occupied.sum()),
    )


def to_builtins(comparison: Comparison) -> dict[str, Any]:
    """Return the comparison as tables, strings and finite numbers, with a note that it is NOT
    PRIVATE.
    """
    said: dict[str, Any] = msgspec.to_builtins(comparison)
    return {
        "note": "computed on raw data: NOT PRIVATE; for the owner of the records only",
        "unit": "half widths of the scaled domain (nicv: their square)",
        **said,
    }
