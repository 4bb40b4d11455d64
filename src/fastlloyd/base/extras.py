"""Optional packages of each extra, and the command that installs missing packages.

An installed package may still fail to import, with an error of any kind. It may be built for
another NumPy, lack a library, or do something that the system forbids.
"""

import logging
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from fastlloyd.base.notes import note

_LOG = logging.getLogger(__name__)
_noted: set[str] = set()
_SHOWN: Final = 200  # characters of what a package says

MODULES: Final = {
    "sklearn": ("sklearn",),
    "plot": ("matplotlib",),
    "fast": ("numba", "threadpoolctl"),
    "data": ("pyarrow",),
    "network": ("grpc",),
    "remote": ("fsspec", "s3fs"),
    "dask": ("dask", "distributed"),
    "mpi": ("mpi4py",),
    "app": ("starlette", "uvicorn"),
}
"""Modules of each extra. They can be imported if the extra is installed."""


def is_installed(extra: str) -> bool:
    """Return whether all packages of an extra are installed, without importing them."""
    return all(find_spec(module) is not None for module in MODULES[extra])


def optional(name: str) -> Any | None:
    """Return a module that makes computations faster and changes no result, or None without it.

    The first failure of an installed module is logged. Only the import of the module itself is
    tried, so it must import all that it needs.
    """
    try:
        return import_module(name)
    except Exception as error:  # noqa: BLE001 - a package may fail in any way, and is done without
        is_absent = isinstance(error, ModuleNotFoundError) and name.startswith(error.name or name)
        if not is_absent and name not in _noted:
            _noted.add(name)
            note(
                _LOG,
                logging.WARNING,
                f"{name} is not used ({_said(error)}); the result is the same, but the computation"
                " takes longer",
            )
        return None


def why_not(error: Exception, *extras: str) -> str:
    """Return why a package of these extras could not be imported, and what to do.

    The result is the end of a sentence that begins with the name of the package.
    """
    if isinstance(error, ModuleNotFoundError):
        return f"is not installed: {command(*extras)}"
    anew = command(*extras).replace(" install ", " install --force-reinstall ")
    return (
        f"is installed but cannot be imported ({_said(error)}); correct the fault, or install the"
        f" package anew: {anew}"
    )


def _said(error: Exception) -> str:
    """Return the first line of an error that a package raised on import. No record has been read at
    this point, so the line shows none.
    """
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]:.{_SHOWN}}" if lines else type(error).__name__


def command(*extras: str) -> str:
    """Return the command that installs the packages of these extras from the package index."""
    wanted = [requirement for extra in extras for requirement in _requirements(extra)]
    return "python -m pip install " + " ".join(f'"{requirement}"' for requirement in wanted)


def _requirements(extra: str) -> Sequence[str]:
    """Return the requirements of an extra in pyproject.toml.

    If fastlloyd runs without being installed, return the names of the extra's modules.
    """
    from importlib.metadata import PackageNotFoundError, requires

    try:
        every = requires("fastlloyd") or []
    except PackageNotFoundError:
        every = []
    mark = f'extra == "{extra}"'
    found = [
        requirement.split(";")[0].strip()
        for requirement in every
        if requirement.partition(";")[2].strip() == mark
    ]
    return found or MODULES[extra]
