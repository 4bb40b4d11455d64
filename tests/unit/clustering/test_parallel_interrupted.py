"""Work that is shared and then interrupted, as Ctrl-C does in a notebook that goes on
afterwards.
"""

import gc
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dis import opname
from functools import partial
from types import FrameType
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba", reason="compiled code is not installed: the extra `fast`")

from fastlloyd.base import compiling, threads
from fastlloyd.base.threads import work_together
from fastlloyd.clustering import kernels, parallel, reference


@contextmanager
def interrupted(point: int) -> Iterator[list[str]]:
    """Raise KeyboardInterrupt in this thread at that one of the places where the interpreter looks
    for signals.

    It looks after a call, at the beginning of a function, and before it jumps back. Yields the
    places that were passed. No garbage is collected meanwhile: the collector calls what libraries
    (hypothesis is one) have registered, and swallows what is raised there.
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
    sys._getframe().f_trace_opcodes = (
        True  # Python 3.12 looks whether any frame has it before it traces
    )
    sys.settrace(trace)
    try:
        yield places
    finally:
        sys.settrace(kept)
        if collects:
            gc.enable()


@pytest.mark.parametrize("first", [True, False], ids=["threads are started", "threads wait"])
def test_an_interrupt_anywhere_ends_the_work_and_spoils_none_that_comes_later(first: bool) -> None:
    begun: list[int] = []
    ended: list[int] = []

    def piece(i: int) -> int:
        begun.append(i)
        time.sleep(0.0002)
        ended.append(i)
        return i

    pieces = [partial(piece, i) for i in range(6)]
    for point in range(1000):
        if first:
            threads._helpers.cache_clear()
        begun.clear()
        ended.clear()
        try:
            with interrupted(point) as places:
                work_together(pieces, 3)
        except KeyboardInterrupt:
            # the caller's own piece never ends if it was interrupted; those of helpers do, a little
            # later if the waiting was
            until = time.monotonic() + 60
            while len(begun) - len(ended) > 1 and time.monotonic() < until:
                time.sleep(0.001)
            assert len(begun) - len(ended) <= 1, places[-1]
            at = len(begun)
            assert sorted(work_together(pieces, 3)) == list(range(6)), places[-1]
            assert len(begun) == at + 6, places[
                -1
            ]  # nothing of the interrupted work was begun later
        else:
            assert len(places) <= point
            break
    assert point > 20


X = np.random.default_rng(0).integers(-1000, 1001, (4000, 3), dtype=np.int32)
CENTROIDS = np.random.default_rng(1).integers(-1000, 1001, (5, 3))


@pytest.mark.parametrize("order", ["C", "F"])
def test_an_interrupt_anywhere_in_an_iteration_spoils_no_later_one(
    order: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert compiling.is_compiled(1 << 40)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setattr(parallel, "WORTH_THREADS", 1)
    records, expected = (
        np.asarray(X, order=order),
        reference.cluster_statistics(X, CENTROIDS, 500_000),
    )

    def is_right() -> bool:
        found = kernels.cluster_statistics(records, CENTROIDS, 500_000)
        return all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))

    assert is_right()
    for point in range(2000):
        try:
            with interrupted(point) as places:
                kernels.cluster_statistics(records, CENTROIDS, 500_000)
        except KeyboardInterrupt:
            assert is_right(), places[-1]
        else:
            break
    assert point > 20
