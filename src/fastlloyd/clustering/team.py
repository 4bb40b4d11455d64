"""Threads that stay and look for work for a moment before they sleep. Imported only where compiled code is used.

To wake a sleeping thread takes as long as a small task. A helper that has just worked therefore goes on looking, without the
interpreter's lock, for about a tenth of a millisecond, as the threads of OpenMP do: iterations follow each other. What it finds
is either a call, to work at a task in Python, or an offer to share a computation that is compiled as a whole, for which
nobody needs the lock.
"""

import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from queue import SimpleQueue
from threading import Thread
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastlloyd.clustering.compiled import WORKING, await_looking, call, feature_statistics, help_until_called, offer, withdraw
from fastlloyd.clustering.domain import IntArray

Span = tuple[int, int]
Task = Callable[[int, int], Any]


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
    def __init__(self, state: IntArray) -> None:
        self.state = state
        self.ticket, self.squared_radius = np.zeros(13, dtype=np.int64), np.zeros(1)
        self.bell: SimpleQueue[None] = SimpleQueue()  # whose `put` is whole or not at all: a Semaphore may stay locked
        self.job: _Job | None = None
        with suppress(RuntimeError):  # no more threads are allowed: a helper that never comes is one that is always busy
            Thread(target=self._serve, name="fastlloyd", daemon=True).start()

    def call(self, job: _Job) -> None:
        """Offer a job. A helper that comes late finds nothing left."""
        self.job = job
        if call(self.state):
            self.bell.put(None)

    def offer(self, ticket: IntArray, squared_radius: float) -> None:
        """Offer a part of a computation, if the helper is free; `withdraw` must follow before any of its arrays is freed."""
        if offer(self.state, self.ticket, self.squared_radius, ticket, squared_radius):
            self.bell.put(None)

    def _serve(self) -> None:
        while True:
            if not help_until_called(self.state, self.ticket, self.squared_radius):
                self.bell.get()
                continue
            job, self.job = self.job, None
            if job is not None:
                job.work()
            del job  # and with it the records


class _Team:
    def __init__(self, n: int) -> None:
        self.states = np.zeros((n, 8), dtype=np.int64)  # a line of the cache each
        self.states[:, 0] = WORKING
        withdraw(self.states, -1)  # nothing; compiled now, and not when it must not be interrupted
        self.helpers = [_Helper(state) for state in self.states]

    def wake(self) -> None:
        """Ring all bells: who was interrupted may have called or offered something and not rung."""
        for helper in self.helpers:
            helper.bell.put(None)


@cache
def _team(n: int) -> _Team:
    """A forked child has none of these threads and starts anew."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_team.cache_clear)
    return _Team(n)


def work_together(task: Task, spans: list[Span], n_threads: int) -> list[Any]:
    """The task's results for all spans, in any order, worked out by this thread and up to n_threads - 1 others.

    Raises what the task raises.
    """
    job = _Job(task, spans)
    team = _team(n_threads - 1)
    try:
        for helper in team.helpers:
            helper.call(job)
        if job.work() < len(spans):
            for helper in team.helpers:
                await_looking(helper.state)
        results = [job.found.get() for _ in spans]
    except BaseException:
        team.wake()
        raise
    finally:
        for helper in team.helpers:
            helper.job = None  # one that did not come would keep the records
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


def share_statistics(
    XT: NDArray[np.int32],
    span: Span,
    chunk: int,
    centroids: IntArray,
    group: int,
    squared_radius: float,
    rows: int,
    n_threads: int,
) -> tuple[IntArray, IntArray] | None:
    """`compiled.feature_statistics` by this thread and up to n_threads - 1 others, which take chunks of so many records.

    None if one of them had no memory. Integers add up in any order, so nothing depends on who takes what.
    """
    k, d = centroids.shape
    each = k * d + k
    numbers = np.zeros(2 + n_threads * each, dtype=np.int64)  # one array, whose address is asked for once
    counters, parts = numbers[:2], numbers[2:].reshape(n_threads, each)
    sums, counts = parts[0, : k * d].reshape(k, d), parts[0, k * d :]
    team, ours = _team(n_threads - 1), _address(numbers)
    where = [_address(XT), d, XT.shape[1], k, ours, _address(centroids), 0, 0]
    ticket = np.array([*where, *span, chunk, rows, group], dtype=np.int64)
    try:
        try:
            for i, helper in enumerate(team.helpers, start=1):
                ticket[6] = ours + 8 * (2 + i * each)
                ticket[7] = ticket[6] + 8 * k * d
                helper.offer(ticket, squared_radius)
            feature_statistics(XT, *span, chunk, counters, centroids, float(group), squared_radius, rows, sums, counts)
        finally:
            withdraw(team.states, ours)  # at once: between two calls of compiled code the interpreter looks for no signals
    except BaseException:
        team.wake()
        raise
    if counters[1]:
        return None
    total = parts.sum(axis=0)
    return total[: k * d].reshape(k, d), total[k * d :]


def _address(array: NDArray[Any]) -> int:
    """Where the numbers of an array begin; `array.ctypes.data` takes ten times as long."""
    address: int = array.__array_interface__["data"][0]
    return address
