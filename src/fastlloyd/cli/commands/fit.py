"""Command `fastlloyd fit`: cluster the records of one organisation (the central model)."""

from pathlib import Path
from typing import Annotated

from fastlloyd.cli.layout_options import LayoutOptions
from fastlloyd.cli.mechanism_options import MechanismOptions
from fastlloyd.cli.options import (
    Columns,
    CompareNonPrivate,
    Data,
    Engine,
    LedgerOptions,
    MissingCells,
    OutsideBounds,
    ResultOptions,
    UnitColumn,
    UnitName,
    ValueRange,
    request_option,
)
from fastlloyd.cli.recipes import RecipeFile


def _carry_out(path: Path) -> None:
    from fastlloyd.cli import requested_fit

    requested_fit.carry_out(path)


RequestFile = Annotated[Path | None, request_option({"data": "-", "n_clusters": 1}, _carry_out)]


def fit(
    data: Data,
    mechanism: MechanismOptions,
    ledger: LedgerOptions,
    output: ResultOptions,
    layout: LayoutOptions,
    value_range: ValueRange = None,
    columns: Columns = None,
    recipe: RecipeFile = None,
    missing: MissingCells = "refuse",
    outside: OutsideBounds = "clip",
    engine: Engine = None,
    unit_column: UnitColumn = None,
    unit_name: UnitName = None,
    compare_non_private: CompareNonPrivate = False,
    request_file: RequestFile = None,  # noqa: ARG001 - its callback carries it out
) -> None:
    """Cluster the records of one organisation with differential privacy. A file larger than memory
    is read again in each round.
    """
    from fastlloyd.base.problems import Faults
    from fastlloyd.cli import accounts, persons, recipes, requests, results
    from fastlloyd.cli.interruption import Interruption, Stage
    from fastlloyd.cli.progress import Progress
    from fastlloyd.jobs.fit import FitRequest
    from fastlloyd.reports.result import Result

    faults = Faults()
    place = faults.value(
        results.NOWHERE, lambda: results.of_run(output, data, mechanism.n_clusters), "out"
    )
    if compare_non_private:
        with faults.noted("compare_non_private"):
            results.check_comparison(mechanism)
    account = faults.value(None, lambda: requests.given_account(ledger, "fit", data), "dataset")
    of = faults.value(None, lambda: persons.persons_in(unit_column, unit_name), "unit_name")
    using = recipes.noted_recipe(faults, recipe, columns, searching=True)
    ranges = faults.value(None, lambda: recipes.ranges_of(using, value_range), "value_range")
    bounds = faults.value(None, lambda: recipes.bounds_of(using, mechanism.bounds), "bounds")
    request = FitRequest(
        records=requests.given_files(
            data,
            columns,
            missing,
            unit_column,
            engine,
            layout,
            faults,
            using,
            bounds if ranges is None else ranges,
        ),
        choices=requests.given_clustering(mechanism, of, ranges, bounds),
        outside=outside,
        account=account,
    )
    with Interruption.of("fit", account, place) as interruption:
        with Progress(as_json=output.json) as progress:
            prepared = request.prepare(faults, progress)
            fit = prepared.carry_out(interruption.running(progress))
        interruption.stage = Stage.OVER
        results.end(
            Result.of_fit(fit),
            output,
            place,
            fit.source,
            with_comparison=compare_non_private,
            remarks=accounts.remarks(fit.charged, has_noise=fit.has_noise),
            clipped_by_range=fit.clipped_by_range,
        )
