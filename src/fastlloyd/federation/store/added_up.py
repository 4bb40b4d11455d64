"""Counts of equal runs in a ledger, so that a ledger of thousands of runs opens as quickly as one
with a few.

Equal runs are runs on one data set that cost the same and were charged whole. An `AddedUp` counts
them. Nothing is rounded, because each cost is kept as it is. A ledger is opened from its last
`AddedUp`. A full verification counts all runs again, and compares.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol, Self

from fastlloyd.base import names
from fastlloyd.errors import StateError
from fastlloyd.federation.store import events
from fastlloyd.federation.store.costs import PersonRunCost, PlannedCost
from fastlloyd.federation.store.events import AddedUp, AnyRepeated, Event

# smallest number of runs that an `AddedUp` adds, and number of last runs that it leaves out
PERIOD, RECENT = 128, 64


class AnyRun(Protocol):
    """Interface of `history.Run`, for the type checker."""

    @property
    def reserved(self) -> events.Reservation | None: ...  # noqa: D102 - see the class
    @property
    def counted(self) -> tuple[int, ...]: ...  # noqa: D102 - see the class
    @property
    def is_charged_whole(self) -> bool: ...  # noqa: D102 - see the class


@dataclass(kw_only=True)
class Adding:
    """Progress of counting the equal runs of a history.

    n_events : number of events so far.
    sums : counts in the last `AddedUp`.
    singly : events that belong to no counted run. The keys are their indices. The values are the
        ids of their runs, or None for an event without a run.
    first : id of the first run under each spelling of a data set's name.
    done : ids of the counted runs, if all events were read.
    """

    n_events: int = 0
    sums: tuple[AnyRepeated, ...] = ()
    singly: dict[int, bytes | None] = field(default_factory=dict)
    first: dict[str, bytes] = field(default_factory=dict)
    done: frozenset[bytes] = frozenset()

    def copy(self) -> Self:
        """Return a copy, for a history that continues from here."""
        return replace(self, singly=dict(self.singly), first=dict(self.first))

    def note(self, event: Event) -> None:
        """Update these fields for one more event, which must not be an `AddedUp`."""
        self.n_events += 1
        self.singly[self.n_events] = None
        match event:
            case events.RunReserved() | events.PersonRunReserved():
                self.singly[self.n_events] = event.run_id
                self.first.setdefault(event.dataset, event.run_id)
            case events.RunCharged() | events.HandedBack() | events.RunNoted():
                self.singly[self.n_events] = event.run_id
            case _:
                pass

    def due(self, runs: Mapping[bytes, AnyRun]) -> list[AddedUp]:
        """Return the `AddedUp` that should be written next, in a list. The list is empty if none is
        due.
        """
        ids = self._to_take(runs)
        return [self._added_up(runs, ids)] if len(ids) >= max(PERIOD, len(self.sums)) else []

    def take(self, event: AddedUp, runs: Mapping[bytes, AnyRun]) -> set[bytes]:
        """Update these fields for an `AddedUp`, and return the ids of the runs that it adds to the
        counts.

        Raises StateError unless its counts are right.
        """
        ids = self._to_take(runs)
        if event != self._added_up(runs, ids):
            raise StateError("the sums in the event differ from the sums of the runs before it")
        self.n_events += 1
        self.sums, self.singly = event.sums, {at: self.singly[at] for at in event.others}
        return set(ids)

    def _to_take(self, runs: Mapping[bytes, AnyRun]) -> list[bytes]:
        """Return the ids of the runs for the next `AddedUp`.

        These runs were charged whole. The first run under each name is not among them. Nor are the
        last runs, because some of their rounds may still be refunded.
        """
        first = set(self.first.values())
        return [
            run_id
            for run_id in dict.fromkeys(self.singly.values())
            if run_id is not None and run_id not in first and runs[run_id].is_charged_whole
        ][:-RECENT]

    def _added_up(self, runs: Mapping[bytes, AnyRun], ids: list[bytes]) -> AddedUp:
        times: dict[tuple[str, tuple[int, ...], PlannedCost], int] = {
            (each.dataset, each.numbers, each.cost): each.times for each in self.sums
        }
        for run_id in ids:
            if (reserved := runs[run_id].reserved) is not None:
                kind = names.same(reserved.dataset), runs[run_id].counted, reserved.cost
                times[kind] = times.get(kind, 0) + 1
        taken = set(ids)
        return AddedUp(
            records=tuple(
                events.RepeatedRuns(dataset=name, numbers=numbers, times=n, cost=cost)
                for (name, numbers, cost), n in times.items()
                if not isinstance(cost, PersonRunCost)
            ),
            persons=tuple(
                events.RepeatedPersonRuns(dataset=name, numbers=numbers, times=n, cost=cost)
                for (name, numbers, cost), n in times.items()
                if isinstance(cost, PersonRunCost)
            ),
            others=tuple(at for at, run_id in self.singly.items() if run_id not in taken),
        )
