"""Command `fastlloyd ledger`: show and limit what runs spend on each data set, and show the store
positions that a server remembers.
"""

import re
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from fastlloyd.base.files import write_bytes
from fastlloyd.base.names import same
from fastlloyd.cli.commands.ledger_positions import Force, Json, _position, forget, positions
from fastlloyd.cli.options import LedgerFile as OwnLedger
from fastlloyd.cli.terminal import print_json, utc
from fastlloyd.errors import BudgetError, StateError

LedgerFile = Annotated[
    Path | None,
    typer.Argument(
        help=(
            "A ledger, or a client's store, NAME.store, or the identity next to it,"
            " NAME.identity.toml. Default: your ledger, which is the file that the variable"
            " FASTLLOYD_LEDGER names, or one in your state folder."
        ),
        metavar="[FILE]",
        show_default=False,
    ),
]
StoreFile = Annotated[
    Path,
    typer.Argument(
        help="A store, NAME.store, or the identity next to it, NAME.identity.toml.", metavar="STORE"
    ),
]
DataSet = Annotated[str, typer.Option(help="Name of the data set.", metavar="NAME")]
OneDataSet = Annotated[
    str | None, typer.Option("--dataset", help="Show only this data set.", metavar="NAME")
]
AtDelta = Annotated[
    float | None,
    typer.Option(
        "--delta",
        help=(
            "Delta at which epsilon is shown. Choose 0 only if all noise is Laplace noise."
            " Default: the delta of the limit."
        ),
        metavar="D",
    ),
]
Runs = Annotated[
    int,
    typer.Option(
        "--runs",
        min=1,
        max=100_000,
        help="Show what is left for each of N further runs.",
        metavar="N",
    ),
]
Figure = Annotated[
    Path | None,
    typer.Option(
        "--figure",
        help=(
            "PNG file to make. The picture shows the epsilon that is spent on the data set, and"
            " the epsilon that is left."
        ),
        metavar="FILE",
    ),
]
Unit = Annotated[
    str | None,
    typer.Option(
        "--unit",
        help=(
            "Unit that the limit protects: the word for one person in the ledger, such as"
            " patient. Default: records."
        ),
        metavar="NAME",
    ),
]
Relation = Annotated[
    str | None,
    typer.Option(
        "--neighboring-relation",
        help=(
            "Neighbouring relation of the limit: one record (or person) is added or removed, or"
            " one is replaced. Default: 'add_or_remove_one'. A limit for records has the default"
            " 'replace_one' if all runs on the data set use 'replace_one'."
        ),
        metavar="add_or_remove_one|replace_one",
    ),
]
MaxClients = Annotated[
    int | None,
    typer.Option(
        "--max-clients-per-person",
        min=1,
        help=(
            "Largest number of organisations that may have records of the same person. Default: 1."
        ),
        metavar="C",
    ),
]
RunId = Annotated[
    str,
    typer.Option(
        help="Id of the run, as its plan and `fastlloyd status STORE` show it.", metavar="HEX"
    ),
]
Epsilon = Annotated[
    float,
    typer.Option(
        help="Largest epsilon that all runs together may spend; inf lifts the limit.",
        metavar="E|inf",
    ),
]
NewDataSet = Annotated[
    bool,
    typer.Option(
        "--new",
        help=(
            "Confirm that the data set is new: no run was counted under its name, and it has"
            " no limit."
        ),
    ),
]
NewUnit = Annotated[
    bool,
    typer.Option(
        "--new-unit",
        help=(
            "Confirm that earlier runs on this data set protected another unit (such as cases,"
            " not patients), and count the epsilon for this unit separately."
        ),
    ),
]
Delta = Annotated[
    float,
    typer.Option(
        help="The delta of the limit, at most 1 / (100 times the number of records).", metavar="D"
    ),
]


