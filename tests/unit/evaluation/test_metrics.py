"""Metrics against hand-worked cases, a brute-force oracle in exact integers, and their own
symmetries.
"""

import inspect
import itertools
import tracemalloc
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastlloyd.errors import DataError
from fastlloyd.evaluation import metrics

Matrix = npt.NDArray[np.float64]

CHECKS = {"records_and_centroids", "finite_matrix", "finite"}  # of arguments, for the lab, too
METRICS: list[Callable[..., object]] = [
    function
    for name, function in inspect.getmembers(metrics, inspect.isfunction)
    if function.__module__ == metrics.__name__ and not name.startswith("_")
    if name not in CHECKS
]

SQUARE = [[0, 0], [0, 2], [2, 0], [2, 2]]


@st.composite
def problems(draw: st.DrawFn) -> tuple[Matrix, Matrix]:
    """Records and centroids with small integer coordinates: ties are common and float64 arithmetic
    is exact.
    """
    n, k, d = draw(st.integers(1, 30)), draw(st.integers(1, 6)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X, centroids = (rng.integers(-4, 5, (rows, d)).astype(np.float64) for rows in (n, k))
    return X, centroids


def brute_force(X: Matrix, centroids: Matrix) -> list[tuple[int, int]]:
    """(smallest squared distance, lowest index that reaches it) of every record, in Python
    integers.
    """
    return [
        min(
            (sum((int(a) - int(b)) ** 2 for a, b in zip(x, c, strict=True)), j)
            for j, c in enumerate(centroids)
        )
        for x in X
    ]


def test_the_centre_of_a_square_of_side_two_is_at_squared_distance_two_from_every_corner() -> None:
    assert metrics.wcss(SQUARE, [[1, 1]]) == 8.0
    assert metrics.nicv(SQUARE, [[1, 1]]) == 2.0


def test_two_centroids_share_the_square_and_the_third_is_empty() -> None:
    centroids = [[0, 1], [50, 50], [2, 1]]
    assert metrics.assign(SQUARE, centroids).tolist() == [0, 0, 2, 2]
    assert metrics.nicv(SQUARE, centroids) == 1.0
    assert metrics.n_empty_clusters(SQUARE, centroids) == 1


def test_a_tie_goes_to_the_lowest_index() -> None:
    assert metrics.assign([[0.0], [1.0]], [[2.0], [0.0], [0.0]]).tolist() == [1, 0]


def test_matching_undoes_the_order_of_centroids() -> None:
    reference = [[0, 0], [10, 0], [0, 10]]
    centroids = [[0, 11], [1, 0], [10, 2]]  # squared distances 1, 1 and 4 once matched
    assert metrics.matched_centroid_mse(centroids, reference) == 2.0


def test_matching_makes_the_mean_smallest_and_not_the_nearest_pair() -> None:
    # Nearest pair first: 1 to 0 and -10 to 3, 1 + 169. The other way round: 4 + 100.
    assert metrics.matched_centroid_mse([[1.0], [-10.0]], [[0.0], [3.0]]) == 52.0


@given(problems())
def test_labels_wcss_and_empty_clusters_equal_brute_force(problem: tuple[Matrix, Matrix]) -> None:
    X, centroids = problem
    oracle = brute_force(X, centroids)
    assert metrics.assign(X, centroids).tolist() == [label for _, label in oracle]
    assert metrics.wcss(X, centroids) == sum(squared for squared, _ in oracle)
    assert metrics.nicv(X, centroids) == sum(squared for squared, _ in oracle) / len(X)
    assert metrics.n_empty_clusters(X, centroids) == len(centroids) - len(
        {label for _, label in oracle}
    )


@given(problems(), st.integers(1, 20))
def test_the_size_of_blocks_changes_nothing(problem: tuple[Matrix, Matrix], cells: int) -> None:
    whole = metrics.wcss(*problem), metrics.assign(*problem).tolist()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metrics, "_BLOCK_CELLS", cells)
        assert (metrics.wcss(*problem), metrics.assign(*problem).tolist()) == whole


@given(problems(), st.randoms(use_true_random=False))
def test_wcss_does_not_depend_on_order_and_no_further_centroid_raises_it(
    problem: tuple[Matrix, Matrix], shuffler: Random
) -> None:
    X, centroids = problem
    records, rows = list(X), list(centroids)
    shuffler.shuffle(records)
    shuffler.shuffle(rows)
    assert metrics.wcss(records, rows) == metrics.wcss(X, centroids)
    assert metrics.wcss(X, [*centroids, X[0]]) <= metrics.wcss(X, centroids)


