"""Table of a plan: its rows for people, and the rows in which two plans differ."""

from typing import NamedTuple

import msgspec

from fastlloyd.base.precision import delta_up, epsilon_up
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.mechanisms.facts import Fact
from fastlloyd.mechanisms.private_run import AnyRun
from fastlloyd.reports.facts import said, sentence
from fastlloyd.reports.plan_facts import client_cap, whole_person
from fastlloyd.reports.recipe_facts import of_recipe
from fastlloyd.reports.units import units_of

_OF_EVERY_PLAN = ("digest", "run")


def rows(plan: Plan) -> dict[str, str]:
    """Return the rows of the table, by their names. A row may have several lines."""
    return _of_mechanism(plan) | _of_parties(plan)


class Difference(NamedTuple):
    """Row in which two plans differ.

    name : name of the row.
    before, now : lines that only the earlier plan, or only the later one has.
    """

    name: str
    before: str
    now: str


def differences(before: Plan, now: Plan) -> list[Difference]:
    """Return the rows in which two plans differ. Rows that are different in every plan, such as the
    run id, are left out.
    """
    old, new = (rows(plan) | {"recipe": _recipe(plan)} for plan in (before, now))
    names = [name for name in {**old, **new} if name not in _OF_EVERY_PLAN]
    return [
        Difference(name, *_lines(old.get(name, ""), new.get(name, "")))
        for name in names
        if old.get(name) != new.get(name)
    ]


def _recipe(plan: Plan) -> str:
    return "\n".join(said(of_recipe(plan.mechanism.domain.recipe), plan.mechanism.unit))


def _lines(before: str, now: str) -> tuple[str, str]:
    """Return the lines of each text that the other one lacks."""
    old, new = before.splitlines(), now.splitlines()
    return (
        "\n".join(line for line in old if line not in new),
        "\n".join(line for line in new if line not in old),
    )


def _of_mechanism(plan: Plan) -> dict[str, str]:
    """Return the rows of the table about the mechanism: its purpose, its rounds and its
    guarantee.
    """
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


def _of_kind(m: AnyRun) -> dict[str, str]:
    """Return the rows of the table that depend on the kind of the plan: rows about a clustering, or
    rows about a search for bounds.
    """
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


def _of_parties(plan: Plan) -> dict[str, str]:
    """Return the rows of the table about clients, server and network."""
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
        "timeouts": ", ".join(f"{step} {seconds} s" for step, seconds in timeouts(plan).items()),
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


def timeouts(plan: Plan) -> dict[str, int]:
    """Return the seconds that the parties wait for each other, by the step of the run."""
    return msgspec.structs.asdict(plan.timeouts)
