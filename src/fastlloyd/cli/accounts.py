"""Show what runs spent on the data sets of a ledger: in a table, in sentences, and for programs."""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from fastlloyd.base.precision import delta_up, epsilon_up, rounded_up
from fastlloyd.cli import terminal
from fastlloyd.cli.terminal import Column, iso, utc
from fastlloyd.federation.holder import Counted
from fastlloyd.federation.ledger import Account, finite
from fastlloyd.federation.spending import Spending
from fastlloyd.federation.store.events import Event, Limit, Reservation, seconds_now
from fastlloyd.federation.store.history import Run
from fastlloyd.jobs.account import Charged
from fastlloyd.reports.accounts import at_delta, down, meaning, spent


def show(listed: Sequence[Account], title: str, delta: float | None, n_runs: int) -> None:
    """Print a table with a row for each account, and then sentences that explain each row.

    listed : accounts to show.
    title : title of the table.
    delta : delta at which epsilon is computed, or None for the delta of each limit.
    n_runs : number of runs that share the rest of a limit.
    """
    columns = [
        Column(heading="data set", cells=[one.dataset for one in listed], justify="left"),
        Column(
            heading="counted for",
            cells=[f"one {one.asked.unit or 'record'}" for one in listed],
            justify="left",
        ),
        Column(
            heading="runs",
            cells=[
                f"{one.n_runs}" + (f" ({one.n_open} open)" if one.n_open else "") for one in listed
            ],
        ),
        Column(
            heading="spent", cells=[_up(one.spent.epsilon(at_delta(one, delta))) for one in listed]
        ),
        Column(heading="at delta", cells=[delta_up(at_delta(one, delta)) for one in listed]),
        Column(heading="limit", cells=[_limit(finite(one.limit), delta) for one in listed]),
        Column(
            heading="left for one run" if n_runs == 1 else f"left for each of {n_runs} runs",
            cells=[
                "" if (left := one.left_for(n_runs, delta)) is None else down(left)
                for one in listed
            ],
        ),
    ]
    console = terminal.console()
    terminal.show(console, title, columns)
    names = [one.dataset for one in listed]
    for one in listed:
        whom = f", for {one.asked}" if names.count(one.dataset) > 1 else ""
        for sentence in meaning(one, delta):
            console.print(f"{one.dataset}{whom}: {sentence}", soft_wrap=True)


Dates = Mapping[bytes, int]
"""Time at which each run was reserved, UTC seconds since 1970, by its id."""


def dates_of(events: Sequence[Event], seconds: Sequence[int]) -> Dates:
    """Return the time of each run in a ledger or store, from its events and their times."""
    return {
        event.run_id: at
        for event, at in zip(events, seconds, strict=True)
        if isinstance(event, Reservation)
    }


def show_runs(listed: Sequence[Account], dates: Dates) -> None:
    """Print a table of the runs of a data set, in the order in which they began.

    listed : accounts of one data set, or an empty list.
    """
    runs = [run for one in listed[:1] for run in one.runs if run.reserved is not None]
    if not runs:
        return
    columns = [
        Column(
            heading="date",
            cells=[utc(dates[run.run_id]) if run.run_id in dates else "" for run in runs],
            justify="left",
        ),
        Column(heading="command", cells=[_command(run) or "" for run in runs], justify="left"),
        Column(heading="epsilon of the plan", cells=[_planned(run) for run in runs]),
        Column(
            heading="purpose",
            cells=["" if run.noted is None else run.noted.purpose for run in runs],
            justify="left",
        ),
    ]
    terminal.show(terminal.console(), f"runs on {listed[0].dataset}", columns)


def _planned(run: Run) -> str:
    return "" if run.reserved is None else epsilon_up(run.reserved.cost.epsilon)


def _command(run: Run) -> str | None:
    """Return the command or estimator of a run, or None if the ledger took the run over from a
    store.
    """
    if run.noted is not None:
        return run.noted.command
    return run.reserved.client if run.reserved is not None and run.is_charged_whole else None


