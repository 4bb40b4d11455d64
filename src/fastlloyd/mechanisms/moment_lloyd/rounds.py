"""Rounds of MomentLloyd: their queries, units and noise, and the states that follow from answers.

The fields of a round are part of the plan, public and known before any record is read. They are
shapes, sensitivities, and scales of the noise (standard deviations in units of the answer,
multiples of 1/65536). Centres, radii, candidates and centroids belong to the state, and follow from
earlier noisy answers.

A query follows from the state by integer arithmetic alone, so all parties with the state ask the
same query. Computing the next state may need floating point. So one client computes it and sends it
to the others as integers.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any, ClassVar, Protocol, Self

import msgspec
import numpy as np

from fastlloyd.clustering.domain import Domain
from fastlloyd.dp.noise import Noise
from fastlloyd.errors import PlanError
from fastlloyd.mechanisms.facts import Fact
from fastlloyd.mechanisms.moment_lloyd import location, start, steps
from fastlloyd.mechanisms.moment_lloyd.directions import directions
from fastlloyd.mechanisms.moment_lloyd.state import MomentFields, Noisy, Seen, State
from fastlloyd.mechanisms.queries.centred import ClippedLengths, ClippedSquares, SecondMoment
from fastlloyd.mechanisms.queries.nearest import ClippedOffsets, Votes
from fastlloyd.mechanisms.queries.query import Query, Question, ask
from fastlloyd.mechanisms.queries.spaces import Features, Space, Subspace
from fastlloyd.mechanisms.rounds import Answer, AnswerNoise, Round
from fastlloyd.mechanisms.settings import AnyAlgorithm

MAX_CANDIDATES = 4096
MAX_FEATURES = 1024  # above, a second moment would be too large


class MomentAlgorithm(AnyAlgorithm, frozen=True, kw_only=True):
    """MomentLloyd as an algorithm. It has no options, because its planner in `design.py` chooses
    all.
    """

    name: str = "momentlloyd"
    noise: Noise = Noise.GAUSSIAN

    @property
    def alpha(self) -> Fraction:
        """Ratio alpha (`AnyAlgorithm.alpha`), equal to FastLloyd's, so that errors can be
        compared.
        """
        return Fraction(4, 5)

    @property
    def fewest_iterations(self) -> None:
        """Always None, because the user cannot choose the number of iterations."""

    def check_use(self, settings: Mapping[str, object]) -> None:
        """Raise PlanError if any of these settings is given, because none has an effect on
        MomentLloyd.
        """
        for name, value in settings.items():
            if value is not None:
                raise PlanError(
                    f"{name} has no effect: {self.name} chooses its own settings; leave {name}"
                    " out, or name an algorithm of the paper, such as fastlloyd"
                )

    def varied(self, **fields: object) -> Self:
        """Return this algorithm unchanged. Raises PlanError for any given field."""
        self.check_use(fields)
        return self


MOMENTLLOYD = MomentAlgorithm()


class Shape(Protocol):
    """Interface: fields of a mechanism on which a query depends."""

    @property
    def domain(self) -> Domain:
        """Bounds and grid of the features."""

    @property
    def n_clusters(self) -> int:
        """Number of clusters, k."""

    @property
    def n_directions(self) -> int:
        """Number of directions r of a subspace, or 0 if only the features are used."""

    @property
    def count_bits(self) -> int:
        """Number of fraction bits of counts: their unit is 2**-count_bits records."""


class MomentRound(Round, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="asks"):
    """Base of MomentLloyd's rounds. A subclass defines the query and the state after the answer.

    scales : standard deviations of the noise, one for each part of the answer.
    powers : for each part of the answer, the power of the distance that it adds up: 1 for
        distances, 2 for squared distances, 0 for counts of records.
    """

    n_candidates: ClassVar[int] = 0
    finds_number: ClassVar[bool] = False  # whether the round finds the number of records
    powers: ClassVar[tuple[int, ...]]
    scales: tuple[Fraction, ...]

    def question(self, m: Shape) -> Question:
        """Return the part of the query that the plan fixes."""
        raise NotImplementedError

    def check(self, m: MomentFields, number: int) -> None:
        """Raise PlanError if this mechanism cannot have this round as its round `number`,
        from 1.
        """
        # refuses units, candidates and directions out of range
        n_parts = len(self.question(m).parts)
        if len(self.scales) != n_parts:
            raise PlanError(
                f"round {number} has {len(self.scales)} scales; expected {n_parts}, one per part"
            )

    def query(self, m: MomentFields, state: State) -> Query:
        """Return the query around the mean. A subclass with other centres overrides this method."""
        return ask(m.question(self), centre=state.centre, radius=self.clips_at(m, state))

    # some kinds need more where there are directions
    def needs(self, m: MomentFields) -> set[str]:  # noqa: ARG002
        """Return the names of the state's fields that this round or a later round uses."""
        return {"number", "centre"}

    def clips_at(self, m: MomentFields, state: State) -> int:
        """Return the distance to which the round clips, an exact number of grid units.

        For every plan and state, the distance is at least 1 and at most the diameter of the box.
        """
        return min(max(1, self._length(m, state)), 2 * math.isqrt(m.domain.squared_half_diagonal))

    def noisy_parts(
        self, m: MomentFields, state: State, answer: Answer, noise: AnswerNoise
    ) -> list[Noisy]:
        """Return the parts of a noisy answer, in the units of `units_of_parts`."""
        ends = np.cumsum(m.question(self).parts)[:-1]
        columns = np.split(answer.astype(np.float64), ends, axis=1)
        each = zip(columns, noise.deviations, self.units_of_parts(m, state), strict=True)
        return [Noisy(values, deviation).scaled(unit) for values, deviation, unit in each]

    def units_of_parts(self, m: MomentFields, state: State) -> tuple[float, ...]:
        """Return the unit of each part of an answer: grid units, squared grid units, or records."""
        unit = self.clips_at(m, state) / self.norm
        share = 2.0**-m.share_bits
        return tuple(unit**power * share if power else 2.0**-m.number_bits for power in self.powers)

    @property
    def norm(self) -> int:
        """Integer that represents the distance to which the round clips, in the units of the
        answer.
        """
        return 1

    def advance(self, m: MomentFields, state: State, answer: Answer, noise: AnswerNoise) -> State:
        """Return the state after the noisy answer.

        If clients are missing, the answer lacks their records. Then the number of records is
        multiplied by `noise.share`, the share of all caps that the present clients have.
        """
        there = location.scaled(m, state, noise.share)
        after = self.follow(m, there, *self.noisy_parts(m, there, answer, noise))
        number = after.number if self.finds_number else state.number
        return msgspec.structs.replace(
            after, number=number, seen=self.seen(m, state, answer, noise)
        )

    @property
    def follow(self) -> Callable[..., State]:
        """Function that returns the next state.

        Its arguments are the mechanism, a state with the number of records in the answer, and the
        noisy parts.
        """
        raise NotImplementedError

    # some need more
    def seen(
        self,
        m: MomentFields,  # noqa: ARG002
        state: State,
        answer: Answer,
        noise: AnswerNoise,  # noqa: ARG002
    ) -> Seen:
        """Return the noisy sums, votes and steps of all answers up to this one. The arguments are
        those of `advance`.
        """
        return replace(
            state.seen, asked_in=msgspec.structs.replace(state, seen=Seen()), answer=answer
        )

    def facts(self, m: MomentFields) -> dict[str, Any]:
        """Return facts about the round's query: its meaning, sensitivity, noise and cost."""
        question = m.question(self)
        return {
            "asks": type(self).__struct_config__.tag,
            "numbers": [*question.shape],
            "squared_sensitivities": [
                list(corner) for corner in question.sensitivity.corners(m.neighboring_relation)
            ],
            "sensitivities_are_for": Fact.of(
                "sensitivity_of_dearest_corner", relation=m.neighboring_relation.value
            ),
            "noise_scales": [float(scale) for scale in self.scales],
            "noise_scales_exact": [str(scale) for scale in self.scales],
            "share_of_budget": float(m.share_of_budget(self)),
        }

    # nothing is clipped where a kind does not say so
    def _length(self, m: MomentFields, state: State) -> int:  # noqa: ARG002
        return 1


