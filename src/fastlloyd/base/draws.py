"""Public random numbers, normal ones among them: for synthetic records, and for work on answers that are noisy already.

NumPy keeps no stream of its generators from one version to the next, so words come from the public stream that also places
initial centroids. What is made of them in floating point may differ in the last place between machines. Never for noise.
"""

from __future__ import annotations

import math

import numpy as np

from fastlloyd.base.arrays import FloatArray, IntArray
from fastlloyd.base.randomness import PublicSeed, PublicStream


class Draws:
    """Independent random numbers that follow from a public seed and a label alone; each call takes the next ones.

    No two purposes share a label: what is drawn for one must say nothing about the other.
    """

    def __init__(self, seed: PublicSeed, label: bytes) -> None:
        self._stream = PublicStream(seed, label)

    def integers(self, low: int, high: int, size: int) -> IntArray:
        """Exactly uniform integers (size,) in [low, high], both ends included."""
        return self._stream.integers(np.full(size, low), high)

    def uniform(self, low: float | FloatArray, high: float | FloatArray, shape: tuple[int, ...]) -> FloatArray:
        """Uniform numbers in [low, high], of the given shape: midpoints of 2^52 cells, so that neither 0 nor 1 is scaled.

        low, high : numbers, or arrays that broadcast to the shape (the corners of a box, for points as rows).
        """
        cells = self._stream.words(math.prod(shape)) >> np.uint64(12)
        unit = (cells.astype(np.float64) + 0.5) * 2.0**-52
        return np.asarray(low + (high - low) * unit.reshape(shape), dtype=np.float64)

    def normal(self, shape: tuple[int, ...]) -> FloatArray:
        """Standard normal numbers of the given shape, by inversion; none beyond 8.3."""
        from scipy.special import ndtri

        return np.asarray(ndtri(self.uniform(0.0, 1.0, shape)), dtype=np.float64)

    def permutation(self, n: int) -> IntArray:
        """The numbers 0, ..., n - 1 in random order."""
        return np.argsort(self._stream.words(n), kind="stable")

    def rotation(self, d: int) -> FloatArray:
        """Random orthogonal matrix (d, d), uniform (Haar): QR of a normal matrix, with the signs that make it unique."""
        q, r = np.linalg.qr(self.normal((d, d)))
        return np.asarray(q * np.copysign(1.0, np.diag(r)), dtype=np.float64)
