"""Run with differential privacy, as one frozen record. No other object gives noise scales.

Sensitivities, noise scales and the releases for the accountant come from the same object, so they
cannot disagree. A run that is read from a file is checked like one that was just designed. The cost
of its rounds, a rational number, must fit its epsilon and delta.

There are two kinds. `Mechanism` (`mechanism.py`) is a clustering, and `BoundsMechanism`
(`bounds/mechanism.py`) finds bounds of the features.
"""

import math
from collections.abc import Sequence
from copy import copy
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import msgspec

from fastlloyd.base.arrays import IntArray
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.base.sealed_toml import digest, from_toml, to_toml
from fastlloyd.clustering.domain import Domain
from fastlloyd.dp.accountant import Accountant
from fastlloyd.dp.gdp import gdp_mu
from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.dp.noise import MAX_SCALE, Noise, NoiseSource
from fastlloyd.errors import BudgetError, OverflowRisk, PlanError
from fastlloyd.mechanisms.facts import Fact, Facts, Finds, SumUnit
from fastlloyd.mechanisms.persons import Persons, Unit, share_bits, unit
from fastlloyd.mechanisms.queries.query import Query, Question, in_shares
from fastlloyd.mechanisms.queries.sensitivity import Release
from fastlloyd.mechanisms.rounds import Answer, AnswerNoise, Part, Round, State, draw

# Departs from the paper, where delta is 1 / (N ln N) and neighbours differ by an added record only:
# delta defaults to 1 / (100 N); replacing a record is available.
MAX_RECORDS = 1 << 40
MAX_COUNT_BITS = 32
MAX_ROUNDS = 1000
MAX_SUM = 1 << 62
MAX_EPSILON = 1e100


class Found(Protocol):
    """Result of a run, which is the same at all clients."""

    @property
    def digest(self) -> bytes:
        """SHA-256 of everything that must be equal at all clients, 32 bytes."""


FoundT_co = TypeVar("FoundT_co", bound=Found, covariant=True)


