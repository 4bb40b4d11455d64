"""`fastlloyd experiment plot`, `table` and `report`: what came out of an experiment, for people. NOT PRIVATE."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fastlloyd.cli.options import OUTPUT

if TYPE_CHECKING:
    from fastlloyd.evaluation.pictures.summaries import Summaries
    from fastlloyd.evaluation.pictures.tables import Table

CAPTIONS = "captions.json"  # of every folder of figures
INCOMPLETE = 6  # exit code: all that could be made is written, and something that was asked for is not in it

ResultsFolder = Annotated[
    Path, typer.Argument(help="A folder that `experiment run` left or still fills.", metavar="DIR", show_default=False)
]
Figures = Annotated[
    list[str] | None,
    typer.Option(
        "--figure",
        help="Which to draw: curves, scaling, heatmaps, ablation, overhead; may be given again. "
        "Default: those of the specification.",
        metavar="NAME",
        show_default=False,
    ),
]
Formats = Annotated[
    str, typer.Option("--formats", help="Kinds of files, separated by commas, of png, svg and pdf.", metavar="KINDS")
]
FiguresFolder = Annotated[
    Path | None,
    typer.Option(
        "--out", help="Folder to make. Default: DIR/figures.", metavar="FOLDER", rich_help_panel=OUTPUT, show_default=False
    ),
]
Measures = Annotated[
    list[str] | None,
    typer.Option(
        "--measure", help="Which to show, such as nicv; may be given again. Default: all.", metavar="NAME", show_default=False
    ),
]
TableFormat = Annotated[str, typer.Option("--format", help="How the tables are written.", metavar="text|markdown|csv")]
Pooled = Annotated[bool, typer.Option("--pooled", help="All data sets as one: run by run, the mean over them.")]
ReportFile = Annotated[
    Path | None,
    typer.Option(
        "--out", help="File to make. Default: DIR/report.html.", metavar="FILE", rich_help_panel=OUTPUT, show_default=False
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace what an earlier call made.", rich_help_panel=OUTPUT)]


def plot(
    results: ResultsFolder,
    figure: Figures = None,
    formats: Formats = "png,svg",
    out: FiguresFolder = None,
    force: Force = False,
) -> None:
    """Draw the figures of an experiment, with 95% intervals; computed on raw data: NOT PRIVATE."""
    from fastlloyd.errors import DataError
    from fastlloyd.evaluation import pictures
    from fastlloyd.reports import outputs

    kinds = _formats(formats)
    pictures.check_figures(figure or [])
    target = out or results / "figures"
    summaries = _summaries(results)
    outputs.check_destination(target, force=force, files=_replaceable(target))
    drawings, refused = pictures.draw(summaries, figure or [])
    if not drawings:
        raise DataError("; ".join(refused))
    contents = {
        CAPTIONS: outputs.to_json({each.name: {"title": each.title, "caption": each.caption} for each in drawings}).encode()
    }
    contents |= {f"{each.name}.{kind}": pictures.save(each, kind) for each in drawings for kind in kinds}
    paths = outputs.write_folder(target, contents, force=force, files=_replaceable(target))
    _note(summaries)
    typer.echo(
        f"Drew {len(drawings)} figure{'s' if len(drawings) > 1 else ''} into {target} ({len(paths)} files). NOT PRIVATE."
    )
    _end(refused)


def table(
    results: ResultsFolder,
    measure: Measures = None,
    format: TableFormat = "text",  # noqa: A002 - the option's name
    pooled: Pooled = False,
) -> None:
    """Print means with 95% intervals, and areas under them against epsilon; computed on raw data: NOT PRIVATE."""
    from fastlloyd.base.names import unknown_name
    from fastlloyd.errors import DataError
    from fastlloyd.evaluation.pictures import tables

    printers: dict[str, Callable[[Summaries], None]] = {
        "text": lambda summaries: _print(tables.tables(summaries, measure or [])),
        "markdown": lambda summaries: typer.echo(tables.to_markdown(tables.tables(summaries, measure or [])), nl=False),
        "csv": lambda summaries: typer.echo(tables.to_csv(summaries, measure or []), nl=False),
    }
    if format not in printers:
        raise DataError(f"--format {unknown_name(format, list(printers))}")
    summaries = _summaries(results, pooled=pooled)
    printers[format](summaries)
    _note(summaries)


def report(results: ResultsFolder, figure: Figures = None, out: ReportFile = None, force: Force = False) -> None:
    """Write figures, tables, failures and provenance into one HTML file that needs no other; NOT PRIVATE."""
    from fastlloyd.errors import DataError, OutputError
    from fastlloyd.evaluation import pictures
    from fastlloyd.evaluation.pictures import report as pages
    from fastlloyd.reports import outputs

    pictures.check_figures(figure or [])
    target = out or results / "report.html"
    if target.suffix.lower() not in (".html", ".htm"):
        raise OutputError(f"{target} does not end in .html, by which browsers know a page; choose another name")
    summaries = _summaries(results)
    outputs.check_file(target, heading=pages.HEADING, force=force)
    drawings, refused = pictures.draw(summaries, figure or [])
    if figure and not drawings:
        raise DataError("; ".join(refused))
    outputs.write_file(target, pages.page(summaries, drawings, refused))
    _note(summaries)
    typer.echo(f"Written to {target}. NOT PRIVATE.")
    _end(refused)


def _summaries(folder: Path, *, pooled: bool = False) -> "Summaries":
    from fastlloyd.evaluation.experiments.reading import read
    from fastlloyd.evaluation.pictures.summaries import Summaries, over_sets

    results = read(folder)
    return Summaries.of(over_sets(results) if pooled else results)


def _end(refused: list[str]) -> None:
    """Say what was asked for and not drawn."""
    for why in refused:
        typer.echo(f"Not drawn: {why}", err=True)
    if refused:
        raise typer.Exit(INCOMPLETE)


def _note(summaries: "Summaries") -> None:
    """What of the folder is missing from what is shown."""
    for note in summaries.results.notes:
        typer.echo(f"Note: {note}", err=True)
    if failed := len(summaries.results.failures):
        of = len(summaries.results.rows)
        typer.echo(f"Note: {failed:,} of {of:,} trials failed and are left out; the table says why.", err=True)


def _formats(text: str) -> list[str]:
    from fastlloyd.base.names import split_list, unknown_name
    from fastlloyd.errors import DataError
    from fastlloyd.evaluation.pictures import FORMATS

    kinds = list(dict.fromkeys(split_list(text)))
    for kind in kinds:
        if kind not in FORMATS:
            raise DataError(f"--formats: {unknown_name(kind, FORMATS)}")
    if not kinds:
        raise DataError("--formats is empty; name png, svg or pdf")
    return kinds


def _replaceable(folder: Path) -> list[str]:
    """What an earlier call may have left in a folder of figures."""
    from fastlloyd.evaluation.pictures import FIGURES, FORMATS

    name = re.compile(rf"(?:{'|'.join(FIGURES)})(?:-[^/]*)?\.(?:{'|'.join(FORMATS)})")
    found = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
    return [CAPTIONS, *(each for each in found if name.fullmatch(each))]


def _print(listed: "list[Table]") -> None:
    from rich.console import Console

    from fastlloyd.cli.tables import Column, show
    from fastlloyd.evaluation.pictures.tables import NOT_PRIVATE

    screen = Console(markup=False, highlight=False, emoji=False)
    for each in (table for table in listed if table.rows):
        headings = [", ".join(each.headings[:2]), *each.headings[2:]]  # the first column says what a row is about
        cells = list(zip(*((", ".join(row[:2]), *row[2:]) for row in each.rows), strict=True))
        columns = [
            Column(heading=heading, cells=column, justify="left" if i < each.text - 1 else "right", is_text=i < each.text - 1)
            for i, (heading, column) in enumerate(zip(headings, cells, strict=True))
        ]
        show(screen, each.title, columns)
        if each.note:
            screen.print(each.note)
    screen.print(f"These figures were {NOT_PRIVATE}.")
