"""Read the result of a clustering back from its folder."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from fastlloyd.base.arrays import FloatArray, IntArray
from fastlloyd.clustering.domain import Domain
from fastlloyd.errors import DataError, PlanError
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.mechanisms.catalogue import read_mechanism
from fastlloyd.mechanisms.mechanism import Mechanism
from fastlloyd.mechanisms.suggestion import Split
from fastlloyd.records.recipe.recipe import Recipe
from fastlloyd.reports.result import MARK, Cluster
from fastlloyd.reports.run_result import CENTROIDS, EXACT, MECHANISM, PLAN, mark_of
from fastlloyd.reports.stored_files import StoredFiles


class _Intervals(msgspec.Struct, frozen=True, kw_only=True):
    radius: tuple[float, ...] | None


class _ExactCentroids(msgspec.Struct, frozen=True, kw_only=True):
    features: tuple[str, ...]
    intervals: _Intervals
    clusters: tuple[Cluster, ...]
    votes_tell: bool = False
    clearest_split: int | None = None
    finer_split: int | None = None
    privacy: str | None = None


class StoredResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a clustering, read from its folder.

    mechanism : settings of the clustering.
    plan : plan of a federated run, or None.
    centroids : int64 (n_clusters, n_features), grid units.
    clusters : one entry per cluster, in original units.
    split : groups into which the data split most clearly, from the noisy votes
        (`suggestion.Split`), or None if the votes do not decide.
    radius : radius R of the intervals, float64 (n_features,), original units, or None.
    """

    mechanism: Mechanism
    plan: Plan | None
    centroids: IntArray
    clusters: tuple[Cluster, ...]
    split: Split | None
    radius: FloatArray | None

    @property
    def noisy_counts(self) -> FloatArray:
        """Number of records, or persons, of each cluster, plus noise, float64 (n_clusters,)."""
        counts = [cluster.noisy_count for cluster in self.clusters]
        return np.array(counts, dtype=np.float64)

    @property
    def count_error(self) -> float:
        """Standard error of each noisy count."""
        return self.clusters[0].noisy_count_standard_error

    @property
    def status(self) -> NDArray[np.str_]:
        """Status of each cluster, (n_clusters,): a value of `uncertainty.Status`."""
        return np.array([cluster.status.value for cluster in self.clusters])

    @property
    def standard_errors(self) -> FloatArray:
        """Standard errors of the centroids, float64 (n_clusters, n_features), original units.

        They are NaN for a centroid that was not moved in the last round.
        """
        unknown = (math.nan,) * self.mechanism.n_features
        return np.array([cluster.standard_errors or unknown for cluster in self.clusters])

    @property
    def beyond(self) -> FloatArray | None:
        """Distances by which each mean may be outside its interval (`Accuracy.beyond`), or None if
        the result has no such numbers.
        """
        figures = [cluster.mean_beyond for cluster in self.clusters]
        if None in figures:
            return None
        return np.array(figures, dtype=np.float64)  # None becomes NaN

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a result that `fit`, `simulate` or `join` wrote.

        path : the folder, or the table of centroids in it.

        Raises PlanError if the settings were changed. Raises DataError if files are missing, or the
        centroids do not belong to the settings.
        """
        return cls.of(files_of(path))

    @classmethod
    def of(cls, files: StoredFiles) -> Self:
        """Return the result in the files of a folder. Raises the errors of `read`."""
        table = files.folder / EXACT
        settings = _settings(files)
        plan = settings if isinstance(settings, Plan) else None
        mechanism = settings.clustering if isinstance(settings, Plan) else settings
        read = _read_exact(table, files.content(EXACT), mechanism.domain)
        _check_mark(table, read.privacy, mechanism)
        radius = read.intervals.radius
        return cls(
            mechanism=mechanism,
            plan=plan,
            centroids=_on_grid(table, read.clusters, mechanism),
            clusters=read.clusters,
            split=(
                Split(clearest=read.clearest_split, finer=read.finer_split)
                if read.votes_tell or read.clearest_split is not None
                else None
            ),
            radius=None if radius is None else np.array(radius),
        )


def files_of(path: Path) -> StoredFiles:
    """Return the files of a result of clusters.

    path : folder of the result, or a table of centroids in it.

    Raises DataError if the path is not a result.
    """
    table = path / CENTROIDS if path.is_dir() else path
    exact = table.with_name(EXACT)
    if table.name not in (CENTROIDS, EXACT) or not (table.is_file() or exact.is_file()):
        raise DataError(
            f"{path} is not a result: pass a folder that fit, simulate or join wrote, or"
            f" the {CENTROIDS} in it"
        )
    if not exact.is_file():
        raise DataError(
            f"{table} holds rounded numbers; the exact ones are in {EXACT}, which is"
            " missing; keep the files of a result together"
        )
    return StoredFiles.read(table.parent)


def _check_mark(path: Path, mark: str | None, mechanism: Mechanism) -> None:
    """Raise DataError if a result's file has a warning (NOT PRIVATE) that its settings do not give,
    or lacks one that they give.

    path : file of centroids.
    mark : warning in the file, or None.
    mechanism : settings.
    """
    found = mark_of(mechanism) or None
    if mark != found:
        raise DataError(
            f"{path}: {MARK} is {mark!r:.60}, but the sealed settings beside it give {found!r:.60};"
            " get the original"
        )


def _settings(files: StoredFiles) -> Mechanism | Plan:
    if MECHANISM in files.contents:
        return read_mechanism(files.document(MECHANISM), str(files.folder / MECHANISM))
    if PLAN in files.contents:
        return Plan.from_toml(files.document(PLAN), str(files.folder / PLAN))
    raise DataError(
        f"{files.folder} holds neither {MECHANISM} nor {PLAN}, which say what the centroids"
        " mean; keep the files of a result together"
    )


def _read_exact(path: Path, content: bytes, domain: Domain) -> _ExactCentroids:
    try:
        read = msgspec.json.decode(content, type=_ExactCentroids)
    except (ValueError, RecursionError):  # msgspec's errors are ValueErrors
        raise DataError(
            f"{path} is not the {EXACT} of a result: the file has no centroids of named features"
        ) from None
    if read.features != domain.features or len(read.intervals.radius or read.features) != len(
        domain.features
    ):
        raise DataError(
            f"{path} does not belong to the settings beside it: the settings have other features"
        )
    counts = [cluster.noisy_count for cluster in read.clusters]
    is_numbered = [cluster.cluster for cluster in read.clusters] == list(range(len(counts)))
    if not is_numbered or counts != sorted(counts, reverse=True):
        raise DataError(
            f"{path} was changed: its clusters are not numbered 0, 1, 2, ... by noisy count, the"
            " largest first; get the original"
        )
    return read


def _on_grid(path: Path, clusters: Sequence[Cluster], mechanism: Mechanism) -> IntArray:
    """Return the centroids as grid points, int64 (n_clusters, n_features).

    Raises DataError for a number that is not exactly the value of a grid point.
    """
    domain = mechanism.domain
    shape = (mechanism.n_clusters, domain.n_features)
    lengths = {
        len(numbers)
        for c in clusters
        for numbers in (c.centroid, c.standard_errors, c.mean_beyond)
        if numbers is not None
    }
    whole = len(clusters) == shape[0] and lengths == {shape[1]}
    values: FloatArray = np.array(
        [cluster.centroid for cluster in clusters] if whole else [[math.nan]], dtype=np.float64
    )
    if values.shape != shape or not np.isfinite(values).all():
        raise DataError(
            f"{path} does not belong to the settings beside it: expected a finite centroid"
            f" for each of their {mechanism.n_clusters} clusters"
        )
    with np.errstate(over="ignore"):  # an infinity is beyond the grid
        nearest = np.rint((values - domain.centre) / domain.units)
    if (np.abs(nearest) > domain.saturation).any() or (
        domain.from_grid(nearest.astype(np.int64)) != values
    ).any():
        raise DataError(
            f"{path} was rounded, changed, or made with other settings than those beside it; get"
            " the original"
        )
    return nearest.astype(np.int64)


def recipe_of(folder: Path) -> Recipe:
    """Return the public part of a result's recipe, with the options of its run.

    Raises DataError if the folder is not a complete result, and PlanError if its settings were
    changed or have no recipe.
    """
    mechanism = StoredResult.read(folder).mechanism
    recipe = mechanism.domain.recipe
    if recipe is None:
        raise PlanError(f"{folder} is a result without a recipe; its bounds are in its settings")
    privacy = {
        "epsilon": mechanism.epsilon,
        "n_records": mechanism.n_records,
        "n_expected": mechanism.n_expected,
        "neighboring_relation": mechanism.neighboring_relation.value,
    }
    if mechanism.persons is not None:
        privacy |= {
            "unit": "person",
            "unit_name": mechanism.persons.name,
            "max_clients_per_person": mechanism.persons.max_clients,
        }
    clustering = {
        "n_clusters": mechanism.n_clusters,
        "algorithm": mechanism.name,
        "scaling": mechanism.domain.scaling.value,
    }
    return Recipe(features=recipe, privacy=privacy, clustering=clustering)
