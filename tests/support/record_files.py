"""What tests of records share: refusals that must not quote cells, and writers of every format."""

import gzip
import importlib
import traceback
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import strategies as st

from fastlloyd.errors import DataError

SECRET = "SECRET123"  # noqa: S105 - stands for a private value
FINITE = st.floats(allow_nan=False, allow_infinity=False)
Matrix = npt.NDArray[np.float64]
Writer = Callable[[Path, Matrix, Sequence[str]], object]
pa = importlib.import_module("pyarrow")  # ships no types
pq = importlib.import_module("pyarrow.parquet")


@st.composite
def matrices(draw: st.DrawFn, cells: st.SearchStrategy[float] = FINITE) -> Matrix:
    """Up to 12 records of up to 5 features."""
    n, d = draw(st.integers(1, 12)), draw(st.integers(1, 5))
    return np.array(draw(st.lists(st.lists(cells, min_size=d, max_size=d), min_size=n, max_size=n)))


def refusal(read: Callable[[], object]) -> str:
    """Return the one sentence `read` is refused with; neither it nor the traceback, with what led
    to it, holds a secret.
    """
    with pytest.raises(DataError) as refused:
        read()
    sentence = str(refused.value)
    assert "\n" not in sentence
    assert SECRET not in "".join(traceback.format_exception(refused.value))
    return sentence


def arrow_table(X: Matrix, names: Sequence[str]) -> Any:
    """NaN becomes null in every other column, and stays NaN in the rest: both are missing cells."""
    return pa.table(
        [pa.array(x, from_pandas=i % 2 == 0) for i, x in enumerate(X.T)], names=list(names)
    )


def csv_text(X: Matrix, names: Sequence[str]) -> str:
    """A header and the shortest digits that stand for each cell."""
    return "\n".join([",".join(names), *(",".join(map(repr, map(float, row))) for row in X)]) + "\n"


def _ipc(
    path: Path,
    X: Matrix,
    names: Sequence[str],
    *,
    stream: bool,
    compression: str | None = None,
    chunk: int = 3,
) -> None:
    table = arrow_table(X, names)
    make = pa.ipc.new_stream if stream else pa.ipc.new_file
    with make(
        path, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)
    ) as writer:
        writer.write_table(table, max_chunksize=chunk)


# Formats that keep the names of columns
NAMED: Mapping[str, tuple[str, Writer]] = {
    "csv": (".csv", lambda path, X, names: path.write_text(csv_text(X, names))),
    "gzip": (
        ".csv.gz",
        lambda path, X, names: path.write_bytes(gzip.compress(csv_text(X, names).encode())),
    ),
    "parquet": (
        ".parquet",
        lambda path, X, names: pq.write_table(arrow_table(X, names), path, row_group_size=4),
    ),
    "plain parquet": (
        ".pq",
        lambda path, X, names: pq.write_table(
            arrow_table(X, names), path, use_dictionary=False, compression="zstd"
        ),
    ),
    "arrow": (".arrow", lambda path, X, names: _ipc(path, X, names, stream=False)),
    "packed arrow": (
        ".feather",
        lambda path, X, names: _ipc(path, X, names, stream=False, compression="lz4"),
    ),
    "arrow stream": (".ipc", lambda path, X, names: _ipc(path, X, names, stream=True)),
    "columns in npz": (
        ".npz",
        lambda path, X, names: np.savez(path, **dict(zip(names, X.T, strict=True))),
    ),
}
# Formats whose columns are called x1, x2, ...
NAMELESS: Mapping[str, tuple[str, Writer]] = {
    "npy": (".npy", lambda path, X, _: np.save(path, X)),
    "npy by columns": (".npy", lambda path, X, _: np.save(path, np.asfortranarray(X))),
    "npy of the other byte order": (".npy", lambda path, X, _: np.save(path, X.astype(">f8"))),
    "matrix in npz": (".npz", lambda path, X, _: np.savez_compressed(path, X)),
    "matrix by columns in npz": (".npz", lambda path, X, _: np.savez(path, np.asfortranarray(X))),
}
LIKE_ANOTHER = {
    "plain parquet", "packed arrow", "arrow stream", "columns in npz", "npy by columns", "npy of the other byte order",
    "matrix by columns in npz",
}  # fmt: skip


def formats(names: Iterable[str] = (*NAMED, *NAMELESS)) -> list[Any]:
    """Kinds of files as parameters of a test; those that are read like another kind are for `make
    campaign`.
    """
    return [
        pytest.param(name, marks=pytest.mark.campaign) if name in LIKE_ANOTHER else name
        for name in names
    ]


BINARY = {
    name: writer for name, writer in {**NAMED, **NAMELESS}.items() if name not in ("csv", "gzip")
}


def written(folder: Path, kind: str, X: Matrix, names: Sequence[str] | None = None) -> Path:
    """A file of this format with these records, columns x1, x2, ... by default."""
    suffix, write = {**NAMED, **NAMELESS}[kind]
    path = folder / f"records{suffix}"
    write(path, X, names or [f"x{i + 1}" for i in range(X.shape[1])])
    return path


def archive(path: Path, members: Mapping[str, bytes]) -> Path:
    """A zip archive of any content."""
    with zipfile.ZipFile(path, "w") as opened:
        for name, content in members.items():
            opened.writestr(name, content)
    return path
