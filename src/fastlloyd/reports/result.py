"""Result of a clustering, and the files that it writes."""

import csv
import io
import math
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from fastlloyd.base.arrays import FloatArray
from fastlloyd.base.files import to_json
from fastlloyd.base.precision import as_whole, rounded
from fastlloyd.federation.plan.plan import Plan, loss_estimate_of_run, noise_deviation_of_run
from fastlloyd.federation.protocol.actions import ClientResult
from fastlloyd.jobs.fit import FitOutcome
from fastlloyd.mechanisms.bounds.mechanism import FoundBounds
from fastlloyd.mechanisms.facts import Fact
from fastlloyd.mechanisms.mechanism import Clustering, Mechanism
from fastlloyd.mechanisms.suggestion import Split, clearest_split
from fastlloyd.mechanisms.two_stages import FirstStage
from fastlloyd.mechanisms.uncertainty import (
    Accuracy,
    LossEstimate,
    NoiseDeviation,
    Status,
    assess,
    loss_estimate,
    noise_deviation,
    settled,
)
from fastlloyd.reports.bounds_result import BoundsResult, both_stages
from fastlloyd.reports.facts import sentences
from fastlloyd.reports.picture import Picture
from fastlloyd.reports.run_result import (
    BOUNDS,
    BOUNDS_MECHANISM,
    CENTROIDS,
    EXACT,
    RunResult,
    finite_or_none,
)
from fastlloyd.reports.statement import with_radius
from fastlloyd.reports.units import EVERY, in_units, units_of

# beside those of features
CLUSTER, NOISY_COUNT, COUNT_ERROR, STATUS = "cluster", "noisy_count", "se_noisy_count", "status"
ERROR, RADIUS, BEYOND = "se_", "radius_", "beyond_"  # before the name of a feature
MARK = "privacy"  # the column, or key, that says so
# of centroids.csv, beside features and their standard errors
OTHER_COLUMNS = CLUSTER, NOISY_COUNT, COUNT_ERROR, STATUS, MARK


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """Cluster of a result, in original units.

    noisy_count : noisy number of records or persons. It is whole if the unit of counts is one
        record.
    standard_errors : standard error of each coordinate of the centroid, or None if the centroid was
        not moved in the last round.
    mean_beyond : row of `uncertainty.Accuracy.beyond` for this cluster, with None instead of NaN.
        None if the result has no such numbers.
    """

    cluster: int  # from 0 by noisy count, the largest first, as labels are
    centroid: tuple[float, ...]
    noisy_count: int | float
    noisy_count_standard_error: float
    standard_errors: tuple[float, ...] | None
    status: Status
    mean_beyond: tuple[float | None, ...] | None


