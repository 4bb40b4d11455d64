"""Precision of numbers in a process that was forked."""

import os
import signal
import threading
import warnings

import pytest

from fastlloyd.base.precision import (
    working_precision,
)

# seconds after which the system ends a child that waits for ever; one that does not needs
# milliseconds
HANG = 300


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_child_forked_while_another_thread_computes_can_compute_too() -> None:
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with working_precision(64):
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # Python 3.12 warns of forking with threads: that is the point
        pid = os.fork()
    if pid == 0:
        signal.alarm(HANG)
        with working_precision(64) as mp:
            os._exit(0 if mp.mpf(2) == 2 else 1)
    _, status = os.waitpid(pid, 0)
    done.set()
    thread.join()
    assert status == 0
