"""How code is compiled by numba, and the instructions that numba cannot write.

What is kept on disk is renewed when the file of a function changes, or this one, not when a function that it calls does:
compiled functions that call each other stand in one file, `compiled.py`. Here are only instructions.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from llvmlite import ir
from numba.core import types
from numba.core.runtime.nrt import rtsys
from numba.extending import intrinsic

# As where there is no numba: the instructions below do not run uncompiled.
if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]  # numba sets it from the environment
    raise ImportError("numba is told by NUMBA_DISABLE_JIT not to compile")

_Function = TypeVar("_Function", bound=Callable[..., Any])


# Numba loads all that it can compile with, which takes longer than its import, before it looks for a copy; whoever compiles
# loads it in any case. Copies of this code need none of it: seen with each of these versions, since a symbol that a copy lacks
# would end the process.
_READS_ALONE = frozenset((0, minor) for minor in range(61, 69))


class _Copies:
    """Numba's copies of machine code on disk, where what cannot be read or written costs a compilation and not the result.

    Numba passes on whatever a full disk, a damaged file, or a file of an earlier version of this package makes it raise.
    """

    def __init__(self, copies: Any) -> None:
        self._copies = copies
        index = copies._cache_file  # noqa: SLF001 - numba has no option for it
        index._source_stamp = index._source_stamp, _stamp()  # noqa: SLF001 - see above

    def load_overload(self, signature: Any, context: Any) -> Any:
        try:
            if numba.version_info.short not in _READS_ALONE:
                return self._copies.load_overload(signature, context)
            rtsys.initialize(context)  # what allocates arrays, which copies are linked to
            return self._copies._load_overload(signature, context)  # noqa: SLF001 - numba has no option for it
        except Exception:  # noqa: BLE001 - numba unpickles the file, which can raise anything
            with suppress(Exception):
                self._copies.flush()
            return None

    def save_overload(self, *what: Any) -> None:
        with suppress(Exception):
            self._copies.save_overload(*what)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._copies, name)


@cache
def _stamp() -> bytes:
    """Of the instructions. A program packed into one file may have none of this file: numba takes the program's own."""
    try:
        return sha256(Path(__file__).read_bytes()).digest()
    except OSError:
        return b""


def machine_code(function: _Function, **options: Any) -> _Function:
    """Compile at the first call, to run without the interpreter's lock; keep the machine code on disk if there is a place."""
    try:
        compiled: Any = numba.njit(cache=True, nogil=True, error_model="numpy", **options)(function)
        if hasattr(compiled, "_cache"):
            compiled._cache = _Copies(compiled._cache)  # noqa: SLF001 - numba has no option for it
    except RuntimeError:  # neither the package's folder nor the user's cache folder can be written
        compiled = numba.njit(nogil=True, error_model="numpy", **options)(function)
    return cast("_Function", compiled)


def instructions(written: Callable[..., Any]) -> Callable[..., Any]:
    """For what compiled code can call and numba cannot write: the function says its types and writes its instructions."""
    return cast("Callable[..., Any]", intrinsic(written))


@instructions
def add_four_records(_: Any, totals: Any, _p: Any, _q: Any, _s: Any, _t: Any, a: Any, b: Any, c: Any, d: Any, _r: Any) -> Any:
    """Add four features of the records r to r + 3 to totals[place : place + 4], each record at its own place of p, q, s, t.

    Four vectors are loaded, turned into the vectors of the records, and added one by
    one, none of which the compiler makes of plain additions.
    """
    four, lane = ir.VectorType(ir.DoubleType(), 4), ir.IntType(32)

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        def vector(array: int, place: Any) -> Any:
            memory = context.make_array(signature.args[array])(context, builder, values[array]).data
            return builder.bitcast(builder.gep(memory, [place]), four.as_pointer())

        def shuffled(a: Any, b: Any, *lanes: int) -> Any:
            return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(lane, 4), list(lanes)))

        w, x, y, z = (builder.load(vector(feature, values[9]), align=8) for feature in range(5, 9))
        even, odd = shuffled(w, x, 0, 4, 2, 6), shuffled(w, x, 1, 5, 3, 7)
        even_, odd_ = shuffled(y, z, 0, 4, 2, 6), shuffled(y, z, 1, 5, 3, 7)
        records = [shuffled(x, y, *lanes) for lanes in ((0, 1, 4, 5), (2, 3, 6, 7)) for x, y in ((even, even_), (odd, odd_))]
        for place, record in zip(values[1:5], records, strict=True):
            target = vector(0, place)
            builder.store(builder.fadd(builder.load(target, align=8), record), target, align=8)
        return context.get_dummy_value()

    return types.none(totals, *[types.intp] * 4, a, b, c, d, types.intp), generate


