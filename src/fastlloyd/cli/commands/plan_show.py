"""Command `fastlloyd plan show`: print a plan as a table for people, or as JSON for programs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fastlloyd.cli.options import in_output
from fastlloyd.cli.terminal import print_json

if TYPE_CHECKING:
    from fastlloyd.federation.plan.plan import Plan


PlanFile = Annotated[Path, typer.Argument(help="A plan.", metavar="PLAN", show_default=False)]


Json = Annotated[bool, in_output("--json", help="Print the plan as JSON.")]


def show(file: PlanFile, json: Json = False) -> None:
    """Show the contents of a plan in a table."""
    from fastlloyd.cli import screen, terminal
    from fastlloyd.cli.settings import read_plan
    from fastlloyd.reports.facts import said
    from fastlloyd.reports.plan_facts import plan_cautions
    from fastlloyd.reports.plan_table import rows

    plan = read_plan(file)
    if json:
        print_json(_for_machines(plan))
        return
    screen.warn(said(plan_cautions(plan), plan.mechanism.unit))
    terminal.show_values(terminal.console(), f"{file}", rows(plan))


def _for_machines(plan: "Plan") -> dict[str, Any]:
    from msgspec import structs

    from fastlloyd.reports.plan_table import timeouts

    m, issuer, facts = plan.mechanism, plan.issuer, plan.mechanism.facts()
    return {
        "digest": plan.digest.hex(),
        "run_id": plan.run_id,
        "algorithm": m.name,
        "n_clusters": facts.get("n_clusters"),
        "features": list(m.domain.features),
        "epsilon": m.epsilon,
        "delta": m.delta,
        "neighboring_relation": m.neighboring_relation.value,
        "n_iterations": facts.get("n_iterations"),
        "n_rounds": len(m.rounds),
        "n_records": m.n_records,
        **({} if m.persons is None else {"persons": structs.asdict(m.persons)}),
        "trust": plan.trust.value,
        "masks": plan.masks.value,
        "host": plan.host,
        "max_dropouts": plan.max_dropouts,
        "max_colluding": plan.max_colluding,
        **_parties(plan),
        "timeouts": timeouts(plan),
        "study": plan.study.texts if plan.study else None,
        "authority": (
            {
                "name": issuer.name,
                "fingerprint": issuer.fingerprint,
                "expires": issuer.ends.date().isoformat(),
            }
            if issuer
            else None
        ),
        "lacking": plan.lacking or None,
    }


def _parties(plan: "Plan") -> dict[str, Any]:
    """Return the server and the clients, for the JSON output."""
    expires = {
        certificate.name: certificate.expires.isoformat() for certificate in plan.certificates()
    }
    return {
        "server": {
            "name": plan.server.name,
            "address": plan.server.address or None,
            "fingerprint": plan.server.fingerprint or None,
            "expires": expires.get(plan.server.name) if plan.server.certificate else None,
        },
        "clients": [
            {
                "name": client.name,
                "max_records": client.max_records,
                "signing_key": client.signing_key or None,
                "fingerprint": client.fingerprint or None,
                "expires": expires.get(client.name) if client.certificate else None,
                "store_events": client.store.length if client.store else None,
            }
            for client in plan.clients
        ],
    }
