"""All the central model needs to be private, in one frozen record: the only source of noise scales.

Sensitivities, noise scales and what the accountant is told come from the same object, so they cannot disagree. A mechanism
read from a file is checked the same way as one just designed: the rational cost of its rounds must fit its epsilon and delta.

There are two kinds: `LloydMechanism` (`lloyd/mechanism.py`) for the paper's algorithms, `MomentMechanism`
(`moment_lloyd/mechanism.py`) for MomentLloyd. What both have, and all that a driver needs, is here.
"""

import math
from collections.abc import Sequence
from copy import copy
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple, Self

import msgspec
import numpy as np

from fastlloyd.base.arrays import FloatArray, IntArray
from fastlloyd.base.sealed_toml import digest, from_toml, to_toml
from fastlloyd.clustering.domain import Domain, squared_radius
from fastlloyd.clustering.packing import RadiusSearch
from fastlloyd.dp.accountant import Accountant
from fastlloyd.dp.gdp import gdp_mu
from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.dp.noise import MAX_SCALE, Noise, NoiseSource
from fastlloyd.errors import BudgetError, OverflowRisk, PlanError
from fastlloyd.mechanisms.persons import Persons, Unit, share_bits, unit
from fastlloyd.mechanisms.queries.query import Query, Question
from fastlloyd.mechanisms.queries.sensitivity import Release
from fastlloyd.mechanisms.queries.shares import in_shares
from fastlloyd.mechanisms.rounds import Answer, AnswerNoise, LossRound, Part, Round, State, draw

