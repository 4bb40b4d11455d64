"""What was spent on each data set, and whether one more run fits its limit.

All runs on one data set are added up, adaptively composed: mu^2 of Gaussian noise, exactly, and epsilon of Laplace noise. What
a run reserved counts until it ends; then what was charged. Together they are

    (eps_GDP(mu, delta - slack) + eps_pure, delta)-DP.

slack : a run whose noise was added in shares is within a total variation distance tau of one that is exactly as private as
planned, and its plan sets (1 + e^eps) tau of delta aside (docs/proofs/shares-of-noise.md). Runs that add up to a larger E are
set aside (1 + e^E) times the sum of their taus.

Neighbouring relation: that of the runs if they have the same. Otherwise one record added or removed, for which a mechanism
that was made for replacing one costs no more than it states: every sensitivity is at most as large.
"""

import hmac
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import ROUND_CEILING, Context
from fractions import Fraction

import msgspec
import numpy as np
from numpy.typing import NDArray

from fastlloyd.algorithms import Noise
from fastlloyd.dp.accountant import Accountant, GaussianRelease
from fastlloyd.dp.gdp import gdp_epsilon, gdp_mu, mu_from_squared
from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.dp.precision import exact, round_up, working_precision
from fastlloyd.errors import BudgetError
from fastlloyd.expander import length_prefixed
from fastlloyd.mechanism import NAME, Mechanism, usable_delta
from fastlloyd.names import unknown_name
from fastlloyd.plan import Plan
from fastlloyd.store.events import Cost, LimitSet, RunCost, RunReserved
from fastlloyd.store.history import History, Run

_FINGERPRINT_LABEL = b"fastlloyd/v1/fingerprint"
_BITS = 170


class Spending(msgspec.Struct, frozen=True, kw_only=True):
    """What some exchanges cost together.

    mu_squared, pure_epsilon : exact. distance : the sum of the taus of their runs, rounded up. delta : the smallest that one of
    their plans states with Gaussian noise, 0 without any. neighboring_relation : None while nothing is spent.
    """

    mu_squared: Fraction = Fraction(0)
    pure_epsilon: Fraction = Fraction(0)
    distance: Fraction = Fraction(0)
    delta: float = 0.0
    neighboring_relation: NeighboringRelation | None = None

    @classmethod
    def of(cls, exchanges: Iterable[tuple[RunCost, Sequence[int]]]) -> "Spending":
        """Add up, per run, the exchanges of these numbers, counted from 1."""
        runs = [(cost, numbers) for cost, numbers in exchanges if numbers]
        costs = Counter(cost.costs[number - 1] for cost, numbers in runs for number in numbers)
        relations = {cost.neighboring_relation for cost, _ in runs}
        replacing = relations == {NeighboringRelation.REPLACE_ONE}
        return cls(
            mu_squared=sum((n * cost.mu_squared for cost, n in costs.items()), Fraction(0)),
            pure_epsilon=sum((n * cost.pure_epsilon for cost, n in costs.items()), Fraction(0)),
            distance=sum((_distance(cost) for cost, _ in runs), Fraction(0)),
            delta=min((cost.delta for cost, _ in runs if cost.delta), default=0.0),
            neighboring_relation=(NeighboringRelation.REPLACE_ONE if replacing else NeighboringRelation.ADD_OR_REMOVE_ONE)
            if runs
            else None,
        )

    def epsilon(self, delta: float) -> float:
        """An epsilon such that everything spent is (epsilon, delta)-DP, rounded up; infinite where there is none."""
        if self.mu_squared == 0:
            return round_up(self.pure_epsilon)
        mu, slack = mu_from_squared(self.mu_squared), 0.0
        try:
            while True:
                gaussian = gdp_epsilon(mu, usable_delta(delta, slack))
                total = round_up(self.pure_epsilon + Fraction(gaussian)) if math.isfinite(gaussian) else math.inf
                needed = _slack(self.distance, total)
                if needed <= slack:
                    return total
                slack = 2 * needed
        except BudgetError:  # no delta left
            return math.inf


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """One data set: its runs, its limit if it has one, what they spent, and the delta at which that is shown."""

    dataset: str
    runs: tuple[Run, ...]
    limit: LimitSet | None
    spent: Spending

    @property
    def delta(self) -> float:
        """That of the limit; without one, the smallest of the runs' plans, 0 where no run needs any."""
        return self.spent.delta if self.limit is None else self.limit.delta

    @property
    def epsilon(self) -> float:
        """What is spent, at `delta`."""
        return self.spent.epsilon(self.delta)

    @property
    def n_open(self) -> int:
        """How many runs have not ended, and so count in full."""
        return sum(run.ended is None for run in self.runs)

    @property
    def left(self) -> float | None:
        """The largest epsilon, rounded down, of one more run in the central model at the limit's delta; None without a limit.

        It is less than limit minus spent where noise is Laplace only, and more where it is Gaussian: mu^2 add up.
        """
        limit = self.limit
        if limit is None or math.isinf(limit.epsilon):
            return None
        for_gaussian = math.nextafter(float(Fraction(limit.epsilon) - self.spent.pure_epsilon), 0)
        if for_gaussian <= 0 or self.epsilon >= limit.epsilon:
            return 0.0
        if limit.delta == 0:
            return for_gaussian
        try:
            usable = usable_delta(limit.delta, _slack(self.spent.distance, limit.epsilon))
        except BudgetError:  # shares of noise were added up in so many runs that no delta is left at such an epsilon
            return 0.0
        room = Fraction(gdp_mu(for_gaussian, usable)) ** 2
        if room <= self.spent.mu_squared:
            return 0.0
        mu = math.nextafter(mu_from_squared(room - self.spent.mu_squared), 0)
        return gdp_epsilon(mu, limit.delta) * (1 - 2**-40)


