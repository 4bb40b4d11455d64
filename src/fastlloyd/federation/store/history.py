"""State of a store that follows from its events: runs, limits, and positions of clients' stores. It
also has the rules that say which event may follow which.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Self

import msgspec

from fastlloyd.base import names
from fastlloyd.dp.neighboring import Neighbours
from fastlloyd.errors import StateError
from fastlloyd.federation.protocol.messages import printable
from fastlloyd.federation.store import events
from fastlloyd.federation.store.added_up import Adding
from fastlloyd.federation.store.events import Event, LogPosition, Outcome, Role, RunEnded, Step

Limited = tuple[str, Neighbours | None]
"""Key of a limit: name of the data set, and the neighbouring relation that the limit names, or None
if it names none (`LimitSet.speaks_of`). The name of the data set is spelt as in the event. Only the
keys of `History.limits_since_first_run` have the normalised name (`names.same`).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Run in a store.

    run_id : id of the run.
    reserved : reservation of the run, or None at a server.
    charged : indices of the charged rounds, from 1, in order.
    is_agreed : whether all its clients were ready. From then on, rounds may have been charged.
    joined : at a server, names of the clients that said Hello, in order.
    left : at a server, names of the clients that left the run, in order.
    ended : end of the run, or None.
    is_charged_whole : in a ledger, whether every round was charged at the start. Some of them
        may have been refunded. No further event of such a run is expected.
    is_taken_over : in a ledger, whether the run began before the ledger knew of it.
    noted : in a ledger, facts of the run for the owner, or None.
    """

    run_id: bytes
    reserved: events.Reservation | None = None
    charged: tuple[int, ...] = ()
    is_agreed: bool = False
    joined: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    ended: RunEnded | None = None
    is_charged_whole: bool = False
    is_taken_over: bool = False
    noted: events.RunNoted | None = None

    @property
    def is_open(self) -> bool:
        """Return whether the run may continue."""
        return self.ended is None and not self.is_charged_whole

    @property
    def may_begin_again(self) -> bool:
        """Return whether the run ended before any budget was spent, so its plan can be used
        again.
        """
        is_spent = self.is_agreed or bool(self.charged) or self.is_charged_whole
        return self.ended is not None and not is_spent

    @property
    def n_exchanges(self) -> int:
        """Number of rounds that were reserved."""
        return 0 if self.reserved is None else len(self.reserved.cost.costs)

    @property
    def uncharged(self) -> tuple[int, ...]:
        """Indices of the rounds that were reserved and not charged, in rising order. These
        rounds are released when the run ends.
        """
        charged = set(self.charged)
        return tuple(number for number in range(1, self.n_exchanges + 1) if number not in charged)

    @property
    def counted(self) -> tuple[int, ...]:
        """Indices of the rounds that count as spent. While the run is open, these are all
        rounds. Afterwards they are the charged rounds.
        """
        return tuple(sorted((*self.charged, *(self.uncharged if self.is_open else ()))))

    def end(self, outcome: Outcome, reason: str = "") -> RunEnded:
        """Return the event that ends this run, with or without a result, and releases the rounds
        that were not charged.

        reason : reason for an end without a result.
        """
        line = printable(" ".join(reason.split()))
        return RunEnded(run_id=self.run_id, outcome=outcome, reason=line, released=self.uncharged)


class History:
    """State that follows from the events of a store, in their order. `add` raises StateError for an
    event that may not follow.

    role : role of the store's owner.
    runs : runs by id, in the order in which they began.
    limits : last limit for each data set and neighbours.
    limits_since_first_run : for each data set and neighbours, the limits since the first run on the
        data set was reserved, in order. None stands for no limit.
    used : normalised names (`names.same`) of the data sets with a run.
    spellings : spellings of each data set's name, by the normalised name, in order. The first is
        the name that is shown.
    told : number of these spellings that the holder was told about, by the normalised name.
    peers : last known position of each client's store, by signing key (hex).
    signed : event with the client's signature on the position in `peers`, by signing key (hex), if
        there is such an event.
    rest : runs that are only in the last `AddedUp`. Empty if `is_whole`.
    is_whole : whether all events were read.
    adding : progress of adding up the events.
    """

    def __init__(self, role: Role) -> None:
        self.role = role
        self.runs: dict[bytes, Run] = {}
        self.limits: dict[Limited, events.Limit] = {}
        self.limits_since_first_run: dict[Limited, tuple[events.Limit | None, ...]] = {}
        self.used: frozenset[str] = frozenset()
        self.spellings: dict[str, tuple[str, ...]] = {}
        self.told: dict[str, int] = {}
        self.peers: dict[str, LogPosition] = {}
        self.signed: dict[str, events.PeerSigned] = {}
        self.rest: tuple[events.AnyRepeated, ...] = ()
        self.is_whole = True
        self.adding = Adding()

    def followed_by(self, following: Iterable[Event]) -> Self:
        """Return a new history with these events added. This one does not change."""
        after = type(self)(self.role)
        after.runs, after.limits, after.peers = dict(self.runs), dict(self.limits), dict(self.peers)
        after.used, after.spellings = self.used, dict(self.spellings)
        after.told = dict(self.told)
        after.signed, after.limits_since_first_run = (
            dict(self.signed),
            dict(self.limits_since_first_run),
        )
        after.rest, after.is_whole, after.adding = self.rest, self.is_whole, self.adding.copy()
        for event in following:
            after.add(event)
        return after

    @classmethod
    def resumed(cls, added: events.AddedUp, number: int, others: Iterable[Event]) -> Self:
        """Return the history up to an `AddedUp`.

        added : the event.
        number : index of the event.
        others : the earlier events that it names.
        """
        history = cls(Role.HOLDER)
        for at, event in zip(added.others, others, strict=True):
            history.adding.n_events = at - 1
            history.add(event)
        history.adding.n_events = number
        history.rest = history.adding.sums = added.sums
        history.is_whole = False
        return history

    @property
    def n_runs(self) -> int:
        """Number of runs."""
        return len(self.runs) + sum(each.times for each in self.rest)

    @property
    def counted(self) -> frozenset[bytes]:
        """Ids of the runs that spent something or may still do so."""
        return frozenset(run_id for run_id, run in self.runs.items() if not run.may_begin_again)

    def due(self) -> list[events.AddedUp]:
        """Return the `AddedUp` that should be written next, in a list. The list is empty if none is
        due.
        """
        return self.adding.due(self.runs)

    def _add_up(self, event: events.AddedUp) -> None:
        taken = self.adding.take(event, self.runs)
        if self.is_whole:
            self.adding.done = self.adding.done | taken
        else:
            self.runs = {key: run for key, run in self.runs.items() if key not in taken}
            self.rest = event.sums

    def limits_on(self, dataset: str) -> dict[Neighbours | None, events.Limit]:
        """Return the limits on a data set, by the neighbours that they name.

        If several spellings of its name have limits, the tightest applies.
        """
        found: dict[Neighbours | None, list[events.Limit]] = {}
        for (name, asked), limit in self.limits.items():
            if names.same(name) == names.same(dataset):
                found.setdefault(asked, []).append(limit)
        return {asked: _tightest(limits) for asked, limits in found.items()}

    def on_all_spellings(self, limit: events.Limit) -> list[events.Limit]:
        """Return the events that set this limit. They replace all limits with the same neighbours,
        on any spelling of the data set's name.
        """
        name = names.same(limit.dataset)
        spelled = [
            dataset
            for dataset, asked in self.limits
            if names.same(dataset) == name and asked == limit.speaks_of
        ]
        return [
            msgspec.structs.replace(limit, dataset=dataset)
            for dataset in spelled or [self.called(limit.dataset)]
        ]

    def called(self, dataset: str) -> str:
        """Return the name that is shown for a data set. `dataset` is any spelling of the name."""
        return self.spellings.get(names.same(dataset), (dataset,))[0]

    def untold(self, dataset: str) -> tuple[str, ...]:
        """Return all spellings of a data set's name if the holder was not yet told that they mean
        the same data set. Otherwise return ().
        """
        found = self.spellings.get(names.same(dataset), ())
        return found if len(found) > max(1, self.told.get(names.same(dataset), 0)) else ()

    def _spelled(self, dataset: str) -> str:
        """Record a spelling of a data set's name. Return the normalised name (`names.same`)."""
        name = names.same(dataset)
        if dataset not in (found := self.spellings.get(name, ())):
            self.spellings[name] = (*found, dataset)
        return name

    def open_run(self, run_id: bytes, *, begins: bool = True) -> Run:
        """Return the open run with this id.

        Raises StateError if the run is unknown or has ended. There are two exceptions at a server.
        For an unknown id it returns a new run. If `begins` is True, it also returns a new run for
        one that ended before any budget was spent.
        """
        run = self.runs.get(run_id)
        is_again = run is not None and run.may_begin_again and self.role is Role.SERVER
        if run is None or (is_again and begins):
            if self.role is not Role.SERVER:
                what = f"run {run_id.hex()} was never reserved in this store"
                raise StateError(f"{what}; a client must reserve a run first")
            return Run(run_id=run_id)
        if run.ended is not None:
            raise StateError(
                f"run {run_id.hex()} has ended in this store; a plan is for one run only: renew"
                " the plan"
            )
        return run

    def add(self, event: Event) -> None:
        """Add one more event. Raises StateError if it may not follow."""
        self._check_role(event)
        if isinstance(event, events.AddedUp):
            self._add_up(event)
            return
        self._take(event)
        if self.role is Role.HOLDER:
            self.adding.note(event)

    def _take(self, event: Step) -> None:
        match event:
            case events.RunReserved() | events.PersonRunReserved():
                self._reserve(event)
            case events.LimitSet() | events.UnitLimitSet():
                self._limit(event)
            case events.DataSetNamed():
                name = self._spelled(event.dataset)
                self.told[name] = len(self.spellings[name])
            case events.PeerSeen() | events.PeerSigned():
                self._see(event)
            case events.PeerForgotten():
                if self.peers.pop(event.name, None) is None:
                    raise StateError(
                        f"no position of the client {event.name!r} is remembered, so there is"
                        " nothing to forget"
                    )
                self.signed.pop(event.name, None)
            case events.HandedBack() if event.run_id in self.adding.done:
                raise StateError(
                    f"run {event.run_id.hex()} is part of a sum of several runs, so its rounds"
                    " cannot be released"
                )
            case events.ExchangeCharged() if self.role is Role.HOLDER and event.run_id in self.runs:
                # Also after the end of the run. It may have been given up with an old copy of the
                # client's store, while the newest copy had charged more.
                self.runs[event.run_id] = _after(self.runs[event.run_id], event)
            case _:
                begins = not isinstance(event, events.ClientLeft)
                self.runs[event.run_id] = _after(self.open_run(event.run_id, begins=begins), event)

    def _reserve(self, event: events.Reservation) -> None:
        known = self.runs.get(event.run_id)
        if known is not None and not _is_again(known, event):
            raise StateError(
                f"run {event.run_id.hex()} was joined before; a plan is for one run only:"
                " renew the plan"
            )
        if (name := self._spelled(event.dataset)) not in self.used:
            first = {
                (name, asked): (limit,) for asked, limit in self.limits_on(event.dataset).items()
            }
            self.limits_since_first_run |= first
            self.used = self.used | {name}
        self.runs[event.run_id] = Run(run_id=event.run_id, reserved=event)

    def _limit(self, event: events.Limit) -> None:
        name, asked = self._spelled(event.dataset), event.speaks_of
        self.limits[event.dataset, asked] = event
        if name in self.used:
            before = self.limits_since_first_run.get((name, asked), (None,))
            now = self.limits_on(name)[asked]
            self.limits_since_first_run[name, asked] = (*before, now)

    def _check_role(self, event: Event) -> None:
        for kind, *roles in _PLACES:
            if isinstance(event, kind) and self.role not in roles:
                raise StateError(
                    f"a {type(event).__name__} belongs in {roles[0].store}; this is"
                    f" {self.role.store}"
                )

    def _see(self, event: events.PeerSeen | events.PeerSigned) -> None:
        name, now = event.name, LogPosition(event.position.length, event.position.head)
        known = self.peers.get(name)
        if known is not None and (
            now.length < known.length or (now.length == known.length and now.head != known.head)
        ):
            fault = (
                f"the store of client {name!r} is an old copy: its events differ from the"
                f" {known.length} seen before"
                if now.length == known.length
                else f"the store of client {name!r} is an old copy: it has"
                f" {events.n_events(now.length)}, and {known.length} were seen before"
            )
            raise StateError(
                f"{fault}; the client must bring back the newest copy, or use a new identity"
            )
        self.peers[name] = now
        if isinstance(event, events.PeerSigned):
            self.signed[name] = event


