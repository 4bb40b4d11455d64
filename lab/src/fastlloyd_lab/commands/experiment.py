"""Command `fastlloyd experiment`: run the trials of a specification on public records, and show the
results. NOT PRIVATE.
"""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fastlloyd.base.files import check_destination, check_file, to_json, write_file, write_folder
from fastlloyd.base.names import split_list, unknown_name
from fastlloyd.cli import terminal
from fastlloyd.cli.options import in_output
from fastlloyd.cli.terminal import Column
from fastlloyd.errors import DataError, OutputError

if TYPE_CHECKING:
    from fastlloyd_lab.experiments.runner import Progress, Summary
    from fastlloyd_lab.pictures.summaries import Summaries
    from fastlloyd_lab.pictures.tables import Table

CAPTIONS = "captions.json"  # of every folder of figures
# exit code: all that could be made is written, and something that was asked for is not in it
INCOMPLETE = 6

Specification = Annotated[
    Path,
    typer.Argument(
        help="Specification of the experiment. It may name files of code, which are run.",
        metavar="SPEC",
    ),
]
Out = Annotated[
    Path,
    in_output(help="Folder of the results. Trials already in it are not run again.", metavar="DIR"),
]
Quick = Annotated[
    bool, typer.Option("--quick", help="Use the smaller settings of the table [quick].")
]
Workers = Annotated[
    int | None,
    typer.Option(
        min=1, max=1024, help="Processes, each with one thread. Default: one per core.", metavar="N"
    ),
]
Json = Annotated[bool, in_output("--json", help="Print JSON.")]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Show how many trials there are and are left, and which data sets are missing.",
    ),
]
ResultsFolder = Annotated[
    Path,
    typer.Argument(help="Folder of `experiment run`, which may still be running.", metavar="DIR"),
]
Figures = Annotated[
    list[str] | None,
    typer.Option(
        "--figure",
        help=(
            "Figure to draw: curves, scaling, heatmaps, ablation or overhead. May be given several"
            " times. Default: those of the specification."
        ),
        metavar="NAME",
    ),
]
Formats = Annotated[
    str,
    typer.Option(
        "--formats",
        help="Kinds of files, separated by commas, of png, svg and pdf.",
        metavar="KINDS",
    ),
]
FiguresFolder = Annotated[
    Path | None, in_output("--out", help="Folder to make. Default: DIR/figures.", metavar="FOLDER")
]
Measures = Annotated[
    list[str] | None,
    typer.Option(
        "--measure",
        help="Measure to show, such as nicv. May be given several times. Default: all.",
        metavar="NAME",
    ),
]
TableFormat = Annotated[
    str, typer.Option("--format", help="Format of the tables.", metavar="text|markdown|csv")
]
Pooled = Annotated[
    bool, typer.Option("--pooled", help="Show the mean over all data sets, run by run.")
]
ReportFile = Annotated[
    Path | None, in_output("--out", help="File to make. Default: DIR/report.html.", metavar="FILE")
]
Force = Annotated[bool, in_output("--force", help="Replace an earlier output.")]


def plot(
    results: ResultsFolder,
    figure: Figures = None,
    formats: Formats = "png,svg",
    out: FiguresFolder = None,
    force: Force = False,
) -> None:
    """Draw the figures of an experiment, with 95% intervals. They are computed on raw data: NOT
    PRIVATE.
    """
    from fastlloyd_lab import pictures

    kinds = _formats(formats)
    pictures.check_figures(figure or [])
    target = out or results / "figures"
    summaries = _summaries(results)
    check_destination(target, force=force, files=_replaceable(target))
    drawings, refused = pictures.draw(summaries, figure or [])
    if not drawings:
        raise DataError("; ".join(refused))
    contents = {
        CAPTIONS: (
            to_json(
                {each.name: {"title": each.title, "caption": each.caption} for each in drawings}
            ).encode()
        )
    }
    contents |= {
        f"{each.name}.{kind}": pictures.save(each, kind) for each in drawings for kind in kinds
    }
    paths = write_folder(target, contents, force=force, files=_replaceable(target))
    _note(summaries)
    typer.echo(
        f"Drew {len(drawings)} figure{'s' if len(drawings) > 1 else ''} into {target} ({len(paths)}"
        " files). NOT PRIVATE."
    )
    _end(refused)


