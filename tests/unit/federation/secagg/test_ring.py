"""The rings wrap by type, centre back, and take nothing that was rounded or cut on the way."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastlloyd.errors import LocalProtocolError, PlanError, RemoteProtocolError
from fastlloyd.federation.secagg.ring import Ring

INT64 = st.integers(-(2**63), 2**63 - 1)
RINGS = pytest.mark.parametrize("ring", list(Ring))


def array(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, dtype=np.int64)


@RINGS
@given(a=INT64, b=INT64)
def test_ring_arithmetic_is_integer_arithmetic_modulo_two_to_the_width(
    ring: Ring, a: int, b: int
) -> None:
    left, right = ring.wrap(array(a)), ring.wrap(array(b))
    assert int(left[0]) == a % 2**ring.bits
    assert int(ring.add(left, right)[0]) == (a + b) % 2**ring.bits
    assert int(ring.subtract(left, right)[0]) == (a - b) % 2**ring.bits
    half = 2 ** (ring.bits - 1)
    assert int(ring.centre(left)[0]) == (a + half) % 2**ring.bits - half


@RINGS
def test_centre_undoes_wrap_exactly_on_the_half_open_interval_around_zero(ring: Ring) -> None:
    half = 2 ** (ring.bits - 1)
    inside = array(-half, -half + 1, -1, 0, 1, half - 1)
    assert ring.centre(ring.wrap(inside)).tolist() == inside.tolist()
    assert ring.centre(ring.wrap(inside)).dtype == np.int64
    if ring is Ring.Z32:
        assert ring.centre(ring.wrap(array(half, -half - 1))).tolist() == [-half, half - 1]


@RINGS
def test_wrapping_warns_for_no_shape(ring: Ring) -> None:
    # Scalars of NumPy warn where arrays wrap; warnings are errors here.
    for shape in ((), (1,), (2, 3)):
        ones = ring.wrap(np.full(shape, -1, dtype=np.int64))
        assert ring.centre(ring.add(ones, ones)).tolist() == np.full(shape, -2).tolist()
        assert ring.centre(ring.subtract(ring.add(ones, ones), ones)).shape == shape


@RINGS
def test_bytes_are_little_endian_and_of_exact_length(ring: Ring) -> None:
    elements = ring.wrap(array(1, -2, 258))
    data = ring.to_bytes(elements)
    assert data == b"".join(
        (value % 2**ring.bits).to_bytes(ring.itemsize, "little") for value in (1, -2, 258)
    )
    assert np.array_equal(ring.from_bytes(data, 3), elements)
    assert ring.from_bytes(b"", 0).shape == (0,)
    for wrong in (data[:-1], data + b"\0", b""):
        with pytest.raises(RemoteProtocolError, match=f"3 {ring.bits}-bit elements"):
            ring.from_bytes(wrong, 3)
    with pytest.raises(RemoteProtocolError):
        ring.from_bytes(data, -3)


@RINGS
def test_non_contiguous_values_wrap_as_their_copies_do(ring: Ring) -> None:
    grid = np.arange(-12, 12, dtype=np.int64).reshape(4, 6)
    for view in (grid.T, grid[::2, ::-1]):
        assert np.array_equal(ring.wrap(view), ring.wrap(view.copy()))
        assert ring.to_bytes(ring.wrap(view)) == ring.to_bytes(ring.wrap(view.copy()))
        assert np.array_equal(ring.centre(ring.wrap(view)), view)


def test_ring_of_takes_32_and_64_only() -> None:
    assert [Ring.of(32), Ring.of(64)] == [Ring.Z32, Ring.Z64]
    assert [(ring.bits, ring.itemsize, ring.dtype.str) for ring in Ring] == [
        (32, 4, "<u4"),
        (64, 8, "<u8"),
    ]
    for bits in (0, 16, 31, 33, 128, -32):
        with pytest.raises(PlanError, match=f"ring_bits = {bits} "):
            Ring.of(bits)


@pytest.mark.parametrize(
    "dtype", [np.float64, np.float32, np.int32, np.uint32, np.uint64, ">i8", np.bool_]
)
def test_w25_only_int64_enters_a_ring(dtype: str) -> None:
    # The published code cast scaled sums to int32: a true 45,335 was stored as -32,768 with no
    # error.
    with pytest.raises(LocalProtocolError, match="only int64"):
        Ring.Z32.wrap(np.zeros(3, dtype=dtype))


@RINGS
def test_arrays_of_another_ring_type_or_shape_are_refused(ring: Ring) -> None:
    other = Ring.Z64 if ring is Ring.Z32 else Ring.Z32
    own, foreign = ring.wrap(array(1, 2)), other.wrap(array(1, 2))
    for left, right in ((own, foreign), (foreign, own)):
        for operation in (ring.add, ring.subtract):
            with pytest.raises(LocalProtocolError, match="not of the"):
                operation(left, right)
    with pytest.raises(LocalProtocolError, match="do not match"):
        ring.add(own, own[:1])
    with pytest.raises(LocalProtocolError):
        ring.centre(foreign)
    with pytest.raises(LocalProtocolError):
        ring.to_bytes(foreign)
