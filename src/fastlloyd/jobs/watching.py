"""Events of a job, for the parts that watch it: a bar, a line of a log, a page."""

import time
from collections.abc import Callable
from typing import Any

import msgspec

from fastlloyd.clustering.outside import Clipped
from fastlloyd.federation.holder import Counted
from fastlloyd.federation.ledger import Account
from fastlloyd.mechanisms.bounds.mechanism import BoundsMechanism, FoundBounds
from fastlloyd.mechanisms.private_run import AnyRun


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Event of a job."""


class StepBegan(Event, frozen=True, kw_only=True):
    """Start of a long step without known progress.
    what : in words.
    """

    what: str


class RunBegan(Event, frozen=True, kw_only=True):
    """Start of the rounds of a mechanism."""

    mechanism: AnyRun


class StepEnded(Event, frozen=True, kw_only=True):
    """Event: the step that began last has ended, or was given up.

    A step may be all rounds of a mechanism.
    """


class RoundAnswered(Event, frozen=True, kw_only=True):
    """Exact answer of a round, whose noise is about to be drawn.
    number : from 1.
    """

    number: int
    n_rounds: int


class PassProgressed(Event, frozen=True, kw_only=True):
    """Progress of a pass over the records.

    number : of the pass, from 1.
    n_records : read so far, an exact number, which is private; or n_pieces of n_all_pieces that
        workers have read.
    """

    number: int
    n_records: int | None = None
    n_pieces: int | None = None
    n_all_pieces: int | None = None


class PassEnded(Event, frozen=True, kw_only=True):
    """End of the present pass over the records, also when given up."""


class RecordsFound(Event, frozen=True, kw_only=True):
    """End of the first pass over the records.

    dropped, clipped : exact numbers of records that were left out, and of records and values
        outside the bounds: private.
    seconds : of the pass.
    """

    dropped: int
    clipped: Clipped
    seconds: float


class BudgetCharged(Event, frozen=True, kw_only=True):
    """Charge of the job in the ledger.
    accounts : sums of the data set, including this job.
    """

    accounts: tuple[Account, ...]
    counted: Counted


class BoundsFound(Event, frozen=True, kw_only=True):
    """Bounds found by the first stage, under its guarantee."""

    mechanism: BoundsMechanism
    bounds: FoundBounds


class LedgerNoted(Event, frozen=True, kw_only=True):
    """Note of the ledger for its holder.
    sentence : for people.
    """

    sentence: str


class EngineStarted(Event, frozen=True, kw_only=True):
    """Start of an engine's workers.

    name : of the engine, as in the request.
    is_elsewhere : whether they may be on other machines, whose owner must know that they handle
        records.
    """

    name: str
    n_workers: int
    is_elsewhere: bool


Watch = Callable[[Any], None]


def nobody(_event: Event) -> None:
    """Watch nothing."""


class Stopped(Exception):  # noqa: N818 - nothing is wrong: the owner wants it
    """Stop of a pass by the owner; the step that needed it never happened."""


class StoppableWatch:
    """Watch that, once stopped, ends the pass in progress and every later one.

    present : last event of the pass in progress, or None.
    since : start of that pass, by `time.monotonic`.
    """

    def __init__(self, watch: Watch = nobody) -> None:
        self._watch, self._is_stopped = watch, False
        self.present: PassProgressed | None = None
        self.since = 0.0

    def __call__(self, event: Event) -> None:
        """Pass the event on. Raises Stopped in a pass, once stopped."""
        match event:
            case PassProgressed():
                if self._is_stopped:
                    raise Stopped
                self.since = time.monotonic() if self.present is None else self.since
                self.present = event
            case PassEnded():
                self.present = None
        self._watch(event)

    def stop(self) -> None:
        """Stop the pass at its next block; any thread may call this."""
        self._is_stopped = True
