"""Time that one record more with many candidates adds to a pass, where bytes propose the nearest
centroid.

`python -m benchmarks.candidates` writes its section of docs/results/performance.md. The unit is the
time of an ordinary record in the same pass. The records are planted: ordinary ones lie at
centroids. The others lie halfway between all centroids, at distances that bytes cannot tell apart.
Some of them are told apart by float32, and the rest are ties of all centroids.
"""

import sys
import time

import numpy as np

from benchmarks.report import as_table, machine, publish
from fastlloyd.base.arrays import IntArray
from fastlloyd.base.compiling import is_compiled
from fastlloyd.clustering.eight_bits import EightBits, is_exact

SHAPES = [(256, 64), (1000, 64), (256, 128), (500, 784), (1000, 784), (4000, 784)]
COUNTS = (0, 1, 7, 8, 13, 14, 60)  # of records with many candidates in a block
ROWS = 512  # of a block
REPETITIONS = 201
B = 1 << 14  # largest coordinate of a record


def table() -> str:
    """Return a table with a row for each shape."""
    headings = ["clusters, features", "kind", "first", "each of 7", "eighth", "14th", "each of 60"]
    rows = [row(k, d, is_tie=tie) for k, d in SHAPES for tie in (False, True)]
    return f"{machine()}.\n\n{as_table(headings, 'llrrrrr', rows)}"


def row(k: int, d: int, *, is_tie: bool) -> list[str]:
    """Return the cells of a row. The last five are in ordinary records."""
    generator = np.random.default_rng(0)
    C = generator.choice(np.array([-B // 4, B // 4]), (k, d))
    search = EightBits(C, np.inf, largest=B, block_rows=ROWS)
    ordinary = C[generator.integers(0, k, ROWS)] + generator.integers(-50, 51, (ROWS, d))
    crowded = 0 if is_tie else generator.integers(-9, 10, (ROWS, d))
    passes = [planted(ordinary, crowded, count) for count in COUNTS]
    seconds = np.empty((REPETITIONS, len(COUNTS)))
    for line in seconds:
        for i in generator.permutation(len(COUNTS)):  # lest one always follows the same other
            line[i] = spent(search, passes[i])
    t = dict(zip(COUNTS, np.quantile(seconds, 0.25, axis=0), strict=True))
    one = t[0] / ROWS
    added = [t[1] - t[0], (t[7] - t[0]) / 7, t[8] - t[7], t[14] - t[13], (t[60] - t[0]) / 60]
    kind = "all tie" if is_tie else "float32 tells"
    return [f"{k:,}, {d}", kind, *(f"{each / one:.0f}" for each in added)]


def planted(ordinary: IntArray, crowded: IntArray | int, count: int) -> np.ndarray:
    """Return a block of records of which `count` have many candidates."""
    places = np.linspace(0, len(ordinary) - 1, count).astype(int)
    is_crowded = np.zeros((len(ordinary), 1), dtype=bool)
    is_crowded[places] = True
    return np.where(is_crowded, crowded, ordinary).astype(np.int32)


def spent(search: EightBits, Z: np.ndarray) -> float:
    """Return the CPU seconds of one pass."""
    began = time.thread_time()
    for _ in search.labels(Z, 0, len(Z)):
        pass
    return time.thread_time() - began


def main() -> int:
    """Measure, print the table, and write the page. Return the exit code."""
    if not (is_compiled(1 << 40) and is_exact()):
        print("this processor has no products of bytes")
        return 1
    publish("candidates", table())
    return 0


if __name__ == "__main__":
    sys.exit(main())
