"""Do two standard errors cover the mean of a cluster's records? Fits of made-up groups beside what
they say of themselves.

    python -m studies.coverage [--runs N] [--tuning] [--only TEXT] [--write]

Writes the table of docs/results/coverage.md. Noise is repeatable and means are exact: NOT PRIVATE.
"""

import argparse
import hashlib
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from benchmarks.report import as_table, write_section

from fastlloyd.base.arrays import IntArray
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering import kernels
from fastlloyd.clustering.domain import Domain, GridArray
from fastlloyd.errors import FastLloydError
from fastlloyd.evaluation.datasets import load
from fastlloyd.federation.plan.design import design_plan
from fastlloyd.federation.plan.plan import Masks, noise_deviation_of_run
from fastlloyd.federation.simulation import Drop, roster, simulate, split
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.mechanisms.catalogue import ALGORITHMS, design
from fastlloyd.mechanisms.central import cluster
from fastlloyd.mechanisms.mechanism import Clustering
from fastlloyd.mechanisms.settings import AnyAlgorithm, Settings
from fastlloyd.mechanisms.uncertainty import Accuracy, assess, noise_deviation, settled
from fastlloyd.testing import SeededNoise, repeatable_noise
from studies.coverage_groups import APART, CASES, HIGH, LOW, TUNING, Case, FloatArray

PAGE = Path(__file__).parents[1] / "docs" / "results" / "coverage.md"
HEADINGS = (
    "groups", "features", "clusters", "epsilon", "marked", "covered where settled", "± over error",
    "covered where marked",
)  # fmt: skip
NORMAL = 0.6745  # the median of the length of a standard normal variable


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """One run. settled, covered (a share of coordinates) : (k,). errors, off : (k, d), standard
    errors and true ones.
    """

    settled: npt.NDArray[np.bool_]
    covered: FloatArray
    errors: FloatArray
    off: FloatArray


@repeatable_noise()
def trial(case: Case, run: int) -> Fit:
    """Records, clustering and noise follow from the row's name and the number of the run."""
    seed = int.from_bytes(
        hashlib.sha256(
            f"coverage {case.section} {case.name} {case.d} {case.k} {run}".encode()
        ).digest()[:8]
    )
    X = case.records(np.random.default_rng(seed))
    domain = Domain(
        features=tuple(f"x{i}" for i in range(X.shape[1])),
        lower=(LOW,) * X.shape[1],
        upper=(HIGH,) * X.shape[1],
    )
    grid = domain.to_grid(X)
    clustering, found = (_federated if case.clients else _central)(case, domain, grid, seed)
    off = np.abs(_means(grid, clustering.centroids) - clustering.centroids) * domain.units
    covered = (off <= 2 * found.errors).mean(
        axis=1
    )  # never where no record is nearest: its mean is NaN
    return Fit(settled=settled(found.status), covered=covered, errors=found.errors, off=off)


def _central(case: Case, domain: Domain, grid: GridArray, seed: int) -> tuple[Clustering, Accuracy]:
    m = design(_settings(case, domain, len(grid), seed))
    clustering = cluster(m, LocalRecords(m.domain, grid), SeededNoise(seed))
    return clustering, assess(m, clustering, noise_deviation(m))


def _federated(
    case: Case, domain: Domain, grid: GridArray, seed: int
) -> tuple[Clustering, Accuracy]:
    clients, identities = roster([f"c{i}" for i in range(case.clients)], len(grid))
    settings = _settings(case, domain, len(grid), seed)
    plan = design_plan(
        settings, clients=clients, run_id=seed.to_bytes(16), max_dropouts=1, masks=Masks.GROUP
    )
    parts = split(LocalRecords(domain, grid), case.clients, PublicSeed.from_int(seed))
    run = simulate(
        plan,
        identities,
        parts,
        drops=[Drop(client="c1", round=2, for_good=False)],
        noise=SeededNoise(seed),
    )
    noise = noise_deviation_of_run(plan, len(run.included[len(plan.mechanism.rounds) - 1]))
    return run.clustering, assess(plan.clustering, run.clustering, noise)


