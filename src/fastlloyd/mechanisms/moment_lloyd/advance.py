"""MomentLloyd as a fold: from a state the next query follows, and from its noisy answer the next state.

A query follows from the state by arithmetic on integers alone: whoever has the state asks the same. The next state may take
floating point; it is worked out once and then handed on as integers.
"""

import math
from collections.abc import Generator
from fractions import Fraction
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from fastlloyd.mechanisms.course import Circumstances
from fastlloyd.mechanisms.lloyd.algorithm import Answer, Clustering
from fastlloyd.mechanisms.moment_lloyd import location, start, steps
from fastlloyd.mechanisms.moment_lloyd.directions import directions
from fastlloyd.mechanisms.moment_lloyd.evidence import evidence
from fastlloyd.mechanisms.moment_lloyd.noisy import Noisy
from fastlloyd.mechanisms.moment_lloyd.rounds import (
    LengthsRound,
    MeanRound,
    Rounds,
    SecondMomentRound,
    SquaresRound,
    StepRound,
    VotesRound,
)
from fastlloyd.mechanisms.moment_lloyd.seen import Seen
from fastlloyd.mechanisms.moment_lloyd.state import NUMBER_BITS, State, known
from fastlloyd.mechanisms.queries.query import Asked, ask
from fastlloyd.mechanisms.queries.relative import ClippedLoss, Query

if TYPE_CHECKING:
    from fastlloyd.mechanisms.moment_lloyd.mechanism import MomentMechanism


def moment_lloyd(m: "MomentMechanism") -> Generator[Query, Answer, Clustering]:
    """Mean, spread and directions, then perhaps votes, then a few steps; in the end the loss, if the mechanism wants it."""
    state, seen = State.start(m), Seen()
    for number, round in enumerate(m.rounds):
        before, answer = state, (yield query(m, round, state))
        seen = look(m, number, before, answer, seen)
        state = advance(m, number, before, answer)
    ended = clustering(m, before, state, answer, seen)
    if m.loss is not None:
        answer = yield ClippedLoss(state.centroids, m.loss.cap, m.loss.shift)
        ended = msgspec.structs.replace(ended, loss=int(answer[0, 0]))
    return ended


def query(m: "MomentMechanism", round: Rounds, state: State) -> Asked:
    """What a round asks, given what is known: integers only."""
    question, R = round.question(m), radius(m, round, state)
    match round:
        case MeanRound():
            return ask(question, centroids=np.zeros((1, m.n_features), dtype=np.int64), radius=R)
        case SquaresRound() | LengthsRound() | SecondMomentRound():
            return ask(question, centre=state.centre, radius=R)
        case VotesRound():
            frame = {"origin": state.centre, "directions": state.directions} if m.n_directions else {}
            return ask(question, candidates=state.candidates, **frame)
        case StepRound(in_directions=True):
            return ask(question, centroids=state.points, radius=R, origin=state.centre, directions=state.directions)
        case StepRound():
            return ask(question, centroids=state.centroids, radius=R)


def radius(m: "MomentMechanism", round: Rounds, state: State) -> int:
    """At which length a round clips, grid units: 1 to the diameter, whatever plan and state say; exact."""
    match round:
        case MeanRound() | SquaresRound():
            R = _times(round.radius, m.domain.squared_half_diagonal)
        case LengthsRound():
            R = math.isqrt(m.domain.squared_half_diagonal)
        case SecondMomentRound():
            R = math.floor(round.radius * state.length)
        case StepRound():
            R = _times(round.radius, state.inner_spread if round.in_directions else state.spread)
            least = math.ceil(steps.LEAST_RADIUS * 2**m.domain.fraction_bits)
            R = min(max(R, least), math.isqrt(m.domain.squared_half_diagonal))
        case VotesRound():
            R = 1  # nothing is clipped
    return min(max(1, R), 2 * math.isqrt(m.domain.squared_half_diagonal))


