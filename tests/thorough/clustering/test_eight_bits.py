"""Bytes propose, exact numbers decide: the bounds, what they leave, and where they are used."""

from contextlib import ExitStack
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eight_bit_cases import KINDS, situation
from fastlloyd.base import compiling
from fastlloyd.base.arrays import IntArray
from fastlloyd.clustering import eight_bits, kernels
from fastlloyd.clustering.domain import finest_bits
from fastlloyd.clustering.eight_bits import EightBits, bytewise, is_exact
from fastlloyd.clustering.filter import MOST_FEATURES, Nearest

numba = pytest.importorskip("numba")
doubts = pytest.importorskip("fastlloyd.clustering.compiled.doubts")
filters = pytest.importorskip("fastlloyd.clustering.compiled.filter")
byte_kernels = pytest.importorskip("fastlloyd.clustering.compiled.eight_bits")
byte_products = pytest.importorskip("fastlloyd.clustering.compiled.byte_products")

ir = pytest.importorskip("llvmlite.ir")

true_dot = byte_products._Tile._dot
FEATURES = byte_products.codegen.get_host_cpu_features().split(",")
WIDE = [
    n
    for n in byte_products.LANES
    if (n == 8 and "+avx512vl" in FEATURES) or n <= byte_products.lanes()
]
needs_vnni = pytest.mark.skipif(not WIDE, reason="the processor has no products of bytes")


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    assert compiling.is_compiled(1 << 40)


def searching(
    C: IntArray, H2: float = np.inf, *, largest: int, lanes: int, rows: int | None = None
) -> EightBits:
    """A search with vectors of so many lanes."""
    with mock.patch.object(byte_products, "lanes", return_value=lanes):
        return EightBits(C, H2, largest=largest, block_rows=rows)


def labelled(X: IntArray, search: EightBits) -> tuple[Any, int]:
    """Labels, and how many records had too many candidates."""
    found = [(labels.copy(), n) for _, labels, n in search.labels(X.astype(np.int32), 0, len(X))]
    return np.concatenate([labels for labels, _ in found]), sum(n for _, n in found)


def by_definition(X: IntArray, C: IntArray, H2: float = np.inf) -> list[int]:
    """In integers, which 63 bits hold."""
    squared = ((X[:, None, :] - C) ** 2).sum(axis=2)
    return [int(j) for j in np.where(squared.min(axis=1) <= H2, squared.argmin(axis=1), len(C))]


@needs_vnni
@settings(max_examples=200)
@given(
    st.sampled_from(KINDS),
    st.tuples(st.integers(1, 40), st.integers(1, 140), st.sampled_from([1, 2, 4, 5, 33, 64, 65])),
    st.data(),
)
def test_labels_are_those_of_exact_integers(
    kind: str, shape: tuple[int, int, int], data: st.DataObject
) -> None:
    n, k, d = shape
    bits = data.draw(st.integers(1, finest_bits(d) - 2))
    X, C = situation(kind, n, k, d, 2**bits, data.draw(st.integers(0, 2**32)))
    squared = float(((X[0] - C) ** 2).sum(axis=1).min())
    H2 = data.draw(st.sampled_from([np.inf, 0.0, squared, squared - 1, squared * 1.3]))
    largest = data.draw(st.sampled_from([2**bits, 2 ** (bits - 1), 2**31]))
    rows, lanes = data.draw(st.sampled_from([None, 1, 7])), data.draw(st.sampled_from(WIDE))
    found, _ = labelled(X, searching(C, H2, largest=largest, lanes=lanes, rows=rows))
    assert found.tolist() == by_definition(X, C, H2)


def lossy_record() -> tuple[IntArray, IntArray, int]:
    """All that rounding loses of the record points to the first centroid, which is the nearest. Its
    bytes point to the second.
    """
    signs = np.where(np.arange(100) % 2, 1, -1)
    C = np.stack([signs, -signs]) * 127 * 50  # which bytes hold exactly
    return 49 * signs - 100 * signs * (np.arange(100) < 47), C, 127 * 100


def lossy_centroids() -> tuple[IntArray, IntArray, int]:
    """The same of centroids, for a record that bytes hold exactly."""
    c = np.array([127 * 100, *[49] * 260])
    return np.array([-1, *[1] * 260]), np.stack([c, -c]), 127


