"""Rehearse `join`, and show the findings as text or as JSON.

The exact numbers are for the owner of the records: they go to stdout alone, and into no log.
"""

import math
from typing import Any

import typer

from fastlloyd.base.precision import delta_up, epsilon_up
from fastlloyd.cli import network, screen, terminal
from fastlloyd.cli.client_progress import ClientProgress, of_passes
from fastlloyd.cli.hosting import Hosting
from fastlloyd.federation.ledger import Account, finite
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.traffic import traffic, upload_bytes
from fastlloyd.jobs import rehearsal
from fastlloyd.jobs.client import ClientRequest, PreparedClient, pass_seconds_to_ask_for
from fastlloyd.jobs.live import LiveFile
from fastlloyd.jobs.rehearsal import Contribution, Rehearsal
from fastlloyd.reports.accounts import balance
from fastlloyd.reports.facts import said
from fastlloyd.reports.plan_facts import seen_of_a_client

EXACT = "exact numbers, for the owner of the records alone: do not send them or keep them in a log"


def rehearse(
    client: PreparedClient, hosting: Hosting, server: str | None, *, as_json: bool
) -> None:
    """Check records, ledger and store as a run would, and print what would be contributed. It sends
    and writes nothing.

    server : address of the server, or None for the address in the plan.
    """
    request = client.request
    plan, name = request.plan, request.member.name
    hosting.server(as_json=as_json)
    progress = ClientProgress(plan, name, LiveFile(None), as_json=as_json, is_rehearsal=True)
    with network.logging_to_stderr(as_json=as_json), client.source.working(progress.watch):
        found = rehearsal.rehearse(client, progress.watch, progress.drive)
    show = print_ready if as_json else say_ready
    show(request, plan.server.address if server is None else server, found)


def print_ready(request: ClientRequest, address: str, found: Rehearsal) -> None:
    """Print the findings of a rehearsal as JSON.

    address : address of the server.
    """
    plan, limits, client = request.plan, found.limits, request.member.name
    m, whole = plan.mechanism, traffic(plan, client)
    ready = {
        "ready": True,
        "run_id": plan.run_id,
        "plan_digest": plan.digest.hex(),
        "client": client,
        "server": address,
        "contribution": _contribution(plan, found.contribution),
        "cost": {"epsilon": m.epsilon, "delta": m.delta},
        "data_set": request.account.dataset.name,
        "ledger": str(request.account.holder(lambda _: None).path),
        "accounts": [_account(before, after) for before, after in found.accounts],
        "bytes": {
            "sent": whole.sent,
            "received": whole.received,
            "uploads": list(upload_bytes(plan)),
        },
        "seen_by_others": [
            {"code": fact.name, "sentence": sentence}
            for fact, sentence in zip(
                seen_of_a_client(plan), said(seen_of_a_client(plan), m.unit), strict=True
            )
        ],
        "limit": {"epsilon": limits[0].epsilon, "delta": limits[0].delta} if limits else None,
        "pass_seconds": found.seconds,
        "longest_pass": plan.timeouts.longest_pass,
        "ask_for_pass_seconds": pass_seconds_to_ask_for(plan, found.seconds),
    }
    terminal.print_json(ready)


def _contribution(plan: Plan, exact: Contribution) -> dict[str, Any]:
    unit, clipped = plan.mechanism.unit, exact.clipped
    counts = clipped.counts or (0,) * plan.mechanism.n_features
    return {
        "note": EXACT,
        "unit": unit.one,
        "number": exact.n,
        "rows": clipped.n_records,
        "left_out": exact.dropped,
        "rows_clipped": clipped.n_outside,
        "clipped": dict(zip(plan.mechanism.domain.features, counts, strict=True)),
        "filled": None if exact.filled is None else dict(exact.filled),
    }


def _account(before: Account, after: Account) -> dict[str, Any]:
    limit, delta = finite(after.limit), after.delta
    return {
        "unit": after.asked.unit or "record",
        "neighboring_relation": after.asked.relation.value,
        "delta": delta,
        "epsilon_before": _finite(before.spent.epsilon(delta)),
        "epsilon_after": _finite(after.spent.epsilon(delta)),
        "limit": None if limit is None else {"epsilon": limit.epsilon, "delta": limit.delta},
        "left_after": after.left,
        "sentence": balance(before, after),
    }


def _finite(epsilon: float) -> float | None:
    return epsilon if math.isfinite(epsilon) else None


def say_ready(request: ClientRequest, address: str, found: Rehearsal) -> None:
    """Print the findings of a rehearsal for people.

    address : address of the server.
    """
    plan, console = request.plan, terminal.console()
    m, exact = plan.mechanism, found.contribution
    typer.echo(
        f"Everything is ready for run {plan.run_id}: records, bounds, cap and budget fit the plan."
        " Nothing was sent, charged or written."
    )
    rows = {
        m.unit.many: f"{exact.n}",
        "rows": f"{exact.clipped.n_records}, and {exact.dropped} left out for missing cells",
        "clipped": _clipped(plan, exact),
        "filled in": _filled(exact),
    }
    terminal.show_values(console, f"You would contribute ({EXACT})", rows)
    owner = screen.OwnersScreen(as_json=False, say=typer.echo)
    owner.often_clipped(exact.clipped, m.domain.features)
    terminal.show_values(console, "What it would cost and send", _cost(request, address, found))
    for sentence in said(seen_of_a_client(plan), m.unit):
        typer.echo(f"{sentence[0].upper()}{sentence[1:].removesuffix('.')}.")
    typer.echo(of_passes(plan, found.seconds))
    _say_limits(request.account.dataset.name, found)


def _clipped(plan: Plan, exact: Contribution) -> str:
    clipped = exact.clipped
    if not clipped.n_outside:
        return "no value"
    features = zip(plan.mechanism.domain.features, clipped.counts, strict=True)
    each = [f"{name}: {n} ({n / clipped.n_records:.1%})" for name, n in features if n]
    return "\n".join([f"values of {clipped.n_outside} rows", *each])


def _filled(exact: Contribution) -> str:
    if exact.filled is None:
        return "not counted, because an engine reads the records, or they can be read only once"
    return "\n".join(f"{name}: {n}" for name, n in exact.filled.items() if n) or "no value"


def _cost(request: ClientRequest, address: str, found: Rehearsal) -> dict[str, str]:
    plan, account = request.plan, request.account
    m, whole = plan.mechanism, traffic(plan, request.member.name)
    uploads = upload_bytes(plan)
    least, most = min(uploads), max(uploads)
    each = f"{most}" if least == most else f"{least} to {most}"
    return {
        "cost": f"epsilon {epsilon_up(m.epsilon)} at delta {delta_up(m.delta)}",
        "ledger": f"{account.holder(lambda _: None).path}, data set {account.dataset.name!r}",
        "spent": "\n".join(balance(*each) for each in found.accounts),
        "server": address,
        "bytes sent": f"{whole.sent} in all, {each} in each of {len(uploads)} uploads",
        "bytes received": f"{whole.received}",
    }


def _say_limits(dataset: str, found: Rehearsal) -> None:
    """Print that the run fits the limits of the data set, and the neighbours without a limit."""
    if found.limits:
        typer.echo(f"The run fits every limit of data set {dataset!r}.")
    for _, after in found.accounts:
        if finite(after.limit) is None:
            unit = f" --unit {after.asked.unit}" if after.asked.unit else ""
            typer.echo(
                f"Data set {dataset!r} has no limit for {after.asked}. To set one before the run:"
                f" fastlloyd ledger limit{unit}"
            )
