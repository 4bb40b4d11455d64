"""Sentences about what runs spent on a data set, and what its limits leave."""

import math
from collections.abc import Iterator, Sequence
from decimal import ROUND_FLOOR, Context
from typing import NamedTuple

from fastlloyd.base.names import listing, unknown_name
from fastlloyd.base.precision import delta_down, delta_up, epsilon_up, rounded_up
from fastlloyd.errors import BudgetError
from fastlloyd.federation import admission
from fastlloyd.federation.ledger import (
    Account,
    Proviso,
    account,
    finite,
    known_datasets,
    plan_cost,
)
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.store.costs import PlannedCost
from fastlloyd.federation.store.events import Role
from fastlloyd.federation.store.history import History

SEVERAL = 10  # number of runs for which a sentence also says what each may spend


class LedgerTotal(NamedTuple):
    """Accounts of the data set of a result, from the ledger of the data set's owner. They say what
    all runs on it spent.

    accounts : accounts of the data set, one for each kind of neighbours.
    day : day of the ledger's last event, as YYYY-MM-DD in UTC.
    """

    accounts: Sequence[Account]
    day: str


def meaning(one: Account, delta: float | None = None) -> list[str]:
    """Return sentences that explain an account: the total that runs on its data set spent.

    one : account of the data set.
    delta : delta at which epsilon is computed, or None for the delta of the limit.
    """
    at = at_delta(one, delta)
    said = []
    if one.runs:
        other = one.otherwise.epsilon(at)
        said.append(
            f"the epsilon spent is for {one.asked}; for {one.asked.other}, it is"
            f" {rounded_up(other)}."
            if math.isfinite(other)
            else f"the epsilon spent is for {one.asked}; for {one.asked.other}, no bound is known."
        )
        if one.asked.unit is not None and one.spent.n_unknown:
            said.append(
                f"no bound is known, because a run did not protect every {one.asked.unit} as a"
                " whole."
            )
    if at == 0 and not one.spent.is_pure and not one.spent.n_unknown:
        said.append(
            "a run with Gaussian noise has no finite epsilon at delta 0; to see its epsilon, pass"
            " a larger --delta."
        )
    first = one.first_limit
    if one.proviso is not None:
        said.append(condition(one.proviso))
    elif first is not None:
        said.append(
            f"all runs together stay within epsilon {epsilon_up(first.epsilon)} at delta"
            f" {delta_up(first.delta)}, however they were chosen: that limit was set before the"
            " first run."
        )
        said += _now(one)
    return [*said, *_left(one, delta)]


def _now(one: Account) -> list[str]:
    """Return a list with a sentence that states the current limit. The list is empty if there is no
    limit, or if the limit has never changed.
    """
    limit, first = finite(one.limit), one.first_limit
    if (
        limit is None
        or first is None
        or (limit.epsilon, limit.delta) == (first.epsilon, first.delta)
    ):
        return []
    return [
        f"the limit is now epsilon {epsilon_up(limit.epsilon)} at delta {delta_up(limit.delta)}."
    ]


def _left(one: Account, delta: float | None) -> list[str]:
    """Return sentences about the part of the limit that is left. The list is empty if there is no
    limit.
    """
    if finite(one.limit) is None:
        return []
    if not one.is_within:
        return ["more is spent than the limit allows; no further run is allowed."]
    said, left, each = [], one.left_for(1, delta) or 0, one.left_for(SEVERAL, delta) or 0
    if left:
        law = "Laplace" if at_delta(one, delta) == 0 else "Gaussian"
        said.append(
            f"one more run with {law} noise may have epsilon {down(left)} at delta"
            f" {delta_down(at_delta(one, delta))}, or {SEVERAL} more runs may"
            f" have epsilon {down(each)} each."
        )
    if (one.left_pure or 0) > left:
        said.append(
            f"one more run may have epsilon {down(one.left_pure or 0)} if it adds only Laplace"
            " noise."
        )
    return said


def condition(proviso: Proviso) -> str:
    """Return a sentence with the condition under which a total is valid."""
    return (
        f"{proviso.value}, so the sum holds only if the number of runs, and the epsilon of"
        " each, were planned before a result was seen."
    )


