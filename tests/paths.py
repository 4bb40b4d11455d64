"""Which path the program takes: every line of the package that Python executes, in order."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import fastlloyd

_PACKAGE = str(Path(fastlloyd.__file__).parent)


class Step(NamedTuple):
    """A line that was executed."""

    file: str
    function: str
    line: int


def path_of(run: Callable[[], object]) -> list[Step]:
    """The lines of the package that `run` executes in this thread. A call of compiled code is the line that calls it."""
    steps: list[Step] = []

    def trace(frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        code = frame.f_code
        if not code.co_filename.startswith(_PACKAGE):
            return None
        if event == "line":
            steps.append(Step(code.co_filename.removeprefix(_PACKAGE), code.co_name, frame.f_lineno))
        return trace

    kept = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(kept)
    return steps
