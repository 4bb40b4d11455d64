"""MomentLloyd as a fold: from a state the next query follows, and from its noisy answer the next state.

A query follows from the state by arithmetic on integers alone: whoever has the state asks the same. The next state may take
floating point; it is worked out once and then handed on as integers.
"""

import math
from dataclasses import replace
from fractions import Fraction

import msgspec
import numpy as np

from fastlloyd.mechanisms.mechanism import Answer, Clustering
from fastlloyd.mechanisms.moment_lloyd import location, start, steps
from fastlloyd.mechanisms.moment_lloyd.directions import directions
from fastlloyd.mechanisms.moment_lloyd.evidence import evidence
from fastlloyd.mechanisms.moment_lloyd.rounds import (
    LengthsRound,
    MeanRound,
    MomentFields,
    Rounds,
    SecondMomentRound,
    SquaresRound,
    StepRound,
    VotesRound,
)
from fastlloyd.mechanisms.moment_lloyd.state import NUMBER_BITS, Noisy, Seen, State, known
from fastlloyd.mechanisms.queries.query import Asked, ask
from fastlloyd.mechanisms.rounds import AnswerNoise


def query(m: MomentFields, round: Rounds, state: State) -> Asked:
    """What a round asks in a state: it follows from integers alone."""
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


def radius(m: MomentFields, round: Rounds, state: State) -> int:
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


def advance(m: MomentFields, number: int, state: State, answer: Answer, noise: AnswerNoise) -> State:
    """What is known after the noisy answer to the round of that number, from 0.

    Where clients are missing, so are their records: the number of records is scaled by the caps of those that are there.
    """
    there = scaled(m, state, noise.share)
    after = _advanced(m, number, there, noisy_parts(m, m.rounds[number], there, answer, noise))
    n = after.number if number == 0 else state.number
    return msgspec.structs.replace(after, number=n, seen=seen(m, number, state, answer, noise))


def scaled(m: MomentFields, state: State, share: float) -> State:
    """The state with another number of records: 1 to the cap."""
    return known(m, state, number=min(max(round(state.number * Fraction(share)), 1 << NUMBER_BITS), m.n_records << NUMBER_BITS))


def _advanced(m: MomentFields, number: int, state: State, parts: list[Noisy]) -> State:
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


def noisy_parts(m: MomentFields, round: Rounds, state: State, answer: Answer, noise: AnswerNoise) -> list[Noisy]:
    """The parts of an answer in grid units, squared grid units, or records."""
    ends = np.cumsum(round.question(m).parts)[:-1]
    columns = np.split(answer.astype(np.float64), ends, axis=1)
    units = _units(m, round, state)
    each = zip(columns, noise.deviations, units, strict=True)
    return [Noisy(values, deviation).scaled(unit) for values, deviation, unit in each]


def noisy_deviations(m: MomentFields, round: Rounds, state: State) -> list[float]:
    """Of the noise of a round's parts, in the units of `noisy_parts`."""
    return [float(scale) * unit for scale, unit in zip(round.scales, _units(m, round, state), strict=True)]


def seen(m: MomentFields, number: int, state: State, answer: Answer, noise: AnswerNoise) -> Seen:
    """What the answers have shown, with the answer to the round of that number; arguments as of `advance`."""
    round = m.rounds[number]
    shown = replace(state.seen, asked_in=msgspec.structs.replace(state, seen=Seen()), answer=answer)
    match round:
        case VotesRound():
            return shown.with_votes(state.candidates, *noisy_parts(m, round, state, answer, noise))
        case StepRound(in_directions=False):
            return shown.with_step(state.centroids, *noisy_parts(m, round, state, answer, noise))
    return shown


def clustering(m: MomentFields, state: State) -> Clustering:
    """What the state after all rounds says."""
    last, before, answer = m.rounds[-1], state.seen.asked_in, state.seen.answer
    if before is None or answer is None:
        raise AssertionError("a clustering ends after its last round")
    unit, _ = _units(m, last, before)
    return Clustering(
        centroids=state.centroids,
        previous=before.centroids,
        answer=answer,
        updated=np.ones(m.n_clusters, dtype=np.bool_),
        loss=state.loss,
        unit=unit,
        evidence=evidence(m, before, radius(m, last, before), state.seen),
    )


def _units(m: MomentFields, round: Rounds, state: State) -> tuple[float, ...]:
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