class ClippingRound(MomentRound, frozen=True, kw_only=True):
    """Base of rounds that clip to a radius.

    radius : radius, in a unit that each subclass defines.
    units : integer that represents the radius, in the units of the answer.
    """

    radius: Fraction
    units: int

    def check(self, m: MomentFields, number: int) -> None:
        """Raise PlanError as `MomentRound.check` does, or if the radius is out of range."""
        super().check(m, number)
        if not 0 < self.radius <= 16:
            raise PlanError(
                f"radius of round {number} is {self.radius}; expected a number above 0 and at"
                " most 16"
            )

    @property
    def norm(self) -> int:
        """Integer that represents the radius, in the units of the answer."""
        return self.units

    # of the plan alone, where a kind does not say otherwise
    def _length(self, m: MomentFields, state: State) -> int:  # noqa: ARG002
        return _times(self.radius, m.domain.squared_half_diagonal)


class MeanRound(ClippingRound, frozen=True, kw_only=True, tag="mean"):
    """Round that asks for the sum of the records, relative to the middle of the box, and their
    number.

    Each record is clipped to `radius` half diagonals of the box.
    """

    powers: ClassVar[tuple[int, ...]] = (1, 0)
    counts_records: ClassVar[bool] = True
    finds_number: ClassVar[bool] = True

    def question(self, m: Shape) -> ClippedOffsets:
        """Return the query, without its parameters, for the sum of all offsets and the number of
        records.
        """
        return ClippedOffsets(
            space=Features(domain=m.domain), n_clusters=1, units=self.units, count_bits=m.count_bits
        )

    def query(self, m: MomentFields, state: State) -> Query:
        """Return the query for the sum of all offsets from the middle of the box, and for the
        number of records.
        """
        middle = np.zeros((1, m.n_features), dtype=np.int64)
        return ask(m.question(self), centroids=middle, radius=self.clips_at(m, state))

    def follow(self, m: MomentFields, state: State, sums: Noisy, count: Noisy) -> State:
        """Return the state with the number of records and their mean."""
        return location.mean(m, state, sums, count)

    def seen(self, m: MomentFields, state: State, answer: Answer, noise: AnswerNoise) -> Seen:
        """Return the evidence of the first answer (`Seen`). It contains the noisy sum of all
        records if the radius contains the whole box, so no record was clipped. Otherwise it
        contains no sum.
        """
        shown = super().seen(m, state, answer, noise)
        if self.radius < 1:
            return shown
        return shown.with_total(*self.noisy_parts(m, state, answer, noise))


