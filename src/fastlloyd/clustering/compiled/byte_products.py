"""Products of bytes, by the instruction `vpdpbusd` of processors with AVX-512 VNNI or AVX-VNNI.

In each lane of a vector, the instruction multiplies four unsigned bytes by four signed bytes and
adds the products to an integer of 32 bits. Sums are exact, because they fit 32 bits
(docs/proofs/eight-bits.md). For records that bytes cannot decide, the same loop multiplies float32.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numba
from llvmlite import ir
from numba import extending, types
from numba.core import codegen

# numbers of lanes of a vector. A quarter as many vectors of centroids by ROWS records are a tile,
# whose products stay in registers: AVX-512 has 32 of them, and AVX has 16
LANES = (16, 8)
ROWS = 6
PANEL = 64  # centroids whose bounds are compared at once, a multiple of those of a tile
_I32, _I64, _F32 = ir.IntType(32), ir.IntType(64), ir.FloatType()


def intrinsic(function: Callable[..., Any]) -> Any:
    """Return a function that kernels can call. `function` returns the types of its parameters, and
    the code that the compiler inserts for a call.

    Callers do not pass the first parameter.
    """
    return extending.intrinsic(function)


@cache
def lanes() -> int:
    """Return the number of lanes of the widest vectors that the compiler may use, or 0 if the
    processor has no instruction for products of bytes.
    """
    stated = numba.config.CPU_FEATURES  # type: ignore[attr-defined]  # numba sets it
    host: Any = codegen.get_host_cpu_features
    features = (host() if stated is None else stated).split(",")
    if {"+avx512f", "+avx512bw", "+avx512vnni"} <= set(features):
        return 16
    return 8 if "+avxvnni" in features and "+fma" in features else 0


@intrinsic
def add_products(
    _typing: Any,
    records: Any,
    first: Any,
    margins: Any,
    centroids: Any,
    vector_bytes: Any,
    terms: Any,
    term_bytes: Any,
    bounds: Any,
    best: Any,
    width: Any,
) -> Any:
    """Set the lower bounds of the scores of a tile. Where an upper bound of a score is below
    `best`, replace `best` by it. A tile has ROWS records and lanes / 4 vectors of centroids. A
    vector has one centroid in each lane.

    The score of a record and a centroid is estimated by `factor` times their product, plus
    `constant`. The estimate is wrong by at most `loss` times `p`, plus `length` times `q`.

    All parameters but `records` and `width` are int64: a row, addresses, and distances between
    addresses in bytes.

    records : features of each record, array of unsigned bytes or float32. Its dtype decides what is
        multiplied.
    first : row of the first record.
    margins : `loss` and `length` (Euclidean norm) of each record, float32.
    centroids : signed bytes of each vector: the first four features of all its centroids, then the
        next four features, and so on. Or float32: the first feature of all its centroids, then the
        next feature, and so on.
    vector_bytes : distance from one vector of centroids to the next.
    terms : for each centroid, the number to which its products are added, int32 (or float32 if
        records are), then factor, constant, p and q, float32. These are five rows, `term_bytes`
        apart.
    bounds : output, float32. The distance from one record to the next is `term_bytes`.
    best : least upper bounds of each record so far, float32, one vector for each.
    width : tuple whose length is the number of lanes.
    """
    arguments = (
        records, first, margins, centroids, vector_bytes, terms, term_bytes, bounds, best,
    )  # fmt: skip
    tile = (_FloatTile if records.dtype == types.float32 else _Tile)(width.count)

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        stride = builder.extract_value(array.strides, 0)
        address = builder.ptrtoint(array.data, _I64)
        address = builder.add(address, builder.mul(arguments[1], stride))
        tile.emit(builder, [address, stride, *arguments[2:-1]])
        return ir.Constant(ir.IntType(8).as_pointer(), None)

    return types.void(*arguments, width), emit


class _Tile:
    """Generator of the machine code for one call of `add_products`.

    lanes : number of 32-bit numbers in a vector.
    """

    number: Any = _I32  # type of sums, and of what is loaded of a record at once

    def __init__(self, lanes: int) -> None:
        self.lanes, self.bytes, self.vectors = lanes, 4 * lanes, range(lanes // 4)
        self.sums, self.floats = ir.VectorType(self.number, lanes), ir.VectorType(_F32, lanes)

    def emit(self, builder: Any, arguments: Any) -> None:
        """Emit the loop over features, and then the code that computes bounds from the products.

        arguments : those of `add_products`, but for the records first their address, and the
            distance from one to the next in bytes.
        """
        a, lda, margins, b, ldb, terms, ldt, out, best = arguments
        first = [load(builder, self.sums, terms, _I64(self.bytes * v)) for v in self.vectors]
        added = self._products(builder, a, lda, b, ldb, first)
        least = [load(builder, self.floats, best, _I64(self.bytes * r)) for r in range(ROWS)]
        for v in self.vectors:
            factor, constant, p, q = (
                load(
                    builder, self.floats, terms,
                    builder.add(builder.mul(ldt, _I64(i)), _I64(self.bytes * v)),
                )
                for i in range(1, 5)
            )  # fmt: skip
            for r in range(ROWS):
                loss, length = (
                    self._spread(builder, load(builder, _F32, margins, _I64(8 * r + i)))
                    for i in (0, 4)
                )
                score = self._fma(builder, self._as_floats(builder, added[r][v]), factor, constant)
                margin = self._fma(builder, loss, p, builder.fmul(length, q))
                upper, lower = builder.fadd(score, margin), builder.fsub(score, margin)
                is_less = builder.fcmp_ordered("<", upper, least[r])
                least[r] = builder.select(is_less, upper, least[r])
                at = builder.add(builder.mul(ldt, _I64(r)), _I64(self.bytes * v))
                store(builder, lower, out, at)
        for r in range(ROWS):
            store(builder, least[r], best, _I64(self.bytes * r))

    def _products(self, builder: Any, a: Any, lda: Any, b: Any, ldb: Any, first: Any) -> Any:
        """Emit the loop over groups of four bytes. Return the sums of products of each record and
        vector. The sums begin at `first`.
        """
        entry, loop, done = (
            builder.block,
            builder.append_basic_block("products"),
            builder.append_basic_block("products.done"),
        )
        builder.branch(loop)
        builder.position_at_end(loop)
        at = builder.phi(_I64)  # in bytes of a vector of centroids
        sums = [[builder.phi(self.sums) for _ in self.vectors] for _ in range(ROWS)]
        c = [
            load(builder, self.sums, b, builder.add(at, builder.mul(ldb, _I64(v))))
            for v in self.vectors
        ]
        group = builder.udiv(at, _I64(self.lanes))
        added = []
        for r in range(ROWS):
            x = load(builder, self.number, a, builder.add(group, builder.mul(lda, _I64(r))))
            x = self._spread(builder, x)
            added.append([self._dot(builder, sums[r][v], x, c[v]) for v in self.vectors])
        after = builder.add(at, _I64(self.bytes))
        at.add_incoming(_I64(0), entry)
        at.add_incoming(after, loop)
        for r in range(ROWS):
            for v in self.vectors:
                sums[r][v].add_incoming(first[v], entry)
                sums[r][v].add_incoming(added[r][v], loop)
        builder.cbranch(builder.icmp_signed("<", after, ldb), loop, done)
        builder.position_at_end(done)
        return added

    def _dot(self, builder: Any, added: Any, x: Any, c: Any) -> Any:
        """Add the products of four bytes in each lane to the integer of the lane."""
        name = f"llvm.x86.avx512.vpdpbusd.{32 * self.lanes}"
        return builder.call(declared(builder, name, *[self.sums] * 4), [added, x, c])

    def _as_floats(self, builder: Any, sums: Any) -> Any:
        return builder.sitofp(sums, self.floats)

    def _fma(self, builder: Any, x: Any, y: Any, z: Any) -> Any:
        name = f"llvm.fma.v{self.lanes}f32"
        return builder.call(declared(builder, name, *[self.floats] * 4), [x, y, z])

    def _spread(self, builder: Any, number: Any) -> Any:
        return spread(builder, number, self.lanes)


class _FloatTile(_Tile):
    """Generator of the machine code where records and centroids are float32."""

    number = _F32

    def _dot(self, builder: Any, added: Any, x: Any, c: Any) -> Any:
        return self._fma(builder, x, c, added)

    def _as_floats(self, _builder: Any, sums: Any) -> Any:
        return sums


@intrinsic
def at_most(_typing: Any, bounds: Any, limit: Any) -> Any:
    """Return a bit for each of the PANEL bounds at an address: 1 if the bound is at most `limit`.

    bounds : address of float32.
    """

    def emit(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        address, limit = arguments
        found = load(builder, ir.VectorType(_F32, PANEL), address, _I64(0))
        limits = spread(builder, limit, PANEL)
        return builder.bitcast(builder.fcmp_ordered("<=", found, limits), _I64)

    return types.uint64(bounds, limit), emit


@intrinsic
def lowest_bit(_typing: Any, bits: Any) -> Any:
    """Return the position of the lowest bit that is set in a number other than 0."""

    def emit(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(bits), emit


def declared(builder: Any, name: str, result: Any, *parameters: Any) -> Any:
    """Return the LLVM function with this name, after declaring it if the module lacks it."""
    found = builder.module.globals.get(name)
    return found or ir.Function(builder.module, ir.FunctionType(result, parameters), name)


def load(builder: Any, kind: Any, base: Any, offset: Any) -> Any:
    """Emit a load from an address."""
    found = builder.load(builder.inttoptr(builder.add(base, offset), kind.as_pointer()))
    found.align = 4
    return found


def store(builder: Any, value: Any, base: Any, offset: Any) -> None:
    """Emit a store to an address."""
    address = builder.inttoptr(builder.add(base, offset), value.type.as_pointer())
    builder.store(value, address).align = 4


def spread(builder: Any, number: Any, lanes: int) -> Any:
    """Emit a vector with the same number in all lanes."""
    vector = ir.VectorType(number.type, lanes)
    one = builder.insert_element(ir.Constant(vector, ir.Undefined), number, _I32(0))
    same = ir.Constant(ir.VectorType(_I32, lanes), [0] * lanes)
    return builder.shuffle_vector(one, ir.Constant(vector, ir.Undefined), same)
