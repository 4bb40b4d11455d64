"""Kernels in processes of their own: without the compiler, with other settings, after a fork."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


def test_compiled_code_is_loaded_only_where_it_is_repaid() -> None:
    pytest.importorskip("numba")
    program = """
import gc, sys, numpy as np
from fastlloyd.base import compiling
from fastlloyd.clustering import kernels
X = np.zeros((1000, 2), dtype=np.int32)
kernels.cluster_statistics(X, np.zeros((3, 2), dtype=np.int64), None)
assert "numba" not in sys.modules
compiling.WORTH_LOADING = 6000
kernels.cluster_statistics(X, np.zeros((3, 2), dtype=np.int64), None)
assert "numba" in sys.modules
assert gc.isenabled()
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_folder_that_cannot_be_written_costs_the_cache_and_nothing_else() -> None:
    pytest.importorskip("numba")
    program = """
import numpy as np
from numba.core import caching
class Nowhere:
    @classmethod
    def from_function(cls, function, path): return None
caching.CacheImpl._locator_classes = [Nowhere]
from fastlloyd.clustering.compiled.filter import load_rows
squares = np.empty(2, dtype=np.float32)
load_rows(np.array([[1, 2], [3, 4]], dtype=np.int32), 0, 2, np.empty((1, 2, 2), dtype=np.float32), squares)
assert squares.tolist() == [5, 25]
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_compiled_code_can_be_loaded_by_several_threads_at_once() -> None:
    """Numba imports itself in circles: a second thread that imports it meanwhile sees a part of
    it.
    """
    pytest.importorskip("numba")
    program = """
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
from fastlloyd.base import compiling
from fastlloyd.clustering import kernels

compiling.WORTH_LOADING = 0
X = np.random.default_rng(0).integers(-1000, 1000, (20000, 8))
together = Barrier(8)

def work(_):
    together.wait()
    sums, counts = kernels.cluster_statistics(X, X[:40], None)
    return sums.tobytes() + counts.tobytes()

with ThreadPoolExecutor(8) as pool:
    found = set(pool.map(work, range(8)))
assert len(found) == 1
assert "numba" in sys.modules
"""
    # our own program
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)


def test_compiled_code_stays_inside_its_arrays(tmp_path: Path) -> None:
    # Compiled code does not look where it writes; here it is compiled to look, for every shape of
    # block and padding. The checks are there before any optimisation, which would take most of the
    # time and could only remove some.
    pytest.importorskip("numba")
    program = """
import numpy as np
from fastlloyd.base import compiling
from fastlloyd.clustering import filter, kernels, parallel
from fastlloyd.mechanisms.queries import nearest
nearest.RECORDS_PER_SUM = 1
kernels.is_compiled = lambda _: True
parallel.WORTH_THREADS = parallel.LEAST_RECORDS = 1
assert compiling.is_compiled(1 << 40)
generator = np.random.default_rng(0)
for by_feature, keyed, turned in ((False, 0, 0), (False, 0, 99), (True, 0, 0), (True, 8, 0)):
    kernels.is_by_feature, kernels.KEYED_FEATURES, filter.TURNED_CLUSTERS = lambda _: by_feature, keyed, turned
    for n, k, d, rows in [
        (1, 1, 1, 1), (9, 2, 2, 4), (9, 5, 3, 2), (11, 3, 5, 5), (300, 7, 6, 0),
        (9, 3, 8, 4), (5, 9, 11, 8), (40, 19, 9, 0),
    ]:
        X = generator.integers(-9, 9, (n, d)).astype(np.int32)
        C = generator.integers(-9, 9, (k, d))
        for X in (X, np.asfortranarray(X)):
            for limits in (None, np.full(d, 9), np.full(d, 2**24)):
                kernels.cluster_statistics(X, C, 50, limits=limits, block_rows=rows or None)
                labels = kernels.assign(X, C, limits=limits, block_rows=rows or None)
            nearest._compiled_sums(X, labels, C, 7, 4)
            nearest._compiled_sums(X.astype(np.int64), labels, C, 7, 4)

from fastlloyd.base.randomness import Draws, PublicSeed
from fastlloyd.clustering import public_kmeans
public_kmeans._is_compiled = lambda _: True
for n, r, k in ((1, 1, 1), (255, 2, 3), (256, 5, 4), (300, 3, 40), (600, 9, 33)):
    points, draws = generator.normal(size=(n, r)), Draws(PublicSeed.from_int(1), b"fastlloyd/v1/test-of-arrays")
    public_kmeans.k_means(points, np.ones(n), k, draws, n_restarts=2, n_steps=9)
"""
    settings = {
        "NUMBA_BOUNDSCHECK": "1",
        "NUMBA_OPT": "0",
        "NUMBA_CACHE_DIR": str(tmp_path),
        "OMP_NUM_THREADS": "2",
    }
    # our own program
    subprocess.run([sys.executable, "-c", program], check=True, env=os.environ | settings)
