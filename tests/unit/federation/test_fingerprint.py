"""Fingerprints: the same for the same records however they come, another for a bit, a copy or a
name more.
"""

import hmac

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fastlloyd.base.arrays import FloatArray, RealArray
from fastlloyd.base.randomness import keystream, length_prefixed
from fastlloyd.federation.fingerprint import (
    Fingerprint,
    PersonsHash,
    RecordsHash,
)
from fastlloyd.records.ids import TextIds
from fastlloyd.records.table import ColumnBlock

KEY = b"k" * 32
CELLS = st.floats(allow_nan=False, allow_infinity=False)


def in_one_block(key: bytes, columns: list[str], values: FloatArray) -> bytes:
    known = RecordsHash(key, columns)
    known.add(values)
    return known.digest()


@st.composite
def tables(draw: st.DrawFn) -> FloatArray:
    shape = draw(st.integers(1, 12)), draw(st.integers(1, 4))
    return draw(arrays(np.float64, shape, elements=CELLS))


def names(values: RealArray) -> list[str]:
    return [f"x{i}" for i in range(values.shape[1])]


@given(values=tables(), data=st.data())
def test_neither_the_order_of_records_nor_that_of_columns_matters(
    values: FloatArray, data: st.DataObject
) -> None:
    rows = data.draw(st.permutations(range(len(values))))
    order = data.draw(st.permutations(range(values.shape[1])))
    columns = names(values)
    moved = np.asfortranarray(values[rows][:, order])
    assert in_one_block(KEY, [columns[i] for i in order], moved) == in_one_block(
        KEY, columns, values
    )
    assert in_one_block(b"l" * 32, columns, values) != in_one_block(KEY, columns, values)


@given(values=tables(), cuts=st.lists(st.integers(0, 12), max_size=4), by_columns=st.booleans())
def test_the_split_into_blocks_does_not_matter(
    values: FloatArray, cuts: list[int], by_columns: bool
) -> None:
    known = RecordsHash(KEY, names(values))
    for part in np.split(values, sorted(min(cut, len(values)) for cut in cuts)):
        known.add(ColumnBlock(list(np.ascontiguousarray(part.T))) if by_columns else part)
    assert known.digest() == in_one_block(KEY, names(values), values)


def test_neither_the_spans_of_the_work_nor_single_precision_matter() -> None:
    values = np.random.default_rng(0).normal(size=(20_000, 3)).astype(np.float32)
    known = RecordsHash(KEY, names(values))
    for part in np.array_split(values, 7):
        known.add(part)
    assert known.digest() == in_one_block(KEY, names(values), values.astype(np.float64))


@given(values=tables(), data=st.data())
def test_a_bit_of_a_cell_a_copy_of_a_record_or_a_name_makes_another(
    values: FloatArray, data: st.DataObject
) -> None:
    columns = names(values)
    known = in_one_block(KEY, columns, values)
    record, column = (
        data.draw(st.integers(0, len(values) - 1)),
        data.draw(st.integers(0, len(columns) - 1)),
    )
    changed = values.copy()
    changed.view(np.uint64)[record, column] ^= np.uint64(1) << np.uint64(
        data.draw(st.integers(0, 63))
    )
    assume(np.isfinite(changed).all())
    if (
        changed[record, column] != values[record, column]
    ):  # they differ in more than the sign of a zero
        assert in_one_block(KEY, columns, changed) != known
    assert in_one_block(KEY, columns, np.vstack([values, values[record : record + 1]])) != known
    assert in_one_block(KEY, columns, np.delete(values, record, axis=0)) != known
    renamed = [*columns[:column], "y", *columns[column + 1 :]]
    assert in_one_block(KEY, renamed, values) != known


@given(values=tables(), data=st.data())
def test_records_that_swap_a_cell_are_others(values: FloatArray, data: st.DataObject) -> None:
    assume(values.shape[1] > 1)
    one, other = (data.draw(st.integers(0, len(values) - 1)) for _ in range(2))
    swapped = values.copy()
    swapped[[one, other], 0] = swapped[[other, one], 0]
    is_same = (values[one] == values[other])[0] or (values[one] == values[other])[1:].all()
    assert (
        in_one_block(KEY, names(values), swapped) == in_one_block(KEY, names(values), values)
    ) == is_same


def test_cells_cannot_move_between_columns_or_rows_unseen() -> None:
    one = in_one_block(KEY, ["a", "b"], np.array([[1.0, 2.0], [3.0, 4.0]]))
    assert one != in_one_block(KEY, ["a", "b"], np.array([[1.0, 4.0], [3.0, 2.0]]))
    assert one != in_one_block(KEY, ["b", "a"], np.array([[1.0, 2.0], [3.0, 4.0]]))
    assert one != in_one_block(KEY, ["a"], np.array([[1.0], [2.0], [3.0], [4.0]]))
    assert one != in_one_block(KEY, ["a", "b"], -np.array([[1.0, 2.0], [3.0, 4.0]]))


