"""Compiled code that cannot be used is done without: the same answers, more slowly."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

PROGRAM = """
import numpy as np
from fastlloyd.base import compiling
from fastlloyd.clustering import kernels, parallel, reference
compiling.WORTH_LOADING = 0
generator = np.random.default_rng(0)
X, C = generator.integers(-9, 9, (20, 3)).astype(np.int32), generator.integers(-9, 9, (4, 3))
assert not compiling.is_compiled(1 << 40)
for found, expected in zip(kernels.cluster_statistics(X, C, 50), reference.cluster_statistics(X, C, 50)):
    assert (found == expected).all()
"""


@pytest.mark.parametrize("refusing", ["numba", "threadpoolctl"])
def test_a_library_that_refuses_to_be_imported_is_done_without(
    tmp_path: Path, refusing: str
) -> None:
    # numba beside a NumPy that is newer than it knows raises ImportError; threadpoolctl may not be
    # there at all
    before = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})"
        if refusing == "numba"
        else (
            "import importlib.util as u; find = u.find_spec; u.find_spec = lambda name, *more: None"
            " if name == 'threadpoolctl' else find(name, *more)"
        )
    )
    (tmp_path / "numba.py").write_text("raise ImportError('Numba needs an older NumPy')")
    # our own program
    subprocess.run([sys.executable, "-c", before + PROGRAM], check=True)


BOTH = """
import logging, sys
logging.basicConfig(format="%%(message)s")
sys.path.insert(0, sys.argv[1])
%s
for _ in range(2):
    with parallel.one_blas_thread():
        pass
"""


@pytest.mark.parametrize(
    "error",
    ["OSError(13, 'no executable memory')", "AttributeError('x')", "RuntimeError('y\\nz')"],
)
def test_whatever_an_accelerator_raises_when_it_is_imported_is_noted_once_and_done_without(
    tmp_path: Path, error: str
) -> None:
    for name in ("numba", "threadpoolctl"):
        (tmp_path / f"{name}.py").write_text(f"raise {error}")
    program = BOTH % PROGRAM
    # our own program
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], check=True, capture_output=True, text=True
    )
    notes = done.stderr.splitlines()
    kind = error.partition("(")[0].replace("OSError", "PermissionError")
    assert len(notes) == 2
    for name, said in zip(("fastlloyd.base.jit", "threadpoolctl"), notes, strict=True):
        assert said.startswith(f"{name} is not used (")
        assert kind in said


PR_SET_MDWE, REFUSE_EXEC_GAIN = 65, 1
WITHOUT_EXECUTABLE_MEMORY = f"""
import ctypes, os, sys
if ctypes.CDLL(None).prctl({PR_SET_MDWE}, {REFUSE_EXEC_GAIN}, 0, 0, 0):
    os._exit(77)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the rule is Linux's")
def test_where_no_memory_may_become_executable_fit_gives_the_same_result(tmp_path: Path) -> None:
    """As under systemd's MemoryDenyWriteExecute and SELinux without execmem. The records are enough
    for compiled code to pay.
    """
    rows = "\n".join(f"{i * 37 % 101},{i * 53 % 89}" for i in range(30_000))
    (tmp_path / "a.csv").write_text(f"x,y\n{rows}\n")
    options = "--algorithm lloyd -k 40 --bounds x=0:100,y=0:90 --iterations 5 --n-records 30000 --public-seed 3 --json"
    fit = ["-m", "fastlloyd", "fit", "a.csv", *options.split(), "--no-out"]
    found = []
    for wrapper in ([], ["-c", WITHOUT_EXECUTABLE_MEMORY]):
        # our own program
        done = subprocess.run(
            [sys.executable, *wrapper, *fit],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        if wrapper and done.returncode == 77:
            pytest.skip("this kernel does not know the rule")
        assert done.returncode == 0, done.stderr
        found.append(done.stdout)
    assert found[0] == found[1]


def test_where_numba_is_told_not_to_compile_it_is_done_without() -> None:
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    # our own program
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, env=environment)


