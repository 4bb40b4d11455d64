"""Whether compiled code is used: it must be installed (the extra `fast`) and usable, and loading it must be repaid."""

import sys
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

WORTH_LOADING = 1 << 24  # steps, each about a nanosecond in compiled code and several without
_MODULE = "fastlloyd.clustering.compiled"


def is_compiled(steps: int) -> bool:
    """Whether a computation of so many steps uses compiled code.

    Loading it takes about half a second, and compiling it some seconds more where there is no copy on disk yet. Small
    computations never repay that; once it is loaded, all use it. The results are the same integers either way.
    """
    return _is_installed() and (_MODULE in sys.modules or (steps >= WORTH_LOADING and _can_be_loaded()))


def compiled_code() -> ModuleType:
    """`compiled.py`, imported now if it was not before."""
    return import_module(_MODULE)


@cache
def _is_installed() -> bool:
    return all(find_spec(name) is not None for name in ("numba", "threadpoolctl"))


@cache
def _can_be_loaded() -> bool:
    """Numba refuses to be imported beside a NumPy that is newer than it knows."""
    try:
        compiled_code()
    except ImportError:
        return False
    return True