def table(
    results: ResultsFolder,
    measure: Measures = None,
    format: TableFormat = "text",  # noqa: A002 - the option's name
    pooled: Pooled = False,
) -> None:
    """Print means with 95% intervals, and areas under their curves by epsilon. They are computed on
    raw data: NOT PRIVATE.
    """
    from fastlloyd_lab.pictures import tables

    printers: dict[str, Callable[[Summaries], None]] = {
        "text": lambda summaries: _print(tables.tables(summaries, measure or [])),
        "markdown": lambda summaries: typer.echo(
            tables.to_markdown(tables.tables(summaries, measure or [])), nl=False
        ),
        "csv": lambda summaries: typer.echo(tables.to_csv(summaries, measure or []), nl=False),
    }
    if format not in printers:
        raise DataError(f"--format {unknown_name(format, list(printers))}")
    summaries = _summaries(results, pooled=pooled)
    printers[format](summaries)
    _note(summaries)


def report(
    results: ResultsFolder, figure: Figures = None, out: ReportFile = None, force: Force = False
) -> None:
    """Write one HTML file with figures, tables, failures and provenance. It needs no other file.
    NOT PRIVATE.
    """
    from fastlloyd_lab import pictures
    from fastlloyd_lab.pictures import report as pages

    pictures.check_figures(figure or [])
    target = out or results / "report.html"
    if target.suffix.lower() not in (".html", ".htm"):
        raise OutputError(
            f"{target} does not end in .html, as a page for a browser must; choose another name"
        )
    summaries = _summaries(results)
    check_file(target, heading=pages.HEADING, force=force)
    drawings, refused = pictures.draw(summaries, figure or [])
    if figure and not drawings:
        raise DataError("; ".join(refused))
    write_file(target, pages.page(summaries, drawings, refused))
    _note(summaries)
    typer.echo(f"Written to {target}. NOT PRIVATE.")
    _end(refused)


def _summaries(folder: Path, *, pooled: bool = False) -> "Summaries":
    from fastlloyd_lab.experiments.reading import read
    from fastlloyd_lab.pictures.summaries import Summaries, over_sets

    results = read(folder)
    return Summaries.of(over_sets(results) if pooled else results)


def _end(refused: list[str]) -> None:
    """Print the requested figures that could not be drawn, with the reasons."""
    for why in refused:
        typer.echo(f"Not drawn: {why}", err=True)
    if refused:
        raise typer.Exit(INCOMPLETE)


def _note(summaries: "Summaries") -> None:
    """Print notes about rows of the folder that are in no figure or table."""
    for note in summaries.results.notes:
        typer.echo(f"Note: {note}", err=True)
    if failed := len(summaries.results.failures):
        of = len(summaries.results.rows)
        typer.echo(
            f"Note: {failed:,} of {of:,} trials failed and are left out; the table says why.",
            err=True,
        )


def _formats(text: str) -> list[str]:
    from fastlloyd_lab.pictures import FORMATS

    kinds = list(dict.fromkeys(split_list(text)))
    for kind in kinds:
        if kind not in FORMATS:
            raise DataError(f"--formats: {unknown_name(kind, FORMATS)}")
    if not kinds:
        raise DataError("--formats is empty; name png, svg or pdf")
    return kinds


def _replaceable(folder: Path) -> list[str]:
    """Return the names of files that an earlier call may have left in a folder of figures."""
    from fastlloyd_lab.pictures import FIGURES, FORMATS

    name = re.compile(rf"(?:{'|'.join(FIGURES)})(?:-[^/]*)?\.(?:{'|'.join(FORMATS)})")
    found = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
    return [CAPTIONS, *(each for each in found if name.fullmatch(each))]


