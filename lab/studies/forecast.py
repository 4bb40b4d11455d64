"""Study of whether `fastlloyd advise` forecasts the error bars of a result, and clusters with few
records.

`python -m studies.forecast` fits 40 settings ten times each and writes docs/results/forecast.md.
With `--table` it simulates and prints the table of `mechanisms/moment_lloyd/expected.py`, and the
factors of `mechanisms/lloyd/mechanism.py`. Noise is repeatable: NOT PRIVATE. The real data sets
need FASTLLOYD_DATA.

The *bar* of a feature is two standard errors, as a fraction of the width of its bounds. A run has
one bar for each feature: the median over its settled clusters.
"""

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np

from benchmarks.report import as_table, write_section
from benchmarks.runs import box, settings_of
from fastlloyd.clustering.domain import Domain, Scaling
from fastlloyd.dp.gdp import gdp_mu
from fastlloyd.jobs.forecast import Forecast
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.mechanisms.catalogue import ALGORITHMS, design
from fastlloyd.mechanisms.central import cluster
from fastlloyd.mechanisms.lloyd.mechanism import LloydMechanism
from fastlloyd.mechanisms.mechanism import Mechanism
from fastlloyd.mechanisms.moment_lloyd.expected import FEATURES, SIGNALS, TABLE, crowding
from fastlloyd.mechanisms.uncertainty import Status, Verdict, assess, noise_deviation, settled
from fastlloyd.testing import SeededNoise, repeatable_noise
from fastlloyd_lab.datasets import load
from studies.coverage_groups import (
    HIGH,
    LOW,
    FloatArray,
    Maker,
    normal,
    one,
    skewed,
    tailed,
    uniform,
)

PAGE = Path(__file__).parents[2] / "docs" / "results" / "forecast.md"
RUNS, FACTOR = 10, 1.5
EPSILONS, CLUSTERS, DEVIATIONS = (0.2, 0.5, 1.0, 2.0, 5.0), (2, 3, 4, 5, 8, 12), (3.0, 5.0, 8.0)
FEWEST, MOST = 150, 60_000  # records of a simulated set
DELTA = 1e-5
PAPERS = ("fastlloyd", "glloyd", "sulloyd")
Kind = Callable[[np.random.Generator, int, int], Maker]


def _uneven(rng: np.random.Generator, n: int, k: int) -> Maker:
    sizes = np.maximum((rng.dirichlet([2.0] * k) * n).astype(int), 2)
    return normal(sizes.tolist(), 5, float(rng.choice(DEVIATIONS)))


