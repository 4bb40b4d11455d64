"""Find and open ledgers and stores, and set limits, for the commands `fastlloyd ledger`."""

import math
from pathlib import Path

import typer

from fastlloyd.base.files import check_file
from fastlloyd.base.names import choose, same, unknown_name
from fastlloyd.base.precision import delta_up, epsilon_up, rounded_up
from fastlloyd.cli.network import client_store, has_store
from fastlloyd.cli.screen import on_stderr
from fastlloyd.cli.terminal import iso
from fastlloyd.dp.neighboring import MAX_CLIENTS, NeighboringRelation, Neighbours
from fastlloyd.errors import BudgetError, OutputError, StateError
from fastlloyd.federation.admission import check_dataset, check_unit_name
from fastlloyd.federation.holder import HoldersLedger, place
from fastlloyd.federation.ledger import Account, account, finite, known_datasets, sums_on
from fastlloyd.federation.store import History, Role, Store, read, store_path
from fastlloyd.federation.store.events import Limit, LimitSet, UnitLimitSet
from fastlloyd.reports import budget
from fastlloyd.reports.accounts import LedgerTotal, condition, down

PNG = b"\x89PNG"


def check_figure(figure: Path, *, force: bool) -> None:
    """Raise OutputError if the figure cannot be written, or if its suffix is not an
    image format.
    """
    check_file(figure, heading=PNG, force=force)
    if figure.suffix.lower() != ".png":
        raise OutputError(
            f"{figure} does not end in .png, and the picture is a PNG; choose another name"
        )


def say_limit(one: Account, event: Limit) -> None:
    """Print the limit that was set, and the epsilon spent."""
    whom = "" if event.speaks_of is None else f" for {event.speaks_of}"
    spent = (
        f"All runs so far spent epsilon {rounded_up(one.epsilon)} at delta {delta_up(event.delta)}."
        if math.isfinite(one.epsilon)
        else f"Together, all runs so far have no finite epsilon at delta {delta_up(event.delta)}."
    )
    if finite(event) is None:
        typer.echo(f"Data set {one.dataset!r} has no limit{whom} any more. {spent}")
    else:
        typer.echo(
            f"Data set {one.dataset!r} has the limit epsilon {epsilon_up(event.epsilon)} at delta"
            f" {delta_up(event.delta)}{whom}. {spent}"
        )
        if not one.left and not one.left_pure:
            typer.echo("No epsilon is left: every further run will be refused.")
    if one.proviso is not None:
        typer.echo(f"Note: {condition(one.proviso)}")


def path_of(file: Path | None) -> Path:
    """Return the path of a ledger or store: `file`, or the user's own ledger if it is None."""
    return place() if file is None else store_path(file)


def is_there(file: Path | None) -> bool:
    """Return whether the ledger or store exists. None means the user's own ledger."""
    return HoldersLedger(path_of(None)).is_there() if file is None else has_store(file)


def total_of(file: Path | None, digest: bytes) -> LedgerTotal | None:
    """Return the total of the data set to which the run with this digest is charged in a ledger.
    Return None unless exactly one data set has such a run.

    file : ledger, or None for the user's own ledger, if there is one.

    Raises StateError if `file` is a store. A store contains the runs of one identity only.
    """
    if file is None and not is_there(None):
        return None
    contents, _ = read(path_of(file))
    if contents.role is not Role.HOLDER:
        raise StateError(
            f"{file} is {contents.role.store}, which knows only the runs of one identity; pass the"
            " ledger of the records' owner, which counts all runs"
        )
    history = contents.history
    named = {
        same(run.reserved.dataset)
        for run in history.runs.values()
        if run.reserved is not None and run.reserved.plan_digest == digest
    }
    if len(named) != 1:
        return None
    (dataset,) = named
    listed = [account(history, dataset, each) for each in sums_on(history, dataset)]
    return LedgerTotal(listed, iso(contents.seconds[-1])[:10])


