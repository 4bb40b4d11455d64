"""The mechanism of MomentLloyd: its rounds with their noise, and what the accountant is told of them."""

from fractions import Fraction
from typing import Any

import msgspec

from fastlloyd.base.randomness import PublicSeed
from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.dp.noise import Noise
from fastlloyd.errors import PlanError
from fastlloyd.mechanisms.mechanism import Answer, Clustering, ExpectedError, Release, check_guarantee, check_sizes
from fastlloyd.mechanisms.moment_lloyd import advance
from fastlloyd.mechanisms.moment_lloyd.expected import expected_error
from fastlloyd.mechanisms.moment_lloyd.rounds import (
    MAX_CANDIDATES,
    MAX_FEATURES,
    LengthsRound,
    MeanRound,
    MomentFields,
    MomentRound,
    Rounds,
    SecondMomentRound,
    SquaresRound,
    StepRound,
    VotesRound,
)
from fastlloyd.mechanisms.moment_lloyd.start import FEW_CANDIDATES
from fastlloyd.mechanisms.moment_lloyd.state import State, decode, encode, n_bytes
from fastlloyd.mechanisms.queries.relative import Query
from fastlloyd.mechanisms.queries.spaces import Subspace
from fastlloyd.mechanisms.rounds import AnswerNoise, Exchange, Part

NAME = "momentlloyd"
MAX_DIRECTIONS = 64  # five times what is planned: a stranger's plan cannot ask for candidates that fill the memory


class MomentMechanism(
    MomentFields, frozen=True, kw_only=True, forbid_unknown_fields=True, cache_hash=True, tag_field="kind", tag=NAME
):
    """See `MomentFields` and `Mechanism`."""

    def __post_init__(self) -> None:
        check_sizes(self)
        PublicSeed.from_hex(self.public_seed)
        if self.n_features > MAX_FEATURES:
            raise PlanError(f"there are {self.n_features} features; momentlloyd takes at most {MAX_FEATURES}")
        if not 0 <= self.n_directions <= MAX_DIRECTIONS:
            raise PlanError(f"n_directions is {self.n_directions}; expected 0 to {MAX_DIRECTIONS}")
        if self.n_directions:
            Subspace(domain=self.domain, n_directions=self.n_directions)
        if not 0 < self.edge <= 4:
            raise PlanError(f"edge is {self.edge}; expected a number above 0 and at most 4")
        _check_order(self)
        for number, round in enumerate(self.rounds, 1):
            _check_round(self, number, round)
        check_guarantee(self)

    @property
    def name(self) -> str:
        """The algorithm's."""
        return NAME

    @property
    def noise(self) -> Noise:
        """Gaussian."""
        return Noise.GAUSSIAN

    @property
    def radius_share(self) -> Fraction:
        """FastLloyd's, so that errors can be compared."""
        return Fraction(4, 5)

    @property
    def sums_are_relative(self) -> bool:
        """Always."""
        return True

    @property
    def sums_are_in_grid_units(self) -> bool:
        """No: in shares of a radius that noisy answers determine."""
        return False

    @property
    def clustering_rounds(self) -> tuple[Rounds, ...]:
        """The rounds."""
        return self.rounds

    @property
    def n_iterations(self) -> int:
        """How many steps there are."""
        return sum(isinstance(round, StepRound) for round in self.rounds)

    def expected_error(self, noise_factor: float = 1.0) -> ExpectedError:
        """By a table made by simulation."""
        return expected_error(self, noise_factor)

    def start(self) -> State:
        """Nothing is known but the mechanism."""
        return State.start(self)

    def query(self, number: int, state: State) -> Query:
        """Mean, spread and directions, then perhaps votes, then a few steps; in the end the loss, if it is estimated."""
        if number < len(self.rounds):
            return advance.query(self, self.rounds[number], state)
        return self.loss_query(state.centroids)

    def advance(self, number: int, state: State, answer: Answer, noise: AnswerNoise) -> State:
        """See `advance.advance`: floating point, so that a state of a federated run travels."""
        if number < len(self.rounds):
            return advance.advance(self, number, state, answer, noise)
        return msgspec.structs.replace(state, loss=int(answer[0, 0]))

    def clustering(self, state: State) -> Clustering:
        """Where the steps led, and what all answers show of how far that may be off."""
        return advance.clustering(self, state)

    def travelling_bytes(self, number: int) -> int:
        """The fields that a later round needs; nothing after the loss."""
        return n_bytes(self, number + 1) if number < len(self.rounds) else 0

    def write_state(self, number: int, state: State) -> bytes:
        """Those fields as bytes."""
        return encode(self, number + 1, state)

    def read_state(self, number: int, state: State, answer: Answer, noise: AnswerNoise, data: bytes) -> State:
        """The fields that travelled, and what everyone has seen."""
        return msgspec.structs.replace(decode(self, number + 1, data), seen=advance.seen(self, number, state, answer, noise))

    def round_parts(self, round: Exchange) -> tuple[Part, ...]:
        """The question's, with the round's noise."""
        question = _moment(round).question(self)
        each = zip(question.parts, _moment(round).scales, question.sensitivity.entries, strict=True)
        return tuple(Part(n_columns=n, scale=scale, bound=bound) for n, scale, bound in each)

    def round_shape(self, round: Exchange) -> tuple[int, int]:
        """The question's."""
        return _moment(round).question(self).shape

    def round_releases(self, round: Exchange, relation: NeighboringRelation) -> list[Release]:
        """The dearest corner of the question's sensitivity."""
        variances = [scale**2 for scale in _moment(round).scales]
        return [*_moment(round).question(self).sensitivity.releases(variances, relation)]

    @property
    def sum_unit(self) -> str:
        """Not that of the grid: every query is normalised."""
        return (
            "the radius of the round, which follows from earlier noisy answers, over the round's units (squares and second "
            "moments: the square of that); sensitivities and noise scales are in the same unit, so their ratio is free of it"
        )

    def statement_of(self, number: int, round: Exchange) -> dict[str, Any]:
        """One round in the privacy statement."""
        asked = _moment(round)
        question = asked.question(self)
        return {
            "round": number,
            "asks": type(asked).__struct_config__.tag,
            "numbers": [question.shape[0], question.shape[1]],
            "squared_sensitivities": [list(corner) for corner in question.sensitivity.corners(self.neighboring_relation)],
            "sensitivities_are_for": f"one record, {self.neighboring_relation.value}: of these corners the dearest counts",
            "noise_scales": [float(scale) for scale in asked.scales],
            "noise_scales_exact": [str(scale) for scale in asked.scales],
            "share_of_budget": float(self.accountant_of(asked).mu_squared / self.accountant().mu_squared),
        }


