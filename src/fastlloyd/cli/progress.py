"""Display of the events of a job: a progress bar on a terminal, otherwise a line at intervals."""

import sys
import time
from typing import TYPE_CHECKING, Final, Self

import typer
from rich.console import Console

from fastlloyd.cli import screen
from fastlloyd.jobs.watching import (
    BoundsFound,
    EngineStarted,
    Event,
    LedgerNoted,
    PassProgressed,
    RoundAnswered,
    RunBegan,
    StepBegan,
    StepEnded,
)
from fastlloyd.mechanisms.mechanism import Mechanism
from fastlloyd.mechanisms.private_run import AnyRun
from fastlloyd.reports.bounds_result import BoundsResult
from fastlloyd.reports.facts import said
from fastlloyd.reports.result_facts import of_bounds

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import ProgressColumn

LARGE_WORK: Final = 10**8
"""Progress is shown if records x features x centroids exceeds this number. So much work takes
about a second without compiled code.
"""
LOG_SECONDS: Final = 10.0


class Progress:
    """Context manager that shows the events of one job. The progress bar disappears at the end.

    as_json : whether the result goes to a program. Exact numbers are then not shown.
    """

    def __init__(self, *, as_json: bool = False) -> None:
        self._is_shown, self._as_json = sys.stderr.isatty(), as_json
        self._bar: Bar | None = None
        self._run: AnyRun | None = None
        self._n_answered, self._said = 0, time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def __call__(self, event: Event) -> None:
        """Show an event of the job as progress."""
        match event:
            case StepBegan():
                self._spin(event.what)
            case RunBegan():
                self._begin(event.mechanism)
            case PassProgressed():
                self._read(event)
            case RoundAnswered():
                self._answered(event)
            case StepEnded():
                self._close()
            case LedgerNoted():
                self._note(event.sentence)
            case EngineStarted() if event.is_elsewhere:
                self._close()
                screen.on_stderr(screen.of_workers(event.name, event.n_workers))
            case BoundsFound():
                found = BoundsResult(mechanism=event.mechanism, bounds=event.bounds)
                for sentence in said(of_bounds(found), event.mechanism.unit):
                    self._note(sentence)

    def _note(self, sentence: str) -> None:
        self._close()
        typer.echo(f"Note: {sentence}", err=True)

    def _spin(self, what: str) -> None:
        from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
        self._open(what, None, *columns)

    def _begin(self, run: AnyRun) -> None:
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn

        self._run, self._n_answered = run, 0
        if is_large(run):
            columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
            self._open(f"round 1 of {run.n_rounds}", run.n_rounds, *columns)

    def _read(self, event: PassProgressed) -> None:
        run = self._run
        if self._bar is None or run is None:
            return
        n, of = self._n_answered, run.n_rounds
        what = f"round {min(n + 1, of)} of {of}"
        if run.persons is not None and event.number == 1 and event.n_records is not None:
            what = f"shares of {run.unit.many}"
        part = 0.0
        if event.n_all_pieces:
            what += f", {event.n_pieces} of {event.n_all_pieces} pieces"
            part = (event.n_pieces or 0) / event.n_all_pieces
        elif not self._as_json:
            what += f", {event.n_records} records (exact: NOT PRIVATE)"
        self._update(n + part, what)

    def _answered(self, event: RoundAnswered) -> None:
        self._n_answered = event.number
        self._update(event.number, f"round {event.number} of {event.n_rounds}")
        if not self._is_shown and time.monotonic() - self._said >= LOG_SECONDS:
            self._said = time.monotonic()
            typer.echo(f"Round {event.number} of {event.n_rounds} is answered.", err=True)

    def _open(self, what: str, total: int | None, *columns: "ProgressColumn") -> None:
        self._close()
        if not self._is_shown:
            return
        from rich.progress import Progress as Bar

        self._bar = Bar(*columns, console=Console(stderr=True), transient=True)
        self._bar.start()
        self._bar.add_task(what, total=total)

    def _update(self, completed: float, what: str) -> None:
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=completed, description=what)

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def is_large(run: AnyRun) -> bool:
    """Return whether a run takes long enough to show its progress."""
    k = run.n_clusters if isinstance(run, Mechanism) else 1
    return run.n_records * k * run.domain.n_features * run.n_rounds >= LARGE_WORK
