"""What was spent on each data set, and whether one more run fits its limit.

All runs on one data set are added up, for neighbours by one relation: what a run reserved counts until it ends; then what was
charged. How they add up, and what a limit holds, is in `spending.py`.

Neighbouring relation: one record replaced as long as all runs of the data set are made for that; otherwise one record added or
removed. What each exchange costs under either is in the store, of runs that earlier versions joined as far as it can be told.
"""

import enum
import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

import msgspec

from fastlloyd.base.names import NAME, unknown_name
from fastlloyd.base.precision import rounded_up
from fastlloyd.dp.accountant import Accountant, GaussianRelease
from fastlloyd.dp.gdp import pure_mu_squared
from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.dp.noise import Noise
from fastlloyd.errors import BudgetError
from fastlloyd.federation.fingerprint import Fingerprint
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.spending import Spending
from fastlloyd.federation.store.events import AnyRunCost, Cost, EarlierRunReserved, ExchangeCost, LimitSet, RunCost, RunReserved
from fastlloyd.federation.store.history import History, Run
from fastlloyd.mechanisms.private_run import AnyRun

ADD, REPLACE = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE


class Proviso(enum.Enum):
    """Why a sum of runs holds only if their number and size were not chosen from results."""

    NO_LIMIT = "no limit was set before the first run"
    RAISED = "its limit was raised or lifted after a run"
    EARLIER = "a run was joined by an earlier version of fastlloyd, which let runs through by another rule"
    EXCEEDED = "its runs exceed the limit that was set before the first of them"


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """One data set: its runs, its limit if it has one, and what the runs spent.

    relation : of the neighbours that the limit speaks of. spent : under that relation; otherwise : under the other one.
    first_run : what the first run reserved, by its own relation. first_limit : the limit that was in force before it, if none
    later was larger. proviso : why the runs together need not keep to that limit, had they been chosen from results; None if
    they do.
    """

    dataset: str
    runs: tuple[Run, ...]
    limit: LimitSet | None
    relation: NeighboringRelation
    spent: Spending
    otherwise: Spending
    first_run: Spending
    first_limit: LimitSet | None
    proviso: Proviso | None

    @property
    def delta(self) -> float:
        """The limit's delta; without a limit, the smallest delta of the runs' plans, 0 if no run needs any."""
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
        """The largest epsilon, rounded down, of one more plan at the limit's delta; None without a limit.

        At a delta of 0 a plan with Laplace noise, otherwise one with Gaussian noise; `left_pure` is the other.
        """
        if (limit := _finite(self.limit)) is None:
            return None
        return self.left_pure if limit.delta == 0 else self.spent.left(limit.epsilon, limit.delta, self.first_run)

    @property
    def left_pure(self) -> float | None:
        """The largest epsilon, rounded down, of one more plan with Laplace noise after such plans; None without a limit."""
        return None if (limit := _finite(self.limit)) is None else self.spent.left_pure(limit.epsilon)

    @property
    def is_within(self) -> bool:
        """Whether the limit, if there is one, holds all that is spent."""
        limit = _finite(self.limit)
        return limit is None or self.spent.fits(limit.epsilon, limit.delta, self.first_run)


def run_cost(mechanism: AnyRun, distance: Fraction = Fraction(0)) -> RunCost:
    """What every exchange of a mechanism costs, exactly; together no more than what it states.

    distance : `Plan.distance`. Raises BudgetError for a mechanism without noise.
    """
    if mechanism.noise is Noise.NONE:
        raise BudgetError(f"{mechanism.name} adds no noise; no limit and no ledger holds what it costs")

    def cost(number: int, relation: NeighboringRelation) -> Cost:
        accountant = mechanism.accountant_of(mechanism.all_rounds[number], relation)
        return Cost(accountant.mu_squared, accountant.pure_epsilon)

    return RunCost(
        neighboring_relation=mechanism.neighboring_relation,
        costs=tuple(ExchangeCost(cost(n, ADD), cost(n, REPLACE)) for n in range(mechanism.n_rounds)),
        epsilon=float(mechanism.epsilon),
        delta=float(mechanism.delta),
        distance=distance,
    )