# Departs from the paper, where delta is 1 / (N ln N) and neighbours differ by an added record only: delta defaults to
# 1 / (100 N); replacing a record is available.
MAX_RECORDS = 1 << 40
MAX_CLUSTERS = 10_000  # packing them takes time quadratic in their number, also for whoever only reads the file
MAX_COUNT_BITS = 32
MAX_ROUNDS = 1000
MAX_LOSS_CAP = 1 << 20  # MAX_RECORDS of them stay below 2**62
MAX_SUM = 1 << 62


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
    """The centroids that the iterations have led to, during a run or at its end.

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

    def noisy_counts(self, number_bits: int) -> FloatArray:
        """Records, or persons, per cluster in the last round, float64 (n_clusters,): exact and noise, so perhaps negative."""
        return self.answer[:, -1] / 2.0**number_bits


class ExpectedError(NamedTuple):
    """How far noise moves a typical centroid, as a share of `Mechanism.planned_radius`; infinite where it says nothing.

    low, high : four of five runs lie between them, where the error was found by simulation; otherwise both are `typical`.
    """

    typical: float
    low: float
    high: float


class Choices(NamedTuple):
    """How a mechanism was chosen, for people: by what, and in sentences what was, of its rounds and of what they lead to."""

    by: str
    of_rounds: list[str]
    of_result: list[str]


class Mechanism(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, cache_hash=True, dict=True):
    """A private clustering, fully determined but for the records and the noise.

    Made by `catalogue.design`. Neighbouring relation: `neighboring_relation`; the unit of protection is one record (one row)
    or, with `persons`, one person with all rows.

    epsilon, delta : the guarantee; every (D, D') of neighbours satisfies P[M(D) in S] <= e^epsilon P[M(D') in S] + delta.
    delta_slack : the part of delta set aside for adding up rounded shares of noise; 0 in the central model.
    n_records : public cap on the number of records, or of persons; n_expected : public guess of it, to plan the iterations.
    public_seed : of all public randomness, 64 hex digits.
    count_bits : counts travel in units of 2**-count_bits records, or shares of a person.
    loss : the round that estimates the loss in the end; None without it.
    persons : whose rows are protected together; None where each row stands for itself. An answer then is in shares of a person.
    """

    domain: Domain
    n_clusters: int
    n_records: int
    n_expected: int
    epsilon: float
    delta: float
    delta_slack: float
    neighboring_relation: NeighboringRelation
    public_seed: str
    count_bits: int
    loss: LossRound | None = None
    persons: Persons | None = None

    @property
    def name(self) -> str:
        """The name of the algorithm."""
        raise NotImplementedError

    @property
    def noise(self) -> Noise:
        """What protects the answers."""
        raise NotImplementedError

    @property
    def radius_share(self) -> Fraction:
        """The radius a cluster is planned to have, as a share of that of n_clusters equal cubes filling the domain."""
        raise NotImplementedError

    @property
    def sums_are_relative(self) -> bool:
        """Whether the last round sums up offsets from the previous centroids; otherwise the records themselves."""
        raise NotImplementedError

    @property
    def initialization(self) -> RadiusSearch:
        """How initial centroids are packed: the algorithm's own or, if it has none, those of Lloyd, for comparison."""
        return RadiusSearch.BISECTION

    @property
    def may_leave_bounds(self) -> bool:
        """Whether the last update leaves centroids outside the bounds where noise has moved them."""
        return False

    @property
    def sums_are_in_grid_units(self) -> bool:
        """Whether one unit of a sum is one of the grid; otherwise it is found while the clustering goes on."""
        return True

    @property
    def rounds(self) -> Sequence[Round]:
        """The rounds of the clustering, in order; without that of the loss."""
        raise NotImplementedError

    def start(self) -> State:
        """The state before the first round, which follows from the mechanism alone."""
        raise NotImplementedError

    def query(self, number: int, state: State) -> Query:
        """The query of the round of that number, from 0, in this state; made of integers, so all clients ask the same."""
        return self.all_rounds[number].query(self, state)

    def advance(self, number: int, state: State, answer: Answer, noise: AnswerNoise) -> State:
        """The state after the noisy answer to that round."""
        return self.all_rounds[number].advance(self, state, answer, noise)

    def clustering(self, state: State) -> Clustering:
        """The result, from the state after the last round."""
        raise NotImplementedError

    def centroids(self, number: int, state: State) -> IntArray | None:  # noqa: ARG002 - some mechanisms begin without any
        """The centroids after so many rounds, int64 (n_clusters, n_features), grid units; None if there are none yet."""
        centroids: IntArray = state.centroids
        return centroids

    def travelling_bytes(self, number: int) -> int:  # noqa: ARG002 - in most mechanisms no state does
        """The length of the state after that round if one client works it out and sends it to the others; 0: every client does.

        A state travels if working it out takes floating point, which differs between machines.
        """
        return 0

    def write_state(self, number: int, state: State) -> bytes:
        """The bytes to send of the state after that round, `travelling_bytes` of them."""
        raise NotImplementedError

    def read_state(self, number: int, state: State, answer: Answer, noise: AnswerNoise, data: bytes) -> State:
        """The state after that round: what travelled, and what every client knows from the arguments of `advance`.

        Whoever called `advance` goes on from here too. Raises OverflowRisk if a number is out of its range.
        """
        raise NotImplementedError

    def expected_error(self, noise_factor: float = 1.0) -> ExpectedError:
        """The error of a typical centroid, of n_expected / n_clusters records, before there is a run.

        noise_factor : how many times larger the noise is than what the guarantee needs.
        """
        raise NotImplementedError

    def choices(self, noise_factor: float) -> Choices:
        """How this mechanism was chosen, in sentences; noise_factor : as in `expected_error`."""
        raise NotImplementedError

    @property
    def sum_unit(self) -> str:
        """The unit of sums and of their noise, in words for the privacy statement."""
        raise NotImplementedError

    @cached_property
    def planned_radius(self) -> float:
        """The radius a cluster is planned to have, grid units: what errors of centroids are compared with."""
        return math.sqrt(squared_radius(self.domain, self.n_clusters, self.radius_share))

    @property
    def last_radius(self) -> float:
        """How far from their centroids records count in full in the last round, grid units; as planned where all do."""
        return self.planned_radius

    @property
    def divides_by_noisy_counts(self) -> bool:
        """Whether centroids move by sums over noisy counts as they are, not shrunk by what is known of their noise."""
        return False

    @property
    def n_features(self) -> int:
        """The number of features, d."""
        return self.domain.n_features

    @cached_property
    def all_rounds(self) -> tuple[Round, ...]:
        """All that is asked of the records, in order: the rounds of the clustering and, if it is estimated, the loss."""
        return (*self.rounds, *([] if self.loss is None else [self.loss]))

    @property
    def n_rounds(self) -> int:
        """How many queries a run asks; the loss, if it is estimated, is the last."""
        return len(self.all_rounds)

    @property
    def n_iterations(self) -> int:
        """How many times centroids move."""
        return sum(round.moves_centroids for round in self.rounds)

    @cached_property
    def n_released(self) -> int:
        """K, how many noisy numbers are released: T k (d + 1) for Lloyd's loops, and one more with the loss."""
        return sum(math.prod(self.shape(round)) for round in self.all_rounds)

    @cached_property
    def count_scales(self) -> tuple[Fraction, ...]:
        """Scales of the noise of all numbers of records, in units of 2**-number_bits records."""
        return tuple(round.scales[-1] for round in self.rounds if round.counts_records)

    @property
    def loss_share(self) -> Fraction:
        """What the loss costs, as a share of what the run costs; 0 without it."""
        return Fraction(0) if self.loss is None or self.noise is Noise.NONE else self.share_of_budget(self.loss)

    @property
    def loss_deviation(self) -> float:
        """Standard deviation of the noise on the loss in the central model, squared half widths of the domain; 0 without it."""
        return 0.0 if self.loss is None else self.noise.spread * float(self.loss.scale) * self.loss_unit

    @property
    def loss_unit(self) -> float:
        """The unit of the noisy loss in squared half widths of the domain, exactly; 0 without it."""
        return 0.0 if self.loss is None else math.ldexp(self.loss.unit(self.domain.fraction_bits), -self.share_bits)

    @property
    def unit(self) -> Unit:
        """What is protected and counted, in words: a record, or what a person is called."""
        return unit(self.persons)

    @property
    def share_bits(self) -> int:
        """2**share_bits shares make a person; 0 where each record stands for itself."""
        return share_bits(self.persons)

    @property
    def number_bits(self) -> int:
        """Counts in an answer are in units of 2**-number_bits records, or persons."""
        return self.count_bits + self.share_bits

    @cached_property
    def _questions(self) -> dict[Round, Question]:
        return {round: in_shares(round.question(self), self.persons) for round in self.all_rounds}

    def question(self, round: Round) -> Question:
        """What the plan fixes of a round's query."""
        return self._questions.get(round) or in_shares(round.question(self), self.persons)

    def parts(self, round: Round) -> tuple[Part, ...]:
        """The columns of a round's answer, with the noise it must carry."""
        question = self.question(round)
        each = zip(question.parts, round.scales, question.sensitivity.entries, strict=True)
        return tuple(Part(n_columns=n, scale=scale, bound=bound) for n, scale, bound in each)

    def shape(self, round: Round) -> tuple[int, int]:
        """Rows and columns of a round's answer."""
        return self.question(round).shape

    def releases_of(self, round: Round, relation: NeighboringRelation | None = None) -> list[Release]:
        """What one round reveals, as an accountant takes it; relation : None for the mechanism's own."""
        sensitivity = self.question(round).sensitivity
        return sensitivity.releases(self.noise, round.scales, relation or self.neighboring_relation)

    def accountant(self) -> Accountant:
        """An accountant that has seen the whole run."""
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
        """Everything the run reveals, for an accountant that knows nothing of clusters."""
        return [release for round in self.all_rounds for release in self.releases_of(round)]

    def accountant_of(self, round: Round, relation: NeighboringRelation | None = None) -> Accountant:
        """An accountant that has seen one round; what those of all rounds have seen adds up to the whole run, exactly.

        relation : None for the mechanism's own.
        """
        relation = relation or self.neighboring_relation
        return Accountant(relation).compose(self.releases_of(round, relation))

    def share_of_budget(self, round: Round) -> Fraction:
        """What a round costs as a share of what the run costs: of mu^2, or of epsilon with Laplace noise."""
        whole, alone = self._whole, self._costs.get(round) or self.accountant_of(round)
        return (alone.mu_squared + alone.pure_epsilon) / (whole.mu_squared + whole.pure_epsilon)  # one of each pair is 0

    def draw_noise(self, round: Round, source: NoiseSource) -> IntArray:
        """The total noise of one answer, int64 of its `shape`, part by part."""
        columns = [(part.n_columns, part.scale) for part in self.parts(round)]
        return draw(self.noise, self.shape(round)[0], columns, source)

    def answer_noise(self, number: int) -> AnswerNoise:
        """What is known of an answer that lacks nobody and has exactly the noise it must carry."""
        return AnswerNoise(deviations=tuple(float(scale) for scale in self.all_rounds[number].scales), share=1.0)

    def to_toml(self) -> str:
        """The text of the file `mechanism.toml`."""
        return to_toml(self, "A fastlloyd mechanism: settings, no records. The last line seals the content.")

    @classmethod
    def from_toml(cls, text: str, source: str = "mechanism.toml") -> Self:
        """Read `mechanism.toml`; raises PlanError if it was changed or cannot give the guarantee it states."""
        return from_toml(text, cls, source)

    @property
    def digest(self) -> bytes:
        """SHA-256 of the canonical content, 32 bytes."""
        return digest(self)


