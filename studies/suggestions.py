"""How often do noisy votes suggest the number of clusters that the silhouette of the records has?
On public data sets.

    python -m studies.suggestions [--runs N] [--write]

Needs FASTLLOYD_DATA; takes two minutes. `--write` puts the table into docs/results/suggestions.md.
Noise is repeatable and measures are exact: NOT PRIVATE.
"""

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from benchmarks.report import as_table, write_section
from sklearn.cluster import KMeans

from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain, Scaling
from fastlloyd.evaluation.datasets import load
from fastlloyd.evaluation.metrics import SilhouetteSample, silhouette
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.mechanisms.catalogue import design
from fastlloyd.mechanisms.central import cluster
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD
from fastlloyd.mechanisms.settings import Settings
from fastlloyd.mechanisms.suggestion import suggested_n_clusters
from fastlloyd.testing import SeededNoise, repeatable_noise

PAGE = Path(__file__).parents[1] / "docs" / "results" / "suggestions.md"
G2 = [f"g2-{d}-{deviation}" for d in (2, 4, 8, 16, 32) for deviation in (30, 50, 70)]
ALONE = {name: [name] for name in ("s1", "house", "breast", "lsun", "adult", "yeast")}
SETS = ALONE | {f"{len(G2)} of G2": G2}
EPSILONS, RUNS, MOST, MOST_OF_S1, SAMPLE = (3.0, 1.0), 20, 10, 20, 4000
FIRST_SEED = (
    100  # others than those that the constants of `mechanisms/suggestion.py` were chosen with
)
Pair = tuple[int, int | None]


def compared(name: str, runs: int) -> dict[float, list[Pair]]:
    """By epsilon, the number that records have without noise and, of each run planned for the most
    clusters, that of votes.
    """
    X = np.asarray(load(name).values, dtype=np.float64)
    most = MOST_OF_S1 if name == "s1" else MOST
    domain = Domain.of_bounds(
        [f"x{i}" for i in range(X.shape[1])],
        X.min(axis=0),
        X.max(axis=0),
        scaling=Scaling.PER_FEATURE,
    )
    grid = domain.to_grid(X)
    exact = without_noise(grid / 2**domain.fraction_bits, most)
    return {
        epsilon: [(exact, suggested(domain, grid, most, epsilon, run)) for run in range(runs)]
        for epsilon in EPSILONS
    }


def without_noise(X: np.ndarray[tuple[int, int], np.dtype[np.float64]], most: int) -> int:
    """The number of clusters whose k-means has the largest silhouette."""
    sample = SilhouetteSample.of(X, n_records=SAMPLE)
    fits = {
        k: KMeans(k, n_init=5, random_state=0).fit(X).cluster_centers_ for k in range(2, most + 1)
    }
    return max(fits, key=lambda k: silhouette(X, fits[k], sample))


def suggested(
    domain: Domain,
    grid: np.ndarray[tuple[int, int], np.dtype[np.int32]],
    most: int,
    epsilon: float,
    run: int,
) -> int | None:
    """What the votes of one run suggest."""
    seed = PublicSeed.from_int(FIRST_SEED + run)
    n = len(grid)
    m = design(
        Settings(
            algorithm=MOMENTLLOYD,
            domain=domain,
            n_clusters=most,
            n_records=n,
            epsilon=epsilon,
            public_seed=seed,
        )
    )
    found = cluster(m, LocalRecords(domain, grid), SeededNoise(FIRST_SEED + run))
    return suggested_n_clusters(found.votes, most, seed)


def cell(pairs: Sequence[Pair]) -> str:
    """Shares of the runs: the same number, off by one or two, off by more, no answer."""
    offs = [None if votes is None else abs(votes - exact) for exact, votes in pairs]
    counts = [
        sum(off == 0 for off in offs),
        sum(off in (1, 2) for off in offs),
        0,
        offs.count(None),
    ]
    counts[2] = len(pairs) - sum(counts)
    return " / ".join(f"{100 * count / len(pairs):.0f}" for count in counts)


def table(results: dict[str, Iterable[dict[float, list[Pair]]]]) -> str:
    """A line for each data set, or family of them."""
    lines = []
    for name, found in results.items():
        each = list(found)
        exact = sorted({pairs[0][0] for one in each for pairs in one.values()})
        by_epsilon = [cell([pair for one in each for pair in one[epsilon]]) for epsilon in EPSILONS]
        lines.append([name, ", ".join(map(str, exact)), *by_epsilon])
    return as_table(
        ["records", "without noise", *(f"epsilon {epsilon:g}" for epsilon in EPSILONS)],
        "lrrr",
        lines,
    )


def main() -> None:
    """Run all, and print the table or write it."""
    parser = argparse.ArgumentParser(
        prog="studies.suggestions", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    with repeatable_noise():
        text = table(
            {name: [compared(each, options.runs) for each in sets] for name, sets in SETS.items()}
        )
    if options.write:
        write_section("suggestions", text, PAGE)
    else:
        print(text)


if __name__ == "__main__":
    main()