def advance(
    m: "MomentMechanism", number: int, state: State, answer: Answer, circumstances: Circumstances | None = None
) -> State:
    """What is known after the noisy answer to the round of that index, from 0; circumstances None: as the mechanism says.

    Where clients are missing, so are their records: the number of records is scaled by the caps of those that are there.
    """
    if circumstances is None:
        return _advanced(m, number, state, noisy_parts(m, m.rounds[number], state, answer))
    there = scaled(m, state, circumstances.share)
    after = _advanced(m, number, there, noisy_parts(m, m.rounds[number], there, answer, circumstances.deviations))
    return after if number == 0 else msgspec.structs.replace(after, number=state.number)


def scaled(m: "MomentMechanism", state: State, share: float) -> State:
    """The state with another number of records: 1 to the cap."""
    return known(m, state, number=min(max(round(state.number * Fraction(share)), 1 << NUMBER_BITS), m.n_records << NUMBER_BITS))


def _advanced(m: "MomentMechanism", number: int, state: State, parts: list[Noisy]) -> State:
    round = m.rounds[number]
    match round:
        case MeanRound():
            return location.mean(m, state, *parts)
        case LengthsRound():
            return location.length(m, state, *parts)
        case SquaresRound():
            mean, _ = noisy_deviations(m, m.rounds[0], state)
            (squares,) = parts
            return start.box_candidates(m, state, *location.box(m, state, squares, mean / location.divisor(m, state)))
        case SecondMomentRound():
            state = directions(m, state, round, *parts)
            return start.gaussian_candidates(m, state) if m.n_candidates else start.from_gaussian(m, state)
        case VotesRound():
            return start.from_votes(m, state, *parts)
        case StepRound():
            return steps.step(m, state, round, *parts)


def noisy_parts(
    m: "MomentMechanism", round: Rounds, state: State, answer: Answer, deviations: tuple[float, ...] | None = None
) -> list[Noisy]:
    """The parts of an answer in grid units, squared grid units, or records; deviations None: the round's scales."""
    ends = np.cumsum(round.question(m).parts)[:-1]
    columns = np.split(answer.astype(np.float64), ends, axis=1)
    units = _units(m, round, state)
    scales = [float(scale) for scale in round.scales] if deviations is None else deviations
    return [Noisy(values, scale).scaled(unit) for values, scale, unit in zip(columns, scales, units, strict=True)]


def noisy_deviations(m: "MomentMechanism", round: Rounds, state: State) -> list[float]:
    """Of the noise of a round's parts, in the units of `noisy_parts`."""
    return [float(scale) * unit for scale, unit in zip(round.scales, _units(m, round, state), strict=True)]


def look(
    m: "MomentMechanism", number: int, state: State, answer: Answer, seen: Seen, circumstances: Circumstances | None = None
) -> Seen:
    """What was seen, with what the round of that index shows; arguments as of `advance`."""
    round, deviations = m.rounds[number], None if circumstances is None else circumstances.deviations
    match round:
        case VotesRound():
            return seen.with_votes(state.candidates, *noisy_parts(m, round, state, answer, deviations))
        case StepRound(in_directions=False):
            return seen.with_step(state.centroids, *noisy_parts(m, round, state, answer, deviations))
    return seen


def clustering(m: "MomentMechanism", before: State, state: State, answer: Answer, seen: Seen) -> Clustering:
    """Where the last round ended; before : the state it was asked in, answer : its own, seen : in all rounds."""
    unit, _ = _units(m, m.rounds[-1], before)
    return Clustering(
        centroids=state.centroids,
        previous=before.centroids,
        answer=answer,
        updated=np.ones(m.n_clusters, dtype=np.bool_),
        unit=unit,
        evidence=evidence(m, before, radius(m, m.rounds[-1], before), seen),
    )


def _units(m: "MomentMechanism", round: Rounds, state: State) -> tuple[float, ...]:
    """One unit of each part of an answer."""
    R, one = radius(m, round, state), 2.0**-m.count_bits
    match round:
        case MeanRound() | StepRound():
            return R / round.units, one
        case LengthsRound():
            return (R / round.units,)
        case SquaresRound():
            return ((R / round.units) ** 2,)
        case SecondMomentRound():
            return (R / round.units) ** 2, (R / round.units) ** 2
        case VotesRound():
            return (one,)


def _times(factor: Fraction, square: int) -> int:
    """floor(factor sqrt(square))."""
    return math.isqrt(math.floor(factor**2 * square))
