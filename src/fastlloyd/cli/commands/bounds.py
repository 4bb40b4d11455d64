"""`fastlloyd bounds template`: a file of public bounds to fill in, with the names of the columns and nothing else."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from fastlloyd.base.files import check_file, write_file
from fastlloyd.base.names import listing, parse_columns
from fastlloyd.cli.options import Columns, Data, in_output
from fastlloyd.errors import DataError, OutputError

EXPLAINED = 5  # columns that are left out

Template = Annotated[Path | None, in_output(help="File to make. Default: the screen.", metavar="FILE")]
Force = Annotated[bool, in_output("--force", help="Replace an earlier file of bounds.")]


def template(data: Data, columns: Columns = None, out: Template = None, force: Force = False) -> None:
    """Write the names of the columns of DATA, with blanks for their bounds.

    It uses no value. Which columns of a text file hold numbers it sees in the first 100 records.
    """
    from fastlloyd.records import NUMERIC, open_records
    from fastlloyd.records.bounds import TEMPLATE_HEADING, bounds_template

    if out is None:
        if force:
            raise OutputError("--force is about the file to make; name it with --out FILE")
    else:
        if out.suffix.lower() != ".toml":
            raise OutputError(f"{out} does not end in .toml, by which --bounds knows such a file; choose another name")
        check_file(out, heading=TEMPLATE_HEADING, force=force)
    records = open_records(data, NUMERIC if columns is None else parse_columns(columns))
    text = bounds_template(records.columns)
    if columns is None and records.others:
        typer.echo(
            f"Note: left out {listing(records.others)}: not all cells there are numbers, and only numbers are clustered. "
            "Choose columns yourself with --columns.",
            err=True,
        )
        for reason in _reasons(data, records.others[:EXPLAINED] if records.pieces else ()):
            typer.echo(f"- {reason}", err=True)
    if out is None:
        typer.echo(text, nl=False)
    else:
        write_file(out, text)
        typer.echo(f"Written to {out}. Fill in two public numbers for every column, then pass --bounds {out}.")


def _reasons(data: str, columns: Iterable[str]) -> Iterator[str]:
    """Yield why each column is left out: the error that choosing it gives. What comes through a pipe cannot be read again."""
    from fastlloyd.records import Missing, open_records

    for name in columns:
        try:
            next(open_records(data, [name], missing=Missing.DROP).blocks(), None)
        except DataError as error:
            yield str(error)


GROUP = {"template": template}
