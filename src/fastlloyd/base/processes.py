"""Processes that contain records or keys: no copy of their memory goes to disk, and Ctrl-C reaches
only the process that started them.
"""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

_PR_SET_DUMPABLE: Final = 4  # linux/prctl.h


def forbid_core_dumps() -> None:
    """Forbid core dumps of this process and, on Linux, reading its memory by other processes of
    this user.

    Its memory contains keys, records and noise. The limit of core files alone is not enough: Linux
    passes a dump to a program that asks for it (systemd-coredump, apport) whatever the limit is,
    but makes none of a process that is not dumpable. If the system has neither, or refuses, nothing
    happens.
    """
    with suppress(
        ImportError, OSError, ValueError
    ):  # Windows has no such limit, and writes no dump unless it is told to
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        with suppress(ImportError, OSError, AttributeError):
            import ctypes

            ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Protect processes that are started inside from Ctrl-C, which they inherit as blocked. This
    process receives it when the block ends.
    """
    if (
        not hasattr(signal, "pthread_sigmask")
        or threading.current_thread() is not threading.main_thread()
    ):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
