"""`fastlloyd plan new | show | explain | digest | renew`: plans of federated runs, which hold no
data.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fastlloyd.base.files import check_file, write_file
from fastlloyd.base.precision import delta_up, epsilon_up
from fastlloyd.cli.mechanism_options import PlanOptions
from fastlloyd.cli.network_options import NetworkOptions, StudyOptions
from fastlloyd.cli.options import (
    FederationOptions,
    MaxClientsPerPerson,
    ProtectedUnit,
    UnitName,
    ValueRange,
    in_clustering,
    in_federation,
    in_output,
    in_privacy,
)
from fastlloyd.cli.terminal import print_json

if TYPE_CHECKING:
    from fastlloyd.federation.plan.plan import Plan

HEADING = "# A fastlloyd plan"  # how every plan file begins, so that --force replaces nothing else

PlanFile = Annotated[Path, typer.Argument(help="A plan.", metavar="PLAN", show_default=False)]
Clients = Annotated[
    list[str],
    in_federation(
        help="Name and cap of records (or persons), for a simulation. Once each.",
        metavar="NAME:CAP",
    ),
]
Members = Annotated[
    list[str],
    in_federation(
        help="Public file of a client and its cap of records (or persons). Once each.",
        metavar="FILE:CAP",
    ),
]
NewMembers = Annotated[
    list[Path],
    in_federation(
        "--member",
        help=(
            "New public file of a client of the plan, in place of the old one. As often as needed."
        ),
        metavar="FILE",
    ),
]
LeaveOut = Annotated[
    list[str],
    in_federation(help="A client that takes part no longer. As often as needed.", metavar="NAME"),
]
Host = Annotated[
    str | None,
    in_federation(
        "--host", help="The client that also runs the server (join --serve).", metavar="NAME"
    ),
]
NewHost = Annotated[
    str | None,
    in_federation(
        "--host",
        help='The client that runs the server from now on; "" if none does.',
        metavar="NAME",
    ),
]
NewMasks = Annotated[
    str | None, in_federation("--masks", help="Other masks than before.", metavar="pairwise|group")
]
Features = Annotated[
    str, in_clustering(help="Columns all clients have, as a,b,c.", metavar="NAMES")
]
NewPlan = Annotated[Path, in_output(help="File to make.", metavar="FILE")]
Page = Annotated[
    Path | None, in_output(help="Also make a page to print, compare and sign.", metavar="FILE")
]
ForcePage = Annotated[bool, in_output("--force", help="Replace an earlier page.")]
Simulation = Annotated[
    bool,
    in_federation(
        "--simulation", help="The plan is for one process or MPI only: no server, no public files."
    ),
]
SpentStore = Annotated[
    Path | None,
    in_privacy(
        "--store",
        help=(
            "With --dataset: the ledger, or the store of a client or the identity it belongs to,"
            " that says what was spent. Default: your ledger."
        ),
        metavar="FILE",
    ),
]
SpentOn = Annotated[
    str | None,
    in_privacy(
        "--dataset", help="Your data set: says what was spent on it before.", metavar="NAME"
    ),
]
KindOfPlan = Annotated[
    str,
    in_clustering(
        "--kind",
        help="What the plan is for; bounds: to find them privately in --range.",
        metavar="clustering|bounds",
    ),
]
Json = Annotated[bool, in_output("--json", help="Print it as JSON.")]
Force = Annotated[bool, in_output("--force", help="Replace an earlier plan.")]


def new(
    features: Features,
    mechanism: PlanOptions,
    federation: FederationOptions,
    study: StudyOptions,
    network: NetworkOptions,
    client: Clients = [],  # noqa: B006 - typer's default, never changed
    member: Members = [],  # noqa: B006 - the same
    host: Host = None,
    simulation: Simulation = False,
    kind: KindOfPlan = "clustering",
    value_range: ValueRange = None,
    unit: ProtectedUnit = "record",
    unit_name: UnitName = None,
    max_clients_per_person: MaxClientsPerPerson = None,
    out: NewPlan = Path("plan.toml"),
    force: Force = False,
) -> None:
    """Make a plan; --bounds are needed, or for a plan of kind bounds --range: there are no data to
    take them from.
    """
    from msgspec import structs

    from fastlloyd.base.names import parse_columns
    from fastlloyd.cli import requests, settings
    from fastlloyd.cli.persons import given_persons
    from fastlloyd.cli.progress import Progress
    from fastlloyd.errors import PlanError
    from fastlloyd.federation.plan.design import chosen_masks, design_plan, with_positions
    from fastlloyd.jobs.choices import FROM_DATA
    from fastlloyd.jobs.fit import placing

    check_file(out, heading=HEADING, force=force)
    persons = given_persons(unit, unit_name, max_clients_per_person)
    dropouts = federation.max_dropouts or 0
    choices = requests.given_federation(federation)
    masks = chosen_masks(choices.chosen_masks, dropouts)
    settings.check_kind(kind, mechanism, value_range)
    if mechanism.n_records == FROM_DATA:
        raise PlanError(
            "a plan holds no records to count; leave --n-records out, or state a number"
        )
    if simulation and network.server is not None:
        raise PlanError(
            "--simulation makes a plan without a server; leave out --simulation, or --server"
        )
    clients, server = settings.given_clients(client, member), settings.given_server(network)
    if not simulation:
        settings.check_complete(clients, server)
    clients = with_positions(clients, settings.given_positions(network))
    cap = requests.stated_cap(mechanism.n_records) or sum(c.max_records for c in clients)
    of_kind = settings.planned(kind, mechanism, value_range, parse_columns(features), cap, persons)
    with Progress() as progress, placing(mechanism.n_clusters or 0, progress):
        plan = design_plan(
            of_kind,
            clients=clients,
            run_id=os.urandom(16),
            server=server,
            timeouts=structs.replace(
                masks.timeouts, **settings.given_timeouts(network, masks.timeouts)
            ),
            authority=settings.given_authority(network),
            study=settings.given_study(study),
            trust=choices.trust_mode(mechanism.preset),
            max_dropouts=dropouts,
            max_colluding=federation.max_colluding,
            ring_bits=federation.ring_bits,
            masks=masks,
            host=host,
        )
    plan.check_undivided()
    _write(plan, out)


def show(file: PlanFile, json: Json = False) -> None:
    """Show what a plan settles, in a table."""
    from rich.console import Console
    from rich.table import Table

    from fastlloyd.cli import screen
    from fastlloyd.cli.settings import read_plan
    from fastlloyd.reports.explain import store_in_words
    from fastlloyd.reports.statement import plan_cautions, whole_person

    plan = read_plan(file)
    if json:
        print_json(_for_machines(plan))
        return
    screen.warn(plan_cautions(plan))
    m, issuer = plan.mechanism, plan.issuer
    words = {} if plan.study is None else plan.study.texts
    table = Table(title=f"{file}", show_header=False)
    table.add_column()
    table.add_column(overflow="fold")
    rows = {
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
    for name, value in rows.items():
        table.add_row(name, value)
    Console(markup=False, highlight=False, emoji=False).print(table)


def explain(file: PlanFile, store: SpentStore = None, dataset: SpentOn = None) -> None:
    """Say in plain words what a plan protects, from whom, how it was chosen and, with --dataset,
    what was spent before.
    """
    from fastlloyd.cli.settings import read_plan
    from fastlloyd.reports.explain import explain as explain_plan

    plan = read_plan(file)
    spent = _spent_before(plan, store, dataset)
    typer.echo(explain_plan(plan))
    if spent is not None:
        typer.echo(f"\n{spent}")


def digest(
    file: PlanFile,
    page: Page = None,
    force: ForcePage = False,
    store: SpentStore = None,
    dataset: SpentOn = None,
) -> None:
    """Print the digest of a plan, which everyone compares before a run; nothing else goes to
    stdout.
    """
    from fastlloyd.cli.settings import read_plan
    from fastlloyd.errors import OutputError
    from fastlloyd.reports import agreement

    plan = read_plan(file)
    if page is not None:
        check_file(page, heading=agreement.PAGE_HEADING, force=force)
        write_file(page, agreement.page(plan, _spent_before(plan, store, dataset)))
        typer.echo(f"Written to {page}: to be printed, compared and signed.", err=True)
    elif force or store or dataset:
        raise OutputError(
            "--force, --store and --dataset are about the page to make; name it with --page FILE"
        )
    typer.echo(plan.digest.hex())


def renew(
    file: PlanFile,
    network: NetworkOptions,
    member: NewMembers = [],  # noqa: B006 - typer's default, never changed
    leave_out: LeaveOut = [],  # noqa: B006 - the same
    masks: NewMasks = None,
    host: NewHost = None,
    out: NewPlan = Path("renewed.toml"),
    force: Force = False,
) -> None:
    """Make the plan of the next run: a fresh run id, new public files in place of old ones, or
    fewer clients.
    """
    from fastlloyd.base.names import choose
    from fastlloyd.cli.settings import given_authority, given_positions, given_timeouts, read_plan
    from fastlloyd.federation.identity.identity import PublicIdentity
    from fastlloyd.federation.plan.design import renew as renewed
    from fastlloyd.federation.plan.plan import Masks

    check_file(out, heading=HEADING, force=force)
    before, kind = read_plan(file), None if masks is None else choose(Masks, masks, "masks")
    plan = renewed(
        before,
        run_id=os.urandom(16),
        members=[PublicIdentity.load(path) for path in member],
        server=None if network.server is None else PublicIdentity.load(network.server),
        address=network.address,
        timeouts=given_timeouts(network, (kind or before.masks).timeouts),
        leave_out=leave_out,
        authority=given_authority(network),
        positions=given_positions(network),
        masks=kind,
        host=host,
    )
    _write(plan, out)
    typer.echo("A run of it spends its epsilon again, on the same records too.")


def _spent_before(plan: "Plan", store: Path | None, dataset: str | None) -> str | None:
    """What the reader's own ledger says, in sentences; None if they did not ask."""
    from fastlloyd.errors import StateError
    from fastlloyd.federation.admission import check_dataset, outlook
    from fastlloyd.federation.holder import HoldersLedger, place
    from fastlloyd.federation.store import Role, read, store_path

    if dataset is None:
        if store is not None:
            raise StateError("--store needs --dataset NAME: which of its data sets")
        return None
    check_dataset(dataset)
    if store is None:
        ledger = HoldersLedger(place())
        there = "" if ledger.is_there() else f"There is no ledger {ledger.path} yet. "
        return there + outlook(ledger.history(), dataset, plan)
    contents, _ = read(store_path(store))
    if contents.role is Role.SERVER:
        raise StateError(
            f"{store_path(store)} is the store of a server; only clients have records, and a ledger"
        )
    return outlook(contents.history, dataset, plan)