class SquaresRound(ClippingRound, frozen=True, kw_only=True, tag="squares"):
    """Round that asks for the sum of the squares of x - centre in each feature.

    Each x - centre is clipped to `radius` half diagonals of the box.
    """

    powers: ClassVar[tuple[int, ...]] = (2,)

    def question(self, m: Shape) -> ClippedSquares:
        """Return the query, without its parameters, for the sum of squares in each feature."""
        return ClippedSquares(domain=m.domain, units=self.units)

    def follow(self, m: MomentFields, state: State, squares: Noisy) -> State:
        """Return the state with candidates in a box around most records."""
        low, high = location.box(m, state, squares, m.sum_deviation / location.divisor(m, state))
        return start.box_candidates(m, state, low, high)


class LengthsRound(MomentRound, frozen=True, kw_only=True, tag="lengths"):
    """Round that asks for the sum of |x - centre|, each clipped to half the diagonal of the box."""

    powers: ClassVar[tuple[int, ...]] = (1,)
    units: int

    @property
    def norm(self) -> int:
        """Integer that represents half the diagonal of the box, in the units of the answer."""
        return self.units

    def question(self, m: Shape) -> ClippedLengths:
        """Return the query, without its parameters, for the sum of |x - centre|."""
        return ClippedLengths(domain=m.domain, units=self.units)

    def follow(self, m: MomentFields, state: State, lengths: Noisy) -> State:
        """Return the state with the typical distance from the mean."""
        return location.length(m, state, lengths)

    def _length(self, m: MomentFields, state: State) -> int:  # noqa: ARG002 - as planned
        return math.isqrt(m.domain.squared_half_diagonal)


class SecondMomentRound(ClippingRound, frozen=True, kw_only=True, tag="second-moment"):
    """Round that asks for the sum of (x - centre)(x - centre)'.

    Each x - centre is clipped to `radius` times the typical distance (`State.length`).
    """

    powers: ClassVar[tuple[int, ...]] = (2, 2)

    def question(self, m: Shape) -> SecondMoment:
        """Return the query, without its parameters, for the sum of products of every pair of
        features.
        """
        return SecondMoment(domain=m.domain, units=self.units)

    def needs(self, m: MomentFields) -> set[str]:  # noqa: ARG002 - always the same
        """Return the names of the state's fields for the number, the mean and the typical distance
        of the records.
        """
        return {"number", "centre", "length"}

    def follow(self, m: MomentFields, state: State, diagonal: Noisy, above: Noisy) -> State:
        """Return the state with directions, and with candidates along them. Without a vote,
        centroids take the place of candidates.
        """
        state = directions(m, state, self.radius, diagonal, above)
        return (
            start.gaussian_candidates(m, state) if m.n_candidates else start.from_gaussian(m, state)
        )

    def _length(self, m: MomentFields, state: State) -> int:  # noqa: ARG002 - of the state alone
        return math.floor(self.radius * state.length)


