"""Lloyd, SuLloyd, GLloyd and FastLloyd: one iteration, and four records of what differs between them.

An iteration knows neither noise nor clients nor messages: the central estimator and every client of a federated run call it.
"""

import enum
from fractions import Fraction
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from fastlloyd.clustering import update
from fastlloyd.clustering.domain import FloatArray, IntArray
from fastlloyd.clustering.update import Postprocessing
from fastlloyd.mechanisms.queries.relative import Moments, Query, RelativeMoments

if TYPE_CHECKING:
    from fastlloyd.mechanisms.lloyd.mechanism import LloydMechanism
    from fastlloyd.mechanisms.rounds import Round

Answer = IntArray  # int64 (n_clusters, n_features + 1): noisy sums, noisy counts; (1, 1): the noisy loss


class Noise(enum.Enum):
    """What protects the answers."""

    NONE = "none"  # nothing: not private
    GAUSSIAN = "gaussian"  # (epsilon, delta), Gaussian differential privacy
    LAPLACE = "laplace"  # pure epsilon; on the integer grid, the two-sided geometric


class RadiusSchedule(enum.Enum):
    """Which records count (Section 5.6 of the paper)."""

    NONE = "none"  # all; sums are absolute, their sensitivity is that of the domain
    CONSTANT = "constant"  # those within eta_d of their centroid
    STEP = "step"  # half the domain diagonal in the first iteration, eta_d afterwards


class Algorithm(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What distinguishes one variant of Lloyd's algorithm from another; every field is an axis of the paper's ablation."""

    name: str
    noise: Noise
    radius: RadiusSchedule
    alpha: Fraction = Fraction(4, 5)  # eta_d as a share of the radius of k equal cubes filling the domain
    clipping: bool = False  # no centroid moves by more than the radius in one iteration
    postprocessing: Postprocessing = Postprocessing.NONE


class MomentAlgorithm(msgspec.Struct, frozen=True, kw_only=True):
    """MomentLloyd, of which nothing can be varied: its planner chooses (`mechanisms/moment_lloyd/planner.py`)."""

    name: str = "momentlloyd"
    noise: Noise = Noise.GAUSSIAN


AnyAlgorithm = Algorithm | MomentAlgorithm
MOMENTLLOYD = MomentAlgorithm()
LLOYD = Algorithm(name="lloyd", noise=Noise.NONE, radius=RadiusSchedule.NONE)
SULLOYD = Algorithm(name="sulloyd", noise=Noise.LAPLACE, radius=RadiusSchedule.NONE)
GLLOYD = Algorithm(name="glloyd", noise=Noise.GAUSSIAN, radius=RadiusSchedule.NONE)
FASTLLOYD = Algorithm(
    name="fastlloyd",
    noise=Noise.GAUSSIAN,
    radius=RadiusSchedule.STEP,
    clipping=True,
    postprocessing=Postprocessing.FOLD,
)
ALGORITHMS: dict[str, AnyAlgorithm] = {
    algorithm.name: algorithm for algorithm in (MOMENTLLOYD, FASTLLOYD, GLLOYD, SULLOYD, LLOYD)
}


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What the answers show of where the records of each cluster are, beside where its centroid was moved; grid units.

    means : float64 (n_clusters, n_features), of the records nearest to each centroid; deviations : of the noise in these, the
    same shape. sizes : float64 (n_clusters,), how many records each is taken to have, given the counts of all. radius : where
    offsets were cut in the last round. hidden : float64 (n_clusters, n_features), how far what was cut may have moved the
    mean. crowded : bool (n_clusters,), whether so many records seem to lie beyond that they may be several groups. is_first :
    whether it was the first round in which centroids moved in all directions.
    """

    means: FloatArray
    deviations: FloatArray
    sizes: FloatArray
    radius: float
    hidden: FloatArray
    crowded: np.ndarray[tuple[int], np.dtype[np.bool_]]
    is_first: bool = False


def cautious(counts: FloatArray, deviation: float, n_expected: int) -> FloatArray:
    """What noisy counts (n_clusters,) are taken for where something is divided by them to say how far it may be off.

    Less by their deviation, but no less than it, unless the deviation is more than equal clusters would have.
    """
    least = max(min(deviation, n_expected / len(counts)), 1.0)
    return np.asarray(np.maximum(counts - deviation, least))


class Clustering(msgspec.Struct, frozen=True):
    """Where the iterations are, or ended.

    centroids and previous : int64 (n_clusters, n_features), grid units, after and before the last update; answer : the last
    noisy answer of a round; updated : bool (n_clusters,), False where the last noisy count was too small and the centroid
    stayed; loss : the noisy loss of `centroids` in the units of `LossRound`, None where it was not asked for.
    unit : grid units in one unit of the answer's sums. evidence : of all rounds; None where the last answer is all.
    """

    centroids: IntArray
    previous: IntArray
    answer: Answer
    updated: np.ndarray[tuple[int], np.dtype[np.bool_]]
    loss: int | None = None
    unit: float = 1.0
    evidence: Evidence | None = None

    def noisy_counts(self, count_bits: int) -> FloatArray:
        """Records per cluster in the last round, float64 (n_clusters,): exact numbers and noise, so they may be negative."""
        return self.answer[:, -1] / 2.0**count_bits


def query(mechanism: "LloydMechanism", round: "Round", centroids: IntArray) -> Query:
    """What one round asks: relative moments where there is a radius, absolute moments otherwise."""
    bits, limits = mechanism.count_bits, mechanism.domain.half_widths
    if round.squared_radius is None:
        return Moments(centroids, bits, limits)
    return RelativeMoments(centroids, round.squared_radius, bits, limits)


def next_centroids(mechanism: "LloydMechanism", round: "Round", centroids: IntArray, answer: Answer) -> Clustering:
    """Divide, shift, clip to the radius, bring back into the domain: integers throughout (Eqn 10 and Section 5.3.5)."""
    algorithm, domain, bits = mechanism.algorithm, mechanism.domain, mechanism.count_bits
    sums, counts = answer[:, :-1], answer[:, -1]
    updated = update.is_large_enough(counts, bits, mechanism.min_count)
    stays = ~updated[:, None]
    moves = update.divide(np.where(stays, 0, sums), np.where(updated, counts, 1), bits)
    if algorithm.clipping and round.squared_radius is not None:
        moves = update.clip_to_radius(moves, round.squared_radius)
    moved = update.saturate(moves if round.squared_radius is None else centroids + moves, domain.saturation)
    moved = np.where(stays, centroids, moved)
    return Clustering(update.postprocess(moved, domain.half_widths, algorithm.postprocessing), centroids, answer, updated)
