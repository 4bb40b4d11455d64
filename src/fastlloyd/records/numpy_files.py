"""Arrays that NumPy saved: .npy with one array, and .npz, an archive of arrays.

Nothing is ever unpickled. Files are read piece by piece and not mapped into memory. If another
program cuts a mapped file short, the system ends the reading program without a message.
"""

from __future__ import annotations

import os
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from io import BytesIO
from math import prod
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy_format

from fastlloyd.base.arrays import RealArray
from fastlloyd.base.names import listing
from fastlloyd.errors import DataError
from fastlloyd.records.columns import Columns, chosen, numbered, unit_place
from fastlloyd.records.declared import Holds, content
from fastlloyd.records.files import open_binary, readable
from fastlloyd.records.ids import BROKEN, FLOATS, Ids, IntegerIds, TextIds, in_utf8
from fastlloyd.records.reader import BLOCK_CELLS, Missing, Reader
from fastlloyd.records.table import ColumnBlock, with_ids

_VERSIONS = {(1, 0): npy_format.read_array_header_1_0, (2, 0): npy_format.read_array_header_2_0}
_PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_SUFFIX = ".npy"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Array:
    """Saved array: its file and the content of its header.

    member : name in an archive, or None for a file of its own.
    """

    path: str
    member: str | None
    shape: tuple[int, ...]
    by_columns: bool
    dtype: np.dtype[np.generic]
    offset: int  # position of the first cell

    @property
    def holds_numbers(self) -> bool:
        # of wider floats the file does not say which machine's they are
        return content(self.dtype).is_numbers and self.dtype.itemsize <= 8

    @property
    def wide(self) -> type[np.float32 | np.float64]:
        """Type of the array's blocks: float32 if it represents every value exactly, otherwise
        float64.
        """
        return np.float32 if np.can_cast(self.dtype, np.float32) else np.float64

    def check(self, what: str) -> None:
        """Raise DataError unless the array contains numbers. The message begins with `what`."""
        if self.dtype.names is not None:
            raise DataError(
                f"{what} is a structured array; save its numeric fields as a plain matrix, or"
                " each as an array in a .npz",
                code=Holds.GROUPS.value,
            )
        if not self.holds_numbers:
            raise DataError(
                f"{what} holds {self.dtype}; expected integers, float16, float32, float64 or"
                " booleans",
                code=content(self.dtype).holds.value,
            )

    def ids_in(self, cells: npt.NDArray[Any]) -> Ids:
        """Return the ids in cells of this array."""
        if self.dtype.kind in "iu":
            return IntegerIds(cells)
        if self.dtype.kind == "S":
            return TextIds.of(cells.tolist())
        texts = in_utf8(cells.tolist())
        if texts is None:
            raise DataError(f"{self.path}: an id is {BROKEN}")
        return TextIds.of(texts)

    def kind_of_ids(self, what: str) -> str:
        """Return the kind of the ids in this array, "integers" or "text".

        Raises DataError for any other dtype. The message begins with `what`.
        """
        if self.dtype.names is None and self.dtype.kind in "iu":
            return IntegerIds.kind
        if self.dtype.names is None and self.dtype.kind in "SU":
            return TextIds.kind
        expected = FLOATS if self.dtype.kind == "f" else "ids must be integers or text"
        raise DataError(f"{what} holds {self.dtype}; {expected}")

    def cells(self, stream: IO[bytes], n: int) -> npt.NDArray[Any]:
        """Return the next n cells of the stream."""
        content = stream.read(n * self.dtype.itemsize)
        if len(content) < n * self.dtype.itemsize:
            raise EOFError
        return np.frombuffer(content, dtype=self.dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Matrix(Reader):
    """Records in one array (n, d), or (n,) for one column.

    unit : position of the column of the ids, or None without ids.
    """

    array: _Array
    names: tuple[str, ...]
    columns: tuple[str, ...]
    indices: tuple[int, ...]
    n_rows: int
    unit: int | None
    ids: str | None

    def blocks(self) -> Iterator[RealArray | ColumnBlock]:
        """Yield blocks (n_i, n_features).

        An archived array in column-major order is decompressed as a whole first.
        """
        array = self.array
        with _damage(array.path), _opened(array.path, array.member) as stream:
            if not array.by_columns or len(self.names) == 1:
                yield from self._row_major(stream)
            else:
                yield from self._column_major(
                    stream if array.member is None else BytesIO(stream.read())
                )

    def _row_major(self, stream: IO[bytes]) -> Iterator[RealArray | ColumnBlock]:
        d, all_in_order = len(self.names), self.columns == self.names
        # in an archive, `seek` would end the comparison with its checksum (Python 3.13)
        stream.read(self.array.offset)
        for n in _sizes(self.n_rows, d):
            rows = self.array.cells(stream, n * d).reshape(n, d)
            block: RealArray = (rows if all_in_order else rows[:, self.indices]).astype(
                self.array.wide, copy=False
            )
            yield with_ids(
                block, None if self.unit is None else self.array.ids_in(rows[:, self.unit])
            )

    def _column_major(self, stream: IO[bytes]) -> Iterator[RealArray | ColumnBlock]:
        start, array = 0, self.array
        for n in _sizes(self.n_rows, len(self.indices)):
            block = np.empty((len(self.indices), n), dtype=array.wide)
            for row, column in zip(block, self.indices, strict=True):
                row[:] = self._cells(stream, column, start, n)
            yield with_ids(
                block.T,
                (
                    None
                    if self.unit is None
                    else array.ids_in(self._cells(stream, self.unit, start, n))
                ),
            )
            start += n

    def _cells(self, stream: IO[bytes], column: int, start: int, n: int) -> npt.NDArray[Any]:
        """Return the next n cells of a column of an array in column-major order."""
        stream.seek(self.array.offset + (column * self.n_rows + start) * self.array.dtype.itemsize)
        return self.array.cells(stream, n)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Columns(Reader):
    """Records in arrays (n,) of one archive, one for each column, which are decompressed in
    parallel.

    unit : array of the ids, or () without ids.
    """

    arrays: tuple[_Array, ...]  # of the chosen columns
    names: tuple[str, ...]
    columns: tuple[str, ...]
    n_rows: int
    unit: tuple[_Array, ...]
    ids: str | None

    def blocks(self) -> Iterator[RealArray | ColumnBlock]:
        """Yield blocks (n_i, n_features) in column-major order."""
        wide = np.result_type(*(array.wide for array in self.arrays))
        width = len(self.arrays) + sum(array.dtype.itemsize // wide.itemsize for array in self.unit)
        with _damage(self.arrays[0].path), ExitStack() as stack:
            every = (*self.arrays, *self.unit)
            streams = [stack.enter_context(_opened(array.path, array.member)) for array in every]
            for stream, array in zip(streams, every, strict=True):
                stream.read(array.offset)  # as in a matrix
            for n in _sizes(self.n_rows, width):
                block = np.empty((len(self.arrays), n), dtype=wide)
                for row, stream, array in zip(block, streams, self.arrays, strict=False):
                    row[:] = array.cells(stream, n)
                ids = [array.ids_in(array.cells(streams[-1], n)) for array in self.unit]
                yield with_ids(block.T, ids[0] if ids else None)


def open_npy(path: str, columns: Columns, _missing: Missing, unit: str | None = None) -> _Matrix:
    """Open an array in NumPy's format after a check of its header. Raises DataError if the file
    cannot be read, or is not an array of numbers.

    An array of shape (n, d) has the columns x1, x2, ..., and one of shape (n,) the column x1.
    """
    return _matrix(_array(path, None), columns, unit)


def open_npz(
    path: str, columns: Columns, _missing: Missing, unit: str | None = None
) -> _Matrix | _Columns:
    """Return the records of an archive, after a check of its headers. Raises DataError if the file
    cannot be read, or has something other than arrays of numbers.

    The archive has one array (n, d) as in .npy, or arrays (n,) whose names are those of the
    columns.
    """
    with (
        _damage(path),
        readable(path),
        open_binary(path) as packed,
        zipfile.ZipFile(packed) as archive,
    ):
        members = archive.namelist()
        if any(
            info.flag_bits & 1 or info.compress_type not in _PACKED for info in archive.infolist()
        ):
            raise DataError(
                f"{path}: the archive is encrypted or packed in a way that NumPy does not use;"
                " save it again"
            )
    if strange := [name for name in members if not name.endswith(_SUFFIX)]:
        raise DataError(f"{path} contains {strange[0]!r}, which is not an array")
    if len(members) == 1 and len((matrix := _array(path, members[0])).shape) == 2:
        return _matrix(matrix, columns, unit)
    names = tuple(name.removesuffix(_SUFFIX) for name in members)
    indices = chosen(
        names, columns, str(path), "archive", lambda i: _array(path, members[i]).holds_numbers, unit
    )
    taken = tuple(names[i] for i in indices)
    at = unit_place(names, unit, path)
    arrays = tuple(_array(path, members[i]) for i in indices)
    of_ids = () if at is None else (_array(path, members[at]),)
    for name, array in zip(taken, arrays, strict=True):
        array.check(f"{path}: array {name!r}")
    kinds = [array.kind_of_ids(f"{path}: array {unit!r}") for array in of_ids]
    for name, array in zip((*taken, str(unit)), (*arrays, *of_ids), strict=False):
        if len(array.shape) != 1:
            raise DataError(
                f"{path}: array {name!r} has {len(array.shape)} dimensions; expected one matrix"
                " alone in the file, or arrays of one dimension, one for each column (its arrays"
                f" are {listing(names)})"
            )
        if array.shape != arrays[0].shape:
            raise DataError(
                f"{path}: arrays {taken[0]!r} and {name!r} differ in length; columns must have"
                " equal lengths"
            )
    ids = kinds[0] if kinds else None
    return _Columns(
        arrays=arrays, names=names, columns=taken, n_rows=arrays[0].shape[0], unit=of_ids, ids=ids
    )


def _matrix(array: _Array, columns: Columns, unit: str | None) -> _Matrix:
    array.check(f"{array.path}: the array")
    if len(array.shape) not in (1, 2):
        raise DataError(
            f"{array.path}: the array has {len(array.shape)} dimensions; expected 2, a row for each"
            " record"
        )
    names = tuple(numbered(prod(array.shape[1:])))
    source = f"{array.path} (an array has no names of columns)"
    indices = tuple(chosen(names, columns, source, "array", unit=unit))
    taken = tuple(names[i] for i in indices)
    at = unit_place(names, unit, source)
    ids = None if at is None else array.kind_of_ids(f"{array.path}: the array")
    return _Matrix(
        array=array,
        names=names,
        columns=taken,
        indices=indices,
        n_rows=array.shape[0],
        unit=at,
        ids=ids,
    )


def _array(path: str, member: str | None) -> _Array:
    """Return the array that a header describes.

    Raises DataError if the header announces more cells than the file has.
    """
    with _damage(path), _opened(path, member) as stream:
        read = _VERSIONS.get(npy_format.read_magic(stream))
        if read is None:
            raise DataError(
                f"{path}: the array is in a version of the format that is not read; save plain"
                " numbers again"
            )
        shape, by_columns, dtype = read(stream)
        array = _Array(
            path=path,
            member=member,
            shape=shape,
            by_columns=by_columns,
            dtype=dtype,
            offset=stream.tell(),
        )
        size = array.offset + prod(shape) * dtype.itemsize
        if any(n < 0 for n in shape) or size > stream.seek(
            0, os.SEEK_END
        ):  # else a false length would ask for any amount of memory
            raise EOFError
        return array


def _sizes(n: int, width: int) -> Iterator[int]:
    """Return the number of records of each block."""
    size = max(1, BLOCK_CELLS // width)
    return (min(size, n - start) for start in range(0, n, size))


@contextmanager
def _opened(path: str, member: str | None) -> Iterator[IO[bytes]]:
    """Open a file, or a member of an archive, for reading."""
    if member is None:
        with readable(path), open_binary(path) as file:
            yield file
    else:
        with (
            readable(path),
            open_binary(path) as packed,
            zipfile.ZipFile(packed) as archive,
            archive.open(member) as file,
        ):
            yield file


@contextmanager
def _damage(path: str) -> Iterator[None]:
    """Convert errors of NumPy and zipfile for damaged files to DataError."""
    try:
        yield
    except DataError:
        raise
    except (ValueError, TypeError, LookupError, SyntaxError, EOFError, OverflowError,
      RecursionError, tokenize.TokenError,
            NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error):  # fmt: skip
        raise DataError(
            f"{path}: not a file that NumPy saved, or one that is damaged or cut short; save it"
            " again"
        ) from None
