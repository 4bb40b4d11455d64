"""Forecasts of a run at several epsilons, from public numbers only: verdicts, error bars, odds and
bytes.

Each forecast is a `jobs.forecast.Forecast`. An error bar is two standard errors. It is half of the
interval that a result will show for a centroid, if the interval is reliable (settled). For
MomentLloyd, error bars come from a table that was simulated
(`mechanisms/moment_lloyd/expected.py`). For the paper's algorithms they come from a closed form
times a simulated factor.

The closed form is also used by the planner's analysis. N is the number of records, k the number of
clusters, d the number of features, T the number of rounds, and mu the parameter of Gaussian
differential privacy. Let a typical cluster have C = N / k records. In the last round its centroid
becomes m' = (R + r) / (C + c). R is the exact sum of its records, r is noise of variance s_R^2 in
each of d coordinates, and c is noise of variance s_C^2. To first order

    m' - m = (r - m c) / C,    so    sqrt(E |m' - m|^2) = sqrt(d s_R^2 + |m|^2 s_C^2) / C.

For sums relative to the centroid, |m| is half the radius (FastLloyd: the last move, Section 5.5 of
the paper). For absolute sums, each coordinate of m is 0.225 half widths (GLloyd, SuLloyd: the
centroid itself, Su et al. 2016). For FastLloyd, the error divided by the radius eta_d is (1 + 2
sqrt d) sqrt T k / (2 mu N). In client-noise, M clients add a share of noise each, and h shares
suffice for the guarantee. So the noise is sqrt(M / h) times as large.

A forecast does not include:

- the error of k-means itself, which may end in a poor local optimum, and does not find a suitable
  number of clusters
- records that are clipped to the bounds, or left out because they are beyond the radius
- the longer error bars of clusters with fewer than N / k records
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
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
from fastlloyd.jobs.forecast import Forecast
from fastlloyd.mechanisms.catalogue import design
from fastlloyd.mechanisms.mechanism import Mechanism
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD
from fastlloyd.mechanisms.persons import Persons, Unit, unit
from fastlloyd.mechanisms.private_run import MAX_RECORDS
from fastlloyd.mechanisms.settings import AnyAlgorithm, Settings
from fastlloyd.mechanisms.uncertainty import NoiseDeviation, Verdict, noise_deviation
from fastlloyd.reports.bars import Bar, bars_of, largest_bar
from fastlloyd.reports.certainty import Odds
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
T = TypeVar("T", float, int)


class Federation(ProtocolChoices, frozen=True, kw_only=True):
    """Number of clients of a federated run, with the choices of its protocol."""

    n_clients: int

    @property
    def noise_factor(self) -> float:
        """Ratio of the noise to the noise that the guarantee needs, if all clients join.

        Noise is measured by its standard deviation. In client-noise, the ratio is sqrt(M / h) for M
        clients, if the guarantee counts on h shares of noise. In server-noise it is 1.
        """
        if self.trust is TrustMode.SERVER_NOISE:
            return 1.0
        M, D = self.n_clients, self.max_dropouts
        return math.sqrt(M / self.chosen_masks.quorum(M, M, D, self.max_colluding).shares)

    @property
    def should_allow_two(self) -> bool:
        """Return whether max_colluding should be 2 if a client hosts the server.

        The host is then one of the two clients that may pool what they see.
        """
        can_be_hosted = self.trust is TrustMode.CLIENT_NOISE and self.chosen_masks is Masks.PAIRWISE
        return can_be_hosted and self.max_colluding == 1 and self.n_clients >= ENOUGH_FOR_TWO


class PlannedRun(msgspec.Struct, frozen=True, kw_only=True):
    """Public numbers of a run that is considered.

    n_records : cap and expected number of records, or of persons if `persons` is set.
    n_features, n_clusters : number of features, and number of clusters.
    algorithm : algorithm of the run.
    delta : delta, or None for the default.
    neighboring_relation : neighbouring relation of the guarantee.
    estimate_loss, loss_share : estimate of the loss, as in `Settings`.
    federation : clients of a federated run, or None for the central model.
    persons : protected persons, or None for records.
    domain : public bounds of the features, or None. Without them, error bars are fractions of the
        width of the bounds.
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
    domain: Domain | None = None

    @property
    def unit(self) -> Unit:
        """Unit of protection: a record, or a person."""
        return unit(self.persons)


