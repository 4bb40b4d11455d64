"""A result read back from the folder it left: settings and centroids, which must belong together."""

import csv
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from fastlloyd.base.arrays import FloatArray, IntArray
from fastlloyd.base.sealed_toml import load_text
from fastlloyd.clustering.domain import Domain
from fastlloyd.errors import DataError
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.mechanisms.catalogue import read_mechanism
from fastlloyd.mechanisms.mechanism import Mechanism
from fastlloyd.records.files import opened

PRIVACY, CENTROIDS, EXACT, MECHANISM, PLAN, ROUNDS, PICTURE, COMPARISON = FILES = (
    "privacy.json",
    "centroids.csv",
    "centroids.json",
    "mechanism.toml",
    "plan.toml",
    "rounds.json",
    "clusters.png",
    "comparison-NOT-PRIVATE.json",
)
CLUSTER, NOISY_COUNT, COUNT_ERROR, STATUS = "cluster", "noisy_count", "se_noisy_count", "status"  # beside those of features

UNKNOWN = "unknown"  # the status of clusters of results that did not have it


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """One cluster, in original units.

    standard_errors : of the centroid, None where it stayed in the last round. status : a value of `accuracy.Status`.
    """

    cluster: int  # numbered from 0, as labels are
    centroid: tuple[float, ...]
    noisy_count: float
    noisy_count_standard_error: float | None = None  # of results that did not have it
    standard_errors: tuple[float, ...] | None
    status: str | None = None  # of results that did not have it


class _ExactCentroids(msgspec.Struct, frozen=True, kw_only=True):
    features: tuple[str, ...]
    clusters: tuple[Cluster, ...]


class StoredResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a folder holds. centroids : int64 (n_clusters, n_features), grid units; clusters : the same in original units."""

    mechanism: Mechanism
    centroids: IntArray
    clusters: tuple[Cluster, ...]

    @property
    def noisy_counts(self) -> FloatArray:
        """Records per cluster, with noise, float64 (n_clusters,)."""
        return np.array([cluster.noisy_count for cluster in self.clusters])

    @property
    def count_error(self) -> float:
        """Standard error of each of them, NaN where the result does not say it."""
        error = self.clusters[0].noisy_count_standard_error
        return math.nan if error is None else error

    @property
    def status(self) -> NDArray[np.str_]:
        """Of each cluster, (n_clusters,): a value of `accuracy.Status`, or "unknown" where the result does not say."""
        return np.array([cluster.status or UNKNOWN for cluster in self.clusters])

    @property
    def standard_errors(self) -> FloatArray:
        """Of the centroids, float64 (n_clusters, n_features), original units; NaN where one stayed in the last round."""
        unknown = (math.nan,) * self.mechanism.n_features
        return np.array([cluster.standard_errors or unknown for cluster in self.clusters])

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read what `fit`, `simulate` or `join` left: the folder, or its table of centroids with the settings beside it.

        Raises PlanError if the settings were changed, DataError if they are missing or the centroids are not theirs.
        """
        table = _table(path)
        mechanism = _settings(table.parent)
        clusters = _exact(table, mechanism.domain) if table.name == EXACT else _before_there_were_two(table, mechanism.domain)
        return cls(mechanism=mechanism, centroids=_on_grid(table, clusters, mechanism), clusters=clusters)


def _table(path: Path) -> Path:
    """The exact centroids where there are some, otherwise the one table that results used to have."""
    if path.is_dir():
        path = path / CENTROIDS
    exact = path.with_name(EXACT)
    if path.name == CENTROIDS and exact.is_file():
        return exact
    if not path.is_file():
        raise DataError(f"{path} is no result: name a folder that fit, simulate or join left, or the {CENTROIDS} in it")
    return path


def _settings(folder: Path) -> Mechanism:
    mechanism, plan = folder / MECHANISM, folder / PLAN
    if mechanism.exists():
        return read_mechanism(load_text(mechanism), str(mechanism))
    if plan.exists():
        return Plan.from_toml(load_text(plan), str(plan)).mechanism
    raise DataError(f"{folder} holds neither {MECHANISM} nor {PLAN}, which say what the centroids mean; keep a result together")


def _exact(path: Path, domain: Domain) -> tuple[Cluster, ...]:
    with opened(path) as text:
        try:
            read = msgspec.json.decode(text.read(), type=_ExactCentroids)
        except (ValueError, RecursionError):  # msgspec's errors are ValueErrors
            raise DataError(f"{path} is not the {EXACT} of a result: no centroids of named features") from None
    if read.features != domain.features:
        raise DataError(f"{path} does not belong to the settings beside it: its features are not theirs")
    if [cluster.cluster for cluster in read.clusters] != list(range(len(read.clusters))):
        raise DataError(f"{path} was changed: its clusters are not numbered 0, 1, 2, ...; get the original")
    return read.clusters


def _before_there_were_two(path: Path, domain: Domain) -> tuple[Cluster, ...]:
    """The clusters of a centroids.csv with all digits, as results had it when there was no centroids.json."""
    wanted = [*domain.features, NOISY_COUNT]
    with opened(path) as text:
        try:
            header, *rows = csv.reader(text, strict=True)
            numbers = [[float(cell) if cell else math.nan for cell in row[: 2 * len(wanted) - 1]] for row in rows]
        except (ValueError, csv.Error):  # no row, no number, a quotation mark without partner
            raise DataError(f"{path} is not the {CENTROIDS} of a result: no table of numbers below names") from None
    if header[:1] == [CLUSTER] and header[: len(wanted)] != wanted:
        raise DataError(
            f"{path} holds rounded numbers; the exact ones are in {EXACT}, which is missing; keep a result together"
        )
    if header[: len(wanted)] != wanted:
        raise DataError(f"{path} does not belong to the settings beside it: its columns are not their features and noisy_count")
    if any(len(row) < len(wanted) for row in numbers):
        raise DataError(f"{path} is not the {CENTROIDS} of a result: a row is too short")
    d = domain.n_features
    return tuple(
        Cluster(
            cluster=number,
            centroid=tuple(row[:d]),
            noisy_count=row[d],
            standard_errors=tuple(row[d + 1 :]) if len(row) == 2 * d + 1 and not math.isnan(row[-1]) else None,
        )
        for number, row in enumerate(numbers)
    )


def _on_grid(path: Path, clusters: Sequence[Cluster], mechanism: Mechanism) -> IntArray:
    """The centroids as grid points: no float of the file is trusted further than to name one."""
    domain = mechanism.domain
    shape = (mechanism.n_clusters, domain.n_features)
    lengths = {len(numbers) for c in clusters for numbers in (c.centroid, c.standard_errors) if numbers is not None}
    whole = len(clusters) == shape[0] and lengths == {shape[1]}
    values: FloatArray = np.array([cluster.centroid for cluster in clusters] if whole else [[math.nan]], dtype=np.float64)
    if values.shape != shape or not np.isfinite(values).all():
        raise DataError(
            f"{path} does not belong to the settings beside it: it does not hold a finite centroid for each of their "
            f"{mechanism.n_clusters} clusters"
        )
    with np.errstate(over="ignore"):  # an infinity is beyond the grid
        nearest = np.rint((values - domain.centre) / domain.units)
    if (np.abs(nearest) > domain.saturation).any() or (domain.from_grid(nearest.astype(np.int64)) != values).any():
        raise DataError(f"{path} was rounded, changed, or made with other settings than those beside it; get the original")
    return nearest.astype(np.int64)