def account(history: History, dataset: str, plans: Mapping[bytes, RunCost] | None = None) -> Account:
    """The account of one data set, empty if no run used it yet.

    plans : by digest, the costs of plans whose files are at hand; they stand in for what the store knows of their runs.
    """
    runs = tuple(run for run in history.runs.values() if run.reserved is not None and run.reserved.dataset == dataset)
    counted = _counted(runs, plans or {})
    relation = _relation(counted)
    spent = Spending.of(counted, relation)
    first = _first(counted)
    first_limit, proviso = _kept(history, runs, dataset, spent, first)
    return Account(
        dataset=dataset,
        runs=runs,
        limit=history.limits.get(dataset),
        relation=relation,
        spent=spent,
        otherwise=Spending.of(counted, REPLACE if relation is ADD else ADD),
        first_run=first,
        first_limit=first_limit,
        proviso=proviso,
    )


def accounts(history: History, plans: Mapping[bytes, RunCost] | None = None) -> list[Account]:
    """The accounts of all data sets that have a run or a limit, by name."""
    return [account(history, dataset, plans) for dataset in known_datasets(history)]


def known_datasets(history: History) -> list[str]:
    """The names of all data sets that have a run or a limit, sorted."""
    used = {run.reserved.dataset for run in history.runs.values() if run.reserved is not None}
    return sorted(used | history.limits.keys())


def check(history: History, dataset: str, cost: RunCost) -> None:
    """Raise BudgetError if a run of this cost would bring the data set above its limit, as all earlier ones count now."""
    before = account(history, dataset)
    everything = [*_counted(before.runs, {}), _whole(cost)]
    relation = _relation(everything)
    after = Spending.of(everything, relation)
    for limit in map(_finite, (before.limit, before.first_limit)):
        if limit is not None and not after.fits(limit.epsilon, limit.delta, _first(everything)):
            raise BudgetError(_refusal(before, limit, after, Spending.of([_whole(cost)], relation)))


def _refusal(before: Account, limit: LimitSet, after: Spending, alone: Spending) -> str:
    """Why a run is refused, and what may be done about it."""
    told = f"data set {before.dataset!r} has the limit epsilon {limit.epsilon:g} at delta {limit.delta:g}"
    if after.n_unknown:
        return (
            f"{told} for a record added or removed, and holds a run that an earlier version joined for replaced records: what "
            "it costs where a record is added is not in the store; plan runs for replace_one, or lift the limit with "
            "fastlloyd ledger limit"
        )
    spent, needed, together = (rounded_up(each.epsilon(limit.delta)) for each in (before.spent, alone, after))
    said = (
        f"{told}, of which {spent} is spent or reserved; this run needs {needed}, which together makes {together}: plan a run "
        "that costs less, or set another limit with fastlloyd ledger limit"
    )
    if after.epsilon(limit.delta) <= limit.epsilon:
        said += "; about a millionth of a limit's delta is set aside for the noise that clients add in shares"
    return said


def outlook(history: History, dataset: str, plan: Plan) -> str:
    """What runs on a data set spent before this plan's, and what they will have spent with it, in sentences for its owner."""
    one = account(history, dataset)
    delta, limit = one.delta or plan.mechanism.delta, _finite(one.limit)
    relation = "replaced" if one.relation is REPLACE else "added or removed"
    said = f"By this store, {len(one.runs)} run{'' if len(one.runs) == 1 else 's'} on the data set {dataset!r} spent epsilon "
    said += f"{rounded_up(one.spent.epsilon(delta))} at delta {delta:.3g}, for one record {relation}."
    if bytes.fromhex(plan.run_id) in history.runs:
        return f"{said} The run of this plan is among them."
    cost = run_cost(plan.mechanism, plan.distance)
    everything = [*_counted(one.runs, {}), _whole(cost)]
    together = Spending.of(everything, _relation(everything)).epsilon(delta)
    said += f" With the run of this plan it is epsilon {rounded_up(together)}."
    if limit is None:
        return f"{said} There is no limit."
    try:
        check(history, dataset, cost)
    except BudgetError:
        return f"{said} That is above the limit, epsilon {limit.epsilon:g}: `join` will refuse the plan."
    return f"{said} The limit is epsilon {limit.epsilon:g}."


def check_records(history: History, dataset: str, fingerprint: Fingerprint) -> list[str]:
    """Raise BudgetError if these very records were used under another data set name, where what they spent is counted.

    Returns the names of other data sets whose records cannot be compared with these.
    """
    unknown = set()
    for known in (run.reserved for run in history.runs.values()):
        if known is None or known.dataset == dataset:
            continue
        is_known = fingerprint.is_of(known)
        if is_known:
            raise BudgetError(
                f"these records were used under the data set name {known.dataset!r} before; use that name instead of "
                f"{dataset!r}, so that what is spent on them adds up"
            )
        if is_known is None:
            unknown.add(known.dataset)
    return sorted(unknown)


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


