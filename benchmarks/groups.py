"""MomentLloyd beside FastLloyd and a noisy mean on synthetic groups: rows to a folder, geometric means to docs/.

    python -m benchmarks.groups run FOLDER [--jobs N] [--groups NAME ...] [--methods NAME ...]
    python -m benchmarks.groups table FOLDER [--write]

What is in the folder is not run again. Noise is repeatable and measures are exact: NOT PRIVATE.
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

from benchmarks.report import write_section
from benchmarks.synthetic_groups import CASES, Case, FloatArray
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.dp.gdp import gdp_mu
from fastlloyd.evaluation.experiments.problem import Problem
from fastlloyd.evaluation.metrics import nicv
from fastlloyd.federation.plan.design import design_mechanism
from fastlloyd.mechanisms.catalogue import preset
from fastlloyd.mechanisms.central import cluster
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD
from fastlloyd.mechanisms.moment_lloyd.design import design_moments
from fastlloyd.testing import SeededNoise, repeatable_noise

EPSILONS = (0.05, 0.2, 1.0, 3.0, 8.0)
RUNS = 8
ALLOWED = 1.05
PAGE = Path(__file__).parents[1] / "docs" / "results" / "momentlloyd-evidence.md"
CELLS = PAGE.with_suffix(".csv")
PEERS = ("fastlloyd-paper", "fastlloyd-default", "noisy-mean")
Row = dict[str, Any]


@repeatable_noise()
def moment_lloyd(problem: Problem, asked: dict[str, Any], seed: int) -> FloatArray:
    """The product."""
    mechanism = design_moments(problem.domain, **asked)
    return _scaled(problem, cluster(mechanism, problem.grid, SeededNoise(seed)).centroids)


def _fast_lloyd(name: str) -> Callable[..., FloatArray]:
    chosen = preset(name)

    @repeatable_noise()
    def run(problem: Problem, asked: dict[str, Any], seed: int) -> FloatArray:
        mechanism = design_mechanism(
            FASTLLOYD, problem.domain, initialization=chosen.initialization, min_count=chosen.min_count, **asked
        )
        return _scaled(problem, cluster(mechanism, problem.grid, SeededNoise(seed)).centroids)

    return run


def noisy_mean(problem: Problem, asked: dict[str, Any], seed: int) -> FloatArray:
    """All centroids at the mean, for which the whole budget is spent, and the number of records is known."""
    sigma = problem.n_features**0.5 / gdp_mu(asked["epsilon"], asked["delta"])
    noise = np.random.default_rng(seed).normal(scale=sigma, size=problem.n_features)
    return np.tile(np.clip(problem.X.mean(axis=0) + noise / problem.n_records, -1, 1), (problem.n_clusters, 1))


METHODS: dict[str, Callable[..., FloatArray]] = {
    "momentlloyd": moment_lloyd,
    "fastlloyd-paper": _fast_lloyd("paper"),
    "fastlloyd-default": _fast_lloyd("default"),
    "noisy-mean": noisy_mean,
}


def trials(groups: list[str] | None, methods: Iterable[str]) -> list[Row]:
    """What is to be run: one row without a result each."""
    return [
        {"group": case.group, "set": case.name, "method": method, "epsilon": epsilon, "run": run}
        for case in CASES
        if groups is None or case.group in groups
        for epsilon in EPSILONS
        for run in range(RUNS)
        for method in methods
    ]


def perform(row: Row) -> Row:
    """One trial."""
    case = next(case for case in CASES if case.name == row["set"])
    problem = _problem(case)
    n_expected = round(case.n * case.expected)
    asked = {
        "n_clusters": case.k,
        "n_records": max(case.n, n_expected),
        "n_expected": n_expected,
        "epsilon": row["epsilon"],
        "delta": case.delta or 1 / (case.n * math.log(case.n)),
        "public_seed": PublicSeed.from_text(f"{row['set']} {row['run']}"),
    }
    centroids = METHODS[row["method"]](problem, asked, _seed(row))
    return row | {"nicv": nicv(problem.X, centroids)}


@lru_cache(maxsize=1)
def _problem(case: Case) -> Problem:
    return case.problem()


def _scaled(problem: Problem, centroids: Any) -> FloatArray:
    return np.asarray(centroids / 2.0**problem.domain.fraction_bits)


def _seed(row: Row) -> int:
    return int.from_bytes(hashlib.sha256(_key(row).encode()).digest())


def _key(row: Row) -> str:
    return json.dumps([row[name] for name in ("set", "method", "epsilon", "run")])


def run(folder: Path, jobs: int, groups: list[str] | None, methods: list[str]) -> None:
    """Run what is missing, and add it to the folder's rows.jsonl."""
    folder.mkdir(parents=True, exist_ok=True)
    done = {_key(row) for row in read(folder)}
    left = [trial for trial in trials(groups, methods) if _key(trial) not in done]
    print(f"{len(left)} trials", file=sys.stderr)
    with (folder / "rows.jsonl").open("a", encoding="utf-8") as file, ProcessPoolExecutor(jobs) as pool:
        for row in pool.map(perform, left, chunksize=15):
            file.write(json.dumps(row) + "\n")
            file.flush()


