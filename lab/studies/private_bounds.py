"""Study of the cost of bounds that are found with privacy.
Public data sets are fitted within declared ranges, and within the bounds found in these ranges.

    python -m studies.private_bounds FOLDER [--runs N]

The study needs FASTLLOYD_DATA. Questions whose rows are in the folder are not run again. The
program writes the tables of docs/results/private-bounds.md. Noise is repeatable and measures are
exact: NOT PRIVATE.
"""

import argparse
import hashlib
import json
import sys
import textwrap
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.cluster import KMeans

from benchmarks.report import as_table, publish
from benchmarks.runs import settings_of
from fastlloyd.base.arrays import FloatArray
from fastlloyd.clustering.domain import Domain, Scaling
from fastlloyd.errors import PlanError
from fastlloyd.evaluation.metrics import nicv
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.mechanisms.bounds.design import LEAST_SHARE, outer_range
from fastlloyd.mechanisms.catalogue import design
from fastlloyd.mechanisms.central import cluster, release
from fastlloyd.mechanisms.settings import AnyAlgorithm, Settings
from fastlloyd.mechanisms.two_stages import TwoStages, placeholder
from fastlloyd.testing import SeededNoise, repeatable_noise
from fastlloyd_lab.datasets import load
from fastlloyd_lab.datasets.catalogue import CATALOGUE

Row = dict[str, Any]
PAGE = Path(__file__).parents[2] / "docs" / "results" / "private-bounds.md"
SETS, EPSILONS, TIMES = (
    ("s1", "birch2-25k", "house", "adult", "iris", "yeast"),
    (1.0, 0.5),
    (1, 10, 100, 1000),
)
DECLARED, FOUND, UNITS = "declared", "found", "units"


class Question:
    """Data set and epsilon of one question of the study. Losses are the NICV of records that are
    not clipped, in half widths of the tight bounds.
    """

    def __init__(self, name: str, epsilon: float) -> None:
        self.X = np.asarray(load(name).values, dtype=np.float64)
        self.k, self.epsilon = CATALOGUE[name].n_clusters, epsilon
        self.features = tuple(f"x{i}" for i in range(self.X.shape[1]))
        self.lower, self.upper = self.X.min(axis=0), self.X.max(axis=0)

    def ranges(self, times: int, run: int) -> tuple[FloatArray, FloatArray]:
        """Return a range that is `times` times as wide as the tight bounds. The tight bounds are at
        a random place in it.
        """
        width = self.upper - self.lower
        lower = self.lower - np.random.default_rng((times, run)).uniform(
            0, 1, len(width)
        ) * width * (times - 1)
        return lower, lower + width * times

    def settings(self, domain: Domain, run: int) -> Settings[AnyAlgorithm]:
        return settings_of(domain, self.k, len(self.X), epsilon=self.epsilon, seed=run)

    def fitted(self, settings: Settings[AnyAlgorithm], run: int) -> float:
        """Return the loss of a fit with these settings."""
        m = design(settings)
        found = cluster(m, LocalRecords(m.domain, m.domain.to_grid(self.X)), SeededNoise(run))
        return self.loss(m.domain.from_grid(found.centroids))

    def within(self, lower: FloatArray, upper: FloatArray, run: int) -> float:
        """Return the loss of a fit with declared bounds."""
        domain = Domain.of_bounds(self.features, lower, upper, scaling=Scaling.PER_FEATURE)
        return self.fitted(self.settings(domain, run), run)

    def narrowed(self, times: int, run: int) -> Row:
        """Return the loss of a fit with bounds found in a range, and the loss of exact k-means
        scaled by these bounds. Also return the share of the budget that the search took, and the
        number of bounds not found.
        """
        outer = outer_range(self.features, *(ends.tolist() for ends in self.ranges(times, run)))
        stages = TwoStages.of(
            self.settings(placeholder(outer, scaling=Scaling.PER_FEATURE), run), outer
        )
        first = stages.first
        bounds = release(first, LocalRecords(outer, outer.to_grid(self.X)), SeededNoise(1000 + run))
        second = stages.second(bounds)
        whole = self.settings(outer, run).mu or 0.0
        return {
            FOUND: self.fitted(second, run),
            UNITS: self.without_noise(second.domain) if times > 1 else None,
            "share": round(float(first.accountant().mu_squared) / whole**2, 3),
            "missing": len(bounds.missing(outer)),
        }

    def without_noise(self, domain: Domain) -> float:
        """Return the loss of exact k-means if each feature is scaled by these bounds, and clipped
        to them.
        """
        low, width = np.array(domain.lower), np.array(domain.upper) - np.array(domain.lower)
        best = KMeans(self.k, n_init=3, random_state=0).fit(
            (np.clip(self.X, domain.lower, domain.upper) - low) / width
        )
        return self.loss(best.cluster_centers_ * width + low)

    def loss(self, centroids: FloatArray) -> float:
        """Return the NICV.

        centroids : centroids in original units, (k, d).
        """
        middle, half = (self.lower + self.upper) / 2, (self.upper - self.lower) / 2
        return float(nicv((self.X - middle) / half, (centroids - middle) / half))


