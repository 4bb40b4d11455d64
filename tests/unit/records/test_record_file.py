"""A file that is read in passes: all of them see the same records, in bounded memory, or say that
they do not.
"""

import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastlloyd.records import Missing, arrow, delimited, numpy_files, open_records
from fastlloyd.records.record_file import RecordFile
from record_files import NAMED, NAMELESS, Matrix, matrices, pa, pq, refusal, written

FORMATS = [*NAMED, *NAMELESS]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("records")


def blocks_of(cells: int, patch: pytest.MonkeyPatch) -> None:
    for module in (arrow, delimited, numpy_files):
        patch.setattr(module, "BLOCK_CELLS", cells)
    patch.setattr("fastlloyd.records.parquet.BLOCK_CELLS", cells)
    for name in ("FIRST_BYTES", "CHUNK_BYTES", "MOST_CHUNK_BYTES"):
        patch.setattr(delimited, name, cells)


# kinds of files whose rows are not counted before they are read; old pyarrow counts none of Arrow
UNCOUNTED = {"csv", "gzip", "arrow stream"}
if not hasattr(pa.ipc.RecordBatchFileReader, "count_rows"):
    UNCOUNTED |= {"arrow", "packed arrow"}


@pytest.mark.parametrize("kind", FORMATS)
@settings(max_examples=25)
@given(X=matrices(st.floats(allow_infinity=False)), cells=st.integers(1, 70))
def test_every_pass_gives_the_same_blocks_of_the_size_asked_for(
    folder: Path, kind: str, X: Matrix, cells: int
) -> None:
    whole = X[~np.isnan(X).any(axis=1)]
    if not len(whole):
        return
    with pytest.MonkeyPatch.context() as patch:
        blocks_of(cells, patch)
        file = open_records(written(folder, kind, X), missing=Missing.DROP)
        assert file.n_rows == (None if kind in UNCOUNTED else len(X))
        assert file.dropped is None
        for _ in range(2):
            blocks = list(file.blocks())
            assert {block.dtype for block in blocks} == {np.dtype(np.float64)}
            assert all(0 < block.size <= max(cells, X.shape[1]) for block in blocks)
            assert np.concatenate(blocks).tobytes() == whole.tobytes()
            assert file.dropped == len(X) - len(whole)


@pytest.mark.parametrize(
    "kind", ["parquet", "arrow", "arrow stream", "columns in npz", "npy by columns"]
)
def test_blocks_of_formats_by_columns_are_by_columns_even_where_records_are_dropped(
    folder: Path, kind: str
) -> None:
    X = np.array([[1.0, 2.0, 3.0], [np.nan, 0.0, 0.0], [4.0, 5.0, 6.0]])
    [block] = open_records(written(folder, kind, X), missing=Missing.DROP).blocks()
    assert block.flags.f_contiguous
    assert block.tolist() == [[1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize("kind", FORMATS)
def test_an_abandoned_pass_leaves_no_file_open_and_tells_no_number(folder: Path, kind: str) -> None:
    file = open_records(written(folder, kind, np.ones((12, 2))))
    before = set(Path("/proc/self/fd").iterdir())
    with pytest.MonkeyPatch.context() as patch:
        blocks_of(2, patch)
        blocks = file.blocks()
        next(blocks)
        del blocks
    assert file.dropped is None
    assert set(Path("/proc/self/fd").iterdir()) <= before


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("when", ["after opening", "between passes", "during a pass"])
@pytest.mark.parametrize("how", ["other content", "another file of equal content", "a later time"])
def test_a_file_that_changes_is_refused_before_anything_is_made_of_it(
    folder: Path, kind: str, when: str, how: str
) -> None:
    X = np.arange(24.0).reshape(12, 2)
    path = written(folder, kind, X)
    file = open_records(path)
    with pytest.MonkeyPatch.context() as patch:
        blocks_of(2, patch)
        if when == "between passes":
            assert sum(map(len, file.blocks())) == 12
        blocks = file.blocks()
        if when == "during a pass":
            next(blocks)
        if how == "other content":
            path = written(folder, kind, X[:7])
        elif how == "another file of equal content":
            copy = path.with_name("copy")
            copy.write_bytes(path.read_bytes())
            stat = path.stat()
            os.utime(copy, ns=(stat.st_atime_ns, stat.st_mtime_ns))
            copy.replace(path)
        else:
            os.utime(path, ns=(0, 0))
        sentence = refusal(lambda: list(blocks))
    assert sentence.startswith(f"{path}: ")
    if how != "other content":  # which may be noticed as damage first
        assert "was changed while it was in use" in sentence


def test_a_file_whose_content_changes_and_whose_state_does_not_is_known_by_its_number_of_records(
    folder: Path,
) -> None:
    class Shrinking:
        names = columns = ("x",)
        n_rows = None
        n_ahead = 1
        has_fixed_separator = True
        n = 3

        def blocks(self) -> "list[Matrix]":
            self.n -= 1
            return [np.ones((self.n + 1, 1))]

    # a list is iterated all the same
    file = RecordFile(Shrinking(), "memory", Missing.REFUSE)  # type: ignore[arg-type]
    assert sum(map(len, file.blocks())) == 3
    assert "was changed" in refusal(lambda: list(file.blocks()))


def test_a_pipe_is_read_once_and_a_second_pass_is_refused(folder: Path) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"a,b\n1,2\n3,4\n")
    os.close(writer)
    path = folder / "pipe.csv"
    path.symlink_to(f"/proc/self/fd/{reader}")
    file = open_records(path)
    assert np.concatenate(list(file.blocks())).tolist() == [[1, 2], [3, 4]]
    assert "only once" in refusal(lambda: list(file.blocks()))
    os.close(reader)


def test_neither_a_record_file_nor_its_repr_tells_how_many_records_there_are(folder: Path) -> None:
    path = written(folder, "npy", np.ones((77, 1)))
    assert repr(open_records(path)) == f"RecordFile(columns=('x1',), source={str(path)!r})"


@pytest.mark.parametrize(
    "kind", ["csv", "npy", "npy by columns", "matrix in npz", "columns in npz"]
)
def test_a_pass_takes_no_more_memory_for_a_longer_file(folder: Path, kind: str) -> None:
    def peak(n: int) -> int:
        file = open_records(written(folder, kind, np.full((n, 4), 0.1)))
        tracemalloc.start()
        try:
            for _ in file.blocks():
                pass
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    with pytest.MonkeyPatch.context() as patch:
        blocks_of(1 << 12, patch)
        peak(40_000)  # what is made once and kept counts for neither
        assert peak(40_000) < peak(10_000) + 100_000  # 30,000 further records are 960 kB


def test_a_pass_over_parquet_and_arrow_takes_no_more_memory_of_arrow_for_a_longer_file(
    folder: Path,
) -> None:
    """One row group, so that its length is not what bounds the memory; Arrow counts its own
    allocations.
    """

    def peak(n: int) -> int:
        rng = np.random.default_rng(3)
        pq.write_table(
            pa.table([rng.normal(size=n) for _ in range(4)], names=list("abcd")),
            folder / "long.parquet",
        )
        file = open_records(folder / "long.parquet")
        before, most = pa.total_allocated_bytes(), 0
        for _ in file.blocks():
            most = max(most, pa.total_allocated_bytes() - before)
        return most

    with pytest.MonkeyPatch.context() as patch:
        blocks_of(1 << 16, patch)
        assert peak(900_000) < peak(300_000) + 4_000_000  # 600,000 further records are 19 MB
