"""Study of the value of each part of MomentLloyd, by leaving out one part at a time.

    python -m studies.moment_ablation [--jobs N] [--runs N]

The program writes its section of docs/results/momentlloyd-evidence.md. Records are synthetic
groups. Noise is repeatable and measures are exact: NOT PRIVATE.
"""

import argparse
import dataclasses
import math
import sys
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from fractions import Fraction
from itertools import product
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.report import as_table, publish
from fastlloyd.mechanisms.moment_lloyd import design, location, start, steps
from fastlloyd.mechanisms.moment_lloyd.design import Row
from fastlloyd.mechanisms.moment_lloyd.directions import deviations
from fastlloyd.mechanisms.moment_lloyd.mechanism import MomentMechanism
from fastlloyd.mechanisms.moment_lloyd.rounds import StepRound
from fastlloyd.mechanisms.moment_lloyd.state import Noisy, State
from studies.groups import EPSILONS, PAGE, perform
from studies.synthetic_groups import CASES, FloatArray

GROUPS = (
    "small", "large", "some features", "many features", "tails", "outliers", "unbalanced", "far",
    "spikes", "curves",
    "bounds 3 times too wide", "bounds 10 times too wide",
)  # fmt: skip
WIDTHS = {"up to 3 features": range(1, 4), "4 to 32": range(4, 33), "more": range(33, 1025)}
Change = tuple[object, str, object]  # a module or class, a name in it, and what takes its place
Cell = tuple[str, float]  # a set and epsilon
_shrunk = start.shrunk


def _rows(change: Callable[[Row], dict[str, Any]]) -> Change:
    """Return a change that replaces fields in each row of the planner's table.

    change : function that returns the new fields of a row.
    """
    return design, "TABLE", tuple(dataclasses.replace(row, **change(row)) for row in design.TABLE)


def _alike(state: State) -> FloatArray:
    found = deviations(state)
    return np.full(len(found), math.sqrt(float((found**2).mean())) if len(found) else 0.0)


def _as_counted(counts: Noisy, n: float) -> FloatArray:
    """Replacement for `sizes` that keeps only its sum and its lower limit, without shrinking."""
    noisy, k = counts.values.ravel(), len(counts.values)
    return np.asarray(
        np.maximum(n / k + noisy - noisy.mean(), max(1.0, 0.5 * min(counts.deviation, n / k)))
    )


def _as_voted(votes: Noisy, expected: FloatArray) -> tuple[FloatArray, float]:
    """Replacement for `shrunk` that returns the votes unchanged, with the factor of `shrunk`. The
    factor decides how votes become weights.
    """
    return votes.values.ravel(), _shrunk(votes, expected)[1]


def _half_diagonal(_round: StepRound, m: MomentMechanism, _state: State) -> int:
    """Return the radius at which a step clips if it depends on the bounds alone."""
    return math.isqrt(m.domain.squared_half_diagonal)


PARTS: dict[str, list[Change]] = {
    "the first sum is not clipped": [_rows(lambda _: {"mean_radius": Fraction(1)})],
    "the number of records as it was counted": [
        (location, "number", lambda m, count: min(max(float(count.values[0, 0]), 1.0),
          float(m.n_records)))
    ],
    "candidates in all of the bounds": [(location, "ZOOM", 1e9)],
    "a start alike in all directions found": [(start, "deviations", _alike)],
    "no votes (more than 3 features)": [
        _rows(lambda row: {} if row.max_features <= 3 else {"votes": Fraction(0)})
    ],
    "no candidates far away": [(design, "with_far", lambda near: near),
      (start, "number_far", lambda m: 0)],  # noqa: ARG005
    "votes not shrunk": [(start, "shrunk", _as_voted)],
    "one step among all features, with the budget of all": [
        _rows(lambda row: {"steps": (sum(row.steps),), "n_inner": 0})
    ],
    "all steps among all features": [_rows(lambda _: {"n_inner": 0})],
    "offsets clipped by the bounds only": [(StepRound, "_length", _half_diagonal)],
    "counts not shrunk": [(steps, "sizes", _as_counted)],
    "moves not shrunk": [(steps, "shrunk", lambda moves, *_: moves)],
    "how much moves vary: from the moves alone": [
        (steps, "LIKELY_WEIGHT", 0.0), (steps, "_most", lambda *_: math.inf)
    ],
}  # fmt: skip


def trial(job: tuple[str, str, str, float, int]) -> tuple[str, Cell, float]:
    """Run one trial with a part left out, or with all parts if its name is "". Return the part, the
    cell and the NICV.
    """
    part, group, name, epsilon, run = job
    with ExitStack() as changed:
        for module, attribute, other in PARTS.get(part, []):
            changed.enter_context(patch.object(module, attribute, other))
        row = perform(
            {"group": group, "set": name, "method": "momentlloyd", "epsilon": epsilon, "run": run}
        )
    return part, (name, epsilon), row["nicv"] + 1e-9


def ratio(
    without: dict[Cell, list[float]], whole: dict[Cell, list[float]], cells: list[Cell]
) -> str:
    """Return the geometric mean over cells of the NICV without a part, divided by the NICV with it.
    Its standard error comes from resampled runs. Return "-" if nothing changed, because the part is
    not used in these cells.
    """
    draws = np.random.default_rng(0)
    pairs = [(np.array(without[cell]), np.array(whole[cell])) for cell in cells]
    if all((a == b).all() for a, b in pairs):
        return "-"
    found = float(np.mean([math.log(a.mean() / b.mean()) for a, b in pairs]))
    again = []
    for _ in range(200):
        drawn = [draws.integers(0, len(a), len(a)) for a, _ in pairs]
        again.append(
            np.mean(
                [
                    math.log(a[i].mean() / b[i].mean())
                    for (a, b), i in zip(pairs, drawn, strict=True)
                ]
            )
        )
    n = len(pairs[0][0])
    return (
        f"{math.exp(found):.3f} ±"
        f" {math.exp(found) * float(np.std(again)) * math.sqrt(n / (n - 1)):.3f}"
    )


def main() -> None:
    """Run all trials, and write the table."""
    parser = argparse.ArgumentParser(
        prog="studies.moment_ablation", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--runs", type=int, default=4)
    options = parser.parse_args()
    cases = [case for case in CASES if case.group in GROUPS]
    jobs = [
        (part, case.group, case.name, epsilon, run)
        for case, part, epsilon, run in product(cases, ["", *PARTS], EPSILONS, range(options.runs))
    ]
    print(f"{len(jobs)} trials", file=sys.stderr)
    values: dict[str, dict[Cell, list[float]]] = defaultdict(lambda: defaultdict(list))
    with ProcessPoolExecutor(options.jobs) as pool:
        for part, cell, nicv in pool.map(trial, jobs, chunksize=20):
            values[part][cell].append(nicv)
    d = {case.name: case.d for case in cases}
    rows = [
        [
            part,
            *(
                ratio(values[part], values[""], [c for c in values[part] if d[c[0]] in width])
                for width in WIDTHS.values()
            ),
        ]
        for part in PARTS
    ]
    publish("ablation", as_table(["left out", *WIDTHS], "l" + "r" * len(WIDTHS), rows), PAGE)


if __name__ == "__main__":
    main()
