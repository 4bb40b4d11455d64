"""Threads that stay and look for work for a moment before they sleep. Imported only where compiled code is used.

To wake a sleeping thread takes as long as a small task. A helper that has just worked therefore goes on looking, without the
interpreter's lock, for about a tenth of a millisecond, as the threads of OpenMP do: iterations follow each other.
"""

import os
from collections import deque
from collections.abc import Callable
from functools import cache
from queue import SimpleQueue
from threading import Semaphore, Thread
from typing import Any

import numpy as np
from numba.core import types
from numpy.typing import NDArray

from fastlloyd.clustering.compiled import instructions, machine_code

Span = tuple[int, int]
Task = Callable[[int, int], Any]
State = NDArray[np.int64]

LOOKING, ASLEEP, CALLED, WORKING = 0, 1, 2, 3
LOOKS = 1 << 18  # about 0.1 ms
HANDOVER = 1 << 14  # looks until whoever called has left the interpreter's lock


@instructions
def _read(_: Any, state: Any) -> Any:
    """The state as other threads left it: a plain read in a loop would be made once."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        memory = context.make_array(signature.args[0])(context, builder, values[0]).data
        return builder.load_atomic(memory, "acquire", 8)

    return types.int64(state), generate


@instructions
def _exchange(_: Any, state: Any, _new: Any) -> Any:
    """Set the state and return what it was, as one step."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        memory = context.make_array(signature.args[0])(context, builder, values[0]).data
        return builder.atomic_rmw("xchg", memory, values[1], "acq_rel")

    return types.int64(state, types.int64), generate


@instructions
def _exchange_if(_: Any, state: Any, _expected: Any, _new: Any) -> Any:
    """Set the state if it is as expected, as one step; whether it was."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        memory = context.make_array(signature.args[0])(context, builder, values[0]).data
        return builder.extract_value(builder.cmpxchg(memory, values[1], values[2], "acq_rel", "acquire"), 1)

    return types.boolean(state, types.int64, types.int64), generate


@machine_code
def _is_called(state: State) -> bool:
    """Look for a call; False, and ASLEEP, if none comes."""
    _exchange(state, LOOKING)
    for _ in range(LOOKS):
        if _read(state) == CALLED:
            for _ in range(HANDOVER):
                _read(state)
            return True
    return not bool(_exchange_if(state, LOOKING, ASLEEP))


@machine_code
def _call(state: State) -> int:
    """What the helper was doing: LOOKING or ASLEEP, and then it is CALLED now; or it is busy."""
    if _exchange_if(state, LOOKING, CALLED):
        return LOOKING
    if _exchange_if(state, ASLEEP, CALLED):
        return ASLEEP
    return WORKING


@machine_code
def _await_looking(state: State) -> None:
    """Return when the helper has finished, or after a while."""
    for _ in range(LOOKS):
        if _read(state) <= ASLEEP:
            return


class _Job:
    """Spans of a task, which threads take one by one, and what they found."""

    def __init__(self, task: Task, spans: list[Span]) -> None:
        self.task = task
        self.left = deque(spans)
        self.found: SimpleQueue[Any] = SimpleQueue()

    def work(self) -> int:
        """Work until no span is left; how many were done. What fails is found too."""
        done = 0
        while self.left:
            try:
                span = self.left.popleft()
            except IndexError:  # another thread was faster
                break
            try:
                self.found.put(self.task(*span))
            except BaseException as error:  # noqa: BLE001 - raised again by who waits for it
                self.found.put(error)
            done += 1
        return done


class _Helper:
    def __init__(self) -> None:
        self.state: State = np.full(1, WORKING, dtype=np.int64)
        self.bell = Semaphore(0)
        self.job: _Job | None = None
        Thread(target=self._serve, name="fastlloyd", daemon=True).start()

    def call(self, job: _Job) -> None:
        """Offer a job. A helper that is busy does not come, and one that comes late finds nothing left."""
        self.job = job
        if _call(self.state) == ASLEEP:
            self.bell.release()

    def _serve(self) -> None:
        while True:
            if not _is_called(self.state):
                self.bell.acquire()
            job, self.job = self.job, None
            if job is not None:
                job.work()
            del job  # and with it the records


@cache
def _helpers(n: int) -> list[_Helper]:
    """A forked child has none of these threads and starts anew."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_helpers.cache_clear)
    return [_Helper() for _ in range(n)]


def work_together(task: Task, spans: list[Span], n_threads: int) -> list[Any]:
    """The task's results for all spans, in any order, worked out by this thread and up to n_threads - 1 others.

    Raises what the task raises.
    """
    job = _Job(task, spans)
    helpers = _helpers(n_threads - 1)
    try:
        for helper in helpers:
            helper.call(job)
        if job.work() < len(spans):
            for helper in helpers:
                _await_looking(helper.state)
        results = [job.found.get() for _ in spans]
    finally:
        for helper in helpers:
            helper.job = None  # one that did not come would keep the records
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results
