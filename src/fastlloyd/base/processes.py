"""Processes that hold records or keys: no copy of their memory goes to disk, and Ctrl-C reaches
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
    """Have the system write no core dump of this process, and on Linux let no other process of this
    user read its memory.

    Keys, records and noise are in it. The limit alone is not enough: Linux hands a dump to a
    program that asks for it (systemd-coredump, apport) whatever the limit is, but makes none of a
    process that is not dumpable. Where the system has neither, or refuses, nothing happens.
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
    """Keep Ctrl-C from a process that starts now, which inherits what is blocked; here it comes in
    when this ends.
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
