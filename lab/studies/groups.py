"""Study of MomentLloyd, compared with FastLloyd and a noisy mean, on synthetic groups.
Rows of trials go to a folder, and geometric means go to docs/.

    python -m studies.groups FOLDER [--jobs N]

Trials that are in the folder are not run again. Noise is repeatable and measures are exact: NOT
PRIVATE.
"""

import argparse
import csv
import hashlib
import json
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import as_table, publish
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.dp.gdp import gdp_mu
from fastlloyd.evaluation.metrics import nicv
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.mechanisms.catalogue import design
from fastlloyd.mechanisms.central import cluster
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD
from fastlloyd.mechanisms.settings import PRESETS, AnyAlgorithm, Settings
from fastlloyd.testing import SeededNoise, repeatable_noise
from fastlloyd_lab.experiments.problem import Problem
from studies.synthetic_groups import CASES, FloatArray

EPSILONS = (0.05, 0.2, 1.0, 3.0, 8.0)
RUNS = 8
ALLOWED = 1.05
PAGE = Path(__file__).parents[2] / "docs" / "results" / "momentlloyd-evidence.md"
PEERS = ("fastlloyd-paper", "fastlloyd-default", "noisy-mean")
Row = dict[str, Any]
# of a problem, what is asked and a seed: centroids
Method = Callable[[Problem, dict[str, Any], int], FloatArray]
_CASES = {case.name: case for case in CASES}


def _of_the_product(algorithm: AnyAlgorithm, preset: str = "default") -> Method:
    def run(problem: Problem, asked: dict[str, Any], seed: int) -> FloatArray:
        mechanism = design(
            Settings(algorithm=algorithm, domain=problem.domain, preset=PRESETS[preset], **asked)
        )
        found = cluster(mechanism, LocalRecords(mechanism.domain, problem.grid), SeededNoise(seed))
        return np.asarray(found.centroids / 2.0**problem.domain.fraction_bits)

    return run


def noisy_mean(problem: Problem, asked: dict[str, Any], seed: int) -> FloatArray:
    """Return the noisy mean of all records, repeated for each cluster, (k, d). The whole budget is
    spent on the mean, and the exact number of records is used.
    """
    sigma = problem.n_features**0.5 / gdp_mu(asked["epsilon"], asked["delta"])
    noise = np.random.default_rng(seed).normal(scale=sigma, size=problem.n_features)
    return np.tile(
        np.clip(problem.X.mean(axis=0) + noise / problem.n_records, -1, 1), (problem.n_clusters, 1)
    )


METHODS: dict[str, Method] = {
    "momentlloyd": _of_the_product(MOMENTLLOYD),
    "fastlloyd-paper": _of_the_product(FASTLLOYD, "paper"),
    "fastlloyd-default": _of_the_product(FASTLLOYD),
    "noisy-mean": noisy_mean,
}


@repeatable_noise()
def perform(row: Row) -> Row:
    """Run one trial, and return its row with the NICV."""
    case = _CASES[row["set"]]
    problem = _problem(case.name)
    n_expected = round(case.n * case.expected)
    asked = {
        "n_clusters": case.k,
        "n_records": max(case.n, n_expected),
        "n_expected": n_expected,
        "epsilon": row["epsilon"],
        "delta": case.delta or 1 / (case.n * math.log(case.n)),
        "public_seed": PublicSeed.from_text(f"{row['set']} {row['run']}"),
    }
    seed = int.from_bytes(hashlib.sha256(_key(row).encode()).digest())
    return row | {"nicv": nicv(problem.X, METHODS[row["method"]](problem, asked, seed))}


@lru_cache(maxsize=1)
def _problem(name: str) -> Problem:
    return _CASES[name].problem()


def _key(row: Row) -> str:
    return json.dumps([row[name] for name in ("set", "method", "epsilon", "run")])


