"""Arrays that NumPy saved: plain numbers in one or two dimensions, never anything pickled."""

import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastlloyd.records import open_records, read_table
from record_files import SECRET, archive, refusal


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("records")


def saved(array: object, *, pickle: bool = False) -> bytes:
    content = io.BytesIO()
    np.save(content, np.asarray(array), allow_pickle=pickle)
    return content.getvalue()


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "<i4", ">i8", "<u8", "f2", ">f4", "<f8"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_every_plain_dtype_in_both_orders_is_read_as_numpy_converts_it(
    folder: Path, dtype: str, order: str, suffix: str
) -> None:
    bits = np.random.default_rng(4).integers(0, 256, 30 * np.dtype(dtype).itemsize, dtype=np.uint8)
    X = (bits % 2).astype(dtype) if dtype == "?" else bits.view(dtype)
    if X.dtype.kind == "f":
        X = np.nan_to_num(X, posinf=1, neginf=2)
    X = np.array(X[:30].reshape(10, 3), order="F" if order == "F" else "C")
    path = folder / f"plain{suffix}"
    path.write_bytes(saved(X)) if suffix == ".npy" else np.savez(path, X)
    assert np.array_equal(read_table(path).values, X.astype(np.float64))
    assert np.array_equal(read_table(path, ["x3", "x1"]).values, X.astype(np.float64)[:, [2, 0]])
    [block] = open_records(path).blocks()
    assert block.dtype == (
        np.float64 if X.dtype.itemsize > 4 or X.dtype.kind + dtype[-1] == "i4" else np.float32
    )


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_large_integers_become_the_nearest_float64(folder: Path, integers: list[int]) -> None:
    np.save(folder / "large.npy", np.array(integers, dtype=np.int64))
    assert read_table(folder / "large.npy").values[:, 0].tolist() == [float(i) for i in integers]


def test_arrays_of_one_dimension_are_columns(folder: Path) -> None:
    np.savez(
        folder / "columns.npz",
        age=[1, 2, 3],
        bmi=np.array([4, 5, 6], dtype=np.float32),
        name=np.array([SECRET] * 3),
    )
    table = read_table(folder / "columns.npz", ["bmi", "age"])
    assert (table.columns, table.others) == (("bmi", "age"), ("name",))
    assert table.values.tolist() == [[4, 1], [5, 2], [6, 3]]
    np.save(folder / "one.npy", np.arange(3))
    assert read_table(folder / "one.npy").values.tolist() == [[0], [1], [2]]
    np.savez(folder / "one.npz", age=[1, 2])
    assert read_table(folder / "one.npz").columns == ("age",)


@pytest.mark.parametrize(
    ("array", "what"),
    [
        (np.array([[SECRET, "b"]]), "holds <U9; expected integers"),
        (np.array([[b"x"]]), "holds |S1"),
        (np.array([["2020-01-05"]], dtype="M8[D]"), "holds datetime64[D]"),
        (np.array([[1j]]), "holds complex128"),
        (np.ones((2, 2), dtype=np.longdouble), "holds float128"),
        (np.array([(1, 2.0)], dtype=[("a", int), ("b", float)]), "structured"),
        (np.array([[1, None]], dtype=object), "holds object"),
        (np.float64(3), "0 dimensions"),
        (np.ones((2, 2, 2)), "3 dimensions"),
        (np.ones((2, 0)), "there are no columns"),
    ],
    ids=str,
)
@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_what_is_no_table_of_plain_numbers_is_refused_at_the_door(
    folder: Path, array: "np.ndarray[tuple[int, ...], np.dtype[np.generic]]", what: str, suffix: str
) -> None:
    path = folder / f"odd{suffix}"
    content = saved(array, pickle=True)
    path.write_bytes(content) if suffix == ".npy" else archive(path, {"arr_0.npy": content})
    assert what in refusal(lambda: open_records(path))


def test_nothing_pickled_is_unpickled(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("unpickled")

    monkeypatch.setattr("pickle.load", refuse)
    monkeypatch.setattr("pickle.loads", refuse)
    objects = saved(np.array([[{}]], dtype=object), pickle=True)
    (folder / "pickle.npy").write_bytes(objects)
    assert "holds object" in refusal(lambda: read_table(folder / "pickle.npy"))
    assert "holds object" in refusal(
        lambda: read_table(archive(folder / "pickle.npz", {"a.npy": objects}))
    )


@pytest.mark.parametrize(
    ("members", "what"),
    [
        ({}, "there are no columns"),
        (
            {"X.npy": saved(np.ones((3, 2))), "y.npy": saved(np.ones(3))},
            "array 'X' has 2 dimensions",
        ),
        ({"a.npy": saved(np.ones(3)), "b.npy": saved(np.ones(4))}, "'a' and 'b' differ in length"),
        (
            {"a.npy": saved(np.ones(3)), "notes.txt": SECRET.encode()},
            "'notes.txt', which is not",
        ),
        ({"a.npy": SECRET.encode()}, "not a file that NumPy saved"),
    ],
    ids=["empty", "matrix and labels", "lengths", "other members", "other content"],
)
def test_an_archive_that_is_no_table_is_refused(
    folder: Path, members: dict[str, bytes], what: str
) -> None:
    assert what in refusal(lambda: read_table(archive(folder / "odd.npz", members)))


def test_the_matrix_beside_labels_is_refused_but_the_labels_can_be_read(folder: Path) -> None:
    np.savez(folder / "both.npz", X=np.ones((3, 2)), y=np.arange(3))
    assert read_table(folder / "both.npz", ["y"]).values.tolist() == [[0], [1], [2]]


@pytest.mark.parametrize("shape", ["(10**18, 3)", "(-1, 3)", "(3, 10**18)", "(2**63, 2**63)"])
def test_a_header_that_asks_for_more_than_the_file_holds_is_refused_before_memory_is_taken(
    folder: Path, shape: str
) -> None:
    n, d = eval(shape)  # noqa: S307 - our own numbers, written as powers
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({n}, {d}), }}".ljust(117) + "\n"
    content = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(48)
    (folder / "false.npy").write_bytes(content)
    assert "damaged or cut short" in refusal(lambda: open_records(folder / "false.npy"))
    assert "damaged or cut short" in refusal(
        lambda: open_records(archive(folder / "false.npz", {"a.npy": content}))
    )
