"""What both parties of a run need around a step: how long it may still take, its commit, and its
line of the log.
"""

import enum
import logging
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Final, Generic, TypeVar

from fastlloyd.errors import StateError
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.protocol.client import ClientSession
from fastlloyd.federation.protocol.messages import (
    BadKeys,
    Broadcast,
    Confirmations,
    Deal,
    Message,
    encode,
)
from fastlloyd.federation.protocol.server import ServerSession
from fastlloyd.federation.store import Run, Store
from fastlloyd.federation.store.events import Event
from fastlloyd.federation.store.sealed import Secrets

Clock = Callable[[], float]
Session = TypeVar("Session", bound=ClientSession | ServerSession)
_LOG = logging.getLogger(__name__)
MAX_BEGUN_AGAIN: Final = 5
SHOWN_CLIENTS: Final = 12


class Again(enum.Enum):
    """Why the time of a step begins again."""

    OTHER_SIDE_CAME_BACK = enum.auto()  # it may have been started again, and counts anew as well
    SLEPT = enum.auto()  # this process was stopped, or its machine was


class StepTimer:
    """Counts from when it first saw a step; a process that is started again counts anew."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._step: Hashable = None
        self._since = 0.0
        self._begun_again: Counter[Again] = Counter()

    def left(self, step: Hashable, allowed: float) -> float:
        """Seconds left of those allowed for this step, 0 or less once they are over."""
        if step != self._step:
            self._step, self._since = step, self._clock()
            self._begun_again.clear()
        return allowed - (self._clock() - self._since)

    def begin_again(self, why: Again) -> None:
        """Count the step anew; a few times for each reason, so that every step has an end."""
        if self._begun_again[why] < MAX_BEGUN_AGAIN:
            self._since = self._clock()
            self._begun_again[why] += 1


class StepLog:
    """Writes about steps that this process saw from their beginning to their end, and of others
    without their seconds.

    A line holds names of the plan and public numbers: nothing of a record, no sum, no key. Each has
    the same as `facts`, for a log that programs read: step, round (null where it is none),
    included, missing, seconds (or null).

    Parameters
    ----------
    is_begun : the run was begun by an earlier process.
    """

    def __init__(self, plan: Plan, clock: Clock, *, is_begun: bool) -> None:
        self._names, self._n_rounds = plan.names, plan.mechanism.n_rounds
        self._clock = clock
        self._since = None if is_begun else clock()

    def write(self, messages: Iterable[Message]) -> None:
        """The steps that ended with these messages, once they are durable."""
        for message in messages:
            match message:
                case Deal(_, attempt, hellos):
                    step = "joined" if attempt == 1 else f"keys shared anew, attempt {attempt}"
                    self._line(step, None, [hello.name for hello in hellos])
                case BadKeys(_, makers):
                    names = ", ".join(makers)
                    _LOG.warning(
                        "a key does not fit that %s made for this client; nothing was spent", names
                    )
                case Broadcast(number):
                    self._line(
                        f"round {number} of {self._n_rounds}",
                        number,
                        list(message.included(self._names)),
                    )
                case Confirmations(confirmed):
                    self._line("confirmed", None, [name for name, _, _ in confirmed])

    def _line(self, step: str, number: int | None, included: Sequence[str]) -> None:
        now = self._clock()
        seconds, self._since = None if self._since is None else round(now - self._since, 3), now
        there = set(included)
        missing = [name for name in self._names if name not in there]
        took = "" if seconds is None else f", {seconds:.3g} s"
        more = f" and {len(missing) - SHOWN_CLIENTS} more" if len(missing) > SHOWN_CLIENTS else ""
        without = f", without {', '.join(missing[:SHOWN_CLIENTS])}{more}" if missing else ""
        facts = {
            "step": step,
            "round": number,
            "included": list(included),
            "missing": missing,
            "seconds": seconds,
        }
        counts = (step, len(included), len(self._names), without, took)
        _LOG.info("%s: %d of %d clients%s%s", *counts, extra={"facts": facts})


class DurableParty(Generic[Session]):
    """What both parties have: a session of the protocol beside the store that makes its steps
    durable.

    Where a commit failed, the session in memory is ahead of the disk. It answers nobody then: what
    it would say again was never durable, and a process that is started again decides it anew, with
    other noise.
    """

    def __init__(self, session: Session, store: Store, clock: Clock) -> None:
        self._session, plan = session, session.plan
        self._store, self._run_id = store, bytes.fromhex(plan.run_id)
        self._timer, self._is_ahead = StepTimer(clock), False
        self._log = StepLog(plan, clock, is_begun=self._run_id in store.history.runs)

    @property
    def session(self) -> Session:
        """The session, to look at: a step that is asked of it here is not durable."""
        return self._session

    @property
    def may_begin_again(self) -> bool:
        """Whether the run has ended for the store of this party, and cost nothing: the plan can be
        used again.
        """
        run = self._store.history.runs.get(self._run_id)
        return run is not None and run.may_begin_again

    def slept(self) -> None:
        """Wake from a stop of this process, or a sleep of its machine: the step's time begins
        again.
        """
        self._timer.begin_again(Again.SLEPT)

    def _check_footing(self) -> None:
        """Raise StateError if the last step is not on disk; to be asked before the session is."""
        if self._is_ahead:
            raise StateError(
                "the last step could not be made durable, so nothing follows from it; start again"
            )

    def _append(
        self, events: Sequence[Event], messages: Sequence[Message], secrets: Secrets | None = None
    ) -> None:
        self._is_ahead = True
        self._store.append(
            events, messages=[encode(message) for message in messages], secrets=secrets
        )
        self._is_ahead = False


def check_goes_on(run: Run, who: str) -> None:
    """Raise StateError if the run has ended for the store of this party, and may have cost
    something.
    """
    if run.ended is not None and not run.may_begin_again:
        ending = run.ended.reason or "it finished"
        raise StateError(
            f"run {run.run_id.hex()} has ended{who} ({ending}); a plan is good for one run:"
            " renew it"
        )
