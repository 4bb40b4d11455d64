"""Study of persons with several rows: shares compared with other ways to protect a person, on six
kinds of people.

    python -m studies.persons [--runs N] [--write]

At full size, the study takes some minutes. `--write` writes docs/results/persons.md. People and
noise are repeatable and measures are exact: NOT PRIVATE.
"""

import argparse
import math
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans

from benchmarks.report import as_table, publish
from benchmarks.runs import settings_of
from fastlloyd.base.arrays import FloatArray, IntArray
from fastlloyd.base.version import __version__
from fastlloyd.clustering.domain import Domain
from fastlloyd.dp.gdp import gdp_epsilon, gdp_mu
from fastlloyd.mechanisms.answering import LocalRecords, SharedRecords
from fastlloyd.mechanisms.catalogue import design
from fastlloyd.mechanisms.central import cluster
from fastlloyd.mechanisms.persons import Persons
from fastlloyd.testing import SeededNoise, repeatable_noise

PAGE = Path(__file__).parents[2] / "docs" / "results" / "persons.md"
N_PERSONS, MOST_ROWS, D, K, EPSILON, DELTA = 1000, 20, 4, 5, 1.0, 1e-5
RUNS = 40
DOMAIN = Domain(features=tuple("abcd"), lower=(-1.0,) * D, upper=(1.0,) * D)
# deviation of a group in each feature, in half widths of the bounds
SPREADS = {"compact": 0.08, "wide": 0.15}
APART = 0.6  # of the centres of groups, at least


@dataclass(frozen=True)
class People:
    """Rows of several persons.

    X : rows (n, D).
    owners : index of each row's person, (n,).
    """

    X: FloatArray
    owners: IntArray

    @property
    def weights(self) -> FloatArray:
        """Weight of each row, (n,): 1 / m for a person with m rows."""
        return np.asarray(1 / np.bincount(self.owners)[self.owners])


def groups(rng: np.random.Generator) -> FloatArray:
    """Return K random centres (K, D), more than `APART` from each other."""
    while True:
        centres: FloatArray = rng.uniform(-0.75, 0.75, (K, D))
        apart = np.linalg.norm(centres[:, None] - centres[None], axis=2) + 10 * np.eye(K)
        if apart.min() > APART:
            return centres


Kind = Callable[[np.random.Generator, float], People]


def people(
    rng: np.random.Generator,
    sizes: IntArray,
    spread: float,
    places: Callable[[IntArray, FloatArray], FloatArray],
) -> People:
    """Return persons with these numbers of rows.

    spread : standard deviation of each row around its place.
    places : function that returns the places of the rows (n, D), from the index of each row's
        person and the centres of the groups.
    """
    owners = np.repeat(np.arange(len(sizes)), sizes)
    of_rows = places(owners, groups(rng))
    return People(np.clip(of_rows + rng.normal(0, spread, of_rows.shape), -1, 1), owners)


def uniform(rng: np.random.Generator) -> IntArray:
    return rng.integers(1, MOST_ROWS + 1, N_PERSONS)


def faithful(rng: np.random.Generator, spread: float) -> People:
    home = rng.integers(0, K, N_PERSONS)
    return people(rng, uniform(rng), spread, lambda i, C: C[home[i]])


def themselves(rng: np.random.Generator, spread: float) -> People:
    home, own = rng.integers(0, K, N_PERSONS), rng.normal(0, spread, (N_PERSONS, D))
    return people(rng, uniform(rng), spread / 8, lambda i, C: C[home[i]] + own[i])


def everywhere(rng: np.random.Generator, spread: float) -> People:
    return people(rng, uniform(rng), spread, lambda i, C: C[rng.integers(0, K, len(i))])


def between_two(rng: np.random.Generator, spread: float) -> People:
    homes = np.array([rng.permutation(K)[:2] for _ in range(N_PERSONS)])
    return people(rng, uniform(rng), spread, lambda i, C: C[homes[i, rng.integers(0, 2, len(i))]])


