"""Progress of one client of a run: notes to the owner of the records, and the progress of a pass.

A pass reads all records once.
"""

import asyncio
import sys
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, ParamSpec, TypeVar

from fastlloyd.cli import network, screen
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.jobs.client import pass_seconds_to_ask_for
from fastlloyd.jobs.live import LiveFile, Sight
from fastlloyd.jobs.watching import (
    EngineStarted,
    Event,
    LedgerNoted,
    PassProgressed,
    RecordsFound,
    StoppableWatch,
    Stopped,
)
from fastlloyd.reports.facts import duration

P = ParamSpec("P")
T = TypeVar("T")

OVER = "The run is over."
WITHOUT_RESULT = "The run ended without a result."
STOPPED = (
    "This client was stopped. Start it again with the same command to continue the run. If the"
    " others say that the run is over, give it up with `fastlloyd ledger release`."
)


class ClientProgress:
    """Notes about the progress of one client in a run.

    watch : function that receives the events of the job.
    live : file of progress.
    """

    def __init__(
        self, plan: Plan, name: str, live: LiveFile, *, as_json: bool, is_rehearsal: bool = False
    ) -> None:
        self.watch, self.live = StoppableWatch(self._hear), live
        self._name = name
        self._plan, self._as_json, self._is_rehearsal = plan, as_json, is_rehearsal
        self._say = partial(network.say, as_json=as_json)

    def _hear(self, event: Event) -> None:
        match event:
            case LedgerNoted():
                self._say(f"Note: {event.sentence}")
            case EngineStarted() if event.is_elsewhere:
                self._say(screen.of_workers(event.name, event.n_workers))
            case RecordsFound():
                self._tell_owner(event)

    def _tell_owner(self, found: RecordsFound) -> None:
        if self._is_rehearsal:  # its screen says all this
            return
        if pass_seconds_to_ask_for(self._plan, found.seconds):
            self._say(f"Warning: {of_passes(self._plan, found.seconds)}")
        # without a terminal, stderr is a log
        owner = screen.OwnersScreen(self._as_json or not sys.stderr.isatty(), self._say)
        owner.left_out(found.dropped)
        owner.clipped(found.clipped, self._plan.mechanism.domain.features)

    def drive(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Do long work before the run, and show its progress.

        Raises typer.Exit if the work was stopped.
        """
        call = partial(asyncio.to_thread, work, *args, **kwargs)
        found: list[T] = []

        async def kept() -> bool:
            found.append(await call())
            return True

        def look() -> Sight:
            return self.sight("before the run")

        # a run that is refused after a short pass leaves no file of progress
        if not self.follow(kept, self.watch.stop, look, keeps_last=False):
            raise network.stopped(as_json=self._as_json)
        return found[0]

    def follow(
        self,
        run: Callable[[], Coroutine[Any, Any, T]],
        stop: Callable[[], None],
        look: Callable[[], Sight],
        *,
        keeps_last: bool = True,
    ) -> T | None:
        """Run the session to its end as `network.drive` does, and show the progress of each pass.

        Returns None if a pass was stopped before its end.
        """
        found: T | None = None
        with suppress(Stopped):
            found = network.drive(run, stop, look, self.live, self._far, keeps_last=keeps_last)
        if found is None:
            self.live.end(STOPPED)
        return found

    def sight(self, step: str, **more: Any) -> Sight:
        """Return the view that this client has of the run.

        step : current step in words.
        more : further fields of `Sight`.
        """
        plan = self._plan
        return Sight(
            name=self._name,
            role="client",
            run_id=plan.run_id,
            step=step,
            n_rounds=plan.mechanism.n_rounds,
            n_clients=plan.n_clients,
            **more,
        )

    def _far(self) -> str:
        """Return the progress of the current pass in words.

        On a terminal it contains the exact number of records read so far. This number is secret.
        """
        return of_pass(
            self.watch.present, time.monotonic() - self.watch.since, exact=sys.stderr.isatty()
        )


def of_pass(present: PassProgressed | None, seconds: float, *, exact: bool) -> str:
    """Return the duration of the current pass in words.

    exact : whether to add the number of records or pieces read so far. This number is secret.
    """
    if present is None:
        return ""
    if not exact:
        return f", reading the records for {seconds:.0f} s"
    if present.n_records is not None:
        return (
            f", reading the records for {seconds:.0f} s: {present.n_records} so far (exact: NOT"
            " PRIVATE)"
        )
    return (
        f", reading the records for {seconds:.0f} s: {present.n_pieces} of {present.n_all_pieces}"
        " pieces (exact: NOT PRIVATE)"
    )


def of_passes(plan: Plan, seconds: float) -> str:
    """Return a sentence about the duration of a pass and the time that the plan allows for it."""
    said = (
        f"Reading the records once took {seconds:.3g} s; the plan allows"
        f" {duration(plan.timeouts.longest_pass)} for each reading."
    )
    to_ask_for = pass_seconds_to_ask_for(plan, seconds)
    if to_ask_for is None:
        return said
    return f"{said} Ask for a plan made with --pass-seconds {to_ask_for}."
