"""Admission of one more run on a data set. The run must fit the limits, and the name of the data
set must not be mistyped.

`check` is the filter of docs/proofs/ledger.md, applied to each limit on the data set; a run must
pass all of them. Neighbouring relation: the one that the limit names (`ledger.Account.asked`).
"""

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec

from fastlloyd.base.names import (
    NAME,
    NAME_RULE,
    is_plural,
    listing,
    nearest_name,
    unknown_name,
)
from fastlloyd.base.precision import delta_up, epsilon_up, rounded_up
from fastlloyd.dp.neighboring import Neighbours
from fastlloyd.errors import BEGUN, BudgetError, StateError
from fastlloyd.federation.ledger import (
    Account,
    Counted,
    account,
    counted_on,
    finite,
    first_of,
    is_used,
    known_datasets,
    plan_cost,
    records_of,
    sums_on,
    whole,
)
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.spending import Spending
from fastlloyd.federation.store.costs import PersonRunCost, PlannedCost
from fastlloyd.federation.store.events import (
    Limit,
    PersonRunReserved,
    Role,
    RunCharged,
    RunReserved,
)
from fastlloyd.federation.store.history import History


class DataSet(msgspec.Struct, frozen=True, kw_only=True):
    """Data set that a run is charged to, as the records' owner names it.

    name : name of the data set.
    rows_are : name of the unit (such as patient) if each record is a different person, or None if
        not stated.
    is_new : whether the owner confirms that no run on these records was counted before.
    is_new_unit : whether the owner confirms that no earlier run on the data set protected persons
        of this unit.

    Raises BudgetError for an invalid name.
    """

    name: str
    rows_are: str | None = None
    is_new: bool = False
    is_new_unit: bool = False

    def __post_init__(self) -> None:
        check_dataset(self.name)
        # msgspec does not accept NumPy's type of text
        msgspec.structs.force_setattr(self, "name", str(self.name))
        if self.rows_are is not None:
            check_unit_name(self.rows_are)


def new_run_id(stated: bytes | None, history: Callable[[], History]) -> bytes:
    """Return the id of a run, 16 bytes: the stated id, or a new id if the stated one is None.

    history : function that returns the history of the ledger with all its runs. An opened ledger
        lists only its latest runs, and has earlier runs only as a sum.

    Raises StateError if the ledger has a run with the stated id.
    """
    if stated is None:
        return os.urandom(16)
    check_new_run(stated, history())
    return stated


def check_new_run(run_id: bytes, history: History) -> None:
    """Raise StateError if the ledger has a run with this id."""
    if run_id in history.runs:
        raise StateError(
            f"run {run_id.hex()} is in the ledger already, so it is not begun again; this time"
            " nothing was spent",
            code=BEGUN,
        )


def check_name(dataset: DataSet, ledger: History, where: str) -> None:
    """Raise BudgetError if the ledger does not contain the data set, unless the owner says that the
    data set is new. If the owner says so, raise BudgetError if the ledger has runs or a limit on
    it.

    With a mistyped name, there would be no limit and no earlier runs.

    ledger : history of the ledger.
    where : name of the ledger, for error messages.
    """
    known = known_datasets(ledger)
    is_known = ledger.called(dataset.name) in known
    if dataset.is_new and is_used(ledger, dataset.name):
        raise BudgetError(
            f"data set {ledger.called(dataset.name)!r} is not new: {where} has runs on it, or a"
            " limit; leave out --new-dataset (in Python, new=True)"
        )
    if not dataset.is_new and not is_known:
        there = f"; the known names are {listing(known)}" if known else ""
        raise BudgetError(
            f"data set {dataset.name!r} is unknown in"
            f" {where}{nearest_name(dataset.name, known)}{there}: correct the name, bring back the"
            " newest copy of the ledger or, if no run on these records was ever counted, pass"
            f" --new-dataset (in Python, with fastlloyd.dataset({dataset.name!r}, new=True))"
        )


def check_unit(dataset: DataSet, cost: PlannedCost, *histories: History) -> None:
    """Raise BudgetError if the run protects persons of a unit that is not among the known units of
    the data set. If the owner says that the unit is new, or no unit is known, do nothing.

    histories : histories in which units may be known.
    """
    if isinstance(cost, PersonRunCost) and not dataset.is_new_unit:
        check_known_unit(dataset.name, cost.unit, "--unit-name (in Python, unit=...)", *histories)


