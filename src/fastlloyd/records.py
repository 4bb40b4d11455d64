"""A client's records, read from a file and checked before anything is computed with them.

Whatever is wrong with a file is refused here, in one sentence that names file, line and column and never the value in
the cell: such sentences end up in logs, and a cell is a private value. Bounds are public: they come from what the user
states, never from records.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
import os
import re
import zlib
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import TextIO

import numpy as np
import numpy.typing as npt

from fastlloyd.errors import DataError
from fastlloyd.names import listing, refuse_repeated, unknown_name

_BLOCK_CELLS = 1 << 16  # cells held as text at a time: the memory needed beyond the table does not grow with the file
_MISSING = frozenset({"", "na", "nan", "null", "?"})
_GZIP_MAGIC = b"\x1f\x8b"

_Row = tuple[int, list[str]]  # line number, cells


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Table:
    """Records of one client: finite numbers in named columns. The values are private and stay out of the repr.

    values : float64 (n_records, n_features), read-only, at least one record; columns : n_features distinct names;
    source : where the records came from, for messages. Raises DataError if they do not fit together.
    """

    values: npt.NDArray[np.float64] = field(repr=False)
    columns: tuple[str, ...]
    source: str

    def __post_init__(self) -> None:
        values = np.asarray(self.values).view()
        values.flags.writeable = False
        object.__setattr__(self, "values", values)
        if values.dtype != np.float64 or values.ndim != 2 or 0 in values.shape:
            raise DataError(
                f"{self.source}: records must be a float64 matrix with at least one row and one column, got "
                f"{values.dtype} of shape {values.shape}"
            )
        if len(self.columns) != values.shape[1] or len(set(self.columns)) != len(self.columns):
            raise DataError(f"{self.source}: {values.shape[1]} distinct column names are needed, got {self.columns}")
        if not (finite := np.isfinite(values)).all():
            record, column = np.argwhere(~finite)[0]
            raise DataError(f"{self.source}, record {record + 1}, column {self.columns[column]!r}: not a finite number")


def read_table(path: str | os.PathLike[str], columns: Sequence[str] | None = None) -> Table:
    """Read the records in `path` with the reader that its suffix stands for; `columns` as in `read_csv`."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    if suffixes[-1:] == [".gz"]:
        suffixes.pop()
    reader = _READERS.get(suffixes[-1] if suffixes else "")
    if reader is None:
        raise DataError(f"{path}: the suffix must say the format: {', '.join(_READERS)}, or one of them followed by .gz")
    return reader(path, columns)


