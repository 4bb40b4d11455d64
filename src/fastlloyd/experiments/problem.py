"""One data set ready to be clustered: scaled records, domain, grid points. Exact on public records, NOT PRIVATE."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from fastlloyd import datasets
from fastlloyd.clustering.domain import Domain, FloatArray, GridArray
from fastlloyd.errors import DataError
from fastlloyd.experiments.references import is_reference, resolve
from fastlloyd.metrics import SilhouetteSample

REFERENCE_STARTS = 10
SAMPLE = 4000  # records of a silhouette: its distances are 128 MB


@dataclass(frozen=True, kw_only=True, eq=False)  # no slots: what is costly is computed when it is first asked for
class Problem:
    """Records in [-1, 1]^d by the data's own range, which a private run must not use.

    Arrays are read-only.

    X : float64 (n_records, n_features). domain : the box itself. grid : the same records as grid points of it.
    digest : SHA-256 of the raw values, hex.
    """

    name: str
    X: FloatArray
    n_clusters: int
    domain: Domain
    grid: GridArray
    digest: str

    @property
    def n_records(self) -> int:
        """N, exactly."""
        return len(self.X)

    @property
    def n_features(self) -> int:
        """d."""
        return int(self.X.shape[1])

    @cached_property
    def reference(self) -> FloatArray:
        """Centroids of scikit-learn's k-means++, the best of 10 starts with a fixed seed, float64 (k, d)."""
        from sklearn.cluster import KMeans

        fitted = KMeans(self.n_clusters, n_init=REFERENCE_STARTS, random_state=0).fit(self.X)
        centroids = np.asarray(fitted.cluster_centers_, dtype=np.float64)
        centroids.setflags(write=False)
        return centroids

    @cached_property
    def sample(self) -> SilhouetteSample:
        """All records, or 4,000 of them: the same for all trials of a set."""
        return SilhouetteSample.of(self.X, n_records=SAMPLE)


def check_name(name: str, folder: Path) -> None:
    """Raise DataError or PlanError, now and not in a trial, if there is no set of that name."""
    if is_reference(name):
        resolve(name, folder)
    else:
        datasets.n_clusters(name)


@lru_cache(maxsize=1)  # a process stays with one set
def load_problem(name: str, folder: Path) -> Problem:
    """The set of that name, or what FILE.py:NAME gives, relative to the folder. Raises DataError or PlanError."""
    if is_reference(name):
        values, n_clusters = _from_code(name, resolve(name, folder))
    else:
        values, n_clusters = datasets.load(name).values, datasets.n_clusters(name)
    return make_problem(name, values, n_clusters)


def make_problem(name: str, values: FloatArray, n_clusters: int) -> Problem:
    """Scale raw records (n_records, n_features), finite; a constant feature becomes 0. Raises DataError."""
    if values.ndim != 2 or 0 in values.shape or not np.isfinite(values).all():
        raise DataError(
            f"{name!r}: the records must be a table of finite numbers, (n_records, n_features), with a row at least"
        )
    if not 1 <= n_clusters <= len(values):
        raise DataError(f"{name!r}: n_clusters is {n_clusters}; expected 1 to the number of records, {len(values)}")
    lower, upper = values.min(axis=0) / 2, values.max(axis=0) / 2  # halves: a width may be larger than any float
    half_widths = upper - lower
    above, below = values / 2 - lower, upper - values / 2  # differences of near numbers are exact: so are the ends of a range
    X = (above - below) / np.where(half_widths > 0, half_widths, 1)
    X[:, half_widths == 0] = 0
    d = values.shape[1]
    domain = Domain(features=tuple(f"x{i + 1}" for i in range(d)), lower=(-1.0,) * d, upper=(1.0,) * d)
    grid = domain.to_grid(X)
    for shared in (X, grid):
        shared.setflags(write=False)  # a method that centres in place would change the others' trials
    return Problem(
        name=name,
        X=X,
        n_clusters=n_clusters,
        domain=domain,
        grid=grid,
        digest=hashlib.sha256(f"{values.shape}".encode() + np.ascontiguousarray(values).astype("<f8").tobytes()).hexdigest(),
    )


def _from_code(name: str, given: Any) -> tuple[FloatArray, int]:
    """Records and clusters from a pair (X, n_clusters), or from a function without arguments that returns one."""
    pair = given() if callable(given) else given
    if not isinstance(pair, Iterable) or len(pair := tuple(pair)) != 2:
        raise DataError(f"{name!r} gives no pair (X, n_clusters); expected that, or a function without arguments returning it")
    X, n_clusters = pair
    try:
        return np.asarray(X, dtype=np.float64), int(n_clusters)
    except (TypeError, ValueError):
        raise DataError(
            f"{name!r} gives no numbers; expected X, (n_records, n_features), and a whole number of clusters"
        ) from None
