"""Tests of measures of partitions, against cases computed by hand, their definitions in plain
Python, and their symmetries.
"""

import tracemalloc
from collections.abc import Callable
from random import Random

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastlloyd.errors import DataError
from fastlloyd.evaluation import metrics
from fastlloyd_lab import partitions
from fastlloyd_lab.partitions import SilhouetteSample

Matrix = npt.NDArray[np.float64]

PAIRS, MIDDLES = [[0.0], [2.0], [10.0], [12.0]], [[1.0], [11.0]]
INDICES: list[Callable[..., float]] = [
    partitions.silhouette,
    partitions.davies_bouldin,
    partitions.calinski_harabasz,
    partitions.dunn,
]
AT_ONE_CLUSTER = {
    partitions.silhouette: -1.0,
    partitions.davies_bouldin: np.inf,
    partitions.calinski_harabasz: 0.0,
    partitions.dunn: 0.0,
}


@st.composite
def problems(draw: st.DrawFn) -> tuple[Matrix, Matrix]:
    """Draw records and centroids with small integer coordinates. Empty clusters, repeated records
    and ties are common.
    """
    n, k, d = draw(st.integers(1, 12)), draw(st.integers(1, 5)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X, centroids = (rng.integers(-4, 5, (rows, d)).astype(np.float64) for rows in (n, k))
    return X, centroids


def clusters_of(X: Matrix, centroids: Matrix) -> list[list[Matrix]]:
    """Return the records of every cluster that is not empty."""
    labels = metrics.assign(X, centroids)
    return [list(X[labels == label]) for label in np.unique(labels)]


def distance(x: Matrix, y: Matrix) -> float:
    return float(np.sqrt(((x - y) ** 2).sum()))


def silhouette_by_definition(X: Matrix, centroids: Matrix) -> float:
    clusters = clusters_of(X, centroids)
    if len(clusters) == 1:
        return -1.0
    values = []
    for i, own in enumerate(clusters):
        for x in own:
            a = sum(distance(x, y) for y in own) / max(len(own) - 1, 1)
            b = min(
                sum(distance(x, y) for y in other) / len(other)
                for j, other in enumerate(clusters)
                if j != i
            )
            values.append((b - a) / max(a, b) if len(own) > 1 else 0.0)
    return float(np.mean(values))


def davies_bouldin_by_definition(X: Matrix, centroids: Matrix) -> float:
    clusters = clusters_of(X, centroids)
    if len(clusters) == 1:
        return np.inf
    means = [np.mean(cluster, axis=0) for cluster in clusters]
    spreads = [
        np.mean([distance(x, mean) for x in cluster])
        for cluster, mean in zip(clusters, means, strict=True)
    ]
    worst = [
        max(
            (s + t) / distance(m, other)
            for j, (t, other) in enumerate(zip(spreads, means, strict=True))
            if j != i
        )
        for i, (s, m) in enumerate(zip(spreads, means, strict=True))
    ]
    return float(np.mean(worst))


def calinski_harabasz_by_definition(X: Matrix, centroids: Matrix) -> float:
    clusters = clusters_of(X, centroids)
    if len(clusters) == 1:
        return 0.0
    within = sum(
        distance(x, np.mean(cluster, axis=0)) ** 2
        for cluster in clusters
        if np.ptp(cluster, axis=0).any()
        for x in cluster
    )
    between = sum(
        len(cluster) * distance(np.mean(cluster, axis=0), X.mean(axis=0)) ** 2
        for cluster in clusters
    )
    return (
        float((between / (len(clusters) - 1)) / (within / (len(X) - len(clusters))))
        if within
        else np.inf
    )


def dunn_by_definition(X: Matrix, centroids: Matrix) -> float:
    clusters = clusters_of(X, centroids)
    if len(clusters) == 1:
        return 0.0
    apart = min(
        distance(x, y)
        for i, one in enumerate(clusters)
        for other in clusters[:i]
        for x in one
        for y in other
    )
    wide = max(distance(x, y) for cluster in clusters for x in cluster for y in cluster)
    return apart / wide if wide else np.inf


BY_DEFINITION: list[tuple[Callable[..., float], Callable[[Matrix, Matrix], float]]] = [
    (partitions.silhouette, silhouette_by_definition),
    (partitions.davies_bouldin, davies_bouldin_by_definition),
    (partitions.calinski_harabasz, calinski_harabasz_by_definition),
    (partitions.dunn, dunn_by_definition),
]


def test_two_pairs_on_a_line_worked_by_hand() -> None:
    # Records 0, 2 and 10, 12. Record 0: a = 2, b = (10 + 12) / 2 = 11, so 9/11; record 2: a = 2, b
    # = (8 + 10) / 2 = 9, so 7/9; the other pair mirrors them. Mean: (9/11 + 7/9) / 2 = 79/99.
    assert partitions.silhouette(PAIRS, MIDDLES) == pytest.approx(79 / 99, rel=1e-14)
    # Means 1 and 11, mean distances to them 1 and 1: (1 + 1) / 10.
    assert partitions.davies_bouldin(PAIRS, MIDDLES) == pytest.approx(0.2, rel=1e-14)
    # Mean of all 6: B = 2 * 25 + 2 * 25 = 100, W = 4 * 1: (100 / 1) / (4 / 2).
    assert partitions.calinski_harabasz(PAIRS, MIDDLES) == pytest.approx(50, rel=1e-14)
    # 2 and 10 are 8 apart; each pair is 2 wide.
    assert partitions.dunn(PAIRS, MIDDLES) == pytest.approx(4, rel=1e-14)


def test_bcss_is_about_the_centroids_as_they_are_and_counts_no_empty_one() -> None:
    assert partitions.bcss(PAIRS, MIDDLES) == 100.0  # 2 (1 - 6)^2 + 2 (11 - 6)^2
    assert partitions.bcss(PAIRS, [[0.0], [11.0], [500.0]]) == 122.0  # 2 (0 - 6)^2 + 2 (11 - 6)^2


@given(problems())
def test_wcss_and_bcss_add_up_to_the_total_where_lloyds_algorithm_stands_still(
    problem: tuple[Matrix, Matrix],
) -> None:
    X, centroids = problem
    for _ in range(30):  # every step but the last lowers WCSS
        centroids = np.array([np.mean(cluster, axis=0) for cluster in clusters_of(X, centroids)])
    total = ((X - X.mean(axis=0)) ** 2).sum()
    assert metrics.wcss(X, centroids) + partitions.bcss(X, centroids) == pytest.approx(
        total, rel=1e-12, abs=1e-12
    )


@pytest.mark.parametrize(
    ("index", "definition"), BY_DEFINITION, ids=lambda function: function.__name__
)
@given(problem=problems())
def test_an_index_equals_its_definition(
    index: Callable[..., float],
    definition: Callable[[Matrix, Matrix], float],
    problem: tuple[Matrix, Matrix],
) -> None:
    assert index(*problem) == pytest.approx(definition(*problem), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("index", INDICES, ids=lambda index: index.__name__)
@given(problem=problems(), shuffler=st.randoms(use_true_random=False))
def test_an_index_depends_on_the_order_of_neither_records_nor_centroids(
    index: Callable[..., float], problem: tuple[Matrix, Matrix], shuffler: Random
) -> None:
    X, centroids = problem
    records, rows = list(X), list(np.unique(centroids, axis=0))
    ties = any(
        np.unique(((x - centroids) ** 2).sum(axis=1)).size < len(np.unique(centroids, axis=0))
        for x in X
    )
    shuffler.shuffle(records)
    assert index(records, centroids) == pytest.approx(index(X, centroids), rel=1e-9, abs=1e-9)
    if not ties:  # a tie goes to the lowest index
        shuffler.shuffle(rows)
        assert index(X, rows) == pytest.approx(index(X, centroids), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("index", INDICES, ids=lambda index: index.__name__)
@given(problem=problems(), shift=st.integers(-(2**40), 2**40), exponent=st.integers(-300, 300))
def test_an_index_depends_on_neither_place_nor_scale(
    index: Callable[..., float], problem: tuple[Matrix, Matrix], shift: int, exponent: int
) -> None:
    X, centroids = problem
    expected = pytest.approx(index(X, centroids), rel=1e-9, abs=1e-9)
    # exact in float64, as is scaling: all ties stay
    assert index(X + shift, centroids + shift) == expected
    assert index(X * 2.0**exponent, centroids * 2.0**exponent) == expected


@pytest.mark.parametrize("index", INDICES, ids=lambda index: index.__name__)
def test_one_cluster_has_the_value_of_its_docstring_however_many_centroids_there_are(
    index: Callable[..., float],
) -> None:
    for X in (PAIRS, [[3.0]], [[3.0], [3.0]]):
        for centroids in ([[1.0]], [[1.0], [1e6]], [[1.0], [1.0]]):
            assert index(X, centroids) == AT_ONE_CLUSTER[index]


def test_single_points_are_perfect_clusters_except_to_the_silhouette() -> None:
    for X in ([[0.0], [1.0], [5.0]], [[0.0], [0.0], [1.0], [5.0]]):
        centroids = [[0.0], [1.0], [5.0]]
        assert partitions.davies_bouldin(X, centroids) == 0.0
        assert partitions.calinski_harabasz(X, centroids) == np.inf
        assert partitions.dunn(X, centroids) == np.inf
    assert partitions.silhouette([[0.0], [1.0], [5.0]], [[0.0], [1.0], [5.0]]) == 0.0
    # 1, 1 and twice 0
    assert partitions.silhouette([[0.0], [0.0], [1.0], [5.0]], [[0.0], [1.0], [5.0]]) == 0.5


@given(problems())
def test_a_sample_of_all_records_changes_nothing(problem: tuple[Matrix, Matrix]) -> None:
    X, centroids = problem
    whole = partitions.silhouette(X, centroids)
    for sample in (SilhouetteSample.of(X), SilhouetteSample.of(X, n_records=len(X) + 1)):
        assert partitions.silhouette(X, centroids, sample) == pytest.approx(
            whole, rel=1e-9, abs=1e-9
        )


@given(problems(), st.integers(1, 11), st.integers(0, 9))
def test_the_silhouette_of_a_sample_is_that_of_its_records_alone(
    problem: tuple[Matrix, Matrix], n_records: int, seed: int
) -> None:
    X, centroids = problem
    sample = SilhouetteSample.of(X, n_records=n_records, seed=seed)
    assert len(set(sample.records.tolist())) == len(sample.records) == min(n_records, len(X))
    alone = partitions.silhouette(X[sample.records], centroids)
    assert partitions.silhouette(X, centroids, sample) == pytest.approx(alone, rel=1e-9, abs=1e-9)
    again = SilhouetteSample.of(X, n_records=n_records, seed=seed)
    assert np.array_equal(again.records, sample.records)
    assert np.array_equal(again.distances, sample.distances)


def test_a_sample_of_other_records_or_of_none_is_refused() -> None:
    with pytest.raises(DataError, match="has record 4"):
        partitions.silhouette(PAIRS[:2], MIDDLES, SilhouetteSample.of(PAIRS))
    with pytest.raises(DataError, match="n_records = 0"):
        SilhouetteSample.of(PAIRS, n_records=0)


@given(problems(), st.integers(1, 20))
def test_the_size_of_blocks_changes_no_dunn_index(
    problem: tuple[Matrix, Matrix], cells: int
) -> None:
    whole = partitions.dunn(*problem)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partitions, "_BLOCK_CELLS", cells)
        assert partitions.dunn(*problem) == whole


def test_the_memory_of_the_dunn_index_does_not_grow_with_pairs_of_records() -> None:
    # All distances at once would take 3000^2 * 8 bytes = 72 MB.
    rng = np.random.default_rng(0)
    X, centroids = rng.normal(size=(3000, 2)), rng.normal(size=(4, 2))
    partitions.dunn(X[:10], centroids)  # SciPy is loaded before memory is counted
    tracemalloc.start()
    try:
        partitions.dunn(X, centroids)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 10e6


@pytest.mark.parametrize("index", INDICES, ids=lambda index: index.__name__)
def test_distances_among_records_beyond_float64_are_refused_although_those_to_centroids_are_not(
    index: Callable[..., float],
) -> None:
    with pytest.raises(DataError, match="range of float64"):
        index([[-1e200], [-1e200], [1e200]], [[-1e200], [1e200]])


@pytest.mark.parametrize("index", [partitions.bcss, *INDICES], ids=lambda index: index.__name__)
def test_w31_every_index_refuses_what_is_not_finite_and_says_that_it_is_never_private(
    index: Callable[..., float],
) -> None:
    for bad in (np.nan, np.inf, -np.inf):
        for X, centroids in ([[1.0], [bad]], [[1.0], [2.0]]), ([[1.0], [2.0]], [[bad], [1.0]]):
            with pytest.raises(DataError, match="NaN or infinity"):
                index(X, centroids)
    assert "Exact, so NEVER private" in " ".join((index.__doc__ or "").split())
