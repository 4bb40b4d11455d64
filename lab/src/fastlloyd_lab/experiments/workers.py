"""Run trials in processes with one thread each. If a process dies, another replaces it.

A process keeps working on one set. At the end, all processes share the remaining trials.
"""

import os
import signal
import sys
import warnings
from collections import Counter, deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from unittest.mock import patch

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
    """Unfinished trials by data set. Sets keep the given order, and trials of a set are sorted by
    run.

    Methods of one run start from the same centroids. A process keeps these centroids while it works
    on the run.
    """

    def __init__(self, trials: Iterable[Trial]) -> None:
        ordered = sorted(trials, key=lambda trial: trial.run)
        self._waiting: dict[str, deque[Trial]] = {trial.dataset: deque() for trial in ordered}
        for trial in ordered:
            self._waiting[trial.dataset].append(trial)
        self._users: dict[str, int] = dict.fromkeys(self._waiting, 0)

    @property
    def any_left(self) -> bool:
        """Return whether a trial is waiting."""
        return any(self._waiting.values())

    def take(self, current: str | None) -> Trial | None:
        """Return the next trial for a process, or None if no trial is left.

        current : set that the process has loaded, or None.
        """
        name = current if current is not None and self._waiting[current] else self._another()
        if name is None:
            return None
        if name != current:
            self.leave(current)
            self._users[name] += 1
        return self._waiting[name].popleft()

    def put_back(self, trial: Trial) -> None:
        """Put a trial back that was taken but not finished. It is the next trial of its set."""
        self._waiting[trial.dataset].appendleft(trial)

    def leave(self, current: str | None) -> None:
        """Remember that a process no longer works on the set `current`."""
        if current is not None:
            self._users[current] -= 1

    def drop(self, name: str) -> list[Trial]:
        """Remove all waiting trials of a set, and return them."""
        dropped = list(self._waiting[name])
        self._waiting[name].clear()
        return dropped

    def _another(self) -> str | None:
        """Return the first set that no process works on. If there is none, return the set with the
        most waiting trials.
        """
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
    """Pool of processes that run all trials of a schedule."""

    def __init__(self, schedule: Schedule, folder: Path, n_workers: int) -> None:
        self._schedule, self._folder, self._n_workers = schedule, folder, n_workers
        self._workers: dict[Connection, _Worker] = {}
        self._deaths: Counter[str] = Counter()  # per trial
        self._reported: set[str] = set()  # sets of which a process has lived to report a trial
        self._stillborn = 0

    def reports(self) -> Generator[Report, None, None]:
        """Yield the report of every trial when it ends.

        All processes have ended when this iterator ends, or is closed.
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
        # one thread each, because there is one process per core
        with patch.dict(os.environ, dict.fromkeys(_ONE_THREAD, "1")), uninterrupted():
            process.start()
        theirs.close()
        self._workers[ours] = _Worker(process, ours)

    def _feed(self, worker: _Worker) -> None:
        """Give a worker process trials until it has enough.

        If no trial is left, and the worker has finished all of its trials, the worker ends.
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
        """Handle the death of a process: pass its trials to other processes. If two processes have
        died at the same trial, yield a report that this trial failed.
        """
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
        """Yield a report that the trial `suspect` failed for the reason `why`. If no trial of its
        data set has ever ended, also yield such a report for all other trials of the set.
        """
        kept = []
        for trial in self._schedule.drop(suspect.dataset):
            if trial is suspect or suspect.dataset not in self._reported:
                yield Report(row=failed(trial, why), preparing=0.0, busy=0.0)
            else:
                kept.append(trial)
        for trial in reversed(kept):
            self._schedule.put_back(trial)


def _work(connection: Connection, folder: Path) -> None:
    """Run the trials that come over the connection, until it closes."""
    # Ctrl-C reaches the whole group; the parent ends us
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdout = sys.stderr  # what code of others prints is no result
    warnings.simplefilter("ignore")
    with suppress(EOFError, OSError):  # the parent has ended
        connection.send_bytes(READY)
        while True:
            trial = msgspec.msgpack.decode(connection.recv_bytes(), type=Trial)
            connection.send_bytes(msgspec.msgpack.encode(perform(trial, folder)))


def _ending(process: SpawnProcess) -> str:
    code = process.exitcode or 0
    if code == -getattr(signal, "SIGKILL", 0):
        return "signal 9: perhaps there was not enough memory"
    return f"signal {-code}" if code < 0 else f"exit code {code}"
