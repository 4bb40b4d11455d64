"""Pieces of a source that can be read separately and on any machine, and the formats by suffix.

A piece is a file, or row groups of a file. A folder on the path of a file may have a name such as
name=value. The name stands for a column with this value in all records of the file, as Hive and
Spark write it. Such a column is used only if it is chosen by name, or if all columns of numbers are
asked for. A column of the same name in the files takes precedence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote

import msgspec
import numpy as np

from fastlloyd.base.arrays import RealArray
from fastlloyd.errors import DataError
from fastlloyd.records.cells import floats
from fastlloyd.records.columns import NUMERIC, Columns
from fastlloyd.records.delimited import DelimitedFile
from fastlloyd.records.files import FileState
from fastlloyd.records.ipc import open_ipc
from fastlloyd.records.layout import Layout, check_no_layout
from fastlloyd.records.numpy_files import open_npy, open_npz
from fastlloyd.records.parquet import open_parquet, row_groups
from fastlloyd.records.reader import Missing, Reader
from fastlloyd.records.recipe.rows import RecipeReader, Using
from fastlloyd.records.table import ColumnBlock, ids_of
from fastlloyd.records.text_cells import CellBlock

PIECE_CELLS = 1 << 24  # of row groups that are read together, where a file is split

Opener = Callable[..., Reader]  # of path, columns, missing, unit, and more by name
STREAMS: Mapping[str, Opener] = {
    ".csv": DelimitedFile,
    ".tsv": DelimitedFile,
    ".txt": DelimitedFile,
}  # may be packed by gzip
FORMATS: Mapping[str, Opener] = {
    **STREAMS,
    ".parquet": open_parquet,
    ".pq": open_parquet,
    ".arrow": open_ipc,
    ".feather": open_ipc,
    ".ipc": open_ipc,
    ".npy": open_npy,
    ".npz": open_npz,
}
_SHEETS = (".xlsx", ".xls", ".xlsm", ".ods")
STANDARD_INPUT = "/dev/stdin"  # of this process, CSV
_NULL = "__HIVE_DEFAULT_PARTITION__"


def opener(path: str) -> Opener:
    """Return the function that opens a file with this suffix.

    Raises DataError for an unknown suffix.
    """
    if path == STANDARD_INPUT:
        return DelimitedFile
    name = PurePosixPath(path)
    suffix = name.suffix.lower()
    if suffix in _SHEETS:
        raise DataError(
            f"{path}: workbooks are not read; save the sheet as CSV in UTF-8, with decimal points"
        )
    known = (
        STREAMS.get(PurePosixPath(name.stem).suffix.lower())
        if suffix == ".gz"
        else FORMATS.get(suffix)
    )
    if known is None:
        raise DataError(
            f"{path}: the suffix must say the format: {', '.join(STREAMS)}, each of which may be"
            f" followed by .gz, or {', '.join(other for other in FORMATS if other not in STREAMS)}"
        )
    return known


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Records that any process with access to the file can open.

    A piece is plain data, which is pickled and compared.

    path : path of the file, or its address.
    columns : names of the chosen columns, in their order.
    missing : treatment of records with a missing cell.
    state : state of the file when it was first opened.
    n_rows : number of records. None if it is known only after reading.
    groups : indices of the row groups of a Parquet file, or None for the whole file.
    before : number of the file's records that come before the piece.
    folders : value of each column that a folder's name states. The value is NaN if it is missing,
        and None if it is not a number.
    unit : name of the column of the ids, or None without ids.
    text_columns : names of the chosen columns of a text file that are read as text, or None if only
        numbers are read. In a format with types, the types then decide how a column is read.
    recipe : recipe whose features the records have, or None for the columns as they are.
    layout : what is stated about the format of a text file.
    has_fixed_separator : as in `Reader`, known after the piece was opened.
    """

    path: str
    columns: Columns
    missing: Missing
    state: FileState | None
    n_rows: int | None = field(default=None, repr=False)
    groups: tuple[int, ...] | None = None
    before: int = field(default=0, repr=False)
    folders: Mapping[str, float | None] = field(default_factory=dict)
    unit: str | None = None
    text_columns: frozenset[str] | None = None
    recipe: Using | None = None
    layout: Layout = field(default_factory=Layout)
    has_fixed_separator: bool = field(default=True, repr=False)

    def open(self) -> Reader:
        """Return a reader of the piece, after a check of its schema. Raises DataError if it cannot
        be read, or lacks a chosen column.
        """
        if self.recipe is not None:
            plain = replace(
                self,
                recipe=None,
                columns=self.recipe.names,
                text_columns=self.recipe.text_names,
                missing=Missing.DROP,  # a gap becomes what the recipe says
            )
            return RecipeReader(plain.open(), self.recipe, self.path)
        own = self.columns
        if own is not None and own is not NUMERIC:
            own = [name for name in own if name not in self.folders]
        if self.unit in self.folders:
            raise DataError(
                f"{self.path}: column {self.unit!r} is in the names of folders; ids must be in the"
                " files"
            )
        open_it, more = opener(self.path), dict[str, Any]()
        layout = self.layout
        if self.text_columns is not None:
            is_array = open_it in (open_npy, open_npz)
            if self.text_columns and (is_array or self.text_columns & self.folders.keys()):
                raise DataError(
                    f"{self.path}: a column of a NumPy array, or one whose values are the names of"
                    " folders, is not read as text; write the records as CSV or Parquet, with"
                    " this column in the file"
                )
            if open_it is DelimitedFile:
                more["text_columns"] = self.text_columns
            elif not is_array:
                more["text_columns"] = frozenset(() if own is None or own is NUMERIC else own)
            # of cells of text, which all formats may have
            layout = msgspec.structs.replace(layout, decimal=None, thousands=None, missing_words=())
        if self.groups is not None:
            more["groups"] = self.groups
        if open_it is DelimitedFile:
            more["layout"] = self.layout
        else:
            check_no_layout(layout, self.path)
        reader = open_it(self.path, own, self.missing, self.unit, **more)
        return _InFolders(reader, self) if self.folders else reader

    def split(self) -> list[Piece]:
        """Return parts of about PIECE_CELLS cells if the format allows it, otherwise the piece
        alone.
        """
        if opener(self.path) is not open_parquet or self.groups is not None:
            return [self]
        parts, groups, before, n = list[Piece](), list[int](), 0, 0
        sizes, width = row_groups(self.path), len(self.open().columns)
        for group, size in enumerate(sizes):
            groups.append(group)
            n += size
            if n * width >= PIECE_CELLS or group == len(sizes) - 1:
                parts.append(replace(self, groups=tuple(groups), before=before, n_rows=n))
                groups, before, n = [], before + n, 0
        return parts


