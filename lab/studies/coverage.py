"""Study of how often two standard errors cover the centre of a cluster's records.
The standard errors of fits of synthetic groups are compared with their real errors.

    python -m studies.coverage [--runs N] [--skewed-runs N] [--tuning] [--only TEXT] [--write]

With --write, the program writes the tables of docs/results/coverage.md. Noise is repeatable, and
centres and means are exact: NOT PRIVATE.
"""

import argparse
import hashlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.report import as_table, publish
from benchmarks.runs import box, settings_of
from fastlloyd.base.arrays import GridArray, IntArray
from fastlloyd.clustering import kernels
from fastlloyd.clustering.domain import Domain
from fastlloyd.errors import FastLloydError
from fastlloyd.federation.dealing import deal
from fastlloyd.federation.plan.design import ProtocolChoices, design_plan
from fastlloyd.federation.plan.plan import Masks, noise_deviation_of_run
from fastlloyd.federation.simulation import Drop, roster, simulate
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.mechanisms.catalogue import ALGORITHMS, design
from fastlloyd.mechanisms.central import cluster
from fastlloyd.mechanisms.facts import FarRecords
from fastlloyd.mechanisms.mechanism import Clustering, Mechanism
from fastlloyd.mechanisms.settings import AnyAlgorithm, Settings
from fastlloyd.mechanisms.uncertainty import (
    Accuracy,
    NoiseDeviation,
    assess,
    noise_deviation,
    settled,
)
from fastlloyd.testing import SeededNoise, repeatable_noise
from fastlloyd_lab.datasets import load
from studies.coverage_groups import APART, CASES, HIGH, LOW, TUNING, Case, FloatArray, case_of
from studies.coverage_skewed import skewed_cases

