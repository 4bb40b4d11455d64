"""Mechanism of MomentLloyd: its rounds with their noise, and its states."""

import math
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import msgspec
import numpy as np

from fastlloyd.base.arrays import IntArray
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.dp.noise import Noise
from fastlloyd.errors import PlanError
from fastlloyd.mechanisms.facts import Fact, Facts, FarRecords, SumUnit
from fastlloyd.mechanisms.mechanism import Clustering, ExpectedError, check_sizes
from fastlloyd.mechanisms.moment_lloyd.evidence import evidence, noisy_votes
from fastlloyd.mechanisms.moment_lloyd.expected import expected_error
from fastlloyd.mechanisms.moment_lloyd.rounds import (
    MAX_FEATURES,
    MOMENTLLOYD,
    LengthsRound,
    MeanRound,
    Rounds,
    SecondMomentRound,
    SquaresRound,
    StepRound,
    VotesRound,
)
from fastlloyd.mechanisms.moment_lloyd.state import MomentFields, State, decode, encode, n_bytes
from fastlloyd.mechanisms.private_run import check_guarantee
from fastlloyd.mechanisms.queries.spaces import Subspace
from fastlloyd.mechanisms.rounds import Answer, AnswerNoise

NAME = MOMENTLLOYD.name
# five times what is planned: a stranger's plan cannot ask for candidates that fill the memory
MAX_DIRECTIONS = 64


class MomentMechanism(MomentFields, frozen=True, kw_only=True, tag_field="kind", tag=NAME):
    """`Mechanism` of MomentLloyd.

    rounds : rounds in the order of MomentLloyd. Other fields are those of `MomentFields`.
    """

    name: ClassVar[str] = NAME
    noise: ClassVar[Noise] = Noise.GAUSSIAN
    radius_share: ClassVar[Fraction] = MOMENTLLOYD.alpha
    sums_are_relative: ClassVar[bool] = True
    far_records: ClassVar[FarRecords] = FarRecords.PULLED_IN
    sum_unit: ClassVar[SumUnit] = SumUnit.ROUND
    rounds: tuple[Rounds, ...]

    def __post_init__(self) -> None:
        check_sizes(self)
        PublicSeed.from_hex(self.public_seed)
        if self.n_features > MAX_FEATURES:
            raise PlanError(
                f"there are {self.n_features} features; momentlloyd takes at most {MAX_FEATURES}"
            )
        if not 0 <= self.n_directions <= MAX_DIRECTIONS:
            raise PlanError(f"n_directions is {self.n_directions}; expected 0 to {MAX_DIRECTIONS}")
        if self.n_directions:
            Subspace(domain=self.domain, n_directions=self.n_directions)
        if not 0 < self.edge <= 4:
            raise PlanError(f"edge is {self.edge}; expected a number above 0 and at most 4")
        _check_order(self)
        for number, round in enumerate(self.rounds, 1):
            round.check(self, number)
        check_guarantee(self)

    @cached_property
    def n_candidates(self) -> int:
        """Number of candidates in the vote, in which each record votes for the candidate nearest to
        it, or 0 without a vote.
        """
        return max(round.n_candidates for round in self.rounds)

    @cached_property
    def sum_deviation(self) -> float:
        """Standard deviation of the noise in a coordinate of the first round's sum, in grid
        units.
        """
        unit, _ = self.rounds[0].units_of_parts(self, self.start())
        return float(self.rounds[0].scales[0]) * unit

    def expected_error(self, noise_factor: float = 1.0) -> ExpectedError:
        """Return the expected error of a typical centroid, from a table made by simulation."""
        return expected_error(self, noise_factor)

    def start(self) -> State:
        """Return the state before the first answer."""
        return State.start(self)

    def last_clustering(self, state: State) -> Clustering:
        """Return the centroids after the last step, with the evidence from all answers about the
        errors of the centroids.
        """
        last, before, answer = self.rounds[-1], state.seen.asked_in, state.seen.answer
        if before is None or answer is None:
            raise AssertionError("the last round has no answer yet")
        unit, _ = last.units_of_parts(self, before)
        return Clustering(
            centroids=state.centroids,
            previous=before.centroids,
            answer=answer,
            updated=np.ones(self.n_clusters, dtype=np.bool_),
            loss=state.loss,
            unit=unit,
            evidence=evidence(self, before, last.clips_at(self, before), state.seen),
            votes=(
                None
                if state.seen.histogram is None
                else noisy_votes(self, before, state.seen.histogram)
            ),
        )

    def centroids(self, number: int, state: State) -> IntArray | None:
        """Return the centroids after `number` rounds, or None before the first step in all
        features.
        """
        return state.centroids if number and "centroids" in self._travelling(number - 1) else None

    def travelling_bytes(self, number: int) -> int:
        """Return the number of bytes of the state that one client sends to the others after a
        round.

        number : number of the round, from 0. After the round of the loss nothing is sent.
        """
        return self._travelling_bytes[number] if number < len(self.rounds) else 0

    @cached_property
    def _travelling_bytes(self) -> tuple[int, ...]:
        return tuple(n_bytes(self, self._travelling(number)) for number in range(len(self.rounds)))

    def write_state(self, number: int, state: State) -> bytes:
        """Return the fields of the state that later rounds need, as bytes."""
        return encode(self, self._travelling(number), state)

    def read_state(
        self, number: int, state: State, answer: Answer, noise: AnswerNoise, data: bytes
    ) -> State:
        """Return the state with the fields in `data`, and with the noisy sums, votes and steps that
        every client knows.
        """
        seen = self.rounds[number].seen(self, state, answer, noise)
        return msgspec.structs.replace(decode(self, self._travelling(number), data), seen=seen)

    def _travelling(self, number: int) -> set[str]:
        """Return the names of the fields that other clients need after round `number`.

        Later rounds or the result use these fields.
        """
        return (
            self.rounds[number + 1].needs(self)
            if number + 1 < len(self.rounds)
            else {"centroids", "sizes"}
        )

    def planning(self, noise_factor: float) -> list[Fact | Facts]:
        """Return facts about the query of each round, and about the party that computes the next
        query.
        """
        asked = [
            Fact.of(
                f"asks_{type(round).__struct_config__.tag}",
                number=number,
                n=math.prod(self.shape(round)),
                share=float(self.share_of_budget(round)),
            )
            for number, round in enumerate(self.rounds, 1)
        ]
        by, where = Fact.of("planned_by_table", name=NAME), Fact.of("one_client_works_out")
        return [by, *asked, *self.loss_planning(noise_factor), where]


def _check_order(m: MomentMechanism) -> None:
    """Raise PlanError unless the rounds have the order of MomentLloyd. Rounds depend on earlier
    rounds.
    """
    kinds = [type(round) for round in m.rounds]
    steps = [round for round in m.rounds if isinstance(round, StepRound)]
    first = kinds[: len(kinds) - len(steps)]
    allowed: list[list[type]] = [[MeanRound, SquaresRound, VotesRound]]
    if m.n_directions:
        allowed = [
            [MeanRound, LengthsRound, SecondMomentRound],
            [MeanRound, LengthsRound, SecondMomentRound, VotesRound],
        ]
    inside = [step.in_directions for step in steps]
    if first not in allowed or kinds[len(first) :] != [StepRound] * len(steps) or not steps:
        raise PlanError(
            "the rounds are not those of MomentLloyd, in their order; design the mechanism anew"
        )
    if inside != sorted(inside, reverse=True) or inside[-1] or (any(inside) and not m.n_directions):
        raise PlanError(
            "steps along directions must come before steps among all features, and the"
            " last step must be among all features"
        )