def _is_again(run: Run, reserved: events.Reservation) -> bool:
    """Return whether a run that ended at no cost begins again: with the same plan, client, data set
    and cost.
    """
    before = run.reserved
    return (
        run.may_begin_again
        and before is not None
        and names.same(before.dataset) == names.same(reserved.dataset)
        and (before.plan_digest, before.client, before.cost)
        == (reserved.plan_digest, reserved.client, reserved.cost)
    )


def _tightest(limits: Sequence[events.Limit]) -> events.Limit:
    """Return a limit that implies all of these limits, which have the same neighbours. If all of
    them are lifted, return the last one.
    """
    *_, last = limits
    stand = [limit for limit in limits if math.isfinite(limit.epsilon)]
    if len(stand) < 2:
        return next(iter(stand), last)
    return msgspec.structs.replace(
        stand[-1],
        epsilon=min(limit.epsilon for limit in stand),
        delta=min(limit.delta for limit in stand),
    )


_PLACES: Final = (
    (events.ClientEvent, Role.CLIENT, Role.HOLDER),
    (events.ServerEvent, Role.SERVER),
    (events.HolderEvent | events.AddedUp, Role.HOLDER),
    (events.MessageRecorded, Role.CLIENT, Role.SERVER),
)
"""Kinds of events that only some roles may store, with these roles. Every role may store the kinds
that are not listed.
"""


