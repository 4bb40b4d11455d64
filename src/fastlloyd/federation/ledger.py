"""Budget spent on each data set, and the budget that its limits leave.

The costs of all runs on one data set are added up. An open run counts with everything that it
reserved, an ended one with the rounds that were charged. `spending.py` adds up and compares the
total with a limit. `admission.py` decides whether one more run may begin. `holder.py` writes the
charges.

Neighbouring relation: a limit applies to one record or one person, added or removed, or replaced. A
data set has an account of its own for each of these (`store/costs.py`). A limit that does not name
its neighbours applies to one record. If all runs on the data set protect a replaced record, it
applies to one record replaced. Otherwise it applies to one record added or removed.
"""

import enum
import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

import msgspec

from fastlloyd.base.names import same
from fastlloyd.dp.accountant import Accountant, GaussianRelease
from fastlloyd.dp.gdp import pure_mu_squared
from fastlloyd.dp.neighboring import NeighboringRelation, Neighbours
from fastlloyd.dp.noise import Noise
from fastlloyd.errors import BudgetError
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.spending import Spending
from fastlloyd.federation.store.costs import Cost, ExchangeCost, PersonRunCost, PlannedCost, RunCost
from fastlloyd.federation.store.events import AnyRepeated, Limit
from fastlloyd.federation.store.history import History, Limited, Run
from fastlloyd.mechanisms.catalogue import design
from fastlloyd.mechanisms.private_run import AnyRun
from fastlloyd.mechanisms.two_stages import LEEWAY, TwoStages

ADD, REPLACE = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE


class Proviso(enum.Enum):
    """Reason why the total cost of some runs holds only if their number and size were not chosen
    from results.
    """

    NO_LIMIT = "no limit was set before the first run"
    RAISED = "its limit was raised or lifted after a run"
    TAKEN_OVER = "a run began before this ledger knew of it"
    EXCEEDED = "its runs exceed the limit that was set before the first of them"


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """Account of a data set for one kind of neighbours: the costs of its runs, added up, and the
    limit on this total.

    dataset : name of the data set.
    runs : runs on the data set.
    asked : neighbours for which the costs are added up.
    limit : limit in force, or None.
    spent : total cost of the runs for these neighbours.
    otherwise : total cost of the runs for the same unit, under the other neighbouring relation.
    first_run : cost that the first run reserved, for these neighbours. If the limit names no
        neighbours, the cost is for records under the relation of the first run.
    first_limit : limit in force before the first run. None if there was none, or if a later limit
        was larger.
    proviso : reason why the runs together may exceed that limit if they were chosen from results,
        or None if they cannot.
    """

    dataset: str
    runs: tuple[Run, ...]
    asked: Neighbours
    limit: Limit | None
    spent: Spending
    otherwise: Spending
    first_run: Spending
    first_limit: Limit | None
    proviso: Proviso | None

    @property
    def delta(self) -> float:
        """Delta of the limit. Without a limit, the smallest delta of the runs' plans, or 0 if no
        run needs any.
        """
        return self.spent.delta if self.limit is None else self.limit.delta

    @property
    def epsilon(self) -> float:
        """Epsilon that all runs together spent, at `delta`."""
        return self.spent.epsilon(self.delta)

    @property
    def n_runs(self) -> int:
        """Number of runs that spent something or may still do so."""
        return sum(not run.may_begin_again for run in self.runs)

    @property
    def n_open(self) -> int:
        """Number of open runs, which count with everything that they reserved."""
        return sum(run.is_open for run in self.runs)

    @property
    def left(self) -> float | None:
        """Largest epsilon that the limit allows for one more run at the limit's delta, rounded
        down, or None without a limit.

        At a delta of 0 the run has Laplace noise, otherwise Gaussian noise. For Laplace noise at
        any delta, use `left_pure`.
        """
        return self.left_for(1)

    def left_for(self, n_runs: int, at: float | None = None) -> float | None:
        """Return the largest epsilon that the limit allows for each of `n_runs` equal runs, rounded
        down, or None without a limit.

        at : delta of these runs, or None for the delta of the limit.

        The result is also None if `at` is 0, the limit's delta is above 0, and earlier runs have
        Gaussian noise. Laplace noise then counts as Gaussian.
        """
        if (limit := finite(self.limit)) is None:
            return None
        if (limit.delta if at is None else at) == 0:
            if self.is_within and not self.spent.is_pure:
                return None
            return self.spent.left_pure(limit.epsilon, n_runs)
        return self.spent.left(limit.epsilon, limit.delta, self.first_run, n_runs=n_runs, at=at)

    @property
    def left_pure(self) -> float | None:
        """Largest epsilon that the limit allows for one more run with Laplace noise, rounded down,
        or None without a limit. It is 0 if an earlier run has other noise.
        """
        return (
            None if (limit := finite(self.limit)) is None else self.spent.left_pure(limit.epsilon)
        )

    @property
    def is_within(self) -> bool:
        """Return whether the runs are within the limit. Without a limit they are."""
        limit = finite(self.limit)
        return limit is None or self.spent.fits(limit.epsilon, limit.delta, self.first_run)


