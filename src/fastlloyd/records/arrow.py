"""Columns of numbers in Arrow data, as blocks of floats.

Integers of all widths, float16, float32, float64, booleans (0 and 1) and decimals are accepted.
Large integers and long decimals are rounded to the nearest float64, like the same digits in a text
file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from fastlloyd.base.arrays import RealArray
from fastlloyd.base.names import listing
from fastlloyd.errors import DataError
from fastlloyd.records.arrow_ids import check_ids, ids_in
from fastlloyd.records.arrow_numbers import load, numbers, numbers_or_nan
from fastlloyd.records.arrow_texts import check_texts, own_cells
from fastlloyd.records.columns import Columns, chosen, unit_place
from fastlloyd.records.declared import Content, content
from fastlloyd.records.ids import Ids
from fastlloyd.records.reader import BLOCK_CELLS, Missing, Reader
from fastlloyd.records.table import ColumnBlock, with_ids
from fastlloyd.records.text_cells import CellBlock


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrowRecords(Reader):
    """Records in batches of Arrow.

    batches : function that yields the batches from the beginning, with at least the chosen columns.
    missing : treatment of records with null. If such records are dropped, batches without null take
        the same code path as batches with null.
    unit : name of the column of the ids, or () without ids.
    """

    source: str
    what: str  # "a Parquet file", for error messages
    names: tuple[str, ...]
    columns: tuple[str, ...]
    dtype: npt.DTypeLike
    floats: bool  # all columns are float32 or float64
    n_rows: int | None
    batches: Callable[[], Iterable[Any]]
    n_ahead: int = 1
    missing: Missing
    unit: tuple[str, ...] = ()
    ids: str | None = None
    text_columns: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        schema: Any,
        columns: Columns,
        batches: Callable[[tuple[str, ...]], Iterable[Any]],
        *,
        source: str,
        what: str,
        n_rows: int | None,
        missing: Missing,
        unit: str | None,
        text_columns: frozenset[str] = frozenset(),
    ) -> ArrowRecords:
        """Return the records with the chosen columns of a schema.

        batches : function that yields the batches with the columns of the given names.
        what : name of the format, for error messages.
        unit : name of the column of the ids, or None.
        text_columns : names of the chosen columns that are read as text. They hold text, categories
            of text, integers or dates.

        Raises DataError for a chosen column that is not numeric. The message names the numeric
        columns. Also raises DataError for ids that are neither text nor integers.
        """
        names, said = tuple(schema.names), list(map(content, schema.types))
        index = index_names(schema)
        indices = chosen(
            names, columns, source, "schema", lambda i: said[i].is_numbers, unit, index
        )
        for i in indices:
            if names[i] in text_columns:
                check_texts(schema.types[i], names[i], source)
            elif not said[i].is_numbers:
                numeric = [names[j] for j in range(len(names)) if said[j].is_numbers]
                raise no_numbers(source, names[i], said[i], numeric, choice=columns is None)
        taken = tuple(names[i] for i in indices)
        kinds = [schema.types[i] for i in indices if names[i] not in text_columns]
        at = unit_place(names, unit, source)
        of_ids = () if at is None else (names[at],)
        types = load("pyarrow.types", source)
        return cls(
            source=source,
            what=what,
            names=names,
            columns=taken,
            dtype=_dtype(kinds),
            floats=all(types.is_float32(kind) or types.is_float64(kind) for kind in kinds),
            n_rows=n_rows,
            batches=lambda: batches((*taken, *of_ids)),
            missing=missing,
            unit=of_ids,
            ids=None if at is None else check_ids(schema.types[at], names[at], source),
            text_columns=text_columns,
        )

    def blocks(self) -> Iterator[RealArray | ColumnBlock]:
        """Yield blocks (n_i, n_features) of about BLOCK_CELLS cells, with NaN for null.

        Batches of floats of about this length are yielded unchanged. Others are joined or cut, in
        column-major order.
        """
        size = max(1, BLOCK_CELLS // len(self.columns))
        for is_block, batches in groupby(
            map(self._arrays, self._sound_batches()), partial(self._is_block, size)
        ):
            if is_block:
                yield from map(self._as_it_is, batches)
            else:
                yield from self._joined(batches, size)

    def cells(self) -> Iterator[CellBlock]:
        """Yield each batch column by column, with NaN or the code -1 for null."""
        for arrays in map(self._arrays, self._sound_batches()):
            with errors(self.source, self.what):
                yield CellBlock(
                    [
                        own_cells(array, name, self.source)
                        if name in self.text_columns
                        else np.asarray(numbers_or_nan(array), dtype=np.float64)
                        for name, array in zip(self.columns, arrays, strict=False)
                    ],
                    self._ids([arrays]),
                )

    def _arrays(self, batch: Any) -> list[Any]:
        place = batch.schema.get_field_index
        return [batch.column(place(name)) for name in (*self.columns, *self.unit)]

    def _is_block(self, size: int, arrays: list[Any]) -> bool:
        return self.floats and max(1, size // 4) <= len(arrays[0]) <= size

    def _as_it_is(self, arrays: list[Any]) -> ColumnBlock:
        with errors(self.source, self.what):
            return ColumnBlock(
                [self._numbers(array) for array in arrays[: len(self.columns)]], self._ids([arrays])
            )

    def _joined(self, batches: Iterable[list[Any]], size: int) -> Iterator[RealArray | ColumnBlock]:
        block, filled, parts = (
            np.empty((len(self.columns), size), dtype=self.dtype),
            0,
            list[list[Any]](),
        )
        for arrays in batches:
            start, n_rows = 0, len(arrays[0])
            while start < n_rows:
                n = min(size - filled, n_rows - start)
                parts.append([array.slice(start, n) for array in arrays])
                with errors(self.source, self.what):
                    for row, part in zip(block, parts[-1], strict=False):
                        row[filled : filled + n] = self._numbers(part)
                start, filled = start + n, filled + n
                if filled == size:
                    yield with_ids(block.T, self._ids(parts))
                    block, filled, parts = np.empty_like(block), 0, []
        if filled:
            yield with_ids(block[:, :filled].copy().T, self._ids(parts))

    def _ids(self, parts: Iterable[list[Any]]) -> Ids | None:
        """Return the ids in the last column of the batches, or None without ids."""
        if not self.unit:
            return None
        with errors(self.source, self.what):
            return ids_in([arrays[-1] for arrays in parts])

    def _numbers(self, array: Any) -> npt.NDArray[Any]:
        return numbers(array) if self.missing is Missing.REFUSE else numbers_or_nan(array)

    def _sound_batches(self) -> Iterator[Any]:
        with errors(self.source, self.what):
            batches = iter(self.batches())
        while True:
            with errors(self.source, self.what):
                batch = next(batches, None)
                if batch is None:
                    return
                # lengths and offsets lie within the buffers, whatever a damaged file says
                batch.validate()
            yield batch


@contextmanager
def errors(source: str, what: str) -> Iterator[None]:
    """Convert pyarrow errors to DataError, because the messages of pyarrow may quote cells.

    what : name of the format, for error messages.
    """
    try:
        yield
    except DataError:
        raise
    except MemoryError:
        raise DataError(
            f"{source}: a piece of the file does not fit into memory, or the file is damaged;"
            " write it again, in smaller pieces"
        ) from None
    except (
        OSError,
        ValueError,
        TypeError,
        LookupError,
        OverflowError,
        NotImplementedError,
    ):  # ArrowException's are such
        raise DataError(
            f"{source}: not {what}, or one that is damaged or cut short; write it again"
        ) from None


def index_names(schema: Any) -> frozenset[str]:
    """Return the names of the columns that were the index of a pandas frame.

    A note in the schema names them.
    """
    with suppress(ValueError, TypeError, AttributeError, LookupError, RecursionError):
        said = json.loads((schema.metadata or {})[b"pandas"])["index_columns"]
        return frozenset(name for name in said if isinstance(name, str))
    return frozenset()


def no_numbers(
    source: str, name: str, said: Content, numeric: Sequence[str], *, choice: bool
) -> DataError:
    """Return the error for a column that has no numbers.

    said : content of the column.
    numeric : names of the numeric columns.
    choice : whether the user may choose other columns.
    """
    there = f"the numeric columns are {listing(numeric)}" if numeric else "no column is numeric"
    # who has chosen, or has a plan that did, is told which ones hold numbers and no option to
    # choose with
    way_out = f"choose other columns with --columns ({there})" if choice else there
    return DataError(
        f"{source}: column {name!r} holds {said.words}; {way_out}",
        code=said.holds.value,
        field=name,
    )


def _dtype(kinds: Sequence[Any]) -> npt.DTypeLike:
    """Return float32 if it represents every value of these types exactly, otherwise float64."""
    types = load("pyarrow.types", "Arrow")
    # bits of what float32 holds exactly
    widest = {types.is_boolean: 1, types.is_integer: 16, types.is_floating: 32}
    narrow = all(
        any(holds(kind) and kind.bit_width <= bits for holds, bits in widest.items())
        for kind in kinds
    )
    return np.float32 if narrow else np.float64
