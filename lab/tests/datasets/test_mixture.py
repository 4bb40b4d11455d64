"""Tests that clusters have the requested separation, computed from their parameters and from their
records. All draws are fixed.
"""

import numpy as np
import pytest

from fastlloyd_lab.datasets.mixture import (
    OUTLIER,
    Z,
    covariances,
    draws_for,
    random_mixture,
    touching_radius,
    with_outliers,
)
from separation_index import nearest_separations, sample_separations


@pytest.mark.parametrize(
    ("k", "d", "asked"),
    [
        (2, 2, 0.16),
        (32, 2, 0.26),
        (128, 2, 0.2),
        (16, 16, 0.75),
        (5, 64, 0.25),
        (2, 200, 0.5),
        (3, 2, -0.1),
    ],
)
def test_each_cluster_has_the_asked_separation_from_its_nearest_neighbour(
    k: int, d: int, asked: float
) -> None:
    mixture = random_mixture(k, d, asked, draws_for(f"{k} {d} {asked}"))
    shapes = covariances(mixture.axes, mixture.deviations)
    if k < 100:
        nearest = nearest_separations(mixture.means, shapes)
    # the plane's grid is a strip, along which clusters far apart are no neighbours: eight at a
    # time, for time
    else:
        parts = [slice(start, start + 8) for start in range(0, k, 4)]
        nearest = np.full(k, np.inf)
        for part in parts:
            nearest[part] = np.minimum(
                nearest[part], nearest_separations(mixture.means[part], shapes[part])
            )
    assert nearest == pytest.approx(np.full(k, asked), abs=1e-9)


def test_shapes_are_those_of_the_eigenvalues_drawn_grown_but_never_shrunk() -> None:
    mixture = random_mixture(20, 3, 0.2, draws_for("shapes"))
    variances = mixture.deviations**2
    assert variances.min() >= 1
    assert np.all(variances.max(axis=1) / variances.min(axis=1) <= 10)
    shapes = covariances(mixture.axes, mixture.deviations)
    assert np.linalg.eigvalsh(shapes) == pytest.approx(np.sort(variances, axis=1), rel=1e-12)


def test_the_separation_measured_on_records_is_the_one_asked_for() -> None:
    """With n = 50,000 records per cluster, the standard error is about 0.0013. So an error of 3 %
    in the widths would be found.

    Let r = z (1 + J) / (1 - J) be half the distance in standard deviations. The variance of its
    estimate is (1/2 + r^2 / 4) / n, and dJ/dr = 2 z / (r + z)^2. The best directions are found on
    records, which adds less than d / n.
    """
    asked, n, d = 0.21, 50_000, 5
    draws = draws_for("measured")
    measured = sample_separations(*random_mixture(4, d, asked, draws).records(np.full(4, n), draws))
    r = touching_radius(asked)
    error = 2 * Z / (r + Z) ** 2 * np.sqrt((0.5 + r**2 / 4) / n)
    assert error < 0.0015
    assert np.abs(measured - asked).max() < 5 * error + d / n


def test_records_are_normal_with_the_means_and_covariances_of_their_clusters() -> None:
    draws = draws_for("records")
    mixture = random_mixture(3, 4, 0.3, draws)
    sizes = np.array([20_000, 10_000, 5])
    records, labels = mixture.records(sizes, draws)
    assert np.array_equal(np.bincount(labels), sizes)
    for cluster in range(2):
        # in units of the cluster's own axes: standard normal
        own = (
            (records[labels == cluster] - mixture.means[cluster])
            @ mixture.axes[cluster]
            / mixture.deviations[cluster]
        )
        n = sizes[cluster]
        assert np.abs(own.mean(axis=0)).max() < 6 / np.sqrt(n)
        assert np.abs(np.cov(own, rowvar=False) - np.eye(4)).max() < 6 * np.sqrt(2 / n)
        assert np.abs((own**4).mean(axis=0) - 3).max() < 6 * np.sqrt(96 / n)


def test_outliers_are_uniform_in_the_box_of_four_deviations_around_the_mean_and_belong_to_none() -> (
    None
):
    draws = draws_for("outliers")
    records = draws.normal((5000, 2)) * [1.0, 10.0] + [100.0, -50.0]
    labels = np.zeros(5000, dtype=np.int64)
    everything, all_labels = with_outliers(records, labels, 2000, draws)
    assert np.array_equal(everything[:5000], records)
    assert np.array_equal(all_labels, [0] * 5000 + [OUTLIER] * 2000)
    unit = (everything[5000:] - records.mean(axis=0)) / (4 * records.std(axis=0, ddof=1))
    assert np.abs(unit).max() <= 1
    # a uniform number on [-1, 1] has variance 1/3
    assert np.abs(unit.mean(axis=0)).max() < 6 / np.sqrt(3 * 2000)
    assert np.abs((unit**2).mean(axis=0) - 1 / 3).max() < 6 * np.sqrt(4 / 45 / 2000)
    none, none_labels = with_outliers(records, labels, 0, draws)
    assert np.array_equal(none, records)
    assert np.array_equal(none_labels, labels)