def at_delta(one: Account, delta: float | None) -> float:
    """Return `delta`. If it is None, return the delta of the account's limit."""
    return one.delta if delta is None else delta


def down(value: float) -> str:
    """Return a number as text for readers, rounded down to four significant digits."""
    return f"{float(Context(prec=4, rounding=ROUND_FLOOR).create_decimal_from_float(value)):.4g}"


def spent(one: Account) -> str:
    """Return sentences about the epsilon that all runs on the data set spent, and about the
    limit.
    """
    limit = finite(one.limit)
    said = (
        f"Together, all runs so far on data set {one.dataset!r} have no finite epsilon for"
        f" {one.asked}."
        if math.isinf(one.epsilon)
        else f"All runs so far on data set {one.dataset!r} spent epsilon {rounded_up(one.epsilon)}"
        f" at delta {delta_up(one.delta)}, for {one.asked}."
    )
    of = (
        f"There is no limit for {one.asked}"
        if limit is None
        else f"The limit is epsilon {epsilon_up(limit.epsilon)}"
    )
    return f"{said} {of}."


def balance(before: Account, after: Account) -> str:
    """Return sentences about an account before and after a run, and about its limit. If the account
    counts no further run, the sentences say what was spent so far.
    """
    delta, limit = after.delta, finite(after.limit)
    first, then = (_finite(each.spent.epsilon(delta)) for each in (before, after))
    is_same = len(before.runs) == len(after.runs)
    said = f"For {after.asked}: epsilon {first} " + (
        "so far" if is_same else f"before this run, {then} after it"
    )
    said += f", at delta {delta_up(delta)}."
    if limit is None:
        return f"{said} There is no limit for {after.asked}."
    said += f" The limit is epsilon {epsilon_up(limit.epsilon)} at delta {delta_up(limit.delta)}"
    if not after.is_within or after.left is None:
        return f"{said}."
    later = "" if is_same else " after it"
    return f"{said}; epsilon {down(after.left)} is left for one more run{later}."


def _finite(epsilon: float) -> str:
    return rounded_up(epsilon) if math.isfinite(epsilon) else "without a bound"


def outlook(history: History, dataset: str, plan: Plan) -> str:
    """Return lines for the owner of a data set: each of its accounts, with its limit, before and
    after the run of a plan, and each refusal with which `join` would answer.

    history : history of the owner's ledger, or of a client's store.
    """
    cost, called = plan_cost(plan), history.called(dataset)
    known, by = known_datasets(history), "ledger" if history.role is Role.HOLDER else "store"
    counted = {
        history.called(run.reserved.dataset)
        for run in history.runs.values()
        if run.reserved and run.reserved.plan_digest == plan.digest and not run.may_begin_again
    }
    n = account(history, called).n_runs
    said = f"According to this {by}, data set {called!r} has {n} run{'' if n == 1 else 's'}."
    if called in counted:
        said += " The run of this plan is among them."
    elif counted:
        said += f" The run of this plan is counted on {listing(sorted(counted))}."
    after, refused = history, list[str]()
    if not counted:
        after = admission.followed_by_run(history, cost, "join", called)
        refused = [*_unknown_unit(history, called, cost)]
        refused += admission.refusals(history, called, cost)
    return "\n".join(
        [
            *_unknown(history, called, known),
            said,
            *(balance(*each) for each in admission.before_and_after(history, after, called)),
            *(f"`join` will refuse the plan: {why}." for why in refused),
        ]
    )


def _unknown(history: History, dataset: str, known: Sequence[str]) -> Iterator[str]:
    """Yield a sentence if the data set is not among the known ones. A new store knows none yet."""
    if dataset in known:
        return
    said = f"Data set {unknown_name(dataset, known) if known else f'{dataset!r} is unknown'}"
    if history.role is Role.HOLDER:
        yield f"{said}; `join` refuses it without --new-dataset."
    elif known:
        yield f"{said}."


def _unknown_unit(history: History, dataset: str, cost: PlannedCost) -> Iterator[str]:
    """Yield the refusal of a unit that the data set does not know."""
    try:
        admission.check_unit(admission.DataSet(name=dataset), cost, history)
    except BudgetError as error:
        yield str(error)
