"""`fastlloyd simulate`: a federated run in this process."""

from typing import Annotated

import typer

from fastlloyd.cli.options import (
    FEDERATION,
    Columns,
    CompareNonPrivate,
    Data,
    FederationOptions,
    MechanismOptions,
    MissingCells,
    OutsideBounds,
    ResultOptions,
)

Clients = Annotated[
    int,
    typer.Option(
        "--clients", min=1, max=1000, help="How many clients share the records evenly.", metavar="M", rich_help_panel=FEDERATION
    ),
]
DroppedUploads = Annotated[
    list[str] | None,
    typer.Option(
        "--drop",
        help="CLIENT@ROUND: that upload is lost; CLIENT@ROUND+: gone from then on. Several times.",
        metavar="CLIENT@ROUND",
        rich_help_panel=FEDERATION,
        show_default=False,
    ),
]


def simulate(
    data: Data,
    clients: Clients,
    mechanism: MechanismOptions,
    federation: FederationOptions,
    output: ResultOptions,
    columns: Columns = None,
    missing: MissingCells = "refuse",
    outside: OutsideBounds = "clip",
    drop: DroppedUploads = None,
    compare_non_private: CompareNonPrivate = False,
) -> None:
    """Split the records of one file over clients and run them together in this process, message by message."""
    from fastlloyd.cli import results
    from fastlloyd.cli.commands.federated import run_split, trust
    from fastlloyd.cli.settings import check_options, on_grid, public_numbers, read_all
    from fastlloyd.federation.simulation import parse_drop

    place = results.of_run(output, data, mechanism.n_clusters)
    if compare_non_private:
        results.check_comparison(mechanism)
    check_options(mechanism, missing, outside)
    names = [f"client-{i}" for i in range(1, clients + 1)]
    trust(mechanism, federation)
    dropped = [parse_drop(text, names) for text in drop or ()]
    table = read_all(data, columns, missing)
    numbers = public_numbers(mechanism, table, missing)
    X = on_grid(table, numbers.domain, outside)
    result = run_split(X, names, numbers, mechanism, federation, dropped)
    results.end(result, output, place, table, X, with_comparison=compare_non_private)