@given(st.integers(1, 5), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_matched_error_equals_the_best_of_all_permutations(k: int, d: int, seed: int) -> None:
    A, B = np.random.default_rng(seed).integers(-9, 10, (2, k, d)).astype(np.float64)
    best = min(((A[list(order)] - B) ** 2).sum() for order in itertools.permutations(range(k)))
    assert metrics.matched_centroid_mse(A, B) == best / k
    assert metrics.matched_centroid_mse(A[::-1], B) == best / k


def test_small_distances_far_from_the_origin_are_not_lost() -> None:
    # By |x|^2 - 2xc + |c|^2 the terms are about 1e16, whose float64 spacing is 2: the answer would
    # be 0 or worse.
    assert metrics.wcss([[1e8 + 0.5]], [[1e8]]) == 0.25


def test_memory_does_not_grow_with_records_times_clusters() -> None:
    # All distances at once would take 200_000 * 64 * 8 bytes = 102 MB, and all differences 8 times
    # as much [W32].
    rng = np.random.default_rng(0)
    X, centroids = rng.normal(size=(200_000, 8)), rng.normal(size=(64, 8))
    tracemalloc.start()
    try:
        metrics.nicv(X, centroids)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16e6


def test_numbers_of_any_width_are_read_and_booleans_are_0_and_1() -> None:
    for dtype in (np.int8, np.uint16, np.float32, np.int64):
        assert metrics.wcss(np.array(SQUARE, dtype=dtype), np.array([[1, 1]], dtype=dtype)) == 8.0
    yes = np.array(SQUARE, dtype=bool)
    assert metrics.wcss(yes, [[1, 1]]) == metrics.wcss(yes.astype(float), [[1, 1]])


def test_frames_whose_columns_stand_in_another_order_are_refused() -> None:
    pd: Any = pytest.importorskip("pandas")
    X, centroids = pd.DataFrame(SQUARE, columns=["a", "b"]), pd.DataFrame({"b": [1], "a": [1]})
    for call in (
        lambda: metrics.wcss(X, centroids),
        lambda: metrics.assign(X, centroids),
        lambda: metrics.matched_centroid_mse(X[:1], centroids),
    ):
        with pytest.raises(DataError) as refused:
            call()
        assert refused.value.code == "another-order"
    assert metrics.wcss(X, centroids[["a", "b"]]) == metrics.wcss(X, [[1, 1]]) == 8.0


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.__name__)
@pytest.mark.parametrize(
    ("X", "centroids", "sentence"),
    [
        ([1.0, 2.0], [[1.0]], "must be a matrix"),
        (np.zeros((2, 2, 2)), [[1.0, 1.0]], "must be a matrix"),
        (np.zeros((0, 2)), [[1.0, 1.0]], "at least one row"),
        ([[1.0]], np.zeros((0, 1)), "at least one row"),
        (np.zeros((3, 0)), np.zeros((3, 0)), "at least one row and one column"),
        ([[1.0, 2.0]], [[1.0, 2.0, 3.0]], "features|same shape"),
        ([[1.0], [1.0, 2.0]], [[1.0]], "different lengths"),
        ([["SECRET123"]], [[1.0]], "(X|centroids) holds text"),
        ([[1j]], [[1.0]], "(X|centroids) holds complex"),
        (np.array([[None]]), [[1.0]], "(X|centroids) holds nothing"),
        ([[1e200]], [[-1e200]], "range of float64"),
        ([[1.7e308]], [[-1.7e308]], "range of float64"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence(
    metric: Callable[..., object], X: npt.ArrayLike, centroids: npt.ArrayLike, sentence: str
) -> None:
    with pytest.raises(DataError, match=sentence) as refused:
        metric(X, centroids)
    assert "SECRET123" not in str(refused.value)


def test_a_sum_beyond_float64_is_refused_although_each_term_is_finite() -> None:
    with pytest.raises(DataError, match="range of float64"):
        metrics.wcss([[1.2e154]] * 3, [[0.0]])
    with pytest.raises(DataError, match="range of float64"):
        metrics.matched_centroid_mse([[1.2e154], [-1.2e154]], [[0.0], [0.0]])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.__name__)
def test_w31_a_metric_refuses_what_it_is_not_defined_for_instead_of_returning_nan(
    metric: Callable[..., object], bad: float
) -> None:
    for X, centroids in ([[1.0], [bad]], [[1.0], [2.0]]), ([[1.0], [2.0]], [[bad], [1.0]]):
        with pytest.raises(DataError, match="NaN or infinity"):
            metric(X, centroids)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.__name__)
def test_w31_every_metric_says_that_it_is_exact_and_never_private(
    metric: Callable[..., object],
) -> None:
    documentation = " ".join((metric.__doc__ or "").split())
    assert "Exact on raw data, NEVER private" in documentation


def test_there_are_metrics_to_check() -> None:
    assert {metric.__name__ for metric in METRICS} >= {
        "assign",
        "matched_centroid_mse",
        "n_empty_clusters",
        "nicv",
        "wcss",
    }
