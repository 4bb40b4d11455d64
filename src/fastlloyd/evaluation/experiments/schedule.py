"""Which trial comes next: a process stays with one set, and in the end all help with what is left."""

from collections import deque
from collections.abc import Iterable

from fastlloyd.evaluation.experiments.trial import Trial


class Schedule:
    """Trials that are not done, by data set: sets in the order in which they are given, and within one run after run.

    Methods of one run start from the same centroids, which a process keeps while it stays with the run.
    """

    def __init__(self, trials: Iterable[Trial]) -> None:
        ordered = sorted(trials, key=lambda trial: trial.run)
        self._waiting: dict[str, deque[Trial]] = {trial.dataset: deque() for trial in ordered}
        for trial in ordered:
            self._waiting[trial.dataset].append(trial)
        self._users: dict[str, int] = dict.fromkeys(self._waiting, 0)

    @property
    def any_left(self) -> bool:
        """Whether a trial is waiting."""
        return any(self._waiting.values())

    def take(self, current: str | None) -> Trial | None:
        """The next trial for a process that has the set `current` at hand; None when nothing is left."""
        name = current if current is not None and self._waiting[current] else self._another()
        if name is None:
            return None
        if name != current:
            self.leave(current)
            self._users[name] += 1
        return self._waiting[name].popleft()

    def put_back(self, trial: Trial) -> None:
        """A trial that was taken and not done comes next of its set."""
        self._waiting[trial.dataset].appendleft(trial)

    def leave(self, current: str | None) -> None:
        """A process has another set at hand now, or has ended."""
        if current is not None:
            self._users[current] -= 1

    def drop(self, name: str) -> list[Trial]:
        """All trials of a set that are still waiting, which do so no longer."""
        dropped = list(self._waiting[name])
        self._waiting[name].clear()
        return dropped

    def _another(self) -> str | None:
        """The first set that nobody has at hand, or the one with the most left to do."""
        names = [name for name, trials in self._waiting.items() if trials]
        alone = (name for name in names if not self._users[name])
        return next(alone, max(names, key=lambda name: len(self._waiting[name]), default=None))
