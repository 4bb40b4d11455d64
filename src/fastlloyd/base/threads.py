"""Threads that share pieces of a computation.

The threads are Python's, because compiled code, NumPy, BLAS and the system's random source run
without the interpreter's lock.
"""

import os
import re
from _thread import start_new_thread
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from itertools import pairwise
from queue import Empty, SimpleQueue
from threading import Lock
from typing import Any, Generic, TypeVar

SPANS_PER_THREAD = 2  # lest one waits for another
# of work for each thread at least: threads need a tenth of a millisecond to begin and to end
LEAST_NANOSECONDS = 250_000

_T = TypeVar("_T")


def shared(task: Callable[[int, int], _T], n: int, nanoseconds: int) -> list[_T]:
    """Return the results of `task(start, stop)` for spans that cover 0 to `n`, in any order.

    nanoseconds : about the time of all spans in one thread, from shapes alone. It decides how many
        threads are used. With one thread there is one span.

    Raises the errors of `in_spans`.
    """
    threads = nanoseconds // LEAST_NANOSECONDS
    if threads < 2 or (threads := min(threads, n_threads())) < 2:
        return [task(0, n)]
    return in_spans(task, n, SPANS_PER_THREAD * threads, threads)


def in_spans(task: Callable[[int, int], _T], n: int, pieces: int, threads: int) -> list[_T]:
    """Return the results of `task(start, stop)` for spans that cover 0 to `n`, in any order.

    pieces : number of spans. They are equally long, up to one.
    threads : number of threads that take spans, this thread included.

    Raises the errors of the task. After an error or an interruption no further span begins, and all
    spans that began have ended.
    """
    spans = pairwise(n * piece // pieces for piece in range(pieces + 1))
    if threads == 1:
        return [task(*span) for span in spans]
    return work_together([partial(task, *span) for span in spans], threads)


def work_together(pieces: Iterable[Callable[[], _T]], threads: int) -> list[_T]:
    """Return the results of all pieces, in any order.

    This thread and up to `threads` - 1 other threads take one piece after the other.
    """
    job = _Job(pieces)
    try:
        _helpers().call(job, threads - 1)
        job.work()
        job.wait()
    finally:
        job.end()
    if job.failed:
        raise job.failed.pop()
    found, job.found = job.found, []  # a helper that comes late must not keep the results
    return found


class _Job(Generic[_T]):
    """Pieces of work that remain, and the results so far.

    Threads share only lists and queues, whose operations are never interrupted half-way.
    """

    def __init__(self, pieces: Iterable[Callable[[], _T]]) -> None:
        self.left = deque(pieces)
        self.found: list[_T] = []
        self.failed: list[BaseException] = []
        # one per helper, from before it takes a piece until it has finished
        self.helping: list[None] = []
        self.finished: SimpleQueue[None] = SimpleQueue()

    def work(self) -> None:
        """Do one piece after the other until no piece remains."""
        while self.left:
            try:
                piece = self.left.popleft()
            except IndexError:  # another thread was faster
                return
            self.found.append(piece())

    def help(self) -> None:
        """Do pieces in another thread than the caller's. The caller raises errors of this
        thread.
        """
        self.helping.append(None)
        try:
            self.work()
        except BaseException as error:  # noqa: BLE001 - see above
            self.left.clear()
            self.failed.append(error)
        self.helping.pop()
        self.finished.put(None)

    def wait(self) -> None:
        """Wait until no helper works. A helper that begins later finds no piece."""
        while self.helping:
            with suppress(Empty):
                self.finished.get(timeout=1)

    def end(self) -> None:
        """Begin no further piece, and wait until those that began have ended."""
        self.left.clear()
        self.wait()


class _Helpers:
    """Threads that wait for jobs."""

    def __init__(self) -> None:
        self.n, self.starting = 0, Lock()
        self.jobs: SimpleQueue[_Job[Any]] = SimpleQueue()

    def call(self, job: _Job[Any], n: int) -> None:
        """Let n threads help with a job, or fewer if the system allows fewer."""
        with (
            self.starting,
            suppress(RuntimeError),
        ):  # no more threads are allowed: those that there are do all of it
            while self.n < n:
                # Thread.start() waits, and an interrupt then may become a RuntimeError
                start_new_thread(self._serve, ())
                self.n += 1
        for _ in range(min(n, self.n)):
            self.jobs.put(job)

    def _serve(self) -> None:
        while True:
            job = self.jobs.get()
            job.help()
            del job  # and with it the records


@cache
def _helpers() -> _Helpers:
    """Return the helpers of this process.

    A forked child has none of these threads, and starts its own.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_helpers.cache_clear)
    return _Helpers()


class _state:  # noqa: N801 - a place for what is true of this process
    """State of this process.

    reading : number of threads that read files ahead.
    """

    reading = 0


def n_threads() -> int:
    """Return the number of threads to use.

    It is OMP_NUM_THREADS if this variable is a number from 1 to 999, otherwise the number of cores
    that this process may use. While a thread reads ahead (`reading_ahead`), it is one less, but at
    least 1. BLAS and scikit-learn read the same variable.
    """
    stated = os.environ.get("OMP_NUM_THREADS", "")
    if re.fullmatch(r"[1-9][0-9]{0,2}", stated):
        cores = int(stated)
    else:
        cores = (
            len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count() or 1
        )
    return max(1, cores - _state.reading)


@contextmanager
def reading_ahead() -> Iterator[None]:
    """Context manager that leaves one core to a thread that reads. Inside, `n_threads` returns one
    less.

    The context manager changes speed, never a result.
    """
    _state.reading += 1
    try:
        yield
    finally:
        _state.reading -= 1