def read_csv(path: str | os.PathLike[str], columns: Sequence[str] | None = None) -> Table:
    """Read numeric columns of a CSV file in UTF-8, plain or compressed with gzip, with or without a header.

    Cells are separated by commas, or by semicolons or tabs if the first line has these and no comma. The first line is
    a header if no cell of it is a number; otherwise the columns are called x1, x2, ... Blank lines are passed over,
    except between the records of a table of one column, where they are missing cells. `columns` chooses columns by name
    and gives their order (None: all); what the other columns hold is ignored, but every row must have their cells.

    Raises DataError, naming file, line and column but never a value, if the file cannot be read or holds no records,
    if a row has too few or too many cells, or if a chosen cell is missing (empty, NA, NaN, null, ?), not a number or
    not finite.
    """
    source = str(path)
    with opened(Path(path)) as text:
        rows = _rows(text, source)
        first = next(rows, None)
        if first is None:
            raise DataError(f"{source}: the file is empty")
        names = [cell.strip() for cell in first[1]]
        if _is_header(names):
            where = source
            second = next(rows, None)
            if second is not None:
                _check_header(source, second[1])
                rows = chain([second], rows)
        else:
            where = f"{source} (no header in its first line)"
            names = [f"x{i}" for i in range(1, len(names) + 1)]
            rows = chain([first], rows)
        layout = _Layout(source, names, _chosen(names, columns, where))
        numbers = array("d")  # grows in place, so that the table is never held twice
        while block := list(islice(rows, max(1, _BLOCK_CELLS // len(names)))):
            numbers.frombytes(layout.numbers(block).tobytes())
    if not numbers:
        raise DataError(f"{source}: the file has a header and no records")
    values = np.frombuffer(numbers).reshape(-1, len(layout.chosen))
    return Table(values=values, columns=tuple(names[i] for i in layout.chosen), source=source)


_READERS: Mapping[str, Callable[[str | os.PathLike[str], Sequence[str] | None], Table]] = {
    ".csv": read_csv,
    ".tsv": read_csv,
    ".txt": read_csv,
}


@contextmanager
def opened(path: Path) -> Iterator[TextIO]:
    """Open a text file, unpacked if its content is gzip's; what file system and codecs raise becomes DataError."""
    try:
        with path.open("rb") as raw:
            packed = raw.peek(2)[:2] == _GZIP_MAGIC
            plain = gzip.GzipFile(fileobj=raw) if packed else raw
            with io.TextIOWrapper(plain, encoding="utf-8-sig", newline="") as text:
                yield text
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file") from None
    except IsADirectoryError:
        raise DataError(f"{path}: this is a folder; name a file") from None
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise DataError(f"{path}: the gzip file is damaged or cut short; copy it anew") from None
    except UnicodeDecodeError:
        raise DataError(f"{path}: the text is not UTF-8; save it as UTF-8") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None


def _rows(text: TextIO, source: str) -> Iterator[_Row]:
    """Split `text` into rows of cells, without the blank lines."""
    start = []  # up to the first line that is not blank, which tells the delimiter
    for line in text:
        start.append(line)
        if line.strip():
            break
    unquoted = re.sub(r'"[^"]*"', "", start[-1]) if start else ""
    delimiter = next((character for character in ",;\t" if character in unquoted), ",")
    reader = csv.reader(chain(start, text), delimiter=delimiter, skipinitialspace=True, strict=True)
    width = blank = 0
    try:
        for cells in reader:
            if not cells:
                blank = reader.line_num
                continue
            if blank and width == 1:
                yield blank, [""]  # in a table of one column a blank line between records is a missing cell
            yield reader.line_num, cells
            width, blank = width or len(cells), 0
    except csv.Error:
        raise DataError(
            f"{source}, line {reader.line_num} or before: a quotation mark has no partner, or a cell is far too long"
        ) from None


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where the chosen columns stand in a row: the names of all columns, and indices into them."""

    source: str
    names: Sequence[str]
    chosen: Sequence[int]

    def numbers(self, rows: Sequence[_Row]) -> npt.NDArray[np.float64]:
        """Return the chosen cells, float64, row after row. Raises DataError for the first fault."""
        width = len(self.names)
        cells = [cells[column] for _, cells in rows if len(cells) == width for column in self.chosen]
        if len(cells) == len(rows) * len(self.chosen):
            with suppress(ValueError):  # the block is gone through again, cell by cell, to say where
                numbers = np.fromiter(floats(cells), np.float64, len(cells))
                if np.isfinite(numbers).all():
                    return numbers
        raise DataError(next(self._faults(rows)))

    def _faults(self, rows: Sequence[_Row]) -> Iterator[str]:
        for line, cells in rows:
            if len(cells) != len(self.names):
                yield (
                    f"{self.source}, line {line}: the row has {len(cells)} cell(s) and the first row "
                    f"{len(self.names)}; look for a missing or stray separator"
                )
                continue
            hint = "; line 1 is a header only if none of its cells is a number" if line == 1 else ""
            for column in self.chosen:
                if fault := _fault(cells[column]):
                    yield f"{self.source}, line {line}, column {self.names[column]!r}: {fault}{hint}"


def _fault(cell: str) -> str:
    if _is_missing(cell):
        return "the cell is missing; fill it in or take the record out"
    if not _is_number(cell):
        return "not a number; choose numeric columns with --columns, or correct the cell"
    return "" if math.isfinite(float(cell)) else "not a finite number; correct the cell or take the record out"


def _is_header(cells: Sequence[str]) -> bool:
    return not any(_is_number(cell) or (cell and _is_missing(cell)) for cell in cells) and any(cells)


def _check_header(source: str, second: Sequence[str]) -> None:
    """Refuse a file whose first line would pass for names only because nothing in it is a number, as in no line after it.

    Names may be shown in messages; cells of a record may not.
    """
    if not any(_is_number(cell) or _is_missing(cell) for cell in second):
        raise DataError(
            f"{source}: no cell of the first two lines is a number; separate cells by commas, semicolons or tabs, "
            "and give at least one column of numbers"
        )


def _is_missing(cell: str) -> bool:
    return cell.strip().lower() in _MISSING


def _is_number(cell: str) -> bool:
    with suppress(ValueError):
        return bool(list(floats([cell])))
    return False


def floats(cells: Sequence[str]) -> Iterator[float]:
    """Convert decimal text; ValueError also for what only Python reads as a number: 1_000 and other scripts' digits."""
    text = "".join(cells)
    if "_" in text or not text.isascii():
        raise ValueError
    return map(float, cells)


def _chosen(names: Sequence[str], columns: Sequence[str] | None, source: str) -> list[int]:
    """Indices of `columns` among the header's `names`."""
    refuse_repeated([name for name in names if name], f"{source}, the header")
    if columns is None:
        if "" in names:
            raise DataError(f"{source}: column {names.index('') + 1} has no name; name it or choose others with --columns")
        return list(range(len(names)))
    if not columns:
        raise DataError(f"{source}: no columns are chosen; there are {listing(names)}")
    refuse_repeated(columns, "the chosen columns")
    index = {name: i for i, name in enumerate(names) if name}
    for name in columns:
        if name not in index:
            raise DataError(f"{source}: column {unknown_name(name, list(index))}")
    return [index[name] for name in columns]