def _write(plan: "Plan", out: Path) -> None:
    from fastlloyd.cli import screen
    from fastlloyd.errors import PlanError
    from fastlloyd.reports.explain import expiring, liveness
    from fastlloyd.reports.statement import plan_cautions, totals

    write_file(out, plan.to_toml())
    screen.warn([*plan_cautions(plan), *expiring(plan)])
    typer.echo(f"Written to {out}. Digest: {plan.digest.hex()}")
    if plan.n_clients > 2:
        typer.echo(f"Note: {totals(plan)}.")
    for sentence in liveness(plan):
        typer.echo(sentence)
    try:
        plan.check_networked()
    except PlanError as error:
        typer.echo(f"For simulations only: {error}.")
    else:
        typer.echo(
            "Send it to all who take part, and tell them the digest over a different channel:"
            " nobody joins a plan of another digest."
        )


def _timeouts(plan: "Plan") -> dict[str, int]:
    import msgspec

    return msgspec.structs.asdict(plan.timeouts)


def _for_machines(plan: "Plan") -> dict[str, Any]:
    from msgspec import structs

    m, issuer, facts = plan.mechanism, plan.issuer, plan.mechanism.facts()
    expires = {
        certificate.name: certificate.expires.isoformat() for certificate in plan.certificates()
    }
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


GROUP = {"new": new, "show": show, "explain": explain, "digest": digest, "renew": renew}
