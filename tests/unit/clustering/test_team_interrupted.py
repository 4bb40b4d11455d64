"""Computations that are shared and then interrupted, as Ctrl-C does in a notebook that goes on afterwards."""

import gc
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dis import opname
from types import FrameType
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba", reason="compiled code is not installed: the extra `fast`")

from fastlloyd.clustering import compiled, reference, team
from fastlloyd.clustering.domain import IntArray

N_HELPERS = 2


@contextmanager
def interrupted(point: int) -> Iterator[list[str]]:
    """Raise KeyboardInterrupt in this thread at that one of the places where the interpreter looks for signals.

    It looks after a call, at the beginning of a function, and before it jumps back. Yields the places that were passed. No
    garbage is collected meanwhile: the collector calls what libraries (hypothesis is one) have registered, and swallows what is
    raised there.
    """
    places: list[str] = []
    before: dict[FrameType, str] = {}

    def trace(frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        frame.f_trace_opcodes = True
        if event == "opcode":
            last = before.get(frame, "")
            before[frame] = opname[frame.f_code.co_code[frame.f_lasti]]
            if last.startswith(("CALL", "RESUME", "JUMP_BACKWARD")):
                places.append(f"{frame.f_code.co_name}:{frame.f_lineno}")
                if len(places) > point:
                    raise KeyboardInterrupt
        return trace

    kept, collects = sys.gettrace(), gc.isenabled()
    gc.disable()
    sys._getframe().f_trace_opcodes = True  # Python 3.12 looks whether any frame has it before it traces
    sys.settrace(trace)
    try:
        yield places
    finally:
        sys.settrace(kept)
        if collects:
            gc.enable()


def all_sleep(helpers: list[Any]) -> bool:
    """Within a minute: one that still looks, or works, falls asleep when nothing comes."""
    end = time.monotonic() + 60
    while not all(helper.state[0] == compiled.ASLEEP and not helper.state[1] for helper in helpers):
        if time.monotonic() > end:
            return False
        time.sleep(0.001)
    return True


XT = np.random.default_rng(0).integers(-1000, 1001, (3, 4000), dtype=np.int32)
CENTROIDS = np.random.default_rng(1).integers(-1000, 1001, (5, 3))


def shared() -> tuple[IntArray, IntArray]:
    found = team.share_statistics(XT, (0, XT.shape[1]), 64, CENTROIDS, 8, 500_000.0, 16, N_HELPERS + 1)
    assert found is not None
    return found


def is_right(found: tuple[IntArray, IntArray]) -> bool:
    sums, counts = reference.cluster_statistics(XT.T.astype(np.int64), CENTROIDS, 500_000)
    return np.array_equal(found[0], sums + counts[:, None] * CENTROIDS) and np.array_equal(found[1], counts)


@pytest.mark.parametrize("asleep", [True, False])
def test_an_interrupt_anywhere_leaves_no_helper_with_a_ticket_none_astray_and_the_next_sum_right(asleep: bool) -> None:
    """The arrays of a ticket are gone after an interrupt: a helper that still had it would add to the numbers of others."""
    shared()
    helpers = team._team(N_HELPERS).helpers
    for point in range(1000):
        if asleep:
            assert all_sleep(helpers)
        else:
            shared()
        try:
            with interrupted(point) as places:
                shared()
        except KeyboardInterrupt:
            left = [int(helper.state[0]) for helper in helpers]
            assert all(state in (compiled.LOOKING, compiled.ASLEEP, compiled.WORKING) for state in left), places[-1]
            assert not asleep or all_sleep(helpers), places[-1]
            assert is_right(shared()), places[-1]
        else:
            assert len(places) <= point
            break
    assert point > N_HELPERS
    assert all_sleep(helpers)


def test_an_interrupted_call_leaves_no_helper_asleep_for_ever() -> None:
    def called() -> list[Any]:
        return team.work_together(lambda start, _: start, [(0, 1), (1, 2)], N_HELPERS + 1)

    called()
    helpers = team._team(N_HELPERS).helpers
    for point in range(1000):
        assert all_sleep(helpers)
        try:
            with interrupted(point) as places:
                called()
        except KeyboardInterrupt:
            assert all_sleep(helpers), places[-1]
        else:
            break
    assert sorted(called()) == [0, 1]


def test_a_helper_that_somebody_claimed_is_not_called_so_that_nobody_else_can_claim_it_meanwhile() -> None:
    """Two who have claimed one helper would write on one ticket: records of one, counted again in the sums of the other."""
    state = np.array([compiled.CLAIMED, 0], dtype=np.int64)
    assert not compiled.call(state)
    assert state[0] == compiled.CLAIMED


def test_nobody_waits_for_what_a_helper_does_for_another() -> None:
    helper_busy = threading.Event()
    shared()
    helpers = team._team(N_HELPERS).helpers
    assert all_sleep(helpers)
    for helper in helpers:  # as one that works for another caller, and works on
        helper.state[:2] = compiled.WORKING, 1
    try:

        def caller() -> None:
            if is_right(shared()):
                helper_busy.set()

        threading.Thread(target=caller, daemon=True).start()
        assert helper_busy.wait(60)
    finally:
        for helper in helpers:
            helper.state[:2] = compiled.ASLEEP, 0


def test_where_no_thread_can_be_started_the_caller_works_alone() -> None:
    program = """
import threading
import numpy as np
from fastlloyd.clustering import team

def refused(*_):
    raise RuntimeError("can't start new thread")

threading.Thread.start = refused
XT, centroids = np.ones((1, 100), dtype=np.int32), np.zeros((1, 1), dtype=np.int64)
sums, counts = team.share_statistics(XT, (0, 100), 10, centroids, 4, np.inf, 16, 3)
assert sums.tolist() == [[100]] and counts.tolist() == [100]
assert sorted(team.work_together(lambda start, _: start, [(0, 1), (1, 2)], 3)) == [0, 1]
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)  # noqa: S603 - our own program
