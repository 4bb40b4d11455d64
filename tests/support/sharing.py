"""In a fresh clone every process of tests would compile the same kernels and rewrite the assertions
of the same modules, at the same time. Here each begins with others, and reads from disk what it
comes to later.
"""

import importlib
import pkgutil
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from fastlloyd.clustering import compiled


def place(config: pytest.Config) -> tuple[int, int]:
    """Which of how many processes this is; of none, where one runs all tests."""
    told = getattr(config, "workerinput", {"workerid": "gw0", "workercount": 0})
    return int(told["workerid"].removeprefix("gw")), told["workercount"]


def compile_share(config: pytest.Config) -> None:
    number, of = place(config)
    if not of:
        return
    modules = [
        importlib.import_module(f"{compiled.__name__}.{found.name}")
        for found in pkgutil.iter_modules(compiled.__path__)
    ]
    kernels = dict.fromkeys(
        one
        for module in modules
        for one in vars(module).values()
        if type(one).__name__ == "_Kernel"
    )
    for kernel in list(kernels)[number::of]:
        kernel.code = kernel._compiled()


def pytest_collection(session: pytest.Session) -> None:
    """Import test modules; whatever is wrong with one is said when it is collected."""
    number, of = place(session.config)
    if not of:
        return
    compile_share(session.config)
    modules = [
        file
        for argument in session.config.args
        for file in sorted(Path(argument).rglob("test_*.py"))
    ]
    first = len(modules) * number // of
    for file in modules[first:] + modules[:first]:
        sys.path.insert(0, str(file.parent))
        with suppress(Exception, pytest.skip.Exception):
            importlib.import_module(file.stem)
