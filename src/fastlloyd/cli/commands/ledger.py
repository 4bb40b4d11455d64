"""`fastlloyd ledger`: what runs have spent on each data set, how much they may; what a server saw of clients' stores."""

import math
import re
from decimal import ROUND_FLOOR, Context
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fastlloyd.base.files import check_file, write_file
from fastlloyd.base.names import unknown_name
from fastlloyd.cli import terminal
from fastlloyd.cli.terminal import Column, print_json
from fastlloyd.errors import BudgetError, OutputError, StateError

if TYPE_CHECKING:
    from fastlloyd.federation.ledger import Account, Proviso
    from fastlloyd.federation.spending import Spending
    from fastlloyd.federation.store.events import RunCost
    from fastlloyd.federation.store.files import Contents
    from fastlloyd.federation.store.history import History

StoreFile = Annotated[
    Path,
    typer.Argument(help="A store, or the identity it belongs to: NAME.store lies beside NAME.identity.toml.", metavar="STORE"),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
DataSet = Annotated[str, typer.Option(help="Name of the data set.", metavar="NAME")]
RunId = Annotated[str, typer.Option(help="The run's id, as its plan shows it.", metavar="HEX")]
Epsilon = Annotated[float, typer.Option(help="All runs together may spend this much; inf lifts the limit.", metavar="E")]
NewDataSet = Annotated[
    bool, typer.Option("--new", help="The data set is new: no run was joined under its name yet, and it has no limit.")
]
Plans = Annotated[
    list[Path],
    typer.Option(
        "--plan",
        help="Plan of a run that an earlier version joined: it says what the store does not. As often as needed.",
        metavar="FILE",
    ),
]
Delta = Annotated[float, typer.Option(help="The delta of that epsilon, below 1 / records.", metavar="D")]
ServerStore = Annotated[Path, typer.Argument(help="The store of a server, or the identity it belongs to.", metavar="STORE")]
Out = Annotated[Path | None, typer.Option(help="Also write them to a file, for plan renew --positions.", metavar="FILE")]
Force = Annotated[bool, typer.Option("--force", help="Replace an earlier file of positions.")]
ClientOfStore = Annotated[str, typer.Option(help="The client's signing key (64 hex digits), or its name.", metavar="KEY|NAME")]


def positions(file: ServerStore, out: Out = None, force: Force = False, json: Json = False) -> None:
    """Show how far a server saw its clients' stores, and export what they signed, for the plan of another server."""
    from fastlloyd.federation.positions import HEADING, KnownStore, KnownStoreOf, Positions
    from fastlloyd.federation.store import Role, read, store_path

    path = store_path(file)
    if out is not None:
        check_file(out, heading=HEADING, force=force)
    elif force:
        raise OutputError("--force is about the file to write; name it with --out FILE")
    contents, _ = read(path)
    if contents.role is not Role.SERVER:
        raise StateError(f"{path} is the store of a client; only a server's remembers positions of others")
    peers, signed = contents.history.peers, contents.history.signed
    rows: list[dict[str, Any]] = [
        {
            "client": signed[key].client if key in signed else None,
            "signing_key": key,
            "events": position.length,
            "signed": key in signed,
        }
        for key, position in peers.items()
    ]
    if out is not None:
        clients = [KnownStoreOf(name=e.client, signing_key=key, store=KnownStore.of(e.position)) for key, e in signed.items()]
        write_file(out, Positions(clients=tuple(clients)).to_toml())
    if json:
        print_json({"clients": rows})
    elif rows:
        columns = [
            Column(heading="client", cells=[row["client"] or "" for row in rows], justify="left"),
            Column(heading="events", cells=[str(row["events"]) for row in rows]),
            Column(heading="signed", cells=["yes" if row["signed"] else "no" for row in rows], justify="left"),
            Column(heading="signing key", cells=[row["signing_key"] for row in rows], justify="left"),
        ]
        terminal.show(terminal.console(), str(path), columns)
    else:
        typer.echo(f"{path} has seen no client.")
    if out is not None and not json:
        left = len(rows) - len(clients)
        typer.echo(
            f"Written to {out}: {len(clients)} of {len(rows)} positions. They show how many events each store has."
            + (f" The others, {left}, were seen by an earlier version and are not signed." if left else "")
        )


def forget(file: ServerStore, client: ClientOfStore, json: Json = False) -> None:
    """Forget how far the store of a client was seen: the next position it shows is taken, whatever it is.

    For an identity that signed nonsense, or whose store is lost and who goes on under the same identity nevertheless: then what
    it spent before is in no ledger. Not while a run is open.
    """
    from fastlloyd.federation.store import Role, Store, store_path
    from fastlloyd.federation.store.events import PeerForgotten

    with Store.open(store_path(file), role=Role.SERVER) as store:
        key, known = _found(store.history, client), [run for run in store.history.runs.values() if run.ended is None]
        if known:
            raise StateError(
                f"run {known[0].run_id.hex()} is open in this store; let fastlloyd serve end it first: in the midst of a run a "
                "store that is not known is one that could answer twice"
            )
        length = store.history.peers[key].length
        store.append([PeerForgotten(name=key)])
    if json:
        print_json({"signing_key": key, "events": length})
    else:
        typer.echo(f"Forgotten: the store of the client with signing key {key} had {length} events.")


def show(
    file: StoreFile,
    plan: Plans = [],  # noqa: B006 - typer's default, never changed
    json: Json = False,
) -> None:
    """Show, for each data set, its runs, what they spent, the limit and what is left, and on what condition that holds."""
    from fastlloyd.federation.ledger import accounts
    from fastlloyd.federation.store import Role, read, store_path

    path = store_path(file)
    contents, _ = read(path)
    if contents.role is not Role.CLIENT:
        raise StateError(f"{path} is the store of a server; only clients have records, and a ledger")
    listed = accounts(contents.history, _costs(plan, contents.history))
    if json:
        print_json({"data_sets": [_summary(one) for one in listed]} | _position(contents))
    elif listed:
        _print(listed, str(path))
    else:
        typer.echo(f"No run was joined from {path}, and no limit is set.")


def verify(file: StoreFile, json: Json = False) -> None:
    """Check the chain of events from its first to its last, and all sums by a second route."""
    from fastlloyd.federation.ledger import check_sums
    from fastlloyd.federation.store import read, store_path

    path = store_path(file)
    contents, _ = read(path)
    check_sums(contents.history)
    if json:
        print_json({"sound": True, "role": contents.role.value} | _position(contents))
        return
    position = contents.position
    events = "1 event" if position.length == 1 else f"{position.length} events"
    typer.echo(f"{path} is sound: the store of a {contents.role.value}, {events}, head {position.head.hex()}.")


def limit(
    file: StoreFile, dataset: DataSet, epsilon: Epsilon, delta: Delta, new: NewDataSet = False, json: Json = False
) -> None:
    """Set how much all runs on a data set may spend together; a run that would go beyond is refused before it starts.

    Where STORE is an identity that has no store yet, the store is made. A limit below what is spent is taken, too: no further
    run is allowed then. A run that was joined before goes on.
    """
    from fastlloyd.base.precision import rounded_up
    from fastlloyd.cli.network import client_store, has_store
    from fastlloyd.federation.ledger import account, check_dataset, check_known
    from fastlloyd.federation.store import History, Role
    from fastlloyd.federation.store.events import LimitSet

    check_dataset(dataset)
    if not epsilon > 0:
        raise BudgetError(f"epsilon is {epsilon:g}; expected a number above 0, or inf to lift the limit")
    if not 0 <= delta < 1:
        raise BudgetError(f"delta is {delta:g}; expected 0 or more and below 1, such as 1 / (100 records)")
    if not has_store(file):
        check_known(History(Role.CLIENT), dataset, new=new)  # before a store is made
    with client_store(file) as store:
        check_known(store.history, dataset, new=new)
        store.append([LimitSet(dataset=dataset, epsilon=epsilon, delta=delta)])
        one = account(store.history, dataset)
    if json:
        print_json(_summary(one))
    elif math.isinf(epsilon):
        typer.echo(f"Data set {dataset!r} has no limit any more. At delta {delta:g}, {rounded_up(one.epsilon)} is spent.")
    else:
        spent = rounded_up(one.epsilon)
        typer.echo(f"Data set {dataset!r} has the limit epsilon {epsilon:g} at delta {delta:g}; {spent} is spent.")
        if not one.left and not one.left_pure:
            typer.echo("Nothing is left: no further run will be allowed.")
    if one.proviso is not None and not json:
        typer.echo(f"From now on {_condition(one.proviso)}")


def release(file: StoreFile, run: RunId, json: Json = False) -> None:
    """Give up a run that will not be taken up again: what it reserved and never charged is free, and it never sends again."""
    from fastlloyd.federation.store import Role, Store, store_path
    from fastlloyd.federation.store.events import Outcome

    if not re.fullmatch(r"[0-9a-f]{32}", run):
        raise StateError(f"--run is {run!r:.80}; expected the 32 hex digits that `fastlloyd status` and the plan show")
    with Store.open(store_path(file), role=Role.CLIENT) as store:
        end = store.history.open_run(bytes.fromhex(run)).end(Outcome.ABORTED, "given up by its owner")
        store.append([end])
        charged = store.history.runs[end.run_id].charged
    if json:
        print_json({"run_id": run, "released": list(end.released), "charged": list(charged)})
    else:
        typer.echo(
            f"Run {run} is given up: {len(end.released)} exchanges are released, {len(charged)} had been charged and stay so."
        )


def _costs(plans: list[Path], history: "History") -> "dict[bytes, RunCost]":
    """Return what plans cost, by digest. Raises StateError if no run in the store belongs to a plan."""
    from fastlloyd.cli.settings import read_plan
    from fastlloyd.federation.ledger import run_cost

    joined = {run.reserved.plan_digest for run in history.runs.values() if run.reserved is not None}
    costs = {}
    for path in plans:
        plan = read_plan(path)
        if plan.digest not in joined:
            raise StateError(f"--plan {path} has the digest {plan.digest.hex()}; no run in this store is of that plan")
        costs[plan.digest] = run_cost(plan.mechanism, plan.distance)
    return costs


def _print(listed: list["Account"], title: str) -> None:
    from fastlloyd.base.precision import rounded_up

    limits = [None if one.limit is None or math.isinf(one.limit.epsilon) else one.limit.epsilon for one in listed]
    columns = [
        Column(heading="data set", cells=[one.dataset for one in listed], justify="left"),
        Column(heading="runs", cells=[f"{len(one.runs)}" + (f" ({one.n_open} open)" if one.n_open else "") for one in listed]),
        Column(heading="spent", cells=[rounded_up(one.epsilon) for one in listed]),
        Column(heading="at delta", cells=[f"{one.delta:.3g}" for one in listed]),
        Column(heading="limit", cells=["none" if limit is None else f"{limit:g}" for limit in limits]),
        Column(heading="left for one run", cells=["" if one.left is None else _down(one.left) for one in listed]),
    ]
    console = terminal.console()
    terminal.show(console, title, columns)
    for one in listed:
        for sentence in _meaning(one):
            console.print(f"{one.dataset}: {sentence}", soft_wrap=True)


def _meaning(one: "Account") -> list[str]:
    """Explain the row of a data set, in sentences."""
    from fastlloyd.base.precision import rounded_up
    from fastlloyd.federation.ledger import ADD

    said = []
    if one.runs:
        adding = one.relation is ADD
        counted, other = ("added or removed", "replaced") if adding else ("replaced", "added or removed")
        spent = one.otherwise.epsilon(one.delta)
        also = f"of one {other} it is {rounded_up(spent)}" if math.isfinite(spent) else f"of one {other} no bound is known"
        said.append(f"spent is counted for one record {counted}; {also}.")
        if one.otherwise.n_unknown:
            said.append("a run of an earlier version does not say what it costs there; its plan does: --plan FILE.")
    first = one.first_limit
    if one.proviso is not None:
        said.append(_condition(one.proviso))
    elif first is not None:
        said.append(
            f"all runs together stay within epsilon {first.epsilon:g} at delta {first.delta:g}, however they were chosen: that "
            "limit was set before the first run."
        )
    if one.limit is not None and math.isfinite(one.limit.epsilon):
        if not one.is_within:
            said.append("more is spent than the limit has room for; no further run is allowed.")
        elif (one.left_pure or 0) > (one.left or 0):
            said.append(f"a run with Laplace noise only may cost {_down(one.left_pure or 0)}.")
    return said


def _condition(proviso: "Proviso") -> str:
    return f"the sum holds only if nobody chose number or size of the runs by looking at results: {proviso.value}."


def _spent(spending: "Spending", delta: float) -> dict[str, Any]:
    epsilon = spending.epsilon(delta)
    return {
        "epsilon": epsilon if math.isfinite(epsilon) else None,
        "mu_squared": str(spending.mu_squared),
        "pure_epsilon": str(spending.pure_epsilon),
        "exchanges_without_bound": spending.n_unknown,
    }


def _summary(one: "Account") -> dict[str, Any]:
    from fastlloyd.federation.ledger import ADD, REPLACE

    limit, first = one.limit, one.first_limit
    return {
        "data_set": one.dataset,
        "spent": {
            "epsilon": one.epsilon if math.isfinite(one.epsilon) else None,
            "delta": one.delta,
            "mu_squared": str(one.spent.mu_squared),
            "pure_epsilon": str(one.spent.pure_epsilon),
            "neighboring_relation": one.relation.value if one.runs else None,
        },
        "spent_by_relation": {
            one.relation.value: _spent(one.spent, one.delta),
            (REPLACE if one.relation is ADD else ADD).value: _spent(one.otherwise, one.delta),
        },
        "limit": None
        if limit is None or math.isinf(limit.epsilon)
        else {
            "epsilon": limit.epsilon,
            "delta": limit.delta,
            "holds_all": one.is_within,
            "left_for_one_run": one.left,
            "left_for_one_run_with_laplace_noise": one.left_pure,
        },
        "holds_whatever_runs_were_chosen_by": {"epsilon": first.epsilon, "delta": first.delta}
        if first is not None and one.proviso is None
        else None,
        "holds_if_runs_were_not_chosen_from_results": one.proviso.value if one.proviso else None,
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


def _found(history: "History", client: str) -> str:
    """Return the signing key of a client that was seen; `client` is that key or its name. Raises StateError."""
    if client.lower() in history.peers:
        return client.lower()
    named = [key for key, event in history.signed.items() if event.client == client]
    if len(named) == 1:
        return named[0]
    if named:
        raise StateError(
            f"{len(named)} identities were called {client!r:.80}; give the signing key of one, as ledger positions shows it"
        )
    names = sorted({event.client for event in history.signed.values()})
    raise StateError(
        f"client {unknown_name(client, names)}; give its name or its signing key, as ledger positions shows them"
        if names
        else f"client {client!r:.80} was not seen; give a signing key, as ledger positions shows it"
    )


GROUP = {"positions": positions, "forget": forget, "show": show, "verify": verify, "limit": limit, "release": release}