def check_known_unit(dataset: str, unit: str, option: str, *histories: History) -> None:
    """Raise BudgetError if earlier runs or limits on the data set are for persons of known units,
    and this unit is not among them. Without a known unit, do nothing.

    If a mistyped unit were accepted, none of the earlier runs would count for it.

    option : words that name the option for the unit, for the error message.
    histories : histories in which units may be known.
    """
    units = sorted({known for history in histories for known in _units_of(history, dataset)})
    if units and unit not in units:
        known_as = unknown_name(unit, units)
        raise BudgetError(
            f"unit {known_as}: correct the name, {option}, or pass --new-unit to count another"
            " kind of person"
        )


def _units_of(history: History, dataset: str) -> set[str]:
    """Return the names of the units that appear in the limits and runs on a data set."""
    costs = [cost for cost, _ in counted_on(history, dataset)]
    limited = {
        each.unit
        for each in history.limits_on(dataset)
        if each is not None and each.unit is not None
    }
    return limited | {cost.unit for cost in costs if isinstance(cost, PersonRunCost)}


def check(history: History, dataset: str, *costs: PlannedCost) -> None:
    """Raise BudgetError if runs of these costs would exceed a limit of the data set. Earlier runs
    count with what they have reserved or spent.
    """
    for refusal in refusals(history, dataset, *costs):
        raise BudgetError(refusal)


def refusals(history: History, dataset: str, *costs: PlannedCost) -> Iterator[str]:
    """Yield the message of each limit of the data set that runs of these costs would exceed."""
    everything = [*counted_on(history, dataset), *map(whole, costs)]
    for speaks_of in history.limits_on(dataset):
        before = account(history, dataset, speaks_of=speaks_of)
        after = _together(everything, speaks_of)
        for limit in map(finite, (before.limit, before.first_limit)):
            if limit is not None and not after.fits(
                limit.epsilon, limit.delta, first_of(everything, speaks_of)
            ):
                yield _refusal(before, limit, after, costs)
                break


def _together(runs: list[Counted], speaks_of: Neighbours | None) -> Spending:
    return Spending.of(runs, speaks_of or records_of(runs))


def _refusal(before: Account, limit: Limit, after: Spending, costs: Sequence[PlannedCost]) -> str:
    """Return the message that refuses a run: the reason, and what the owner can do.

    before : account of the data set without the run.
    limit : limit that the run would exceed.
    after : total cost with the run.
    costs : costs of the run.
    """
    speaks_of = limit.speaks_of
    whom = "" if speaks_of is None else f" for {speaks_of}"
    most = f"epsilon {epsilon_up(limit.epsilon)} at delta {delta_up(limit.delta)}"
    told = f"data set {before.dataset!r} has the limit {most}{whom}"
    asked = speaks_of or before.asked
    if after.n_unknown and asked.unit:
        if not any(None in cost.under(asked) for cost in costs):
            return (
                f"{told}, but an earlier run did not protect every {asked.unit} as a whole, so its"
                f" cost for one {asked.unit} has no bound and no further run is allowed; lift the"
                f" limit with {_lifting(limit, asked)}"
            )
        return (
            f"{told}, but this run does not protect every {asked.unit} as a whole, so its cost for"
            f" one {asked.unit} has no bound; protect all records of a {asked.unit} together, or,"
            f" if each record is a different {asked.unit}, pass --rows-are {asked.unit} (in"
            f" Python, fastlloyd.dataset(..., rows_are={asked.unit!r}))"
        )
    alone = _together([*map(whole, costs)], speaks_of or (before.asked if before.runs else None))
    if limit.delta == 0 and not after.is_pure:
        return (
            f"{told}, and an earlier run with Gaussian noise has no finite epsilon at delta 0; set"
            " a limit at a larger delta with `fastlloyd ledger limit`"
            if alone.is_pure
            else f"{told}, and this run with Gaussian noise has no finite epsilon at delta 0; plan"
            " all runs with Laplace noise (sulloyd), or set a limit at a larger delta with"
            " `fastlloyd ledger limit`"
        )
    spent, needed, together = (
        rounded_up(each.epsilon(limit.delta)) for each in (before.spent, alone, after)
    )
    said = (
        f"{told}. All runs so far spent or reserved epsilon {spent}, this run needs {needed}, and"
        f" the sum would be {together}: plan a run that costs less. A limit that you raise now with"
        " `fastlloyd ledger limit` gives no guarantee for runs that were planned after seeing"
        " results"
    )
    if after.epsilon(limit.delta) <= limit.epsilon:
        said += (
            ". About a millionth of the limit's delta is set aside for the noise that clients add"
            " in shares"
        )
    return said


def _lifting(limit: Limit, asked: Neighbours) -> str:
    """Return the command that lifts a limit for persons."""
    said = f"fastlloyd ledger limit --dataset {limit.dataset} --unit {asked.unit}"
    said += "" if asked.max_clients == 1 else f" --max-clients-per-person {asked.max_clients}"
    said += "" if asked.adds else f" --neighboring-relation {asked.relation.value}"
    return f"{said} --epsilon inf --delta {delta_up(limit.delta)}"


