"""Commands `fastlloyd bounds template` and `estimate`: write files of bounds.

A template has blanks that people fill in. Estimated bounds contain noise, and have a guarantee.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fastlloyd.base.files import check_file, write_bytes, write_file
from fastlloyd.base.names import listing, parse_columns
from fastlloyd.cli import terminal
from fastlloyd.cli.layout_options import LayoutOptions
from fastlloyd.cli.mechanism_options import GuaranteeOptions
from fastlloyd.cli.options import (
    Columns,
    Data,
    Engine,
    LedgerOptions,
    MissingCells,
    OutsideBounds,
    UnitColumn,
    UnitName,
    ValueRange,
    in_output,
)
from fastlloyd.cli.recipes import RecipeFile
from fastlloyd.errors import DataError, OutputError

if TYPE_CHECKING:
    from fastlloyd.jobs.bounds import BoundsOutcome
    from fastlloyd.records import Layout

EXPLAINED = 5  # columns that are left out
PAGE_SUFFIX, PAGE_HEADING = ".html", "<!doctype html>"  # of the page next to a file of bounds

Template = Annotated[
    Path | None, in_output(help="File to make. Default: the screen.", metavar="FILE")
]
Found = Annotated[
    Path | None,
    in_output(
        "--out", help="File to make, for --bounds. Default: the screen alone.", metavar="FILE"
    ),
]
Json = Annotated[
    bool, in_output("--json", help="Print the result as JSON, and everything else to stderr.")
]
Force = Annotated[bool, in_output("--force", help="Replace an earlier file of bounds.")]


def template(
    data: Data,
    layout: LayoutOptions,
    columns: Columns = None,
    out: Template = None,
    force: Force = False,
) -> None:
    """Write a file with the names of the columns of DATA, and with blanks for their bounds.

    No value of DATA enters the file. In a text file, the first 100 records decide which columns are
    numeric.
    """
    from fastlloyd.records import NUMERIC, open_records
    from fastlloyd.records.bounds import TEMPLATE_HEADING, bounds_template

    _check_out(out, heading=TEMPLATE_HEADING, force=force)
    stated = layout.layout()
    records = open_records(
        data, NUMERIC if columns is None else parse_columns(columns), layout=stated
    )
    text = bounds_template(records.columns)
    if columns is None and records.others:
        typer.echo(
            f"Note: left out {listing(records.others)}: not all cells there are numbers, and only"
            " numbers are clustered. Choose columns yourself with --columns.",
            err=True,
        )
        left_out = records.others[:EXPLAINED] if records.pieces else ()
        for reason in _reasons(data, left_out, stated):
            typer.echo(f"- {reason}", err=True)
    if out is None:
        typer.echo(text, nl=False)
    else:
        write_file(out, text)
        typer.echo(
            f"Written to {out}. Fill in two public numbers for every column that you use, then pass"
            f" --bounds {out}."
        )


def _reasons(data: str, columns: Iterable[str], layout: "Layout") -> Iterator[str]:
    """Yield the text of an error for each column that the template leaves out. A user who chooses
    this column would get this error.

    For a pipe, nothing is yielded, because it cannot be read again.
    """
    from fastlloyd.records import Missing, open_records

    for name in columns:
        try:
            records = open_records(data, [name], missing=Missing.DROP, layout=layout)
            next(records.blocks(), None)
        except DataError as error:
            yield str(error)


def estimate(
    data: Data,
    guarantee: GuaranteeOptions,
    ledger: LedgerOptions,
    layout: LayoutOptions,
    value_range: ValueRange = None,
    columns: Columns = None,
    recipe: RecipeFile = None,
    missing: MissingCells = "refuse",
    outside: OutsideBounds = "clip",
    engine: Engine = None,
    unit_column: UnitColumn = None,
    unit_name: UnitName = None,
    out: Found = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Find bounds of the columns of DATA with differential privacy, for the option --bounds. To
    find bounds and then cluster with one budget, use `fit --range`.
    """
    from fastlloyd.base.problems import Faults
    from fastlloyd.cli import persons, recipes, requests
    from fastlloyd.cli.interruption import Interruption, Stage
    from fastlloyd.cli.progress import Progress
    from fastlloyd.jobs.bounds import BoundsRequest

    faults = Faults()
    with faults.noted("out"):
        _check_found(out, force=force)
    account = faults.value(None, lambda: requests.given_account(ledger, "bounds", data), "dataset")
    of = faults.value(None, lambda: persons.persons_in(unit_column, unit_name), "unit_name")
    using = recipes.noted_recipe(faults, recipe, columns, searching=True)
    searched = faults.value(None, lambda: recipes.ranges_of(using, value_range), "value_range")
    request = BoundsRequest(
        records=requests.given_files(
            data,
            columns,
            missing,
            unit_column,
            engine,
            layout,
            faults,
            faults.value(None, lambda: recipes.for_search(using), "recipe"),
            searched,
        ),
        choices=requests.given_guarantee(guarantee, of),
        value_range=searched,
        outside=outside,
        account=account,
    )
    with Interruption("search for bounds", account, out) as interruption:
        with Progress(as_json=json) as progress:
            prepared = request.prepare(faults)
            found = prepared.carry_out(interruption.running(progress))
        interruption.stage = Stage.OVER
        _end(found, out, recipe, as_json=json)


