"""`fastlloyd plan show`: a plan as a table for people and as JSON for programs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fastlloyd.base.precision import delta_up, epsilon_up
from fastlloyd.cli.options import in_output
from fastlloyd.cli.terminal import print_json

if TYPE_CHECKING:
    from fastlloyd.federation.plan.plan import Plan


PlanFile = Annotated[Path, typer.Argument(help="A plan.", metavar="PLAN", show_default=False)]


Json = Annotated[bool, in_output("--json", help="Print the plan as JSON.")]


def show(file: PlanFile, json: Json = False) -> None:
    """Show the contents of a plan in a table."""
    from rich.console import Console
    from rich.table import Table

    from fastlloyd.cli import screen
    from fastlloyd.cli.settings import read_plan
    from fastlloyd.reports.statement import plan_cautions

    plan = read_plan(file)
    if json:
        print_json(_for_machines(plan))
        return
    screen.warn(plan_cautions(plan))
    table = Table(title=f"{file}", show_header=False)
    table.add_column()
    table.add_column(overflow="fold")
    for name, value in (_of_mechanism(plan) | _of_parties(plan)).items():
        table.add_row(name, value)
    Console(markup=False, highlight=False, emoji=False).print(table)


def _of_mechanism(plan: "Plan") -> dict[str, str]:
    """Return rows of the table about the run: what it is for, what it asks and what it protects."""
    from fastlloyd.reports.statement import whole_person

    m, words = plan.mechanism, {} if plan.study is None else plan.study.texts
    return {
        "digest": plan.digest.hex(),
        "run": plan.run_id,
        **{"study" if what == "name" else what: text for what, text in words.items()},
        "algorithm": m.name,
        **m.shown(),
        "features": "\n".join(
            f"{name}: {low:g} to {high:g}"
            for name, low, high in zip(
                m.domain.features, m.domain.lower, m.domain.upper, strict=True
            )
        ),
        "scaling": m.domain.scaling.value,
        "epsilon, delta": f"{epsilon_up(m.epsilon)}, {delta_up(m.delta)}",
        "neighbouring relation": m.neighboring_relation.value,
        "protected": m.unit.a if m.persons is None else whole_person(m.persons),
        m.unit.many: f"at most {m.n_records}, planned for {m.n_expected}",
    }


def _of_parties(plan: "Plan") -> dict[str, str]:
    """Return rows of the table about clients, server and network."""
    from fastlloyd.reports.explain import store_in_words

    m, issuer = plan.mechanism, plan.issuer
    return {
        "clients": "\n".join(
            f"{c.name}: at most {c.max_records} {m.unit.many}{store_in_words(c)}"
            for c in plan.clients
        ),
        "trust": plan.trust.value,
        "masks": plan.masks.value,
        "host": plan.host or "none",
        "dropouts, colluding": f"at most {plan.max_dropouts}, at most {plan.max_colluding}",
        "ring": f"{plan.ring_bits} bits",
        "server": (
            f"{plan.server.name} at {plan.server.address}" if plan.server.address else "no address"
        ),
        "timeouts": ", ".join(f"{step} {seconds} s" for step, seconds in _timeouts(plan).items()),
        "certificates": (
            "\n".join(f"{c.name}: {c.fingerprint}, until {c.expires}" for c in plan.certificates())
            or "none"
        ),
        "authority": (
            f"{issuer.name!r:.200}: {issuer.fingerprint}, until {issuer.ends:%Y-%m-%d}"
            if issuer
            else "none"
        ),
        "network": (
            f"for simulations only: {plan.lacking}"
            if plan.lacking
            else "everything a run needs is there"
        ),
    }


def _timeouts(plan: "Plan") -> dict[str, int]:
    import msgspec

    return msgspec.structs.asdict(plan.timeouts)


def _for_machines(plan: "Plan") -> dict[str, Any]:
    from msgspec import structs

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
        "timeouts": _timeouts(plan),
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
    """Return server and clients of the JSON."""
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
