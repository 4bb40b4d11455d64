"""Functions that open the records at a path."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Final

from fastlloyd.base.names import listing
from fastlloyd.errors import DataError
from fastlloyd.records import files, stores
from fastlloyd.records.columns import NUMERIC, Columns
from fastlloyd.records.delimited import DelimitedFile
from fastlloyd.records.layout import Layout
from fastlloyd.records.pieces import Piece, folders_of, opener
from fastlloyd.records.reader import Missing, Reader
from fastlloyd.records.recipe.rows import Using
from fastlloyd.records.record_file import RecordFile
from fastlloyd.records.table import Table

LARGE_CELLS = 1 << 25  # 256 MiB of float64
LARGE_TEXT = 1 << 28  # bytes

STANDARD_INPUT = "-"
_LOGS: Final = {
    "_delta_log": "Delta Lake",
    ".hoodie": "Hudi",
    "metadata/*.metadata.json": "Iceberg",
}  # beside the files
_AT_ONCE = 16  # questions to a store, which takes its time to answer
_Named = Sequence[str] | None


def open_records(
    path: str | os.PathLike[str],
    columns: Columns = None,
    *,
    missing: Missing = Missing.REFUSE,
    unit: str | None = None,
    text_columns: frozenset[str] | None = None,
    recipe: Using | None = None,
    layout: Layout | None = None,
) -> RecordFile:
    """Open the files of a source, and check them without reading their records.

    The check finds out whether the files exist, have the format of their suffix, and have the
    columns.

    path : a file, a folder, a pattern with *, ?, [] or **, or an address in an object store
        (s3://bucket/visits/*.parquet). A folder stands for all files in it and below, except names
        that begin with . or _. The files of a source have one format. `-` is standard input: CSV,
        read once.
    columns : names of the chosen columns, in their order. None chooses all columns. NUMERIC chooses
        all columns of numbers. These follow from the types of the format or, for text, from the
        first records. Contents of other columns are ignored.
    missing : treatment of records with a missing cell.
    unit : name of the column of the ids, which tell the person of each record (`ids.Ids`). It is
        not a feature.
    text_columns : names of the columns to read as text, as in `Piece`. `RecordFile.cell_blocks`
        yields them.
    recipe : recipe whose features the records have. It then says what columns are chosen, and what
        a missing cell means; `columns` and `missing` are ignored.
    layout : what is stated about the format of text files, or None for the layout in the recipe.

    Raises DataError for an unknown suffix, a file that cannot be read, repeated or unknown names,
    and files that differ in format or columns. If the format has types, chosen columns that are not
    numbers raise DataError too.
    """
    source = os.fspath(path)
    if layout is None:
        layout = Layout() if recipe is None else recipe.here.layout
    if isinstance(columns, str):  # whose letters may be names of columns too
        raise DataError(
            f"the chosen columns are the text {columns!r}; pass a list of names, such as"
            f" [{columns!r}]"
        )
    if recipe is not None:
        columns = recipe.row_names
        gaps = recipe.drops_records or recipe.is_per_person
        missing = Missing.DROP if gaps else Missing.REFUSE
        recipe = recipe.written_as(layout)
    whole = Piece(
        path=source,
        columns=columns,
        missing=missing,
        state=None,
        unit=unit,
        text_columns=text_columns,
        recipe=recipe,
        layout=layout,
    )
    if source == STANDARD_INPUT:
        reader = replace(whole, path="/dev/stdin").open()
        return RecordFile(reader, "/dev/stdin", missing, unit=unit)
    states = files.find(source)
    if set(states) != {source}:  # who names a file means it
        _check_no_lake(states)
    _check_formats(source, states)
    first, *others = _pieces(whole, states)
    if first.state is None:
        if opener(source) is not DelimitedFile:
            raise DataError(
                f"{source}: this is not a regular file, which this format needs; write the records"
                " to a file"
            )
        return RecordFile(first.open(), source, missing, unit=unit)
    opened = first.open()
    pieces = [replace(_seen(first, opened), columns=opened.columns)]
    check = partial(_agreeing, first, opened)
    with ThreadPoolExecutor(_AT_ONCE) as openers:
        pieces += openers.map(check, (replace(piece, columns=opened.columns) for piece in others))
    return RecordFile(opened, source, missing, pieces, states, unit)


def _pieces(whole: Piece, states: files.States) -> list[Piece]:
    """Return a piece for each file, with the columns that are stated in the names of its folders
    below the source.

    whole : piece that stands for all files, whose path is the source.
    """
    source = whole.path
    base = len(stores.literal(source).rpartition("/")[0] if files.is_pattern(source) else source)
    stated = {path: folders_of(path[base:]) for path in states}
    text = {name for folders in stated.values() for name, value in folders.items() if value is None}
    first = next(iter(states))
    own = (
        set(_as_it_is(replace(whole, path=first)).open().names)
        if any(stated.values())
        else set[str]()
    )
    return [
        replace(
            whole,
            path=path,
            state=states[path],
            folders={
                name: None if name in text else value
                for name, value in folders.items()
                if name not in own
            },
        )
        for path, folders in stated.items()
    ]


def _as_it_is(piece: Piece) -> Piece:
    """Return the piece with all its numeric columns chosen. When this piece is opened, the names of
    all columns become known.
    """
    return replace(piece, columns=NUMERIC, unit=None, text_columns=None, recipe=None)


def _check_no_lake(paths: Iterable[str]) -> None:
    """Raise DataError if one of the files belongs to a table of a data lake.

    The log of such a table decides which files count.
    """
    folders = sorted(
        {
            folder
            for within in {os.path.dirname(path) for path in paths}  # noqa: PTH120
            for folder in _around(within)
        }
    )
    asked = [(folder, log) for folder in folders for log in _LOGS]
    with ThreadPoolExecutor(_AT_ONCE) as several:
        for (folder, log), found in zip(asked, several.map(_has_log, asked), strict=True):
            if found:
                raise DataError(
                    f"{folder}: this is a table of {_LOGS[log]}, whose files also contain deleted"
                    " records, and some records twice; write its present records to a separate"
                    " folder"
                )


def _around(folder: str) -> list[str]:
    """Return a folder and all folders that contain it. Folders whose names state a column are left
    out, because they are parts of a table.
    """
    if stores.is_address(folder):
        scheme, _, rest = folder.partition("://")
        here = PurePosixPath(rest)
        found = [f"{scheme}://{path}" for path in (here, *here.parents) if path.name]
    else:
        names = {
            Path(os.path.abspath(folder)),  # noqa: PTH100
            Path(folder).resolve(),
        }
        found = [str(path) for name in names for path in (name, *name.parents)]
    return [path for path in found if "=" not in PurePosixPath(path).name]


def _has_log(asked: tuple[str, str]) -> bool:
    folder, log = asked
    pattern = f"{glob.escape(folder)}/{log}"
    # the module glob takes absolute patterns, unlike Path.glob
    if stores.is_address(folder):
        return stores.is_there(pattern)
    return bool(glob.glob(pattern))  # noqa: PTH207


def _check_formats(source: str, paths: Iterable[str]) -> None:
    """Raise DataError for an unknown suffix, for two formats, or for a file and its compressed
    copy.
    """
    first, *others = every = list(paths)
    known = set(every)
    for path in others:
        if path.endswith(".gz") and (plain := path.removesuffix(".gz")) in known:
            stores.refuse_twice(plain, path)
        if opener(path) is not opener(first):
            raise DataError(
                f"{source}: {first} and {path} differ in format; choose the files of one"
                " format by a pattern such as *.csv"
            )
    opener(first)


def _agreeing(first: Piece, reader: Reader, piece: Piece) -> Piece:
    """Return the piece with its number of records, which is known after opening it.

    Raises DataError if its columns differ from those of the first piece.

    first, reader : the first piece and its reader.
    """
    asked_by_name = first.columns is not None and first.columns is not NUMERIC
    try:
        other = piece.open()
    except DataError as error:
        raise DataError(
            f"{error}; all files must have the same columns, and {first.path} has the chosen ones"
        ) from None
    if differing := set(other.names) ^ set(reader.names) if not asked_by_name else None:
        raise DataError(
            f"{first.path} and {piece.path} differ in their columns: only one has"
            f" {listing(sorted(differing))}; with --columns, choose columns that all files"
            " have, or pass only files that belong together"
        )
    if other.ids != reader.ids:
        raise DataError(
            f"{first.path} and {piece.path} differ in their ids: {reader.ids} and {other.ids};"
            " write all as text, or all as integers: 007 and 7 are two persons"
        )
    return _seen(piece, other)


def _seen(piece: Piece, reader: Reader) -> Piece:
    """Return the piece with its number of records and `has_fixed_separator`, which are known after
    opening it.
    """
    return replace(piece, n_rows=reader.n_rows, has_fixed_separator=reader.has_fixed_separator)


def read_table(
    path: str | os.PathLike[str],
    columns: _Named = None,
    *,
    missing: Missing = Missing.REFUSE,
    unit: str | None = None,
    layout: Layout | None = None,
) -> Table:
    """Return all records of a file at once.

    Parameters and errors are those of `open_records` and `RecordFile.blocks`.
    """
    return open_records(path, columns, missing=missing, unit=unit, layout=layout).table()


def table_or_file(
    path: str | os.PathLike[str],
    columns: _Named = None,
    *,
    missing: Missing = Missing.REFUSE,
    unit: str | None = None,
    layout: Layout | None = None,
) -> Table | RecordFile:
    """Return all records at once if they are few, otherwise the file, which is read in passes.

    Raises the errors of `read_table`.
    """
    return at_once_if_few(open_records(path, columns, missing=missing, unit=unit, layout=layout))


def at_once_if_few(file: RecordFile) -> Table | RecordFile:
    """Return all records at once if they are few, otherwise the file.

    Raises the errors of `RecordFile.table`.
    """
    return file if _is_large(file) else file.table()


def read_csv(
    path: str | os.PathLike[str],
    columns: _Named = None,
    *,
    missing: Missing = Missing.REFUSE,
    layout: Layout | None = None,
) -> Table:
    """Return all records of a text file, whatever its suffix (`DelimitedFile`)."""
    source = os.fspath(path)
    state = files.state(source)
    return RecordFile(
        DelimitedFile(source, columns, missing, None, layout=layout),
        source,
        missing,
        states=state and {source: state},
    ).table()


def _is_large(file: RecordFile) -> bool:
    """Return whether the chosen columns take more than some hundred megabytes as numbers.

    For text this is a guess from the sizes of the files.
    """
    if file.n_rows is not None:
        return file.n_rows * len(file.columns) > LARGE_CELLS
    sizes = (
        piece.state.size * (8 if piece.path.lower().endswith(".gz") else 1)
        for piece in file.pieces
        if piece.state
    )
    return sum(sizes) > LARGE_TEXT
