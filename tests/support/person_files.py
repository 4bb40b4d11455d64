"""Files of records with a column of ids, in every format."""

import gzip
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fastlloyd.records import delimited as delimited_module
from record_files import Matrix, pa, pq

UNIT = "patient"
Ids = Sequence[str] | Sequence[int]
Writer = Callable[[Path, Matrix, Ids], object]


def names(X: Matrix) -> list[str]:
    """Names of the features."""
    return [f"f{i}" for i in range(X.shape[1])]


def text(X: Matrix, ids: Ids, mark: str = ",") -> str:
    """A table of text with the ids in the middle; ids stand in quotation marks where they hold the
    mark or one of these.
    """
    middle = X.shape[1] // 2
    rows = [[*names(X)[:middle], UNIT, *names(X)[middle:]]]
    for x, i in zip(X.tolist(), ids, strict=True):
        cells = ["" if np.isnan(cell) else repr(cell) for cell in x]
        cell = str(i)
        rows.append(
            [
                *cells[:middle],
                f'"{cell.replace(chr(34), 2 * chr(34))}"' if {mark, '"'} & set(cell) else cell,
                *cells[middle:],
            ]
        )
    return "\n".join(mark.join(row) for row in rows) + "\n"


def table(X: Matrix, ids: Ids, kind: object = None) -> Any:
    """A table of Arrow, with ids of this type."""
    return pa.table(
        {UNIT: pa.array(ids, type=kind), **dict(zip(names(X), map(pa.array, X.T), strict=True))}
    )


def _ipc(path: Path, X: Matrix, ids: Ids, *, stream: bool, kind: object = None) -> None:
    arrow = table(X, ids, kind)
    make = pa.ipc.new_stream if stream else pa.ipc.new_file
    with make(path, arrow.schema) as writer:
        writer.write_table(arrow, max_chunksize=3)


def _npz(path: Path, X: Matrix, ids: Ids, kind: str) -> None:
    columns: dict[str, Any] = {UNIT: np.array(ids, kind), **dict(zip(names(X), X.T, strict=True))}
    np.savez(path, **columns)


# Formats whose ids are text
TEXT: Mapping[str, tuple[str, Writer]] = {
    "csv": (".csv", lambda path, X, ids: path.write_text(text(X, ids))),
    "tabs": (".tsv", lambda path, X, ids: path.write_text(text(X, ids, "\t"))),
    "gzip": (
        ".csv.gz",
        lambda path, X, ids: path.write_bytes(gzip.compress(text(X, ids, ";").encode())),
    ),
    "parquet": (
        ".parquet",
        lambda path, X, ids: pq.write_table(table(X, ids), path, row_group_size=4),
    ),
    "dictionary": (
        ".parquet",
        lambda path, X, ids: pq.write_table(
            table(X, ids, pa.dictionary(pa.int8(), pa.string())), path, row_group_size=4
        ),
    ),
    "arrow": (
        ".arrow",
        lambda path, X, ids: _ipc(path, X, ids, stream=False, kind=pa.large_string()),
    ),
    "arrow stream": (".ipc", lambda path, X, ids: _ipc(path, X, ids, stream=True)),
    "npz": (".npz", lambda path, X, ids: _npz(path, X, ids, "U")),
}
# Formats whose ids are integers
INTEGERS: Mapping[str, tuple[str, Writer]] = {
    "parquet": (
        ".parquet",
        lambda path, X, ids: pq.write_table(table(X, ids, pa.int32()), path, row_group_size=4),
    ),
    "unsigned": (".parquet", lambda path, X, ids: pq.write_table(table(X, ids, pa.uint64()), path)),
    "arrow": (".arrow", lambda path, X, ids: _ipc(path, X, ids, stream=False, kind=pa.int64())),
    "npz": (".npz", lambda path, X, ids: _npz(path, X, ids, ">i8")),
}


def written(
    folder: Path, kind: tuple[str, Writer], X: Matrix, ids: Ids, name: str = "visits"
) -> Path:
    """The path of the file, written in this kind of format."""
    suffix, write = kind
    path = folder / f"{name}{suffix}"
    write(path, X, ids)
    return path


def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every format read a few records at a time."""
    monkeypatch.setattr("fastlloyd.records.arrow.BLOCK_CELLS", 10)
    monkeypatch.setattr("fastlloyd.records.numpy_files.BLOCK_CELLS", 10)
    monkeypatch.setattr(delimited_module, "BLOCK_CELLS", 12)
    monkeypatch.setattr(delimited_module, "FIRST_BYTES", 20)
    monkeypatch.setattr(delimited_module, "CHUNK_BYTES", 30)
    monkeypatch.setattr(delimited_module, "CHUNK_ROWS", 1)
