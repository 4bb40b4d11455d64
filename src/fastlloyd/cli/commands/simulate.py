"""Command `fastlloyd simulate`: run all parties of a federated run in this process."""

from typing import Annotated

from fastlloyd.cli.layout_options import LayoutOptions
from fastlloyd.cli.mechanism_options import MechanismOptions
from fastlloyd.cli.options import (
    Columns,
    CompareNonPrivate,
    Data,
    Engine,
    FederationOptions,
    LedgerOptions,
    MaxClientsPerPerson,
    MissingCells,
    OutsideBounds,
    ResultOptions,
    UnitColumn,
    UnitName,
    in_federation,
)
from fastlloyd.cli.recipes import RecipeFile

Clients = Annotated[
    int,
    in_federation(
        "--clients",
        min=1,
        max=1000,
        help="Number of clients to which the records are dealt at random.",
        metavar="M",
    ),
]
DroppedUploads = Annotated[
    list[str] | None,
    in_federation(
        "--drop",
        help=(
            "Simulate lost uploads: CLIENT@ROUND loses the upload of one round, CLIENT@ROUND+ the"
            " uploads of this and all later rounds. May be given several times. Choose without"
            " looking at the records."
        ),
        metavar="CLIENT@ROUND",
    ),
]


def simulate(
    data: Data,
    clients: Clients,
    mechanism: MechanismOptions,
    federation: FederationOptions,
    ledger: LedgerOptions,
    output: ResultOptions,
    layout: LayoutOptions,
    columns: Columns = None,
    recipe: RecipeFile = None,
    missing: MissingCells = "refuse",
    outside: OutsideBounds = "clip",
    engine: Engine = None,
    drop: DroppedUploads = None,
    unit_column: UnitColumn = None,
    unit_name: UnitName = None,
    max_clients_per_person: MaxClientsPerPerson = None,
    compare_non_private: CompareNonPrivate = False,
) -> None:
    """Deal records to clients at random and run the clients together in this process, message by
    message.
    """
    from fastlloyd.base.problems import Faults
    from fastlloyd.cli import accounts, persons, recipes, requests, results
    from fastlloyd.cli.interruption import Interruption, Stage
    from fastlloyd.cli.progress import Progress
    from fastlloyd.jobs.simulate import SimulateRequest
    from fastlloyd.reports.result import Result

    faults = Faults()
    place = faults.value(
        results.NOWHERE, lambda: results.of_run(output, data, mechanism.n_clusters), "out"
    )
    if compare_non_private:
        with faults.noted("compare_non_private"):
            results.check_comparison(mechanism)
    account = faults.value(
        None, lambda: requests.given_account(ledger, "simulate", data), "dataset"
    )
    of = faults.value(
        None,
        lambda: persons.persons_in(unit_column, unit_name, max_clients_per_person),
        "unit_name",
    )
    using = recipes.noted_recipe(faults, recipe, columns)
    bounds = faults.value(None, lambda: recipes.bounds_of(using, mechanism.bounds), "bounds")
    request = SimulateRequest(
        records=requests.given_files(
            data, columns, missing, unit_column, engine, layout, faults, using, bounds
        ),
        choices=requests.given_clustering(mechanism, of, bounds=bounds),
        n_clients=clients,
        federation=requests.given_federation(federation),
        drops=drop or (),
        outside=outside,
        account=account,
    )
    with Interruption.of("simulation", account, place) as interruption:
        with Progress(as_json=output.json) as progress:
            prepared = request.prepare(faults, progress)
            simulated = prepared.carry_out(interruption.running(progress))
        interruption.stage = Stage.OVER
        result = Result.of_run(simulated.plan, simulated.run)
        results.end(
            result,
            output,
            place,
            simulated.source,
            with_comparison=compare_non_private,
            remarks=accounts.remarks(simulated.charged, has_noise=result.has_noise),
        )
