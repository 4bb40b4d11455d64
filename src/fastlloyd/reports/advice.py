"""Forecast of a run, before there is one: error, iterations, noise and bytes, from public numbers
only.

The error is that of `Mechanism.expected_error`, as a share of the radius of a cluster.
MomentLloyd's comes from a table made by simulation (`mechanisms/moment_lloyd/expected.py`), with
the range in which four of five runs lie.

The paper's algorithms have a closed form, on which the planner's analysis rests. A typical cluster
has C = N / k records. In the last round its centroid becomes m' = (R + r) / (C + c), with R the
exact sum of its records, r noise of variance s_R^2 in each of d coordinates and c noise of variance
s_C^2. To first order

    m' - m = (r - m c) / C,    so    sqrt(E |m' - m|^2) = sqrt(d s_R^2 + |m|^2 s_C^2) / C,

where |m| is half the radius for sums relative to the centroid (FastLloyd: the last move, Section
5.5 of the paper), and 0.225 half widths in every coordinate for absolute sums (GLloyd, SuLloyd: the
centroid itself, Su et al. 2016). Divided by the radius eta_d, for FastLloyd it is (1 + 2 sqrt d)
sqrt T k / (2 mu N). In client-noise the noise is sqrt(M / h) times as large.

The error does NOT include:

- the error of k-means itself, which may end in a poor local optimum, and cannot tell which number
  of clusters fits
- records that are clipped to the bounds, or left out because they lie beyond the radius
- the noise of earlier rounds, if a centroid could not come back from it
- clusters smaller than N / k, which have a larger error

An error near 1 or above only means that the result will be useless.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain
from fastlloyd.clustering.packing import RadiusSearch
from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.dp.noise import Noise
from fastlloyd.errors import BudgetError, OverflowRisk, PlanError
from fastlloyd.federation.identity.parties import MAX_CLIENTS
from fastlloyd.federation.plan.design import ProtocolChoices, design_plan
from fastlloyd.federation.plan.plan import (
    Client,
    Masks,
    Plan,
    TrustMode,
    noise_deviation_of_run,
    ring_load,
)
from fastlloyd.federation.traffic import Traffic, traffic
from fastlloyd.mechanisms.catalogue import design
from fastlloyd.mechanisms.mechanism import Mechanism
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD
from fastlloyd.mechanisms.persons import Persons, Unit, unit
from fastlloyd.mechanisms.private_run import MAX_RECORDS
from fastlloyd.mechanisms.settings import AnyAlgorithm, Settings
from fastlloyd.mechanisms.uncertainty import FINE, NoiseDeviation, Verdict, noise_deviation
from fastlloyd.reports.plan_facts import ENOUGH_FOR_TWO, noise_factor

EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
MAX_EPSILONS = 100
MAX_FEATURES = 10_000
MAX_OTHER_CLUSTERS = 500
CANDIDATE_EPSILONS = [
    float(f"{digits}e{power}") for power in range(-4, 0) for digits in range(10, 100)
] + [10.0]
CANDIDATE_RECORDS = [
    *range(1, 10),
    *(digits * 10**power for power in range(11) for digits in range(10, 100)),
]
ERRORS = ("relative_error", "error_low", "error_high")
T = TypeVar("T", float, int)


class Federation(ProtocolChoices, frozen=True, kw_only=True):
    """Number of clients and the way they take part."""

    n_clients: int

    @property
    def noise_factor(self) -> float:
        """Ratio sqrt(M / h) of the standard deviation of the noise to the one that the guarantee
        needs, if all clients join.
        """
        if self.trust is TrustMode.SERVER_NOISE:
            return 1.0
        M, D = self.n_clients, self.max_dropouts
        return math.sqrt(M / self.chosen_masks.quorum(M, M, D, self.max_colluding).shares)

    @property
    def should_allow_two(self) -> bool:
        """Return whether max_colluding should be 2, if a client hosts the server.

        The host is then one of the two clients that may pool what they see.
        """
        can_be_hosted = self.trust is TrustMode.CLIENT_NOISE and self.chosen_masks is Masks.PAIRWISE
        return can_be_hosted and self.max_colluding == 1 and self.n_clients >= ENOUGH_FOR_TWO


class PlannedRun(msgspec.Struct, frozen=True, kw_only=True):
    """Public numbers of a run that is being considered.

    n_records is both the cap and the expected number of records, or of persons if `persons` is set.
    delta is None for the default. estimate_loss, loss_share and persons are as in `Settings`. There
    are no bounds, because all answers are relative to them.
    """

    n_records: int
    n_features: int
    n_clusters: int
    algorithm: AnyAlgorithm = MOMENTLLOYD
    delta: float | None = None
    neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE
    estimate_loss: bool = False
    loss_share: float | None = None
    federation: Federation | None = None
    persons: Persons | None = None

    @property
    def unit(self) -> Unit:
        """Unit of protection: a record, or a person."""
        return unit(self.persons)


class Outlook(msgspec.Struct, frozen=True, kw_only=True):
    """Forecast at one epsilon.

    n_rounds : number of rounds of the clustering. Each reads all records once.
    radius : planned radius of a cluster, in half widths of the bounds.
    relative_error : error of a typical centroid, divided by `radius`, or infinite if noise leaves
        nothing.
    error_low, error_high : four of five runs lie between them. None if the error is a closed form.
    sum_noise : standard deviation of one coordinate of a sum in the last round, in half widths.
        None for MomentLloyd, which finds the unit of its sums during the run.
    count_noise : standard deviation of a count in the last round, in records.
    loss_noise : standard deviation of the estimated loss per record, in squared half widths. None
        if the loss is not estimated.
    ring_bits, required_bits : bits of the plan's ring, and the fewest it must have.
    client, dealer : traffic of the last client, and of the first, which also deals the keys.

    The last four are None for a run without a federation.
    """

    epsilon: float
    delta: float
    n_iterations: int
    n_rounds: int
    radius: float
    sum_noise: float | None
    count_noise: float
    relative_error: float
    error_low: float | None = None
    error_high: float | None = None
    loss_noise: float | None = None
    ring_bits: int | None = None
    required_bits: int | None = None
    client: Traffic | None = None
    dealer: Traffic | None = None

    @property
    def verdict(self) -> Verdict:
        """Relative error in words, by the same thresholds as for results."""
        return Verdict.on(self.relative_error)


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """Forecasts in the order of the epsilons, and what would make the error fine (at most 10 % of
    the radius).

    least_epsilon : smallest epsilon of two digits, up to 10, with a fine error, or None.
    needed_records : smallest number of records of two digits, up to 990 billion, with a fine error
        at epsilon 1, or None.
    by_clients : errors at each epsilon, by the number of clients that may have rows of one person;
        empty unless a federated run protects persons.
    """

    question: PlannedRun
    outlooks: tuple[Outlook, ...]
    least_epsilon: float | None
    needed_records: int | None
    by_clients: dict[int, list[float]] = {}


def advise(question: PlannedRun, epsilons: Sequence[float] = EPSILONS) -> Advice:
    """Answer for every epsilon.

    Raises PlanError, BudgetError or OverflowRisk, which name the number that cannot be used.
    """
    check_question(question)
    check_epsilons(epsilons)
    return Advice(
        question=question,
        outlooks=tuple(outlook(question, epsilon) for epsilon in epsilons),
        least_epsilon=least_epsilon(question),
        needed_records=needed_records(question, epsilon=1.0),
        by_clients=by_clients(question, epsilons),
    )


def check_question(question: PlannedRun) -> None:
    """Raise PlanError or BudgetError, naming the number, if no run can have these numbers."""
    if not 1 <= question.n_features <= MAX_FEATURES:
        raise PlanError(f"n_features is {question.n_features}; expected 1 to {MAX_FEATURES}")
    _settings(question, 1.0)  # its own checks
    if question.algorithm.noise is Noise.NONE:
        raise PlanError(
            f"{question.algorithm.name} adds no noise, so there is no error to forecast;"
            " name an algorithm that adds noise"
        )
    if question.delta is not None and not 0 < question.delta < 1:
        raise BudgetError(
            f"delta is {question.delta}; expected a number above 0 and below 1, such as 1e-6"
        )
    if question.federation is None:
        return
    if not 1 <= question.federation.n_clients <= MAX_CLIENTS:
        raise PlanError(
            f"n_clients is {question.federation.n_clients}; expected 1 to {MAX_CLIENTS}"
        )
    _plan(question, msgspec.structs.replace(question.federation, ring_bits=None), 1.0)


def check_epsilons(epsilons: Sequence[float]) -> None:
    """Raise BudgetError unless there are 1 to 100 different finite numbers above 0."""
    if not 1 <= len(epsilons) <= MAX_EPSILONS:
        raise BudgetError(f"there are {len(epsilons)} epsilons; expected 1 to {MAX_EPSILONS}")
    for epsilon in epsilons:
        if not 0 < epsilon < math.inf:
            raise BudgetError(
                f"epsilon is {epsilon}; expected a finite number above 0, such as 1.0"
            )
        if list(epsilons).count(epsilon) > 1:
            raise BudgetError(f"epsilon {epsilon:g} is asked for twice; name each once")


def outlook(question: PlannedRun, epsilon: float) -> Outlook:
    """Return the forecast at one epsilon, from a mechanism or plan designed as for a run."""
    if question.federation is None:
        m = design(_settings(question, epsilon))
        return _outlook(m, noise_deviation(m), 1.0)
    plan = _plan(question, question.federation, epsilon)
    return msgspec.structs.replace(
        _outlook(plan.clustering, noise_deviation_of_run(plan, plan.n_clients), noise_factor(plan)),
        ring_bits=plan.ring_bits,
        required_bits=ring_load(plan).required_bits,
        client=traffic(plan, plan.names[-1]),
        dealer=traffic(plan, plan.names[0]),
    )


def relative_error(question: PlannedRun, epsilon: float, n_iterations: int | None = None) -> float:
    """Return the error of a typical centroid, divided by the radius.

    n_iterations is None for the planner's choice. For a federated run this designs no plan, and
    takes the coarser grid of the central model's counts, which changes hardly a digit.
    """
    factor = 1.0 if question.federation is None else question.federation.noise_factor
    return design(_settings(question, epsilon, n_iterations)).expected_error(factor).typical


def least_epsilon(question: PlannedRun, target: float = FINE) -> float | None:
    """Return the smallest epsilon of two digits, up to 10, with an error of at most `target`, or
    None.
    """
    fewest = question.algorithm.fewest_iterations
    return _first(
        CANDIDATE_EPSILONS, fewest, lambda epsilon, T: _is_at_most(target, question, epsilon, T)
    )


def needed_records(question: PlannedRun, epsilon: float, target: float = FINE) -> int | None:
    """Return the smallest number of records of two digits with an error of at most `target`, or
    None if 10**12 records do not suffice.
    """
    candidates = [n for n in CANDIDATE_RECORDS if question.n_clusters <= n <= MAX_RECORDS]

    def enough(n_records: int, T: int | None) -> bool:
        return _is_at_most(
            target, msgspec.structs.replace(question, n_records=n_records), epsilon, T
        )

    return _first(candidates, question.algorithm.fewest_iterations, enough)


def curves(question: PlannedRun, epsilons: Sequence[float]) -> dict[int, list[float]]:
    """Return relative errors at these epsilons, by number of clusters: k, half of k and twice k.

    The other two are left out above 500 clusters, because placing that many initial centroids is
    slow.
    """
    k = question.n_clusters
    possible = [
        k,
        *(
            other
            for other in (k // 2, 2 * k)
            if 1 <= other <= min(question.n_records, MAX_OTHER_CLUSTERS)
        ),
    ]
    return {
        k: [
            relative_error(msgspec.structs.replace(question, n_clusters=k), epsilon)
            for epsilon in epsilons
        ]
        for k in sorted(possible)
    }


def by_clients(question: PlannedRun, epsilons: Sequence[float]) -> dict[int, list[float]]:
    """Return relative errors at these epsilons, by the number of clients that may have rows of one
    person: 1, 2, all clients, and the number asked for, in ascending order.
    """
    persons, federation = question.persons, question.federation
    if persons is None or federation is None:
        return {}
    M = federation.n_clients
    return {
        c: [_error_if_at(c, question, persons, epsilon) for epsilon in epsilons]
        for c in sorted({1, min(2, M), M, persons.max_clients})
    }


def _error_if_at(n_clients: int, question: PlannedRun, persons: Persons, epsilon: float) -> float:
    """Return the relative error if n_clients clients may have rows of one person.

    The error is infinite if the noise exceeds the range of the integers.
    """
    asked = msgspec.structs.replace(
        question, persons=msgspec.structs.replace(persons, max_clients=n_clients)
    )
    try:
        return relative_error(asked, epsilon)
    except OverflowRisk:
        return math.inf


def to_builtins(advice: Advice) -> dict[str, Any]:
    """Return the advice as tables, lists, strings and finite numbers; an infinite error becomes
    None.
    """
    content: dict[str, Any] = msgspec.to_builtins(advice, enc_hook=str)
    content["question"]["algorithm"] = advice.question.algorithm.name
    content["question"]["bounds"] = None  # said, so that nobody looks for them
    if advice.question.persons is None:
        del content["question"]["persons"], content["by_clients"]
    else:
        content["by_clients"] = {
            c: [None if math.isinf(error) else error for error in errors]
            for c, errors in advice.by_clients.items()
        }
    for outlook, table in zip(advice.outlooks, content["outlooks"], strict=True):
        table |= {
            name: None for name in ERRORS if table[name] is not None and math.isinf(table[name])
        }
        table["verdict"] = outlook.verdict.value
    return content


def _first(
    candidates: Sequence[T], fewest: int | None, is_enough: Callable[[T, int | None], bool]
) -> T | None:
    """Return the first of ascending candidates that suffices with the planner's number of
    iterations T, or None.

    With T fixed, the error falls along the candidates. It grows with T, and the planner raises T
    along the candidates, from `fewest` upwards. So no candidate before the first that suffices with
    the fewest iterations can suffice. From there on the error may jump up with T, so each candidate
    is tried.
    """
    start = bisect_left(candidates, True, key=lambda candidate: is_enough(candidate, fewest))
    return next((candidate for candidate in candidates[start:] if is_enough(candidate, None)), None)


def _is_at_most(
    target: float, question: PlannedRun, epsilon: float, n_iterations: int | None
) -> bool:
    try:
        return relative_error(question, epsilon, n_iterations) <= target
    except OverflowRisk:  # noise beyond what integers hold: more of it than could be fine
        return False


def _outlook(m: Mechanism, noise: NoiseDeviation, factor: float) -> Outlook:
    half_width = 2**m.domain.fraction_bits
    error = m.expected_error(factor)
    simulated = error.low < error.high
    return Outlook(
        epsilon=m.epsilon,
        delta=m.delta,
        n_iterations=m.n_iterations,
        n_rounds=len(m.rounds),
        radius=m.planned_radius / half_width,
        sum_noise=noise.sums / half_width if m.sums_are_in_grid_units else None,
        count_noise=noise.counts,
        relative_error=error.typical,
        error_low=error.low if simulated else None,
        error_high=error.high if simulated else None,
        loss_noise=factor * m.loss_deviation / m.n_expected if m.loss else None,
    )


def _settings(
    question: PlannedRun, epsilon: float, n_iterations: int | None = None
) -> Settings[AnyAlgorithm]:
    d = question.n_features
    return Settings(
        algorithm=question.algorithm,
        domain=Domain(
            features=tuple(f"x{i}" for i in range(1, d + 1)), lower=(-1.0,) * d, upper=(1.0,) * d
        ),
        n_clusters=question.n_clusters,
        n_records=question.n_records,
        epsilon=epsilon,
        delta=question.delta,
        public_seed=PublicSeed.from_int(0),  # where centroids start does not enter the error
        n_iterations=n_iterations,
        initialization=RadiusSearch.HALVING,  # the quicker one
        neighboring_relation=question.neighboring_relation,
        estimate_loss=question.estimate_loss,
        loss_share=question.loss_share,
        persons=question.persons,
    )


def _plan(question: PlannedRun, federation: Federation, epsilon: float) -> Plan:
    each, rest = divmod(question.n_records, federation.n_clients)
    plan = design_plan(
        _settings(question, epsilon),
        clients=tuple(
            Client(name=f"client-{i + 1}", max_records=each + (i < rest))
            for i in range(federation.n_clients)
        ),
        run_id=bytes(16),
        protocol=federation,
    )
    plan.check_undivided()  # as `plan new` does
    return plan
