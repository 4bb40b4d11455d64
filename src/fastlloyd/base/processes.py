"""Processes that contain records or keys.

No copy of their memory goes to disk, and Ctrl-C reaches only the process that started them.
"""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

_PR_SET_DUMPABLE: Final = 4  # linux/prctl.h


def forbid_core_dumps() -> None:
    """Forbid core dumps of this process, whose memory contains keys, records and noise.

    On Linux, also forbid other processes of the same user to read the memory of this process. The
    limit on the size of core files is not enough there. A program that collects dumps, such as
    systemd-coredump or apport, gets a dump whatever the limit is. Linux makes no dump of a process
    that is marked as not dumpable. If the system offers or permits neither measure, do nothing.
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
    """Shield processes that start inside the block from Ctrl-C: they inherit the signal as blocked.

    This process receives the signal when the block ends.
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
