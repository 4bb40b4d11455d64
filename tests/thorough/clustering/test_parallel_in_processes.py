"""Threads that share spans of the records, in processes that fork or are started anew."""

import os
import subprocess
import sys
import threading
import time
import warnings
from functools import partial
from typing import Any

import pytest

from fastlloyd.base.threads import work_together


def a_helper_comes() -> bool:
    """Within a minute: one that has just been started, or is busy, does not come, and that is
    allowed.
    """

    def who() -> int:
        time.sleep(0.02)
        return threading.get_ident()

    end = time.monotonic() + 60
    while time.monotonic() < end:
        if len(set(work_together([who] * 4, 2))) == 2:
            return True
    return False


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
@pytest.mark.parametrize("busy", [False, True], ids=["idle", "while helpers work"])
def test_a_forked_child_has_helpers_of_its_own(busy: bool) -> None:
    """Of its parent's threads it has none; a lock that one of them held would never be released."""
    assert a_helper_comes()
    done = threading.Event()
    other = threading.Thread(target=work_together, args=([partial(done.wait, 60)] * 4, 3))
    if busy:
        other.start()
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # Python 3.12 warns of forking with threads: that is the point
        child = os.fork()
    if child == 0:
        os._exit(0 if a_helper_comes() else 1)
    assert os.waitpid(child, 0)[1] == 0
    done.set()
    if busy:
        other.join(60)
    assert a_helper_comes()


def test_processes_that_multiprocessing_forks_find_the_same(tmp_path: Any) -> None:
    """After their parent has used threads, and BLAS."""
    program = tmp_path / "program.py"
    program.write_text("""
import multiprocessing, os, sys
os.environ["OMP_NUM_THREADS"] = "2"
import numpy as np
from fastlloyd.base import compiling
from fastlloyd.clustering import kernels, parallel

parallel.WORTH_THREADS = 1
assert compiling.is_compiled(1 << 40)

def found(d):
    X = np.random.default_rng(0).integers(-99, 100, (5000, d), dtype=np.int32)
    return [array.tobytes() for array in kernels.cluster_statistics(X, X[:9], 3000 * d)]

if __name__ == "__main__":
    expected = [found(d) for d in (3, 40)]
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for _ in range(3):
            assert pool.map(found, [3, 40]) == expected
    assert [found(d) for d in (3, 40)] == expected
""")
    command = [sys.executable, "-W", "ignore::DeprecationWarning", str(program)]
    subprocess.run(command, check=True, timeout=300)


def test_where_no_thread_can_be_started_the_caller_works_alone() -> None:
    program = """
from fastlloyd.base import threads

def refused(*_):
    raise RuntimeError("can't start new thread")

threads.start_new_thread = refused
for _ in range(10):
    assert sorted(threads.work_together([lambda: 0, lambda: 1], 3)) == [0, 1]
assert threads._helpers().jobs.empty()
"""
    # our own program
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)
