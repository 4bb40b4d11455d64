"""Ctrl-C in a process that shares work among threads."""

import os
import signal
import subprocess
import sys


def test_ctrl_c_ends_a_long_computation_soon() -> None:
    """A computation of many minutes; the interrupt is handled, and the process goes on and ends by
    itself.
    """
    program = """
import os, signal, threading, time
os.environ["OMP_NUM_THREADS"] = "2"
import numpy as np
from fastlloyd.base import compiling
from fastlloyd.clustering import kernels, parallel

assert compiling.is_compiled(1 << 40)
rng = np.random.default_rng(0)
X = np.asfortranarray(rng.integers(-1000, 1000, (1 << 20, 16), dtype=np.int32))
C = rng.integers(-1000, 1000, (1 << 16, 16))
limits = np.full(16, 1000)
kernels.cluster_statistics(X[:10], C[:10], None, limits=limits)
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    kernels.cluster_statistics(X, C, None, limits=limits)
except KeyboardInterrupt:
    print("interrupted", flush=True)
time.sleep(0.2)  # until what was begun has certainly ended
before = time.process_time()
time.sleep(0.2)
assert time.process_time() - before < 0.1
assert kernels.cluster_statistics(X, C[:2], None, limits=limits)[1].sum() == len(X)
"""
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
    )
    assert done.stdout == "interrupted\n"
    assert signal.SIGINT
