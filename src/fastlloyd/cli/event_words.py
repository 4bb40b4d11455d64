"""Describe the events of a store in words, one line each, for people who read the whole store."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from fastlloyd.base.precision import delta_up, epsilon_up
from fastlloyd.cli.terminal import iso
from fastlloyd.federation.store import events
from fastlloyd.federation.store.events import Event, Limit, Reservation, RunNoted


def words(event: Event) -> str:
    """Return a description of an event, without the id of its run."""
    return _WORDS[type(event)](event)


def run_of(event: Event) -> str:
    """Return the id of the event's run in hex, or "" if the event belongs to no run."""
    run_id: bytes = getattr(event, "run_id", b"")
    return run_id.hex()


def rows(recorded: list[Event], seconds: tuple[int, ...]) -> list[dict[str, Any]]:
    """Return the events as a list of dicts (for JSON), in the order of the store."""
    return [
        {
            "number": number,
            "time": iso(at),
            "event": type(event).__name__,
            "run_id": run_of(event) or None,
            "says": words(event),
        }
        for number, (event, at) in enumerate(zip(recorded, seconds, strict=True), 1)
    ]


def _reserved(event: Reservation) -> str:
    n = len(event.cost.costs)
    return f"run of {event.client} reserved on {event.dataset}, rounds: {n}"


def _limit(event: Limit) -> str:
    whom = "" if event.speaks_of is None else f" for {event.speaks_of}"
    if math.isinf(event.epsilon):
        return f"limit lifted on {event.dataset}{whom}"
    limit = f"epsilon {epsilon_up(event.epsilon)} at delta {delta_up(event.delta)}"
    return f"limit set on {event.dataset}{whom}: {limit}"


def _noted(event: RunNoted) -> str:
    purpose = f"purpose: {event.purpose}" if event.purpose else "no purpose given"
    if (files := event.files) is None:
        return f"by {event.command}, {purpose}, no files noted"
    n = "1 file" if files.n_files == 1 else f"{files.n_files} files"
    return f"by {event.command}, {purpose}, {n}, {files.size} bytes: {files.path}"


_WORDS: Mapping[type, Callable[[Any], str]] = {
    events.RunReserved: _reserved,
    events.PersonRunReserved: _reserved,
    events.RunCharged: lambda _: "all rounds charged",
    events.HandedBack: lambda e: (
        f"rounds refunded, because no noise was drawn for them: {', '.join(map(str, e.numbers))}"
    ),
    events.RunNoted: _noted,
    events.TakenOver: lambda _: "run began before this ledger knew of it",
    events.DataSetNamed: lambda e: (
        f"data set {e.dataset} entered; other spellings of the name count as the same data set"
    ),
    events.AddedUp: lambda e: f"runs added up: {sum(each.times for each in e.sums)}",
    events.MessageRecorded: lambda e: f"message {e.kind} recorded",
    events.ExchangeCharged: lambda e: f"round {e.number} charged",
    events.RunEnded: lambda e: f"run {e.outcome.value}, rounds released: {len(e.released)}",
    events.LimitSet: _limit,
    events.UnitLimitSet: _limit,
    events.ClientJoined: lambda e: f"client {e.client} joined",
    events.ClientLeft: lambda e: f"client {e.client} left",
    events.PeerSigned: lambda e: f"store of client {e.client} seen, events: {e.position.length}",
    events.PeerSeen: lambda e: f"store of {e.name[:16]}... seen, events: {e.position.length}",
    events.PeerForgotten: lambda e: f"store of {e.name[:16]}... forgotten",
}
"""Words for each kind of event."""