class RightGuesses(msgspec.Struct, frozen=True):
    """Probabilities of a right guess for an observer who sees everything that a run reveals.

    The observer guesses whether one record or person is in the data, and before the run both
    answers are equally likely.

    average : largest possible probability, on average over all outcomes of the run.
    at_most : largest possible probability after any single outcome, except with probability delta.
    """

    average: float
    at_most: float


class Outlook(Forecast, frozen=True, kw_only=True):
    """Forecast of a run at one epsilon.

    odds : probabilities of a right guess about one record or person.
    bars : error bar of each feature, in the units of its column. Empty without bounds.
    ring_bits, required_bits : bits of the plan's ring, and the least number of bits that it must
        have. None without a federation.
    client, dealer : bytes that the last client and the first client send and receive. The first
        client also deals the keys. None without a federation.

    Other fields are those of `Forecast`.
    """

    odds: RightGuesses
    bars: tuple[Bar, ...] = ()
    ring_bits: int | None = None
    required_bits: int | None = None
    client: Traffic | None = None
    dealer: Traffic | None = None

    @property
    def row(self) -> tuple[str, str, str, str]:
        """Row of a table: epsilon, verdict, right guesses (on average, and after any result) and
        error bars. Without bounds, bars are fractions of the width of the bounds.
        """
        guesses = [f"{math.ceil(100 * p)}" for p in (self.odds.average, self.odds.at_most)]
        bars = [f"{bar.feature} {bar.text}" for bar in self.bars] or [
            f"{self.bar:.2g}" if math.isfinite(self.bar) else "unknown"
        ]
        return f"{self.epsilon:g}", self.verdict.value, " to ".join(guesses), ", ".join(bars)


