"""Spans of the records, shared by threads (`base/threads.py`).

Spans give exact integers, which can be added up in any order. So neither the number of threads nor
their order changes a result.
"""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from threading import Lock
from typing import Any, TypeVar

from numpy.typing import NDArray

from fastlloyd.base import extras
from fastlloyd.base.arrays import IntArray
from fastlloyd.base.compiling import is_compiled
from fastlloyd.base.threads import in_spans, n_threads

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
    with one_blas_thread() if blas and threads > 1 else nullcontext():
        return in_spans(task, n, pieces, min(threads, pieces))


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
