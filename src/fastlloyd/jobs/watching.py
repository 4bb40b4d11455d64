"""Events of a job, for the parts that watch it: a bar, a line of a log, a page."""

from collections.abc import Callable
from typing import Any

import msgspec

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
