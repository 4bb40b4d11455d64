"""Noise in processes of their own."""

import os
import subprocess
import sys

import pytest


def test_w02_the_first_draw_of_every_deployment_is_its_own() -> None:
    program = (
        "from fractions import Fraction; from fastlloyd.dp.noise import SystemNoise; "
        "print(SystemNoise().gaussian(Fraction(2) ** 40, 2).tolist())"
    )
    runs = [
        subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
        for _ in range(2)
    ]
    assert runs[0].stdout != runs[1].stdout
    assert runs[0].stdout.startswith(b"[")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_child_forked_after_threads_drew_noise_draws_noise_of_its_own() -> None:
    program = """
import os, sys
import numpy as np
from fractions import Fraction
from fastlloyd.dp.noise import SystemNoise

def drawn():
    return SystemNoise().gaussian(Fraction(2) ** 30, 1 << 18)

before = drawn()
reading, writing = os.pipe()
if os.fork() == 0:
    with open(writing, "wb") as pipe:
        pipe.write(drawn().tobytes())
    os._exit(0)
os.close(writing)
after = drawn()
with open(reading, "rb") as pipe:
    child = np.frombuffer(pipe.read(), dtype=np.int64)
assert os.wait()[1] == 0 and child.size == before.size
common = len(np.unique(np.concatenate([before, after, child])))
print(3 * before.size - common)
"""
    environment = os.environ | {"OMP_NUM_THREADS": "2", "PYTHONWARNINGS": "ignore"}
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, env=environment
    )
    # by chance, at most 3 * 2^18 * 3 * 2^18 / 2 pairs are equal with probability 2^-31.8 each: 83
    assert int(found.stdout) < 1000
