"""A private clustering beside Lloyd's: the same start, the same records, exact figures by a second
route.
"""

import json
import math

import numpy as np
import pytest
from sklearn.metrics import pairwise_distances

from designs import design_mechanism
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain, Scaling
from fastlloyd.clustering.packing import RadiusSearch
from fastlloyd.evaluation import comparison
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.mechanisms.central import cluster
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD, SULLOYD, Algorithm
from fastlloyd.mechanisms.lloyd.mechanism import LloydMechanism
from fastlloyd.mechanisms.uncertainty import noise_deviation
from fastlloyd.reports.result import Result
from fastlloyd.testing import SeededNoise

pytestmark = pytest.mark.usefixtures("repeatable_noise")

X = np.random.default_rng(0).uniform([0, -1], [100, 3], (400, 2))


def _private(algorithm: Algorithm, scaling: Scaling, search: RadiusSearch) -> Result:
    m = design_mechanism(
        algorithm, Domain(features=("age", "dose"), lower=(0.0, -1.0), upper=(100.0, 3.0), scaling=scaling), n_clusters=5,
        n_records=500, epsilon=1.0, public_seed=PublicSeed.from_int(4), initialization=search,
    )  # fmt: skip
    clustering = cluster(m, LocalRecords(m.domain, m.domain.to_grid(X)), SeededNoise(1))
    return Result.of(m, clustering, noise_deviation(m))


@pytest.mark.parametrize("algorithm", [FASTLLOYD, SULLOYD], ids=lambda a: a.name)
@pytest.mark.parametrize("scaling", list(Scaling))
@pytest.mark.parametrize("search", list(RadiusSearch))
def test_lloyd_starts_where_the_private_run_started_and_is_measured_alike(
    algorithm: Algorithm, scaling: Scaling, search: RadiusSearch
) -> None:
    private = _private(algorithm, scaling, search)
    m = private.mechanism
    assert isinstance(m, LloydMechanism)
    grid = m.domain.to_grid(X)
    lloyd = comparison.lloyd(m, [grid[:7], grid[7:]])
    assert isinstance(lloyd.mechanism, LloydMechanism)
    assert np.array_equal(lloyd.mechanism.initial_centroids(), m.initial_centroids())
    assert not lloyd.private
    compared = comparison.compare(private, lloyd, [grid[:7], grid[7:]])
    for figures, result in ((compared.with_noise, private), (compared.without_noise, lloyd)):
        distances = (
            pairwise_distances(grid, (result.centroids - m.domain.centre) / m.domain.units) / 2**16
        )
        assert figures.algorithm == result.mechanism.name
        assert figures.nicv == pytest.approx(float((distances.min(axis=1) ** 2).mean()), rel=1e-9)
        assert figures.n_empty_clusters == 5 - len(set(distances.argmin(axis=1)))
    assert 0 < compared.centroid_distance <= 2 * math.sqrt(2)


def test_a_result_compared_with_itself_is_at_no_distance() -> None:
    private = _private(FASTLLOYD, Scaling.PER_FEATURE, RadiusSearch.BISECTION)
    grid = private.mechanism.domain.to_grid(X)
    compared = comparison.compare(private, private, [grid])
    assert compared.centroid_distance == 0
    assert compared.with_noise == compared.without_noise


def test_the_figures_for_machines_say_that_they_are_not_private() -> None:
    private = _private(FASTLLOYD, Scaling.PER_FEATURE, RadiusSearch.BISECTION)
    grid = private.mechanism.domain.to_grid(X)
    compared = comparison.compare(private, comparison.lloyd(private.mechanism, [grid]), [grid])
    read = json.loads(json.dumps(comparison.to_builtins(compared), allow_nan=False))
    assert "NOT PRIVATE" in read["note"]
    assert read["with_noise"]["nicv"] == compared.with_noise.nicv
    assert read["without_noise"]["nicv"] == compared.without_noise.nicv


def test_clusters_beside_another_clustering_are_in_its_order() -> None:
    m = _private(FASTLLOYD, Scaling.PER_FEATURE, RadiusSearch.BISECTION).mechanism
    grid = [m.domain.to_grid(X)]
    alone = comparison.lloyd(m, grid)
    for order in ([0, 1, 2, 3, 4], [2, 0, 1, 4, 3], [4, 3, 2, 1, 0]):
        nearby = m.domain.to_grid(alone.centroids[order] + 0.01)
        beside = comparison.lloyd(m, grid, beside=nearby)
        assert np.array_equal(beside.centroids, alone.centroids[order])
        assert np.array_equal(beside.noisy_counts, alone.noisy_counts[order])
