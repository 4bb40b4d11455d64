"""Times of whole fits of both algorithms: with a design that the process made before, and with a
fresh design for each fit.
"""

import warnings
from collections.abc import Callable, Iterator
from itertools import count, repeat

import numpy as np

from benchmarks.report import as_table, milliseconds
from benchmarks.rivals import SHAPE, mixture
from benchmarks.sides import Array
from benchmarks.timing import Spent, in_turn, spent
from fastlloyd import FastLloyd, MomentLloyd
from fastlloyd.base.compiling import is_compiled
from fastlloyd.base.jit import WORTH_COMPILING, pays
from fastlloyd.clustering.compiled.public_kmeans import add_centroids, lloyd_steps
from fastlloyd.errors import NoisyResultWarning

SHAPES = [
    (1_000_000, 10, 16), (100_000, 10, 8), (10_000, 10, 784), (10_000, 5, 5), (3_000, 5, 5),
    (1_000, 5, 5), (300, 3, 4),
]  # fmt: skip
REPETITIONS = 7
Algorithm = type[FastLloyd] | type[MomentLloyd]


def table() -> str:
    """Return a table of median wall and CPU times, once all functions are compiled."""
    assert is_compiled(1 << 40)
    assert pays(WORTH_COMPILING, add_centroids, lloyd_steps)
    rows = []
    for n, k, d in SHAPES:
        X, _ = mixture(n, k, d)
        fits = [
            fit(algorithm, X, k, designs)
            for algorithm in (FastLloyd, MomentLloyd)
            for designs in (repeat(0), count(1))
        ]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NoisyResultWarning)
            medians = np.median(in_turn(fits, REPETITIONS), axis=0)
        rows.append([f"{n:,}, {k}, {d}", *map(milliseconds, medians)])
    headings = [
        f"{name}, ms"
        for name in ("FastLloyd", "with a fresh design", "MomentLloyd", "with a fresh design")
    ]
    return as_table([SHAPE, *headings], "lrrrr", rows)


def fit(algorithm: Algorithm, X: Array, k: int, designs: Iterator[int]) -> Callable[[int], Spent]:
    """Return a function that takes a number of times to fit, and returns the time of a fit.

    designs : numbers of designs, one for each fit. A design has its own public seed and its own cap
        on the number of records.
    """

    def once() -> object:
        i = next(designs)
        return algorithm(
            k, epsilon=1.0, bounds=(-1.0, 1.0), n_records=len(X) + i, random_state=i
        ).fit(X)

    return lambda times: spent(once, times)
