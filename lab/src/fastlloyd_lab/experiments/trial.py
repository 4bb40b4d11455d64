"""Run one trial: a problem, a method and seeds give a row, which does not depend on the place or
time of the run.

The output of a method is checked. Code of users may return anything, but a row contains numbers
only.
"""

import hashlib
import json
import math
import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fastlloyd.base.arrays import FloatArray
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.errors import DataError
from fastlloyd_lab.experiments.measures import MEASURES
from fastlloyd_lab.experiments.methods import Method, Option, Outcome, Setting, load_method
from fastlloyd_lab.experiments.problem import Problem, load_problem
from fastlloyd_lab.experiments.reading import FAILED, OK, Cells
from fastlloyd_lab.experiments.references import RAISED, said

MOST_ITERATIONS = 2**53  # beyond it a JSON number may be rounded


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """Trial of an experiment: one run of a method on a set.

    method : name of the method in results.
    method_source : name or reference of the method in the specification.
    delta : a number, or "paper" for 1 / (N ln N).
    epsilon : epsilon, or inf for a method without privacy.
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
        """Text that distinguishes this trial from all others of an experiment."""
        return key(self.dataset, self.method, self.epsilon, self.options, self.clients, self.run)

    @property
    def public_seed(self) -> PublicSeed:
        """Seed of public random choices. It depends on data set and run only, so all methods start
        from the same centroids.
        """
        return PublicSeed(_hash("public", self.seed, self.dataset, self.run))

    @property
    def noise_seed(self) -> int:
        """Seed of the noise. It depends on the whole key, so no two trials share their noise."""
        return int.from_bytes(_hash("noise", self.seed, self.key))


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Row of a trial, and facts about it for the runner.

    preparing : seconds that the preparation of the set took.
    busy : seconds that clustering and measures took.
    digest : digest of the values of the set, or "" without values.
    """

    row: Cells
    preparing: float
    busy: float
    digest: str = ""


def key(
    dataset: str, method: str, epsilon: float, options: dict[str, Option], clients: int, run: int
) -> str:
    """Return the text that distinguishes a trial from all others."""
    return json.dumps(
        [dataset, method, float(epsilon), dict(sorted(options.items())), clients, run]
    )


def perform(trial: Trial, folder: Path) -> Report:
    """Run a trial, and return its report. Any exception becomes a row with one sentence.

    folder : folder of the specification.
    """
    started = time.perf_counter()
    try:
        problem = load_problem(trial.dataset, folder)
        for name in trial.measures:
            MEASURES[name].prepare(problem)
        method = load_method(trial.method_source, folder)
    except RAISED as error:  # whatever is wrong with a set or a method, the others are run
        return Report(
            row=failed(trial, said(error)), preparing=time.perf_counter() - started, busy=0.0
        )
    prepared = time.perf_counter()
    row = run_trial(trial, method, problem)
    busy = time.perf_counter() - prepared
    return Report(row=row, preparing=prepared - started, busy=busy, digest=problem.digest)


def run_trial(trial: Trial, method: Method, problem: Problem) -> Cells:
    """Return the row of a trial on a problem."""
    n = problem.n_records
    delta = (
        trial.delta if isinstance(trial.delta, float) else 1 / (n * math.log(n)) if n > 2 else 0.5
    )
    about = {
        "n_records": n,
        "n_features": problem.n_features,
        "n_clusters": problem.n_clusters,
        "delta": delta,
    }
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
        centroids, n_iterations = _checked(
            outcome, method.name, (problem.n_clusters, problem.n_features)
        )
        measured = {name: _measured(name, problem, centroids) for name in trial.measures}
    except RAISED as error:  # a trial that fails is a row
        return failed(trial, said(error)) | about
    return (
        _identity(trial)
        | about
        | {"status": OK, **measured, "n_iterations": n_iterations, "seconds": seconds}
    )


def failed(trial: Trial, sentence: str) -> Cells:
    """Return the row of a trial that failed."""
    delta = trial.delta if isinstance(trial.delta, float) else None
    return _identity(trial) | {"delta": delta, "status": FAILED, "error": sentence}


def _identity(trial: Trial) -> Cells:
    return {
        name: getattr(trial, name) for name in ("dataset", "method", "epsilon", "clients", "run")
    } | trial.options


def _measured(name: str, problem: Problem, centroids: FloatArray) -> float:
    value = float(MEASURES[name].compute(problem, centroids))
    if math.isnan(value):
        raise DataError(f"measure {name!r} of these centroids is not a number")
    return value


def _hash(*parts: object) -> bytes:
    return hashlib.sha256(json.dumps(["fastlloyd/experiments", *parts]).encode()).digest()


def _checked(outcome: Any, method: str, shape: tuple[int, int]) -> tuple[FloatArray, int]:
    """Return the centroids and the number of iterations of a method, after a check.

    The centroids are float64 (n_clusters, n_features). Raises DataError if they are not finite or
    have another shape.
    """
    if not isinstance(outcome, Outcome):
        raise DataError(
            f"method {method!r} returned {_kind(outcome)}; expected an Outcome of centroids and"
            " n_iterations"
        )
    given: Any = outcome.n_iterations
    whole = isinstance(given, (int, np.integer)) and not isinstance(given, bool)
    if not whole or not 0 <= given <= MOST_ITERATIONS:
        shown = f"{given!r:.80}" if whole else f"{_kind(given)}, {given!r:.80}"
        raise DataError(
            f"method {method!r} returned n_iterations {shown}; expected a whole number, 0 or more"
        )
    return _centroids(outcome.centroids, method, shape), int(given)


def _centroids(given: Any, method: str, shape: tuple[int, int]) -> FloatArray:
    """Return the centroids as an array. Nested lists of numbers are accepted. Text and complex
    numbers are refused.
    """
    try:
        array = np.asarray(given)
    except (TypeError, ValueError):  # rows of several lengths
        array, wrong = np.empty(0), "that are no array"
    else:
        wrong = "" if array.shape == shape else f"of shape {array.shape}"
        if array.dtype.kind not in "iuf":
            wrong = (
                "that are"
                f" {_kind(given) if array.dtype.kind == 'O' else f'{array.dtype.name} values'}"
            )
    if wrong:
        raise DataError(
            f"method {method!r} returned centroids {wrong}; expected float64 of shape {shape}, a"
            " row per cluster"
        )
    centroids = array.astype(np.float64)
    if n_wrong := int(np.count_nonzero(~np.isfinite(centroids).all(axis=1))):
        what = "NaN" if np.isnan(centroids).any() else "an infinite coordinate"
        raise DataError(
            f"method {method!r} returned centroids with {what} in {n_wrong} of {shape[0]} rows;"
            " expected finite ones: if a cluster has no record, keep its centroid or draw a new"
            " one"
        )
    return centroids


def _kind(given: Any) -> str:
    return "None" if given is None else f"a {type(given).__name__}"
