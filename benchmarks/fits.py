"""Whole fits of the estimators.

FastLloyd beside scikit-learn's `KMeans` with as many iterations from the same start; MomentLloyd beside FastLloyd of the same
shape and budget, and beside the pass that a histogram costs.
"""

import warnings
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from benchmarks.report import Row
from benchmarks.timing import paired
from fastlloyd import FastLloyd, MomentLloyd
from fastlloyd.base.arrays import FloatArray
from fastlloyd.clustering import kernels

SHAPE = (1_000_000, 10, 16)
T = 5
DELTA = 1e-8
WITHOUT_HISTOGRAM = ((100_000, 128, 32, 0.1), (200_000, 500, 16, 0.2))  # N, k, d, epsilon
WITH_HISTOGRAM = ((100_000, 2, 2, 1.0), (100_000, 15, 2, 1.0), (100_000, 10, 8, 1.0), (1_000_000, 10, 16, 1.0))
MANY_FEATURES = (10_000, 10, 784, 1.0)


def fast_lloyd(repetitions: int) -> Row:
    """`fit` with everything in it: checks, grid, T iterations with noise, labels."""
    n, k, d = SHAPE
    X, start = problem(n, k, d)
    ours = FastLloyd(k, epsilon=1.0, bounds=(-1.0, 1.0), n_records=n, n_iter=T, random_state=0)
    peer = KMeans(k, init=start, n_init=1, max_iter=T, tol=0, algorithm="lloyd")

    def fit_peer() -> object:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return peer.fit(X)

    name = f"FastLloyd.fit, N = {n:,}, k = {k}, d = {d}, T = {T}"
    peers = f"sklearn KMeans.fit(max_iter={T}, n_init=1, init=array)"
    return Row(name, peers, paired(lambda: ours.fit(X), fit_peer, repetitions))


def problem(n: int, k: int, d: int) -> tuple[FloatArray, FloatArray]:
    """Records around k centres, which start somewhere else: after T iterations nothing has converged."""
    rng = np.random.default_rng(0)
    centres = rng.uniform(-0.8, 0.8, (k, d))
    X = np.clip(centres[rng.integers(0, k, n)] + rng.normal(0, 0.3, (n, d)), -1, 1)
    return X, rng.uniform(-0.8, 0.8, (k, d))


def moment_lloyd(repetitions: int) -> list[Row]:
    """Each shape once. Raises ValueError if a shape does not ask for what it stands for."""
    return [
        *(beside(*shape, repetitions, votes=False) for shape in WITHOUT_HISTOGRAM),
        *(beside(*shape, repetitions, votes=True) for shape in WITH_HISTOGRAM),
        beside(*MANY_FEATURES, repetitions, votes=None),
    ]


def beside(n: int, k: int, d: int, epsilon: float, repetitions: int, *, votes: bool | None) -> Row:
    """Both fits; a pass over as many records, with as many centroids as there are candidates, counts for the peer.

    votes : whether the planner must, or must not, ask for a histogram; None: either.
    """
    X, _ = problem(n, k, d)
    asked: dict[str, Any] = {
        "n_clusters": k,
        "epsilon": epsilon,
        "delta": DELTA,
        "bounds": (-1.0, 1.0),
        "n_records": n,
        "random_state": 0,
    }
    ours, peer = MomentLloyd(**asked), FastLloyd(**asked)
    mechanism = ours.fit(X).mechanism_
    m, r = mechanism.n_candidates, mechanism.n_directions or d
    if votes is not None and votes != bool(m):
        raise ValueError(f"N = {n}, k = {k}, d = {d}, epsilon = {epsilon} has {m} candidates: another shape was wanted")
    peer.fit(X)
    grid = np.asfortranarray(mechanism.domain.to_grid(X)[:, :r])
    B = mechanism.domain.half_widths[:r]
    candidates = np.random.default_rng(1).integers(-B, B + 1, (m, r))

    def both() -> None:
        peer.fit(X)
        if m:
            kernels.cluster_statistics(grid, candidates, None, limits=B)

    more = f" and a pass with k = {m:,}" if m else ""
    name = f"MomentLloyd.fit, N = {n:,}, k = {k}, d = {d}, epsilon = {epsilon:g}"
    return Row(name, f"FastLloyd.fit{more}", paired(lambda: ours.fit(X), both, repetitions))
