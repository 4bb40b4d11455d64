"""Mechanism of Lloyd, SuLloyd, GLloyd and FastLloyd: radii, noise and initial centroids."""

import math
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from fastlloyd.base.arrays import FloatArray, IntArray
from fastlloyd.base.names import NAME, NAME_RULE
from fastlloyd.base.threads import shared
from fastlloyd.clustering import update
from fastlloyd.clustering.packing import RadiusSearch, initial_centroids
from fastlloyd.clustering.update import Postprocessing
from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.dp.noise import Noise
from fastlloyd.errors import PlanError
from fastlloyd.mechanisms.facts import Fact, Facts
from fastlloyd.mechanisms.lloyd.algorithm import Algorithm, RadiusSchedule
from fastlloyd.mechanisms.mechanism import Clustering, ExpectedError, Mechanism, check_sizes
from fastlloyd.mechanisms.private_run import check_guarantee
from fastlloyd.mechanisms.queries.query import Query, ask
from fastlloyd.mechanisms.queries.relative import Moments, centroids_digest
from fastlloyd.mechanisms.rounds import Answer, AnswerNoise, Round


class LloydRound(Round, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One iteration of Lloyd's algorithm.

    sum_scale : scale of the total noise of a sum, in grid units.
    count_scale : scale of the total noise of a count, in units of 2**-count_bits records.
    squared_radius : squared radius H2 in grid units, or None without a radius.

    If persons are protected, counts are in shares of a person instead of records.
    """

    moves_centroids: ClassVar[bool] = True
    counts_records: ClassVar[bool] = True
    sum_scale: Fraction
    count_scale: Fraction
    squared_radius: int | None = None

    @property
    def scales(self) -> tuple[Fraction, ...]:
        """Scales of the noise of sums and of counts."""
        return self.sum_scale, self.count_scale

    def question(self, m: "LloydMechanism") -> Moments:
        """Return the query, without its parameters, for the sum and the count of each cluster."""
        return Moments(
            domain=m.domain,
            n_clusters=m.n_clusters,
            squared_radius=self.squared_radius,
            count_bits=m.count_bits,
        )

    def query(self, m: "LloydMechanism", state: Clustering) -> Query:
        """Return the query for sums and counts around the centroids of `state`."""
        return ask(m.question(self), centroids=state.centroids)

    def advance(
        self,
        m: "LloydMechanism",
        state: Clustering,
        answer: Answer,
        noise: AnswerNoise,  # noqa: ARG002
    ) -> Clustering:
        """Return the state after a step of Lloyd's algorithm (Eqn 10, Section 5.3.5 of the paper).

        The step divides sums by counts, clips moves to the radius, moves the centroids, and returns
        them to the domain, all in integers. A centroid with a noisy count below `min_count` is not
        moved. The argument `noise` is not used.
        """
        updated = update.is_large_enough(answer[:, -1], m.number_bits, m.min_count)
        moved = state.centroids.copy()

        def move(start: int, stop: int) -> None:
            old, found, stays = moved[start:stop], answer[start:stop], ~updated[start:stop, None]
            sums, counts = np.where(stays, 0, found[:, :-1]), np.where(stays[:, 0], 1, found[:, -1])
            moves = update.divide(sums, counts, m.count_bits)
            if m.algorithm.clipping and self.squared_radius is not None:
                moves = update.clip_to_radius(moves, self.squared_radius)
            origin = 0 if self.squared_radius is None else old
            new = update.saturate(origin + moves, m.domain.saturation)
            moved[start:stop] = update.postprocess(
                np.where(stays, old, new), m.domain.half_widths, m.algorithm.postprocessing
            )

        shared(move, len(moved), nanoseconds=16 * answer.size)
        return Clustering(moved, state.centroids, answer, updated, unit=2.0**-m.share_bits)

    def facts(self, m: "LloydMechanism") -> dict[str, Any]:
        """Return the radius, the sensitivities and the noise of the round."""
        s = m.question(self).sensitivity
        ((squared_l2, _),) = s.added
        replace = m.neighboring_relation is NeighboringRelation.REPLACE_ONE
        return {
            "squared_radius": self.squared_radius,
            "sum_sensitivity_l2": math.sqrt(squared_l2),
            "sum_sensitivity_l1": s.l1_added[0],
            "count_sensitivity": s.l1_added[1],
            "sensitivities_are_for": Fact.of(
                "sensitivity_of_a_change_at_the_cost_of_a_replacement"
                if replace
                else "sensitivity_of_a_change"
            ),
            "sum_noise_scale": float(self.sum_scale),
            "count_noise_scale": float(self.count_scale),
            "sum_noise_scale_exact": str(self.sum_scale),
            "count_noise_scale_exact": str(self.count_scale),
        }


# shown standard error over that of the noise: median, and around it the bounds of 80 % of the runs
SHOWN = (0.9, 1.3, 2.8)


class LloydMechanism(Mechanism, frozen=True, kw_only=True, tag_field="kind", tag="lloyd"):
    """`Mechanism` of an `Algorithm`, made by `lloyd/design.py`.

    min_count : a centroid is not moved if its noisy count is below this number. 0 is the paper's
        rule: a centroid is left in place only if its noisy count is 0.
    """

    algorithm: Algorithm
    initialization: RadiusSearch
    min_count: Fraction
    initial_centroids_digest: str
    rounds: tuple[LloydRound, ...]

    divides_by_noisy_counts: ClassVar[bool] = True  # except counts below min_count

    def __post_init__(self) -> None:
        check_sizes(self)
        self.algorithm.check()
        if not NAME.fullmatch(self.name):
            raise PlanError(
                f"the algorithm's name {self.name!r:.80} is not usable; expected {NAME_RULE}"
            )
        if self.min_count < 0:
            raise PlanError(f"min_count is {self.min_count}; expected 0 (the paper's rule) or more")
        for number, round in enumerate(self.rounds, 1):
            if round.squared_radius is not None and not 0 <= round.squared_radius < 1 << 53:
                raise PlanError(
                    f"squared_radius of round {number} is {round.squared_radius}; expected 0 to"
                    " 2**53"
                )
        if self.initial_centroids_digest != centroids_digest(self.initial_centroids()).hex():
            raise PlanError(
                "initial_centroids_digest does not match the centroids this version derives from"
                " public_seed; everyone must run the same version of fastlloyd"
            )
        check_guarantee(self)

    @property
    def name(self) -> str:
        """Name of the algorithm."""
        return self.algorithm.name

    @property
    def noise(self) -> Noise:
        """Distribution of the noise in the answers: Gaussian, Laplace or none."""
        return self.algorithm.noise

    @property
    def radius_share(self) -> Fraction:
        """Ratio alpha (`AnyAlgorithm.alpha`), which algorithms without a radius have too."""
        return self.algorithm.alpha

    @property
    def may_leave_bounds(self) -> bool:
        """Return whether centroids of the last round may lie outside the domain."""
        return self.algorithm.postprocessing is Postprocessing.NONE

    @property
    def sums_are_relative(self) -> bool:
        """Return whether the last round has a radius, so it sums offsets instead of records."""
        return self.rounds[-1].squared_radius is not None

    @property
    def last_radius(self) -> float:
        """Radius of the last round in grid units, or the planned radius if every record counts."""
        squared = self.rounds[-1].squared_radius
        return self.planned_radius if squared is None else math.sqrt(squared)

    def start(self) -> Clustering:
        """Return the first state, which contains the initial centroids. A state is a clustering."""
        centroids = self.initial_centroids()
        answer = np.zeros((self.n_clusters, self.n_features + 1), dtype=np.int64)
        updated = np.zeros(self.n_clusters, dtype=np.bool_)
        return Clustering(centroids, centroids, answer, updated, unit=2.0**-self.share_bits)

    def last_clustering(self, state: Clustering) -> Clustering:
        """Return the last state, which is a clustering."""
        return state

    def expected_standard_errors(self, noise_factor: float = 1.0) -> FloatArray:
        """Return the expected standard error of a typical centroid, float64 (n_features,), original
        units.

        A typical cluster has n_expected / n_clusters records, and its centroid moves by half the
        radius in the last round (Section 5.5 of the paper). The standard error is sqrt(var(sum
        noise) + var(count noise) offset^2) / size.

        noise_factor : scale of the noise, divided by the scale that the guarantee needs.
        """
        last = self.rounds[-1]
        size = self.n_expected / self.n_clusters
        if last.squared_radius is None:
            # rho: see `RHO` in design.py
            offset = 0.225 * self.domain.half_widths.astype(np.float64)
        else:
            offset = np.full(
                self.n_features, math.sqrt(last.squared_radius) / 2 / math.sqrt(self.n_features)
            )
        sums, counts = (
            float(last.sum_scale / 2**self.share_bits),
            float(last.count_scale / 2**self.number_bits),
        )
        deviations = self.noise.spread * noise_factor * np.sqrt(sums**2 + (counts * offset) ** 2)
        return np.asarray(deviations / size * self.domain.units)

    def noise_error(self, noise_factor: float = 1.0) -> float:
        """Return the norm of `expected_standard_errors`, divided by the planned radius."""
        errors = self.expected_standard_errors(noise_factor) / self.domain.units
        return float(np.linalg.norm(errors)) / max(self.planned_radius, 1.0)

    def expected_error(self, noise_factor: float = 1.0) -> ExpectedError:
        """Return the standard error that a result is expected to show for a centroid.

        It is the error that noise causes, times a factor for moves that are still to come. The
        factor is from simulations (`lab/studies/forecast.py`).
        """
        low, typical, high = (factor * self.noise_error(noise_factor) for factor in SHOWN)
        return ExpectedError(typical=typical, low=low, high=high)

    def planning(self, noise_factor: float) -> list[Fact | Facts]:
        """Return facts about rounds, radius, noise, and the least count that moves a centroid."""
        last, half_width = self.rounds[-1], 2**self.domain.fraction_bits
        radius = Fact.of("no_radius")
        if self.algorithm.radius is not RadiusSchedule.NONE and last.squared_radius is not None:
            radius = Fact.of(
                "radius",
                radius=math.sqrt(last.squared_radius) / half_width,
                alpha=self.algorithm.alpha,
                schedule=self.algorithm.radius.value,
            )
        return [
            Fact.of("planned"),
            Fact.of("rounds", n_rounds=len(self.rounds), n_expected=self.n_expected),
            radius,
            Fact.of(
                "noise_of_last_round",
                sums=float(last.sum_scale) / 2**self.share_bits / half_width,
                counts=float(last.count_scale) / 2**self.number_bits,
            ),
            *self.loss_planning(noise_factor),
            Fact.of("min_count", min_count=self.min_count),
        ]

    def initial_centroids(self) -> IntArray:
        """Return the initial centroids of every run, int64 (n_clusters, n_features)."""
        return initial_centroids(self.domain, self.n_clusters, self.seed, self.initialization)
