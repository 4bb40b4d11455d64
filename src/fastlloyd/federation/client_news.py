"""News of a client's store for the ledger of its holder: runs, their ends, and the store's
position.
"""

import hashlib
from collections.abc import Iterator
from typing import Final

from fastlloyd.errors import OldStoreError, StateError
from fastlloyd.federation.store.durable import Store
from fastlloyd.federation.store.events import (
    Event,
    ExchangeCharged,
    PeerSeen,
    RunEnded,
    TakenOver,
    n_events,
)
from fastlloyd.federation.store.history import History

WAY_OUT: Final = "bring back the newest copy, or make a new identity (docs/how-to/ledger.md)"


RUN_LABEL: Final = b"fastlloyd/v1/run-of-a-client\0"


def own_run_id(run_id: bytes, identity: bytes) -> bytes:
    """Return the id of a client's run in the ledger, 16 bytes. It depends on the client, because
    two clients of one holder may be in the same run.

    run_id : id of the run.
    identity : public signing key of the client.
    """
    return hashlib.sha256(RUN_LABEL + identity + run_id).digest()[:16]


def taken_up(ledger: Store, client: Store) -> list[Event]:
    """Return the events to add to a ledger, so that it knows everything in a client's store.

    Raises OldStoreError if the store is an old copy. Runs and charges of this copy that the ledger
    lacks are added to the ledger before the error.
    """
    try:
        return news(ledger.history, client)
    except StateError:
        runs = _news_of_runs(ledger.history, client.history, client.identity)
        if more := [event for event in runs if not isinstance(event, RunEnded)]:
            ledger.append(more)
        raise


def news(ledger: History, client: Store) -> list[Event]:
    """Return the events to add to a ledger, so that it knows everything in a client's store.
    Nothing is written.

    Raises OldStoreError if the store is an old copy.
    """
    runs = _news_of_runs(ledger, client.history, client.identity)
    return [*runs, *_position_seen(ledger, client)]


def _news_of_runs(ledger: History, client: History, identity: bytes) -> Iterator[Event]:
    """Yield the events about runs to add to a ledger, so that it knows all runs in a client's
    store.
    """
    for run_id, run in client.runs.items():
        mine = own_run_id(run_id, identity)
        known = ledger.runs.get(mine)
        if known is None and run.reserved is not None:
            yield run.reserved.under(mine)
            yield TakenOver(run_id=mine)
        elif known is not None and known.may_begin_again and run.reserved and run.ended is None:
            # the run began again, and this ledger does not count it yet
            yield run.reserved.under(mine)
            known = None
        is_over = known is not None and known.ended is not None
        if run.ended is not None or is_over:
            charged = () if known is None else known.charged
            yield from (
                ExchangeCharged(run_id=mine, number=number)
                for number in run.charged
                if number not in charged
            )
        if run.ended is not None and not is_over:
            yield RunEnded(
                run_id=mine,
                outcome=run.ended.outcome,
                reason=run.ended.reason,
                released=run.ended.released,
            )


def _position_seen(ledger: History, client: Store) -> Iterator[Event]:
    """Yield an event with the position of the client's store, if this position is new to the
    ledger.

    Raises OldStoreError if the ledger remembers a longer store, or other events in it.
    """
    name, now = client.identity.hex(), client.position
    known = ledger.peers.get(name)
    if known is not None and (
        known.length > now.length or client.head_at(known.length) != known.head
    ):
        raise OldStoreError(
            f"{client.path} is an old copy, or was made again: it has {n_events(now.length)}, and"
            f" does not begin with the {n_events(known.length)} that the ledger has seen; {WAY_OUT}"
        )
    if known != now:
        yield PeerSeen(name=name, position=now)