def _settings(case: Case, domain: Domain, n_records: int, seed: int) -> Settings[AnyAlgorithm]:
    return Settings(
        algorithm=ALGORITHMS[case.algorithm], domain=domain, n_clusters=case.k, n_records=n_records,
        epsilon=case.epsilon,
        public_seed=PublicSeed.from_int(seed),
    )  # fmt: skip


def _means(grid: GridArray, centroids: IntArray) -> FloatArray:
    """Means of the records nearest to each centroid, grid units; NaN where there is none."""
    labels, k = kernels.assign(grid, centroids), len(centroids)
    sums = np.stack([np.bincount(labels, column, minlength=k) for column in grid.T], axis=1)
    counts = np.bincount(labels, minlength=k)[:, None]
    return np.asarray(np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0))


def row(case: Case, fits: list[Fit]) -> list[str]:
    """One row: how many clusters are marked; how many coordinates of the others are covered; how
    wide intervals are.
    """
    kept = np.concatenate([fit.settled for fit in fits])
    covered = np.concatenate([fit.covered for fit in fits])
    errors, off = (
        np.concatenate([getattr(fit, name) for fit in fits])[kept] for name in ("errors", "off")
    )
    width = f"{np.nanmedian(errors) / (np.nanmedian(off) / NORMAL):.1f}" if kept.any() else "-"
    of_kept = f"{covered[kept].mean():.0%}" if kept.any() else "-"
    of_marked = f"{covered[~kept].mean():.0%}" if not kept.all() else "-"
    asked = [case.name, f"{case.d}", f"{case.k}", f"{case.epsilon:g}"]
    return [*asked, f"{1 - kept.mean():.0%}", of_kept, width, of_marked]


def table(results: list[tuple[Case, list[Fit]]]) -> str:
    """A table per section."""
    lines: list[str] = []
    for section in dict.fromkeys(case.section for case, _ in results):
        rows = [row(case, fits) for case, fits in results if case.section == section]
        lines += [f"**{section}**", "", as_table(HEADINGS, "lrrrrrrr", rows), ""]
    return "\n".join(lines)


def s1() -> tuple[Case, ...]:
    """The set S1, where it is there: 15 groups of about 330."""
    try:
        X = np.asarray(load("s1").values)
    except FastLloydError:
        print("S1 is left out: see docs/how-to/data-sets.md", file=sys.stderr)
        return ()
    X = LOW + (HIGH - LOW) * (X - X.min(axis=0)) / np.ptp(X, axis=0)
    return tuple(
        Case(
            section=APART,
            name="S1, 15 of about 330",
            make=lambda rng, d: X,  # noqa: ARG005
            d=2,
            k=15,
            epsilon=epsilon,
        )
        for epsilon in (0.5, 1.0, 3.0)
    )


def main() -> None:
    """Run, showing rows as they come, and print or write the table."""
    parser = argparse.ArgumentParser(prog="studies.coverage", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument(
        "--tuning", action="store_true", help="the groups that the constants were chosen on"
    )
    parser.add_argument("--only", default="", help="rows whose section or name has this text")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    cases = [
        case
        for case in (TUNING if options.tuning else CASES)
        if options.only in f"{case.section} {case.name}"
    ]
    if not options.tuning and options.only in f"{APART} S1":
        cases += s1()
    results: list[tuple[Case, list[Fit]]] = []
    for case in cases:
        results.append((case, [trial(case, run) for run in range(options.runs)]))
        print(*row(*results[-1]), sep=" | ", file=sys.stderr)
    text = table(results)
    if not options.write:
        print(text)
    else:
        write_section("coverage", f"{options.runs} runs a row.\n\n{text}", PAGE)


if __name__ == "__main__":
    main()