PAGE = Path(__file__).parents[2] / "docs" / "results" / "coverage.md"
HEADINGS = (
    "groups", "features", "clusters", "epsilon", "marked", "centre covered where settled",
    "± over error", "centre covered where marked", "mean covered where settled", "figure told",
    "mean covered with it", "figure over R",
)  # fmt: skip
ALIGNED = "l" + "r" * (len(HEADINGS) - 1)
NORMAL = 0.6745  # the median of the length of a standard normal variable


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Errors of one run, in original units.

    settled : bool (k,), True for clusters whose interval is reliable.
    errors : standard errors of the centroids, (k, d).
    centres, means : distances from each centroid to the exact centre and to the exact mean of its
        records, (k, d).
    radius : radius R of the intervals, (d,), or None.
    beyond : distance by which the mean may be outside the interval on one side (`Accuracy.beyond`),
        (k, d). NaN if the result states none.
    """

    settled: npt.NDArray[np.bool_]
    errors: FloatArray
    centres: FloatArray
    means: FloatArray
    radius: FloatArray | None
    beyond: FloatArray

    @property
    def centre_covered(self) -> npt.NDArray[np.bool_]:
        """Return whether two standard errors cover each coordinate of the centres, bool (k, d).
        False for a cluster without records.
        """
        return np.abs(self.centres) <= 2 * self.errors

    @property
    def mean_covered(self) -> npt.NDArray[np.bool_]:
        """Return whether two standard errors cover each coordinate of the means, bool (k, d)."""
        return np.abs(self.means) <= 2 * self.errors

    @property
    def mean_within(self) -> npt.NDArray[np.bool_]:
        """Return whether each mean is no farther outside its interval than `beyond` states, bool
        (k, d). Only the side that `beyond` states is checked.
        """
        return self.means * np.sign(self.beyond) <= 2 * self.errors + np.abs(self.beyond)


class Run(NamedTuple):
    """Clustering of synthetic groups, with its errors.

    centres, means : offsets from each centroid to the centre and to the mean of its records, (k,
        d), in grid units. They are exact: NOT PRIVATE.
    """

    domain: Domain
    mechanism: Mechanism
    clustering: Clustering
    noise: NoiseDeviation
    accuracy: Accuracy
    centres: FloatArray
    means: FloatArray
    counts: FloatArray


@repeatable_noise()
def run_of(case: Case, number: int, study: str) -> Run:
    """Return the clustering with this number. Records, public choices and noise follow from the
    study, the case and the number.

    study : name of the study.
    """
    seed = int.from_bytes(
        hashlib.sha256(
            f"{study} {case.section} {case.name} {case.d} {case.k} {number}".encode()
        ).digest()[:8]
    )
    X = case.records(np.random.default_rng(seed))
    domain = box(X.shape[1], LOW, HIGH)
    grid = domain.to_grid(X)
    m, clustering, noise = (_federated if case.clients else _central)(case, domain, grid, seed)
    found = assess(m, clustering, noise)
    labels = kernels.assign(grid, clustering.centroids).astype(np.int64)
    offsets = _exact(grid, clustering.centroids, labels, m.far_records, found.radius, domain.units)
    counts = np.bincount(labels, minlength=case.k).astype(np.float64)
    return Run(domain, m, clustering, noise, found, *offsets, counts)


def trial(case: Case, number: int) -> Fit:
    """Return the errors of one run of the table."""
    run = run_of(case, number, "coverage")
    found = run.accuracy
    return Fit(
        settled=settled(found.status),
        errors=found.errors,
        centres=run.centres * run.domain.units,
        means=run.means * run.domain.units,
        radius=found.radius,
        beyond=np.full(run.means.shape, np.nan) if found.beyond is None else found.beyond,
    )


Found = tuple[Mechanism, Clustering, NoiseDeviation]


def _central(case: Case, domain: Domain, grid: GridArray, seed: int) -> Found:
    m = design(_settings(case, domain, len(grid), seed))
    clustering = cluster(m, LocalRecords(m.domain, grid), SeededNoise(seed))
    return m, clustering, noise_deviation(m)


def _federated(case: Case, domain: Domain, grid: GridArray, seed: int) -> Found:
    clients, identities = roster([f"c{i}" for i in range(case.clients)], len(grid))
    settings = _settings(case, domain, len(grid), seed)
    plan = design_plan(
        settings,
        clients=clients,
        run_id=seed.to_bytes(16),
        protocol=ProtocolChoices(max_dropouts=1, masks=Masks.GROUP),
        simulated=True,
    )
    chance = np.random.default_rng(seed).bytes
    parts = deal(plan, LocalRecords(domain, grid), random_bytes=chance)
    run = simulate(
        plan,
        identities,
        parts,
        drops=[Drop(client="c1", round=2, for_good=False)],
        noise=SeededNoise(seed),
    )
    noise = noise_deviation_of_run(plan, len(run.included[len(plan.mechanism.rounds) - 1]))
    return plan.clustering, run.clustering, noise


def _settings(case: Case, domain: Domain, n_records: int, seed: int) -> Settings[AnyAlgorithm]:
    algorithm = ALGORITHMS[case.algorithm]
    return settings_of(
        domain, case.k, n_records, epsilon=case.epsilon, seed=seed, algorithm=algorithm
    )


def _exact(
    grid: GridArray,
    centroids: IntArray,
    labels: IntArray,
    far: FarRecords,
    radius: FloatArray | None,
    units: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return the offsets from each centroid to the centre and to the mean of its records, (k, d)
    each, in grid units. An offset is NaN for a cluster without such records. Exact: NOT PRIVATE.
    """
    k = len(centroids)
    offsets = (grid - centroids[labels]).astype(np.float64)
    means = _means(offsets, np.ones(len(grid)), labels, k)
    if radius is None:
        return means, means
    shares = radius[0] / units[0] / np.maximum(np.linalg.norm(offsets, axis=1), 1e-9)
    if far is FarRecords.LEFT_OUT:
        return _means(offsets, (shares >= 1).astype(np.float64), labels, k), means
    return _means(offsets * np.minimum(shares, 1)[:, None], np.ones(len(grid)), labels, k), means


def _means(X: FloatArray, weights: FloatArray, labels: IntArray, k: int) -> FloatArray:
    sums = np.stack([np.bincount(labels, weights * column, minlength=k) for column in X.T], axis=1)
    counts = np.bincount(labels, weights, minlength=k)[:, None]
    return np.asarray(np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0))