def run_cost(mechanism: Mechanism) -> RunCost:
    """What every exchange of a mechanism costs, exactly; together no more than what it states.

    Raises BudgetError for one without noise.
    """
    if mechanism.noise is Noise.NONE:
        raise BudgetError(f"{mechanism.name} adds no noise; no limit and no ledger holds what it costs")
    accountants = [mechanism.accountant_of(exchange) for exchange in mechanism.exchanges]
    return RunCost(
        neighboring_relation=mechanism.neighboring_relation,
        costs=tuple(Cost(accountant.mu_squared, accountant.pure_epsilon) for accountant in accountants),
        epsilon=float(mechanism.epsilon),
        delta=float(mechanism.delta),
        delta_slack=float(mechanism.delta_slack),
    )


def account(history: History, dataset: str) -> Account:
    """The account of one data set, empty if no run used it yet."""
    runs = tuple(run for run in history.runs.values() if run.reserved is not None and run.reserved.dataset == dataset)
    spent = Spending.of((run.reserved.cost, run.counted) for run in runs if run.reserved is not None)
    return Account(dataset=dataset, runs=runs, limit=history.limits.get(dataset), spent=spent)


def accounts(history: History) -> list[Account]:
    """Those of all data sets that have a run or a limit, by name."""
    return [account(history, dataset) for dataset in known_datasets(history)]


def known_datasets(history: History) -> list[str]:
    """The names of all data sets that have a run or a limit, sorted."""
    used = {run.reserved.dataset for run in history.runs.values() if run.reserved is not None}
    return sorted(used | history.limits.keys())


def check(history: History, dataset: str, cost: RunCost) -> None:
    """Raise BudgetError if a run of this cost would bring the data set above its limit, as all earlier ones count now."""
    before = account(history, dataset)
    limit = before.limit
    if limit is None or math.isinf(limit.epsilon):
        return
    everything = range(1, len(cost.costs) + 1)
    counted = [(run.reserved.cost, run.counted) for run in before.runs if run.reserved is not None]
    after = Spending.of([*counted, (cost, everything)]).epsilon(limit.delta)
    if after > limit.epsilon:
        alone = Spending.of([(cost, everything)]).epsilon(limit.delta)
        raise BudgetError(
            f"data set {dataset!r} has the limit epsilon {limit.epsilon:g} at delta {limit.delta:g}, of which "
            f"{rounded_up(before.epsilon)} is spent or reserved; this run needs {rounded_up(alone)}, which together makes "
            f"{rounded_up(after)}: "
            "plan a run that costs less, or set another limit with fastlloyd ledger limit"
        )


def check_records(history: History, dataset: str, fingerprint: bytes) -> None:
    """Raise BudgetError if these very records were used under another data set name, where what they spent is counted."""
    for run in history.runs.values():
        known = run.reserved
        if known is not None and known.dataset != dataset and hmac.compare_digest(known.fingerprint, fingerprint):
            raise BudgetError(
                f"these records were used under the data set name {known.dataset!r} before; use that name instead of "
                f"{dataset!r}, so that what is spent on them adds up"
            )