def _moment(exchange: Exchange) -> Rounds:
    if not isinstance(exchange, MomentRound):
        raise TypeError("a round of another mechanism")
    return exchange  # type: ignore[return-value]  # all its subclasses are in the union


def _check_order(m: MomentMechanism) -> None:
    """Each round goes on from what those before it have found out."""
    kinds = [type(round) for round in m.rounds]
    steps = [round for round in m.rounds if isinstance(round, StepRound)]
    first = kinds[: len(kinds) - len(steps)]
    allowed: list[list[type]] = [[MeanRound, SquaresRound, VotesRound]]
    if m.n_directions:
        allowed = [[MeanRound, LengthsRound, SecondMomentRound], [MeanRound, LengthsRound, SecondMomentRound, VotesRound]]
    inside = [step.in_directions for step in steps]
    if first not in allowed or kinds[len(first) :] != [StepRound] * len(steps) or not steps:
        raise PlanError("the rounds are not those of MomentLloyd, in their order; design the mechanism anew")
    if inside != sorted(inside, reverse=True) or inside[-1] or (any(inside) and not m.n_directions):
        raise PlanError("steps along directions come before those among all features, of which there is one at least")


def _check_round(m: MomentMechanism, number: int, round: Rounds) -> None:
    question = round.question(m)  # refuses units, candidates and directions out of range
    if len(round.scales) != len(question.parts):
        raise PlanError(f"round {number} has {len(round.scales)} scales; expected {len(question.parts)}, one per part")
    if not isinstance(round, (LengthsRound, VotesRound)) and not 0 < round.radius <= 16:
        raise PlanError(f"radius of round {number} is {round.radius}; expected a number above 0 and at most 16")
    if isinstance(round, VotesRound):
        _check_candidates(m, round.n_candidates)


def _check_candidates(m: MomentMechanism, n: int) -> None:
    """Refuse more candidates than are planned, and so many that no regular grid of the features has them."""
    most, d = max(MAX_CANDIDATES, 4 * m.n_clusters), m.n_features
    if n > most:
        raise PlanError(f"n_candidates is {n}; expected at most {most}")
    if not m.n_directions and n > FEW_CANDIDATES and round(n ** (1 / d)) ** d != n:
        raise PlanError(f"n_candidates is {n}; expected a power of {d}, the number of features, or at most {FEW_CANDIDATES}")