def check_dataset(dataset: object) -> None:
    """Raise BudgetError unless `dataset` is a valid name of a data set."""
    if not (isinstance(dataset, str) and NAME.fullmatch(dataset)):
        raise BudgetError(f"dataset is {dataset!r:.80}; expected {NAME_RULE}")


def check_unit_name(unit: object) -> None:
    """Raise BudgetError unless `unit` is a valid name of a unit."""
    if not isinstance(unit, str) or not NAME.fullmatch(unit):
        raise BudgetError(f"the name of the unit is {unit!r:.80}; expected a word such as patient")
    if is_plural(unit):
        raise BudgetError(
            f"the name of the unit is {unit!r:.80}; expected the singular, such as patient"
        )


CAP_LEAK: Final = "the number of records was taken from the data"
"""Sentence about a cap that was taken from the data. Replacing a record does not change the number
of records, but adding one does. A later run on the data set may protect an added record, so the
cap is a leak under both relations.
"""


def check_leaks(dataset: str, leaks: Sequence[str]) -> None:
    """Raise BudgetError if settings were taken from the data.

    leaks : a sentence for each such setting.
    """
    if leaks:
        raise BudgetError(
            f"{'; '.join(leaks)}: the ledger of data set {dataset!r} cannot count such a run; pass"
            " public values, or pass no data set"
        )


def check_known(history: History, dataset: str, *, new: bool) -> None:
    """Raise BudgetError if the data set is unknown and not said to be new, or if it is said to be
    new and has a run or limit.

    A mistyped name would make a new data set.
    """
    known, called = known_datasets(history), history.called(dataset)
    if new and is_used(history, dataset):
        raise BudgetError(
            f"data set {called!r} is not new: it has a run or a limit; leave --new out to set"
            " another limit"
        )
    if not new and called not in known:
        raise BudgetError(
            f"data set {unknown_name(dataset, known)}: correct the name, or pass --new to set a"
            " limit before its first run"
            if known
            else f"data set {dataset!r} is unknown, and the ledger has no data sets yet; pass --new"
            " to set a limit before its first run"
        )


def reservation_of(
    cost: PlannedCost,
    *,
    run_id: bytes,
    digest: bytes,
    client: str,
    dataset: str,
) -> RunReserved | PersonRunReserved:
    """Return the event that reserves a run of this cost.

    run_id : id of the run, 16 bytes.
    digest : digest of the plan or mechanism, 32 bytes.
    client : name of the client, or of the command that runs a mechanism.
    dataset : name of the data set.
    """
    kind: Any = PersonRunReserved if isinstance(cost, PersonRunCost) else RunReserved
    event: RunReserved | PersonRunReserved = kind(
        run_id=run_id,
        plan_digest=digest,
        client=client,
        dataset=dataset,
        cost=cost,
    )
    return event


def followed_by_run(history: History, cost: PlannedCost, by: str, dataset: str) -> History:
    """Return the history as it would be after one more run of this cost. Nothing is stored.

    by : name of the client, or of the command that runs a mechanism.
    """
    run_id = bytes(16)
    reserved = reservation_of(
        cost, run_id=run_id, digest=bytes(32), client=by, dataset=history.called(dataset)
    )
    charged = [RunCharged(run_id=run_id)] if history.role is Role.HOLDER else []
    return history.followed_by([reserved, *charged])


def before_and_after(now: History, after: History, dataset: str) -> list[tuple[Account, Account]]:
    """Return each account of a data set twice: in the history `now`, and in `after`."""
    return [
        (account(now, dataset, each), account(after, dataset, each))
        for each in sums_on(after, dataset)
    ]


def reserve(
    history: History,
    plan: Plan,
    *,
    client: str,
    dataset: str,
    rows_are: str | None = None,
) -> RunReserved | PersonRunReserved:
    """Return the event that reserves a whole federated run on a data set. Nothing is stored.

    rows_are : as in `ledger.run_cost`.

    Raises BudgetError if the run would exceed a limit.
    """
    cost = plan_cost(plan, rows_are)
    check(history, dataset, cost)
    return reservation_of(
        cost,
        run_id=bytes.fromhex(plan.run_id),
        digest=plan.digest,
        client=client,
        dataset=dataset,
    )


def check_joining(ledger: History, client: History, dataset: DataSet, cost: PlannedCost) -> None:
    """Raise BudgetError if the ledger would refuse a run that a client is about to join.

    client : history of the client's store.
    """
    check_unit(dataset, cost, ledger, client)
    check(ledger, dataset.name, cost)