def rows(question: Question, runs: int) -> Iterator[Row]:
    """Yield all figures of one question, one row per fit. Yield a single row if the question is
    refused.
    """
    try:
        with repeatable_noise():
            for run in range(runs):
                for times in TIMES:
                    yield {"times": times, **question.narrowed(times, run)}
                    yield {
                        "times": times,
                        DECLARED: question.within(*question.ranges(times, run), run),
                    }
    except PlanError as error:
        yield {"refused": str(error)}


def stored(folder: Path, name: str, epsilon: float, runs: int) -> list[Row]:
    """Return the rows of one question. Run it first unless the rows are in the folder."""
    asked = hashlib.sha256(f"{name} {epsilon} {runs}".encode()).hexdigest()[:12]
    file = folder / f"{name}-{epsilon:g}-{asked}.json"
    if not file.exists():
        print(name, epsilon, file=sys.stderr)
        found = list(rows(Question(name, epsilon), runs))
        file.write_text(json.dumps(found))
    return list(json.loads(file.read_text()))


def ratios(found: list[Row]) -> dict[tuple[str, int], tuple[float, float]]:
    """Return the mean and the largest loss, divided by the mean loss with tight bounds. The keys
    are the kind of bounds, and the width of the range in widths of the tight bounds.
    """
    losses = defaultdict(list)
    for row in found:
        for what in (DECLARED, FOUND, UNITS):
            if row.get(what) is not None:
                losses[what, row["times"]].append(row[what])
    tight = np.mean(losses[DECLARED, 1])
    return {
        key: (float(np.mean(each) / tight), float(max(each) / tight))
        for key, each in losses.items()
    }


def table(results: dict[tuple[str, float], list[Row]]) -> str:
    """Return a Markdown table of losses, one row per data set and epsilon, and below it a sentence
    about refused questions.
    """
    lines, refused = [], []
    for (name, epsilon), found in results.items():
        if "refused" in found[0]:
            needed = found[0]["refused"].partition(", which takes ")[2].partition(";")[0]
            refused.append(f"{name} at epsilon {epsilon:g} ({needed})")
            continue
        of = ratios(found)
        cells = [f"{of[FOUND, 1][0]:.2f}"]
        for times in TIMES[1:]:
            mean, most = of[FOUND, times]
            cells.append(f"{of[DECLARED, times][0]:.2f} → **{mean:.2f}** ({most:.2f})")
        units = np.mean([of[UNITS, times][0] for times in TIMES[1:]])
        share = next(row["share"] for row in found if "share" in row)
        kept = sum(row.get("missing", 0) for row in found if row["times"] > 1)
        lines.append([name, f"{epsilon:g}", f"{share:.3g}", *cells, f"{units:.2f}", str(kept)])
    headings = [
        "records",
        "epsilon",
        "share",
        "tight",
        *(f"{times} times" for times in TIMES[1:]),
        "without noise",
        "kept",
    ]
    said = (
        "Refused before anything is spent, for that many records would be needed:"
        f" {', '.join(refused)}."
    )
    return "\n\n".join([as_table(headings, "lrrrrrrrr", lines), textwrap.fill(said, 140)])


def main() -> None:
    """Run the missing questions, and write the page."""
    parser = argparse.ArgumentParser(
        prog="studies.private_bounds", description=__doc__.splitlines()[0]
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=80)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    asked = [(name, epsilon) for name in SETS for epsilon in EPSILONS if options.only in name]
    results = {each: stored(options.folder, *each, options.runs) for each in asked}
    text = (
        f"{options.runs} runs a cell; the least share there is, is"
        f" {float(LEAST_SHARE):g}.\n\n{table(results)}"
    )
    publish("private-bounds", text, PAGE, write=not options.only)


if __name__ == "__main__":
    main()
