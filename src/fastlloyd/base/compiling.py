"""Decision to use compiled code, which needs the extra `fast` and must be worth loading."""

import gc
from functools import cache

from fastlloyd.base import extras

# A step is a coordinate of a record beside one of a centroid: well below a nanosecond in compiled
# code, and several without.
WORTH_LOADING = 1 << 24


def is_compiled(steps: int) -> bool:
    """Return whether a computation of `steps` steps uses compiled code. If so, the code is loaded.

    Loading takes about half a second, and compiling some seconds more if there is no copy on disk.
    So the code is loaded once the process has spent about that much time without it, or is about
    to. From then on all computations use it. The results are the same integers either way.
    """
    if _state.loaded:
        return True
    _state.steps += steps
    return _state.steps >= WORTH_LOADING and _can_be_loaded()


class _state:  # noqa: N801 - a place for what is true of this process
    """State of this process.

    loaded : whether compiled code is loaded.
    steps : number of steps that were computed without compiled code.
    n_compiled : number of kernels that this process compiled.
    """

    loaded = False
    steps = 0
    n_compiled = 0


def count_compiled() -> None:
    """Count a kernel that is being compiled, because its machine code is not on disk."""
    _state.n_compiled += 1


def n_compiled() -> int:
    """Return the number of kernels that this process compiled."""
    return _state.n_compiled


@cache
def _can_be_loaded() -> bool:
    """Load compiled code. Return False without the extra, or if Numba cannot be imported.

    Numba fails, for example, if NumPy is too new, or if the process may not make code.
    """
    if not extras.is_installed("fast"):
        return False
    collects = gc.isenabled()
    # modules are no garbage, and to look for some takes a fifth of the time of their loading
    gc.disable()
    try:
        # for which other threads wait: numba imports itself in circles
        _state.loaded = extras.optional("fastlloyd.base.jit") is not None
    finally:
        if collects:
            gc.enable()
    return _state.loaded