def run(folder: Path, jobs: int) -> list[Row]:
    """Return all rows of the folder. Run the missing trials first, and add them to the folder's
    rows.jsonl.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "rows.jsonl"
    rows: list[Row] = (
        [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        if path.exists()
        else []
    )
    done = {_key(row) for row in rows}
    every = (
        {"group": case.group, "set": case.name, "method": method, "epsilon": epsilon, "run": number}
        for case in CASES
        for epsilon in EPSILONS
        for number in range(RUNS)
        for method in METHODS
    )
    left = [row for row in every if _key(row) not in done]
    print(f"{len(left)} trials", file=sys.stderr)
    with path.open("a", encoding="utf-8") as file, ProcessPoolExecutor(jobs) as pool:
        for row in pool.map(perform, left, chunksize=15):
            rows.append(row)
            file.write(json.dumps(row) + "\n")
            file.flush()
    return rows


def cells(rows: list[Row]) -> list[Row]:
    """Return the mean NICV of each method, for each set and epsilon for which all methods were
    run.
    """
    values: dict[tuple[str, str, float], dict[str, list[float]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for row in rows:
        values[row["group"], row["set"], row["epsilon"]][row["method"]].append(row["nicv"])
    table = []
    for (group, name, epsilon), by_method in values.items():
        means = {
            method: float(np.mean(by_method[method])) for method in METHODS if method in by_method
        }
        if len(means) == len(METHODS):
            table.append(
                {
                    "group": group,
                    "set": name,
                    "epsilon": epsilon,
                    "runs": len(by_method["momentlloyd"]),
                    **means,
                }
            )
    return table


def summary(table: list[Row]) -> list[Row]:
    """Return, for each group, geometric means of ratios to the peers, the worst set, and the number
    of cells above the allowed ratio.
    """
    return [
        _group(name, [cell for cell in table if cell["group"] == name])
        for name in dict.fromkeys(c["group"] for c in table)
    ]


def by_epsilon(table: list[Row]) -> str:
    """Return a Markdown table of the geometric means of ratios over all sets, by epsilon."""
    rows = []
    for epsilon in EPSILONS:
        there = [cell for cell in table if cell["epsilon"] == epsilon]
        rows.append(
            [
                f"{epsilon:g}",
                *(f"{geometric_mean(_ratio(cell, peer) for cell in there):.3f}" for peer in PEERS),
            ]
        )
    return as_table(["epsilon", *(f"over {peer}" for peer in PEERS)], "r" * (1 + len(PEERS)), rows)


def _group(name: str, table: list[Row]) -> Row:
    found: Row = {"group": name, "sets": len({cell["set"] for cell in table})}
    for peer in PEERS:
        by_set: dict[str, list[float]] = defaultdict(list)
        for cell in table:
            by_set[cell["set"]].append(_ratio(cell, peer))
        ratios = {name: geometric_mean(values) for name, values in by_set.items()}
        worst = max(ratios, key=lambda name: ratios[name])
        found[peer] = geometric_mean(_ratio(cell, peer) for cell in table)
        found[f"{peer} worst"] = (ratios[worst], worst)
        found[f"{peer} above"] = sum(_ratio(cell, peer) > ALLOWED for cell in table)
    return found


def _ratio(cell: Row, peer: str) -> float:
    """Return MomentLloyd's NICV divided by the peer's. A small number is added to both, because the
    NICV of perfect centroids can be 0.
    """
    return float((cell["momentlloyd"] + 1e-9) / (cell[peer] + 1e-9))


def geometric_mean(values: Iterable[float]) -> float:
    """Return the geometric mean of numbers above 0."""
    return math.exp(np.mean([math.log(value) for value in values]))


def by_group(found: list[Row]) -> str:
    """Return the rows of `summary` as a Markdown table."""
    headings = [f"over {peer} | worst set | cells above {ALLOWED}" for peer in PEERS]
    rows = []
    for row in found:
        cells = [row["group"], str(row["sets"])]
        for peer in PEERS:
            ratio, name = row[f"{peer} worst"]
            cells += [
                f"{row[peer]:.3f}",
                f"{ratio:.3f} {name.removeprefix(row['group'] + '-')}",
                str(row[f"{peer} above"]),
            ]
        rows.append(cells)
    return as_table(["group", "sets", *headings], "lr" + "rlr" * len(PEERS), rows)


def main() -> None:
    """Run the missing trials, print the tables, and write the tables and the cells to docs/."""
    parser = argparse.ArgumentParser(prog="studies.groups", description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    table = cells(run(options.folder, options.jobs))
    text = f"{by_group(summary(table))}\n\n{by_epsilon(table)}"
    publish("groups", text, PAGE)
    with PAGE.with_suffix(".csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(
            file, ["group", "set", "epsilon", "runs", *METHODS], lineterminator="\n"
        )
        writer.writeheader()
        for cell in table:
            writer.writerow(
                {
                    name: f"{value:.5g}" if isinstance(value, float) else value
                    for name, value in cell.items()
                }
            )


if __name__ == "__main__":
    main()
