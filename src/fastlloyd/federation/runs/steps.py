"""Common parts of client and server in a run with durable steps: the time of a step, its commit,
and its line in the log.
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
    """Reason why the time of a step starts again."""

    # the other side may have been restarted, and then starts its time again too
    OTHER_SIDE_CAME_BACK = enum.auto()
    SLEPT = enum.auto()  # this process was stopped, or its machine slept


class StepTimer:
    """Clock of the current step. It starts when this process first sees the step, so a restarted
    process starts it again.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._step: Hashable = None
        self._since = 0.0
        self._begun_again: Counter[Again] = Counter()

    def left(self, step: Hashable, allowed: float) -> float:
        """Return the seconds that are left for this step, 0 or less if the time is over.

        step : identifier of the step.
        allowed : seconds that the step may take.
        """
        if step != self._step:
            self._step, self._since = step, self._clock()
            self._begun_again.clear()
        return allowed - (self._clock() - self._since)

    def begin_again(self, why: Again) -> None:
        """Start the time of the current step again. For each reason the time starts again only a
        few times, so every step ends.
        """
        if self._begun_again[why] < MAX_BEGUN_AGAIN:
            self._since = self._clock()
            self._begun_again[why] += 1


class StepLog:
    """Log of finished steps. A step that an earlier process began is logged without its duration.

    A line contains names of the plan and public numbers, but nothing of a record, no sum and no
    key. For programs that read the log, the attribute `facts` of each log record contains the same:
    step, round (or null), included, missing, seconds (or null).

    Parameters
    ----------
    plan : plan of the run.
    clock : function that returns the time in seconds.
    is_begun : whether an earlier process began the run.
    """

    def __init__(self, plan: Plan, clock: Clock, *, is_begun: bool) -> None:
        self._names, self._n_rounds = plan.names, plan.mechanism.n_rounds
        self._clock = clock
        self._since = None if is_begun else clock()

    def write(self, messages: Iterable[Message]) -> None:
        """Log the steps that end with these messages. Call it once the messages are durable."""
        for message in messages:
            match message:
                case Deal(_, attempt, hellos):
                    step = "joined" if attempt == 1 else f"keys shared anew, attempt {attempt}"
                    self._line(step, None, [hello.name for hello in hellos])
                case BadKeys(_, makers):
                    names = ", ".join(makers)
                    _LOG.warning(
                        "keys that these clients made for this client are not valid: %s; nothing"
                        " was spent",
                        names,
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
    """Base of client and server in a run with durable steps: a session of the protocol and its
    store.

    After a failed commit, the session in memory is ahead of the disk. It then answers no message,
    because its last step may never have been stored. A restarted process takes that step again,
    with other noise.
    """

    def __init__(self, session: Session, store: Store, clock: Clock) -> None:
        self._session, plan = session, session.plan
        self._store, self._run_id = store, bytes.fromhex(plan.run_id)
        self._timer, self._is_ahead = StepTimer(clock), False
        self._log = StepLog(plan, clock, is_begun=self._run_id in store.history.runs)

    @property
    def session(self) -> Session:
        """Session of the protocol, for reading only. A step taken on it directly would not be
        durable.
        """
        return self._session

    @property
    def charged(self) -> tuple[int, int]:
        """Number of rounds that the run has been charged for so far, and number of rounds reserved
        for it.
        """
        run = self._store.history.runs.get(self._run_id)
        return (0, 0) if run is None else (len(run.charged), run.n_exchanges)

    @property
    def may_begin_again(self) -> bool:
        """Return whether the run has ended for this party at no cost, so the plan can be used
        again.
        """
        run = self._store.history.runs.get(self._run_id)
        return run is not None and run.may_begin_again

    def slept(self) -> None:
        """Start the time of the step again, because this process was stopped or its machine
        slept.
        """
        self._timer.begin_again(Again.SLEPT)

    def _check_footing(self) -> None:
        """Raise StateError if the last step is not on disk. Call this before each use of the
        session.
        """
        if self._is_ahead:
            raise StateError(
                "the last step could not be written to disk, so the run stops here; run the"
                " same command again"
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
    """Raise StateError if the run has ended in this party's store and may have spent budget.

    who : words for the party, which follow "has ended" in the message.
    """
    if run.ended is not None and not run.may_begin_again:
        ending = run.ended.reason or "it finished"
        raise StateError(
            f"run {run.run_id.hex()} has ended{who} ({ending}); a plan is for one run"
            " only: renew the plan"
        )