def _after(
    run: Run,
    event: (
        events.MessageRecorded
        | events.ClientJoined
        | events.ClientLeft
        | events.ExchangeCharged
        | events.RunEvent
        | RunEnded
    ),
) -> Run:
    match event:
        case events.MessageRecorded(kind="AllReady"):
            return replace(run, is_agreed=True)
        case events.ClientJoined() | events.ClientLeft():
            return _at_server(run, event)
        case events.ExchangeCharged(number=number):
            if number > run.n_exchanges or number in run.charged:
                raise StateError(
                    f"round {number} of run {run.run_id.hex()} is already charged, or was never"
                    " reserved"
                )
            return replace(run, charged=(*run.charged, number))
        case events.RunNoted():
            return replace(run, noted=event)
        case events.RunCharged() | events.HandedBack() | events.TakenOver():
            return _in_ledger(run, event)
        case RunEnded(released=released):
            if released != run.uncharged:
                raise StateError(
                    f"the end of run {run.run_id.hex()} must release exactly the rounds that were"
                    " never charged"
                )
            return replace(run, ended=event)
    return run


def _at_server(run: Run, event: events.ClientJoined | events.ClientLeft) -> Run:
    client = event.client
    if isinstance(event, events.ClientJoined):
        if client in run.left:  # the client joins again, with fresh keys
            return replace(run, left=tuple(name for name in run.left if name != client))
        if client in run.joined:
            raise StateError(f"client {client} has already joined run {run.run_id.hex()}")
        return replace(run, joined=(*run.joined, client))
    if client in run.left:
        raise StateError(f"client {client} has already left run {run.run_id.hex()}")
    return replace(run, left=(*run.left, client))


def _in_ledger(run: Run, event: events.RunCharged | events.HandedBack | events.TakenOver) -> Run:
    if isinstance(event, events.TakenOver):
        return replace(run, is_taken_over=True)
    charged = set(run.charged)
    if isinstance(event, events.RunCharged):
        if charged or run.is_charged_whole:
            raise StateError(f"run {run.run_id.hex()} is already charged")
        return replace(run, charged=run.uncharged, is_charged_whole=True)
    if (
        not run.is_charged_whole
        or run.uncharged
        or event.numbers != tuple(sorted(charged.intersection(event.numbers)))
    ):
        raise StateError(
            f"run {run.run_id.hex()} cannot release these rounds: some of them were not charged,"
            " or are already released"
        )
    return replace(run, charged=tuple(sorted(charged.difference(event.numbers))))
