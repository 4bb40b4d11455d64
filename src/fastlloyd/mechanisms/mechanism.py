"""Clustering mechanisms: the kind of `PrivateRun` whose result is centroids.

There are two kinds: `LloydMechanism` (`lloyd/mechanism.py`) for the paper's algorithms, and
`MomentMechanism` (`moment_lloyd/mechanism.py`) for MomentLloyd. This module has their common part.
"""

import math
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import msgspec
import numpy as np

from fastlloyd.base.arrays import FloatArray, IntArray
from fastlloyd.clustering.packing import RadiusSearch
from fastlloyd.clustering.radius import squared_radius
from fastlloyd.dp.noise import Noise
from fastlloyd.errors import PlanError
from fastlloyd.mechanisms.facts import Fact, Facts, FarRecords, Finds
from fastlloyd.mechanisms.private_run import (
    MAX_ROUNDS,
    PrivateRun,
    check_grid,
    check_ints,
    check_numbers,
)
from fastlloyd.mechanisms.queries.relative import centroids_digest
from fastlloyd.mechanisms.rounds import Answer, LossRound, Round, State
from fastlloyd.mechanisms.suggestion import NoisyVotes

# packing them takes time quadratic in their number, also for whoever only reads the file
MAX_CLUSTERS = 10_000
MAX_LOSS_CAP = 1 << 20  # MAX_RECORDS of them stay below 2**62


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """Estimates about the records of each cluster, computed from noisy answers, in grid units.

    means : means of the records nearest to each centroid, with offsets clipped to the radius,
        float64 (n_clusters, n_features).
    deviations : standard deviations of the noise in the means, of the same shape.
    sizes : number of records of each cluster, estimated from the noisy counts of all clusters,
        float64 (n_clusters,).
    radius : largest Euclidean norm of an offset in the last round. Longer offsets were clipped to
        it.
    hidden : distance by which clipping moves each mean, estimated from the votes
        (`suggestion.NoisyVotes`), float64 (n_clusters, n_features).
    crowded : whether a cluster may be several groups, because many records seem to lie beyond the
        radius, bool (n_clusters,).
    is_first : whether the last round was the first in which centroids moved in all directions.
    above, below : largest distances by which the means without clipping may be above and below
        `means`, float64 (n_clusters, n_features). None if the answers do not determine them.
    """

    means: FloatArray
    deviations: FloatArray
    sizes: FloatArray
    radius: float
    hidden: FloatArray
    crowded: np.ndarray[tuple[int], np.dtype[np.bool_]]
    is_first: bool = False
    above: FloatArray | None = None
    below: FloatArray | None = None

    def of(self, clusters: IntArray) -> Self:
        """Return the evidence about these clusters, in this order."""
        names = "means", "deviations", "sizes", "hidden", "crowded", "above", "below"
        values = {name: getattr(self, name) for name in names}
        return msgspec.structs.replace(
            self, **{name: None if v is None else v[clusters] for name, v in values.items()}
        )


def cautious(counts: FloatArray, deviation: float, n_expected: int) -> FloatArray:
    """Return noisy counts lowered by their standard deviation, for use as divisors in error
    estimates.

    Each result is at least 1, and at least the smaller of `deviation` and `n_expected` /
    n_clusters.

    counts : noisy counts, float64 (n_clusters,).
    deviation : standard deviation of their noise.
    """
    least = max(min(deviation, n_expected / len(counts)), 1.0)
    return np.asarray(np.maximum(counts - deviation, least))


class Clustering(msgspec.Struct, frozen=True):
    """Centroids and the last noisy answer, during a run or at its end.

    centroids, previous : centroids after and before the last update, int64 (n_clusters,
        n_features), grid units.
    answer : last noisy answer of a round.
    updated : whether each centroid was moved in the last update, bool (n_clusters,). False if its
        noisy count was too small.
    loss : noisy loss of `centroids` in the units of `LossRound`, or None if the run has no loss.
    unit : number of grid units in one unit of the answer's sums.
    evidence : estimates from all rounds, or None if only the last answer is used.
    votes : noisy number of records nearest to each of some points, or None if no round asked for
        it.
    """

    centroids: IntArray
    previous: IntArray
    answer: Answer
    updated: np.ndarray[tuple[int], np.dtype[np.bool_]]
    loss: int | None = None
    unit: float = 1.0
    evidence: Evidence | None = None
    votes: NoisyVotes | None = None

    def noisy_counts(self, number_bits: int) -> FloatArray:
        """Return the noisy number of records, or persons, of each cluster in the last round.

        The result is float64 (n_clusters,). Noise may make a count negative.
        """
        return self.answer[:, -1] / 2.0**number_bits

    def by_noisy_count(self) -> Self:
        """Return the same clustering with its clusters sorted by noisy count, the largest first.

        Clusters with equal counts keep their order. The order follows from released numbers, so it
        costs no privacy.
        """
        # ~x is -1 - x, which exists for every int64
        return self.of(np.argsort(~self.answer[:, -1], kind="stable"))

    def of(self, order: IntArray) -> Self:
        """Return the same clustering, with its clusters in this order."""
        return msgspec.structs.replace(
            self,
            centroids=self.centroids[order],
            previous=self.previous[order],
            answer=self.answer[order],
            updated=self.updated[order],
            evidence=None if self.evidence is None else self.evidence.of(order),
        )

    @property
    def digest(self) -> bytes:
        """Digest of the centroids, which clients confirm."""
        return centroids_digest(self.centroids)


