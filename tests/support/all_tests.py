"""Settings all tests share, those of the product and of the lab.

Whether the tests pass depends on the commit alone. So examples are derived from the tests
themselves, the same in every run; `--hypothesis-seed=N` or `--hypothesis-seed=random` looks for
others.
"""

import gc
import importlib
import os
import pkgutil
import shutil
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Tests run in as many processes as there are cores: threads of libraries in each of them, or
# waiting for work by turning round, would only take the cores from one another. Read when these
# libraries are loaded, here and in processes that tests start.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# Hundreds of processes that tests start would each compile all modules anew, and so would those
# that run the tests.
os.environ["PYTHONDONTWRITEBYTECODE"] = ""

import pytest
from hypothesis import HealthCheck, settings

import fastlloyd
import fastlloyd_lab
from fastlloyd import testing

sys.dont_write_bytecode = False  # or this process would rewrite the assertions of all tests anew

MEMORY = Path("/dev/shm")  # noqa: S108 - pytest makes a folder of its own in it
# A shared machine makes examples slow at random; a hang is caught by the run's own limit.
CLOCKLESS = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", CLOCKLESS, derandomize=True)
settings.register_profile("new", CLOCKLESS, print_blob=True)
QUICK = settings(CLOCKLESS, derandomize=True, max_examples=10)
settings.register_profile("quick", QUICK)
settings.load_profile("same")


def pytest_configure(config: pytest.Config) -> None:
    """Folders in memory; examples of a seed that is asked for; constants for them from all of our
    modules.
    """
    if config.getoption("--hypothesis-seed") is not None:
        settings.load_profile("new")
    # Tests make tens of thousands of commits that wait for the disk. Their folders lie in memory
    # where there is enough of it: what a loss of power leaves is asked by none.
    if (
        MEMORY.is_dir()
        and os.access(MEMORY, os.W_OK | os.X_OK)
        and shutil.disk_usage(MEMORY).free > 2 << 30
    ):
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
    if config.getoption("numprocesses", None):
        return  # this process only hands out the tests
    gc.disable()  # until all tests are collected: what is made by then stays
    for package in (fastlloyd, fastlloyd_lab):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have tests that ask for more examples of their own be quick, too, where `make quick` asks."""
    if settings.default is not None and settings.default.max_examples == QUICK.max_examples:
        for item in items:
            function: Any = getattr(item, "function", None)
            own = getattr(function, "_hypothesis_internal_use_settings", None)
            if own is not None and own.max_examples > QUICK.max_examples:
                fewer = settings(own, max_examples=QUICK.max_examples)
                function._hypothesis_internal_use_settings = fewer


def pytest_collection_finish() -> None:
    """What there is now stays: looking for garbage in it, again and again, would only take time."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One process more than there are cores: while a test waits, for a process or a deadline,
    another is worked at. With `-n logical`, for tests that never wait, as many as cores.
    """
    n_cores = os.cpu_count() or 1
    return n_cores if config.option.numprocesses == "logical" else n_cores + 1


@pytest.fixture(scope="module", autouse=True)
def ledger_of_the_module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """For fixtures that a module's tests share, which are made before a test has a ledger of its
    own.
    """
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv(
            "FASTLLOYD_LEDGER",
            str(tmp_path_factory.getbasetemp() / "ledgers" / uuid.uuid4().hex / "l.store"),
        )
        yield


@pytest.fixture(autouse=True)
def ledger_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """No test, nor a process that it starts, writes to the ledger of whoever runs it, or of another
    test; made where used.
    """
    path = tmp_path_factory.getbasetemp() / "ledgers" / uuid.uuid4().hex / "ledger.store"
    with (
        pytest.MonkeyPatch.context() as environment
    ):  # not the tests' own, which may end before other fixtures do
        environment.setenv("FASTLLOYD_LEDGER", str(path))
        yield path


@pytest.fixture(scope="module")
def repeatable_noise() -> Iterator[None]:
    """For tests that give sessions or `central.cluster` noise they know."""
    with testing.repeatable_noise():
        yield
