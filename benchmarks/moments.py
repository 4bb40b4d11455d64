"""Whole fits of MomentLloyd beside FastLloyd's of the same shape and budget, and beside the pass that a histogram costs."""

from typing import Any

import numpy as np

from benchmarks.central import problem
from benchmarks.report import Row
from benchmarks.timing import paired
from fastlloyd import FastLloyd, MomentLloyd
from fastlloyd.clustering import kernels

DELTA = 1e-8
WITHOUT_HISTOGRAM = ((100_000, 128, 32, 0.1), (200_000, 500, 16, 0.2))  # N, k, d, epsilon
WITH_HISTOGRAM = ((100_000, 2, 2, 1.0), (100_000, 15, 2, 1.0), (100_000, 10, 8, 1.0), (1_000_000, 10, 16, 1.0))
MANY_FEATURES = (10_000, 10, 784, 1.0)


def rows(repetitions: int) -> list[Row]:
    """All of them. Raises ValueError if a shape does not ask for what it stands for."""
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
