"""Text files with one JSON object per line."""

import json
import math
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TypeGuard

import numpy as np

from fastlloyd.base.arrays import RealArray
from fastlloyd.errors import DataError
from fastlloyd.records.columns import Columns, chosen
from fastlloyd.records.files import opened
from fastlloyd.records.reader import BLOCK_CELLS, Missing, Reader


class JsonLinesFile(Reader):
    """Numeric columns of a text file with one JSON object per line. The first one tells the columns; null is a missing cell."""

    n_rows = None

    def __init__(self, path: str, columns: Columns, _missing: Missing) -> None:
        self._path = path
        _, first = next(self._lines(), (0, {}))
        self.names = tuple(first)
        indices = chosen(self.names, columns, path, "first line", lambda i: _is_number(first[self.names[i]]))
        self.columns = tuple(self.names[i] for i in indices)

    def blocks(self) -> Iterator[RealArray]:
        """Read the file from its beginning: float64 (n_i, n_features), NaN where a cell is missing."""
        lines, size = self._lines(), max(1, BLOCK_CELLS // len(self.columns))
        while block := list(islice(lines, size)):
            yield np.array([[self._number(line, cells, name) for name in self.columns] for line, cells in block])

    def place(self, record: int) -> str:
        """Give the number of its line."""
        return f"line {next(islice(self._lines(), record - 1, None))[0]}"

    def _lines(self) -> Iterator[tuple[int, Mapping[str, object]]]:
        """The objects, each with the number of its line."""
        with opened(self._path) as text:
            for number, line in enumerate(text, 1):
                try:
                    cells = json.loads(line, parse_int=float)
                except (ValueError, RecursionError):
                    cells = None
                if not isinstance(cells, dict):
                    raise DataError(f'{self._path}, line {number}: not an object of JSON, such as {{"age": 61}}')
                yield number, cells

    def _number(self, line: int, cells: Mapping[str, object], name: str) -> float:
        cell = cells.get(name)
        if not _is_number(cell):
            raise DataError(f"{self._path}, line {line}, column {name!r}: not a number; correct the cell or choose others")
        return math.nan if cell is None else float(cell)


def _is_number(cell: object) -> TypeGuard[float | None]:
    return cell is None or isinstance(cell, bool | float)
