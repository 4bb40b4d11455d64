"""Processes that run trials, each with one thread; those that die are replaced, and the trials go
on.

A process stays with one set; in the end all help with what is left.
"""

import os
import signal
import sys
import warnings
from collections import Counter, deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path

import msgspec

from fastlloyd.base.processes import uninterrupted
from fastlloyd.errors import FastLloydError
from fastlloyd_lab.experiments.trial import Report, Trial, failed, perform

AHEAD = 2  # trials a process has: the one it runs, and the next
ATTEMPTS = 2  # a trial whose process died is tried once more
STARTS = 3  # so many processes in a row that die before they are ready mean that none will ever be
PATIENCE = 10.0  # seconds that a process without trials has to end by itself
READY = b"ready"
_ONE_THREAD = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMBA_NUM_THREADS",
)


class Schedule:
    """Trials that are not done, by data set: sets in the order in which they are given, and within
    one run after run.

    Methods of one run start from the same centroids, which a process keeps while it stays with the
    run.
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
        """The next trial for a process that has the set `current` at hand; None when nothing is
        left.
        """
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


@dataclass(slots=True, eq=False)
class _Worker:
    process: SpawnProcess
    connection: Connection
    ready: bool = False
    dataset: str | None = None
    assigned: deque[Trial] = field(default_factory=deque)


class Pool:
    """Processes that run all trials of a schedule."""

    def __init__(self, schedule: Schedule, folder: Path, n_workers: int) -> None:
        self._schedule, self._folder, self._n_workers = schedule, folder, n_workers
        self._workers: dict[Connection, _Worker] = {}
        self._deaths: Counter[str] = Counter()  # per trial
        self._reported: set[str] = set()  # sets of which a process has lived to report a trial
        self._stillborn = 0

    def reports(self) -> Generator[Report, None, None]:
        """What came of every trial, as it comes. All processes have ended when this iterator has,
        also where it is closed.
        """
        try:
            yield from self._reports()
        finally:
            for worker in self._workers.values():
                worker.process.kill()
            for worker in list(self._workers.values()):
                self._dismiss(worker)

    def _reports(self) -> Iterator[Report]:
        for _ in range(self._n_workers):
            self._start()
        while self._workers:
            for ready in wait(list(self._workers)):
                worker = self._workers[ready]  # type: ignore[index]  # what was waited for
                try:
                    message = worker.connection.recv_bytes()
                except (EOFError, OSError):
                    yield from self._bury(worker)
                    continue
                if message == READY:
                    worker.ready, self._stillborn = True, 0
                else:
                    self._reported.add(worker.assigned.popleft().dataset)
                    yield msgspec.msgpack.decode(message, type=Report)
                self._feed(worker)

    def _start(self) -> None:
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, self._folder), daemon=True)
        with _one_thread(), uninterrupted():
            process.start()
        theirs.close()
        self._workers[ours] = _Worker(process, ours)

    def _feed(self, worker: _Worker) -> None:
        """Give the process trials until it has enough; let it end when there are none and it has
        done its own.
        """
        while (
            len(worker.assigned) < AHEAD
            and (trial := self._schedule.take(worker.dataset)) is not None
        ):
            worker.dataset = trial.dataset
            worker.assigned.append(trial)
            with suppress(OSError):  # that it has died is seen when it is read
                worker.connection.send_bytes(msgspec.msgpack.encode(trial))
        if not worker.assigned:
            self._dismiss(worker)

    def _dismiss(self, worker: _Worker) -> None:
        self._schedule.leave(worker.dataset)
        del self._workers[worker.connection]
        worker.connection.close()
        worker.process.join(PATIENCE)
        worker.process.kill()  # it has ended already, unless code of others holds it up
        worker.process.join()

    def _bury(self, worker: _Worker) -> Iterator[Report]:
        """What a process that died had is done by another; what it died of twice has failed."""
        self._dismiss(worker)
        if not worker.ready:
            self._stillborn += 1
            if self._stillborn == STARTS:
                raise FastLloydError(
                    "processes for the trials end as soon as they begin"
                    f" ({_ending(worker.process)})"
                )
        for trial in reversed(worker.assigned):
            self._schedule.put_back(trial)
        if worker.assigned:
            suspect = worker.assigned[0]
            self._deaths[suspect.key] += 1
            if self._deaths[suspect.key] == ATTEMPTS:
                yield from self._give_up(
                    suspect, f"its process ended {ATTEMPTS} times ({_ending(worker.process)})"
                )
        if self._schedule.any_left:
            self._start()

    def _give_up(self, suspect: Trial, why: str) -> Iterator[Report]:
        """Fail a trial; and all of its set, if no trial of that has ever come to an end."""
        kept = []
        for trial in self._schedule.drop(suspect.dataset):
            if trial is suspect or suspect.dataset not in self._reported:
                yield Report(row=failed(trial, why), preparing=0.0, busy=0.0)
            else:
                kept.append(trial)
        for trial in reversed(kept):
            self._schedule.put_back(trial)


def _work(connection: Connection, folder: Path) -> None:
    """Run trials as they come, until nobody sends any."""
    # Ctrl-C reaches the whole group; the parent ends us
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdout = sys.stderr  # what code of others prints is no result
    warnings.simplefilter("ignore")
    with suppress(EOFError, OSError):  # the parent has ended
        connection.send_bytes(READY)
        while True:
            trial = msgspec.msgpack.decode(connection.recv_bytes(), type=Trial)
            connection.send_bytes(msgspec.msgpack.encode(perform(trial, folder)))


@contextmanager
def _one_thread() -> Iterator[None]:
    """Let a process that starts now compute with one thread: there is one process per core."""
    before = {name: os.environ[name] for name in _ONE_THREAD if name in os.environ}
    os.environ.update(dict.fromkeys(_ONE_THREAD, "1"))
    try:
        yield
    finally:
        for name in _ONE_THREAD:
            del os.environ[name]
        os.environ.update(before)


def _ending(process: SpawnProcess) -> str:
    code = process.exitcode or 0
    if code == -getattr(signal, "SIGKILL", 0):
        return "signal 9: perhaps there was not enough memory"
    return f"signal {-code}" if code < 0 else f"exit code {code}"