class _InFolders(Reader):
    """Reader of a file that adds columns from the names of folders."""

    def __init__(self, reader: Reader, piece: Piece) -> None:
        self.n_rows, self.n_ahead = reader.n_rows, reader.n_ahead
        self.place = reader.place  # type: ignore[method-assign]
        self.ids, self.has_fixed_separator = reader.ids, reader.has_fixed_separator
        self.names = (*reader.names, *piece.folders)
        if piece.columns is NUMERIC:
            self.columns = (
                *reader.columns,
                *(name for name, value in piece.folders.items() if value is not None),
            )
        else:
            self.columns = reader.columns if piece.columns is None else tuple(piece.columns)
        self._reader, self._folders = reader, {}
        for name in set(self.columns) - set(reader.columns):
            value = piece.folders[name]
            if name in reader.names:  # and in those of the first file not
                raise DataError(
                    f"{piece.path}: column {name!r} is both in the file and in the name of its"
                    " folder; remove one of them"
                )
            if value is None:
                raise DataError(
                    f"{piece.path}: column {name!r}, from the names of folders, is not a number in"
                    " all of them"
                )
            self._folders[name] = value

    def cells(self) -> Iterator[CellBlock]:
        """Yield the blocks of `Reader.cells`, with a column for each value that a folder's name
        states.
        """
        for block in self._reader.cells():
            cells = dict(zip(self._reader.columns, block.cells, strict=True))
            stated = {name: np.full(len(block), value) for name, value in self._folders.items()}
            yield CellBlock([(cells | stated)[name] for name in self.columns], block.ids)

    def blocks(self) -> Iterator[RealArray | ColumnBlock]:
        """Yield the blocks of the file, with a column for each value that a folder's name
        states.
        """
        if not self._folders:
            yield from self._reader.blocks()
            return
        for block in self._reader.blocks():
            arrays = (
                block.arrays if isinstance(block, ColumnBlock) else np.ascontiguousarray(block.T)
            )
            own = dict(zip(self._reader.columns, arrays, strict=True))
            stated = {name: np.full(len(block), value) for name, value in self._folders.items()}
            yield ColumnBlock([(own | stated)[name] for name in self.columns], ids_of(block))


def folders_of(path: str) -> dict[str, float | None]:
    """Return the columns in the names of the folders on a path, with their values.

    A value is NaN if it is missing, and None if it is not a number.
    """
    found: dict[str, float | None] = {}
    for part in PurePosixPath(path).parts[:-1]:
        name, equals, value = part.partition("=")
        if name and equals:
            found[unquote(name)] = math.nan if value == _NULL else None
            with suppress(ValueError):
                found[unquote(name)] = next(floats([unquote(value)]))
    return found