def run_cost(
    mechanism: AnyRun,
    distance: Fraction = Fraction(0),
    *,
    is_federated: bool = False,
    rows_are: str | None = None,
) -> PlannedCost:
    """Return the exact cost of each round of a mechanism. Together they cost at most the
    guarantee that the mechanism states.

    distance : tau of the plan (`Plan.distance`), or 0.
    is_federated : whether several organisations may have records of one person.
    rows_are : name of the unit if each record is a different person, or None. Only for a mechanism
        that protects records.

    Raises BudgetError for a mechanism without noise, or if `rows_are` names another unit than the
    mechanism.
    """
    if mechanism.noise is Noise.NONE:
        raise BudgetError(
            f"{mechanism.name} adds no noise, so its cost has no bound and no ledger can count it;"
            " pass no data set (--dataset, in Python dataset=...)"
        )
    persons = mechanism.persons
    if persons is not None and rows_are not in (None, persons.name):
        raise BudgetError(
            f"rows_are is {rows_are!r}, but the run protects all rows of a {persons.name!r}"
            " together; leave rows_are out"
        )

    def cost(number: int, relation: NeighboringRelation) -> Cost:
        accountant = mechanism.accountant_of(mechanism.all_rounds[number], relation)
        return Cost(accountant.mu_squared, accountant.pure_epsilon)

    of_records = RunCost(
        neighboring_relation=mechanism.neighboring_relation,
        costs=tuple(
            ExchangeCost(cost(n, ADD), cost(n, REPLACE)) for n in range(mechanism.n_rounds)
        ),
        epsilon=float(mechanism.epsilon),
        delta=float(mechanism.delta),
        distance=distance,
    )
    unit = rows_are if persons is None else persons.name
    if unit is None:
        return of_records
    return PersonRunCost(
        **msgspec.structs.asdict(of_records),
        unit=unit,
        max_clients=(1 if persons is None else persons.max_clients) if is_federated else 0,
        one_row_each=persons is None,
    )


def stage_costs(planned: TwoStages, rows_are: str | None = None) -> tuple[PlannedCost, PlannedCost]:
    """Return the cost of the first stage, and the largest cost of the second stage over all bounds
    that the first may find.

    rows_are : as in `run_cost`.

    Raises BudgetError as `run_cost` does.
    """
    later = run_cost(design(planned.later), rows_are=rows_are).at_most(LEEWAY)
    return (
        run_cost(planned.first, rows_are=rows_are),
        msgspec.structs.replace(later, epsilon=planned.epsilon),
    )


def together(first: PlannedCost, *later: PlannedCost) -> PlannedCost:
    """Return several stages as one run, with the costs of all their rounds. All stages must have
    the same neighbours.
    """
    for cost in later:
        first = msgspec.structs.replace(
            first,
            costs=(*first.costs, *cost.costs),
            epsilon=max(first.epsilon, cost.epsilon),
            distance=first.distance + cost.distance,
        )
    return first


def plan_cost(plan: Plan, rows_are: str | None = None) -> PlannedCost:
    """Return the cost of each round of a federated run.

    rows_are : as in `run_cost`.

    Raises BudgetError as `run_cost` does.
    """
    return run_cost(plan.mechanism, plan.distance, is_federated=True, rows_are=rows_are)