class PrivateRun(
    msgspec.Struct,
    Generic[FoundT_co],
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    cache_hash=True,
    dict=True,
):
    """Run with a privacy guarantee. Its fields determine everything except the records and the
    noise.

    Neighbouring relation: `neighboring_relation`. The unit of protection is one record (one row)
    or, with `persons`, all rows of one person together.

    domain : bounds and grid of the records.
    n_records : public cap on the number of records, or of persons.
    n_expected : public guess of the number of records, or of persons, for planning.
    epsilon, delta : guarantee, P[M(D) in S] <= e^epsilon P[M(D') in S] + delta for all neighbours
        D, D'.
    delta_slack : part of delta that pays for adding up rounded shares of noise. 0 in the central
        model.
    neighboring_relation : change between neighbours that the guarantee covers: a unit is added or
        removed, or it is replaced.
    public_seed : seed of all public randomness, 64 hex digits.
    count_bits : the unit of counts is 2**-count_bits records, or 2**-count_bits shares of a person.
    rounds : rounds of the algorithm, in order. Each kind of run states their type.
    persons : persons whose rows are protected together. Answers are then in shares of a person.
        None if single rows are protected.
    taken_from_the_data : a sentence for each setting that was taken from the data, so that no
        guarantee holds. None if all settings are public.
    finds : kind of the result.
    sum_unit : unit of sums and of their noise.
    """

    domain: Domain
    n_records: int
    n_expected: int
    epsilon: float
    delta: float
    delta_slack: float
    neighboring_relation: NeighboringRelation
    public_seed: str
    count_bits: int
    rounds: tuple[Any, ...]
    persons: Persons | None = None
    taken_from_the_data: tuple[str, ...] | None = None

    finds: ClassVar[Finds]
    sum_unit: ClassVar[SumUnit] = SumUnit.GRID

    @property
    def name(self) -> str:
        """Name of the algorithm."""
        raise NotImplementedError

    @property
    def noise(self) -> Noise:
        """Distribution of the noise in the answers: Gaussian, Laplace or none."""
        raise NotImplementedError

    @property
    def all_rounds(self) -> tuple[Round, ...]:
        """All rounds of the run in order, including the round of the loss."""
        return tuple(self.rounds)

    def start(self) -> State:
        """Return the state before the first round, which does not depend on records."""
        raise NotImplementedError

    def query(self, number: int, state: State) -> Query:
        """Return the query of round `number`, from 0, in this state.

        It consists of integers, so all clients ask the same query.
        """
        return self.all_rounds[number].query(self, state)

    def advance(self, number: int, state: State, answer: Answer, noise: AnswerNoise) -> State:
        """Return the state after the noisy answer in round `number`, from 0."""
        return self.all_rounds[number].advance(self, state, answer, noise)

    def result(self, state: State) -> FoundT_co:
        """Return the result that follows from the state after the last round."""
        raise NotImplementedError

    # not every run has any
    def centroids(self, number: int, state: State) -> IntArray | None:  # noqa: ARG002
        """Return the centroids after `number` rounds, or None if there are none.

        They are int64 (n_clusters, n_features), in grid units.
        """
        return None

    def travelling_bytes(self, number: int) -> int:  # noqa: ARG002 - in most runs no state does
        """Return the number of bytes of the state that one client sends to the others after a
        round.

        One client computes the state if floating point is needed, because its results differ
        between machines. Otherwise every client computes the state, and the number is 0.
        """
        return 0

    def write_state(self, number: int, state: State) -> bytes:
        """Return the state after round `number` as `travelling_bytes` bytes."""
        raise NotImplementedError

    def read_state(
        self, number: int, state: State, answer: Answer, noise: AnswerNoise, data: bytes
    ) -> State:
        """Return the state after round `number`, from the bytes that one client sent.

        `data` is these bytes. The other parameters are those of `advance`, and all clients have
        them. The client that computed the state also continues from the bytes. Raises OverflowRisk
        if a number is out of its range.
        """
        raise NotImplementedError

    def check_noise(self, totals: Sequence[tuple[Fraction, ...]]) -> None:
        """Raise PlanError if the noise is so large that the run could find nothing.

        totals : noise scales of each round, part by part.
        """

    def planning(self, noise_factor: float) -> Sequence[Fact | Facts]:
        """Return facts about the plan of this run. The first fact is about the planner.

        noise_factor : scale of the noise, divided by the scale that the guarantee needs.
        """
        raise NotImplementedError

    def facts(self) -> dict[str, Any]:
        """Return the facts of this kind of run for the privacy statement, by name."""
        raise NotImplementedError

    @property
    def sums_are_in_grid_units(self) -> bool:
        """Return whether one unit of a sum is one unit of the grid."""
        return self.sum_unit is SumUnit.GRID

    @property
    def bears_server_noise(self) -> bool:
        """Return whether the server may add the noise in a plan of this run. If a later plan
        publishes the result, the server could compute exact answers from it, so it may not.
        """
        return True

    @property
    def seed(self) -> PublicSeed:
        """Seed of all public randomness."""
        return PublicSeed.from_hex(self.public_seed)

    @property
    def n_features(self) -> int:
        """Number of features, d."""
        return self.domain.n_features

    @property
    def n_rounds(self) -> int:
        """Number of queries of the run."""
        return len(self.all_rounds)

    @cached_property
    def n_released(self) -> int:
        """Number of noisy numbers in all answers, K."""
        return sum(math.prod(self.shape(round)) for round in self.all_rounds)

    @cached_property
    def count_scales(self) -> tuple[Fraction, ...]:
        """Noise scales of all counts of records, in units of 2**-number_bits records."""
        return tuple(round.scales[-1] for round in self.rounds if round.counts_records)

    @property
    def unit(self) -> Unit:
        """Words for the unit of protection and counting: a record, or a kind of person such as a
        patient.
        """
        return unit(self.persons)

    @property
    def share_bits(self) -> int:
        """Base-2 logarithm of a person's number of shares, or 0 if single records are protected."""
        return share_bits(self.persons)

    @property
    def number_bits(self) -> int:
        """Number of fraction bits of counts: their unit is 2**-number_bits records, or persons."""
        return self.count_bits + self.share_bits

    @cached_property
    def _questions(self) -> dict[Round, Question]:
        return {round: in_shares(round.question(self), self.persons) for round in self.all_rounds}

    def question(self, round: Round) -> Question:
        """Return the part of a round's query that the plan fixes."""
        return self._questions.get(round) or in_shares(round.question(self), self.persons)

    def parts(self, round: Round) -> tuple[Part, ...]:
        """Return the parts of a round's answer, each with its number of columns and its noise
        scale.
        """
        question = self.question(round)
        each = zip(question.parts, round.scales, question.sensitivity.entries, strict=True)
        return tuple(Part(n_columns=n, scale=scale, bound=bound) for n, scale, bound in each)

    def shape(self, round: Round) -> tuple[int, int]:
        """Return the number of rows and the number of columns of a round's answer."""
        return self.question(round).shape

    def releases_of(
        self, round: Round, relation: NeighboringRelation | None = None
    ) -> list[Release]:
        """Return the releases of one round, for an accountant.

        relation : neighbouring relation, or None for the run's own relation.
        """
        sensitivity = self.question(round).sensitivity
        return sensitivity.releases(self.noise, round.scales, relation or self.neighboring_relation)

    def accountant(self) -> Accountant:
        """Return an accountant with all releases of the run."""
        return copy(self._whole)

    @cached_property
    def _whole(self) -> Accountant:
        whole = Accountant(self.neighboring_relation)
        for round in self.all_rounds:
            whole.mu_squared += self._costs[round].mu_squared
            whole.pure_epsilon += self._costs[round].pure_epsilon
        return whole

    @cached_property
    def _costs(self) -> dict[Round, Accountant]:
        return {round: self.accountant_of(round) for round in self._questions}

    def releases(self) -> list[Release]:
        """Return all releases of the run, for an accountant that does not use rounds."""
        return [release for round in self.all_rounds for release in self.releases_of(round)]

    def accountant_of(
        self, round: Round, relation: NeighboringRelation | None = None
    ) -> Accountant:
        """Return an accountant with the releases of one round.

        The costs of all rounds add up exactly to the cost of the run.

        relation : neighbouring relation, or None for the run's own relation.
        """
        relation = relation or self.neighboring_relation
        return Accountant(relation).compose(self.releases_of(round, relation))

    def share_of_budget(self, round: Round) -> Fraction:
        """Return the cost of a round, divided by the cost of the run.

        The cost is mu^2, or epsilon with Laplace noise.
        """
        whole, alone = self._whole, self._costs.get(round) or self.accountant_of(round)
        # one of each pair is 0
        return (alone.mu_squared + alone.pure_epsilon) / (whole.mu_squared + whole.pure_epsilon)

    def draw_noise(self, round: Round, source: NoiseSource) -> IntArray:
        """Draw the total noise of one answer, int64 with the shape of the answer."""
        columns = [(part.n_columns, part.scale) for part in self.parts(round)]
        return draw(self.noise, self.shape(round)[0], columns, source)

    def answer_noise(self, number: int) -> AnswerNoise:
        """Return the noise of an answer that includes all clients. It has exactly the planned
        scales.
        """
        return AnswerNoise(
            deviations=tuple(float(scale) for scale in self.all_rounds[number].scales), share=1.0
        )

    def to_toml(self) -> str:
        """Return the text of the file `mechanism.toml`."""
        return to_toml(
            self, "A fastlloyd mechanism: settings, no records. The last line seals the content."
        )

    @classmethod
    def from_toml(cls, text: str, source: str = "mechanism.toml") -> Self:
        """Return the run that the text of a file `mechanism.toml` describes.

        source : name of the file, for error messages.

        Raises PlanError if the text was edited after it was written, or if its noise is too small
        for the guarantee it states.
        """
        return from_toml(text, cls, source)

    @property
    def digest(self) -> bytes:
        """SHA-256 of the canonical content, 32 bytes."""
        return digest(self)