@needs_vnni
@pytest.mark.parametrize("lanes", WIDE)
@pytest.mark.parametrize(("case", "term"), [(lossy_record, 3), (lossy_centroids, 4)])
def test_a_tenth_less_than_the_margin_would_give_a_wrong_label(
    lanes: int, case: Any, term: int
) -> None:
    x, C, largest = case()
    search = searching(C, largest=largest, lanes=lanes)

    def label() -> Any:
        return next(search.labels(x[None].astype(np.int32), 0, 1))[1].item()

    assert label() == 0
    assert by_definition(x[None], C) == [0]
    search._packed[1][term] *= np.float32(0.9)
    assert label() == 1


def crowded(n: int, d: int = 65) -> tuple[IntArray, IntArray]:
    """Records with 300 candidates each, or 600 if they are zeros. The first centroid is far away
    from all of them.
    """
    generator = np.random.default_rng(0)
    near, far = generator.integers(-9999, 9999, (2, d))
    C = np.stack([2 * far, *[near] * 300, *[-near] * 300])
    return C[generator.integers(1, 601, n)] + generator.integers(-9, 9, (n, d)), C


@needs_vnni
@pytest.mark.parametrize("lanes", WIDE)
def test_records_with_many_candidates_are_decided_by_other_ways(lanes: int) -> None:
    for n in (1, 7, 8, 33, 71, 250):
        X, C = crowded(n)
        search = searching(C, largest=9999, lanes=lanes)
        for records in (X, X * 0):
            found, many = labelled(records, search)
            assert many == max(0, n - 7)
            assert found.tolist() == by_definition(records, C)


@needs_vnni
@settings(max_examples=100)
@given(
    st.sampled_from(KINDS),
    st.tuples(st.integers(8, 40), st.integers(1, 140), st.sampled_from([1, 2, 4, 5, 33, 64, 65])),
    st.data(),
)
def test_labels_that_float32_proposes_are_those_of_exact_integers(
    kind: str, shape: tuple[int, int, int], data: st.DataObject
) -> None:
    """Bytes leave all records but the first seven undecided, because no candidate is allowed."""
    n, k, d = shape
    bits = data.draw(st.integers(1, finest_bits(d) - 2))
    X, C = situation(kind, n, k, d, 2**bits, data.draw(st.integers(0, 2**32)))
    squared = float(((X[-1] - C) ** 2).sum(axis=1).min())
    H2 = data.draw(st.sampled_from([np.inf, 0.0, squared, squared - 1, squared * 1.3]))
    search = searching(C, H2, largest=2**bits, lanes=data.draw(st.sampled_from(WIDE)))
    labels, many = np.empty((2, n), dtype=np.int32)
    assert search._set(X.astype(np.int32), 0, -1, search._scratch(), labels, many) == n - 7
    assert labels.tolist() == by_definition(X, C, H2)


@needs_vnni
@pytest.mark.parametrize("kind", ["any", "near ties", "half-way", "outside"])
def test_labels_are_exact_with_as_many_features_as_the_proof_allows(kind: str) -> None:
    d = MOST_FEATURES
    X, C = situation(kind, 9, 5, d, 2 ** (finest_bits(d) - 2), 1)
    X[0], C[0] = -127, 127
    for largest in (127, 2**15):
        search = searching(C, largest=largest, lanes=WIDE[0])
        assert labelled(X, search)[0].tolist() == by_definition(X, C)


@needs_vnni
def test_a_label_does_not_depend_on_other_records() -> None:
    X, C = situation("near ties", 100, 300, 65, 2**16, 1)
    search = searching(C, largest=2**16, lanes=WIDE[0])
    assert labelled(X, search)[0].tolist() == [labelled(x[None], search)[0].item() for x in X]


@needs_vnni
@pytest.mark.parametrize("kind", KINDS)
def test_statistics_and_labels_are_the_same_without_such_a_processor(kind: str) -> None:
    n, k, d, B = 700, 257, 69, 2**16
    X, C = situation(kind, n, k, d, B, 3)
    Z, limits = X.astype(np.int32), np.full(d, B)
    squared = int(np.median([((x - C) ** 2).sum(axis=1).min() for x in X]))

    def found() -> list[Any]:
        statistics = [kernels.cluster_statistics(Z, C, H2, limits=limits) for H2 in (None, squared)]
        parts: list[Any] = [part for both in statistics for part in both]
        return [a.tolist() for a in (*parts, kernels.assign(Z, C, limits=limits))]

    with mock.patch.object(
        EightBits, "labels", autospec=True, side_effect=EightBits.labels
    ) as used:
        expected = found()
        assert used.call_count >= 3
    with mock.patch.object(eight_bits, "is_exact", return_value=False):
        assert found() == expected