def account(history: History, dataset: str, speaks_of: Neighbours | None = None) -> Account:
    """Return the account of a data set for one kind of neighbours. It is empty if there are no runs
    on the data set.

    history : history of a ledger or store.
    dataset : name of the data set, in any spelling.
    speaks_of : neighbours for which the account adds up costs (unit and neighbouring relation).
        None stands for one record under the relation of the runs.
    """
    runs = runs_on(history, dataset)
    counted = counted_on(history, dataset)
    asked = speaks_of or records_of(counted)
    spent = Spending.of(counted, asked)
    first = first_of(counted, speaks_of)
    first_limit, proviso = _kept(history, runs, (same(dataset), speaks_of), spent, first)
    return Account(
        dataset=history.called(dataset),
        runs=runs,
        asked=asked,
        limit=history.limits_on(dataset).get(speaks_of),
        spent=spent,
        otherwise=Spending.of(counted, asked.other),
        first_run=first,
        first_limit=first_limit,
        proviso=proviso,
    )


def accounts(history: History) -> list[Account]:
    """Return all accounts worth showing, sorted by data set.

    A data set has an account for each limit and for each unit that runs protect. It has an account
    for records if a limit or a run applies to records, or if there is no other account.
    """
    return [each for dataset in known_datasets(history) for each in accounts_on(history, dataset)]


def accounts_on(history: History, dataset: str) -> list[Account]:
    """Return the accounts of one data set that `accounts` would return."""
    return [account(history, dataset, each) for each in sums_on(history, dataset)]


def sums_on(history: History, dataset: str) -> list[Neighbours | None]:
    """Return the neighbours of each account of a data set.

    None stands for one record, under the relation of the runs. It is left out if it has no limit
    and another limit names the same neighbours.
    """
    counted = counted_on(history, dataset)
    costs = [cost for cost, _ in counted]
    named = [each for each in history.limits_on(dataset) if each is not None]
    limited = {each.unit for each in named}
    for cost in costs:
        if isinstance(cost, PersonRunCost) and cost.unit not in limited:
            named.append(Neighbours(cost.neighboring_relation, cost.unit, max(cost.max_clients, 1)))
            limited.add(cost.unit)
    limits = history.limits_on(dataset)
    is_named = finite(limits.get(None)) is None and records_of(counted) in named
    of_records = not is_named and (
        None in limits or any(not isinstance(cost, PersonRunCost) for cost in costs)
    )
    return [*([None] if of_records or not named else []), *named]


def runs_on(history: History, dataset: str) -> tuple[Run, ...]:
    """Return the runs on a data set in the order in which they began. Runs that are only in
    `History.rest` are left out, but never the first run on the data set.
    """
    return tuple(
        run
        for run in history.runs.values()
        if run.reserved is not None and same(run.reserved.dataset) == same(dataset)
    )


def known_datasets(history: History) -> list[str]:
    """Return the sorted names of all data sets that the history knows: with a run, a limit, or only
    a name.
    """
    return sorted(spellings[0] for spellings in history.spellings.values())


def is_used(history: History, dataset: str) -> bool:
    """Return whether the data set has a run or a limit, in any spelling of its name."""
    return same(dataset) in history.used or bool(history.limits_on(dataset))


def check_sums(history: History) -> None:
    """Raise BudgetError unless a second method, the accountant, confirms the epsilon of every
    account.

    The check takes seconds.
    """
    for one in accounts(history):
        for spent, epsilon in (
            (one.spent, one.epsilon),
            (one.otherwise, one.otherwise.epsilon(one.delta)),
        ):
            if not _found_again(spent, epsilon, one.delta):
                raise BudgetError(
                    f"data set {one.dataset!r}: two methods to add up its epsilon give different"
                    " results; start no run, and report this"
                )
    every = [
        cost
        for one in accounts(history)
        for run in one.runs
        for asked in (one.asked, one.asked.other)
        if run.reserved is not None
        for cost in run.reserved.cost.under(asked)
    ]
    for epsilon in {
        float(cost.pure_epsilon) for cost in every if cost is not None and cost.pure_epsilon
    }:
        # the total variation of two Gaussians m apart is at least that of an epsilon-DP exchange
        m = math.sqrt(pure_mu_squared(Fraction(epsilon)))
        if math.erfc(m / math.sqrt(8)) > 2 / (1 + math.exp(min(epsilon, 700))) + 1e-12:
            raise BudgetError(
                "two methods to compute the cost of Laplace noise give different results; start no"
                " run, and report this"
            )