def few_with_many(rng: np.random.Generator, spread: float) -> People:
    sizes = np.where(rng.random(N_PERSONS) < 0.9, rng.integers(1, 4, N_PERSONS), MOST_ROWS)
    home = rng.integers(0, K, N_PERSONS)
    return people(rng, sizes, spread, lambda i, C: C[home[i]])


def more_in_one_group(rng: np.random.Generator, spread: float) -> People:
    home = rng.integers(0, K, N_PERSONS)
    sizes = np.where(
        home == 0, rng.integers(15, MOST_ROWS + 1, N_PERSONS), rng.integers(1, 8, N_PERSONS)
    )
    return people(rng, sizes, spread, lambda i, C: C[home[i]])


KINDS: dict[str, tuple[str, Kind]] = {
    "faithful": ("all rows from one group", faithful),
    "themselves": ("all rows near to one place in a group", themselves),
    "everywhere": ("each row from any group", everywhere),
    "between two": ("rows from two groups", between_two),
    "few with many": ("one in ten has 20 rows, the others 1 to 3", few_with_many),
    "more in one group": (
        "persons of one group have 15 to 20 rows, the others 1 to 7",
        more_in_one_group,
    ),
}
Fit = Callable[[People, int], FloatArray]


def fitted(
    X: FloatArray, seed: int, mu_over: float = 1.0, owners: IntArray | None = None
) -> FloatArray:
    """Return the centroids of MomentLloyd for records, or for persons if `owners` are given.

    mu_over : number by which mu is divided. A person with this number of records then has the full
        mu.
    owners : index of each row's person, (n,), or None.
    """
    persons = None if owners is None else Persons()
    n = len(X) if owners is None else int(owners.max()) + 1
    epsilon = gdp_epsilon(gdp_mu(EPSILON, DELTA) / mu_over, DELTA)
    m = design(settings_of(DOMAIN, K, n, epsilon=epsilon, seed=seed, delta=DELTA, persons=persons))
    grid = DOMAIN.to_grid(X)
    records = (
        LocalRecords(DOMAIN, grid)
        if owners is None
        else SharedRecords.of_persons(m, grid, [b"%d" % i for i in owners])
    )
    with repeatable_noise():
        return DOMAIN.from_grid(cluster(m, records, SeededNoise(seed)).centroids)


def sampled(most: int) -> Fit:
    """Return a function that fits at most `most` random rows of each person as records. The noise
    is `most` times as large.
    """

    def fit(of: People, seed: int) -> FloatArray:
        rng = np.random.default_rng(seed)
        order = np.lexsort((rng.random(len(of.owners)), of.owners))
        sizes = np.bincount(of.owners)
        ranks = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return fitted(of.X[order[ranks < most]], seed, float(most))

    return fit


def of_means(of: People, seed: int) -> FloatArray:
    """Return the centroids of a fit in which the mean of each person's rows is one record."""
    sizes = np.bincount(of.owners)
    means = np.stack([np.bincount(of.owners, column) / sizes for column in of.X.T], axis=1)
    return fitted(means, seed)


METHODS: dict[str, Fit] = {
    "shares": lambda of, seed: fitted(of.X, seed, owners=of.owners),
    "one sampled row": sampled(1),
    "at most 2 rows, noise x 2": sampled(2),
    "at most 4 rows, noise x 4": sampled(4),
    "all rows, noise x 20": sampled(MOST_ROWS),
    "the mean as one record": of_means,
}


def loss(X: FloatArray, weights: FloatArray, centroids: FloatArray) -> float:
    return float(weights @ ((X[:, None] - centroids[None]) ** 2).sum(axis=2).min(axis=1))


def ratios(spread: str, kind: str, number: int) -> dict[str, tuple[float, float]]:
    """Return, for each method, the loss divided by the loss of k-means without noise on the same
    rows. There are two ratios: one counts each row alike, the other each person.
    """
    of = KINDS[kind][1](
        np.random.default_rng([number, list(KINDS).index(kind), list(SPREADS).index(spread)]),
        SPREADS[spread],
    )
    found = {name: fit(of, number) for name, fit in METHODS.items()}
    least = []
    for weights in (np.ones(len(of.X)), of.weights):
        plain = (
            KMeans(K, n_init=10, random_state=0).fit(of.X, sample_weight=weights).cluster_centers_
        )
        least.append((weights, loss(of.X, weights, plain)))
    # two
    return {
        name: tuple(loss(of.X, w, C) / best for w, best in least)  # type: ignore[misc]
        for name, C in found.items()
    }