class Result(RunResult, frozen=True, kw_only=True):
    """Result of a clustering, in original units.

    centroids : float64 (n_clusters, n_features).
    noisy_counts : number of records (or persons) of each cluster in the last round, plus noise,
        float64 (n_clusters,). They may be negative.
    count_error : standard error of each noisy count.
    accuracy : standard errors and status of the centroids.
    loss : estimate of the loss, or None if the mechanism does not estimate it.
    first : first stage, which found the bounds within the same budget, or None.
    split : groups into which the data split most clearly, from the noisy votes
        (`suggestion.Split`), or None if the votes do not decide.
    """

    mechanism: Mechanism
    centroids: FloatArray
    noisy_counts: FloatArray
    count_error: float
    accuracy: Accuracy
    loss: LossEstimate | None = None
    first: FirstStage | None = None
    split: Split | None = None

    @classmethod
    def of(
        cls, mechanism: Mechanism, clustering: Clustering, noise: NoiseDeviation, **others: Any
    ) -> "Result":
        """Return the result of a clustering, in original units.

        mechanism : settings of the clustering.
        clustering : centroids and counts in grid units.
        noise : standard deviation of the noise in the last answer.
        others : more fields of the result.
        """
        return cls(
            mechanism=mechanism,
            centroids=mechanism.domain.from_grid(clustering.centroids),
            noisy_counts=clustering.noisy_counts(mechanism.number_bits),
            count_error=noise.counts,
            accuracy=assess(mechanism, clustering, noise),
            split=clearest_split(clustering.votes, mechanism.n_clusters, mechanism.seed),
            **others,
        )

    @classmethod
    def of_fit(cls, fit: FitOutcome[Any]) -> "Result":
        """Return the result of a fit of the central model."""
        m = fit.mechanism
        return cls.of(
            m,
            fit.clustering,
            noise_deviation(m),
            loss=loss_estimate(m, fit.clustering),
            first=fit.first,
        )

    @classmethod
    def of_run(cls, plan: Plan, run: ClientResult) -> "Result":
        """Return the result that a client of a federated run has."""
        n_included = len(run.included[len(plan.mechanism.rounds) - 1])
        return cls.of(
            plan.clustering,
            run.clustering,
            noise_deviation_of_run(plan, n_included),
            plan=plan,
            included=run.included,
            unconfirmed=run.unconfirmed,
            doubtful=run.doubtful,
            loss=loss_estimate_of_run(plan, run.clustering, len(run.included[-1])),
        )

    @property
    def errors(self) -> FloatArray:
        """Standard errors of the centroids, float64 (n_clusters, n_features), original units.

        They are NaN for a centroid that was not moved in the last round.
        """
        return self.accuracy.errors

    @property
    def epsilon(self) -> float:
        """Epsilon of the guarantee. It covers both stages if there are two."""
        return self.mechanism.epsilon if self.first is None else self.first.epsilon

    @property
    def rounds_covered(self) -> list[Fact]:
        """Facts about the number of rounds for the bounds, for the clustering, and for the loss."""
        m, n = self.mechanism, len(self.mechanism.rounds)
        rounds = Fact.of("n_iterations", n=n)
        if n != m.n_iterations:
            rounds = Fact.of("n_rounds_and_iterations", n=n, n_iterations=m.n_iterations)
        before = []
        if self.first is not None:
            before = [Fact.of("n_rounds_of_bounds", n=len(self.first.mechanism.rounds))]
        return [*before, rounds, *([Fact.of("the_loss")] if m.loss else [])]

    @property
    def updated(self) -> NDArray[np.bool_]:
        """Bool (n_clusters,), True for each centroid that was moved in the last round."""
        return np.array([status is not Status.STAYED for status in self.accuracy.status])

    @property
    def clusters(self) -> tuple[Cluster, ...]:
        """Clusters of the result, with centroid, noisy count, standard errors and status."""
        as_counted = float if self.mechanism.number_bits else int
        return tuple(
            Cluster(
                cluster=number,
                centroid=tuple(centroid.tolist()),
                noisy_count=as_counted(count),
                noisy_count_standard_error=self.count_error,
                standard_errors=tuple(errors.tolist()) if status is not Status.STAYED else None,
                status=status,
                mean_beyond=None if beyond is None else tuple(finite_or_none(beyond.tolist())),
            )
            for number, (centroid, count, errors, status, beyond) in enumerate(
                zip(
                    self.centroids,
                    self.noisy_counts,
                    self.errors,
                    self.accuracy.status,
                    self._beyond,
                    strict=True,
                )
            )
        )

    @property
    def _beyond(self) -> Sequence[FloatArray | None]:
        """Row of `Accuracy.beyond` for each cluster, or None for each if there are no
        such numbers.
        """
        beyond = self.accuracy.beyond
        return [None] * len(self.centroids) if beyond is None else list(beyond)

    def statement(self) -> dict[str, Any]:
        """Return the content of `privacy.json`, with the loss and the radius of the intervals."""
        said = with_radius(super().statement(), self.accuracy.radius)
        if self.first is not None:
            first = self.first
            said = both_stages(
                said, first.mechanism, self.mechanism, first.epsilon, first.not_found
            )
        if self.loss is not None:
            n, unit = (
                self.mechanism.n_expected,
                "record" if self.mechanism.persons is None else "person",
            )
            said["loss_estimate"] |= finite_or_none(
                {
                    "value": self.loss.value,
                    "standard_error": self.loss.standard_error,
                    f"per_expected_{unit}": self.loss.value / n,
                    f"standard_error_per_expected_{unit}": self.loss.standard_error / n,
                    "n_expected": n,
                }
            )
            if self.plan is not None:
                said["loss_estimate"]["included"] = list(self.included[-1])
        return said

    def found(self) -> dict[str, Any]:
        """Return the findings as plain data (for JSON): features, intervals, clusters, and the
        clearest split into groups.

        `standard_errors` of a cluster is None if its centroid was not moved in the last round.
        """
        radius, split = self.accuracy.radius, self.split or Split()
        return {
            "features": list(self.mechanism.domain.features),
            "intervals": {
                "cover": sentences(self.mechanism.promise, self.mechanism.unit),
                "radius": None if radius is None else radius.tolist(),
            },
            "clusters": msgspec.to_builtins(self.clusters),
            **self._in_units(),
            "votes_tell": self.split is not None,
            "clearest_split": split.clearest,
            "finer_split": split.finer,
        }

    def _in_units(self) -> dict[str, Any]:
        """Return the centroids in the units of a recipe's columns, or nothing without a recipe."""
        domain = self.mechanism.domain
        if domain.recipe is None:
            return {}
        return {
            "in_units": [
                in_units(domain, cluster.centroid, cluster.standard_errors)
                for cluster in self.clusters
            ]
        }

    def files(self) -> dict[str, bytes]:
        """Return the text files of the result by name, with both tables of centroids."""
        texts = {CENTROIDS: centroids_csv(self), EXACT: centroids_json(self)}
        before = (
            {}
            if self.first is None
            else {
                BOUNDS: BoundsResult(
                    mechanism=self.first.mechanism, bounds=self.first.bounds
                ).text(),
                BOUNDS_MECHANISM: self.first.mechanism.to_toml(),
            }
        )
        return {name: text.encode() for name, text in (texts | before).items()} | super().files()

    def picture(self, records: FloatArray | None) -> Picture:
        """Return the picture of the centroids and their errors."""
        return Picture.of(
            self.mechanism,
            private=self.private,
            epsilon=self.epsilon,
            records=records,
            centroids=self.centroids,
            errors=self.errors,
            settled=settled(self.accuracy.status),
            noisy_counts=self.noisy_counts,
            count_error=self.count_error,
        )


