"""Sentences about the ledger that counts a run."""

import math

from fastlloyd.base.precision import delta_up, epsilon_up, rounded_up
from fastlloyd.cli.times import utc
from fastlloyd.federation.holder import Counted
from fastlloyd.federation.ledger import Account, finite
from fastlloyd.federation.store.events import seconds_now
from fastlloyd.jobs.account import Charged

NOT_COUNTED = "This run is not counted in a ledger; pass --dataset NAME to count it."


def remarks(charged: Charged, *, has_noise: bool) -> list[str]:
    """Say what the data set has spent with this run, and where it counts."""
    if charged.counted is None:
        return [NOT_COUNTED] if has_noise else []
    sums = [f"Data set {one.dataset!r}, all runs so far: {spent(one)}." for one in charged.accounts]
    return [*sums, counted(charged.counted)]


def counted(where: Counted) -> str:
    """Say in which ledger a run counts, since when it is kept, and when it is new."""
    if where.n_runs == 1:
        return f"Counted in the ledger {where.path}; this is its first run."
    days = (seconds_now() - where.began) // 86_400
    age = "today" if days < 1 else "1 day ago" if days == 1 else f"{days} days ago"
    return (
        f"Counted in the ledger {where.path}, which was begun {age} ({utc(where.began)}) and holds"
        f" {where.n_runs} runs."
    )


def spent(one: Account) -> str:
    """Say how much is spent, for which persons or records, and the limit."""
    limit = finite(one.limit)
    of = "there is no limit" if limit is None else f"the limit is {epsilon_up(limit.epsilon)}"
    if math.isinf(one.epsilon):
        return f"what is spent has no bound for {one.asked}; {of}"
    return (
        f"epsilon {rounded_up(one.epsilon)} is spent at delta {delta_up(one.delta)}, for"
        f" {one.asked}; {of}"
    )
