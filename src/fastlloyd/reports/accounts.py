"""Sentences about what runs spent on a data set, and what its limits leave."""

import math
from collections.abc import Sequence
from decimal import ROUND_FLOOR, Context
from typing import NamedTuple

from fastlloyd.base.precision import delta_down, delta_up, epsilon_up, rounded_up
from fastlloyd.federation.ledger import Account, Proviso, finite

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
        f"{proviso.value}, so the sum is valid only if no result influenced the number or the"
        " epsilon of later runs."
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
        "There is no limit"
        if limit is None
        else f"The limit is epsilon {epsilon_up(limit.epsilon)}"
    )
    return f"{said} {of}."