def chosen(n: int, k: int, d: int, *, limits: bool = True) -> bool:
    C = np.zeros((k, d), dtype=np.int64)
    return bytewise(C, np.inf, n, np.full(d, 9) if limits else None, None) is not None


@needs_vnni
def test_it_is_chosen_by_shapes_and_the_processor() -> None:
    assert chosen(512, 256, 64)
    for n, k, d in ((511, 256, 64), (512, 255, 64), (512, 256, 63), (512, 256, 2**15 + 1)):
        assert not chosen(n, k, d)
    assert not chosen(512, 256, 64, limits=False)
    with mock.patch.object(eight_bits, "is_exact", return_value=False):
        assert not chosen(512, 256, 64)


@pytest.mark.parametrize(
    ("features", "lanes"),
    [
        ("", 0),
        ("+avx512f,+avx512bw", 0),
        ("+avx2,+fma,+avxvnni", 8),
        ("+avx2,-fma,+avxvnni", 0),
        ("+avx512f,+avx512bw,+avx512vnni,+avxvnni", 16),
        ("-avx512f,+avx512bw,+avx512vnni", 0),
        ("+avx512bw,-avx512vnni,-avxvnni", 0),
    ],
)
def test_the_widest_vectors_are_taken_that_the_compiler_may_use(features: str, lanes: int) -> None:
    with mock.patch.object(numba.config, "CPU_FEATURES", features):
        assert byte_products.lanes.__wrapped__() == lanes


@pytest.mark.parametrize("broken", [ImportError("no such instruction"), RuntimeError("LLVM")])
def test_a_compiler_that_cannot_is_done_without(broken: Exception) -> None:
    with mock.patch.object(EightBits, "__init__", side_effect=broken):
        assert not is_exact.__wrapped__()


@needs_vnni
def test_a_search_that_finds_other_labels_is_noticed() -> None:
    assert is_exact.__wrapped__()
    with mock.patch.object(EightBits, "_set", return_value=0):
        assert not is_exact.__wrapped__()


def saturating(tile: Any, builder: Any, added: Any, x: Any, c: Any) -> Any:
    """Sums that stop at the largest integer."""
    name = f"llvm.x86.avx512.vpdpbusds.{32 * tile.lanes}"
    dot = byte_products.declared(builder, name, *[tile.sums] * 4)
    return builder.call(dot, [added, x, c])


@needs_vnni
def test_products_that_saturate_are_noticed_although_labels_are_right() -> None:
    kernel = byte_kernels.label_rows[byte_products.lanes()]
    with mock.patch.object(byte_products._Tile, "_dot", saturating):
        code = numba.njit(kernel._signatures, **kernel._options)(kernel._function)
    with mock.patch.object(kernel, "code", code):
        C = np.where(np.arange(256)[:, None] > np.arange(1029) % 256, 127, -127)
        found, _ = labelled(C, EightBits(C, np.inf, largest=127))
        assert found.tolist() == [*range(256)]
        assert not is_exact.__wrapped__()


def of_extremes(tile: Any, builder: Any, added: Any, x: Any, c: Any) -> Any:
    """The records' bytes are taken for 1 or 255, whichever is on the same side of 128."""
    ones, sides = (vector_of(tile, 0x01010101 * n) for n in (1, 254))
    high = builder.and_(builder.lshr(x, vector_of(tile, 7)), ones)
    return true_dot(tile, builder, added, builder.add(builder.mul(high, sides), ones), c)


def of_short_floats(tile: Any, builder: Any, added: Any, x: Any, c: Any) -> Any:
    """Factors lose the lower 13 of their 24 bits, as in products of matrices on some processors."""
    mask, kind = vector_of(tile, -1 << 13), ir.VectorType(ir.IntType(32), tile.lanes)
    short = [
        builder.bitcast(builder.and_(builder.bitcast(factor, kind), mask), tile.sums)
        for factor in (x, c)
    ]
    return tile._fma(builder, *short, added)


