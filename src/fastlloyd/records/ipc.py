"""Arrow IPC files (Feather version 2) and streams.

A file is mapped into memory, and mapped anew every now and then, so that the pages that belong to this process stay few. A
compressed batch is unpacked whole: how much memory that takes was decided by whoever wrote the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fastlloyd.errors import DataError
from fastlloyd.records.arrow import ArrowRecords, errors, load
from fastlloyd.records.columns import Columns
from fastlloyd.records.files import readable

_WHAT = "an Arrow IPC file"
_MAPPED = 1 << 26  # bytes after which the file is mapped anew; opening it takes time in proportion to its batches
_FILE_MAGIC, _OLD_MAGIC = b"ARROW1", b"FEA1"


def open_ipc(path: Path, columns: Columns) -> ArrowRecords:
    """Check the schema. Raises DataError."""
    source = str(path)
    load("pyarrow.ipc", source)
    with readable(path), path.open("rb") as raw:
        magic = raw.read(len(_FILE_MAGIC))
    if magic.startswith(_OLD_MAGIC):
        raise DataError(f"{source}: version 1 of the Feather format is not read; write the records anew as Arrow IPC")
    with errors(source, _WHAT):
        schema, n_rows = _schema_of_file(source) if magic == _FILE_MAGIC else _schema_of_stream(source)
        names = list(schema.names)
    return ArrowRecords.of(
        schema,
        columns,
        lambda picked: (
            _batches_of_file(source)
            if magic == _FILE_MAGIC
            else _batches_of_stream(source, [names.index(name) for name in picked])
        ),
        source=source,
        what=_WHAT,
        n_rows=n_rows,
    )


def _schema_of_file(source: str) -> tuple[Any, int]:
    pa = load("pyarrow", source)
    with pa.memory_map(source) as mapped:
        reader = pa.ipc.open_file(mapped)
        return reader.schema, reader.count_rows()


def _schema_of_stream(source: str) -> tuple[Any, None]:
    pa = load("pyarrow", source)
    with pa.OSFile(source) as raw:
        return pa.ipc.open_stream(raw).schema, None


def _batches_of_file(source: str) -> Iterator[Any]:
    """Batches with all columns: to choose some would make Arrow copy what is otherwise only mapped."""
    pa = load("pyarrow", source)
    number, n = 0, 1
    while number < n:
        with pa.memory_map(source) as mapped:
            reader = pa.ipc.open_file(mapped)
            n, seen = reader.num_record_batches, 0
            while number < n and seen < _MAPPED:
                batch = reader.get_batch(number)
                number, seen = number + 1, seen + batch.nbytes
                yield batch


def _batches_of_stream(source: str, fields: list[int]) -> Iterator[Any]:
    pa = load("pyarrow", source)
    with pa.OSFile(source) as raw:
        yield from pa.ipc.open_stream(raw, options=pa.ipc.IpcReadOptions(included_fields=fields))