class VotesRound(MomentRound, frozen=True, kw_only=True, tag="votes"):
    """Round that asks for the number of records nearest to each of some points (votes for
    candidates).
    """

    powers: ClassVar[tuple[int, ...]] = (0,)
    counts_records: ClassVar[bool] = True
    n_candidates: int  # type: ignore[misc]  # of other rounds 0

    def question(self, m: Shape) -> Votes:
        """Return the query, without its parameters, for the number of records nearest to each
        candidate.
        """
        return Votes(
            space=space(m, in_directions=m.n_directions > 0),
            n_candidates=self.n_candidates,
            count_bits=m.count_bits,
        )

    def check(self, m: MomentFields, number: int) -> None:
        """Raise PlanError as `MomentRound.check` does, or for a number of candidates that is never
        planned.
        """
        super().check(m, number)
        n, most, d = self.n_candidates, max(MAX_CANDIDATES, 4 * m.n_clusters), m.n_features
        if n > most:
            raise PlanError(f"n_candidates is {n}; expected at most {most}")
        if not m.n_directions and n > start.FEW_CANDIDATES and round(n ** (1 / d)) ** d != n:
            raise PlanError(
                f"n_candidates is {n}; with {d} features, expected a whole number to the power of"
                f" {d}, or at most {start.FEW_CANDIDATES}"
            )

    def query(self, m: MomentFields, state: State) -> Query:
        """Return the query about the candidates of `state`. With directions, candidates are points
        along the directions.
        """
        frame = {"origin": state.centre, "directions": state.directions} if m.n_directions else {}
        return ask(m.question(self), candidates=state.candidates, **frame)

    def needs(self, m: MomentFields) -> set[str]:
        """Return the names of the state's fields that the query uses: those for the candidates. If
        the mechanism has directions, also return those for the fitted Gaussian.
        """
        return {"number", "candidates"} | (
            {"centre", "directions", "variances", "length"} if m.n_directions else set()
        )

    def follow(self, m: MomentFields, state: State, votes: Noisy) -> State:
        """Return the state with the centroids that follow from the votes."""
        return start.from_votes(m, state, votes)

    def seen(self, m: MomentFields, state: State, answer: Answer, noise: AnswerNoise) -> Seen:
        """Return the noisy sums, votes and steps of all answers up to these votes."""
        (votes,) = self.noisy_parts(m, state, answer, noise)
        return super().seen(m, state, answer, noise).with_votes(state.candidates, votes)


class StepRound(ClippingRound, frozen=True, kw_only=True, tag="step"):
    """Round that asks for one step of the clustering: sums of offsets from the nearest centroid,
    and counts.

    Each offset is clipped to `radius` times the typical offset.

    in_directions : whether centroids are points along the directions, not in all features.
    """

    powers: ClassVar[tuple[int, ...]] = (1, 0)
    moves_centroids: ClassVar[bool] = True
    counts_records: ClassVar[bool] = True
    in_directions: bool = False

    def question(self, m: Shape) -> ClippedOffsets:
        """Return the query, without its parameters, for the sums of offsets and the counts of all
        clusters.
        """
        where = space(m, in_directions=self.in_directions)
        return ClippedOffsets(
            space=where, n_clusters=m.n_clusters, units=self.units, count_bits=m.count_bits
        )

    def query(self, m: MomentFields, state: State) -> Query:
        """Return the query around the centroids, along the directions or in all features."""
        question, R = m.question(self), self.clips_at(m, state)
        if self.in_directions:
            return ask(
                question,
                centroids=state.points,
                radius=R,
                origin=state.centre,
                directions=state.directions,
            )
        return ask(question, centroids=state.centroids, radius=R)

    def needs(self, m: MomentFields) -> set[str]:
        """Return the names of the state's fields for centroids, typical offsets and directions."""
        frame = {"centre", "directions"} if m.n_directions else set()
        return (
            {"number", "spread"}
            | frame
            | ({"inner_spread", "points"} if self.in_directions else {"centroids"})
        )

    def follow(self, m: MomentFields, state: State, sums: Noisy, counts: Noisy) -> State:
        """Return the state with moved centroids and the number of records of each cluster."""
        return steps.step(m, state, sums, counts, in_directions=self.in_directions)

    def seen(self, m: MomentFields, state: State, answer: Answer, noise: AnswerNoise) -> Seen:
        """Return the noisy sums, votes and steps of all answers up to this step. The step itself is
        added to them only if it moves the centroids in all features, not along directions.
        """
        shown = super().seen(m, state, answer, noise)
        return (
            shown
            if self.in_directions
            else shown.with_step(state.centroids, *self.noisy_parts(m, state, answer, noise))
        )

    def _length(self, m: MomentFields, state: State) -> int:
        R = _times(self.radius, state.inner_spread if self.in_directions else state.spread)
        least = math.ceil(steps.LEAST_RADIUS * (1 << m.domain.fraction_bits))
        return min(max(R, least), math.isqrt(m.domain.squared_half_diagonal))


Rounds = MeanRound | SquaresRound | LengthsRound | SecondMomentRound | VotesRound | StepRound


def space(m: Shape, *, in_directions: bool) -> Space:
    """Return the space of a query: the directions found, or all features."""
    return (
        Subspace(domain=m.domain, n_directions=m.n_directions)
        if in_directions
        else Features(domain=m.domain)
    )


def _times(factor: Fraction, square: int) -> int:
    """Return floor(factor sqrt(square))."""
    return math.isqrt(math.floor(factor**2 * square))
