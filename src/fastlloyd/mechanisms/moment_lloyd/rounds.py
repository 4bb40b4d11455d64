"""The rounds of MomentLloyd as a plan holds them: what is asked, in which units, with which noise.

Everything here is public and known before the first record is read: shapes, sensitivities and scales of the noise. Where a
round looks (centres, radii, candidates, centroids) follows from earlier noisy answers and is not here, but in `state.py`.
All scales are standard deviations in units of the answer, multiples of 1/65536, one per part of the answer.
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import Protocol, Self

from fastlloyd.clustering.domain import Domain
from fastlloyd.dp.noise import Noise
from fastlloyd.errors import PlanError
from fastlloyd.mechanisms.mechanism import Mechanism
from fastlloyd.mechanisms.queries.lengths import ClippedLengths
from fastlloyd.mechanisms.queries.offsets import ClippedOffsets
from fastlloyd.mechanisms.queries.query import Question
from fastlloyd.mechanisms.queries.second_moment import SecondMoment
from fastlloyd.mechanisms.queries.spaces import Features, Space, Subspace
from fastlloyd.mechanisms.queries.squares import ClippedSquares
from fastlloyd.mechanisms.queries.votes import Votes
from fastlloyd.mechanisms.rounds import Exchange
from fastlloyd.mechanisms.settings import AnyAlgorithm

MAX_CANDIDATES = 4096
MAX_FEATURES = 1024  # above, a second moment would be too large


class MomentAlgorithm(AnyAlgorithm, frozen=True, kw_only=True):
    """MomentLloyd, of which nothing can be varied: its planner chooses (`mechanisms/moment_lloyd/design.py`)."""

    name: str = "momentlloyd"
    noise: Noise = Noise.GAUSSIAN

    @property
    def alpha(self) -> Fraction:
        """FastLloyd's, so that errors can be compared."""
        return Fraction(4, 5)

    @property
    def fewest_iterations(self) -> None:
        """Nothing: the error does not depend on their number."""

    def check_use(self, settings: Mapping[str, object]) -> None:
        """Refuse all that are given: whoever gives one means another algorithm."""
        for name, value in settings.items():
            if value is not None:
                raise PlanError(
                    f"{name} has no effect: {self.name} plans by itself; leave it out, or name an algorithm of the paper, such "
                    "as fastlloyd"
                )

    def varied(self, **fields: object) -> Self:
        """Itself, or PlanError for a field: it has none."""
        self.check_use(fields)
        return self


MOMENTLLOYD = MomentAlgorithm()


class Shape(Protocol):
    """What a mechanism tells its rounds of itself."""

    @property
    def domain(self) -> Domain:
        """Bounds and grid."""

    @property
    def n_clusters(self) -> int:
        """k."""

    @property
    def n_directions(self) -> int:
        """r: how many directions a subspace has; 0 where MomentLloyd works among the features alone."""

    @property
    def count_bits(self) -> int:
        """Of the grid of counts."""


class MomentRound(Exchange, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="asks"):
    """scales : deviations of the noise, one per part of the answer. Subclasses say which question they ask."""

    scales: tuple[Fraction, ...]

    def question(self, m: Shape) -> Question:
        """What the plan fixes of the query."""
        raise NotImplementedError


class MeanRound(
    MomentRound, frozen=True, kw_only=True, forbid_unknown_fields=True, cache_hash=True, tag_field="asks", tag="mean"
):
    """The sum of the records, clipped to `radius` half diagonals of the box around its middle, and how many they are."""

    radius: Fraction
    units: int

    def question(self, m: Shape) -> ClippedOffsets:
        """One cluster, in the middle of the box."""
        return ClippedOffsets(space=Features(domain=m.domain), n_clusters=1, units=self.units, count_bits=m.count_bits)


class SquaresRound(MomentRound, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="asks", tag="squares"):
    """Squares of x - centre per feature, clipped to `radius` half diagonals of the box."""

    radius: Fraction
    units: int

    def question(self, m: Shape) -> ClippedSquares:
        """Sum of squares, coordinate by coordinate."""
        return ClippedSquares(domain=m.domain, units=self.units)


class LengthsRound(MomentRound, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="asks", tag="lengths"):
    """|x - centre|, clipped to half the diagonal of the box."""

    units: int

    def question(self, m: Shape) -> ClippedLengths:
        """Sum of lengths."""
        return ClippedLengths(domain=m.domain, units=self.units)


class SecondMomentRound(
    MomentRound, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="asks", tag="second-moment"
):
    """(x - centre)(x - centre)', clipped to `radius` typical lengths."""

    radius: Fraction
    units: int

    def question(self, m: Shape) -> SecondMoment:
        """Sum of products of every pair of features."""
        return SecondMoment(domain=m.domain, units=self.units)


class VotesRound(MomentRound, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="asks", tag="votes"):
    """How many records each candidate is the nearest of."""

    n_candidates: int

    def question(self, m: Shape) -> Votes:
        """A histogram over the candidates."""
        return Votes(space=space(m, in_directions=m.n_directions > 0), n_candidates=self.n_candidates, count_bits=m.count_bits)


class StepRound(MomentRound, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="asks", tag="step"):
    """Offsets from the nearest centroid, clipped to `radius` typical offsets, and counts: one step of the clustering."""

    radius: Fraction
    units: int
    in_directions: bool = False

    def question(self, m: Shape) -> ClippedOffsets:
        """Sums of offsets and counts."""
        where = space(m, in_directions=self.in_directions)
        return ClippedOffsets(space=where, n_clusters=m.n_clusters, units=self.units, count_bits=m.count_bits)


Rounds = MeanRound | SquaresRound | LengthsRound | SecondMomentRound | VotesRound | StepRound


class MomentFields(Mechanism, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fields of `MomentMechanism`, for all that the mechanism calls.

    n_directions : r, how many directions are kept for records of many features; 0 for few features. edge : an eigenvalue of the
    noisy second moment counts as a direction from so many times the largest one of noise alone.
    """

    n_directions: int
    edge: Fraction
    rounds: tuple[Rounds, ...]

    @property
    def n_candidates(self) -> int:
        """How many candidates are voted on; 0 where nobody votes."""
        return next((round.n_candidates for round in self.rounds if isinstance(round, VotesRound)), 0)

    @property
    def count_scales(self) -> tuple[Fraction, ...]:
        """Of the number of records, of votes and of the sizes of clusters."""
        return tuple(round.scales[-1] for round in self.rounds if isinstance(round, (MeanRound, VotesRound, StepRound)))


def space(m: Shape, *, in_directions: bool) -> Space:
    """Where a query works: in the directions found, or among the features."""
    return Subspace(domain=m.domain, n_directions=m.n_directions) if in_directions else Features(domain=m.domain)
