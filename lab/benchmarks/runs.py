"""Settings of runs, and processes of their own, for benchmarks and studies."""

import re
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD
from fastlloyd.mechanisms.settings import AnyAlgorithm, Settings

P = ParamSpec("P")
T = TypeVar("T")


def box(n_features: int, low: float = 0.0, high: float = 1.0) -> Domain:
    """Return the domain of the features x0, x1, ..., which all have the same bounds."""
    return Domain(
        features=tuple(f"x{i}" for i in range(n_features)),
        lower=(low,) * n_features,
        upper=(high,) * n_features,
    )


def settings_of(
    domain: Domain,
    n_clusters: int,
    n_records: int,
    *,
    epsilon: float = 1.0,
    seed: int = 0,
    algorithm: AnyAlgorithm = MOMENTLLOYD,
    **more: Any,
) -> Settings[AnyAlgorithm]:
    """Return the settings of a run.

    seed : seed of public random choices.
    more : further settings by name.
    """
    return Settings(
        algorithm=algorithm,
        domain=domain,
        n_clusters=n_clusters,
        n_records=n_records,
        epsilon=epsilon,
        public_seed=PublicSeed.from_int(seed),
        **more,
    )


def alone(work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function of a module in a new process, and return its result. So no other work counts
    in the process's peak memory, and nothing is loaded before.
    """
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(work, *args, **kwargs).result()


def peak_bytes() -> int:
    """Return the largest memory that this process has used so far, in bytes."""
    (kibibytes,) = re.findall(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())
    return int(kibibytes) * 2**10
