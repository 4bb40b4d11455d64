"""The door: from a path to its records, by the format that its suffix stands for."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from fastlloyd.errors import DataError
from fastlloyd.records import files
from fastlloyd.records.columns import Columns
from fastlloyd.records.delimited import DelimitedFile
from fastlloyd.records.ipc import open_ipc
from fastlloyd.records.numpy_files import open_npy, open_npz
from fastlloyd.records.parquet import open_parquet
from fastlloyd.records.record_file import Missing, Reader, RecordFile
from fastlloyd.records.table import Table

LARGE_CELLS = 1 << 25  # 256 MiB of float64
LARGE_TEXT = 1 << 28  # bytes

STANDARD_INPUT = Path("-")
_Named = Sequence[str] | None
_FORMATS: Mapping[str, Callable[[Path, Columns, Missing], Reader]] = {
    ".csv": DelimitedFile,
    ".tsv": DelimitedFile,
    ".txt": DelimitedFile,
    ".parquet": open_parquet,
    ".pq": open_parquet,
    ".arrow": open_ipc,
    ".feather": open_ipc,
    ".ipc": open_ipc,
    ".npy": open_npy,
    ".npz": open_npz,
}
_STREAMS = (".csv", ".tsv", ".txt")  # may be packed by gzip, or come through a pipe
_SHEETS = (".xlsx", ".xls", ".xlsm", ".ods")


def open_records(path: str | os.PathLike[str], columns: Columns = None, *, missing: Missing = Missing.REFUSE) -> RecordFile:
    """Check a file at the door, without reading its records: it exists, is what its suffix says, and has the columns.

    `columns` chooses columns by name and gives their order (None: all; NUMERIC: those of numbers, as far as the format or, of
    text, the first records tell); what the other columns hold is ignored. Raises DataError, in one sentence, for an unknown
    suffix, a file that cannot be read, repeated or unknown names, and, where the format has types, chosen columns that are not
    numbers. `-` is standard input: CSV, read once.
    """
    path = Path(path)
    if path == STANDARD_INPUT:
        return _open_csv(Path("/dev/stdin"), columns, missing)
    suffix = path.suffix.lower()
    unpacked = Path(path.stem).suffix.lower() if suffix == ".gz" else suffix
    if suffix in _SHEETS:
        raise DataError(f"{path}: workbooks are not read; save the sheet as CSV in UTF-8, with decimal points")
    if unpacked not in _STREAMS and suffix not in _FORMATS:
        raise DataError(
            f"{path}: the suffix must say the format: {', '.join(_STREAMS)}, each of which may be followed by .gz, or "
            f"{', '.join(known for known in _FORMATS if known not in _STREAMS)}"
        )
    state = files.state(path)
    if state is None and unpacked not in _STREAMS:
        raise DataError(f"{path}: this is not a regular file, which this format needs; write the records to one")
    return RecordFile(_FORMATS[unpacked](path, columns, missing), str(path), state, missing)


def read_table(path: str | os.PathLike[str], columns: _Named = None, *, missing: Missing = Missing.REFUSE) -> Table:
    """All records of a file at once. Parameters and errors as of `open_records` and `RecordFile.blocks`."""
    return open_records(path, columns, missing=missing).table()


def table_or_file(
    path: str | os.PathLike[str], columns: _Named = None, *, missing: Missing = Missing.REFUSE
) -> Table | RecordFile:
    """All records at once if they are few, otherwise the file, to be read in passes. Errors as of `read_table`."""
    file = open_records(path, columns, missing=missing)
    return file if _is_large(file) else file.table()


def read_csv(path: str | os.PathLike[str], columns: _Named = None, *, missing: Missing = Missing.REFUSE) -> Table:
    """All records of a text file, whatever its suffix; see `DelimitedFile`."""
    return _open_csv(Path(path), columns, missing).table()


def _open_csv(path: Path, columns: Columns, missing: Missing) -> RecordFile:
    state = files.state(path)
    return RecordFile(DelimitedFile(path, columns, missing), str(path), state, missing)


def _is_large(file: RecordFile) -> bool:
    """Whether the chosen columns take more than some hundred megabytes as numbers; for text a guess by the file's size."""
    if file.n_rows is not None:
        return file.n_rows * len(file.columns) > LARGE_CELLS
    path = Path(file.source)
    packed = 8 if path.suffix.lower() == ".gz" else 1
    return path.is_file() and path.stat().st_size * packed > LARGE_TEXT