@instructions
def add_two_of_four_records(_: Any, totals: Any, _p: Any, _q: Any, _s: Any, _t: Any, a: Any, b: Any, _r: Any) -> Any:
    """The same with two features, added to totals[place : place + 2]."""
    four, two, lane = ir.VectorType(ir.DoubleType(), 4), ir.VectorType(ir.DoubleType(), 2), ir.IntType(32)

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        def vector(array: int, place: Any, kind: Any) -> Any:
            memory = context.make_array(signature.args[array])(context, builder, values[array]).data
            return builder.bitcast(builder.gep(memory, [place]), kind.as_pointer())

        x, y = (builder.load(vector(feature, values[7], four), align=8) for feature in (5, 6))
        for record, place in enumerate(values[1:5]):
            both = builder.shuffle_vector(x, y, ir.Constant(ir.VectorType(lane, 2), [record, 4 + record]))
            target = vector(0, place, two)
            builder.store(builder.fadd(builder.load(target, align=8), both), target, align=8)
        return context.get_dummy_value()

    return types.none(totals, *[types.intp] * 4, a, b, types.intp), generate


@instructions
def take(_: Any, counters: Any, _which: Any, _n: Any) -> Any:
    """Add n to counters[which] and return what was there, as one step of all threads."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        memory = context.make_array(signature.args[0])(context, builder, values[0]).data
        return builder.atomic_rmw("add", builder.gep(memory, [values[1]]), values[2], "acq_rel")

    return types.int64(counters, types.intp, types.int64), generate


@instructions
def read(_: Any, state: Any) -> Any:
    """The state as other threads left it: a plain read in a loop would be made once."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        memory = context.make_array(signature.args[0])(context, builder, values[0]).data
        return builder.load_atomic(memory, "acquire", 8)

    return types.int64(state), generate


@instructions
def exchange(_: Any, state: Any, _new: Any) -> Any:
    """Set the state and return what it was, as one step."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        memory = context.make_array(signature.args[0])(context, builder, values[0]).data
        return builder.atomic_rmw("xchg", memory, values[1], "acq_rel")

    return types.int64(state, types.int64), generate


@instructions
def exchange_if(_: Any, state: Any, _expected: Any, _new: Any) -> Any:
    """Set the state if it is as expected, as one step; whether it was."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        memory = context.make_array(signature.args[0])(context, builder, values[0]).data
        return builder.extract_value(builder.cmpxchg(memory, values[1], values[2], "acq_rel", "acquire"), 1)

    return types.boolean(state, types.int64, types.int64), generate


@instructions
def int32_at(_: Any, _address: Any) -> Any:
    """The address of int32 numbers as a pointer."""
    return _pointer(types.int32)


@instructions
def int64_at(_: Any, _address: Any) -> Any:
    """The address of int64 numbers as a pointer."""
    return _pointer(types.int64)


@instructions
def float32_at(_: Any, _address: Any) -> Any:
    """The address of float32 numbers as a pointer."""
    return _pointer(types.float32)


@instructions
def float64_at(_: Any, _address: Any) -> Any:
    """The address of float64 numbers as a pointer."""
    return _pointer(types.float64)


def _pointer(kind: Any) -> Any:
    pointer: Any = types.CPointer(kind)  # type: ignore[no-untyped-call]  # numba has no types

    def generate(context: Any, builder: Any, _: Any, values: Any) -> Any:
        return builder.inttoptr(values[0], context.get_value_type(pointer))

    return pointer(types.int64), generate