def check_dataset(dataset: str) -> None:
    """Raise BudgetError unless this can be the name of a data set."""
    if not NAME.fullmatch(dataset):
        raise BudgetError(f"dataset is {dataset!r:.80}; expected letters, digits, dot, dash or underscore, at most 64")


def check_known(history: History, dataset: str, *, new: bool) -> None:
    """Raise BudgetError unless the data set has a run or a limit, or has none and was said to be new: else a slip makes one."""
    known = known_datasets(history)
    if new and dataset in known:
        raise BudgetError(f"data set {dataset!r} is not new: it has a run or a limit; leave --new out to set another limit")
    if not new and dataset not in known:
        there = f"data set {unknown_name(dataset, known)}" if known else f"data set {dataset!r} is unknown; there is none yet"
        raise BudgetError(f"{there}: correct the name, or say --new if its first run is still to come")


def check_slip(history: History, dataset: str, *, new: bool) -> None:
    """Raise BudgetError for a name unlike those there are, unless it was said to be new: it would have no limit and no past."""
    known = known_datasets(history)
    if known and dataset not in known and not new:
        raise BudgetError(f"data set {unknown_name(dataset, known)}: correct the name, or say --new-dataset for other records")


def reserve(history: History, plan: Plan, *, client: str, dataset: str, fingerprint: bytes) -> RunReserved:
    """The event that reserves a whole run on a data set, once it is known to fit; BudgetError if it does not."""
    cost = run_cost(plan.mechanism)
    check_records(history, dataset, fingerprint)
    check(history, dataset, cost)
    return RunReserved(
        run_id=bytes.fromhex(plan.run_id),
        plan_digest=plan.digest,
        client=client,
        dataset=dataset,
        fingerprint=fingerprint,
        cost=cost,
    )


def check_sums(history: History) -> None:
    """Raise BudgetError unless the accountant, by its own route, finds every data set's epsilon large enough. Takes seconds."""
    for one in accounts(history):
        releases = [GaussianRelease(one.spent.mu_squared, Fraction(1))] if one.spent.mu_squared else []
        accountant = Accountant(NeighboringRelation.ADD_OR_REMOVE_ONE).compose(releases)
        for_gaussian = float(Fraction(one.epsilon) - one.spent.pure_epsilon) if math.isfinite(one.epsilon) else math.inf
        if releases and math.isfinite(for_gaussian) and accountant.get_delta(for_gaussian) > one.delta * (1 + 2**-30):
            raise BudgetError(f"data set {one.dataset!r}: two ways to add up what is spent disagree; report it, start no run")


def fingerprint(key: bytes, columns: Sequence[str], values: NDArray[np.float64]) -> bytes:
    """HMAC-SHA256 of records under a key of the store, 32 bytes: the same for the same records in another order.

    values : (n, number of columns), as they were read, in original units: bounds and scaling of a plan change nothing, nor do
    the orders of rows and columns. Rows are sorted as bytes; a second copy of the values is held meanwhile. It tells that
    records are the very same, not that they are nearly so.
    """
    order = np.argsort(columns)
    rows = np.ascontiguousarray(values[:, order], dtype="<f8") + 0.0  # no negative zeros
    n, d = rows.shape
    rows = np.sort(rows.view(np.dtype((np.void, 8 * d))).ravel())
    mac = hmac.new(key, _FINGERPRINT_LABEL + d.to_bytes(8, "big") + n.to_bytes(8, "big"), "sha256")
    for at in order:
        mac.update(length_prefixed(columns[at].encode()))
    mac.update(rows.view(np.uint8).data)
    return mac.digest()


def rounded_up(value: float) -> str:
    """Four digits for people, never less than the value."""
    return f"{float(Context(prec=4, rounding=ROUND_CEILING).create_decimal_from_float(value)):.4g}"


def _distance(cost: RunCost) -> Fraction:
    """tau, from the slack (1 + e^epsilon) tau that the plan set aside; rounded up."""
    if cost.delta_slack == 0:
        return Fraction(0)
    with working_precision(_BITS) as mp:
        tau = exact(mp, cost.delta_slack) / (1 + mp.exp(cost.epsilon))
        return Fraction(math.nextafter(round_up(tau), math.inf))


def _slack(distance: Fraction, epsilon: float) -> float:
    """(1 + e^epsilon) tau, rounded up."""
    if distance == 0:
        return 0.0
    with working_precision(_BITS) as mp:
        slack = (1 + mp.exp(epsilon)) * exact(mp, distance)
        return math.nextafter(round_up(slack), math.inf) if slack < 1 else 1.0
