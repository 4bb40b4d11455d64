"""How far the noise leaves MomentLloyd's centroids from the means of their records: the table
behind `fastlloyd advise`.

`python -m studies.expected_error [--fits 40]` simulates, with genuine noise, and prints the table
of `mechanisms/moment_lloyd/expected.py`; with `--write` it simulates nothing and writes a part of
the table that is there to docs/results/momentlloyd-evidence.md. Each cell holds fits of kinds of
records that differ: round clusters, clusters of unequal size, skewed ones, heavy tails, answers on
a scale; bounds as wide as the records, or 2 or 4 times as wide; 2 to 20 clusters; epsilon 0.2 to 5.
A fit's error is the median over its clusters (of two in the middle the smaller) of the distance
between the centroid and the mean of the records that are nearest to it, over the radius a cluster
is planned to have.
"""

import argparse
import math
import warnings
from statistics import median_low

import numpy as np

from benchmarks.report import as_table, write_section
from fastlloyd import MomentLloyd
from fastlloyd.dp.gdp import gdp_mu
from fastlloyd.errors import NoisyResultWarning, WeakGuaranteeWarning
from fastlloyd.mechanisms.moment_lloyd.expected import FEATURES, SIGNALS, TABLE
from studies.groups import PAGE
from studies.synthetic_groups import Case, clusters, lognormal, tails3, unbalanced, whole_numbers

MAKERS = (clusters, unbalanced, lognormal, tails3, whole_numbers)
WIDTHS, CLUSTERS, EPSILONS = (1.0, 1.0, 2.0, 4.0), (2, 3, 5, 8, 12, 20), (0.2, 0.5, 1.0, 2.0, 5.0)
FEWEST, MOST = 40, 20_000  # records
SHOWN = (2, 8, 32, 128, 512, 2048, 4096)  # signals on the page


def setting(
    rng: np.random.Generator, features: tuple[int, int], signal: float
) -> tuple[Case, float]:
    """A set whose clusters have about this signal, and an epsilon. Raises nothing: it is drawn
    until there is one.
    """
    while True:
        k, epsilon = int(rng.choice(CLUSTERS)), float(rng.choice(EPSILONS))
        n = round(signal * 2 ** rng.uniform(-0.5, 0.5) * k / float(gdp_mu(epsilon, 1e-5)))
        if max(FEWEST, 5 * k) <= n <= MOST:
            d = round(
                math.exp(rng.uniform(math.log(features[0] - 0.49), math.log(features[1] + 0.49)))
            )
            # answers of one or two features have few values
            make = MAKERS[rng.integers(len(MAKERS) - (d < 3))]
            group = f"expected error {rng.integers(10**9)}"
            return (
                Case(group=group, make=make, d=d, k=k, n=n, width=float(rng.choice(WIDTHS))),
                epsilon,
            )


def error(case: Case, epsilon: float) -> float:
    """The error of one fit; infinite where more than half of the clusters have no records."""
    X = case.problem().X
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoisyResultWarning)  # that is what is measured
        warnings.simplefilter("ignore", WeakGuaranteeWarning)  # one delta for all
        model = MomentLloyd(
            case.k, epsilon=epsilon, delta=1e-5, bounds=(-1, 1), n_records=case.n
        ).fit(X)
    members = [X[model.labels_ == number] for number in range(case.k)]
    distances = [
        float(np.linalg.norm(centroid - own.mean(axis=0))) if len(own) else math.inf
        for centroid, own in zip(model.cluster_centers_, members, strict=True)
    ]
    mechanism = model.mechanism_
    return median_low(distances) / float(
        mechanism.planned_radius / 2**mechanism.domain.fraction_bits
    )


def section() -> str:
    """The page's part of the table: the median error, and in brackets what one fit in ten
    exceeded.
    """
    shown = [SIGNALS.index(signal) for signal in SHOWN]
    rows = [
        [
            str(least) if least == most else f"{least} to {most}",
            *(f"{_percent(typical[i])} ({_percent(high[i])})" for i in shown),
        ]
        for (least, most), (_, typical, high) in zip(FEATURES, TABLE, strict=True)
    ]
    return as_table(
        ["features", *(f"signal {signal:,}" for signal in SHOWN)], "l" + "r" * len(SHOWN), rows
    )


def _percent(error: float) -> str:
    return "-" if math.isinf(error) else f"{100 * error:.2g} %"


def main() -> None:
    """Print the table, a row of quantiles per number of features; or write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fits", type=int, default=40, help="in each cell")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--write", action="store_true", help="write the page from the table that is there"
    )
    given = parser.parse_args()
    if given.write:
        write_section("expected-error", section(), PAGE)
        return
    for row, features in enumerate(FEATURES):
        rng = np.random.default_rng([given.seed, row])
        found = np.array(
            [
                [error(*setting(rng, features, signal)) for _ in range(given.fits)]
                for signal in SIGNALS
            ]
        )
        quantiles = np.quantile(found, [0.1, 0.5, 0.9], axis=1, method="closest_observation")
        # more signal never means a larger error
        lines = np.maximum.accumulate(quantiles[:, ::-1], axis=1)[:, ::-1]
        for line in lines:
            print(
                "("
                + ", ".join("inf" if math.isinf(value) else f"{value:.3g}" for value in line)
                + "),",
                flush=True,
            )


if __name__ == "__main__":
    main()