def usable_delta(delta: float, delta_slack: float) -> float:
    """What is left of delta for the Gaussian itself, rounded down."""
    if not 0 < delta < 1:
        raise BudgetError(f"delta is {delta}; expected a number above 0 and below 1, such as 1 / (100 n_records)")
    if not delta_slack >= 0:  # NaN included
        raise BudgetError(f"delta_slack is {delta_slack}; expected a part of delta, 0 or more: design the plan anew")
    if delta_slack == 0:
        return delta
    left = math.nextafter(delta - delta_slack, 0)
    if left <= 0.5 * delta:
        raise BudgetError(
            f"epsilon is so large that adding up shares of noise would use up delta {delta}; "
            "use a smaller epsilon or server-noise"
        )
    return left


def check_numbers(n_clusters: int, n_records: int, epsilon: float, noise: Noise) -> None:
    """Refuse numbers out of range, naming the setting."""
    if not 1 <= n_records <= MAX_RECORDS:
        raise PlanError(f"n_records is {n_records}; expected 1 to {MAX_RECORDS}")
    if not 1 <= n_clusters <= min(n_records, MAX_CLUSTERS):
        raise PlanError(f"n_clusters is {n_clusters}; expected 1 to {min(n_records, MAX_CLUSTERS)} (n_records is {n_records})")
    if noise is not Noise.NONE and not 0 < epsilon < math.inf:
        raise BudgetError(f"epsilon is {epsilon}; expected a finite number above 0, such as 1.0")