def _print(listed: "list[Table]") -> None:
    from fastlloyd_lab.pictures.tables import NOT_PRIVATE

    screen = terminal.console()
    for each in (table for table in listed if table.rows):
        # the first column says what a row is about
        headings = [", ".join(each.headings[:2]), *each.headings[2:]]
        cells = list(zip(*((", ".join(row[:2]), *row[2:]) for row in each.rows), strict=True))
        columns = [
            Column(
                heading=heading,
                cells=column,
                justify="left" if i < each.text - 1 else "right",
                is_text=i < each.text - 1,
            )
            for i, (heading, column) in enumerate(zip(headings, cells, strict=True))
        ]
        terminal.show(screen, each.title, columns)
        if each.note:
            screen.print(each.note)
    screen.print(f"These figures were {NOT_PRIVATE}.")


def run(
    spec: Specification,
    out: Out,
    quick: Quick = False,
    workers: Workers = None,
    json: Json = False,
    dry_run: DryRun = False,
) -> None:
    """Run the trials of SPEC that are not yet in DIR.

    You may stop the command at any time. Run the same command again to continue.
    """
    from fastlloyd_lab.datasets.named import check_at_hand
    from fastlloyd_lab.experiments import runner

    if dry_run:
        now, absent = runner.outlook(spec, out, quick=quick)
        counts = to_json(_counts(now) | {"absent": absent})
        typer.echo(
            counts if json else f"{_trials(now.total)}, {now.left:,} left to run.", nl=not json
        )
        check_at_hand(absent)
        return
    seen: list[Progress] = []
    with _bar() as show:

        def watch(now: "Progress") -> None:
            seen[:] = [now]
            show(now)

        try:
            summary = runner.run(spec, out, quick=quick, workers=workers, watch=watch)
        except KeyboardInterrupt:
            for now in seen:
                typer.echo(
                    f"{now.done:,} of {_trials(now.total)} are done and kept in {out}; the same"
                    " command goes on.",
                    err=True,
                )
            raise
    if json:
        files = [str(path) for path in summary.paths]
        said = {"others": summary.others, "session": summary.session, "files": files}
        terminal.print_json(_counts(summary.progress) | said)
    else:
        _say(summary, out)
    if summary.progress.failed:
        raise typer.Exit(INCOMPLETE)  # all is written, and some trials are rows that failed


def _say(summary: "Summary", out: Path) -> None:
    now = summary.progress
    typer.echo(
        f"{_trials(now.total)}, all done; {now.failed:,}"
        f" failed{' (see the column error)' if now.failed else ''}."
    )
    typer.echo(f"Written to {out}: {', '.join(path.name for path in summary.paths)}.")
    if summary.others:
        typer.echo(
            f"Note: {out} has {_trials(summary.others)} more, which are kept although the"
            " specification does not name them.",
            err=True,
        )


def _trials(n: int) -> str:
    return "1 trial" if n == 1 else f"{n:,} trials"


def _counts(now: "Progress") -> dict[str, Any]:
    return {"trials": now.total, "done": now.done, "left": now.left, "failed": now.failed}


@contextmanager
def _bar() -> "Iterator[Callable[[Progress], None]]":
    """Context manager that shows a progress bar on a terminal: finished, remaining and failed
    trials, and the time left.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    left = TextColumn("left:"), TimeRemainingColumn()
    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), *left
    with terminal.progress(
        *columns, refresh_per_second=2
    ) as bar:  # seldom, as the processes need the cores
        task = bar.add_task("", total=None)

        def show(now: Any) -> None:
            failed = f", {now.failed:,} failed" if now.failed else ""
            bar.update(
                task,
                total=now.total,
                completed=now.done,
                description=f"{now.done:,} done, {now.left:,} left{failed}",
            )

        yield show


GROUP = {"plot": plot, "table": table, "report": report, "run": run}
