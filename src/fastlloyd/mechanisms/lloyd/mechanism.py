"""The mechanism of Lloyd, SuLloyd, GLloyd and FastLloyd: radii, noise of sums and counts, where centroids start."""

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np

from fastlloyd.base.arrays import FloatArray, IntArray
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering import update
from fastlloyd.clustering.packing import RadiusSearch, initial_centroids
from fastlloyd.clustering.update import Postprocessing
from fastlloyd.dp.accountant import GaussianRelease, GeometricRelease
from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.dp.noise import Noise
from fastlloyd.errors import PlanError
from fastlloyd.mechanisms.lloyd.algorithm import Algorithm
from fastlloyd.mechanisms.mechanism import (
    NAME,
    Answer,
    Clustering,
    ExpectedError,
    Mechanism,
    Release,
    check_guarantee,
    check_sizes,
)
from fastlloyd.mechanisms.queries.relative import Moments, Query, RelativeMoments, Sensitivity, centroids_digest, sensitivity
from fastlloyd.mechanisms.rounds import AnswerNoise, Exchange, Part, Round


class LloydMechanism(Mechanism, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="lloyd"):
    """See `Mechanism`.

    min_count : centroids whose noisy count is below it stay where they are; 0 is the paper's rule (divide by anything but 0).
    """

    algorithm: Algorithm
    initialization: RadiusSearch
    min_count: Fraction
    initial_centroids_digest: str
    rounds: tuple[Round, ...]

    def __post_init__(self) -> None:
        check_sizes(self)
        self.algorithm.check()
        if not NAME.fullmatch(self.name):
            raise PlanError(f"the algorithm's name {self.name!r:.80} is not usable; expected letters, digits, dash or dot")
        if self.min_count < 0:
            raise PlanError(f"min_count is {self.min_count}; expected 0 (the paper's rule) or more")
        for number, round in enumerate(self.rounds, 1):
            if round.squared_radius is not None and not 0 <= round.squared_radius < 1 << 53:
                raise PlanError(f"squared_radius of round {number} is {round.squared_radius}; expected 0 to 2**53")
        if self.initial_centroids_digest != centroids_digest(self.initial_centroids()).hex():
            raise PlanError(
                "initial_centroids_digest does not match the centroids this version derives from public_seed; "
                "everyone must run the same version of fastlloyd"
            )
        check_guarantee(self)

    @property
    def name(self) -> str:
        """The algorithm's."""
        return self.algorithm.name

    @property
    def noise(self) -> Noise:
        """What protects the answers."""
        return self.algorithm.noise

    @property
    def radius_share(self) -> Fraction:
        """alpha, also for the algorithms that use no radius."""
        return self.algorithm.alpha

    @property
    def may_leave_bounds(self) -> bool:
        """Without postprocessing."""
        return self.algorithm.postprocessing is Postprocessing.NONE

    @property
    def sums_are_relative(self) -> bool:
        """Where there is a radius."""
        return self.rounds[-1].squared_radius is not None

    @property
    def clustering_rounds(self) -> tuple[Round, ...]:
        """The rounds."""
        return self.rounds

    @property
    def count_scales(self) -> tuple[Fraction, ...]:
        """One per round."""
        return tuple(round.count_scale for round in self.rounds)

    @property
    def n_iterations(self) -> int:
        """T: one round each."""
        return len(self.rounds)

    def start(self) -> Clustering:
        """The initial centroids. A state is the clustering that the iterations so far led to."""
        centroids = self.initial_centroids()
        answer = np.zeros((self.n_clusters, self.n_features + 1), dtype=np.int64)
        return Clustering(centroids, centroids, answer, np.zeros(self.n_clusters, dtype=np.bool_))

    def query(self, number: int, state: Clustering) -> Query:
        """Moments of the records around the centroids; in the end their loss."""
        if number == len(self.rounds):
            return self.loss_query(state.centroids)
        return self.moments(self.rounds[number], state.centroids)

    def moments(self, round: Round, centroids: IntArray) -> Query:
        """What a round asks: relative moments where there is a radius, absolute moments otherwise."""
        bits, limits = self.count_bits, self.domain.half_widths
        if round.squared_radius is None:
            return Moments(centroids, bits, limits)
        return RelativeMoments(centroids, round.squared_radius, bits, limits)

    def advance(self, number: int, state: Clustering, answer: Answer, noise: AnswerNoise) -> Clustering:  # noqa: ARG002
        """Move the centroids (Algorithm 1); nobody needs to know the noise for that."""
        if number == len(self.rounds):
            return msgspec.structs.replace(state, loss=int(answer[0, 0]))
        return self.next_centroids(self.rounds[number], state.centroids, answer)

    def next_centroids(self, round: Round, centroids: IntArray, answer: Answer) -> Clustering:
        """Divide, shift, clip to the radius, bring back into the domain: integers throughout (Eqn 10 and Section 5.3.5)."""
        sums, counts = answer[:, :-1], answer[:, -1]
        updated = update.is_large_enough(counts, self.count_bits, self.min_count)
        stays = ~updated[:, None]
        moves = update.divide(np.where(stays, 0, sums), np.where(updated, counts, 1), self.count_bits)
        if self.algorithm.clipping and round.squared_radius is not None:
            moves = update.clip_to_radius(moves, round.squared_radius)
        moved = update.saturate(moves if round.squared_radius is None else centroids + moves, self.domain.saturation)
        moved = update.postprocess(np.where(stays, centroids, moved), self.domain.half_widths, self.algorithm.postprocessing)
        return Clustering(moved, centroids, answer, updated)

    def clustering(self, state: Clustering) -> Clustering:
        """The last state."""
        return state

    def expected_standard_errors(self, noise_factor: float = 1.0) -> FloatArray:
        """Expected standard error of one centroid per feature, original units, float64 (n_features,).

        For a cluster of n_expected / n_clusters records whose centroid moves by half the radius in the last round (the paper's
        Section 5.5 assumption): math.sqrt(var(sum noise) + var(count noise) (offset)^2) / size.
        """
        last = self.rounds[-1]
        size = self.n_expected / self.n_clusters
        if last.squared_radius is None:
            offset = 0.225 * self.domain.half_widths.astype(np.float64)
        else:
            offset = np.full(self.n_features, math.sqrt(last.squared_radius) / 2 / math.sqrt(self.n_features))
        spread = math.sqrt(2) if self.noise is Noise.LAPLACE else 1.0
        sums, counts = float(last.sum_scale), float(last.count_scale / 2**self.count_bits)
        errors: FloatArray = spread * noise_factor * np.sqrt(sums**2 + (counts * offset) ** 2) / size * self.domain.units
        return errors

    def expected_error(self, noise_factor: float = 1.0) -> ExpectedError:
        """The length of the expected standard errors, a closed form."""
        errors = self.expected_standard_errors(noise_factor) / self.domain.units
        error = float(np.linalg.norm(errors)) / max(self.planned_radius, 1.0)
        return ExpectedError(typical=error, low=error, high=error)

    def initial_centroids(self) -> IntArray:
        """Where every run of this mechanism starts, int64 (n_clusters, n_features), grid units; no data involved."""
        seed = PublicSeed.from_hex(self.public_seed)
        return initial_centroids(self.domain, self.n_clusters, seed, self.initialization)

    def sensitivity(self, round: Round) -> Sensitivity:
        """Of the round's query, one record added or removed."""
        return sensitivity(self.domain, round.squared_radius, self.count_bits)

    def round_parts(self, round: Exchange) -> tuple[Part, ...]:
        """Sums and counts."""
        round = _round(round)
        s = self.sensitivity(round)
        sums = Part(n_columns=self.n_features, scale=round.sum_scale, bound=s.coordinate)
        return sums, Part(n_columns=1, scale=round.count_scale, bound=s.count)

    def round_shape(self, round: Exchange) -> tuple[int, int]:  # noqa: ARG002 - all rounds have one shape
        """A row per cluster."""
        return self.n_clusters, self.n_features + 1

    def round_releases(self, round: Exchange, relation: NeighboringRelation) -> list[Release]:
        """What one round reveals, as an accountant takes it; a replacement costs no less than a record added or removed."""
        round = _round(round)
        s = self.sensitivity(round)
        match self.noise:
            case Noise.NONE:
                return []
            case Noise.LAPLACE:
                # Replacing a record moves at most twice the l1 sensitivity of sums and of counts.
                r = 2 if relation is NeighboringRelation.REPLACE_ONE else 1
                return [
                    GeometricRelease(Fraction(r * s.l1), round.sum_scale),
                    GeometricRelease(Fraction(r * s.count), round.count_scale),
                ]
            case Noise.GAUSSIAN:
                return [*self._gaussian_releases(round, relation)]

    def _gaussian_releases(self, round: Round, relation: NeighboringRelation) -> list[GaussianRelease]:
        s = self.sensitivity(round)
        sums = GaussianRelease(Fraction(s.squared_l2), round.sum_scale**2)
        counts = GaussianRelease(Fraction(s.count**2), round.count_scale**2)
        if relation is NeighboringRelation.ADD_OR_REMOVE_ONE:
            return [sums, counts]
        # Within one cluster the sum moves by twice the radius and the count not at all; across two, both move once.
        within = [GaussianRelease(4 * sums.squared_sensitivity, sums.variance)]
        across = [
            GaussianRelease(2 * sums.squared_sensitivity, sums.variance),
            GaussianRelease(2 * counts.squared_sensitivity, counts.variance),
        ]
        return max(within, across, key=_mu_squared)

    @property
    def sum_unit(self) -> str:
        """That of the grid."""
        return f"grid units of 2**-{self.domain.fraction_bits} of the half width of the domain"

    def statement_of(self, number: int, round: Exchange) -> dict[str, Any]:
        """One round in the privacy statement."""
        round = _round(round)
        s = self.sensitivity(round)
        replace = self.neighboring_relation is NeighboringRelation.REPLACE_ONE
        return {
            "round": number,
            "squared_radius": round.squared_radius,
            "sum_sensitivity_l2": math.sqrt(s.squared_l2),
            "sum_sensitivity_l1": s.l1,
            "count_sensitivity": s.count,
            "sensitivities_are_for": "one record added or removed" + (" (the cost counts a replacement)" if replace else ""),
            "sum_noise_scale": float(round.sum_scale),
            "count_noise_scale": float(round.count_scale),
            "sum_noise_scale_exact": str(round.sum_scale),
            "count_noise_scale_exact": str(round.count_scale),
        }


def _round(exchange: Exchange) -> Round:
    if not isinstance(exchange, Round):
        raise TypeError("a round of another mechanism")
    return exchange


def _mu_squared(releases: Iterable[GaussianRelease]) -> Fraction:
    return sum((r.squared_sensitivity / r.variance for r in releases), Fraction(0))
