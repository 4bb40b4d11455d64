"""Which path the program takes: every line of the package that Python executes, in order."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple
from unittest import mock

import pytest

import fastlloyd
from fastlloyd.base.compiling import is_compiled
from fastlloyd.clustering import domain, kernels, parallel
from fastlloyd.mechanisms.queries import nearest

_PACKAGE = str(Path(fastlloyd.__file__).parent)


class Step(NamedTuple):
    """A line that was executed."""

    file: str
    function: str
    line: int


def path_of(run: Callable[[], object]) -> list[Step]:
    """The lines of the package that `run` executes: in this thread, then in each thread that begins
    meanwhile.

    A call of compiled code is the line that calls it.
    """
    steps: dict[threading.Thread, list[Step]] = {threading.current_thread(): []}

    def trace(frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        code = frame.f_code
        if not code.co_filename.startswith(_PACKAGE):
            return None
        if event == "line":
            step = Step(code.co_filename.removeprefix(_PACKAGE), code.co_name, frame.f_lineno)
            steps.setdefault(threading.current_thread(), []).append(step)
        return trace

    kept, kept_of_threads = sys.gettrace(), threading.gettrace()
    threading.settrace(trace)
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(kept)
        threading.settrace(kept_of_threads)
    return [step for of_thread in steps.values() for step in of_thread]


@contextmanager
def computed(way: str) -> Iterator[None]:
    """By compiled code or without, whatever this process has computed before; in one thread, which
    is watched.
    """
    if way == "compiled":
        pytest.importorskip("numba")
        assert is_compiled(1 << 40)
    with mock.patch.dict("os.environ", OMP_NUM_THREADS="1"):
        patches = [
            mock.patch.object(module, "is_compiled", return_value=way == "compiled")
            for module in (kernels, parallel, nearest, domain)
        ]
        for patch in patches:
            patch.start()
        try:
            yield
        finally:
            for patch in patches:
                patch.stop()
