"""One exact iteration beside scikit-learn's dense kernel and beside plain broadcasting, on the same records."""

from collections.abc import Callable

import numpy as np
from sklearn.cluster._k_means_lloyd import lloyd_iter_chunked_dense
from sklearn.utils._openmp_helpers import _openmp_effective_n_threads

from benchmarks.report import Row
from benchmarks.timing import paired
from fastlloyd.base.arrays import IntArray
from fastlloyd.clustering import kernels, reference
from fastlloyd.clustering.domain import FEW_FEATURES, GridArray
from fastlloyd.clustering.parallel import is_compiled

SHAPES = [
    (10_000, 2, 2),
    (100_000, 2, 2),
    (100_000, 5, 5),
    (100_000, 15, 2),
    (25_000, 100, 2),
    (1_000_000, 10, 16),
    (100_000, 32, 64),
    (20_000, 26, 16),
    (10_000, 10, 784),
    (10_000, 32, 512),
]
SMALL_FOR_BROADCASTING = 50_000_000  # n k d; its array of n x k x d integers takes eight times as many bytes
B = 1 << 16


def rows(repetitions: int, shapes: list[tuple[int, int, int]] = SHAPES) -> list[Row]:
    """A row per shape and peer, with compiled code loaded, as it is after the first large computation of a process."""
    is_compiled(1 << 40)
    found = []
    for n, k, d in shapes:
        X, C, squared_radius = problem(n, k, d)
        ours = iteration(X, C, squared_radius)
        name = f"N = {n:,}, k = {k}, d = {d}"
        found.append(Row(name, "scikit-learn kernel", paired(ours, scikit_learn_iteration(X, C), repetitions)))
        if n * k * d <= SMALL_FOR_BROADCASTING:
            wide = X.astype(np.int64)
            peer = lambda X=wide, C=C, H2=squared_radius: reference.cluster_statistics(X, C, H2)  # noqa: E731 - bound now
            found.append(Row(name, "NumPy broadcasting", paired(ours, peer, repetitions)))
    return found


def problem(n: int, k: int, d: int) -> tuple[GridArray, IntArray, int]:
    """Uniform grid points in the memory order that the domain gives them, and centroids among them."""
    rng = np.random.default_rng(0)
    X = rng.integers(-B, B + 1, (n, d), dtype=np.int32)
    C = rng.integers(-B, B + 1, (k, d))
    return np.array(X, order="F" if d <= FEW_FEATURES else "C"), C, d * B**2 // 4


def iteration(X: GridArray, C: IntArray, squared_radius: int) -> Callable[[], object]:
    """Ours: exact relative sums and counts within the radius."""
    limits = np.full(X.shape[1], B)
    return lambda: kernels.cluster_statistics(X, C, squared_radius, limits=limits)


def scikit_learn_iteration(X: GridArray, C: IntArray) -> Callable[[], object]:
    """One iteration of scikit-learn's dense kernel on the same records as float64, on all cores."""
    records, centroids = np.ascontiguousarray(X, dtype=np.float64), C.astype(np.float64)
    new, weights = np.zeros_like(centroids), np.ones(len(X))
    counts, labels, shift = np.zeros(len(C)), np.full(len(X), -1, dtype=np.int32), np.zeros(len(C))
    threads = _openmp_effective_n_threads()
    return lambda: lloyd_iter_chunked_dense(records, weights, centroids, new, counts, labels, shift, threads)