AnyRun = PrivateRun[Any]


def usable_delta(delta: float, delta_slack: float) -> float:
    """Return the part of delta that remains for the Gaussian noise, rounded down.

    delta_slack : part of delta that pays for adding up rounded shares of noise.

    Raises BudgetError if at most half of delta remains, or if a number is out of range.
    """
    if not 0 < delta < 1:
        raise BudgetError(
            f"delta is {delta}; expected a number above 0 and below 1, such as 1 / (100 n_records)"
        )
    if not delta_slack >= 0:  # NaN included
        raise BudgetError(
            f"delta_slack is {delta_slack}; expected a part of delta, 0 or more: design the plan"
            " anew"
        )
    if delta_slack == 0:
        return delta
    left = math.nextafter(delta - delta_slack, 0)
    if left <= 0.5 * delta:
        raise BudgetError(
            f"epsilon is so large that adding up shares of noise would use up delta {delta}; "
            "use a smaller epsilon or server-noise"
        )
    return left


def check_numbers(n_records: int, epsilon: float, noise: Noise) -> None:
    """Raise PlanError or BudgetError if a number is out of range. The message names the setting."""
    if not 1 <= n_records <= MAX_RECORDS:
        raise PlanError(f"n_records is {n_records}; expected 1 to {MAX_RECORDS}")
    if noise is not Noise.NONE and not 0 < epsilon <= MAX_EPSILON:
        raise BudgetError(
            f"epsilon is {epsilon}; expected a finite number above 0, such as 1.0, and at most"
            f" {MAX_EPSILON:g}"
        )


