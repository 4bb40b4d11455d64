"""One trial: a problem, a method, seeds; and the row that comes of it, the same wherever and whenever it runs."""

import hashlib
import json
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import FloatArray
from fastlloyd.errors import DataError
from fastlloyd.evaluation.experiments.measures import MEASURES
from fastlloyd.evaluation.experiments.methods import Method, Option, Setting, load_method
from fastlloyd.evaluation.experiments.outcomes import checked
from fastlloyd.evaluation.experiments.problem import Problem, load_problem
from fastlloyd.evaluation.experiments.references import RAISED, said

Row = dict[str, Any]
OK, FAILED = "ok", "failed"
OF_SET = ("dataset", "n_records", "n_features", "n_clusters")
_ASKED = ("method", "epsilon", "delta", "clients", "run")
_ENDED = ("status", "error")
_COST = ("n_iterations", "seconds")
FIXED = frozenset((*OF_SET, *_ASKED, *_ENDED, *_COST))


def columns(options: Sequence[str], measures: Sequence[str]) -> list[str]:
    """Names of all columns, in order."""
    return [*OF_SET, *_ASKED, *options, *_ENDED, *measures, *_COST]


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """What is run once. `method` is the name in results, `method_source` what the specification says for it.

    delta : a number, or "paper", 1 / (N ln N). epsilon : inf for a method that is not private.
    """

    dataset: str
    method: str
    method_source: str
    epsilon: float
    delta: float | str
    clients: int
    preset: str
    options: dict[str, Option]
    run: int
    measures: tuple[str, ...]
    seed: int

    @property
    def key(self) -> str:
        """What tells this trial from all others of an experiment."""
        return key(self.dataset, self.method, self.epsilon, self.options, self.clients, self.run)

    @property
    def public_seed(self) -> PublicSeed:
        """Of data set and run alone: all methods start from the same centroids and share the split over clients."""
        return PublicSeed(_hash("public", self.seed, self.dataset, self.run))

    @property
    def noise_seed(self) -> int:
        """Of the whole key."""
        return int.from_bytes(_hash("noise", self.seed, self.key))


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A row, and what the runner is told beside it.

    preparing, busy : seconds for the set, and for clustering and measures. digest : of the set's values, "" if there are none.
    """

    row: Row
    preparing: float
    busy: float
    digest: str = ""


def key(dataset: str, method: str, epsilon: float, options: dict[str, Option], clients: int, run: int) -> str:
    """The text that names a trial."""
    return json.dumps([dataset, method, float(epsilon), dict(sorted(options.items())), clients, run])


def perform(trial: Trial, folder: Path) -> Report:
    """Run a trial; whatever it raises becomes a row with one sentence. folder : of the specification."""
    started = time.perf_counter()
    try:
        problem = load_problem(trial.dataset, folder)
        for name in trial.measures:
            MEASURES[name].prepare(problem)
        method = load_method(trial.method_source, folder)
    except RAISED as error:  # whatever is wrong with a set or a method, the others are run
        return Report(row=failed(trial, said(error)), preparing=time.perf_counter() - started, busy=0.0)
    prepared = time.perf_counter()
    row = run_trial(trial, method, problem)
    busy = time.perf_counter() - prepared
    return Report(row=row, preparing=prepared - started, busy=busy, digest=problem.digest)


def run_trial(trial: Trial, method: Method, problem: Problem) -> Row:
    """The row of a trial on a problem."""
    about = {"n_records": problem.n_records, "n_features": problem.n_features, "n_clusters": problem.n_clusters}
    delta = _delta(trial, problem.n_records)
    setting = Setting(
        epsilon=trial.epsilon,
        delta=delta,
        clients=trial.clients,
        preset=trial.preset,
        options=trial.options,
        public_seed=trial.public_seed,
        noise_seed=trial.noise_seed,
    )
    try:
        started = time.perf_counter()
        outcome = method.cluster(problem, setting)
        seconds = time.perf_counter() - started
        centroids, n_iterations = checked(outcome, method.name, (problem.n_clusters, problem.n_features))
        measured = {name: _measured(name, problem, centroids) for name in trial.measures}
    except RAISED as error:  # a trial that fails is a row
        return failed(trial, said(error)) | about | {"delta": delta}
    return (
        _identity(trial)
        | about
        | {
            "delta": delta,
            "status": OK,
            **measured,
            "n_iterations": n_iterations,
            "seconds": seconds,
        }
    )


def failed(trial: Trial, sentence: str) -> Row:
    """The row of a trial that gave nothing."""
    delta = trial.delta if isinstance(trial.delta, float) else None
    return _identity(trial) | {"delta": delta, "status": FAILED, "error": sentence}


def _identity(trial: Trial) -> Row:
    return {
        "dataset": trial.dataset,
        "method": trial.method,
        "epsilon": trial.epsilon,
        "clients": trial.clients,
        "run": trial.run,
        **trial.options,
    }


def _delta(trial: Trial, n_records: int) -> float:
    if isinstance(trial.delta, float):
        return trial.delta
    return 1 / (n_records * math.log(n_records)) if n_records > 2 else 0.5


def _measured(name: str, problem: Problem, centroids: FloatArray) -> float:
    value = float(MEASURES[name].compute(problem, centroids))
    if math.isnan(value):
        raise DataError(f"measure {name!r} of these centroids is not a number")
    return value


def _hash(*parts: object) -> bytes:
    return hashlib.sha256(json.dumps(["fastlloyd/experiments", *parts]).encode()).digest()