def test_the_two_zeros_are_one_and_the_values_are_left_alone() -> None:
    values = np.array([[0.0, 1.0], [-0.0, 2.0]])
    values.flags.writeable = False
    assert in_one_block(KEY, ["a", "b"], values) == in_one_block(KEY, ["a", "b"], np.abs(values))
    assert np.signbit(values[1, 0])


def test_the_fingerprint_is_the_one_that_stores_hold() -> None:
    """A formula of its own, record by record, in integers without bounds."""
    values, columns = np.array([[1.5, -2.0, 3e300], [0.0, 1e-310, 7.0]]), ["c", "a", "b"]
    label, d = b"fastlloyd/v2/fingerprint", 3
    drawn = np.frombuffer(keystream(KEY, label, 8 * 4 * (2 * d + 2)), dtype="<u8").reshape(4, -1)
    sums = []
    for words in drawn.tolist():
        lows, highs = ([word % 2**32 for word in part] for part in (words[:d], words[d : 2 * d]))
        total = 0
        for record in values[:, [1, 2, 0]]:
            bits = [int.from_bytes(np.float64(cell).tobytes(), "little") for cell in record]
            lane = (
                sum(
                    (bit % 2**32 + a) * (bit // 2**32 + b)
                    for bit, a, b in zip(bits, lows, highs, strict=True)
                )
                % 2**64
            )
            for odd in words[2 * d :]:
                lane = (lane ^ lane >> 32) * (odd | 1) % 2**64
            total += lane ^ lane >> 32
        sums.append(total % 2**64)
    text = label + d.to_bytes(8, "big") + (2).to_bytes(8, "big") + length_prefixed(b"a", b"b", b"c")
    mac = hmac.digest(KEY, text + b"".join(total.to_bytes(8, "little") for total in sums), "sha256")
    assert in_one_block(KEY, columns, values) == mac


# Of persons


def of_persons(key: bytes, columns: list[str], values: FloatArray, ids: list[bytes]) -> bytes:
    known = PersonsHash(key, columns)
    known.add(ColumnBlock(list(np.ascontiguousarray(values.T)), TextIds.of(ids)))
    return known.digest()


@given(values=tables(), data=st.data())
def test_the_order_of_rows_and_columns_does_not_matter_where_persons_are_told_apart(
    values: FloatArray, data: st.DataObject
) -> None:
    ids = [b"%d" % data.draw(st.integers(0, 2)) for _ in values]
    rows = data.draw(st.permutations(range(len(values))))
    order = data.draw(st.permutations(range(values.shape[1])))
    columns = names(values)
    known = of_persons(KEY, columns, values, ids)
    assert (
        of_persons(KEY, [columns[i] for i in order], values[rows][:, order], [ids[i] for i in rows])
        == known
    )
    assert of_persons(b"l" * 32, columns, values, ids) != known
    assert in_one_block(KEY, columns, values) != known


@given(values=tables(), data=st.data())
def test_another_id_of_a_row_makes_another_fingerprint_of_persons_alone(
    values: FloatArray, data: st.DataObject
) -> None:
    ids = [b"%d" % data.draw(st.integers(0, 2)) for _ in values]
    changed, row = list(ids), data.draw(st.integers(0, len(values) - 1))
    changed[row] = data.draw(st.sampled_from([ids[row] + b"0", b"0" + ids[row], b"x"]))
    assert of_persons(KEY, names(values), values, changed) != of_persons(
        KEY, names(values), values, ids
    )


def test_two_persons_who_swap_rows_make_another_fingerprint() -> None:
    values = np.array([[1.0], [2.0], [3.0]])
    assert of_persons(KEY, ["x"], values, [b"a", b"b", b"b"]) != of_persons(
        KEY, ["x"], values, [b"b", b"a", b"b"]
    )


def test_a_run_goes_on_with_the_same_persons_only_and_data_sets_are_told_apart_without_them() -> (
    None
):
    begun, others = Fingerprint(bytes(32), b"a" * 32), Fingerprint(bytes(32), b"b" * 32)
    assert Fingerprint(bytes(32), b"a" * 32).goes_on_with(begun)
    assert not others.goes_on_with(begun)
    assert not Fingerprint(bytes(32)).goes_on_with(begun)
    assert others.has_records_of(begun)
    assert Fingerprint(bytes(32)).goes_on_with(Fingerprint(bytes(32)))
    assert not Fingerprint(bytes(31) + b"1").goes_on_with(Fingerprint(bytes(32)))