def row(case: Case, fits: list[Fit]) -> list[str]:
    """Return a row of the table. It has the share of marked clusters, the share of covered
    coordinates of the other clusters, and the width of the intervals. It has the share of covered
    means, with and without the stated distance beyond the interval.
    """
    kept = np.concatenate([fit.settled for fit in fits])

    def of(name: str) -> FloatArray:
        return np.concatenate([getattr(fit, name) for fit in fits])

    def share(covered: FloatArray) -> str:
        return f"{covered.mean():.0%}" if covered.size else "-"

    covered, off, beyond = of("centre_covered"), np.abs(of("centres"))[kept], of("beyond")
    told = np.isfinite(beyond)
    width = (
        f"{np.nanmedian(of('errors')[kept]) / (np.nanmedian(off) / NORMAL):.1f}"
        if kept.any()
        else "-"
    )
    sizes = [
        np.abs(fit.beyond / fit.radius)[np.isfinite(fit.beyond)]
        for fit in fits
        if fit.radius is not None
    ]
    size = f"{np.median(np.concatenate(sizes)):.2g}" if told.any() else "-"
    asked = [case.name, f"{case.d}", f"{case.k}", f"{case.epsilon:g}"]
    of_centres = [f"{1 - kept.mean():.0%}", share(covered[kept]), width, share(covered[~kept])]
    of_means = [share(of("mean_covered")[kept]), share(told[kept]), share(of("mean_within")[told])]
    return [*asked, *of_centres, *of_means, size]


def totals(results: list[tuple[Case, list[Fit]]]) -> str:
    """Return a sentence with the share of covered coordinates of settled clusters: the mean over
    the rows, and the smallest.
    """
    covered = [
        np.concatenate([fit.centre_covered[fit.settled].ravel() for fit in fits])
        for _, fits in results
    ]
    each = [float(row.mean()) for row in covered if row.size]
    return (
        f"Centres of settled clusters covered: {np.mean(each):.0%} in the mean of the rows,"
        f" {min(each):.0%} in the row that has the fewest."
    )


def table(results: list[tuple[Case, list[Fit]]]) -> str:
    """Return a table for each section, as Markdown."""
    lines: list[str] = []
    for section in dict.fromkeys(case.section for case, _ in results):
        some = [(case, fits) for case, fits in results if case.section == section]
        rows = [row(case, fits) for case, fits in some]
        lines += [f"**{section}**", "", f"{len(some[0][1])} runs a row. {totals(some)}", ""]
        lines += [as_table(HEADINGS, ALIGNED, rows), ""]
    return "\n".join(lines)


def s1() -> tuple[Case, ...]:
    """Return the cases of the set S1, with 15 groups of about 330 records. Return no cases if the
    set is not on this machine.
    """
    try:
        X = np.asarray(load("s1").values)
    except FastLloydError:
        print("S1 is left out: see docs/how-to/data-sets.md", file=sys.stderr)
        return ()
    X = LOW + (HIGH - LOW) * (X - X.min(axis=0)) / np.ptp(X, axis=0)
    return tuple(
        case_of(APART, "S1, 15 of about 330", lambda *_: X, 2, 15, epsilon=epsilon)
        for epsilon in (0.5, 1.0, 3.0)
    )


def main() -> None:
    """Do all runs, print each row at once, and print or write the table."""
    parser = argparse.ArgumentParser(prog="studies.coverage", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--skewed-runs", type=int, default=400)
    parser.add_argument(
        "--tuning", action="store_true", help="the groups that the constants were chosen on"
    )
    parser.add_argument("--only", default="", help="rows whose section or name has this text")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    cases = TUNING if options.tuning else (*CASES, *s1())
    skewed = () if options.tuning else skewed_cases()
    results = [
        found
        for n_runs, some in ((options.runs, cases), (options.skewed_runs, skewed))
        for found in _results(
            [case for case in some if n_runs and options.only in f"{case.section} {case.name}"],
            n_runs,
        )
    ]
    publish("coverage", table(results), PAGE, write=options.write)


def _results(cases: list[Case], n_runs: int) -> list[tuple[Case, list[Fit]]]:
    results: list[tuple[Case, list[Fit]]] = []
    for case in cases:
        results.append((case, [trial(case, run) for run in range(n_runs)]))
        print(*row(*results[-1]), sep=" | ", file=sys.stderr, flush=True)
    return results


if __name__ == "__main__":
    main()