class WantedBars(msgspec.Struct, frozen=True, kw_only=True):
    """Smallest epsilon for wanted error bars.

    errors : largest wanted error bar of each named feature, in the units of its column.
    outlook : forecast at the smallest epsilon that suffices, to two significant digits. An epsilon
        suffices if the noise does not dominate, and no error bar is longer than wanted. None if no
        epsilon up to 10 suffices.
    """

    errors: dict[str, float]
    outlook: Outlook | None


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """Forecasts at several epsilons, and the budget or number of records for a clear clustering.

    question : public numbers of the run.
    outlooks : forecasts in the order of the epsilons.
    least_epsilon : smallest epsilon, to two significant digits, whose verdict is `clear`. None if
        it is above 10.
    needed_records : smallest number of records, to two significant digits, whose verdict at epsilon
        1 is `clear`. None if it is above 990 billion.
    wanted : smallest epsilon for the wanted error bars, or None if no error bars were given.
    by_clients : dict from the number of clients that may have rows of one person to the error bars
        at each epsilon. Empty unless a federated run protects persons.
    """

    question: PlannedRun
    outlooks: tuple[Outlook, ...]
    least_epsilon: float | None
    needed_records: int | None
    wanted: WantedBars | None = None
    by_clients: dict[int, list[float]] = {}

    def __repr__(self) -> str:
        """Return a table with a row for each epsilon."""
        q, heads = self.question, ("epsilon", "verdict", "right guesses out of 100", "error bars")
        rows = [heads, *(each.row for each in self.outlooks)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
        asked = f"{q.n_records} {q.unit.many}, {q.n_features} features, {q.n_clusters} clusters"
        return "\n".join([f"{q.algorithm.name}: {asked}", *lines])


def advise(
    question: PlannedRun,
    epsilons: Sequence[float] = EPSILONS,
    wanted_error: Mapping[str, float] | None = None,
) -> Advice:
    """Return the forecasts of a run at several epsilons, the smallest epsilon that suffices, and
    the smallest number of records that suffices.

    wanted_error : largest error bar of each named feature, in the units of its column.

    Raises PlanError, BudgetError or OverflowRisk if a number cannot be used. The message names the
    number.
    """
    at_each = outlooks(question, epsilons)
    return Advice(
        question=question,
        outlooks=at_each,
        least_epsilon=least_epsilon(question),
        needed_records=needed_records(question, epsilon=1.0),
        wanted=wanted(question, wanted_error) if wanted_error else None,
        by_clients=by_clients(question, epsilons),
    )


def outlooks(question: PlannedRun, epsilons: Sequence[float] = EPSILONS) -> tuple[Outlook, ...]:
    """Return the forecast at each epsilon. Unlike `advise`, do not search for the smallest epsilon
    that suffices.

    Raises as `advise` does.
    """
    check_question(question)
    check_epsilons(epsilons)
    return tuple(outlook(question, epsilon) for epsilon in epsilons)


def check_question(question: PlannedRun) -> None:
    """Raise PlanError or BudgetError if no run can have these numbers. The message names the
    number.
    """
    if not 1 <= question.n_features <= MAX_FEATURES:
        raise PlanError(f"n_features is {question.n_features}; expected 1 to {MAX_FEATURES}")
    if question.domain is not None and question.domain.n_features != question.n_features:
        raise PlanError(
            f"n_features is {question.n_features}, and bounds are stated for"
            f" {question.domain.n_features} features; leave out one of them"
        )
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
    """Raise BudgetError unless there are 1 to 100 epsilons, all different, finite and above 0."""
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
    """Return the forecast at one epsilon. It designs a mechanism, or a plan, as a run does."""
    if question.federation is None:
        m = design(_settings(question, epsilon))
        return _outlook(question, m, Forecast.of(m))
    plan = _plan(question, question.federation, epsilon)
    noise = noise_deviation_of_run(plan, plan.n_clients)
    found = Forecast.of(plan.clustering, noise, noise_factor(plan))
    return msgspec.structs.replace(
        _outlook(question, plan.clustering, found),
        ring_bits=plan.ring_bits,
        required_bits=ring_load(plan).required_bits,
        client=traffic(plan, plan.names[-1]),
        dealer=traffic(plan, plan.names[0]),
    )


def forecast(question: PlannedRun, epsilon: float, n_iterations: int | None = None) -> Forecast:
    """Return the forecast at one epsilon.

    For a federated run, this designs no plan. It uses the coarser grid of counts of the central
    model, which hardly changes the forecast.

    n_iterations : number of iterations, or None for the planner's choice.
    """
    m = design(_settings(question, epsilon, n_iterations))
    factor = 1.0 if question.federation is None else question.federation.noise_factor
    noise = noise_deviation(m)
    noise = NoiseDeviation(sums=factor * noise.sums, counts=factor * noise.counts)
    return Forecast.of(m, noise, factor)


def is_clear(found: Forecast) -> bool:
    """Return whether the verdict is `clear`."""
    return found.verdict is Verdict.CLEAR


def least_epsilon(
    question: PlannedRun, suffices: Callable[[Forecast], bool] = is_clear
) -> float | None:
    """Return the smallest epsilon, to two significant digits, whose forecast suffices. Return None
    if no epsilon up to 10 suffices.
    """
    fewest = question.algorithm.fewest_iterations
    return _first(
        CANDIDATE_EPSILONS, fewest, lambda epsilon, T: _does(suffices, question, epsilon, T)
    )


def needed_records(question: PlannedRun, epsilon: float) -> int | None:
    """Return the smallest number of records, among numbers of two significant digits, for which the
    verdict is `clear`.

    Returns None if 10**12 records do not suffice.
    """
    candidates = [n for n in CANDIDATE_RECORDS if question.n_clusters <= n <= MAX_RECORDS]

    def enough(n_records: int, T: int | None) -> bool:
        return _does(is_clear, msgspec.structs.replace(question, n_records=n_records), epsilon, T)

    return _first(candidates, question.algorithm.fewest_iterations, enough)


def wanted(question: PlannedRun, errors: Mapping[str, float]) -> WantedBars:
    """Return the smallest epsilon with which no error bar is longer than wanted.

    errors : largest error bar of each named feature, in the units of its column. It is a factor for
        a feature whose logarithms are clustered, and a number of days for a date.

    Raises PlanError for an unknown feature, or for a length that no error bar can have.
    """
    most = largest_bar(question.domain, errors)
    found = least_epsilon(
        question, lambda each: each.verdict is not Verdict.MOSTLY_NOISE and each.bar <= most
    )
    return WantedBars(
        errors=dict(errors), outlook=None if found is None else outlook(question, found)
    )


def curves(question: PlannedRun, epsilons: Sequence[float]) -> dict[int, list[Forecast]]:
    """Return forecasts at these epsilons for k clusters, half of k, and twice k, by number of
    clusters.

    If half of k or twice k is above 500, it is left out, because placing so large a set of initial
    centroids is slow.
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
            forecast(msgspec.structs.replace(question, n_clusters=k), epsilon)
            for epsilon in epsilons
        ]
        for k in sorted(possible)
    }


def by_clients(question: PlannedRun, epsilons: Sequence[float]) -> dict[int, list[float]]:
    """Return a dict from the number of clients that may have rows of one person to the error bars
    at these epsilons.

    The numbers are 1, 2, all clients, and the number in `question`, ascending. The dict is empty
    unless a federated run protects persons.
    """
    persons, federation = question.persons, question.federation
    if persons is None or federation is None:
        return {}
    M = federation.n_clients
    return {
        c: [_bar_if_at(c, question, persons, epsilon) for epsilon in epsilons]
        for c in sorted({1, min(2, M), M, persons.max_clients})
    }


def _bar_if_at(n_clients: int, question: PlannedRun, persons: Persons, epsilon: float) -> float:
    """Return the error bar in a run in which n_clients clients may have rows of one person.

    The error bar is infinite if the noise is too large for the integers.
    """
    asked = msgspec.structs.replace(
        question, persons=msgspec.structs.replace(persons, max_clients=n_clients)
    )
    try:
        return forecast(asked, epsilon).bar
    except OverflowRisk:
        return math.inf


def to_builtins(advice: Advice) -> dict[str, Any]:
    """Return the advice as tables, lists, strings and finite numbers. An infinite number becomes
    None.
    """
    content: dict[str, Any] = finite(msgspec.to_builtins(advice, enc_hook=str))
    question = content["question"]
    question["algorithm"] = advice.question.algorithm.name
    domain = question.pop("domain")
    question["bounds"] = domain and dict(
        zip(domain["features"], zip(domain["lower"], domain["upper"], strict=True), strict=True)
    )
    if advice.question.persons is None:
        del question["persons"], content["by_clients"]
    return content


def finite(content: Any) -> Any:
    """Return tables and lists with None in the place of each infinite number."""
    if isinstance(content, dict):
        return {name: finite(value) for name, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [finite(value) for value in content]
    return None if isinstance(content, float) and math.isinf(content) else content


def _first(
    candidates: Sequence[T], fewest: int | None, is_enough: Callable[[T, int | None], bool]
) -> T | None:
    """Return the first candidate that suffices with the planner's number of iterations T, or None.

    For fixed T, later candidates have smaller errors. The error grows with T, and the planner
    chooses larger T for later candidates, from `fewest` upwards. So a candidate that does not
    suffice with `fewest` iterations cannot suffice at all. Where T rises, the error may jump up. So
    every candidate is tried, from the first one that suffices with `fewest`.

    candidates : ascending candidates.
    fewest : smallest number of iterations, or None.
    is_enough : function of a candidate and a number of iterations (None for the planner's) that
        returns whether the error is small enough.
    """
    start = bisect_left(candidates, True, key=lambda candidate: is_enough(candidate, fewest))
    return next((candidate for candidate in candidates[start:] if is_enough(candidate, None)), None)


def _does(
    suffices: Callable[[Forecast], bool],
    question: PlannedRun,
    epsilon: float,
    n_iterations: int | None,
) -> bool:
    try:
        return suffices(forecast(question, epsilon, n_iterations))
    except OverflowRisk:  # noise beyond what integers hold: more of it than could suffice
        return False


def _outlook(question: PlannedRun, m: Mechanism, found: Forecast) -> Outlook:
    odds = Odds.of_run(m)
    return Outlook(
        **msgspec.structs.asdict(found),
        odds=RightGuesses(odds.right_guesses(), odds.certainty(0.5)),
        bars=() if question.domain is None else bars_of(m.domain, found.bar),
    )


def _settings(
    question: PlannedRun, epsilon: float, n_iterations: int | None = None
) -> Settings[AnyAlgorithm]:
    d = question.n_features
    domain = question.domain or Domain(
        features=tuple(f"x{i}" for i in range(1, d + 1)), lower=(-1.0,) * d, upper=(1.0,) * d
    )
    return Settings(
        algorithm=question.algorithm,
        domain=domain,
        n_clusters=question.n_clusters,
        n_records=question.n_records,
        epsilon=epsilon,
        delta=question.delta,
        public_seed=PublicSeed.from_int(0),  # where centroids start does not enter the error
        n_iterations=n_iterations,
        initialization=RadiusSearch.HALVING,  # the quicker search method
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