def show(
    file: LedgerFile = None,
    dataset: OneDataSet = None,
    delta: AtDelta = None,
    runs: Runs = 1,
    figure: Figure = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Show the runs on each data set, the epsilon that they spent, the limits, and the epsilon that
    the limits leave. Sentences below the table explain when each total is valid.
    """
    from fastlloyd.cli import accounts as shown
    from fastlloyd.cli import ledgers
    from fastlloyd.federation import ledger
    from fastlloyd.federation.holder import HoldersLedger
    from fastlloyd.federation.store import Role, read

    path = ledgers.path_of(file)
    if delta is not None:
        ledgers.check_delta(delta)
    if figure is not None:
        ledgers.check_figure(figure, force=force)
    if file is None and not HoldersLedger(path).is_there():
        typer.echo(f"There is no ledger {path} yet: no run has named a data set.")
        return
    contents, events = read(path)
    dates = shown.dates_of(events, contents.seconds)
    if contents.role is Role.SERVER:
        raise StateError(
            f"{path} is the store of a server; only clients have records, and a ledger"
        )
    listed = ledger.accounts(contents.history)
    if dataset is not None:
        ledgers.check_there(dataset, contents.history)
        listed = [one for one in listed if same(one.dataset) == same(dataset)]
    if figure is not None:
        write_bytes(figure, ledgers.picture(listed, delta, runs))
    if json:
        print_json(
            {"data_sets": [shown.summary(one, delta, runs, dates) for one in listed]}
            | _position(contents)
        )
    elif listed:
        shown.show(listed, str(path), delta, runs)
        shown.show_runs([] if dataset is None else listed, dates)
    else:
        typer.echo(f"No run was joined from {path}, and no limit is set.")
    if figure is not None and not json:
        typer.echo(f"Drawn in {figure}.")


def verify(file: LedgerFile = None, json: Json = False) -> None:
    """Check the chain of all events, and all sums by a second method."""
    from fastlloyd.cli import ledgers
    from fastlloyd.federation.ledger import check_sums
    from fastlloyd.federation.store import read
    from fastlloyd.federation.store.events import n_events

    path = ledgers.path_of(file)
    contents, _ = read(path)
    check_sums(contents.history)
    if json:
        print_json({"sound": True, "role": contents.role.value} | _position(contents))
        return
    position = contents.position
    events = n_events(position.length)
    typer.echo(f"{path} is sound: {contents.role.store}, {events}, head {position.head.hex()}.")
    if contents.seconds:
        first, last = utc(contents.seconds[0]), utc(contents.seconds[-1])
        typer.echo(f"First event: {first}; last: {last} (by this machine's clock at the time).")


def log(file: LedgerFile = None, json: Json = False) -> None:
    """List all events of a ledger or a store, each with its time in UTC.

    The times are from the machine's clock. They are for people: no decision depends on them.
    """
    from fastlloyd.cli import event_words, ledgers
    from fastlloyd.federation.store import read

    path = ledgers.path_of(file)
    contents, events = read(path)
    rows = event_words.rows(events, contents.seconds)
    if json:
        print_json({"log": rows} | _position(contents))
        return
    for row, event, seconds in zip(rows, events, contents.seconds, strict=True):
        run = event_words.run_of(event)
        typer.echo(
            f"{row['number']:>6}  {utc(seconds)}  {row['says']}{f' (run {run})' if run else ''}"
        )
    if not rows:
        typer.echo(f"{path} has no events.")


def limit(
    dataset: DataSet,
    epsilon: Epsilon,
    delta: Delta,
    file: LedgerFile = None,
    unit: Unit = None,
    neighboring_relation: Relation = None,
    max_clients_per_person: MaxClients = None,
    new: NewDataSet = False,
    new_unit: NewUnit = False,
    json: Json = False,
) -> None:
    """Set how much all runs on a data set may spend together. A run beyond the limit is refused
    before it starts.

    A limit protects single records or whole persons, either against adding or removing one, or
    against replacing one. Each kind of limit is separate; a run must satisfy all limits. If your
    ledger, or the store of an identity, is missing, it is made. A limit below the epsilon already
    spent is accepted, and then allows no further run. A run that was joined before may continue.
    """
    from fastlloyd.cli import accounts as shown
    from fastlloyd.cli import ledgers
    from fastlloyd.federation.admission import check_known, check_known_unit
    from fastlloyd.federation.ledger import account
    from fastlloyd.federation.store import History, Role

    event = ledgers.limit_event(
        dataset, epsilon, delta, unit, neighboring_relation, max_clients_per_person
    )
    if new_unit and unit is None:
        raise BudgetError("--new-unit needs --unit NAME, a word for one person, such as patient")
    if not ledgers.is_there(file):
        check_known(History(Role.HOLDER), dataset, new=new)  # before a ledger is made
    with ledgers.opened(file, new=new) as store:
        check_known(store.history, dataset, new=new)
        if unit is not None and not new_unit:
            check_known_unit(dataset, unit, "--unit", store.history)
        store.append(store.history.on_all_spellings(event))
        one = account(store.history, dataset, speaks_of=event.speaks_of)
    if json:
        print_json(shown.summary(one))
    else:
        ledgers.say_limit(one, event)


def release(file: StoreFile, run: RunId, ledger: OwnLedger = None, json: Json = False) -> None:
    """Give up a run that a client or server will not continue. The budget of rounds that were
    never charged becomes free again. The party never sends anything in this run again.
    """
    from fastlloyd.cli import ledgers
    from fastlloyd.federation.holder import HoldersLedger, place
    from fastlloyd.federation.store import Role, Store, store_path
    from fastlloyd.federation.store.events import Outcome
    from fastlloyd.jobs.digests import mistyped

    if not re.fullmatch(r"[0-9a-f]{32}", run):
        raise StateError(
            f"--run is {run!r:.80}; expected the 32 hex digits that `fastlloyd status` and the plan"
            " show"
        )
    run_id, held = bytes.fromhex(run), HoldersLedger(place(ledger))
    with Store.open(store_path(file)) as store:
        if store.role is Role.HOLDER:
            raise StateError(
                f"{store.path} is {store.role.store}; give the run up in the store of its client"
            )
        is_client = store.role is Role.CLIENT
        if is_client and held.release_unbegun(store, run_id):
            if json:
                print_json({"run_id": run, "released": [], "charged": []})
            else:
                typer.echo(
                    f"Run {run} is given up in {held.path}: it never began, and nothing had been"
                    " charged."
                )
            return
        for known in (other.hex() for other in store.history.runs):
            if what := mistyped(run, known):
                raise StateError(f"--run is nearly the id of a run in {store.path}: {what}")
        ledgers.check_has_not_ended(store, run_id, is_client=is_client)
        end = store.history.open_run(run_id).end(Outcome.ABORTED, "given up by its owner")
        store.append([end])
        charged = store.history.runs[end.run_id].charged
        with suppress(StateError):
            if is_client:
                held.follow(store, only_if_there=True)
    if json:
        print_json({"run_id": run, "released": list(end.released), "charged": list(charged)})
    else:
        typer.echo(
            f"Run {run} is given up. Rounds released: {len(end.released)}. Rounds that stay"
            f" charged: {len(charged)}."
        )


GROUP = {
    "positions": positions,
    "forget": forget,
    "show": show,
    "verify": verify,
    "log": log,
    "limit": limit,
    "release": release,
}