LOAD_ROWS = """
import numpy as np
from fastlloyd.clustering.compiled.filter import load_rows
squares = np.empty(2, dtype=np.float32)
load_rows(np.array([[1, 2], [3, 4]], dtype=np.int32), 0, 2, np.empty((1, 2, 2), dtype=np.float32), squares)
assert squares.tolist() == [5, 25]
"""
FULL_DISK = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (16, 16))"
KNOWN = "assert load_rows.code.stats.cache_hits"


FORKS = """
import os, sys, traceback, numba
numba.njit(numba.types.void())(lambda: None)  # loads the rest of it
for number, program in enumerate({programs!r}):
    print("process", number, flush=True)
    if not os.fork():
        try:
            exec(program, {{}})
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        sys.stdout.flush()
        os._exit(0)
    assert os.wait()[1] == 0, program
"""


def said_by(copies: Path, *programs: str) -> list[list[str]]:
    """The lines that each of these programs writes, in a process of its own: forks of one that has
    loaded numba, which takes longer than most of them. They find and keep copies of machine code in
    that folder.
    """
    environment = os.environ | {"NUMBA_CACHE_DIR": str(copies), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", FORKS.format(programs=programs)]
    done = subprocess.run(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return [part.splitlines()[1:] for part in done.stdout.split("process ")[1:]]


def test_machine_code_that_cannot_be_kept_or_read_back_is_compiled_anew(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    damage = """
from pathlib import Path
(damaged,) = Path({!r}).rglob("filter.load_rows*.{}")
damaged.write_bytes(damaged.read_bytes()[:-20])
"""
    known = f"{LOAD_ROWS}\n{KNOWN}"
    damaged = [damage.format(str(tmp_path), suffix) for suffix in ("nbi", "nbc")]
    said_by(
        tmp_path,
        *(f"{FULL_DISK}\n{LOAD_ROWS}", LOAD_ROWS, known),
        *(damaged[0], LOAD_ROWS, known),  # and kept again
        *(damaged[1], LOAD_ROWS, known),
    )


def test_machine_code_on_disk_is_renewed_when_any_file_of_compiled_functions_changes(
    tmp_path: Path,
) -> None:
    """Functions call others in other files, of which numba knows nothing."""
    pytest.importorskip("numba")
    from fastlloyd.base import jit

    (tmp_path / "jit.py").write_text(
        Path(jit.__file__).read_text(encoding="utf-8"), encoding="utf-8"
    )
    (tmp_path / "outer.py").write_text(
        "from jit import INTEGER, kernel\nfrom inner import number\n\n@kernel(INTEGER())\ndef"
        " asked():\n    return number()\n",
        encoding="utf-8",
    )
    program = """
import sys
from pathlib import Path
Path({inner!r}).write_text("from jit import helper\\n\\n@helper\\ndef number():\\n    return {number}\\n", encoding="utf-8")
sys.path.insert(0, {folder!r})
import outer
print(outer.asked(), bool(outer.asked.code.stats.cache_hits))
"""
    programs = [
        program.format(inner=str(tmp_path / "inner.py"), number=number, folder=str(tmp_path))
        for number in (1, 1, 2)
    ]
    assert said_by(tmp_path / "copies", *programs) == [["1 False"], ["1 True"], ["2 False"]]


@pytest.mark.parametrize(
    "other",
    [
        "numba.__version__ = '0.1'",
        "sys.implementation.cache_tag = 'cpython-399'",
        "binding.get_host_cpu_name = lambda: 'another'",
    ],
)
def test_machine_code_of_another_numba_or_python_or_for_another_processor_is_not_taken_for_ours(
    tmp_path: Path, other: str
) -> None:
    pytest.importorskip("numba")
    asked = """
from fastlloyd.clustering.compiled.filter import load_rows
print(load_rows.is_on_disk)
"""
    elsewhere = f"import sys, numba\nfrom llvmlite import binding\n{other}\n{asked}"
    assert [said[-1:] for said in said_by(tmp_path, LOAD_ROWS, asked, elsewhere)] == [
        [],
        ["True"],
        ["False"],
    ]


def test_that_code_is_compiled_is_said_once_and_only_on_a_terminal_or_in_the_log(
    tmp_path: Path,
) -> None:
    pytest.importorskip("numba")

    def program(copies: str, *before: str) -> str:
        return "\n".join([
            "import sys, numba, numpy as np",
            f"numba.config.CACHE_DIR = {str(tmp_path / copies)!r}",
            *before,
            LOAD_ROWS,
            "from fastlloyd.clustering.compiled.grid import is_within",
            "is_within(np.zeros((1, 2), np.int32), 0, 2, np.ones(1, np.int64))",
        ])  # fmt: skip

    terminal = "sys.stderr.isatty = lambda: True"
    log = (
        "import logging; logging.basicConfig(level=logging.INFO, stream=sys.stdout,"
        " format='%(message)s')"
    )
    said = said_by(
        tmp_path,
        program("terminal", terminal),
        program("terminal", terminal),
        program("pipe"),
        program("log", log, terminal),
    )
    assert [len(lines) for lines in said] == [1, 0, 0, 1]
    assert said[0] == said[3]


def test_many_small_computations_load_compiled_code_as_one_large_one_does() -> None:
    pytest.importorskip("numba")
    program = """
import sys
from fastlloyd.base import compiling
compiling.WORTH_LOADING = 100
loaded = []
for _ in range(5):
    compiling.is_compiled(30)
    loaded.append("numba" in sys.modules)
assert loaded == [False, False, False, True, True], loaded
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_what_other_code_can_do_is_compiled_when_that_has_paid() -> None:
    pytest.importorskip("numba")
    program = """
import numba
from fastlloyd.base.jit import INTEGER, WORTH_COMPILING, kernel, pays

@kernel(INTEGER(INTEGER))
def double(n):
    return 2 * n

assert [pays(WORTH_COMPILING // 4, double) for _ in range(4)] == [False, False, False, True]
double.steps = 0
assert not pays(0, double)
assert double(3) == 6
assert pays(0, double), "it is compiled"
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_what_is_on_disk_is_used_at_once(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    cache = f"import numba; numba.config.CACHE_DIR = {str(tmp_path)!r}"
    program = f"""
{cache}
from fastlloyd.base.jit import pays
from fastlloyd.clustering.compiled.public_kmeans import add_centroids, blocks_of, room_for_choice, row_blocks_of, squares_of
assert pays(0, add_centroids) == EXPECTED
import numpy as np
blocks, weights, chosen = blocks_of(np.eye(2)), row_blocks_of(np.ones(2)), np.zeros(1, np.int64)
add_centroids(blocks, squares_of(blocks), np.eye(2), weights, 2.0, *room_for_choice(blocks, 1), np.ones((0, 1)), chosen)
"""
    for expected in ("False", "True"):
        # our own
        subprocess.run([sys.executable, "-c", program.replace("EXPECTED", expected)], check=True)


def test_threads_that_need_the_same_kernel_compile_it_once() -> None:
    jit = pytest.importorskip("fastlloyd.base.jit")

    def nothing() -> None:
        """Do nothing."""

    def compiled() -> Callable[[], int]:
        assert kernel._compiling.locked()
        times.append(1)
        return lambda: 1

    kernel: Any = jit.kernel()(nothing)
    times: list[int] = []
    found: list[int] = []
    kernel._compiled = compiled
    with kernel._compiling:  # as if another thread had begun to compile
        threads = [Thread(target=lambda: found.append(kernel())) for _ in range(3)]
        for thread in threads:
            thread.start()
        assert not times
    for thread in threads:
        thread.join()
    assert (times, found) == ([1], [1, 1, 1])