class ExpectedError(NamedTuple):
    """Standard error that a result is expected to show for a centroid whose interval is reliable
    (settled).

    It is the Euclidean norm of the standard errors of all features, divided by
    `Mechanism.planned_radius`. It is infinite if hardly any interval would be reliable.

    typical : median of simulated runs.
    low, high : bounds of the error in 80 % of the simulated runs.
    """

    typical: float
    low: float
    high: float


class Mechanism(PrivateRun[Clustering], frozen=True, kw_only=True):
    """Clustering with a privacy guarantee. Its fields determine everything except the records and
    the noise.

    `catalogue.design` makes mechanisms. Other fields are as in `PrivateRun`.

    Attributes
    ----------
    n_expected : int
        Number of records for which the iterations are planned.
    n_clusters : int
        Number of clusters.
    loss : LossRound or None
        Round that estimates the loss at the end, or None.
    bounds_digest : str or None
        Digest of the mechanism that found the bounds within the same budget, or None.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.repeat([[20.0, 1.0], [60.0, 4.0]], 500, axis=0)
    >>> from fastlloyd import MomentLloyd
    >>> model = MomentLloyd(2, bounds=([0, 0], [100, 5]), n_records=2000).fit(X)
    >>> model.mechanism_.epsilon, model.mechanism_.n_clusters
    (1.0, 2)
    """

    n_clusters: int
    loss: LossRound | None = None
    bounds_digest: str | None = None

    finds: ClassVar[Finds] = Finds.CLUSTERS

    @property
    def radius_share(self) -> Fraction:
        """Planned radius of a cluster, as a multiple of half the diagonal of a box. The box has the
        shape of the domain, and 1 / n_clusters of its volume.
        """
        raise NotImplementedError

    @property
    def far_records(self) -> FarRecords:
        """Treatment of records beyond the radius in the last round."""
        return FarRecords.LEFT_OUT if self.sums_are_relative else FarRecords.COUNTED

    @property
    def promise(self) -> Facts:
        """Facts that state which values the interval of two standard errors around a centroid
        covers.
        """
        if self.noise is Noise.NONE:
            return (Fact.of("covers_nothing"),)
        counted = []
        if self.persons is not None:
            several = self.persons.max_clients > 1
            counted = [Fact.of("counts_once_at_each" if several else "counts_once")]
        return (Fact.of(f"covers_{self.far_records.name.lower()}"), Fact.of("clipped"), *counted)

    @property
    def sums_are_relative(self) -> bool:
        """Return whether the last round sums offsets from the previous centroids.

        Otherwise it sums the records themselves.
        """
        raise NotImplementedError

    @property
    def initialization(self) -> RadiusSearch:
        """Search method for the packing of spheres from which the initial centroids come.

        An algorithm without initial centroids states Lloyd's method, for comparison.
        """
        return RadiusSearch.BISECTION

    @property
    def may_leave_bounds(self) -> bool:
        """Return whether a centroid that noise moves out of the bounds in the last update stays
        there.
        """
        return False

    def result(self, state: State) -> Clustering:
        """Return the clustering that follows from the state after the last round.

        Its clusters are numbered by their noisy counts in the last round, the largest first.
        Clusters with equal counts keep the order that they have in the rounds. All clients confirm
        this order. During the rounds, the numbers of clusters do not change.
        """
        return self.last_clustering(state).by_noisy_count()

    def last_clustering(self, state: State) -> Clustering:
        """Return the clustering after the last round. Its clusters have the numbers that they had
        during the rounds.
        """
        raise NotImplementedError

    # some mechanisms begin without any
    def centroids(self, number: int, state: State) -> IntArray | None:  # noqa: ARG002
        """Return the centroids after `number` rounds, or None before there are any.

        They are int64 (n_clusters, n_features), in grid units, in the order of the rounds.
        """
        centroids: IntArray = state.centroids
        return centroids

    def expected_error(self, noise_factor: float = 1.0) -> ExpectedError:
        """Return the standard error that a result is expected to show for a centroid, computed from
        public numbers alone.

        A typical cluster has n_expected / n_clusters records.

        noise_factor : scale of the noise, divided by the scale that the guarantee needs.
        """
        raise NotImplementedError

    @cached_property
    def planned_radius(self) -> float:
        """Planned radius of a cluster in grid units, with which errors of centroids are
        compared.
        """
        return math.sqrt(squared_radius(self.domain, self.n_clusters, self.radius_share))

    @property
    def last_radius(self) -> float:
        """Distance from a centroid, in grid units, up to which records count in full in the last
        round.

        If all records count in full, it is the planned radius.
        """
        return self.planned_radius

    @property
    def divides_by_noisy_counts(self) -> bool:
        """Return whether centroids are plain quotients of noisy sums and noisy counts, which are
        not shrunk to allow for the noise.
        """
        return False

    @cached_property
    def all_rounds(self) -> tuple[Round, ...]:
        """Rounds of the clustering, followed by the round of the loss if there is one."""
        return (*self.rounds, *([] if self.loss is None else [self.loss]))

    def loss_planning(self, noise_factor: float) -> list[Facts]:
        """Return facts about the estimate of the loss for `planning`, or an empty list without an
        estimate.
        """
        if self.loss is None:
            return []
        deviation = noise_factor * self.loss_deviation
        cap = self.loss.cap * self.loss.unit(self.domain.fraction_bits)
        said = (
            Fact.of("loss_round", share=float(self.loss_share)),
            *([] if self.persons is None else [Fact.of("loss_of_persons")]),
            Fact.of("loss_cap", distance=math.sqrt(cap), cap=cap),
            Fact.of("loss_noise", deviation=deviation, each=deviation / self.n_expected),
        )
        return [said]

    def facts(self) -> dict[str, Any]:
        """Return facts about iterations, clusters, intervals and the loss."""
        return {
            "n_iterations": self.n_iterations,
            "iterations_and_rounds": Fact.of("iterations_and_rounds"),
            "n_clusters": self.n_clusters,
            "intervals": {"cover": self.promise},
            "loss_estimate": self.loss.facts(self) if self.loss else None,
        }

    @property
    def n_iterations(self) -> int:
        """Number of rounds that move the centroids."""
        return sum(round.moves_centroids for round in self.rounds)

    @property
    def loss_share(self) -> Fraction:
        """Cost of the loss as a share of the cost of the run, or 0 if the run has no loss."""
        return (
            Fraction(0)
            if self.loss is None or self.noise is Noise.NONE
            else self.share_of_budget(self.loss)
        )

    @property
    def loss_deviation(self) -> float:
        """Standard deviation of the noise in the loss in the central model, or 0 without a loss.

        The unit is the squared half width of the domain.
        """
        return (
            0.0
            if self.loss is None
            else self.noise.spread * float(self.loss.scale) * self.loss_unit
        )

    @property
    def loss_unit(self) -> float:
        """Unit of the noisy loss in squared half widths of the domain, exact, or 0 without a
        loss.
        """
        return (
            0.0
            if self.loss is None
            else math.ldexp(self.loss.unit(self.domain.fraction_bits), -self.share_bits)
        )


