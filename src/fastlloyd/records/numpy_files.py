"""Arrays that NumPy saved: .npy, one array, and .npz, an archive of them. Nothing pickled is ever unpickled.

Files are read piece by piece and not mapped into memory: when a mapped file is cut short by another program, the reading
program is ended by the system without a word.
"""

from __future__ import annotations

import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from io import BytesIO
from math import prod
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy_format

from fastlloyd.base.arrays import RealArray
from fastlloyd.base.names import listing
from fastlloyd.errors import DataError
from fastlloyd.records.columns import Columns, numbered, picked
from fastlloyd.records.files import readable
from fastlloyd.records.record_file import BLOCK_CELLS

_VERSIONS = {(1, 0): npy_format.read_array_header_1_0, (2, 0): npy_format.read_array_header_2_0}
_PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_SUFFIX = ".npy"
_KINDS, _WIDEST = "biuf", 8


@dataclass(frozen=True, slots=True, kw_only=True)
class _Header:
    """What stands before the cells of one saved array."""

    shape: tuple[int, ...]
    by_columns: bool
    dtype: np.dtype[np.generic]
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Matrix:
    """One array (n, d), or (n,) for one column: a `Reader`. `member` is its name in an archive, None for a file of its own."""

    path: Path
    member: str | None
    header: _Header
    names: tuple[str, ...]
    indices: tuple[int, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.names[i] for i in self.indices)

    @property
    def n_ahead(self) -> int:
        """One."""
        return 1

    @property
    def n_rows(self) -> int:
        return self.header.shape[0]

    def blocks(self) -> Iterator[RealArray]:
        """Blocks (n_i, n_features). An archived array in column-major order is unpacked whole first."""
        by_columns = self.header.by_columns and len(self.names) > 1
        with _damage(self.path), _member(self.path, self.member) as stream:
            if not by_columns:
                yield from self._row_major(stream)
            else:
                yield from self._column_major(stream if self.member is None else BytesIO(stream.read()))

    def _row_major(self, stream: IO[bytes]) -> Iterator[RealArray]:
        d, all_in_order = len(self.names), self.columns == self.names
        stream.seek(self.header.offset)
        for n in _sizes(self.n_rows, d):
            rows = _cells(stream, self.header.dtype, n * d).reshape(n, d)
            yield (rows if all_in_order else rows[:, self.indices]).astype(_wide(self.header.dtype), copy=False)

    def _column_major(self, stream: IO[bytes]) -> Iterator[RealArray]:
        start, dtype = 0, self.header.dtype
        for n in _sizes(self.n_rows, len(self.indices)):
            block = np.empty((len(self.indices), n), dtype=_wide(dtype))
            for row, column in zip(block, self.indices, strict=True):
                stream.seek(self.header.offset + (column * self.n_rows + start) * dtype.itemsize)
                row[:] = _cells(stream, dtype, n)
            yield block.T
            start += n


@dataclass(frozen=True, slots=True, kw_only=True)
class _Columns:
    """Arrays (n,) of one archive, each a column: a `Reader`. They are unpacked side by side."""

    path: Path
    names: tuple[str, ...]
    columns: tuple[str, ...]
    headers: tuple[_Header, ...]  # of the chosen ones

    @property
    def n_ahead(self) -> int:
        """One."""
        return 1

    @property
    def n_rows(self) -> int:
        return self.headers[0].shape[0]

    def blocks(self) -> Iterator[RealArray]:
        """Blocks (n_i, n_features) in column-major order."""
        wide = np.result_type(*(_wide(header.dtype) for header in self.headers))
        with _damage(self.path), ExitStack() as stack:
            streams = [stack.enter_context(_member(self.path, name + _SUFFIX)) for name in self.columns]
            for stream, header in zip(streams, self.headers, strict=True):
                stream.seek(header.offset)
            for n in _sizes(self.n_rows, len(streams)):
                block = np.empty((len(streams), n), dtype=wide)
                for row, stream, header in zip(block, streams, self.headers, strict=True):
                    row[:] = _cells(stream, header.dtype, n)
                yield block.T


def open_npy(path: Path, columns: Columns) -> _Matrix:
    """Check the header of an array (n, d), columns x1, x2, ..., or (n,), column x1. Raises DataError."""
    return _matrix(path, None, columns)