def check_grid(n_expected: int, count_bits: int) -> None:
    """Raise PlanError if n_expected or count_bits is out of range. The message names the
    setting.
    """
    if not 1 <= n_expected <= MAX_RECORDS:
        raise PlanError(f"n_expected is {n_expected}; expected 1 to {MAX_RECORDS}")
    if not 0 <= count_bits <= MAX_COUNT_BITS:
        raise PlanError(f"count_bits is {count_bits}; expected 0 to {MAX_COUNT_BITS}")


def check_ints(m: AnyRun, *names: str) -> None:
    """Raise PlanError if one of these fields is not a Python integer.

    Integers of NumPy may wrap around.
    """
    for name in names:
        if type(getattr(m, name)) is not int:
            raise PlanError(f"{name} is {getattr(m, name)!r:.40}; expected a Python int")


def _check_sums(m: AnyRun) -> None:
    """Raise OverflowRisk unless exact sums use at most half of the 64-bit range.

    The other half is for noise.
    """
    largest = max(part.bound for round in m.all_rounds for part in m.parts(round))
    if m.n_records * largest >= MAX_SUM:
        raise OverflowRisk(
            f"n_records is {m.n_records}: sums of that many {m.unit.many} could exceed 64 bits;"
            f" expected fewer than {MAX_SUM // largest}, or use fewer fraction_bits"
        )


def check_guarantee(m: AnyRun) -> None:
    """Raise an error if exact sums of the run could exceed 64 bits, or if its noise is too small.

    The noise is too small if its cost exceeds the run's epsilon and delta.
    """
    _check_sums(m)
    if m.noise is not Noise.GAUSSIAN and not m.delta == m.delta_slack == 0:
        raise PlanError(
            f"delta is {m.delta} and delta_slack {m.delta_slack}; expected 0 and 0 without Gaussian"
            " noise"
        )
    if m.noise is Noise.NONE:
        if m.epsilon != math.inf:
            raise PlanError(
                f"epsilon is {m.epsilon}; expected inf: {m.name} adds no noise and promises nothing"
            )
        return
    scales = [scale for round in m.all_rounds for scale in round.scales]
    if min(scales) <= 0:
        raise PlanError(
            f"a round of {m.name} has no noise; expected positive scales in every round"
        )
    largest = max(scales)
    if largest > MAX_SCALE:
        raise OverflowRisk(
            f"epsilon {m.epsilon} needs noise of about 2^{math.ceil(largest).bit_length() - 1} grid"
            " units, above 2^44; use fewer fraction_bits or a larger epsilon"
            + (", or another loss_share" if m.n_rounds > len(m.rounds) else "")
        )
    accountant = m.accountant()
    if m.noise is Noise.LAPLACE:
        fits = accountant.pure_epsilon <= Fraction(m.epsilon)
    else:
        fits = (
            accountant.mu_squared
            <= Fraction(gdp_mu(m.epsilon, usable_delta(m.delta, m.delta_slack))) ** 2
        )
    if not fits:
        raise PlanError(
            f"the noise scales do not give epsilon {m.epsilon} and delta {m.delta}; "
            "the file was not made by fastlloyd: design the mechanism anew"
        )
