"""`fastlloyd plan new | show | explain`: plans of federated runs, which hold no data."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fastlloyd.cli.groups import with_option_groups
from fastlloyd.cli.options import CLUSTERING, FEDERATION, OUTPUT, FederationOptions, MechanismOptions
from fastlloyd.cli.usage import Command

if TYPE_CHECKING:
    from fastlloyd.plan import Client, Plan

HEADING = "# A fastlloyd plan"  # how every plan file begins, so that --force replaces nothing else
OF_A_FIT = "# A fastlloyd mechanism"  # and how the settings of a run of fit do

plan_app = typer.Typer(help="Make and read plans of federated runs: public, no data.", no_args_is_help=True)

PlanFile = Annotated[Path, typer.Argument(help="A plan.", metavar="PLAN", show_default=False)]
Members = Annotated[
    list[str],
    typer.Option("--client", help="Name and cap of records. Once per client.", metavar="NAME:CAP", rich_help_panel=FEDERATION),
]
Features = Annotated[str, typer.Option(help="Columns all clients have, as a,b,c.", metavar="NAMES", rich_help_panel=CLUSTERING)]
NewPlan = Annotated[Path, typer.Option(help="File to make.", metavar="FILE", rich_help_panel=OUTPUT)]
Force = Annotated[bool, typer.Option("--force", help="Replace an earlier plan.", rich_help_panel=OUTPUT)]


@plan_app.command(cls=Command)
@with_option_groups
def new(
    client: Members,
    features: Features,
    mechanism: MechanismOptions,
    federation: FederationOptions,
    out: NewPlan = Path("plan.toml"),
    force: Force = False,
) -> None:
    """Make a plan; --bounds are needed, there are no data to take them from."""
    import os

    from fastlloyd import outputs
    from fastlloyd.cli import progress
    from fastlloyd.cli.federated import trust
    from fastlloyd.cli.settings import chosen_algorithm, design_arguments, given_domain
    from fastlloyd.design import design_plan
    from fastlloyd.errors import PlanError
    from fastlloyd.names import parse_columns

    outputs.check_file(out, heading=HEADING, force=force)
    if mechanism.bounds is None:
        raise PlanError("a plan needs --bounds: public bounds of every feature, chosen without looking at the data")
    clients = tuple(_client(text) for text in client)
    cap = sum(c.max_records for c in clients) if mechanism.n_records is None else mechanism.n_records
    with progress.placing(mechanism.n_clusters):
        plan = design_plan(
            chosen_algorithm(mechanism),
            given_domain(mechanism.bounds, parse_columns(features), mechanism.scaling),
            clients=clients,
            run_id=os.urandom(16),
            trust=trust(mechanism, federation),
            max_dropouts=federation.max_dropouts or 0,
            max_colluding=federation.max_colluding,
            ring_bits=federation.ring_bits,
            **design_arguments(mechanism, cap),
        )
    outputs.write_file(out, plan.to_toml())
    typer.echo(f"Written to {out}. Digest: {plan.digest.hex()}")
    typer.echo("To be read and compared: this version has no command yet that runs a plan over a network.")


@plan_app.command(cls=Command)
def show(file: PlanFile) -> None:
    """Show what a plan settles, in a table."""
    from rich.console import Console
    from rich.table import Table

    plan = _read(file)
    m = plan.mechanism
    table = Table(title=f"{file}", show_header=False)
    table.add_column()
    table.add_column(overflow="fold")
    rows = {
        "digest": plan.digest.hex(),
        "run": plan.run_id,
        "algorithm": m.algorithm.name,
        "clusters": str(m.n_clusters),
        "features": "\n".join(
            f"{name}: {low:g} to {high:g}"
            for name, low, high in zip(m.domain.features, m.domain.lower, m.domain.upper, strict=True)
        ),
        "scaling": m.domain.scaling.value,
        "epsilon, delta": f"{m.epsilon:.6g}, {m.delta:.3g}",
        "neighbouring relation": m.neighboring_relation.value,
        "iterations": str(len(m.rounds)),
        "loss": f"estimated, with {float(m.loss_share):.3g} of the budget" if m.loss else "not estimated",
        "records": f"at most {m.n_records}, planned for {m.n_expected}",
        "clients": "\n".join(f"{c.name}: at most {c.max_records} records" for c in plan.clients),
        "trust": plan.trust.value,
        "dropouts, colluding": f"at most {plan.max_dropouts}, at most {plan.max_colluding}",
        "ring": f"{plan.ring_bits} bits",
        "signing keys": "of all clients" if all(c.signing_key for c in plan.clients) else "not yet: no run can start from it",
    }
    for name, value in rows.items():
        table.add_row(name, value)
    Console(markup=False, highlight=False, emoji=False).print(table)


@plan_app.command(cls=Command)
def explain(file: PlanFile) -> None:
    """Say in plain words what a plan protects, from whom, and how it was chosen."""
    from fastlloyd.explain import explain as explain_plan

    typer.echo(explain_plan(_read(file)))


def _client(text: str) -> "Client":
    from fastlloyd.errors import PlanError
    from fastlloyd.plan import Client

    name, _, cap = text.rpartition(":")
    if not (cap.isascii() and cap.isdigit() and len(cap) < 20):
        raise PlanError(f"client {text!r:.100} is not of the form NAME:CAP, such as hospital-a:200")
    return Client(name=name, max_records=int(cap))


def _read(file: Path) -> "Plan":
    from fastlloyd.documents import load_text
    from fastlloyd.errors import PlanError
    from fastlloyd.plan import Plan

    text = load_text(file)
    if OF_A_FIT in text[:400]:  # a line of caution may stand before it
        raise PlanError(
            f"{file} holds the settings of a run of fit, which is no plan of a federated one; it is text to be read as it is, "
            "and privacy.json beside it says what they protect"
        )
    return Plan.from_toml(text, str(file))