def _equal(apart: float) -> Kind:
    def kind(rng: np.random.Generator, n: int, k: int) -> Maker:
        return normal([n // k] * k, apart, float(rng.choice(DEVIATIONS)))

    return kind


KINDS: dict[str, Kind] = {
    "separated": _equal(6),
    "overlapping": _equal(2.5),
    "uneven": _uneven,
    "uniform": lambda rng, n, k: uniform(n),  # noqa: ARG005 - a Kind
    "one group": lambda rng, n, k: one(n),  # noqa: ARG005
    "skewed": lambda rng, n, k: skewed(k, n // k),  # noqa: ARG005
    "heavy tails": lambda rng, n, k: tailed(k, n // k),  # noqa: ARG005
}
OFTEN = (2, 2, 1, 1, 1, 1, 1)  # weights of the kinds in the table


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Forecast and outcome of one run.

    bars : bar of each feature, (d,), or None if no cluster is settled.
    mostly_few : whether most clusters have few records.
    """

    mechanism: Mechanism
    forecast: Forecast
    bars: FloatArray | None
    mostly_few: bool


@repeatable_noise()
def fit(
    X: FloatArray,
    domain: Domain,
    k: int,
    epsilon: float,
    seed: int,
    algorithm: str = "momentlloyd",
    delta: float | None = None,
) -> Fit:
    """Cluster records within public bounds, and return the forecast and the outcome. The noise
    follows from the seed.
    """
    kind, delta = ALGORITHMS[algorithm], None if algorithm == "sulloyd" else delta
    m = design(
        settings_of(domain, k, len(X), epsilon=epsilon, seed=seed, algorithm=kind, delta=delta)
    )
    clustering = cluster(m, LocalRecords(domain, domain.to_grid(X)), SeededNoise(seed))
    found = assess(m, clustering, noise_deviation(m))
    reliable = settled(found.status)
    few = [status in (Status.FEW, Status.STAYED) for status in found.status]
    bars = found.errors[reliable] / domain.units / 2**domain.fraction_bits
    return Fit(
        mechanism=m,
        forecast=Forecast.of(m),
        bars=np.median(bars, axis=0) if len(bars) else None,
        mostly_few=2 * sum(few) > k,
    )


# The table


def simulated(
    rng: np.random.Generator, features: tuple[int, int], signal: float, algorithm: str
) -> Fit:
    """Return one fit of random records and settings, in which clusters have about this signal.

    features : smallest and largest number of features.
    signal : number of records of a typical cluster times mu.
    """
    while True:
        k, epsilon = int(rng.choice(CLUSTERS)), float(rng.choice(EPSILONS))
        n = round(signal * 2 ** rng.uniform(-0.5, 0.5) * k / float(gdp_mu(epsilon, DELTA)))
        if max(FEWEST, 20 * k) <= n <= MOST:
            break
    low, high = math.log(features[0] - 0.49), math.log(features[1] + 0.49)
    d = round(math.exp(rng.uniform(low, high)))
    kind = rng.choice(list(KINDS), p=np.array(OFTEN) / sum(OFTEN))
    X = np.clip(KINDS[kind](rng, n, k)(rng, d), LOW, HIGH)
    return fit(X, box(d, LOW, HIGH), k, epsilon, int(rng.integers(2**40)), algorithm, DELTA)


def share(found: Fit) -> float:
    """Return the standard error of a typical feature, as the length of a vector of such errors,
    divided by the planned radius of a cluster. It is infinite if no cluster is settled.
    """
    m = found.mechanism
    if found.bars is None:
        return math.inf
    length = float(np.median(found.bars)) * math.sqrt(m.n_features) * 2**m.domain.fraction_bits
    return float(length / m.planned_radius)


def quantiles(shares: Sequence[float]) -> FloatArray:
    """Return the 10, 50 and 90 % quantiles over the fits with a settled cluster. They are infinite
    if fewer than an eighth of the fits have one.
    """
    finite = [each for each in shares if math.isfinite(each)]
    if len(finite) < len(shares) / 8:
        return np.full(3, math.inf)
    return np.quantile(finite, [0.1, 0.5, 0.9])


def print_table(fits: int, seed: int) -> None:
    """Simulate and print the rows of the table, and the factors of the paper's algorithms.

    fits : number of fits for each cell.
    """
    for row, features in enumerate(FEATURES):
        rng = np.random.default_rng([seed, row])
        cells = []
        for signal in SIGNALS:
            runs = [simulated(rng, features, signal, "momentlloyd") for _ in range(fits)]
            cells.append(
                quantiles([share(run) / crowding(run.mechanism.n_clusters) for run in runs])
            )
        lines = np.maximum.accumulate(np.array(cells).T[:, ::-1], axis=1)[:, ::-1]
        for line in lines:
            print(
                "(" + ", ".join("inf" if math.isinf(v) else f"{v:.3g}" for v in line) + "),",
                flush=True,
            )
    for name in PAPERS:
        rng = np.random.default_rng([seed, 99])
        runs = [
            simulated(rng, FEATURES[row % 4], signal, name)
            for signal in SIGNALS[1:5]
            for row in range(fits)
        ]
        errors = [cast("LloydMechanism", run.mechanism).noise_error() for run in runs]
        ratios = [share(run) / error for run, error in zip(runs, errors, strict=True)]
        print(name, quantiles(ratios).round(2), flush=True)


def section() -> str:
    """Return the table for the page: each cell has the median, and in brackets the range of 80 % of
    the fits.
    """
    rows = [
        [
            str(least) if least == most else f"{least} to {most}",
            *(
                "-" if math.isinf(b) else f"{100 * b:.2g} % ({100 * a:.2g} to {100 * c:.2g})"
                for a, b, c in zip(*lines, strict=True)
            ),
        ]
        for (least, most), lines in zip(FEATURES, TABLE, strict=True)
    ]
    headings = ["features", *(f"signal {signal:,.0f}" for signal in SIGNALS)]
    return as_table(headings, "l" + "r" * len(SIGNALS), rows)


# The study


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Row of the study: the settings of its fits.

    name : kind of synthetic groups, or name of a data set.
    """

    name: str
    n: int = 0
    d: int = 0
    k: int
    epsilon: float
    algorithm: str = "momentlloyd"

    def records(self, rng: np.random.Generator) -> tuple[FloatArray, Domain]:
        """Return records, and the domain with their public bounds."""
        if self.name in KINDS:
            X = KINDS[self.name](rng, self.n, self.k)(rng, self.d)
            return np.clip(X, LOW, HIGH), box(self.d, LOW, HIGH)
        X = np.asarray(load(self.name).values, dtype=np.float64)
        names = tuple(f"x{i + 1}" for i in range(X.shape[1]))
        low, high = X.min(axis=0), X.max(axis=0)
        wide = np.maximum(high, low + 1e-9)
        return X, Domain.of_bounds(names, low, wide, scaling=Scaling.PER_FEATURE)


# records, features, clusters, epsilon
# fmt: off
MADE = {
    "separated": (
        (200, 8, 5, 1.0), (12000, 8, 5, 1.0), (300, 2, 3, 1.0), (1000, 2, 4, 0.5),
        (1000, 5, 3, 1.0), (2000, 4, 5, 0.2), (3000, 3, 4, 1.0), (5000, 10, 5, 1.0),
        (5000, 16, 4, 2.0), (20000, 2, 8, 0.5), (20000, 6, 5, 1.0), (800, 20, 4, 5.0),
    ),
    "overlapping": (
        (200, 4, 4, 0.5), (600, 3, 2, 1.0), (1000, 8, 3, 1.0), (1500, 2, 5, 2.0),
        (2500, 5, 4, 0.5), (4000, 10, 5, 1.0), (8000, 3, 6, 1.0), (12000, 12, 4, 0.5),
        (20000, 5, 8, 1.0),
    ),
    "uneven": (
        (1000, 4, 4, 1.0), (4000, 6, 5, 1.0), (15000, 3, 6, 0.5),
    ),
    "uniform": (
        (3000, 3, 5, 1.0),
    ),
    "one group": (
        (5000, 4, 3, 1.0),
    ),
    "skewed": (
        (6000, 4, 4, 1.0),
    ),
    "heavy tails": (
        (6000, 3, 5, 1.0),
    ),
}
REAL = (
    ("iris", 3, 1.0), ("wine", 3, 2.0), ("breast", 2, 1.0), ("breast", 2, 5.0),
    ("lsun", 3, 1.0), ("yeast", 5, 1.0), ("yeast", 5, 5.0), ("s1", 15, 1.0),
    ("house", 3, 1.0), ("adult", 3, 1.0), ("g2-8-50", 2, 0.5), ("g2-32-70", 2, 1.0),
)
# fmt: on
SETTINGS = (
    *(
        Setting(name=name, n=n, d=d, k=k, epsilon=e)
        for name, rows in MADE.items()
        for n, d, k, e in rows
    ),
    *(Setting(name=name, k=k, epsilon=e) for name, k, e in REAL),
)


def trials(setting: Setting, runs: int) -> list[Fit]:
    """Return the runs of a setting. Synthetic groups and noise differ between runs, but records of
    real sets do not.
    """
    found = []
    for run in range(runs):
        rng = np.random.default_rng([77, SETTINGS.index(setting), run])
        X, domain = setting.records(rng)
        seed = int(rng.integers(2**40))
        found.append(fit(X, domain, setting.k, setting.epsilon, seed, setting.algorithm))
    return found


def _row(setting: Setting, runs: Sequence[Fit]) -> list[str]:
    shape = runs[0].mechanism
    bars = [run.bars for run in runs if run.bars is not None]
    first = runs[0].forecast
    return [
        setting.name,
        *map(str, (shape.n_records, shape.n_features, setting.k)),
        f"{setting.epsilon:g}",
        first.verdict.value,
        f"{sum(run.mostly_few for run in runs)} of {len(runs)}",
        f"{100 * first.bar:.2g} %" if math.isfinite(first.bar) else "-",
        f"{100 * float(np.median(np.concatenate(bars))):.2g} %" if bars else "-",
        *(
            [f"{100 * share:.0f} %" for share in _inside(runs)]
            if bars and math.isfinite(first.bar)
            else 3 * ["-"]
        ),
    ]


def _inside(runs: Sequence[Fit]) -> list[float]:
    """Return three shares of the features' bars: those within a factor of 1.5 of the forecast,
    those within 2, and those in the range of the forecast.
    """
    pairs = [(run.bars, run.forecast) for run in runs if run.bars is not None]
    tests = [
        [np.abs(np.log(bars / forecast.bar)) <= math.log(factor) for bars, forecast in pairs]
        for factor in (FACTOR, 2.0)
    ]
    tests.append([(bars >= of.bar_low) & (bars <= of.bar_high) for bars, of in pairs])
    return [float(np.mean(np.concatenate(each))) for each in tests]


def summary(runs: Sequence[Fit]) -> str:
    """Return a Markdown list with the findings over all runs."""
    told = [run for run in runs if run.forecast.verdict is not Verdict.MOSTLY_NOISE]
    agree = sum(run.mostly_few == (run.forecast.verdict is Verdict.MOSTLY_NOISE) for run in runs)
    shares = _inside(told)
    middle = np.array(
        [np.median(run.bars) / run.forecast.bar for run in told if run.bars is not None]
    )
    factors = np.exp(np.abs(np.log(middle)))
    near, twice = (np.mean(factors <= most) for most in (FACTOR, 2.0))
    verdict = (
        f"The verdict was `mostly noise` exactly if most clusters had few records in {agree} of"
        f" {len(runs)} runs."
    )
    features = (
        "Where the verdict was another one, the bar of a feature was within a factor of 1.5 of"
        f" the forecast in {shares[0]:.0%}, within 2 in {shares[1]:.0%}, and in the range of"
        f" *4 of 5 runs* in {shares[2]:.0%} of the features of all runs."
    )
    medians = (
        f"The median bar of a run was within a factor of 1.5 in {near:.0%} and within 2 in"
        f" {twice:.0%} of the runs. Nine of ten were within {np.quantile(factors, 0.9):.2g}. The"
        f" shown bar over the forecast one had the median {np.median(middle):.2f}."
    )
    return "\n".join(f"- {line}" for line in (verdict, features, medians))


HEADINGS = (
    "records", "N", "d", "k", "epsilon", "verdict", "runs with mostly few", "forecast", "shown",
    "within 1.5", "within 2", "in 4 of 5",
)  # fmt: skip


def main() -> None:
    """Do the study and write its page, or simulate the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=RUNS, help="of each setting")
    parser.add_argument("--table", action="store_true", help="print the table of the product")
    parser.add_argument("--fits", type=int, default=60, help="in each cell of the table")
    parser.add_argument("--seed", type=int, default=1, help="of the table")
    given = parser.parse_args()
    if given.table:
        print_table(given.fits, given.seed)
        return
    rows, every = [], []
    for setting in SETTINGS:
        runs = trials(setting, given.runs)
        rows.append(_row(setting, runs))
        every += runs
        print(*rows[-1], sep=" | ", flush=True)
    table = as_table(HEADINGS, "l" + "r" * 4 + "l" + "r" * 6, rows)
    write_section("forecast", f"{summary(every)}\n\n{table}\n", PAGE)
    write_section("table", section(), PAGE)
    print(summary(every))


if __name__ == "__main__":
    main()