def read(folder: Path) -> list[Row]:
    """The rows that are there."""
    path = folder / "rows.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def cells(rows: list[Row]) -> list[Row]:
    """Mean NICV of every method by set and epsilon, and the ratios of momentlloyd's to the peers'."""
    values: dict[tuple[str, str, float], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        values[row["group"], row["set"], row["epsilon"]][row["method"]].append(row["nicv"])
    table = []
    for (group, name, epsilon), by_method in values.items():
        means = {method: float(np.mean(by_method[method])) for method in METHODS if method in by_method}
        if len(means) == len(METHODS):
            table.append({"group": group, "set": name, "epsilon": epsilon, "runs": len(by_method["momentlloyd"]), **means})
    return table


def summary(table: list[Row]) -> list[Row]:
    """By group: geometric means of ratios, the worst set, how many cells are above what is allowed."""
    return [
        _group(name, [cell for cell in table if cell["group"] == name]) for name in dict.fromkeys(c["group"] for c in table)
    ]


def by_epsilon(table: list[Row]) -> str:
    """Geometric means of ratios over all sets, as a table of a page."""
    lines = ["| epsilon | " + " | ".join(f"over {peer}" for peer in PEERS) + " |", "|---:|" + "---:|" * len(PEERS)]
    for epsilon in EPSILONS:
        cells_there = [cell for cell in table if cell["epsilon"] == epsilon]
        means = (geometric_mean(_ratio(cell, peer) for cell in cells_there) for peer in PEERS)
        lines.append(f"| {epsilon:g} | " + " | ".join(f"{mean:.3f}" for mean in means) + " |")
    return "\n".join(lines)


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
    """Of NICV; that of perfect centroids of duplicates is 0."""
    return float((cell["momentlloyd"] + 1e-9) / (cell[peer] + 1e-9))


def geometric_mean(values: Iterable[float]) -> float:
    """exp of the mean of logarithms."""
    return math.exp(np.mean([math.log(value) for value in values]))


def markdown(found: list[Row]) -> str:
    """A table of a page."""
    head = "| group | sets | " + " | ".join(f"over {peer} | worst set | cells above {ALLOWED}" for peer in PEERS) + " |"
    lines = [head, "|---|---:|" + "---:|---|---:|" * len(PEERS)]
    for row in found:
        parts = [row["group"], str(row["sets"])]
        for peer in PEERS:
            ratio, name = row[f"{peer} worst"]
            parts += [f"{row[peer]:.3f}", f"{ratio:.3f} {name.removeprefix(row['group'] + '-')}", str(row[f"{peer} above"])]
        lines.append("| " + " | ".join(parts) + " |")
    return "\n".join(lines)


def table(folder: Path, *, write: bool) -> None:
    """Print the table; write it and the cells to docs/."""
    rows = cells(read(folder))
    text = markdown(summary(rows)) + "\n\n" + by_epsilon(rows)
    print(text)
    for cell in sorted(rows, key=lambda cell: -max(_ratio(cell, peer) for peer in PEERS))[:40]:
        ratios = [_ratio(cell, peer) for peer in PEERS]
        if max(ratios) > ALLOWED:
            print(cell["set"], cell["epsilon"], *(f"{ratio:.3f}" for ratio in ratios), file=sys.stderr)
    if write:
        write_section("groups", text, PAGE)
        with CELLS.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, ["group", "set", "epsilon", "runs", *METHODS], lineterminator="\n")
            writer.writeheader()
            writer.writerows({name: _short(value) for name, value in cell.items()} for cell in rows)


def _short(value: Any) -> Any:
    return f"{value:.5g}" if isinstance(value, float) else value


def main() -> None:
    """The commands above."""
    parser = argparse.ArgumentParser(prog="benchmarks.groups", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run")
    running.add_argument("folder", type=Path)
    running.add_argument("--jobs", type=int, default=1)
    running.add_argument("--groups", nargs="*")
    running.add_argument("--methods", nargs="*", default=list(METHODS), choices=list(METHODS))
    showing = commands.add_parser("table")
    showing.add_argument("folder", type=Path)
    showing.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.command == "run":
        run(options.folder, options.jobs, options.groups, options.methods)
    else:
        table(options.folder, write=options.write)


if __name__ == "__main__":
    main()
