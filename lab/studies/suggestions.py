"""Study of how often the clearest split of noisy votes is right, on synthetic and public data.

    python -m studies.suggestions [--runs N] [--write]

The study needs FASTLLOYD_DATA, and takes a quarter of an hour. `--write` writes the tables of
docs/results/suggestions.md. Noise is repeatable and measures are exact: NOT PRIVATE.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans

from benchmarks.report import as_table, publish
from benchmarks.runs import settings_of
from fastlloyd.base.arrays import FloatArray
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain, Scaling
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.mechanisms.catalogue import design
from fastlloyd.mechanisms.central import cluster
from fastlloyd.mechanisms.suggestion import Split, clearest_split
from fastlloyd.testing import SeededNoise, repeatable_noise
from fastlloyd_lab.datasets import load
from fastlloyd_lab.partitions import SilhouetteSample, silhouette
from studies.split_kinds import KINDS, Kind

PAGE = Path(__file__).parents[2] / "docs" / "results" / "suggestions.md"
ALONE = {name: [name] for name in ("s1", "house", "breast", "lsun", "adult", "yeast")}
SETS = ALONE | {
    f"G2, deviation {deviation}": [f"g2-{d}-{deviation}" for d in (2, 4, 8, 16, 32)]
    for deviation in (30, 50, 70)
}
EPSILONS, FEATURES, RUNS, MOST, MOST_OF_MANY, SAMPLE = (3.0, 1.0), (2, 8), 20, 10, 20, 4000
MANY = {"s1", "15 groups"}
# others than those that the constants of `mechanisms/suggestion.py` were chosen with
FIRST_SEED = 1000


def fitted(
    X: FloatArray, lower: FloatArray, upper: FloatArray, k: int, epsilon: float, run: int
) -> Split | None:
    """Return the split that the votes of one run show, or None if the votes do not decide."""
    names = [f"x{i}" for i in range(X.shape[1])]
    domain = Domain.of_bounds(names, lower, upper, scaling=Scaling.PER_FEATURE)
    seed = FIRST_SEED + run
    m = design(settings_of(domain, k, len(X), epsilon=epsilon, seed=seed))
    found = cluster(m, LocalRecords(domain, domain.to_grid(X)), SeededNoise(seed))
    return clearest_split(found.votes, k, PublicSeed.from_int(seed))


def of_kind(kind: Kind, d: int, epsilon: float, runs: int) -> Iterator[Split | None]:
    """Yield the splits of several fits of synthetic records. Each fit has new records."""
    k = MOST_OF_MANY if kind.name in MANY else MOST
    for run in range(runs):
        X = kind.records(np.random.default_rng([FIRST_SEED, run, d, kind.n_groups]), d)
        yield fitted(X, np.full(d, -1.0), np.full(d, 1.0), k, epsilon, run)


def of_set(name: str, epsilon: float, runs: int) -> Iterator[Split | None]:
    """Yield the splits of several fits of a public data set."""
    X, k = values(name)
    for run in range(runs):
        yield fitted(X, X.min(axis=0), X.max(axis=0), k, epsilon, run)


def values(name: str) -> tuple[FloatArray, int]:
    """Return the records of a public data set, and the largest number of groups that is
    considered.
    """
    return np.asarray(load(name).values, dtype=np.float64), MOST_OF_MANY if name in MANY else MOST


def without_noise(name: str) -> int:
    """Return the number of clusters for which k-means without noise has the largest silhouette."""
    X, most = values(name)
    ends = X.min(axis=0), X.max(axis=0)
    X = 2 * (X - ends[0]) / np.maximum(ends[1] - ends[0], 1e-300)
    sample = SilhouetteSample.of(X, n_records=SAMPLE)
    fits = {
        k: KMeans(k, n_init=5, random_state=0).fit(X).cluster_centers_ for k in range(2, most + 1)
    }
    return max(fits, key=lambda k: silhouette(X, fits[k], sample))


def cell(splits: Sequence[Split | None], n_groups: int) -> str:
    """Return five percentages of the fits, as text: n_groups is the clearest split, n_groups is the
    finer split, another number, no clear groups, and no answer.
    """
    said = [split for split in splits if split is not None]
    counts = [
        sum(split.clearest == n_groups for split in said),
        sum(split.finer == n_groups for split in said),
        0,
        sum(split.clearest is None for split in said),
        len(splits) - len(said),
    ]
    counts[2] = len(splits) - sum(counts)
    return " / ".join(f"{100 * count / len(splits):.0f}" for count in counts)


def of_kinds(runs: int) -> str:
    """Return the Markdown table of synthetic records."""
    lines = [
        [
            kind.name,
            "none" if kind.n_groups == 1 else str(kind.n_groups),
            str(d),
            *(cell(list(of_kind(kind, d, epsilon, runs)), kind.n_groups) for epsilon in EPSILONS),
        ]
        for kind in KINDS
        for d in FEATURES
    ]
    return as_table(
        ["records", "groups", "features", *(f"epsilon {epsilon:g}" for epsilon in EPSILONS)],
        "lrrrr",
        lines,
    )


def of_sets(runs: int) -> str:
    """Return the Markdown table of public data sets. Some of its rows stand for several sets."""
    lines = []
    for name, sets in SETS.items():
        (n_groups,) = {without_noise(one) for one in sets}
        cells = [
            cell([split for one in sets for split in of_set(one, epsilon, runs)], n_groups)
            for epsilon in EPSILONS
        ]
        lines.append([name, str(n_groups), *cells])
    return as_table(
        ["records", "without noise", *(f"epsilon {epsilon:g}" for epsilon in EPSILONS)],
        "lrrr",
        lines,
    )


def main() -> None:
    """Run all fits, and print the tables or write them."""
    parser = argparse.ArgumentParser(
        prog="studies.suggestions", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    for name, table in (("kinds", of_kinds), ("sets", of_sets)):
        with repeatable_noise():
            text = table(options.runs)
        publish(name, text, PAGE, write=options.write)


if __name__ == "__main__":
    main()
