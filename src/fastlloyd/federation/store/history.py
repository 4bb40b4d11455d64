"""What the events of a store add up to, and which event may follow which: runs, limits, and what was seen of peers."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self

from fastlloyd.errors import StateError
from fastlloyd.federation.protocol.messages import printable
from fastlloyd.federation.store import events
from fastlloyd.federation.store.events import Event, LogPosition, Outcome, Role, RunEnded


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run: what was reserved for it (None at a server), which exchanges were charged, in order, and how it ended.

    joined, left : at a server, whose Hello was taken, and for whom the run is over, in order.
    """

    run_id: bytes
    reserved: events.Reservation | None = None
    charged: tuple[int, ...] = ()
    joined: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    ended: RunEnded | None = None

    @property
    def n_exchanges(self) -> int:
        """How many exchanges were reserved."""
        return 0 if self.reserved is None else len(self.reserved.cost.costs)

    @property
    def uncharged(self) -> tuple[int, ...]:
        """The exchanges that are reserved and were not charged, rising: what is released when the run ends."""
        charged = set(self.charged)
        return tuple(number for number in range(1, self.n_exchanges + 1) if number not in charged)

    @property
    def counted(self) -> tuple[int, ...]:
        """The exchanges that count as spent: all while the run may go on, those that were charged once it has ended."""
        return tuple(sorted((*self.charged, *(self.uncharged if self.ended is None else ()))))

    def end(self, outcome: Outcome, reason: str = "") -> RunEnded:
        """The event that ends this run and releases what was not charged."""
        line = printable(" ".join(reason.split()))
        return RunEnded(run_id=self.run_id, outcome=outcome, reason=line, released=self.uncharged)


class History:
    """A fold of events in their order; `add` raises StateError at one that cannot follow those before it.

    runs : by run id, in the order in which they began. limits : the last one set on each data set. limits_since_first_run :
    those in force on a data set since its first run was reserved, in order; None where there was none. peers : the position
    that each client reported last, by signing key. signed : the event in which it signed it, if it did.
    """

    def __init__(self, role: Role) -> None:
        self.role = role
        self.runs: dict[bytes, Run] = {}
        self.limits: dict[str, events.LimitSet] = {}
        self.limits_since_first_run: dict[str, tuple[events.LimitSet | None, ...]] = {}
        self.peers: dict[str, LogPosition] = {}
        self.signed: dict[str, events.PeerSigned] = {}

    def followed_by(self, following: Iterable[Event]) -> Self:
        """The history with these events after it; this one stays as it is."""
        after = type(self)(self.role)
        after.runs, after.limits, after.peers = dict(self.runs), dict(self.limits), dict(self.peers)
        after.signed, after.limits_since_first_run = dict(self.signed), dict(self.limits_since_first_run)
        for event in following:
            after.add(event)
        return after

    def open_run(self, run_id: bytes) -> Run:
        """The run of that id, which has begun and not ended; at a server a run begins with its first event."""
        run = self.runs.get(run_id)
        if run is None:
            if self.role is Role.CLIENT:
                what = f"run {run_id.hex()} was never reserved in this store"
                raise StateError(f"{what}; a client reserves a run before all else")
            return Run(run_id=run_id)
        if run.ended is not None:
            raise StateError(f"run {run_id.hex()} has ended for this store; make the next plan for another run")
        return run

    def add(self, event: Event) -> None:
        """Take one more event."""
        self._check_role(event)
        match event:
            case events.RunReserved() | events.SortedRunReserved() | events.EarlierRunReserved():
                if event.run_id in self.runs:
                    raise StateError(f"run {event.run_id.hex()} was joined before; a plan is good for one run, renew it")
                self.runs[event.run_id] = Run(run_id=event.run_id, reserved=event)
                self.limits_since_first_run.setdefault(event.dataset, (self.limits.get(event.dataset),))
            case events.LimitSet():
                self.limits[event.dataset] = event
                if event.dataset in self.limits_since_first_run:
                    self.limits_since_first_run[event.dataset] += (event,)
            case events.PeerSeen() | events.PeerSigned():
                self._see(event)
            case events.PeerForgotten():
                if self.peers.pop(event.name, None) is None:
                    raise StateError(f"no position of the client {event.name!r} is remembered, so there is nothing to forget")
                self.signed.pop(event.name, None)
            case _:
                self.runs[event.run_id] = _after(self.open_run(event.run_id), event)

    def _check_role(self, event: Event) -> None:
        for kind, role in ((events.ClientEvent, Role.CLIENT), (events.ServerEvent, Role.SERVER)):
            if isinstance(event, kind) and self.role is not role:
                raise StateError(
                    f"a {type(event).__name__} belongs into the store of a {role.value}; this is a {self.role.value}'s"
                )

    def _see(self, event: events.PeerSeen | events.PeerSigned) -> None:
        name, now = event.name, LogPosition(event.position.length, event.position.head)
        known = self.peers.get(name)
        if known is not None and (now.length < known.length or (now.length == known.length and now.head != known.head)):
            raise StateError(
                f"the store of client {name!r} is an old copy: it holds {now.length} events and was seen with "
                f"{known.length}{', others' if now.length == known.length else ''}; the client must bring back the newest "
                "copy, or go on under a new identity"
            )
        self.peers[name] = now
        if isinstance(event, events.PeerSigned):
            self.signed[name] = event


def _after(
    run: Run,
    event: events.MessageRecorded | events.ClientJoined | events.ClientLeft | events.ExchangeCharged | RunEnded,
) -> Run:
    match event:
        case events.ClientJoined(client=client):
            if client in run.joined:
                raise StateError(f"client {client} joined run {run.run_id.hex()} before")
            return replace(run, joined=(*run.joined, client))
        case events.ClientLeft(client=client):
            if client in run.left:
                raise StateError(f"client {client} left run {run.run_id.hex()} before")
            return replace(run, left=(*run.left, client))
        case events.ExchangeCharged(number=number):
            if number > run.n_exchanges or number in run.charged:
                raise StateError(f"exchange {number} of run {run.run_id.hex()} was charged before, or never reserved")
            return replace(run, charged=(*run.charged, number))
        case RunEnded(released=released):
            if released != run.uncharged:
                raise StateError(f"the end of run {run.run_id.hex()} must release exactly the exchanges never charged")
            return replace(run, ended=event)
    return run
