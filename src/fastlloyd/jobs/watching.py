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
    """Something that happens in a job."""


class StepBegan(Event, frozen=True, kw_only=True):
    """Work begins that takes long and whose progress is not known. what : in words."""

    what: str


class RunBegan(Event, frozen=True, kw_only=True):
    """The rounds of a mechanism begin."""

    mechanism: AnyRun


class StepEnded(Event, frozen=True, kw_only=True):
    """The step, or the rounds of a mechanism, that began last are over or were given up."""


class RoundAnswered(Event, frozen=True, kw_only=True):
    """The records have answered a round, and its noise is about to be drawn. number : from 1."""

    number: int
    n_rounds: int


class PassProgressed(Event, frozen=True, kw_only=True):
    """A pass over the records goes on. number : of the pass, from 1. n_records : read so far, an
    exact number, which is private; or n_pieces of n_all_pieces that workers have read.
    """

    number: int
    n_records: int | None = None
    n_pieces: int | None = None
    n_all_pieces: int | None = None


class PassEnded(Event, frozen=True, kw_only=True):
    """The present pass over the records is over, or was given up."""


class RecordsFound(Event, frozen=True, kw_only=True):
    """The first pass over the records is over. dropped, clipped : exact numbers of records that
    were left out, and of records and values outside the bounds: private. seconds : of the pass.
    """

    dropped: int
    clipped: Clipped
    seconds: float


class BudgetCharged(Event, frozen=True, kw_only=True):
    """The ledger has counted the job. accounts : sums of the data set, with it."""

    accounts: tuple[Account, ...]
    counted: Counted


class BoundsFound(Event, frozen=True, kw_only=True):
    """The first stage has found bounds. They are private by its guarantee."""

    mechanism: BoundsMechanism
    bounds: FoundBounds


class LedgerNoted(Event, frozen=True, kw_only=True):
    """The ledger has something to say to its holder. sentence : for people."""

    sentence: str


class EngineStarted(Event, frozen=True, kw_only=True):
    """Workers are ready. name : of the engine as the request has it. is_elsewhere : they may be on
    other machines, whose owner must know that they handle records.
    """

    name: str
    n_workers: int
    is_elsewhere: bool


Watch = Callable[[Any], None]


def nobody(_event: Event) -> None:
    """Watch nothing."""


class Stopped(Exception):  # noqa: N818 - nothing is wrong: the owner wants it
    """A pass was given up because its owner stops the job; the step that needed it never
    happened.
    """


class StoppableWatch:
    """Watch that gives up the pass that is under way, and every later one, once it is stopped.

    present : last event of the pass that is under way, or None. since : time at which that pass
    began, of `time.monotonic`.
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
        """Give up the pass at its next block; from any thread."""
        self._is_stopped = True
