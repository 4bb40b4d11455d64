"""How long a step of a run has taken."""

from collections.abc import Callable, Hashable

Clock = Callable[[], float]


class StepTimer:
    """Counts from when it first saw a step; a process that is started again counts anew."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._step: Hashable = None
        self._since = 0.0

    def left(self, step: Hashable, allowed: float) -> float:
        """Seconds left of those allowed for this step, 0 or less once they are over."""
        if step != self._step:
            self._step, self._since = step, self._clock()
        return allowed - (self._clock() - self._since)