_OF_RUNS: dict[type, Callable[[Plan, ClientResult], RunResult]] = {
    Clustering: Result.of_run,
    FoundBounds: BoundsResult.of_run,
}


def result_of_run(plan: Plan, run: ClientResult) -> RunResult:
    """Return the result that a client of a federated run has: clusters or bounds."""
    return _OF_RUNS[type(run.found)](plan, run)


def centroids_csv(result: Result) -> str:
    """Return a CSV table for people, with one row per cluster.

    The columns are: index of the cluster from 0, centroid in original units, noisy count, standard
    errors of the centroid, standard error of the count, `radius_...`, `beyond_...`, and status.
    Clusters are numbered by noisy count, the largest first.

    `radius_...` is the radius R of the intervals (`Mechanism.promise`), and is the same in every
    row. `beyond_...` is `Accuracy.beyond`. `status` is a value of `uncertainty.Status`. A result
    without a radius or without `Accuracy.beyond` has no such columns.

    Numbers are in the units of the columns. If a feature's logarithm is clustered, the ends of its
    interval are in two columns, `lower_...` and `upper_...`. Its `radius_...` and `beyond_...` are
    factors.

    Numbers have the digits that their standard errors warrant. `centroids.json` has all digits.
    Standard errors are empty if a centroid was not moved in the last round. A column `privacy` is
    added if the guarantee does not hold. A feature with the name of another column is renamed to
    `feature_...`.
    """
    features = _columns(result.mechanism.domain.features)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    mark = {MARK: result.mark} if result.mark else {}
    radius = [] if result.accuracy.radius is None else result.accuracy.radius.tolist()
    has_figures = result.accuracy.beyond is not None
    units = units_of(result.mechanism.domain)
    named = list(zip(features, units, strict=True))
    writer.writerow(
        [
            CLUSTER,
            *features,
            NOISY_COUNT,
            *(f"{prefix}{name}" for name, u in named for prefix in u.error_prefixes),
            COUNT_ERROR,
            *(f"{RADIUS}{u.size_prefix}{name}" for name, u in named if radius),
            *(f"{BEYOND}{u.size_prefix}{name}" for name, u in named if has_figures),
            STATUS,
            *mark,
        ]
    )
    for cluster in result.clusters:
        errors = cluster.standard_errors
        known = [math.nan] * len(features) if errors is None else errors
        centroid = list(zip(units, cluster.centroid, known, strict=True))
        sizes = [u.size(R) for u, R in zip(units, radius, strict=False)]
        row = [
            cluster.cluster,
            *(u.cell(number, error) for u, number, error in centroid),
            as_whole(rounded(cluster.noisy_count, result.count_error)),
            *(
                cell
                for u, number, error in centroid
                for cell in (
                    [""] * len(u.error_prefixes) if errors is None else u.errors(number, error)
                )
            ),
            as_whole(rounded(result.count_error, result.count_error)),
            *map(rounded, sizes, sizes),
            *(
                "" if X is None else u.beyond(X)
                for u, X in zip(units, cluster.mean_beyond or (), strict=False)
            ),
            cluster.status.value,
            *mark.values(),
        ]
        writer.writerow(row)
    return text.getvalue()


def _columns(features: Sequence[str]) -> list[str]:
    """Return a column name for each feature, so that no two columns of the table have the same
    name.
    """
    others = {*OTHER_COLUMNS, *(name for feature in features for name in _beside(feature))}
    taken = others.union(features)
    names = []
    for feature in features:
        name = feature
        while name in others or (name != feature and not taken.isdisjoint({name, *_beside(name)})):
            name = f"feature_{name}"
        taken |= {name, *_beside(name)}
        names.append(name)
    return names


def _beside(feature: str) -> set[str]:
    """Return all names that columns about this feature can have, in any kind of units, such as the
    column of standard errors. The column of the centroids is not included.
    """
    prefixes = {ERROR, *(prefix for u in EVERY for prefix in u.error_prefixes)}
    sizes = {f"{prefix}{u.size_prefix}" for u in EVERY for prefix in (RADIUS, BEYOND)}
    return {f"{prefix}{feature}" for prefix in prefixes | sizes}


def centroids_json(result: Result) -> str:
    """Return the centroids as JSON with all digits, for programs. `StoredResult` reads it."""
    return to_json(({MARK: result.mark} if result.mark else {}) | result.found())
