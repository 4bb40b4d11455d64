"""Arrow IPC files (Feather version 2) and streams.

A file is mapped into memory, and mapped again from time to time, so that this process occupies
little memory. A compressed batch is decompressed as a whole. So the size of a batch, which its
writer chose, determines the memory needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastlloyd.errors import DataError
from fastlloyd.records.arrow import ArrowRecords, errors
from fastlloyd.records.arrow_numbers import load
from fastlloyd.records.columns import Columns
from fastlloyd.records.files import open_binary, readable
from fastlloyd.records.reader import Missing
from fastlloyd.records.stores import is_address

_WHAT = "an Arrow IPC file"
# bytes after which the file is mapped anew; opening it takes time in proportion to its batches
_MAPPED = 1 << 26
_FILE_MAGIC, _OLD_MAGIC = b"ARROW1", b"FEA1"


def open_ipc(
    source: str,
    columns: Columns,
    missing: Missing,
    unit: str | None = None,
    text_columns: frozenset[str] = frozenset(),
) -> ArrowRecords:
    """Return the records of a file or stream, after a check of its schema. Raises DataError if the
    file cannot be read, or lacks a chosen column of numbers.
    """
    load("pyarrow.ipc", source)
    pa = load("pyarrow", source)
    with readable(source), open_binary(source, buffer=0) as raw:
        magic = raw.read(len(_FILE_MAGIC))
    if magic.startswith(_OLD_MAGIC):
        raise DataError(
            f"{source}: version 1 of the Feather format is not read; write the records anew as"
            " Arrow IPC"
        )
    is_stream = magic != _FILE_MAGIC
    with errors(source, _WHAT), _opened(pa, source, mapped=not is_stream) as opened:
        reader = pa.ipc.open_stream(opened) if is_stream else pa.ipc.open_file(opened)
        # in a store, to count them takes a request for each batch; old versions cannot count
        count = None if is_stream or is_address(source) else getattr(reader, "count_rows", None)
        schema, n_rows = reader.schema, None if count is None else count()
        names = list(schema.names)

    def batches(taken: tuple[str, ...]) -> Iterator[Any]:
        return (
            _of_stream(pa, source, [names.index(name) for name in taken])
            if is_stream
            else _of_file(pa, source)
        )

    return ArrowRecords.of(
        schema,
        columns,
        batches,
        source=source,
        what=_WHAT,
        n_rows=n_rows,
        missing=missing,
        unit=unit,
        text_columns=text_columns,
    )


def _of_file(pa: Any, source: str) -> Iterator[Any]:
    """Yield the batches of a file with all its columns.

    If only some columns were requested, Arrow would copy them instead of mapping them into memory.
    """
    number, n = 0, 1
    while number < n:
        with _opened(pa, source, mapped=True) as mapped:
            reader = pa.ipc.open_file(mapped)
            n, seen = reader.num_record_batches, 0
            while number < n and seen < _MAPPED:
                batch = reader.get_batch(number)
                number, seen = number + 1, seen + batch.nbytes
                yield batch


def _of_stream(pa: Any, source: str, fields: list[int]) -> Iterator[Any]:
    """Yield the batches of a stream with the columns at the positions `fields`."""
    with _opened(pa, source, mapped=False) as raw:
        yield from pa.ipc.open_stream(raw, options=pa.ipc.IpcReadOptions(included_fields=fields))


def _opened(pa: Any, source: str, *, mapped: bool) -> Any:
    if is_address(source):
        return pa.PythonFile(open_binary(source, buffer=0 if mapped else _MAPPED), mode="r")
    return pa.memory_map(source) if mapped else pa.OSFile(source)
