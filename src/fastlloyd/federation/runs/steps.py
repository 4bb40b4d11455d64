"""What both parties of a run need around a step: how long it has taken, and whether the last one is on disk."""

import enum
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager

from fastlloyd.errors import StateError

Clock = Callable[[], float]

MAX_BEGUN_AGAIN = 5


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


class Footing:
    """Whether all that a session decided is on disk.

    Where a commit failed, the session in memory is ahead of the disk. It answers nobody then: what it would say again was never
    durable, and a process that is started again decides it anew, with other noise.
    """

    def __init__(self) -> None:
        self._is_ahead = False

    def check(self) -> None:
        """Raise StateError if the last step is not on disk; to be asked before the session is."""
        if self._is_ahead:
            raise StateError("the last step could not be made durable, so nothing follows from it; start again")

    @contextmanager
    def commit(self) -> Iterator[None]:
        """Around the commit of a step."""
        self._is_ahead = True
        yield
        self._is_ahead = False
