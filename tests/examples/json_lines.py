"""Text files with one JSON object per line."""

import json
import math
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TypeGuard

import numpy as np

from fastlloyd.base.arrays import RealArray
from fastlloyd.errors import DataError
from fastlloyd.records.columns import Columns, chosen, unit_place
from fastlloyd.records.files import opened
from fastlloyd.records.ids import TextIds
from fastlloyd.records.reader import BLOCK_CELLS, Missing, Reader
from fastlloyd.records.table import ColumnBlock, with_ids


class JsonLinesFile(Reader):
    """Numeric columns of a text file with one JSON object per line. The first one tells the
    columns; null is a missing cell.
    """

    n_rows = None

    def __init__(self, path: str, columns: Columns, _missing: Missing, unit: str | None) -> None:
        self._path, self._unit = path, unit
        _, first = next(self._lines(), (0, {}))
        self.names = tuple(first)
        indices = chosen(
            self.names,
            columns,
            path,
            "first line",
            lambda i: _is_number(first[self.names[i]]),
            unit,
        )
        self.columns = tuple(self.names[i] for i in indices)
        unit_place(self.names, unit, path)
        self.ids = None if unit is None else TextIds.kind

    def blocks(self) -> Iterator[RealArray | ColumnBlock]:
        """Read the file from its beginning: float64 (n_i, n_features), NaN where a cell is
        missing.
        """
        lines, size = self._lines(), max(1, BLOCK_CELLS // len(self.columns))
        while block := list(islice(lines, size)):
            numbers = np.array(
                [
                    [self._number(line, cells, name) for name in self.columns]
                    for line, cells in block
                ]
            )
            yield with_ids(
                numbers,
                None if self._unit is None else TextIds.of([self._id(*row) for row in block]),
            )

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
                    raise DataError(
                        f'{self._path}, line {number}: not an object of JSON, such as {{"age": 61}}'
                    )
                yield number, cells

    def _number(self, line: int, cells: Mapping[str, object], name: str) -> float:
        cell = cells.get(name)
        if not _is_number(cell):
            raise DataError(
                f"{self._path}, line {line}, column {name!r}: not a number; correct the cell or"
                " choose others"
            )
        return math.nan if cell is None else float(cell)

    def _id(self, line: int, cells: Mapping[str, object]) -> bytes:
        cell = cells.get(str(self._unit), "")
        if not isinstance(cell, str):
            raise DataError(
                f"{self._path}, line {line}, column {self._unit!r}: ids are text; write them in"
                " quotation marks"
            )
        return cell.encode()


def _is_number(cell: object) -> TypeGuard[float | None]:
    return cell is None or isinstance(cell, bool | float)
