"""Threads that share spans of the records.

The threads are Python's, because compiled code, NumPy and BLAS run without the interpreter's lock.
Spans give exact integers, which can be added up in any order. So neither the number of threads nor
their order changes a result.
"""

import os
import re
from _thread import start_new_thread
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache, partial
from itertools import pairwise
from queue import Empty, SimpleQueue
from threading import Lock
from typing import Any, Generic, TypeVar

from numpy.typing import NDArray

from fastlloyd.base import extras
from fastlloyd.base.arrays import IntArray
from fastlloyd.base.compiling import is_compiled

# a quarter of a millisecond, and twice as many by BLAS: threads need a tenth to begin and to end
WORTH_THREADS = 1 << 23
# from here on, threads take more than one piece each, lest one waits for another
WORTH_PIECES = 1 << 26
READING_STEPS = 20  # that take as long as reading a coordinate
NUMPY_STEPS = 8  # that some operations of NumPy on a number take
SPAN_STEPS = (
    1 << 28
    # of a span: some milliseconds, after which an interrupt is seen and other threads may take
    # their part
)
LEAST_RECORDS = 1024  # in a span, unless the caller knows better
MOST_STEPS = 1 << 30  # in a span in any case: some tenths of a second
MOST_RECORDS = 1 << 25  # as well, so that sums of theirs stay below 2**53 in float64

_T = TypeVar("_T")


def over_spans(
    task: Callable[[int, int], _T],
    X: NDArray[Any],
    k: int = 1,
    *,
    least: int | None = None,
    blas: bool = False,
) -> list[_T]:
    """Return the results of `task(start, stop)` for spans that cover all records of X, in any
    order.

    k : number of steps for each number in X.
    least : smallest number of records that makes a span worth its overhead.
    blas : whether the task calls BLAS, whose own threads would compete with these.

    Threads are used only together with compiled code. Raises the errors of the task. After an error
    or an interruption no further span begins, and all spans that began have ended.
    """
    n, steps = len(X), X.size * (k + READING_STEPS)
    threads = n_threads() if steps >= WORTH_THREADS * (1 + blas) and is_compiled(X.size * k) else 1
    wanted = max(
        -(-steps // SPAN_STEPS), threads if steps < WORTH_PIECES or threads == 1 else 2 * threads
    )
    pieces = max(
        min(wanted, n // (least or LEAST_RECORDS)),
        -(-steps // MOST_STEPS),
        -(-n // MOST_RECORDS),
        1,
    )
    if pieces == 1:
        return [task(0, n)]
    spans = list(pairwise(n * piece // pieces for piece in range(pieces + 1)))
    if threads == 1:
        return [task(*span) for span in spans]
    with one_blas_thread() if blas else nullcontext():
        return work_together([partial(task, *span) for span in spans], min(threads, pieces))


def sum_over_spans(
    task: Callable[[int, int], IntArray],
    X: NDArray[Any],
    k: int = 1,
    *,
    least: int | None = None,
    blas: bool = False,
) -> IntArray:
    """Return the sum of the results of `task(start, stop)` over all spans.

    The results are int64 arrays of one shape that no other code uses. Parameters are those of
    `over_spans`.
    """
    sums: list[IntArray] = []
    one_at_a_time = Lock()

    def add(start: int, stop: int) -> None:
        found = task(start, stop)
        with one_at_a_time:  # at once: the findings of all spans could fill the memory
            if sums:
                sums[0] += found
            else:
                sums.append(found)

    over_spans(add, X, k, least=least, blas=blas)
    return sums[0]


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
    return job.found


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


class _OneBlasThread:
    """Context manager that limits BLAS to one thread while any thread is inside.

    The last thread to leave restores the limit that the first one found.
    """

    def __init__(self, blas: Any) -> None:
        self.lock, self.within, self.blas = Lock(), 0, blas
        self.limit: Any = None

    def __enter__(self) -> None:
        with self.lock:
            if not self.within:
                self.limit = self.blas.limit(limits=1, user_api="blas")
            self.within += 1

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.within -= 1
            if not self.within:
                self.limit.restore_original_limits()


@cache
def one_blas_thread() -> AbstractContextManager[None]:
    """Return a context manager in which BLAS uses only the calling thread.

    The limit applies to the whole process, because BLAS has no narrower setting. All threads of a
    process share the context manager, and a forked child makes its own. If BLAS cannot be limited,
    its threads remain, which costs only time.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=one_blas_thread.cache_clear)
    if (controls := extras.optional("threadpoolctl")) is None:
        return nullcontext()
    return _OneBlasThread(controls.ThreadpoolController())


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