def reserve(history: History, plan: Plan, *, client: str, dataset: str, fingerprint: Fingerprint) -> RunReserved:
    """The event that reserves a whole run on a data set, once it is known to fit; BudgetError if it does not."""
    cost = run_cost(plan.mechanism, plan.distance)
    check_records(history, dataset, fingerprint)
    check(history, dataset, cost)
    return RunReserved(
        run_id=bytes.fromhex(plan.run_id),
        plan_digest=plan.digest,
        client=client,
        dataset=dataset,
        fingerprint=fingerprint.digest,
        cost=cost,
    )


def check_sums(history: History) -> None:
    """Raise BudgetError unless the accountant, by its own route, finds every data set's epsilon large enough. Takes seconds."""
    for one in accounts(history):
        for spent, epsilon in ((one.spent, one.epsilon), (one.otherwise, one.otherwise.epsilon(one.delta))):
            if not _found_again(spent, epsilon, one.delta):
                raise BudgetError(
                    f"data set {one.dataset!r}: two ways to add up what is spent disagree; report it, start no run"
                )
    costs = (c for run in history.runs.values() if run.reserved is not None for c in run.reserved.cost.under(REPLACE))
    for epsilon in {float(cost.pure_epsilon) for cost in costs if cost is not None and cost.pure_epsilon}:
        # total variation: that of two Gaussians m apart is at least that of an epsilon-DP exchange
        m = math.sqrt(pure_mu_squared(Fraction(epsilon)))
        if math.erfc(m / math.sqrt(8)) > 2 / (1 + math.exp(min(epsilon, 700))) + 1e-12:
            raise BudgetError("two ways to count Laplace noise as Gaussian disagree; report it, start no run")


def _found_again(spent: Spending, epsilon: float, delta: float) -> bool:
    """Whether that epsilon holds by integration of the privacy loss, or by adding up pure epsilons."""
    if math.isinf(epsilon) or (spent.is_pure and spent.pure_epsilon <= Fraction(epsilon)):
        return True
    releases = [GaussianRelease(spent.whole, Fraction(1))] if spent.whole else []
    found = Accountant(ADD).compose(releases).get_delta(epsilon) if epsilon > 0 else 0.0
    return found <= delta * (1 + 2**-30)


_Counted = tuple[AnyRunCost, Sequence[int]]  # what a run costs, and which of its exchanges count


def _counted(runs: Iterable[Run], plans: Mapping[bytes, RunCost]) -> list[_Counted]:
    return [(plans.get(run.reserved.plan_digest, run.reserved.cost), run.counted) for run in runs if run.reserved is not None]


def _whole(cost: AnyRunCost) -> _Counted:
    """A run of which all exchanges count, as when it is reserved."""
    return cost, range(1, len(cost.costs) + 1)


def _first(runs: Sequence[_Counted]) -> Spending:
    """What the first run reserved, by the relation it was made for: a constant, whatever later runs are made for."""
    return Spending.of([_whole(runs[0][0])], runs[0][0].neighboring_relation) if runs else Spending()


def _relation(runs: Iterable[_Counted]) -> NeighboringRelation:
    """The relation that a limit is for: replace_one if all runs, those that cost nothing too, are made for it."""
    return REPLACE if {cost.neighboring_relation for cost, _ in runs} == {REPLACE} else ADD


def _finite(limit: LimitSet | None) -> LimitSet | None:
    """The limit; None if there is none, or if its epsilon is infinite."""
    return None if limit is None or math.isinf(limit.epsilon) else limit


def _kept(
    history: History, runs: Sequence[Run], dataset: str, spent: Spending, first_run: Spending
) -> tuple[LimitSet | None, Proviso | None]:
    """The limit from before the first run, if none after it was larger; and why it may not hold whatever was chosen."""
    if not runs:
        return None, None
    set_first, *later = history.limits_since_first_run[dataset]
    if (first := _finite(set_first)) is None:
        return None, Proviso.NO_LIMIT
    if any(limit is None or limit.epsilon > first.epsilon or limit.delta > first.delta for limit in later):
        return None, Proviso.RAISED
    if any(isinstance(run.reserved, EarlierRunReserved) for run in runs):
        return first, Proviso.EARLIER
    return first, None if spent.fits(first.epsilon, first.delta, first_run) else Proviso.EXCEEDED
