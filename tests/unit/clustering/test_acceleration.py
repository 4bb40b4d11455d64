"""Compiled code that cannot be used is done without: the same answers, more slowly."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import numpy as np
from fastlloyd.clustering import acceleration, kernels, reference
acceleration.WORTH_LOADING = 0
generator = np.random.default_rng(0)
X, C = generator.integers(-9, 9, (20, 3)).astype(np.int32), generator.integers(-9, 9, (4, 3))
assert not acceleration.is_compiled(1 << 40)
for found, expected in zip(kernels.cluster_statistics(X, C, 50), reference.cluster_statistics(X, C, 50)):
    assert (found == expected).all()
"""


@pytest.mark.parametrize("refusing", ["numba", "threadpoolctl"])
def test_a_library_that_refuses_to_be_imported_is_done_without(tmp_path: Path, refusing: str) -> None:
    # numba beside a NumPy that is newer than it knows raises ImportError; threadpoolctl may not be there at all
    before = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})"
        if refusing == "numba"
        else "import importlib.util as u; find = u.find_spec; "
        "u.find_spec = lambda name, *more: None if name == 'threadpoolctl' else find(name, *more)"
    )
    (tmp_path / "numba.py").write_text("raise ImportError('Numba needs an older NumPy')")
    subprocess.run([sys.executable, "-c", before + PROGRAM], check=True)  # noqa: S603 - our own program


def test_where_numba_is_told_not_to_compile_it_is_done_without() -> None:
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, env=environment)  # noqa: S603 - our own program


LOAD_ROWS = """
import numpy as np
from fastlloyd.clustering import compiled
squares = np.empty(2)
compiled.load_rows(np.array([[1, 2], [3, 4]], dtype=np.int32), 0, np.empty((2, 2)), squares)
assert squares.tolist() == [5, 25]
"""
FULL_DISK = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (16, 16))"
KNOWN = "assert compiled.load_rows.stats.cache_hits"


def run(copies: Path, *lines: str) -> None:
    """A process that finds and keeps copies of machine code in that folder."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(copies)}
    subprocess.run([sys.executable, "-B", "-c", "\n".join(lines)], check=True, env=environment)  # noqa: S603 - our own program


def test_machine_code_that_cannot_be_kept_or_read_back_is_compiled_anew(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    run(tmp_path, FULL_DISK, LOAD_ROWS)
    run(tmp_path, LOAD_ROWS)
    run(tmp_path, LOAD_ROWS, KNOWN)
    for suffix in ("nbi", "nbc"):
        (damaged,) = tmp_path.rglob(f"compiled.load_rows-*.{suffix}")
        damaged.write_bytes(damaged.read_bytes()[:-20])
        run(tmp_path, LOAD_ROWS)
        run(tmp_path, LOAD_ROWS, KNOWN)  # and kept again


LOADED = "'numba.np.arraymath' in __import__('sys').modules"


def test_copies_are_read_without_the_rest_of_numba(tmp_path: Path) -> None:
    """With numba as it is locked; with one that nobody has tried all is loaded, as numba does."""
    numba = pytest.importorskip("numba")
    from fastlloyd.clustering import machine

    assert numba.version_info.short in machine._READS_ALONE
    assert max(machine._READS_ALONE) == (0, 68)  # the latest that somebody has tried
    untried = "from fastlloyd.clustering import machine; machine._READS_ALONE = ()"
    run(tmp_path, LOAD_ROWS)
    run(tmp_path, LOAD_ROWS, KNOWN, f"assert not {LOADED}")
    run(tmp_path, untried, LOAD_ROWS, KNOWN, f"assert {LOADED}")


COMPILED_AFTER = """
from numba import njit
@njit
def largest(values):
    return np.max(values) + np.linalg.norm(values) + len({str(len(values)): 1})
assert largest(np.array([3.0, 4.0])) == 10.0
"""


def test_whoever_compiles_afterwards_finds_all_of_numba(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    run(tmp_path, LOAD_ROWS)
    run(tmp_path, LOAD_ROWS, KNOWN, COMPILED_AFTER)


def test_many_small_computations_load_compiled_code_as_one_large_one_does() -> None:
    pytest.importorskip("numba")
    program = """
import sys
from fastlloyd.clustering import acceleration
acceleration.WORTH_LOADING = 100
loaded = []
for _ in range(5):
    acceleration.is_compiled(30)
    loaded.append("numba" in sys.modules)
assert loaded == [False, False, False, True, True], loaded
"""
    subprocess.run([sys.executable, "-c", program], check=True)  # noqa: S603 - our own program
