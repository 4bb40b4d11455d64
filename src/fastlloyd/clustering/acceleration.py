"""Whether compiled code is used: it must be installed (the extra `fast`) and usable, and loading it must be repaid."""

import gc
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from threading import Lock
from types import ModuleType

from fastlloyd.base import extras

WORTH_LOADING = 1 << 24  # steps, each about a nanosecond in compiled code and several without
_MODULE = "fastlloyd.clustering.compiled"


class _loaded:  # noqa: N801 - a place for one module
    """The compiled code, once all of it is imported."""

    module: ModuleType | None = None
    one_at_a_time = Lock()


class _without:  # noqa: N801 - a place for one number
    """What this process has computed without compiled code."""

    steps = 0


class _elsewhere:  # noqa: N801 - a place for one number
    """Threads that read files ahead, which need a core of their own."""

    threads = 0


@contextmanager
def reading_ahead() -> Iterator[None]:
    """Leave a core to a thread that reads: `n_threads` is one less meanwhile. Changes speed, never a result."""
    _elsewhere.threads += 1
    try:
        yield
    finally:
        _elsewhere.threads -= 1


def is_compiled(steps: int) -> bool:
    """Whether a computation of so many steps uses compiled code.

    Loading it takes about a quarter of a second, and compiling it some seconds more where there is no copy on disk yet. So it
    is loaded when a process has done, or is about to do, about as much work without it; from then on all computations use it.
    The results are the same integers either way.
    """
    if not _is_installed():
        return False
    if _loaded.module is not None:
        return True
    _without.steps += steps
    return _without.steps >= WORTH_LOADING and _can_be_loaded()


def compiled_code() -> ModuleType:
    """`compiled.py`, imported now if it was not before; also the first time in several threads at once."""
    if (module := _loaded.module) is None:
        # numba imports itself in circles, of which another thread would see a part
        with _loaded.one_at_a_time, _nothing_collected():
            module = import_module(_MODULE)
            module.begin()
            _loaded.module = module
    return module


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """Modules stay: to look for garbage among them takes a fifth of the time of their loading."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def n_threads() -> int:
    """Cores this process may use, unless OMP_NUM_THREADS, which BLAS and scikit-learn read too, says another number."""
    stated = os.environ.get("OMP_NUM_THREADS", "")
    if re.fullmatch(r"[1-9][0-9]{0,2}", stated):
        cores = int(stated)
    else:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores - _elsewhere.threads)


@cache
def _is_installed() -> bool:
    return extras.is_installed("fast")


@cache
def _can_be_loaded() -> bool:
    """Numba refuses to be imported beside a NumPy that is newer than it knows."""
    try:
        compiled_code()
    except ImportError:
        return False
    return True
