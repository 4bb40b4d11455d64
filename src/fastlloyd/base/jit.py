"""Compilation of kernels by Numba, whose machine code is kept on disk.

A kernel is called from Python, runs without the interpreter's lock, and calls `helper` functions.
Types are stated, so each kernel is compiled once, at its first call.
"""

import logging
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path
from threading import Lock
from types import FunctionType
from typing import Any, Literal, TypeVar, cast

import numba
import numpy as np
from llvmlite.binding import get_host_cpu_name
from numba import types
from numpy.typing import NDArray

from fastlloyd.base.compiling import count_compiled
from fastlloyd.base.notes import note

if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]  # numba sets it from the environment
    raise ImportError("NUMBA_DISABLE_JIT tells numba not to compile")

Points = NDArray[np.int32]
Labels = NDArray[np.int32]

_Function = TypeVar("_Function", bound=Callable[..., Any])
_LOG = logging.getLogger(__name__)
COMPILING = (
    "fastlloyd compiles its inner loops for this machine. This takes some seconds, once per"
    " installation"
)
_EXACT = {"reassoc", "contract", "nsz", "nnan"}
# steps that other code makes in about the time that kernels take to compile
WORTH_COMPILING = 1 << 31


def read(number: Any, n_dimensions: int, layout: Literal["C", "A"] = "C") -> Any:
    """Return the type of an array that a kernel only reads, so the array need not be writeable.

    layout : "C", or "A" for any strides.
    """
    return types.Array(number, n_dimensions, layout, readonly=True)


# types of numbers, of arrays that are written to or our own, and of arrays that may be read-only
INTEGER, REAL = types.int64, types.float64
REALS, TABLE, LABELS = types.float64[::1], types.float64[:, ::1], types.int32[::1]
CENTROIDS, RECORDS = read(types.int64, 2), read(types.int32, 2)


def kernel(*signatures: Any, exact: bool = True) -> Callable[[_Function], _Function]:
    """Return a decorator that compiles a function for the given types of its parameters.

    signatures : signatures of Numba, one for each combination of types.
    exact : whether the compiler may rearrange sums and products, because all numbers are integers.
    """

    def compiled_later(function: _Function) -> _Function:
        return cast("_Function", _Kernel(function, signatures, exact))

    return compiled_later


def kernel_by_width(
    widths: Iterable[int], signature: Callable[[Any], Any]
) -> Callable[[_Function], dict[int, _Function]]:
    """Return a decorator that makes one kernel for each width. Each kernel is compiled when it is
    first called.

    widths : numbers, such as numbers of features.
    signature : function that returns the signature of a kernel. It gets the type of a tuple with as
        many entries as the width. The compiler knows this length, so it omits branches that are
        never taken.
    """

    def compiled_later(function: _Function) -> dict[int, _Function]:
        def of(width: int) -> _Function:
            mine = FunctionType(function.__code__, function.__globals__)
            mine.__qualname__, mine.__module__ = (
                f"{function.__qualname__}_{width}",
                function.__module__,
            )
            length: Any = types.UniTuple(INTEGER, width)  # type: ignore[no-untyped-call]
            return cast("_Function", _Kernel(mine, (signature(length),), exact=True))

        return {width: of(width) for width in widths}

    return compiled_later


def helper(function: _Function) -> _Function:
    """Return a compiled function for kernels to call, on exact integers.

    The compiler may rearrange its sums and products.
    """
    return cast("_Function", numba.njit(nogil=True, error_model="numpy", fastmath=_EXACT)(function))


def rounded_helper(function: _Function) -> _Function:
    """Return a compiled function for kernels to call, in which each operation is rounded as
    written.
    """
    return cast("_Function", numba.njit(nogil=True, error_model="numpy")(function))


def inlined(function: _Function) -> _Function:
    """Return a function that is compiled into each caller, so that it knows the caller's
    constants.
    """
    return cast("_Function", numba.njit(inline="always")(function))


def pays(steps: int, *kernels: Callable[..., Any]) -> bool:
    """Return whether compiled kernels should do `steps` steps of a computation that other code
    could also do.

    They should if their machine code is on disk. They also should if the steps so far would have
    paid for compiling at the start.
    """
    mine = [cast("_Kernel", kernel) for kernel in kernels]
    for kernel in mine:
        kernel.steps += steps
    return all(
        kernel.code is not None or kernel.steps >= WORTH_COMPILING or kernel.is_on_disk
        for kernel in mine
    )


class _Kernel:
    """Function that is compiled, or read from disk, at its first call."""

    def __init__(
        self, function: Callable[..., Any], signatures: tuple[Any, ...], exact: bool
    ) -> None:
        # names the files of its machine code, of which numba by itself asks only whether the
        # function's own file has changed
        function.__qualname__ += f"_{_sources(Path(function.__code__.co_filename).parent)}"
        self._function, self._signatures = function, list(signatures)
        self._options: dict[str, Any] = {
            "nogil": True,
            "error_model": "numpy",
            "fastmath": _EXACT if exact else False,
        }
        self.code: Any = None
        self._compiling = Lock()  # otherwise each of several threads would compile
        self.steps = 0  # that it could have done

    def __call__(self, *arguments: Any) -> Any:
        if self.code is None:
            with self._compiling:
                if self.code is None:
                    if not self.is_on_disk:
                        _announce()
                        count_compiled()
                    self.code = self._compiled()
        return self.code(*arguments)

    @cached_property
    def is_on_disk(self) -> bool:
        """Return whether the machine code was on disk at the first use of this property."""
        with suppress(Exception):  # see `_compiled`
            copies = Path(str(numba.njit(cache=True)(self._function).stats.cache_path))
            return any(copies.glob(f"*.{self._function.__qualname__}-*.nbi"))
        return False

    def _compiled(self) -> Any:
        """Return the machine code. If code cannot be stored on the disk or read from it, the
        function is compiled without it.

        Numba itself would raise an error for a folder that cannot be written, a full disk, or a
        damaged file.
        """
        with suppress(Exception):
            return numba.njit(self._signatures, cache=True, **self._options)(self._function)
        with suppress(Exception):
            numba.njit(cache=True)(self._function).recompile()  # forgets what is on disk
            return numba.njit(self._signatures, cache=True, **self._options)(self._function)
        return numba.njit(self._signatures, **self._options)(self._function)


@cache
def _announce() -> None:
    """Log, once, why the first call takes long."""
    note(_LOG, logging.INFO, COMPILING)


@cache
def _sources(folder: Path) -> str:
    """Return a digest of compiler, processor, and the source files in this folder.

    Functions of these files call each other, so a change in one file changes the digest for all. A
    program that is packed into one file may have no source files.
    """
    compiler = (
        f"{numba.__version__} {sys.implementation.cache_tag} {get_host_cpu_name()}\n".encode()
    )
    files = [path for path in (Path(__file__), *sorted(folder.glob("*.py"))) if path.is_file()]
    return sha256(b"".join([compiler, *(file.read_bytes() for file in files)])).hexdigest()[:12]


@kernel(types.void())
def begin() -> None:
    """Do nothing. Compiling this function makes Numba load the rest of its own code, while other
    threads wait.
    """


begin()
