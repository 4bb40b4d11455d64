"""Optional packages: which an extra brings, and the command that installs those that are
missing.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Final

MODULES: Final = {
    "sklearn": ("sklearn",),
    "plot": ("matplotlib",),
    "fast": ("numba", "threadpoolctl"),
    "data": ("pyarrow",),
    "network": ("grpc",),
    "datasets": ("pooch",),
    "remote": ("fsspec", "s3fs"),
    "dask": ("dask", "distributed"),
    "mpi": ("mpi4py",),
}
"""What can be imported once an extra is installed."""


def is_installed(extra: str) -> bool:
    """Return whether all packages of an extra are installed, without importing them."""
    return all(find_spec(module) is not None for module in MODULES[extra])


def command(*extras: str) -> str:
    """The command that installs what these extras bring: from the package index, wherever fastlloyd
    itself came from.
    """
    wanted = [requirement for extra in extras for requirement in _requirements(extra)]
    return "python -m pip install " + " ".join(f'"{requirement}"' for requirement in wanted)


def _requirements(extra: str) -> Sequence[str]:
    """Requirements as pyproject.toml states them; names of modules where fastlloyd runs without
    being installed.
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
