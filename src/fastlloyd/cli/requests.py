"""Turn the options of commands into requests for jobs."""

import math
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import typer

from fastlloyd.base.names import fraction, listing, parse_columns
from fastlloyd.base.problems import Faults
from fastlloyd.cli.layout_options import LayoutOptions
from fastlloyd.cli.mechanism_options import GuaranteeOptions, MechanismOptions
from fastlloyd.cli.options import FederationOptions, LedgerOptions
from fastlloyd.errors import BudgetError, DataError
from fastlloyd.federation.admission import DataSet
from fastlloyd.federation.store.noted import checked_purpose
from fastlloyd.jobs.account import BudgetAccount
from fastlloyd.jobs.choices import (
    FROM_DATA,
    PRIVATE,
    BoundsText,
    ClusteringChoices,
    GuaranteeChoices,
    StatedBounds,
)
from fastlloyd.jobs.data_files import files_of
from fastlloyd.jobs.simulate import FederationChoices
from fastlloyd.jobs.source import FileSource
from fastlloyd.mechanisms.lloyd.algorithm import VARIED
from fastlloyd.mechanisms.persons import Persons
from fastlloyd.mechanisms.settings import AnyAlgorithm
from fastlloyd.records.bounds import named_columns
from fastlloyd.records.recipe.rows import Using


def given_files(
    data: str,
    columns: str | None,
    missing: str,
    unit_column: str | None,
    engine: str | None,
    layout: LayoutOptions,
    faults: Faults,
    recipe: Using | None = None,
    bounds: StatedBounds | None = None,
) -> FileSource:
    """Return the source of the records that the options name.

    faults : collection that receives a fault in --columns.
    bounds : bounds, or ranges, of the columns. They name the columns to use if --columns does not.
    """
    features = None
    if recipe is None:
        features = faults.value(
            None,
            lambda: _with_bounds(bounds) if columns is None else parse_columns(columns),
            "columns",
        )
    return FileSource(
        path=data,
        features=features,
        missing=missing,
        unit_column=unit_column,
        engine=engine,
        recipe=recipe,
        layout=faults.value(None, layout.layout),
    )


def _with_bounds(bounds: StatedBounds | None) -> list[str] | None:
    """Return the names of the columns for which bounds are stated, or None for all columns. Print
    the names of columns whose blanks were not filled in.
    """
    if not isinstance(bounds, BoundsText):
        return None
    named, blank = list[str](), list[str]()
    with suppress(DataError):  # which the check of the bounds finds again
        named, blank = named_columns(bounds.text)
    if named and blank:
        typer.echo(
            f"Note: left out {listing(blank)}: {bounds.text} has no numbers for them.", err=True
        )
    return named or None


def given_guarantee(
    options: GuaranteeOptions, persons: Persons | None, public_seed: str | None = None
) -> GuaranteeChoices:
    """Return the choices of a run that finds bounds, from its options."""
    return GuaranteeChoices(**asdict(options), persons=persons, public_seed=public_seed)


def given_clustering(
    options: MechanismOptions,
    persons: Persons | None,
    value_range: StatedBounds | None = None,
    bounds: StatedBounds | None = None,
) -> ClusteringChoices:
    """Return the choices of a clustering, from its options.

    persons : protected persons, or None for records.
    value_range : range in which bounds are to be found, or None.
    bounds : bounds, or None to take them from the options.
    """
    share = options.loss_share
    renamed = {
        "estimate_loss": options.loss,
        "n_iterations": options.iterations,
        "loss_share": (
            share if share is None or not math.isfinite(share) else fraction(share, "loss_share")
        ),
    }
    others = asdict(options).keys() - {"loss", "iterations", *VARIED}
    return ClusteringChoices(
        **{name: getattr(options, name) for name in others}
        | renamed
        | {
            "bounds": stated(options.bounds) if bounds is None else bounds,
            "value_range": value_range,
            "varied": {name: getattr(options, name) for name in VARIED},
            "persons": persons,
        }
    )


def stated_cap(n_records: str | None) -> int | None:
    """Return the cap on records that an option states, or None. Raises PlanError if the text is not
    a number of records.
    """
    return GuaranteeChoices(n_records=n_records).cap


def stated(text: str | None) -> StatedBounds | None:
    """Return the bounds that an option states, for parsing later. A special word such as "private"
    is returned unchanged, and so is None.
    """
    return text if text is None or text in (FROM_DATA, PRIVATE) else BoundsText(text)


def chosen_algorithm(options: MechanismOptions) -> AnyAlgorithm:
    """Return the algorithm that the options name. Raises PlanError if no algorithm has the name, or
    if it does not allow an option.
    """
    return given_clustering(options, None).chosen_algorithm


def given_federation(options: FederationOptions) -> FederationChoices:
    """Return the choices of a federation, from its options."""
    return FederationChoices(**asdict(options))


def given_account(options: LedgerOptions, by: str, data: str) -> BudgetAccount | None:
    """Return the account of the data set that the options name, or None if they name none.

    by : name of the command.
    data : path of the records, for the notes of the ledger.

    Raises BudgetError if the name cannot be used, or if an option has no effect without --dataset.
    """
    if options.dataset is not None:
        return BudgetAccount(
            given_dataset(options.dataset, options),
            options.ledger,
            by=by,
            purpose=checked_purpose(options.purpose),
            files=files_of(data),
        )
    for name in ("ledger", "new_dataset", "new_unit", "rows_are", "purpose"):
        if getattr(options, name):
            raise BudgetError(
                (
                    f"{name} needs the name of a data set, under which the ledger counts runs;"
                    " pass --dataset NAME"
                ),
                field=name,
            )
    return None


def noted_account(
    dataset: str,
    of_data: LedgerOptions,
    ledger: Path | None,
    data: str,
    purpose: str | None,
    faults: Faults,
) -> BudgetAccount:
    """Return the account of a client's data set. A fault of the purpose is noted in `faults`."""
    named, files = given_dataset(dataset, of_data), files_of(data)
    given = faults.value("", lambda: checked_purpose(purpose), "purpose")
    return BudgetAccount(named, ledger, by="join", files=files, purpose=given)


def given_dataset(name: str, options: LedgerOptions) -> DataSet:
    """Return the data set with this name and the properties in the options.

    Raises BudgetError if the name cannot be used.
    """
    return DataSet(
        name=name,
        rows_are=options.rows_are,
        is_new=options.new_dataset,
        is_new_unit=options.new_unit,
    )
