"""Commands `fastlloyd plan new`, `explain`, `digest` and `renew`: plans of federated runs. A plan
contains no data.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fastlloyd.base.files import check_file, write_file
from fastlloyd.cli.commands.plan_show import PlanFile, show
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
from fastlloyd.cli.recipes import RecipeFile

if TYPE_CHECKING:
    from fastlloyd.federation.plan.plan import Plan

HEADING = "# A fastlloyd plan"  # how every plan file begins, so that --force replaces nothing else

Clients = Annotated[
    list[str],
    in_federation(
        help=(
            "Name of a client and its cap of records (or persons), for a simulation. Give it"
            " once for each client."
        ),
        metavar="NAME:CAP",
    ),
]
Members = Annotated[
    list[str],
    in_federation(
        help=(
            "Public file of a client and its cap of records (or persons). Give it once for"
            " each client."
        ),
        metavar="FILE:CAP",
    ),
]
NewMembers = Annotated[
    list[Path],
    in_federation(
        "--member",
        help=(
            "New public file of a client of the plan, in place of its old one. May be given"
            " several times."
        ),
        metavar="FILE",
    ),
]
LeaveOut = Annotated[
    list[str],
    in_federation(
        help="Client that no longer takes part. May be given several times.", metavar="NAME"
    ),
]
Host = Annotated[
    str | None,
    in_federation(
        "--host", help="Client that also runs the server (join --serve).", metavar="NAME"
    ),
]
NewHost = Annotated[
    str | None,
    in_federation(
        "--host", help='Client that runs the server from now on; "" if none does.', metavar="NAME"
    ),
]
NewMasks = Annotated[
    str | None, in_federation("--masks", help="New kind of masks.", metavar="pairwise|group")
]
Features = Annotated[
    str | None,
    in_clustering(
        help=(
            "Columns that all clients have, separated by commas. Default: the features of --recipe."
        ),
        metavar="NAMES",
    ),
]
NewPlan = Annotated[Path, in_output(help="File to make.", metavar="FILE")]
Page = Annotated[
    Path | None,
    in_output(help="File to make, with a page to print, compare and sign.", metavar="FILE"),
]
ForcePage = Annotated[bool, in_output("--force", help="Replace an earlier page.")]
Simulation = Annotated[
    bool,
    in_federation(
        "--simulation",
        help="Make a plan for one process or MPI only, without a server and public files.",
    ),
]
SpentStore = Annotated[
    Path | None,
    in_privacy(
        "--store",
        help=(
            "With --dataset: the ledger that counts what was spent, or a client's store, or the"
            " identity next to it. Default: your ledger."
        ),
        metavar="FILE",
    ),
]
SpentOn = Annotated[
    str | None,
    in_privacy(
        "--dataset",
        help="Name of your data set, to show what was spent on it before.",
        metavar="NAME",
    ),
]
KindOfPlan = Annotated[
    str,
    in_clustering(
        "--kind",
        help=(
            "Purpose of the plan: a clustering, or bounds, found with differential privacy"
            " within --range."
        ),
        metavar="clustering|bounds",
    ),
]
Force = Annotated[bool, in_output("--force", help="Replace an earlier plan.")]


def new(
    mechanism: PlanOptions,
    federation: FederationOptions,
    study: StudyOptions,
    network: NetworkOptions,
    features: Features = None,
    recipe: RecipeFile = None,
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
    """Make a plan. It needs --recipe, or --features, --bounds and --n-clusters. A plan of
    kind bounds needs --range instead of --bounds. No records are read.
    """
    from msgspec import structs

    from fastlloyd.cli import recipes, requests, settings
    from fastlloyd.cli.persons import given_persons
    from fastlloyd.cli.progress import Progress
    from fastlloyd.errors import PlanError
    from fastlloyd.federation.plan.design import design_plan, with_positions
    from fastlloyd.jobs.choices import FROM_DATA
    from fastlloyd.jobs.fit import placing

    check_file(out, heading=HEADING, force=force)
    persons = given_persons(unit, unit_name, max_clients_per_person)
    protocol = requests.given_federation(federation).protocol(mechanism.preset)
    timeouts = protocol.chosen_masks.timeouts
    using = recipes.given_recipe(recipe, features, searching=True)
    settings.check_features(kind, using)
    bounds = recipes.bounds_of(using, mechanism.bounds)
    settings.check_kind(kind, mechanism, value_range, bounds)
    if mechanism.n_records == FROM_DATA:
        raise PlanError(
            "--n-records is from-data, but a plan has no records to count; leave --n-records out,"
            " or state a number"
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
    named = recipes.columns_of(using, features)
    of_kind = settings.planned(kind, mechanism, value_range, named, cap, persons, bounds)
    with Progress() as progress, placing(mechanism.n_clusters or 0, progress):
        plan = design_plan(
            of_kind,
            clients=clients,
            run_id=os.urandom(16),
            protocol=protocol,
            server=server,
            timeouts=structs.replace(timeouts, **settings.given_timeouts(network, timeouts)),
            authority=settings.given_authority(network),
            study=settings.given_study(study),
            host=host,
        )
    plan.check_undivided()
    _write(plan, out)


def explain(file: PlanFile, store: SpentStore = None, dataset: SpentOn = None) -> None:
    """Explain a plan in plain words: what it protects, against which parties, and how its settings
    were chosen. With --dataset, also say how much earlier runs on the data set spent.
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
    """Print the digest of a plan, and nothing else, to stdout. All parties compare the digest
    before a run.
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
            "--force, --store and --dataset need a page to make; name it with --page FILE"
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
    """Make the plan of the next run. It has a new run id. Public files may be replaced by new ones,
    and clients may be left out.
    """
    from fastlloyd.base.names import choose
    from fastlloyd.cli.settings import (
        given_authority,
        given_positions,
        given_server,
        given_timeouts,
        read_plan,
    )
    from fastlloyd.federation.identity.identity import PublicIdentity
    from fastlloyd.federation.plan.design import renew as renewed
    from fastlloyd.federation.plan.plan import Masks

    check_file(out, heading=HEADING, force=force)
    before, kind = read_plan(file), None if masks is None else choose(Masks, masks, "masks")
    plan = renewed(
        before,
        run_id=os.urandom(16),
        members=[PublicIdentity.load(path) for path in member],
        server=given_server(network, before.server),
        timeouts=given_timeouts(network, (kind or before.masks).timeouts),
        leave_out=leave_out,
        authority=given_authority(network),
        positions=given_positions(network),
        masks=kind,
        host=host,
    )
    _write(plan, out)
    typer.echo("A run of this plan spends its epsilon again, even on the same records.")


def _spent_before(plan: "Plan", store: Path | None, dataset: str | None) -> str | None:
    """Return sentences about earlier runs from the reader's own ledger, or None if the options name
    no data set.
    """
    from fastlloyd.errors import StateError
    from fastlloyd.federation.admission import check_dataset
    from fastlloyd.federation.holder import HoldersLedger, place
    from fastlloyd.federation.store import Role, read, store_path
    from fastlloyd.reports.accounts import outlook

    if dataset is None:
        if store is not None:
            raise StateError("--store needs --dataset NAME, one of its data sets")
        return None
    check_dataset(dataset)
    ledger = HoldersLedger(place())
    if store is None:
        there = "" if ledger.is_there() else f"There is no ledger {ledger.path} yet.\n"
        return there + outlook(ledger.history(), dataset, plan)
    contents, _ = read(store_path(store))
    if contents.role is Role.SERVER:
        raise StateError(
            f"{store_path(store)} is the store of a server; only clients have records, and a ledger"
        )
    said = outlook(contents.history, dataset, plan)
    if contents.role is Role.CLIENT and ledger.is_there():  # `join` asks both
        said += f"\n{outlook(ledger.history(), dataset, plan)}"
    return said


def _write(plan: "Plan", out: Path) -> None:
    from fastlloyd.cli import screen
    from fastlloyd.errors import PlanError
    from fastlloyd.reports.facts import said
    from fastlloyd.reports.plan_facts import expiring, liveness, plan_cautions, totals

    write_file(out, plan.to_toml())
    unit = plan.mechanism.unit
    screen.warn(said([*plan_cautions(plan), *expiring(plan)], unit))
    typer.echo(f"Written to {out}. Digest: {plan.digest.hex()}")
    for total in said(totals(plan), unit):
        typer.echo(f"Note: {total}.")
    for sentence in said(liveness(plan)):
        typer.echo(sentence)
    try:
        plan.check_networked()
    except PlanError as error:
        typer.echo(f"For simulations only: {error}.")
    else:
        typer.echo(
            "Send it to all parties, and tell them the digest over a different channel. No client"
            " joins a plan with another digest."
        )


GROUP = {"new": new, "show": show, "explain": explain, "digest": digest, "renew": renew}