def check_grid(n_expected: int, count_bits: int) -> None:
    """Refuse an expected number of records, or a grid of the counts, out of range, naming the setting."""
    if not 1 <= n_expected <= MAX_RECORDS:
        raise PlanError(f"n_expected is {n_expected}; expected 1 to {MAX_RECORDS}")
    if not 0 <= count_bits <= MAX_COUNT_BITS:
        raise PlanError(f"count_bits is {count_bits}; expected 0 to {MAX_COUNT_BITS}")


def check_sizes(m: Mechanism) -> None:
    """Refuse a mechanism whose numbers are out of range, naming the field."""
    for name in ("n_clusters", "n_records", "n_expected", "count_bits"):
        if type(getattr(m, name)) is not int:  # NumPy's are equal to Python's, and wrap around
            raise PlanError(f"{name} is {getattr(m, name)!r:.40}; expected a Python int")
    check_numbers(m.n_clusters, m.n_records, m.epsilon, m.noise)
    if not 1 <= len(m.rounds) <= MAX_ROUNDS:
        raise PlanError(f"there are {len(m.rounds)} rounds; expected 1 to {MAX_ROUNDS}")
    check_grid(m.n_expected, m.count_bits)
    if m.loss is not None:
        _check_loss(m, m.loss)


def _check_sums(m: Mechanism) -> None:
    """Half of the range is left to the noise."""
    largest = max(part.bound for round in m.all_rounds for part in m.parts(round))
    if m.n_records * largest >= MAX_SUM:
        raise OverflowRisk(
            f"n_records is {m.n_records}: sums of so many {m.unit.many} could leave 64 bits; expected fewer than "
            f"{MAX_SUM // largest}, or use fewer fraction_bits"
        )


def _check_loss(m: Mechanism, loss: LossRound) -> None:
    if m.n_rounds > MAX_ROUNDS:
        raise PlanError(f"there are {len(m.rounds)} rounds and one for the loss; expected at most {MAX_ROUNDS} together")
    if not 1 <= loss.cap <= MAX_LOSS_CAP:
        raise PlanError(f"cap of the loss is {loss.cap}; expected 1 to {MAX_LOSS_CAP}")
    if not 0 <= loss.shift < 53 or loss.squared_cap >= 1 << 53:
        raise PlanError(f"shift of the loss is {loss.shift}; expected a cap of at most 2**53 squared grid units")


def check_guarantee(m: Mechanism) -> None:
    """Refuse a mechanism whose exact sums could leave 64 bits, or whose noise does not give its epsilon and delta."""
    _check_sums(m)
    if m.noise is not Noise.GAUSSIAN and not m.delta == m.delta_slack == 0:
        raise PlanError(f"delta is {m.delta} and delta_slack {m.delta_slack}; expected 0 and 0 without Gaussian noise")
    if m.noise is Noise.NONE:
        if m.epsilon != math.inf:
            raise PlanError(f"epsilon is {m.epsilon}; expected inf: {m.name} adds no noise and promises nothing")
        return
    scales = [scale for round in m.all_rounds for scale in round.scales]
    if min(scales) <= 0:
        raise PlanError(f"a round of {m.name} has no noise; expected positive scales in every round")
    largest = max(scales)
    if largest > MAX_SCALE:
        raise OverflowRisk(
            f"epsilon {m.epsilon} needs noise of about 2^{math.ceil(largest).bit_length() - 1} grid units, above 2^44; "
            "use fewer fraction_bits or a larger epsilon" + (", or another loss_share" if m.loss else "")
        )
    accountant = m.accountant()
    if m.noise is Noise.LAPLACE:
        fits = accountant.pure_epsilon <= Fraction(m.epsilon)
    else:
        fits = accountant.mu_squared <= Fraction(gdp_mu(m.epsilon, usable_delta(m.delta, m.delta_slack))) ** 2
    if not fits:
        raise PlanError(
            f"the noise scales do not give epsilon {m.epsilon} and delta {m.delta}; "
            "the file was not made by fastlloyd: design the mechanism anew"
        )
