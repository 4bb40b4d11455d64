"""Numbers and ids in text, read by Arrow's parser if its result is certain to equal that of
Python's parser.

Both parsers round to the nearest float64. But Arrow's parser accepts text after a closing quotation
mark, line breaks within marks, and cells of any length. It also accepts bytes that are not UTF-8,
and a byte order mark at the start of a chunk. So text with any of these goes to Python's parser.
Arrow's result is used only if every cell is a finite number. If records with missing cells are
dropped, a cell may also be missing in a form that Arrow knows. An id that begins with a space goes
to Python's parser, which removes the space.
"""

from __future__ import annotations

import csv
import re
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from fastlloyd.records.arrow_ids import texts_in
from fastlloyd.records.arrow_numbers import load, numbers, numbers_or_nan
from fastlloyd.records.arrow_texts import text_cells
from fastlloyd.records.cells import PLAIN, WORDS, Notation
from fastlloyd.records.reader import Missing
from fastlloyd.records.table import ColumnBlock
from fastlloyd.records.text_cells import CellBlock

_MOST_THREADS = 8  # each has a chunk and its numbers in memory
# of all threads: Arrow keeps some kilobytes for each, most of them for the words below
_MOST_COLUMNS = 1 << 14


def _spelled(words: Collection[str]) -> list[str]:
    """Return the usual spellings of words for a missing cell: lower case, upper case and title
    case, each also with a space before it.
    """
    return sorted(
        {
            space + kind(word)
            for word in words
            for space in ("", " ")
            for kind in (str.lower, str.upper, str.title)
        }
    )


_MISSING = {Missing.REFUSE: [], Missing.DROP: [*_spelled(WORDS), "NaN", " NaN"]}

# a chunk, those that follow it, and its numbers
Parsed = tuple[bytes, Iterator[bytes], ColumnBlock | CellBlock | None]


