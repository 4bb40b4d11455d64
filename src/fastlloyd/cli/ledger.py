"""`fastlloyd ledger show | verify | limit | release`: what runs have spent on each data set, and how much they may."""

from decimal import ROUND_FLOOR, Context
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fastlloyd.cli.usage import Command, Group

if TYPE_CHECKING:
    from fastlloyd.ledger import Account
    from fastlloyd.store.files import Contents

ledger_app = typer.Typer(cls=Group, help="See and limit what runs spend on your data sets.", no_args_is_help=True)

StoreFile = Annotated[
    Path,
    typer.Argument(
        help="A store, or the identity it belongs to: NAME.store lies beside NAME.identity.toml.",
        metavar="STORE",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
DataSet = Annotated[str, typer.Option(help="Name of the data set.", metavar="NAME", show_default=False)]
RunId = Annotated[str, typer.Option(help="The run's id, as its plan shows it.", metavar="HEX", show_default=False)]
Epsilon = Annotated[
    float, typer.Option(help="All runs together may spend this much; inf lifts the limit.", metavar="E", show_default=False)
]
NewDataSet = Annotated[
    bool, typer.Option("--new", help="The data set is new: no run was joined under its name yet, and it has no limit.")
]
Delta = Annotated[float, typer.Option(help="The delta of that epsilon, below 1 / records.", metavar="D", show_default=False)]


@ledger_app.command(cls=Command)
def show(file: StoreFile, json: Json = False) -> None:
    """Show, for each data set, its runs, what they spent, the limit and what is left."""
    from fastlloyd import outputs
    from fastlloyd.errors import StateError
    from fastlloyd.ledger import accounts
    from fastlloyd.store import Role, read, store_path

    path = store_path(file)
    contents, _ = read(path)
    if contents.role is not Role.CLIENT:
        raise StateError(f"{path} is the store of a server; only clients have records, and a ledger")
    listed = accounts(contents.history)
    if json:
        typer.echo(outputs.to_json({"data_sets": [_summary(one) for one in listed]} | _position(contents)), nl=False)
    elif listed:
        _print(listed, str(path))
    else:
        typer.echo(f"No run was joined from {path}, and no limit is set.")


@ledger_app.command(cls=Command)
def verify(file: StoreFile, json: Json = False) -> None:
    """Check the chain of events from its first to its last, and all sums by a second route."""
    from fastlloyd import outputs
    from fastlloyd.ledger import check_sums
    from fastlloyd.store import read, store_path

    path = store_path(file)
    contents, _ = read(path)
    check_sums(contents.history)
    if json:
        typer.echo(outputs.to_json({"sound": True, "role": contents.role.value} | _position(contents)), nl=False)
        return
    position = contents.position
    events = "1 event" if position.length == 1 else f"{position.length} events"
    typer.echo(f"{path} is sound: the store of a {contents.role.value}, {events}, head {position.head.hex()}.")


@ledger_app.command(cls=Command)
def limit(
    file: StoreFile, dataset: DataSet, epsilon: Epsilon, delta: Delta, new: NewDataSet = False, json: Json = False
) -> None:
    """Set how much all runs on a data set may spend together; a run that would go beyond is refused before it starts.

    A limit below what is spent is taken, too: no further run is allowed then. A run that was joined before goes on.
    """
    import math

    from fastlloyd import outputs
    from fastlloyd.errors import BudgetError
    from fastlloyd.ledger import account, check_dataset, check_known, rounded_up
    from fastlloyd.store import Role, Store, store_path
    from fastlloyd.store.events import LimitSet

    check_dataset(dataset)
    if not epsilon > 0:
        raise BudgetError(f"epsilon is {epsilon:g}; expected a number above 0, or inf to lift the limit")
    if not 0 <= delta < 1:
        raise BudgetError(f"delta is {delta:g}; expected 0 or more and below 1, such as 1 / (100 records)")
    with Store.open(store_path(file), role=Role.CLIENT) as store:
        check_known(store.history, dataset, new=new)
        store.append([LimitSet(dataset=dataset, epsilon=epsilon, delta=delta)])
        one = account(store.history, dataset)
    if json:
        typer.echo(outputs.to_json(_summary(one)), nl=False)
    elif math.isinf(epsilon):
        typer.echo(f"Data set {dataset!r} has no limit any more. At delta {delta:g}, {rounded_up(one.epsilon)} is spent.")
    else:
        spent = rounded_up(one.epsilon)
        typer.echo(f"Data set {dataset!r} has the limit epsilon {epsilon:g} at delta {delta:g}; {spent} is spent.")
        if not one.left:
            typer.echo("Nothing is left: no further run will be allowed.")


@ledger_app.command(cls=Command)
def release(file: StoreFile, run: RunId, json: Json = False) -> None:
    """Give up a run that will not be taken up again: what it reserved and never charged is free, and it never sends again."""
    import re

    from fastlloyd import outputs
    from fastlloyd.errors import StateError
    from fastlloyd.store import Role, Store, store_path
    from fastlloyd.store.events import Outcome

    if not re.fullmatch(r"[0-9a-f]{32}", run):
        raise StateError(f"--run is {run!r:.80}; expected the 32 hex digits that `fastlloyd status` and the plan show")
    with Store.open(store_path(file), role=Role.CLIENT) as store:
        end = store.history.open_run(bytes.fromhex(run)).end(Outcome.ABORTED, "given up by its owner")
        store.append([end])
        charged = store.history.runs[end.run_id].charged
    if json:
        typer.echo(outputs.to_json({"run_id": run, "released": list(end.released), "charged": list(charged)}), nl=False)
    else:
        typer.echo(
            f"Run {run} is given up: {len(end.released)} exchanges are released, {len(charged)} had been charged and stay so."
        )


def _print(listed: list["Account"], title: str) -> None:
    import math

    from rich.console import Console

    from fastlloyd.cli import tables
    from fastlloyd.cli.tables import Column
    from fastlloyd.ledger import rounded_up

    limits = [None if one.limit is None or math.isinf(one.limit.epsilon) else one.limit.epsilon for one in listed]
    columns = [
        Column(heading="data set", cells=[one.dataset for one in listed], justify="left"),
        Column(heading="runs", cells=[f"{len(one.runs)}" + (f" ({one.n_open} open)" if one.n_open else "") for one in listed]),
        Column(heading="spent", cells=[rounded_up(one.epsilon) for one in listed]),
        Column(heading="at delta", cells=[f"{one.delta:.3g}" for one in listed]),
        Column(heading="limit", cells=["none" if limit is None else f"{limit:g}" for limit in limits]),
        Column(heading="left for one run", cells=["" if one.left is None else _down(one.left) for one in listed]),
    ]
    console = Console(markup=False, highlight=False, emoji=False)
    tables.show(console, title, columns)
    for one in listed:
        if one.spent.neighboring_relation is not None:
            console.print(f"{one.dataset}: counted for neighbours by {one.spent.neighboring_relation.value}.", soft_wrap=True)


def _summary(one: "Account") -> dict[str, Any]:
    import math

    spent, limit = one.spent, one.limit
    return {
        "data_set": one.dataset,
        "spent": {
            "epsilon": one.epsilon if math.isfinite(one.epsilon) else None,
            "delta": one.delta,
            "mu_squared": str(spent.mu_squared),
            "pure_epsilon": str(spent.pure_epsilon),
            "neighboring_relation": spent.neighboring_relation.value if spent.neighboring_relation else None,
        },
        "limit": None
        if limit is None or math.isinf(limit.epsilon)
        else {"epsilon": limit.epsilon, "delta": limit.delta, "left_for_one_run": one.left},
        "runs": [
            {
                "run_id": run.run_id.hex(),
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
            for run in one.runs
            if run.reserved is not None
        ],
    }


def _position(contents: "Contents") -> dict[str, Any]:
    return {"events": contents.position.length, "head": contents.position.head.hex(), "identity": contents.identity.hex()}


def _down(value: float) -> str:
    return f"{float(Context(prec=4, rounding=ROUND_FLOOR).create_decimal_from_float(value)):.4g}"