def summary(
    one: Account, delta: float | None = None, n_runs: int = 1, dates: Dates = MappingProxyType({})
) -> dict[str, Any]:
    """Return the total that all runs on a data set spent, as values for JSON.

    one : account of the data set.
    delta : delta at which epsilon is computed, or None for the delta of the limit.
    n_runs : number of runs that share the rest of the limit.
    dates : time of each run, as `dates_of` returns it.
    """
    limit, first, at = one.limit, one.first_limit, at_delta(one, delta)
    whose = (
        {}
        if one.asked.unit is None
        else {"unit": one.asked.unit, "max_clients_per_person": one.asked.max_clients}
    )
    return {
        "data_set": one.dataset,
        **whose,
        "spent": {
            "epsilon": _finite(one.spent.epsilon(at)),
            "delta": at,
            "mu_squared": str(one.spent.mu_squared),
            "pure_epsilon": str(one.spent.pure_epsilon),
            "neighboring_relation": one.asked.relation.value if one.runs else None,
        },
        "spent_by_relation": {
            one.asked.relation.value: _spent(one.spent, at),
            one.asked.other.relation.value: _spent(one.otherwise, at),
        },
        "limit": _limit_summary(one, limit, delta, n_runs),
        "holds_whatever_runs_were_chosen_by": (
            {"epsilon": first.epsilon, "delta": first.delta}
            if first is not None and one.proviso is None
            else None
        ),
        "holds_if_runs_were_not_chosen_from_results": one.proviso.value if one.proviso else None,
        "runs": [_run_summary(run, dates) for run in one.runs],
    }


def _limit_summary(
    one: Account, limit: Limit | None, delta: float | None, n_runs: int
) -> dict[str, Any] | None:
    if limit is None or finite(limit) is None:
        return None
    named = (
        {} if limit.speaks_of is None else {"neighboring_relation": limit.speaks_of.relation.value}
    )
    each = {"runs": n_runs, "epsilon": one.left_for(n_runs, delta), "delta": at_delta(one, delta)}
    return {
        "epsilon": limit.epsilon,
        "delta": limit.delta,
        **named,
        "holds_all": one.is_within,
        "left_for_one_run": one.left_for(1, delta),
        "left_for_one_run_with_laplace_noise": one.left_pure,
        **({} if delta is None and n_runs == 1 else {"left_for_each": each}),
    }


def _run_summary(run: Run, dates: Dates) -> dict[str, Any]:
    if run.reserved is None:
        return {}
    return {
        "run_id": run.run_id.hex(),
        "date": iso(dates[run.run_id]) if run.run_id in dates else None,
        "command": _command(run),
        "purpose": (run.noted.purpose or None) if run.noted is not None else None,
        "files": _files(run),
        "plan_digest": run.reserved.plan_digest.hex(),
        "client": run.reserved.client,
        "epsilon": run.reserved.cost.epsilon,
        "delta": run.reserved.cost.delta,
        "exchanges": len(run.reserved.cost.costs),
        "charged": list(run.charged),
        "released": list(run.ended.released) if run.ended else [],
        "outcome": run.ended.outcome.value if run.ended else None,
        "reason": run.ended.reason if run.ended else None,
    }


def _files(run: Run) -> dict[str, Any] | None:
    """Return what the ledger noted about the files of a run, or None if it noted nothing."""
    if run.noted is None or run.noted.files is None:
        return None
    files = run.noted.files
    return {
        "path": files.path,
        "files": files.n_files,
        "bytes": files.size,
        "changed_ns": files.changed,
        "inode": files.inode or None,
        "device": files.device or None,
    }


def _spent(spending: Spending, delta: float) -> dict[str, Any]:
    return {
        "epsilon": _finite(spending.epsilon(delta)),
        "mu_squared": str(spending.mu_squared),
        "pure_epsilon": str(spending.pure_epsilon),
        "exchanges_without_bound": spending.n_unknown,
    }


def _finite(epsilon: float) -> float | None:
    return epsilon if math.isfinite(epsilon) else None


def _limit(limit: Limit | None, delta: float | None) -> str:
    if limit is None:
        return "none"
    return epsilon_up(limit.epsilon) + (
        "" if delta in (None, limit.delta) else f" at {delta_up(limit.delta)}"
    )


def _up(epsilon: float) -> str:
    return rounded_up(epsilon) if math.isfinite(epsilon) else "no bound"


NOT_COUNTED = (
    "This run is not counted in a ledger; to count the next one, pass --dataset NAME, the first"
    " time with --new-dataset."
)


def remarks(charged: Charged, *, has_noise: bool) -> list[str]:
    """Return sentences about the ledger, and about the total that all runs on the data set spent,
    including this run.

    has_noise : whether the run has noise. A run without noise is never counted.
    """
    if charged.counted is None:
        return [NOT_COUNTED] if has_noise else []
    return [*map(spent, charged.accounts), counted(charged.counted)]


def counted(where: Counted) -> str:
    """Return a sentence that names the ledger which counts a run, with the ledger's age and number
    of runs.
    """
    if where.n_runs == 1:
        return f"Counted in the ledger {where.path}; this is its first run."
    days = (seconds_now() - where.began) // 86_400
    age = "today" if days < 1 else "1 day ago" if days == 1 else f"{days} days ago"
    return (
        f"Counted in the ledger {where.path}, which began {age} ({utc(where.began)}) and has"
        f" {where.n_runs} runs."
    )