class ArrowText:
    """Parser of text in lines that reads the chosen columns as numbers, and the ids of rows.

    delimiter : separator of cells.
    width : number of columns of the text, at least 2.
    chosen : positions of the columns to read.
    missing : treatment of missing cells.
    unit : position of the column of ids, or None.
    texts : positions of the chosen columns that are read as text.
    notation : notation of numbers and missing cells, without a mark of thousands.
    """

    def __init__(
        self,
        delimiter: str,
        width: int,
        chosen: Sequence[int],
        missing: Missing,
        unit: int | None = None,
        texts: Collection[int] = (),
        notation: Notation = PLAIN,
    ) -> None:
        self._pa, self._csv = load("pyarrow", "Arrow"), load("pyarrow.csv", "Arrow")
        names = list(map(str, range(width)))
        self._names, self._chosen, self._missing = names, [names[i] for i in chosen], missing
        of_ids = [] if unit is None else [names[unit]]
        self._texts = [names[i] for i in texts]
        words = notation.words - WORDS if missing is Missing.DROP else ()
        self._parsing = self._csv.ParseOptions(delimiter=delimiter)
        self._converting = self._csv.ConvertOptions(
            include_columns=[*self._chosen, *of_ids],
            column_types=dict.fromkeys(self._chosen, self._pa.float64())
            | dict.fromkeys([*of_ids, *self._texts], self._pa.string()),
            null_values=[*_MISSING[missing], *_spelled(words)],
            decimal_point=notation.decimal,
        )
        self._words = notation.words
        bare = notation._replace(words=frozenset())
        # a number that stands for a missing cell can be written in other ways, too
        self._sentinels = [
            float(bare.in_python([word])[0]) for word in notation.words if bare.is_number(word)
        ]
        mark = re.escape(delimiter.encode())
        self._separator = re.compile(rb"[%b\r\n]" % mark)
        self._quoted = re.compile(
            rb'"(?<![^%b\r\n]")[^"\r\n]*(?:""[^"\r\n]*)*"(?![^%b\r\n])' % (mark, mark)
        )

    def parsed(self, coming: Iterator[bytes]) -> Iterator[Parsed]:
        """Yield three things for each chunk: the chunk, the chunks after it, and the numbers in it.
        The numbers are None if Python's parser must read the chunk.

        Other threads parse the next chunks.
        """
        waiting = deque[tuple[bytes, Future[ColumnBlock | CellBlock | None]]]()
        n_threads = max(
            1, min(self._pa.cpu_count(), _MOST_THREADS, _MOST_COLUMNS // len(self._chosen))
        )
        with ThreadPoolExecutor(n_threads) as pool:
            try:
                for chunk in chain(coming, [None] * n_threads):
                    if chunk is not None:
                        waiting.append((chunk, pool.submit(self.parse, chunk)))
                    if len(waiting) > n_threads or (chunk is None and waiting):
                        first, found = waiting.popleft()
                        yield first, chain((chunk for chunk, _ in waiting), coming), found.result()
            finally:
                for _, unread in waiting:
                    unread.cancel()

    def parse(self, chunk: bytes) -> ColumnBlock | CellBlock | None:
        """Return the numbers in a chunk of lines, with NaN for a missing cell.

        Returns None if Python's parser must decide.
        """
        if not self._is_plain(chunk):
            return None
        reading = self._csv.ReadOptions(
            use_threads=False, block_size=len(chunk) + 1, column_names=self._names
        )
        try:
            table = self._csv.read_csv(
                self._pa.BufferReader(chunk), reading, self._parsing, self._converting
            )
        except (ValueError, self._pa.ArrowException):
            return None
        columns = [column.chunk(0) for column in table.columns]
        columns, of_ids = columns[: len(self._chosen)], columns[len(self._chosen) :]
        texts = {
            name: text_cells(column, self._words)
            for name, column in zip(self._chosen, columns, strict=True)
            if name in self._texts
        }
        columns = [
            column for i, column in zip(self._chosen, columns, strict=True) if i not in texts
        ]
        ids = texts_in(of_ids[0]) if of_ids else None
        if ids is not None and (
            (ids.missing() | ids.begin_with_a_space()).any()
            or (self._words and (text_cells(of_ids[0], self._words).codes < 0).any())
        ):
            return None
        arrays = self._finite(columns)
        if arrays is None:
            return None
        if not texts:
            return ColumnBlock(arrays, ids)
        left = iter(arrays)
        return CellBlock([texts[i] if i in texts else next(left) for i in self._chosen], ids)

    def _finite(self, columns: Sequence[Any]) -> list[npt.NDArray[np.float64]] | None:
        """Return the numbers of columns, or None if Python's parser must decide on one of them."""
        read = numbers if self._missing is Missing.REFUSE else numbers_or_nan
        arrays = list(map(read, columns))
        if self._sentinels and any(np.isin(array, self._sentinels).any() for array in arrays):
            return None
        if self._missing is Missing.REFUSE:
            return arrays if all(np.isfinite(array).all() for array in arrays) else None
        # other words for NaN are left to Python's parser
        n_missing = [np.count_nonzero(np.isnan(array)) for array in arrays]
        if n_missing != [column.null_count for column in columns] or any(
            np.isinf(array).any() for array in arrays
        ):
            return None
        return arrays

    def _is_plain(self, chunk: bytes) -> bool:
        """Return whether Arrow's and Python's parser split the chunk in the same way.

        They do if the chunk is UTF-8, no cell is too long, and every quotation mark is in its
        place. The search for long cells checks windows of text: a cell that is too long would fill
        a window, which then has no separator.
        """
        try:
            if not chunk.isascii() and chunk.decode().startswith("\ufeff"):
                return False
        except UnicodeDecodeError:
            return False
        marks = b'"' in chunk
        if marks and b'"' in self._quoted.sub(b"", chunk):
            return False
        window = csv.field_size_limit() // 2
        between = re.compile(rb"[\r\n]") if marks else self._separator
        return all(
            between.search(chunk, start, start + window)
            for start in range(0, len(chunk) - window, window)
        )
