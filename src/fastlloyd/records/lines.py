"""Chunks of whole lines of a text file, and their rows of cells, split as by Python's parser."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import chain, islice

from fastlloyd.errors import DataError
from fastlloyd.records.cells import is_header, is_missing, is_number
from fastlloyd.records.declared import LAYOUT
from fastlloyd.records.files import unpacked

_MARK = b"\xef\xbb\xbf"  # of UTF-8, before the first line
_UTF_8 = ("utf-8", "utf-8-sig")
_BYTES_END = re.compile(rb"\r\n|\r|\n")
_LINE_END = re.compile(r"\r\n|\r|\n")
_OPEN = (
    "the row does not end in its line, because a quotation mark stays open; take the mark out or"
    " close it, or, if a column of text has line breaks, export without that column, or as Parquet"
)

_Stream = io.BufferedReader | gzip.GzipFile
Row = tuple[int, list[str]]  # line number, cells


def chunks(path: str, sizes: Iterable[int], encoding: str | None = None) -> Generator[bytes]:
    """Yield the text of a file, in UTF-8, in chunks of whole lines.

    Marks of the byte order before the text are left out.

    sizes : approximate number of bytes of each chunk.
    encoding : codec of the file, or None for UTF-8.

    Raises DataError as `unpacked` does, and for bytes that the codec does not know.
    """
    with unpacked(path) as packed:
        stream = packed if encoding in (None, *_UTF_8) else _Decoded(packed, str(encoding), path)
        left = _read(stream, len(_MARK))
        while left.startswith(_MARK):
            left = left[len(_MARK) :]
            left += _read(stream, len(_MARK) - len(left))
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


class _Decoded:
    """Stream of text in another encoding, as UTF-8.

    The text is decoded before it is cut into lines, so line ends of any encoding are found.
    """

    def __init__(self, stream: _Stream, encoding: str, path: str) -> None:
        self._stream, self._encoding, self._path = stream, encoding, path
        self._decoder = codecs.getincrementaldecoder(encoding)("strict")

    def read1(self, size: int) -> bytes:
        """Return the next bytes of the text in UTF-8: at least one byte, or b"" at the end of the
        file.
        """
        while True:
            arrived = self._stream.read1(size)
            try:
                text = self._decoder.decode(arrived, not arrived).encode()
            except UnicodeError:
                raise DataError(
                    f"{self._path}: the text is not in {self._encoding}; state its encoding with"
                    " --encoding",
                    code=LAYOUT,
                    field="encoding",
                ) from None
            if text or not arrived:
                return text


def _read(stream: _Stream | _Decoded, size: int) -> bytes:
    """Return about `size` bytes as they arrive, or fewer at the end of the stream.

    A Ctrl-C between two arrivals takes effect at the next arrival.
    """
    arrived, left = list[bytes](), size
    while left > 0 and (part := stream.read1(left)):
        arrived.append(part)
        left -= len(part)
    return b"".join(arrived)


def without_lines(coming: Iterator[bytes], n: int) -> Iterator[bytes]:
    """Yield chunks of whole lines without the first n lines.

    coming : the chunks, from the first line on.
    """
    for chunk in coming:
        if not n:
            yield chunk
            continue
        ends = [match.end() for match in islice(_BYTES_END.finditer(chunk), n)]
        if rest := chunk[ends[-1] :] if ends else b"":
            yield rest
        n -= len(ends)


class RowSplitter:
    """Splitter of consecutive chunks of text into rows of cells, each with the number of its line.

    Blank lines are left out. In a table of one column, a blank line between records is a missing
    cell. The first row determines the number of columns. A record is one line. If a quotation mark
    stays open, a reader of CSV takes the following records as text of one cell, without any sign.
    So only a header may extend over several lines.

    delimiter : separator of cells.
    line : number of lines above the text.
    has_header : the first row may be a header.
    """

    def __init__(
        self, path: str, delimiter: str, *, line: int = 0, has_header: bool = True
    ) -> None:
        self.delimiter = delimiter
        self.width = 0
        self._path, self._line, self._blank, self._n_lines = path, line, 0, 0
        self._has_header = has_header

    def skip(self, chunk: bytes) -> None:
        """Count the lines of a chunk that another parser has split."""
        self._line += chunk.count(b"\n") + (
            chunk.count(b"\r") - chunk.count(b"\r\n") if b"\r" in chunk else 0
        )

    def every(self, coming: Iterator[bytes]) -> Iterator[Row]:
        """Yield the rows of all chunks in `coming`. Raises DataError if the text is not UTF-8, or
        if a line cannot be split into cells.
        """
        for chunk in coming:
            yield from self.of(chain([chunk], coming))

    def of(self, coming: Iterator[bytes]) -> Iterator[Row]:
        """Return the rows of the next chunk in `coming`. A header may need the chunk after it.

        Raises DataError if the text is not UTF-8, or if a line cannot be split into cells.
        """
        self._n_lines = 0
        text = self._lines(coming)
        reader = csv.reader(
            text, delimiter=self.delimiter, skipinitialspace=self.delimiter != " ", strict=True
        )
        before, last = self._line, 0
        try:
            for cells in reader:
                line, last = last + 1, reader.line_num
                if not cells:
                    self._blank = before + line
                else:
                    if last > line and (
                        self.width
                        or not self._has_header
                        or not _is_long_header(cells, self.delimiter)
                    ):
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
                raise DataError(
                    f"{self._path}: the text is not UTF-8; save it as UTF-8, or state its encoding"
                    " with --encoding, such as cp1252",
                    code=LAYOUT,
                    field="encoding",
                ) from None
            self._n_lines += len(lines)
            yield from lines


def _is_long_header(cells: Sequence[str], delimiter: str) -> bool:
    """Return whether a first row that extends over several lines is a header in which no record was
    swallowed.

    An open quotation mark may have swallowed a record. Such a record contains delimiters or, in a
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
