"""From noisy votes to weights of candidates: shrunk towards what was to be expected, none negative, all together N."""

import numpy as np

from fastlloyd.clustering.domain import FloatArray
from fastlloyd.mechanisms.moment_lloyd.noisy import Noisy

SURE = 4.0  # deviations of the noise: one candidate in 30,000 has as much of noise alone


def weights(votes: Noisy, expected: FloatArray, n: float) -> FloatArray:
    """Weights of candidates, float64 (m,), which sum up to n.

    Where most of the histogram is signal, the largest entries up to n records are kept as they are; elsewhere the histogram is
    brought to the nearest one that is possible.
    """
    h, factor = shrunk(votes, expected)
    return largest(h, n) if factor > 0.5 else projection(h, n)


def shrunk(votes: Noisy, expected: FloatArray) -> tuple[FloatArray, float]:
    """Votes shrunk towards the expected ones by James and Stein's factor, and that factor, 0 to 1."""
    h = votes.values.ravel()
    excess = h - expected
    factor = max(0.0, 1 - len(h) * votes.deviation**2 / max(float(excess @ excess), 1e-300))
    return expected + factor * excess, factor


def largest(h: FloatArray, n: float) -> FloatArray:
    """The largest entries, until they sum up to n; the last one is cut."""
    order = np.argsort(-h, kind="stable")
    positive = np.maximum(h[order], 0.0)
    before = np.concatenate([[0.0], np.cumsum(positive)[:-1]])
    w = np.zeros_like(h)
    w[order] = np.clip(n - before, 0.0, positive)
    return w


def projection(h: FloatArray, n: float) -> FloatArray:
    """The nearest point of {w >= 0, sum w = n}."""
    descending = np.sort(h)[::-1]
    excess = (np.cumsum(descending) - n) / np.arange(1, len(h) + 1)
    return np.asarray(np.maximum(h - excess[np.flatnonzero(descending >= excess)[-1]], 0.0))


def outstanding(votes: Noisy, n: float) -> FloatArray:
    """Votes of more than four deviations of their noise, the others 0; together at most half of n."""
    h = votes.values.ravel()
    w = np.where(h > SURE * votes.deviation, h, 0.0)
    return np.asarray(w * min(1.0, 0.5 * n / max(float(w.sum()), 1e-300)))
