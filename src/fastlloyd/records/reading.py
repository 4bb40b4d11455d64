"""The door: from a path to its records, by the format that its suffix stands for."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from fastlloyd.errors import DataError
from fastlloyd.records import files
from fastlloyd.records.arrow import ArrowRecords
from fastlloyd.records.columns import Columns
from fastlloyd.records.delimited import DelimitedFile
from fastlloyd.records.ipc import open_ipc
from fastlloyd.records.numpy_files import open_npy, open_npz
from fastlloyd.records.parquet import open_parquet
from fastlloyd.records.record_file import Missing, Reader, RecordFile
from fastlloyd.records.table import Table, joined

LARGE_CELLS = 1 << 25  # 256 MiB of float64
LARGE_TEXT = 1 << 28  # bytes

_Named = Sequence[str] | None

STANDARD_INPUT = Path("-")
_TEXT = (".csv", ".tsv", ".txt")
_SHEETS = (".xlsx", ".xls", ".xlsm", ".ods")
_BINARY: Mapping[str, Callable[[Path, Columns], Reader]] = {
    ".parquet": open_parquet,
    ".pq": open_parquet,
    ".arrow": open_ipc,
    ".feather": open_ipc,
    ".ipc": open_ipc,
    ".npy": open_npy,
    ".npz": open_npz,
}


def open_records(path: str | os.PathLike[str], columns: Columns = None, *, missing: Missing = Missing.REFUSE) -> RecordFile:
    """Check a file at the door, without reading its records: it exists, is what its suffix says, and has the columns.

    `columns` chooses columns by name and gives their order (None: all; NUMERIC: those of numbers, as far as the format or, of
    text, the first records tell); what the other columns hold is ignored. Raises DataError, in one sentence, for an unknown
    suffix, a file that cannot be read, repeated or unknown names, and, where the format has types, chosen columns that are not
    numbers. `-` is standard input: text, read once.
    """
    path = Path(path)
    if path == STANDARD_INPUT:
        return _open_text(Path("/dev/stdin"), columns, missing)
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes[-1:] and suffixes[-1] in _BINARY:
        state = files.regular(path)
        reader = _BINARY[suffixes[-1]](path, columns)
        if isinstance(reader, ArrowRecords):
            reader = replace(reader, missing=missing)
        return RecordFile(reader, str(path), state, missing)
    if suffixes[-1:] == [".gz"]:
        suffixes.pop()
    if not suffixes or suffixes[-1] not in _TEXT:
        if path.suffix.lower() in _SHEETS:
            raise DataError(f"{path}: workbooks are not read; save the sheet as CSV in UTF-8, with decimal points")
        raise DataError(
            f"{path}: the suffix must say the format: {', '.join(_TEXT)}, each of which may be followed by .gz, or "
            f"{', '.join(_BINARY)}"
        )
    return _open_text(path, columns, missing)


def read_table(path: str | os.PathLike[str], columns: _Named = None, *, missing: Missing = Missing.REFUSE) -> Table:
    """All records of a file at once. Parameters and errors as of `open_records` and `RecordFile.blocks`."""
    return _read(open_records(path, columns, missing=missing))


def table_or_file(
    path: str | os.PathLike[str], columns: _Named = None, *, missing: Missing = Missing.REFUSE
) -> Table | RecordFile:
    """All records at once if they are few, otherwise the file, to be read in passes. Both have `blocks`; errors as above."""
    file = open_records(path, columns, missing=missing)
    return file if _is_large(file) else _read(file)


def read_csv(path: str | os.PathLike[str], columns: _Named = None, *, missing: Missing = Missing.REFUSE) -> Table:
    """All records of a text file, whatever its suffix; see `DelimitedFile`."""
    return _read(_open_text(Path(path), columns, missing))


def _open_text(path: Path, columns: Columns, missing: Missing) -> RecordFile:
    state = files.state(path)
    reader = DelimitedFile(path, columns, missing, once=state is None)
    return RecordFile(reader, str(path), state, missing, line=None if state is None else reader.line)


def _is_large(file: RecordFile) -> bool:
    """Whether the chosen columns take more than some hundred megabytes as numbers; for text a guess by the file's size."""
    if file.n_rows is not None:
        return file.n_rows * len(file.columns) > LARGE_CELLS
    path = Path(file.source)
    packed = 8 if path.suffix.lower() == ".gz" else 1
    return path.is_file() and path.stat().st_size * packed > LARGE_TEXT


def _read(file: RecordFile) -> Table:
    values = joined(file.blocks(), len(file.columns))
    return Table(
        values=values,
        columns=file.columns,
        source=file.source,
        dropped=file.dropped or 0,
        others=file.others,
        place=file.place,
    )