def opened(file: Path | None, *, new: bool) -> Store:
    """Return an open ledger or store: `file`, or the user's own ledger if it is None.

    new : whether the data set is new. The ledger is then made if it is missing.
    """
    if file is not None:
        return client_store(file)
    return HoldersLedger(path_of(None), on_stderr).opened(new=new)


def limit_event(
    dataset: str,
    epsilon: float,
    delta: float,
    unit: str | None,
    relation: str | None,
    max_clients: int | None,
) -> Limit:
    """Return the event that sets a limit. Raises PlanError or BudgetError if an option has a wrong
    value. The message names the option.
    """
    check_dataset(dataset)
    if not epsilon > 0:
        raise BudgetError(
            f"epsilon is {epsilon:g}; expected a number above 0, or inf to lift the limit"
        )
    check_delta(delta)
    if unit is None and max_clients is not None:
        raise BudgetError(
            "--max-clients-per-person needs --unit NAME, a word for one person, such as patient"
        )
    if unit is None and relation is None:
        return LimitSet(dataset=dataset, epsilon=epsilon, delta=delta)
    if unit is not None:
        check_unit_name(unit)
    if max_clients is not None and max_clients > MAX_CLIENTS:
        raise BudgetError(f"--max-clients-per-person is {max_clients}; expected 1 to {MAX_CLIENTS}")
    spelled = (relation or NeighboringRelation.ADD_OR_REMOVE_ONE.value).replace("-", "_")
    asked = Neighbours(
        choose(NeighboringRelation, spelled, "neighboring_relation"), unit, max_clients or 1
    )
    return UnitLimitSet(dataset=dataset, epsilon=epsilon, delta=delta, speaks_of=asked)


def check_delta(delta: float) -> None:
    """Raise BudgetError unless this delta is at least 0 and below 1. Only then can epsilon be added
    up.
    """
    if not 0 <= delta < 1:
        raise BudgetError(
            f"delta is {delta:g}; expected 0 or more and below 1, such as 1 / (100 n) for n records"
        )


def check_there(dataset: str, history: History) -> None:
    """Raise BudgetError unless the ledger contains the data set."""
    known = known_datasets(history)
    if history.called(dataset) not in known:
        raise BudgetError(
            f"data set {unknown_name(dataset, known)}"
            if known
            else f"data set {dataset!r:.80} is unknown; the ledger has no data sets yet"
        )


def picture(listed: list[Account], delta: float | None, n_runs: int) -> bytes:
    """Return the picture of all totals of one data set at one delta, as PNG.

    Raises BudgetError if there are several data sets, or none.
    """
    names = sorted({one.dataset for one in listed})
    if len(names) != 1:
        raise BudgetError(
            f"--figure draws one data set, but there are {len(names)}; choose one with --dataset"
            " NAME"
        )
    at = listed[0].delta if delta is None else delta
    lines = [budget.line_of(one, at, n_runs) for one in listed]
    if at == 0 and all(math.isinf(line.epsilons[-1]) for line in lines):
        raise BudgetError(
            f"--figure cannot draw data set {names[0]!r} at delta 0: a run with Gaussian noise has"
            " no finite epsilon there; choose a larger --delta"
        )
    left, each = (
        listed[0].left_for(n_runs, delta),
        f"left for each of {n_runs} more runs" if n_runs > 1 else "left for one more run",
    )
    unknown = (
        "no limit"
        if finite(listed[0].limit) is None
        else ("the epsilon left is not known at this delta")
    )
    words = unknown if left is None else f"{each}: epsilon {down(left)}"
    return budget.draw(f"{names[0]}, at delta {delta_up(at)}", lines, words)


def check_has_not_ended(store: Store, run_id: bytes, *, is_client: bool) -> None:
    """Raise StateError if the run has ended, or if it never began in the store of a server."""
    run, what = store.history.runs.get(run_id), f"run {run_id.hex()}"
    if run is None and not is_client:
        raise StateError(f"{what} never began in {store.path}; there is nothing to give up")
    if run is not None and run.ended is not None:
        raise StateError(f"{what} has ended in {store.path}; there is nothing to give up")
