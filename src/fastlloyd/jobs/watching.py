"""Events of a job, for its watches. A watch is a function that receives events, for example to move
a progress bar or to write a log.
"""

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
    """Base class of the events that a job reports to its watch."""


class StepBegan(Event, frozen=True, kw_only=True):
    """Event: a long step begins, and its progress is not known.

    what : the step, in words.
    """

    what: str


class RunBegan(Event, frozen=True, kw_only=True):
    """Event: the rounds of a mechanism begin."""

    mechanism: AnyRun


class StepEnded(Event, frozen=True, kw_only=True):
    """Event: the step that began last has ended, or was given up.

    A step may be all rounds of a mechanism.
    """


class RoundAnswered(Event, frozen=True, kw_only=True):
    """Event: the exact answer of a round is known, and its noise is about to be drawn.

    number : number of the round, from 1.
    n_rounds : number of all rounds.
    """

    number: int
    n_rounds: int


class PassProgressed(Event, frozen=True, kw_only=True):
    """Event: a pass over the records has made progress. Either `n_records` is given, or `n_pieces`
    and `n_all_pieces` are.

    number : number of the pass, from 1.
    n_records : exact number of records read so far. Do not publish it.
    n_pieces : number of pieces that workers have read so far.
    n_all_pieces : number of all pieces.
    """

    number: int
    n_records: int | None = None
    n_pieces: int | None = None
    n_all_pieces: int | None = None


class PassEnded(Event, frozen=True, kw_only=True):
    """Event: the current pass over the records has ended, or was given up."""


class RecordsFound(Event, frozen=True, kw_only=True):
    """Event: the first pass over the records has ended. Do not publish the exact numbers.

    dropped : exact number of records that were left out.
    clipped : exact numbers of records and values outside the bounds.
    seconds : duration of the pass.
    """

    dropped: int
    clipped: Clipped
    seconds: float


class BudgetCharged(Event, frozen=True, kw_only=True):
    """Event: the job was charged in the ledger.

    accounts : accounts of the data set (`ledger.Account`), including this job.
    counted : ledger that counts the job.
    """

    accounts: tuple[Account, ...]
    counted: Counted


class BoundsFound(Event, frozen=True, kw_only=True):
    """Event: the first stage has found bounds. The guarantee of this stage covers the bounds."""

    mechanism: BoundsMechanism
    bounds: FoundBounds


class LedgerNoted(Event, frozen=True, kw_only=True):
    """Event: the ledger has a note for its holder.

    sentence : the note.
    """

    sentence: str


class EngineStarted(Event, frozen=True, kw_only=True):
    """Event: the workers of an engine have started.

    name : name of the engine, as in the request.
    n_workers : number of workers.
    is_elsewhere : whether the workers may be on other machines. Then the owner of the records must
        learn that these machines process records.
    """

    name: str
    n_workers: int
    is_elsewhere: bool


Watch = Callable[[Any], None]


def nobody(_event: Event) -> None:
    """Ignore the event. This function is the watch of a job whose events are not needed."""


class Stopped(Exception):  # noqa: N818 - nothing is wrong: the owner wants it
    """Signal that ends a pass over the records, because their owner asked for it. The step that
    needed the pass then has no effect.
    """


class StoppableWatch:
    """Watch that can be stopped. After `stop`, it ends the pass in progress, and every later pass.

    present : last event of the pass in progress, or None.
    since : start of that pass, in seconds of `time.monotonic`.
    """

    def __init__(self, watch: Watch = nobody) -> None:
        self._watch, self._is_stopped = watch, False
        self.present: PassProgressed | None = None
        self.since = 0.0

    def __call__(self, event: Event) -> None:
        """Pass the event to the watch. Raises Stopped during a pass, after `stop` was called."""
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
        """Stop the pass at its next block of records. Any thread may call this."""
        self._is_stopped = True