# by spread, kind and number of a table
Found = dict[tuple[str, str, int], dict[str, tuple[float, float]]]


def logarithms(found: Found, spread: str, kind: str, name: str, way: int = 0) -> FloatArray:
    """Return the logarithms of one method's ratios, (n_tables,).

    way : 0 if each row counts alike, 1 if each person does.
    """
    return np.log([of[name][way] for (s, k, _), of in found.items() if (s, k) == (spread, kind)])


def over_shares(found: Found, spread: str, name: str) -> tuple[float, float]:
    """Return the loss of a method divided by the loss of shares on the same tables, as a geometric
    mean, and its standard error. Each row counts alike.
    """
    pairs = [
        logarithms(found, spread, kind, name) - logarithms(found, spread, kind, "shares")
        for kind in KINDS
    ]
    over = math.exp(float(np.mean([pair.mean() for pair in pairs])))
    return over, over * math.sqrt(sum(float(pair.var(ddof=1)) / len(pair) for pair in pairs)) / len(
        pairs
    )


def verdict(over: dict[str, tuple[float, float]]) -> str:
    """Return a sentence part with three lists of methods: those worse than shares by more than
    three standard errors, those better, and all others.
    """
    worse = [name for name, (ratio, error) in over.items() if ratio - 1 > 3 * error]
    better = [name for name, (ratio, error) in over.items() if 1 - ratio > 3 * error]
    alike = [name for name in over if name not in (*worse, *better)]
    said = {
        "worse than shares": worse,
        "better than shares": better,
        "not told apart from shares": alike,
    }
    return "; ".join(
        f"{what}: {', '.join(f'*{name}*' for name in names) or 'none'}"
        for what, names in said.items()
    )


def table(found: Found, spread: str) -> str:
    """Return a Markdown table with a row for each method: the ratios over all kinds, the loss
    compared with shares and its standard error, and the ratios of each kind.
    """
    lines = []
    for name in METHODS:
        each = [
            [float(np.exp(logarithms(found, spread, kind, name, way).mean())) for way in (0, 1)]
            for kind in KINDS
        ]
        whole = [math.exp(float(np.mean(np.log([of[way] for of in each])))) for way in (0, 1)]
        over, error = over_shares(found, spread, name)
        beside = "" if name == "shares" else f"{over:.3f} ± {error:.3f}"
        lines.append(
            [
                name,
                f"{whole[0]:.3f} / {whole[1]:.3f}",
                beside,
                *(f"{a:.2f} / {b:.2f}" for a, b in each),
            ]
        )
    return as_table(["", "all kinds", "over shares", *KINDS], "l" + "r" * (2 + len(KINDS)), lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=RUNS, help="tables of each kind")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    options = parser.parse_args()
    cells = [
        (spread, kind, number)
        for spread in SPREADS
        for kind in KINDS
        for number in range(options.runs)
    ]
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        found: Found = dict(
            zip(cells, pool.map(ratios, *zip(*cells, strict=True), chunksize=4), strict=True)
        )
    tables = "\n\n".join(
        f"Groups of deviation {deviation:g} half widths, their centres at least {APART:g}"
        f" apart:\n\n{table(found, name)}\n\nBy three standard errors,"
        f" {verdict({of: over_shares(found, name, of) for of in METHODS if of != 'shares'})}."
        for name, deviation in SPREADS.items()
    )
    kinds = "\n".join(f"- *{name}*: {what}." for name, (what, _) in KINDS.items())
    text = (
        f"Measured with fastlloyd {__version__}: {N_PERSONS:,} persons with up to {MOST_ROWS} rows"
        f" each, d = {D}, k = {K}, epsilon {EPSILON:g}, delta = {DELTA:.0e}, {options.runs} tables"
        f" of each kind:\n\n{kinds}\n\n{tables}"
    )
    publish("persons", text, PAGE, write=options.write)


if __name__ == "__main__":
    main()
