"""The whole central estimator beside scikit-learn's `KMeans` with as many iterations from the same start."""

import warnings

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from benchmarks.report import Row
from benchmarks.timing import paired
from fastlloyd import FastLloyd
from fastlloyd.base.arrays import FloatArray

SHAPE = (1_000_000, 10, 16)
T = 5


def rows(repetitions: int) -> list[Row]:
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
    return [
        Row(name, f"sklearn KMeans.fit(max_iter={T}, n_init=1, init=array)", paired(lambda: ours.fit(X), fit_peer, repetitions))
    ]


def problem(n: int, k: int, d: int) -> tuple[FloatArray, FloatArray]:
    """Records around k centres, which start somewhere else: after T iterations nothing has converged."""
    rng = np.random.default_rng(0)
    centres = rng.uniform(-0.8, 0.8, (k, d))
    X = np.clip(centres[rng.integers(0, k, n)] + rng.normal(0, 0.3, (n, d)), -1, 1)
    return X, rng.uniform(-0.8, 0.8, (k, d))
