"""Chunks of whole lines of a text file, and their rows of cells, split as by Python's parser."""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import chain

from fastlloyd.errors import DataError
from fastlloyd.records.cells import is_header, is_missing, is_number
from fastlloyd.records.files import unpacked

HEADER_LENGTH = 1 << 14  # characters of a header that spans lines, looked at for the delimiter

_MARK = b"\xef\xbb\xbf"  # of UTF-8, before the first line
# a cell between quotation marks
_QUOTED = re.compile(r'(?:^|(?<=[,;\t\r\n])) *"[^"]*(?:""[^"]*)*(?:"|(?P<open>\Z))')
_LINE_END = re.compile(r"\r\n|\r|\n")
_OPEN = (
    "the row does not end in its line, because a quotation mark stays open; take the mark out or"
    " close it, or, if a column of text has line breaks, export without that column, or as Parquet"
)

Row = tuple[int, list[str]]  # line number, cells


def chunks(path: str, sizes: Iterable[int]) -> Generator[bytes]:
    """Yield the text of a file in chunks of whole lines. Raises DataError as `unpacked` does.

    sizes : approximate number of bytes of each chunk.
    """
    with unpacked(path) as stream:
        left = _read(stream, len(_MARK)).removeprefix(_MARK)
        for size in sizes:
            read = _read(stream, size)
            left += read
            # what a carriage return ends may go on with a line feed
            end = (left.rfind(b"\n") + 1 or left.rfind(b"\r", 0, -1) + 1) if read else len(left)
            if end:
                yield left[:end]
                left = left[end:]
            if not read:
                return


def _read(stream: io.BufferedReader | gzip.GzipFile, size: int) -> bytes:
    """Return `size` bytes as they arrive, or fewer at the end of the stream.

    A Ctrl-C between two arrivals takes effect at the next arrival.
    """
    arrived, left = list[bytes](), size
    while left and (part := stream.read1(left)):
        arrived.append(part)
        left -= len(part)
    return b"".join(arrived)


class RowSplitter:
    """Splitter of consecutive chunks of text into rows of cells, each with the number of its line.

    Blank lines are left out, but in a table of one column a blank line between records is a missing
    cell. The first row determines the delimiter and the number of columns. A record is one line. If
    a quotation mark stays open, a reader of CSV takes the following records as text of one cell,
    without any sign. So only a header may extend over several lines.
    """

    def __init__(self, path: str) -> None:
        self.delimiter = ""
        self.width = 0
        self._path, self._line, self._blank, self._n_lines = path, 0, 0, 0

    def skip(self, chunk: bytes) -> None:
        """Count the lines of a chunk that another parser has split."""
        self._line += chunk.count(b"\n") + (
            chunk.count(b"\r") - chunk.count(b"\r\n") if b"\r" in chunk else 0
        )

    def every(self, coming: Iterator[bytes]) -> Iterator[Row]:
        """Yield the rows of all chunks. Raises DataError."""
        for chunk in coming:
            yield from self.of(chain([chunk], coming))

    def of(self, coming: Iterator[bytes]) -> Iterator[Row]:
        """Return the rows of the next chunk. A header may need the chunk after it.

        Raises DataError.
        """
        self._n_lines = 0
        text = self._lines(coming)
        if not self.delimiter:
            start = _first_row(text)
            unquoted, text = _QUOTED.sub("", "".join(start)), chain(start, text)
            self.delimiter = next((character for character in ",;\t" if character in unquoted), ",")
        reader = csv.reader(text, delimiter=self.delimiter, skipinitialspace=True, strict=True)
        before, last = self._line, 0
        try:
            for cells in reader:
                line, last = last + 1, reader.line_num
                if not cells:
                    self._blank = before + line
                else:
                    if last > line and (self.width or not _is_long_header(cells, self.delimiter)):
                        raise DataError(f"{self._path}, line {before + line}: {_OPEN}")
                    if self._blank and self.width == 1:
                        yield self._blank, [""]
                    self.width, self._blank = self.width or len(cells), 0
                    yield before + line, cells
                if last == self._n_lines:
                    break
        except csv.Error:
            fault = (
                _OPEN
                if reader.line_num > last + 1
                else "a quotation mark has no partner, or a cell is far too long"
            )
            raise DataError(f"{self._path}, line {before + last + 1}: {fault}") from None
        self._line = before + last

    def _lines(self, coming: Iterator[bytes]) -> Iterator[str]:
        """Yield the lines of the chunks, which are read one after the other."""
        for chunk in coming:
            try:
                lines = list(io.StringIO(chunk.decode(), newline=""))
            except UnicodeDecodeError:
                raise DataError(f"{self._path}: the text is not UTF-8; save it as UTF-8") from None
            self._n_lines += len(lines)
            yield from lines


def _first_row(text: Iterable[str]) -> list[str]:
    """Return the lines up to the end of the first row that is not blank, or the first lines of a
    long row.

    They determine the delimiter.
    """
    lines: list[str] = []
    row = ""
    for line in text:
        lines.append(line)
        row += line if row or line.strip() else ""
        is_open = any(cell["open"] is not None for cell in _QUOTED.finditer(row))
        if (row and not is_open) or len(row) > HEADER_LENGTH:
            break
    return lines


def _is_long_header(cells: Sequence[str], delimiter: str) -> bool:
    """Return whether a first row that extends over several lines is a header without swallowed
    records.

    A quotation mark may have swallowed a record. Such a record contains its delimiters or, in a
    table of one column, a number or a missing cell.
    """
    if not is_header(cells):
        return False
    long = [cell for cell in cells if _LINE_END.search(cell)]
    if len(cells) > 1:
        return not any(delimiter in cell for cell in long)
    further = [line for cell in long for line in _LINE_END.split(cell)[1:]]
    return not any(
        is_number(line) or is_missing(line) or set(line) & set(",;\t") for line in further
    )
