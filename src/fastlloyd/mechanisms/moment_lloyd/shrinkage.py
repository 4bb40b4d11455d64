"""Noisy counts and moves, shrunk by what is known of their noise (step 4 of docs/momentlloyd.md)."""

import numpy as np

from fastlloyd.clustering.domain import FloatArray
from fastlloyd.mechanisms.moment_lloyd.noisy import Noisy

# Few moves tell little of how much moves vary, and to move too little costs more than to move too far: what is found is raised
# towards what is likely, never lowered (docs/results/momentlloyd-evidence.md, Constants)
LIKELY = 1.5  # variances of their noise
LIKELY_WEIGHT = 8.0  # as if seen in so many coordinates


def sizes(counts: Noisy, n: float) -> FloatArray:
    """Records per cluster: noisy counts moved to sum up to n, shrunk towards n / k (James and Stein), with a floor."""
    noisy, sigma = counts.values.ravel(), counts.deviation
    k = len(noisy)
    excess = noisy - noisy.mean()
    squared = float(excess @ excess)
    factor = max(0.0, 1 - (k - 1) * sigma**2 / squared) if squared else 0.0
    return np.asarray(np.maximum(n / k + factor * excess, max(1.0, 0.5 * min(sigma, n / k))))


def shrunk(moves: FloatArray, variances: FloatArray, sizes: FloatArray, dimensions: int, most: float) -> FloatArray:
    """Moves (k, .) that lie in so many dimensions, each times tau / (tau + variance): empirical Bayes, tau pooled.

    variances : (k,), of the noise in each coordinate of a move. sizes : (k,), the weights of clusters in tau. most : tau is no
    larger; the mean offset of records is no longer than offsets are.
    """
    if dimensions == 0:
        return np.zeros_like(moves)
    weights, n = sizes / sizes.sum(), len(moves) * dimensions
    found = float(weights @ np.maximum((moves**2).sum(axis=1) / dimensions - variances, 0.0))
    likely = LIKELY * float(weights @ variances)
    tau = min(max(found, (n * found + LIKELY_WEIGHT * likely) / (n + LIKELY_WEIGHT)), most)
    return np.asarray(moves * (tau / np.maximum(tau + variances, 1e-300))[:, None])