def _end(found: "BoundsOutcome", out: Path | None, recipe: Path | None, *, as_json: bool) -> None:
    """Write and show the bounds.

    found : outcome of the search.
    out : file for the bounds, or None.
    recipe : file of the recipe, or None.
    """
    from fastlloyd.cli import accounts, recipes, screen
    from fastlloyd.reports.bounds_result import BoundsResult
    from fastlloyd.reports.facts import said
    from fastlloyd.reports.page.bounds import page_of_bounds
    from fastlloyd.reports.plan_facts import cautions
    from fastlloyd.reports.stored_files import StoredFiles

    result = BoundsResult(mechanism=found.mechanism, bounds=found.bounds)
    owner = screen.OwnersScreen(as_json=as_json)
    screen.warn([*found.leaks, *said(cautions(result.mechanism), result.mechanism.unit)])
    owner.left_out(found.source.dropped)
    owner.clipped(found.source.clipped, result.mechanism.domain.features, ends="--range")
    if out is not None:
        write_file(out, result.text_with_statement(recipes.with_ranges(recipe)))
        page = page_of_bounds(StoredFiles(out.parent, result.files()), [out.name])
        write_bytes(out.with_suffix(PAGE_SUFFIX), page)
    screen.show(terminal.console(stderr=as_json), result)
    for remark in accounts.remarks(found.charged, has_noise=True):
        terminal.console(stderr=as_json).print(remark)
    if as_json:
        terminal.print_json(result.summary())
    if out is not None:
        _say_where(out, "--bounds" if recipe is None else "--recipe", as_json=as_json)


def _check_found(out: Path | None, *, force: bool) -> None:
    """Raise OutputError if the bounds and their page cannot be written to `out`."""
    from fastlloyd.reports.bounds_result import FOUND

    _check_out(out, heading=f"# {FOUND}", force=force)
    if out is not None:
        check_file(out.with_suffix(PAGE_SUFFIX), heading=PAGE_HEADING, force=force)


def _say_where(out: Path, option: str, *, as_json: bool) -> None:
    """Print the files of the bounds, and the option that takes them."""
    page = out.with_suffix(PAGE_SUFFIX)
    typer.echo(
        f"Written to {out}, with the privacy statement, and to {page}, a page for people. Pass"
        f" {option} {out}.",
        err=as_json,
    )


def _check_out(out: Path | None, *, heading: str, force: bool) -> None:
    """Raise OutputError if the file of bounds cannot be written.

    heading : first line of the content, by which an existing file of bounds is recognised.
    force : whether to replace an existing file of bounds.
    """
    if out is None:
        if force:
            raise OutputError("--force needs a file to make; name it with --out FILE")
        return
    if out.suffix.lower() != ".toml":
        raise OutputError(
            f"{out} does not end in .toml, as a file for --bounds must; choose another name"
        )
    check_file(out, heading=heading, force=force)


GROUP = {"template": template, "estimate": estimate}
