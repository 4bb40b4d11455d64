"""Compilation of kernels by numba, and their machine code on disk.

A kernel is called from Python and runs without the interpreter's lock; what it calls in turn are
`helper` functions. Types are stated, so that each is compiled once, at its first call.
"""

import logging
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path
from types import FunctionType
from typing import Any, Literal, TypeVar, cast

import numba
import numpy as np
from llvmlite.binding import get_host_cpu_name
from numba import types
from numpy.typing import NDArray

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
    """The type of an array that is only read: it need not be writeable. Layout "A": with any
    strides.
    """
    return types.Array(number, n_dimensions, layout, readonly=True)


# types of numbers, of arrays that are written to or our own, and of arrays that may be read-only
INTEGER, REAL = types.int64, types.float64
REALS, TABLE, LABELS = types.float64[::1], types.float64[:, ::1], types.int32[::1]
CENTROIDS, RECORDS = read(types.int64, 2), read(types.int32, 2)


def kernel(*signatures: Any, exact: bool = True) -> Callable[[_Function], _Function]:
    """Compile for these types. exact : of integers, whose sums and products the compiler may
    arrange as it likes.
    """

    def compiled_later(function: _Function) -> _Function:
        return cast("_Function", _Kernel(function, signatures, exact))

    return compiled_later


def kernel_by_width(
    widths: Iterable[int], signature: Callable[[Any], Any]
) -> Callable[[_Function], dict[int, _Function]]:
    """Compile for each width that is used: signature(t), t being the type of a tuple of that
    length, whose `len` is then known.

    Where such a tuple is an argument and a branch asks for its length, what the branch never does
    is not compiled.
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
    """Make a function for kernels to call, whose sums and products of exact integers the compiler
    may arrange as it likes.
    """
    return cast("_Function", numba.njit(nogil=True, error_model="numpy", fastmath=_EXACT)(function))


def rounded_helper(function: _Function) -> _Function:
    """Make a function for kernels to call, each of whose operations is rounded as it is written."""
    return cast("_Function", numba.njit(nogil=True, error_model="numpy")(function))


def inlined(function: _Function) -> _Function:
    """Make a function that is compiled as a part of each one that calls it: numbers that are stated
    there are known here.
    """
    return cast("_Function", numba.njit(inline="always")(function))


def pays(steps: int, *kernels: Callable[..., Any]) -> bool:
    """Return whether these kernels should do `steps` steps that other code could do, too.

    They should where they are on disk, or where compiling them would have paid by now.
    """
    mine = [cast("_Kernel", kernel) for kernel in kernels]
    for kernel in mine:
        kernel.steps += steps
    return all(
        kernel.code is not None or kernel.steps >= WORTH_COMPILING or kernel.is_on_disk
        for kernel in mine
    )


class _Kernel:
    """A function that is compiled, or read from disk, when it is first called."""

    def __init__(
        self, function: Callable[..., Any], signatures: tuple[Any, ...], exact: bool
    ) -> None:
        # names the files of its machine code, of which numba by itself asks only whether the
        # function's own file has changed
        function.__qualname__ += f"_{_sources()}"
        self._function, self._signatures = function, list(signatures)
        self._options: dict[str, Any] = {
            "nogil": True,
            "error_model": "numpy",
            "fastmath": _EXACT if exact else False,
        }
        self.code: Any = None
        self.steps = 0  # that it could have done

    def __call__(self, *arguments: Any) -> Any:
        if self.code is None:
            if not self.is_on_disk:
                _announce()
            self.code = self._compiled()
        return self.code(*arguments)

    @cached_property
    def is_on_disk(self) -> bool:
        """Return whether the machine code was on disk when this was first asked."""
        with suppress(Exception):  # see `_compiled`
            copies = Path(str(numba.njit(cache=True)(self._function).stats.cache_path))
            return any(copies.glob(f"*.{self._function.__qualname__}-*.nbi"))
        return False

    def _compiled(self) -> Any:
        """Return machine code; what cannot be read from disk or kept there costs a compilation and
        not the result.

        Numba passes on whatever it meets: no folder that can be written, a full disk, a damaged
        file.
        """
        with suppress(Exception):
            return numba.njit(self._signatures, cache=True, **self._options)(self._function)
        with suppress(Exception):
            numba.njit(cache=True)(self._function).recompile()  # forgets what is on disk
            return numba.njit(self._signatures, cache=True, **self._options)(self._function)
        return numba.njit(self._signatures, **self._options)(self._function)


@cache
def _announce() -> None:
    """Say, once, why it takes so long."""
    note(_LOG, logging.INFO, COMPILING)


@cache
def _sources() -> str:
    """A digest of the files in this folder, whose functions call each other, and of what compiles
    them for which processor.

    A program packed into one file may have no files.
    """
    compiler = (
        f"{numba.__version__} {sys.implementation.cache_tag} {get_host_cpu_name()}\n".encode()
    )
    files = sorted(Path(__file__).parent.glob("*.py"))
    return sha256(b"".join([compiler, *(file.read_bytes() for file in files)])).hexdigest()[:12]


@kernel(types.void())
def begin() -> None:
    """Do nothing: numba loads the rest of itself at the first compilation, which is here, while
    other threads wait.
    """


begin()