def vector_of(tile: Any, number: int) -> Any:
    return ir.Constant(ir.VectorType(ir.IntType(32), tile.lanes), [number] * tile.lanes)


@needs_vnni
@pytest.mark.parametrize(
    ("kind", "wrong"),
    [("_Tile", of_extremes), ("_FloatTile", of_short_floats)],
)
def test_instructions_that_are_right_for_some_numbers_only_are_noticed(
    kind: str, wrong: Any
) -> None:
    kernel = byte_kernels.label_rows[byte_products.lanes()]
    with mock.patch.object(getattr(byte_products, kind), "_dot", wrong):
        code = numba.njit(kernel._signatures, **kernel._options)(kernel._function)
    with mock.patch.object(kernel, "code", code):
        assert not is_exact.__wrapped__()


@needs_vnni
@pytest.mark.parametrize("place", [(0, 1), (5, 3), (31, 255)])
def test_a_product_that_is_wrong_by_one_is_noticed(place: tuple[int, int]) -> None:
    set_labels = EightBits._set

    def wrong(search: EightBits, *arguments: Any) -> int:
        n = set_labels(search, *arguments)
        arguments[3][2][place] += 1
        return n

    with mock.patch.object(EightBits, "_set", wrong):
        assert not is_exact.__wrapped__()


@needs_vnni
def test_w33_one_record_more_with_many_candidates_costs_one_tile_of_products_at_most() -> None:
    """Rows of bounds that change from those by bytes show the products in float32."""
    X, C = crowded(60)
    search = searching(C, largest=19998, lanes=WIDE[0])
    scratch, (labels, many) = search._scratch(), np.empty((2, 60), dtype=np.int32)

    def rows_by_float32(n: int) -> int:
        Z = np.concatenate([X[:n], np.repeat(C[:1], 60 - n, axis=0)]).astype(np.int32)
        bounds = []
        for most in (len(C), 64):
            search._set(Z, 0, most, scratch, labels, many)
            bounds.append(scratch[2][:60].copy())
        return int((bounds[0] != bounds[1]).any(axis=1).sum())

    found = [rows_by_float32(n) for n in range(8, 61)]
    assert found == [-(-(n - 7) // byte_products.ROWS) * byte_products.ROWS for n in range(8, 61)]
    assert rows_by_float32(7) == 0


@needs_vnni
def test_w33_records_with_many_candidates_load_and_prepare_nothing() -> None:
    """Everything that decides about them is there before the first record is seen."""
    X, C = crowded(40)
    search = searching(C, largest=9999, lanes=WIDE[0])
    kernel = byte_kernels.label_rows[WIDE[0]]
    others = [*vars(filters).values(), *vars(doubts).values(), *vars(byte_kernels).values()]
    with ExitStack() as patches:
        patches.enter_context(mock.patch.object(Nearest, "__init__", side_effect=AssertionError))
        for other in others:
            if hasattr(other, "_compiled") and other is not kernel:
                patches.enter_context(mock.patch.object(other, "code", side_effect=AssertionError))
        _, many = labelled(X, search)
    assert many == 33


@pytest.mark.parametrize(
    ("lanes", "features", "register"),
    [(8, "+avx2,+fma,+avxvnni,-avx512f", "ymm"), (16, "+avx512f,+avx512bw,+avx512vnni", "zmm")],
)
def test_the_compiler_makes_the_instruction_for_either_kind_of_processor(
    lanes: int, features: str, register: str
) -> None:
    from llvmlite import binding

    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    kind = ir.FunctionType(ir.VoidType(), [ir.IntType(64)] * 9)
    function = ir.Function(ir.Module(), kind, "tile")
    builder = ir.IRBuilder(function.append_basic_block())
    byte_products._Tile(lanes).emit(builder, function.args)
    builder.ret_void()
    target = binding.Target.from_triple("x86_64-unknown-linux-gnu")
    machine = target.create_target_machine(cpu="x86-64", features=features, opt=3)
    assembly = machine.emit_assembly(binding.parse_assembly(str(function.module)))
    lines = [line for line in assembly.splitlines() if "vpdpbusd" in line]
    assert len(lines) == byte_products.ROWS * lanes // 4
    assert all(register in line and "vpdpbusds" not in line for line in lines)