def check_clusters(n_clusters: int, n_records: int) -> None:
    """Raise PlanError if the number of clusters is out of range."""
    if not 1 <= n_clusters <= min(n_records, MAX_CLUSTERS):
        raise PlanError(
            f"n_clusters is {n_clusters}; expected 1 to {min(n_records, MAX_CLUSTERS)} (n_records"
            f" is {n_records})"
        )


def check_sizes(m: Mechanism) -> None:
    """Raise PlanError if a number of the mechanism is out of range. The message names the field."""
    check_ints(m, "n_clusters", "n_records", "n_expected", "count_bits")
    check_numbers(m.n_records, m.epsilon, m.noise)
    check_clusters(m.n_clusters, m.n_records)
    if not 1 <= len(m.rounds) <= MAX_ROUNDS:
        raise PlanError(f"there are {len(m.rounds)} rounds; expected 1 to {MAX_ROUNDS}")
    check_grid(m.n_expected, m.count_bits)
    if m.loss is not None:
        _check_loss(m, m.loss)


def _check_loss(m: Mechanism, loss: LossRound) -> None:
    if m.n_rounds > MAX_ROUNDS:
        raise PlanError(
            f"there are {len(m.rounds)} rounds and one for the loss; expected at most {MAX_ROUNDS}"
            " together"
        )
    if not 1 <= loss.cap <= MAX_LOSS_CAP:
        raise PlanError(f"cap of the loss is {loss.cap}; expected 1 to {MAX_LOSS_CAP}")
    if not 0 <= loss.shift < 53 or loss.squared_cap >= 1 << 53:
        raise PlanError(
            f"shift of the loss is {loss.shift}, with a cap of {loss.cap}; expected a shift of 0 to"
            " 52, and cap * 2**shift (squared grid units) below 2**53"
        )