def open_npz(path: Path, columns: Columns) -> _Matrix | _Columns:
    """Check the headers of an archive: one array (n, d) as in .npy, or arrays (n,) whose names are the columns' names."""
    with _damage(path), readable(path), zipfile.ZipFile(path) as archive:
        members = archive.namelist()
        if any(info.flag_bits & 1 or info.compress_type not in _PACKED for info in archive.infolist()):
            raise DataError(f"{path}: the archive is encrypted or packed in a way that NumPy does not use; save it anew")
    if strange := [name for name in members if not name.endswith(_SUFFIX)]:
        raise DataError(f"{path}: {strange[0]!r} in it is not an array")
    if len(members) == 1 and len(_header(path, members[0]).shape) == 2:
        return _matrix(path, members[0], columns)
    names = tuple(name.removesuffix(_SUFFIX) for name in members)
    indices = picked(names, columns, lambda i: _holds_numbers(_header(path, names[i] + _SUFFIX)), str(path), "archive")
    taken = tuple(names[i] for i in indices)
    headers = tuple(_header(path, name + _SUFFIX) for name in taken)
    for name, header in zip(taken, headers, strict=True):
        _check_numbers(header.dtype, f"{path}: array {name!r}")
        if len(header.shape) != 1:
            raise DataError(
                f"{path}: array {name!r} has {len(header.shape)} dimensions; expected one matrix alone in the file, or arrays "
                f"of one dimension, one for each column (there are {listing(names)})"
            )
        if header.shape != headers[0].shape:
            raise DataError(f"{path}: arrays {taken[0]!r} and {name!r} differ in length; columns must have equal lengths")
    return _Columns(path=path, names=names, columns=taken, headers=headers)


def _matrix(path: Path, member: str | None, columns: Columns) -> _Matrix:
    header = _header(path, member)
    _check_numbers(header.dtype, f"{path}: the array")
    if len(header.shape) not in (1, 2):
        raise DataError(f"{path}: the array has {len(header.shape)} dimensions; expected 2, a row for each record")
    names = tuple(numbered(prod(header.shape[1:])))
    indices = tuple(picked(names, columns, lambda _: True, f"{path} (an array has no names of columns)", "array"))
    return _Matrix(path=path, member=member, header=header, names=names, indices=indices)


def _header(path: Path, member: str | None) -> _Header:
    with _damage(path), _member(path, member) as stream:
        read = _VERSIONS.get(npy_format.read_magic(stream))
        if read is None:
            raise DataError(f"{path}: the array is in a version of the format that is not read; save plain numbers anew")
        shape, by_columns, dtype = read(stream)
        header = _Header(shape=shape, by_columns=by_columns, dtype=dtype, offset=stream.tell())
        size = header.offset + prod(shape) * dtype.itemsize
        if any(n < 0 for n in shape) or size > _size(path, member):  # else a false length would ask for any amount of memory
            raise EOFError
        return header


def _check_numbers(dtype: np.dtype[np.generic], what: str) -> None:
    if dtype.names is not None:
        raise DataError(f"{what} is a structured one; save its numeric fields as a plain matrix, or each as an array in a .npz")
    if dtype.kind not in _KINDS or dtype.itemsize > _WIDEST:
        raise DataError(f"{what} holds {dtype}; expected integers, float16, float32, float64 or booleans")


def _holds_numbers(header: _Header) -> bool:
    return header.dtype.names is None and header.dtype.kind in _KINDS and header.dtype.itemsize <= _WIDEST


def _wide(dtype: np.dtype[np.generic]) -> type[np.float32 | np.float64]:
    """float32 if it holds every value of the dtype exactly, otherwise float64."""
    return np.float32 if np.can_cast(dtype, np.float32) else np.float64


def _sizes(n: int, width: int) -> Iterator[int]:
    """How many records each block has."""
    size = max(1, BLOCK_CELLS // width)
    return (min(size, n - start) for start in range(0, n, size))


def _cells(stream: IO[bytes], dtype: np.dtype[np.generic], n: int) -> npt.NDArray[np.generic]:
    content = stream.read(n * dtype.itemsize)
    if len(content) < n * dtype.itemsize:
        raise EOFError
    return np.frombuffer(content, dtype=dtype)


@contextmanager
def _member(path: Path, member: str | None) -> Iterator[IO[bytes]]:
    """A file, or a file in an archive, for reading."""
    if member is None:
        with readable(path), path.open("rb") as file:
            yield file
    else:
        with readable(path), zipfile.ZipFile(path) as archive, archive.open(member) as file:
            yield file


def _size(path: Path, member: str | None) -> int:
    if member is None:
        return path.stat().st_size
    with zipfile.ZipFile(path) as archive:
        return archive.getinfo(member).file_size


@contextmanager
def _damage(path: Path) -> Iterator[None]:
    """Turn what damaged files make NumPy and zipfile raise into DataError."""
    try:
        yield
    except DataError:
        raise
    except (ValueError, TypeError, LookupError, SyntaxError, EOFError, OverflowError, RecursionError, tokenize.TokenError,
            NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error):  # fmt: skip
        raise DataError(f"{path}: not a file that NumPy saved, or one that is damaged or cut short; save it anew") from None
