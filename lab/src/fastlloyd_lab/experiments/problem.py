"""Data set that is ready to be clustered: scaled records, domain, and grid points. Exact, so NOT
PRIVATE.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from fastlloyd.base.arrays import FloatArray, GridArray
from fastlloyd.clustering.domain import Domain
from fastlloyd.errors import DataError
from fastlloyd_lab import datasets
from fastlloyd_lab.datasets.homes import own_sets
from fastlloyd_lab.experiments.references import guarded, is_reference, resolve
from fastlloyd_lab.partitions import SilhouetteSample

REFERENCE_STARTS = 10
SAMPLE = 4000  # records of a silhouette: its distances are 128 MB


@dataclass(
    frozen=True, kw_only=True, eq=False
)  # no slots: what is costly is computed when it is first asked for
class Problem:
    """Records scaled to [-1, 1]^d by their own range. (A run with privacy must not use this range.)
    Arrays are read-only.

    X : scaled records, float64 (n_records, n_features).
    domain : box [-1, 1]^d.
    grid : grid points of the records in the domain.
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
        """Exact number of records."""
        return len(self.X)

    @property
    def n_features(self) -> int:
        """Number of features of a record."""
        return int(self.X.shape[1])

    @cached_property
    def reference(self) -> FloatArray:
        """Centroids of scikit-learn's k-means++, float64 (k, d): the best of 10 starts with a fixed
        seed.
        """
        from sklearn.cluster import KMeans

        fitted = KMeans(self.n_clusters, n_init=REFERENCE_STARTS, random_state=0).fit(self.X)
        centroids = np.asarray(fitted.cluster_centers_, dtype=np.float64)
        centroids.setflags(write=False)
        return centroids

    @cached_property
    def sample(self) -> SilhouetteSample:
        """Records for the silhouette: all, or 4,000 of them. They are the same for all trials of a
        set.
        """
        return SilhouetteSample.of(self.X, n_records=SAMPLE)


@lru_cache(maxsize=1)  # a process stays with one set
def load_problem(name: str, folder: Path) -> Problem:
    """Return the problem of the set with this name, or of the set that FILE.py:NAME refers to.

    folder : folder that FILE.py is relative to.

    Raises PlanError if the reference in FILE.py cannot be used, and DataError if there is no such
    set, or if its values cannot be used.
    """
    return make_problem(name, *_values(name, folder))


def check_own(name: str, folder: Path) -> None:
    """Raise DataError or PlanError if no trial can use a data set that the user's code defines.

    The set is read once. Other sets are known by their digests, so they are not read.
    """
    if is_reference(name) or name in own_sets():
        with guarded(f"the data set {name!r:.200} cannot be loaded"):
            values, n_clusters = _values(name, folder)
        _check(name, values, n_clusters)


def make_problem(name: str, values: FloatArray, n_clusters: int) -> Problem:
    """Return the problem of raw records. A constant feature becomes 0.

    values : finite numbers (n_records, n_features).
    n_clusters : number of clusters.

    Raises DataError if the values cannot be used, or are too few for `n_clusters`.
    """
    _check(name, values, n_clusters)
    # halves: a width may be larger than any float
    lower, upper = values.min(axis=0) / 2, values.max(axis=0) / 2
    half_widths = upper - lower
    # differences of near numbers are exact: so are the ends of a range
    above, below = values / 2 - lower, upper - values / 2
    X = (above - below) / np.where(half_widths > 0, half_widths, 1)
    X[:, half_widths == 0] = 0
    d = values.shape[1]
    domain = Domain(
        features=tuple(f"x{i + 1}" for i in range(d)), lower=(-1.0,) * d, upper=(1.0,) * d
    )
    grid = domain.to_grid(X)
    for shared in (X, grid):
        # a method that centres in place would change the others' trials
        shared.setflags(write=False)
    return Problem(
        name=name,
        X=X,
        n_clusters=n_clusters,
        domain=domain,
        grid=grid,
        digest=hashlib.sha256(
            f"{values.shape}".encode() + np.ascontiguousarray(values).astype("<f8").tobytes()
        ).hexdigest(),
    )


def _check(name: str, values: FloatArray, n_clusters: int) -> None:
    if values.ndim != 2 or 0 in values.shape:
        raise DataError(
            f"{name!r:.200}: the records have the shape {values.shape}; expected a table"
            " (n_records, n_features) with a row at least"
        )
    if not (finite := np.isfinite(values)).all():
        row, column = np.argwhere(~finite)[0] + 1
        what = "NaN" if np.isnan(values[row - 1, column - 1]) else "infinite"
        raise DataError(
            f"{name!r:.200}: record {row:,} is {what} in feature {column:,}; expected finite"
            " numbers: leave such records out"
        )
    if not 1 <= n_clusters <= len(values):
        raise DataError(
            f"{name!r:.200}: n_clusters is {n_clusters}; expected 1 to the number of records,"
            f" {len(values):,}"
        )
    if (distinct := _distinct(values, n_clusters)) < n_clusters:
        raise DataError(
            f"{name!r:.200}: n_clusters is {n_clusters}, above the number of distinct records,"
            f" {distinct:,}; expected no more"
        )


def _distinct(values: FloatArray, enough: int) -> int:
    """Return the number of distinct records. Counting stops early once `enough` are found, so the
    result may then be too small, but is at least `enough`.
    """
    n = 2 * enough
    while (found := len(np.unique(values[:n], axis=0))) < enough and n < len(values):
        n *= 4
    return found


def _values(name: str, folder: Path) -> tuple[FloatArray, int]:
    if is_reference(name):
        return _from_code(name, resolve(name, folder))
    return datasets.load(name).values, datasets.n_clusters(name)


def _from_code(name: str, given: Any) -> tuple[FloatArray, int]:
    """Return records and number of clusters from an object of the user's code.

    given : a pair (X, n_clusters), or a function without arguments that returns such a pair.
    """
    pair = given() if callable(given) else given
    if not isinstance(pair, Iterable) or len(pair := tuple(pair)) != 2:
        raise DataError(
            f"{name!r:.200} gives no pair (X, n_clusters); expected that, or a function without"
            " arguments returning it"
        )
    X, n_clusters = pair
    if not isinstance(n_clusters, (int, np.integer)) or isinstance(n_clusters, bool):
        raise DataError(f"{name!r:.200}: n_clusters is {n_clusters!r:.80}; expected a whole number")
    try:
        records = np.asarray(X)
        if records.dtype.kind in "biufO":  # no text, complex numbers or dates
            return np.asarray(records, dtype=np.float64), int(n_clusters)
    except (TypeError, ValueError):  # no table
        pass
    raise DataError(
        f"{name!r:.200} gives records that are no numbers; expected X, float64 (n_records,"
        " n_features)"
    )
