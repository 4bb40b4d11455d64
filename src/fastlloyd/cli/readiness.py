"""Show the findings of a rehearsal of `join`, for people and as JSON."""

import typer

from fastlloyd.base.precision import delta_up, epsilon_up
from fastlloyd.cli import terminal
from fastlloyd.cli.client_progress import of_passes
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.store.events import Limit
from fastlloyd.jobs.client import Rehearsal, pass_seconds_to_ask_for


def print_ready(plan: Plan, client: str, address: str, found: Rehearsal) -> None:
    """Print the findings of a rehearsal as JSON."""
    limits = found.limits
    ready = {
        "ready": True,
        "run_id": plan.run_id,
        "client": client,
        "server": address,
        "limit": {"epsilon": limits[0].epsilon, "delta": limits[0].delta} if limits else None,
        "pass_seconds": found.seconds,
        "longest_pass": plan.timeouts.longest_pass,
        "ask_for_pass_seconds": pass_seconds_to_ask_for(plan, found.seconds),
    }
    terminal.print_json(ready)


def say_ready(plan: Plan, address: str, found: Rehearsal) -> None:
    """Print that everything is ready, and how long one pass over the records took."""
    typer.echo(
        f"Everything is ready for run {plan.run_id}: records, bounds, cap, budget and certificate"
        f" fit the plan, and the server at {address} serves it. Nothing was spent."
    )
    typer.echo(of_passes(plan, found.seconds))


def say_limits(dataset: str, limits: list[Limit]) -> None:
    """Print that the run fits the limits of the data set, or that the data set has no limit."""
    for limit in limits:
        persons = "" if limit.speaks_of is None else f" for {limit.speaks_of}"
        typer.echo(
            f"Data set {dataset!r} has the limit epsilon {epsilon_up(limit.epsilon)} at delta"
            f" {delta_up(limit.delta)}{persons}; the run fits."
        )
    if not limits:
        typer.echo(
            f"Data set {dataset!r} has no limit. To set one before the run: fastlloyd ledger limit"
        )