def _found_again(spent: Spending, epsilon: float, delta: float) -> bool:
    """Return whether a second method confirms a guarantee. The method integrates the privacy loss
    or, with Laplace noise alone, adds up the epsilons of the rounds.

    spent : total cost.
    epsilon, delta : guarantee to confirm.
    """
    if math.isinf(epsilon) or (spent.is_pure and spent.pure_epsilon <= Fraction(epsilon)):
        return True
    releases = [GaussianRelease(spent.whole, Fraction(1))] if spent.whole else []
    found = Accountant(ADD).compose(releases).get_delta(epsilon) if epsilon > 0 else 0.0
    return found <= delta * (1 + 2**-30)


Counted = tuple[PlannedCost, Sequence[int] | Mapping[int, int]]
"""Cost of a run, and the indices of its rounds that are charged: a list of indices, or a mapping
from each index to the number of answers in that round.
"""


def counted_of(runs: Iterable[Run]) -> list[Counted]:
    """Return, for each of these runs, its cost and the indices of its rounds that now count as
    spent.
    """
    return [(run.reserved.cost, run.counted) for run in runs if run.reserved is not None]


def counted_on(history: History, dataset: str) -> list[Counted]:
    """Return, for each run on a data set, its cost and the rounds that now count as spent. Runs
    are in the order in which they began; equal runs that are counted together come last.
    """
    rest = [each for each in history.rest if each.dataset == same(dataset)]
    return [*counted_of(runs_on(history, dataset)), *map(_repeated, rest)]


def _repeated(runs: AnyRepeated) -> Counted:
    """Return the cost of one of several equal runs. Also return, for each round that is charged,
    the number of these runs.
    """
    cost = msgspec.structs.replace(runs.cost, distance=runs.times * runs.cost.distance)
    return cost, dict.fromkeys(runs.numbers, runs.times)


def whole(cost: PlannedCost) -> Counted:
    """Return this cost with the indices of all rounds. A run counts in this way while it is
    reserved, as if all its rounds were charged.
    """
    return cost, range(1, len(cost.costs) + 1)


def first_of(runs: Sequence[Counted], speaks_of: Neighbours | None) -> Spending:
    """Return the cost that the first of these runs reserved (`Account.first_run`). It is zero if
    there are no runs.

    speaks_of : neighbours for which the account adds up costs (unit and neighbouring relation).
        None stands for one record under the first run's own relation.
    """
    if not runs:
        return Spending()
    return Spending.of(
        [whole(runs[0][0])], speaks_of or Neighbours(runs[0][0].neighboring_relation)
    )


def records_of(runs: Iterable[Counted]) -> Neighbours:
    """Return the neighbours of a limit that names none: one record replaced if all runs protect a
    replaced record, otherwise one record added or removed.
    """
    return Neighbours(
        REPLACE if {cost.neighboring_relation for cost, _ in runs} == {REPLACE} else ADD
    )


def finite(limit: Limit | None) -> Limit | None:
    """Return the limit, or None if there is no limit or if its epsilon is infinite."""
    return None if limit is None or math.isinf(limit.epsilon) else limit


def _kept(
    history: History, runs: Sequence[Run], limited: Limited, spent: Spending, first_run: Spending
) -> tuple[Limit | None, Proviso | None]:
    """Return the limit in force before the first run, or None if there was none or a later limit
    was larger. Also return the reason why runs chosen from results may exceed that limit, or None.

    limited : data set (`names.same`) and neighbours of the account.
    spent : total cost of the runs.
    first_run : cost that the first run reserved.
    """
    if not runs:
        return None, None
    set_first, *later = history.limits_since_first_run.get(limited, (None,))
    if (first := finite(set_first)) is None:
        return None, Proviso.NO_LIMIT
    if any(
        limit is None or limit.epsilon > first.epsilon or limit.delta > first.delta
        for limit in later
    ):
        return None, Proviso.RAISED
    if any(run.is_taken_over for run in runs):
        return first, Proviso.TAKEN_OVER
    return first, None if spent.fits(first.epsilon, first.delta, first_run) else Proviso.EXCEEDED
