"""Command `fastlloyd plan show`: print a plan as a table for people, or as JSON for programs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fastlloyd.base.precision import delta_up, epsilon_up
from fastlloyd.cli.options import in_output
from fastlloyd.cli.terminal import print_json

if TYPE_CHECKING:
    from fastlloyd.federation.plan.plan import Plan
    from fastlloyd.mechanisms.private_run import AnyRun


PlanFile = Annotated[Path, typer.Argument(help="A plan.", metavar="PLAN", show_default=False)]


Json = Annotated[bool, in_output("--json", help="Print the plan as JSON.")]


def show(file: PlanFile, json: Json = False) -> None:
    """Show the contents of a plan in a table."""
    from fastlloyd.cli import screen, terminal
    from fastlloyd.cli.settings import read_plan
    from fastlloyd.reports.facts import said
    from fastlloyd.reports.plan_facts import plan_cautions

    plan = read_plan(file)
    if json:
        print_json(_for_machines(plan))
        return
    screen.warn(said(plan_cautions(plan), plan.mechanism.unit))
    terminal.show_values(terminal.console(), f"{file}", _of_mechanism(plan) | _of_parties(plan))


def _of_mechanism(plan: "Plan") -> dict[str, str]:
    """Return the rows of the table about the mechanism: its purpose, its rounds and its
    guarantee.
    """
    from fastlloyd.mechanisms.facts import Fact
    from fastlloyd.reports.facts import sentence
    from fastlloyd.reports.plan_facts import whole_person
    from fastlloyd.reports.units import units_of

    m, words = plan.mechanism, {} if plan.study is None else plan.study.texts
    person = None if m.persons is None else whole_person(m.persons)
    return {
        "digest": plan.digest.hex(),
        "run": plan.run_id,
        **{"study" if what == "name" else what: text for what, text in words.items()},
        "algorithm": m.name,
        **_of_kind(m),
        "features": "\n".join(
            f"{name}: {u.text(low)} to {u.text(high)}"
            for name, u, low, high in zip(
                m.domain.features,
                units_of(m.domain),
                m.domain.lower,
                m.domain.upper,
                strict=True,
            )
        ),
        "scaling": m.domain.scaling.value,
        "epsilon, delta": f"{epsilon_up(m.epsilon)}, {delta_up(m.delta)}",
        "neighbouring relation": m.neighboring_relation.value,
        "protected": m.unit.a if person is None else sentence(person, m.unit),
        m.unit.many: sentence(
            Fact.of("row_records", n_records=m.n_records, n_expected=m.n_expected)
        ),
    }


def _of_kind(m: "AnyRun") -> dict[str, str]:
    """Return the rows of the table that depend on the kind of the plan: rows about a clustering, or
    rows about a search for bounds.
    """
    from fastlloyd.mechanisms.facts import Fact
    from fastlloyd.reports.facts import sentence

    facts = m.facts()
    if "n_clusters" not in facts:
        return {"rounds": str(len(m.rounds))}
    loss = facts["loss_estimate"]
    estimated = Fact.of("row_no_loss")
    if loss is not None:
        estimated = Fact.of("row_loss", share=loss["share_of_budget"])
    moving = Fact.of("row_rounds", n=len(m.rounds), n_iterations=facts["n_iterations"])
    return {
        "clusters": str(facts["n_clusters"]),
        "rounds": sentence(moving),
        "loss": sentence(estimated),
    }


def _of_parties(plan: "Plan") -> dict[str, str]:
    """Return the rows of the table about clients, server and network."""
    from fastlloyd.mechanisms.facts import Fact
    from fastlloyd.reports.facts import said, sentence
    from fastlloyd.reports.plan_facts import client_cap

    issuer = plan.issuer
    caps = said(map(client_cap, plan.clients), plan.mechanism.unit)
    most = {"dropouts": plan.max_dropouts, "colluding": plan.max_colluding}
    server = Fact.of("row_server", name=plan.server.name, address=plan.server.address)
    network = Fact.of("row_lacking", lacking=plan.lacking)
    return {
        "clients": "\n".join(caps),
        "trust": plan.trust.value,
        "masks": plan.masks.value,
        "host": plan.host or "none",
        "dropouts, colluding": sentence(Fact.of("row_most", **most)),
        "ring": f"{plan.ring_bits} bits",
        "server": sentence(server if plan.server.address else Fact.of("no_address")),
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
        "network": sentence(network if plan.lacking else Fact.of("row_complete")),
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
