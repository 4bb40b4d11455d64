"""`fastlloyd experiment`: run what a specification asks for on public records, and look at what came out. NOT PRIVATE."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fastlloyd.base import extras
from fastlloyd.cli.commands import experiment_pictures
from fastlloyd.cli.options import OUTPUT
from fastlloyd.cli.usage import Command, Group

if TYPE_CHECKING:
    from fastlloyd.evaluation.experiments.runner import Progress, Summary

experiment_app = typer.Typer(
    cls=Group,
    help="Run the paper's experiments again, and others, on public records, and draw them: NOT PRIVATE.",
    no_args_is_help=True,
)
experiment_app.command(cls=Command)(experiment_pictures.plot)
experiment_app.command(cls=Command)(experiment_pictures.table)
experiment_app.command(cls=Command)(experiment_pictures.report)

Specification = Annotated[
    Path, typer.Argument(help="What to run. It may name files of code, which are run.", metavar="SPEC", show_default=False)
]
Out = Annotated[
    Path,
    typer.Option(
        help="Folder of the results; what is there already is not run again.",
        metavar="DIR",
        rich_help_panel=OUTPUT,
        show_default=False,
    ),
]
Quick = Annotated[bool, typer.Option("--quick", help="What the table quick of the specification says instead.")]
Workers = Annotated[
    int | None,
    typer.Option(
        min=1, max=1024, help="Processes, each with one thread. Default: one per core.", metavar="N", show_default=False
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.", rich_help_panel=OUTPUT)]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Say how many trials there are and are left, and which sets are lacking."),
]


@experiment_app.callback()
def experiment() -> None:
    """Run the paper's experiments again, and others, on public records, and draw them: NOT PRIVATE."""


@experiment_app.command(cls=Command)
def run(
    spec: Specification, out: Out, quick: Quick = False, workers: Workers = None, json: Json = False, dry_run: DryRun = False
) -> None:
    """Run the trials of SPEC that DIR lacks. It may be stopped at any time: the same command goes on."""
    from fastlloyd.evaluation.datasets.named import check_at_hand
    from fastlloyd.evaluation.experiments import runner
    from fastlloyd.reports import outputs

    if dry_run:
        far = runner.outlook(spec, out, quick=quick)
        now = far.progress
        counts = outputs.to_json(_counts(now) | {"absent": far.absent})
        typer.echo(counts if json else f"{_trials(now.total)}, {now.left:,} left to run.", nl=not json)
        check_at_hand(far.absent)
        return
    seen: list[Progress] = []
    with _bar() as show:

        def watch(now: "Progress") -> None:
            seen[:] = [now]
            show(now)

        try:
            summary = runner.run(spec, out, quick=quick, workers=workers, watch=watch)
        except KeyboardInterrupt:
            _say_how_to_go_on(seen, out)
            raise
    if json:
        typer.echo(outputs.to_json(_for_machines(summary)), nl=False)
    else:
        _say(summary, out)
    if summary.progress.failed:
        raise typer.Exit(experiment_pictures.INCOMPLETE)  # all is written, and some trials are rows that failed


def _say_how_to_go_on(seen: "list[Progress]", out: Path) -> None:
    for now in seen:
        typer.echo(f"{now.done:,} of {_trials(now.total)} are done and kept in {out}; the same command goes on.", err=True)


def _say(summary: "Summary", out: Path) -> None:
    now = summary.progress
    typer.echo(f"{_trials(now.total)}, all done; {now.failed:,} failed{' (see the column error)' if now.failed else ''}.")
    typer.echo(f"Written to {out}: {', '.join(path.name for path in summary.paths)}.")
    if summary.others:
        typer.echo(f"Note: {out} holds {_trials(summary.others)} more, of runs not asked for; the tables keep them.", err=True)
    if not any(path.suffix == ".parquet" for path in summary.paths):
        typer.echo(f"Note: no Parquet file, which needs pyarrow: {extras.command('data')}", err=True)


def _trials(n: int) -> str:
    return "1 trial" if n == 1 else f"{n:,} trials"


def _counts(now: "Progress") -> dict[str, Any]:
    return {"trials": now.total, "done": now.done, "left": now.left, "failed": now.failed}


def _for_machines(summary: "Summary") -> dict[str, Any]:
    return _counts(summary.progress) | {
        "others": summary.others,
        "session": summary.session,
        "files": [str(path) for path in summary.paths],
    }


@contextmanager
def _bar() -> "Iterator[Callable[[Progress], None]]":
    """A bar on a terminal: trials done, left and failed, and the time left."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        refresh_per_second=2,  # the processes need the cores
        transient=True,
    ) as bar:
        task = bar.add_task("", total=None)

        def show(now: Any) -> None:
            failed = f", {now.failed:,} failed" if now.failed else ""
            bar.update(task, total=now.total, completed=now.done, description=f"{now.done:,} done, {now.left:,} left{failed}")

        yield show
