"""Rows of a source as the features of a recipe, block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import msgspec
import numpy as np

from fastlloyd.base.arrays import FloatArray, RealArray
from fastlloyd.errors import DataError
from fastlloyd.records.cells import as_word, as_words
from fastlloyd.records.day_cells import DayCells
from fastlloyd.records.declared import MISSING
from fastlloyd.records.ids import MISSING as NO_ID
from fastlloyd.records.ids import Ids
from fastlloyd.records.layout import Layout
from fastlloyd.records.reader import Reader
from fastlloyd.records.recipe.cells import CellNumbers, ColumnCells, cells_of
from fastlloyd.records.recipe.checks import DROP, ORDER, REFUSE
from fastlloyd.records.recipe.feature import Feature
from fastlloyd.records.recipe.here import Here
from fastlloyd.records.recipe.together import columns_of, order_of
from fastlloyd.records.recipe.ways import GridColumn, TextFormat, Way, way_of
from fastlloyd.records.table import ColumnBlock
from fastlloyd.records.text_cells import CellBlock, TextCells

UNKNOWN_CELL = "unknown-cell"


@dataclass(frozen=True, kw_only=True)
class Using:
    """Features of a recipe, with the names of their columns in one organisation's table.

    features : features in their order.
    here : facts about the organisation's own file.
    searched : keys of the features whose bounds are a range, in which bounds are to be found.
    """

    features: tuple[Feature, ...]
    here: Here = field(default_factory=Here, repr=False)
    searched: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the table's columns that the features need, without repetition."""
        return tuple(dict.fromkeys(self.here.column(each.key) for each in self.features))

    @property
    def text_names(self) -> frozenset[str]:
        """Names of the columns that are read as the text in the file."""
        return frozenset(
            self.here.column(each.key) for each in self.features if each.is_read_as_text
        )

    @property
    def is_per_person(self) -> bool:
        """Return whether the rows of a person become one record."""
        return any(each.per_person is not None for each in self.features)

    @property
    def drops_records(self) -> bool:
        """Return whether a missing cell of some feature drops the record."""
        return any(each.missing == DROP for each in self.features)

    @cached_property
    def columns(self) -> tuple[GridColumn, ...]:
        """Columns that are clustered. They are the columns of the grid."""
        return columns_of(self.features)

    @cached_property
    def used(self) -> tuple[tuple[Feature, Way], ...]:
        """Features that are clustered, each with the object that converts its cells to numbers."""
        return tuple((each, way_of(each)) for each in self.features if each.role != ORDER)

    @property
    def order(self) -> str | None:
        """Key of the date that orders a person's rows, or None."""
        return order_of(self.features) if self.is_per_person else None

    @property
    def choices(self) -> tuple[str, ...]:
        """Choice of `Feature.per_person` for each column of the grid."""
        return tuple(
            feature.per_person or "mean" for feature, way in self.used for _ in way.columns
        )

    def written_as(self, layout: Layout) -> Using:
        """Return the same features for a file whose numbers are written as `layout` states."""
        marks = {name: getattr(layout, name) for name in ("decimal", "thousands", "missing_words")}
        return replace(self, here=msgspec.structs.replace(self.here, **marks))

    @cached_property
    def form(self) -> TextFormat:
        """Local form of numbers and dates in text."""
        dates = {each.key: each.date for each in self.features if each.date is not None}
        form = TextFormat(
            decimal=self.here.decimal or ".",
            thousands=self.here.thousands or "",
            dates=dates | self.here.dates,
        )
        gone = map(form.number, self._words)
        return form._replace(gone=frozenset(number for number in gone if number is not None))

    def cells(self, block: CellBlock, columns: Sequence[str]) -> dict[str, ColumnCells]:
        """Return the cells of each feature's column, by its key.

        block : columns of the source.
        columns : their names.
        """
        by_name = dict(zip(columns, map(self._present, block.cells), strict=True))
        return {each.key: by_name[self.here.column(each.key)] for each in self.features}

    def _present(self, cells: RealArray | TextCells | DayCells) -> ColumnCells:
        """Return the cells of a column, with missing cells marked.

        A cell is missing if it is a word for a missing value, or a number such as -999 that is
        stated as such a word.
        """
        words, numbers = self._words, self.form.gone
        if words and isinstance(cells, TextCells):
            cells = TextCells.coded(cells.texts, cells.codes, words)
        elif numbers and isinstance(cells, np.ndarray):
            cells = np.where(np.isin(cells, list(numbers)), np.nan, cells)
        return cells_of(cells)

    @cached_property
    def _words(self) -> frozenset[str]:
        return as_words(self.here.missing_words)

    def check_ids(self, ids: Ids | None, where: Callable[[int], str]) -> None:
        """Raise DataError for an id that is a word for a missing cell. The message shows no id.

        where : as in `numbers`.
        """
        words = self._words
        texts = ids.texts() if words and ids is not None else []
        gone = {text for text in set(texts) if as_word(text.decode(errors="replace")) in words}
        for row in (row for row, text in enumerate(texts) if text in gone):
            raise DataError(
                f"{where(row)}, column {self.here.unit_column!r}: {NO_ID}", code=MISSING
            )

    @property
    def row_names(self) -> tuple[str, ...]:
        """Names of the values of a row: those of the columns of the grid, then that of the date
        that orders a person's rows, if there is one.
        """
        order = () if self.order is None else (f"order by {self.order}",)
        return (*(column.name for column in self.columns), *order)

    def order_days(
        self, cells: Mapping[str, ColumnCells], where: Callable[[int], str]
    ) -> list[FloatArray]:
        """Return the days that order the rows of a person, as a list of one array, or [] if no date
        orders them.

        cells, where : as in `numbers`.
        """
        by = [each for each in self.features if each.key == self.order]
        return [self._known(each, way_of(each), cells, where).values for each in by]

    def numbers(
        self, cells: Mapping[str, ColumnCells], where: Callable[[int], str]
    ) -> list[FloatArray]:
        """Return the values for each column of the grid, in the column's units, NaN if missing.

        where : function that returns the place of a row for error messages, given the row's index
            from 0.

        Raises DataError for a cell that is not what the recipe says. The message shows no cell.
        """
        return [
            array
            for feature, way in self.used
            for array in way.numbers(self._known(feature, way, cells, where).values)
        ]

    def _known(
        self,
        feature: Feature,
        way: Way,
        cells: Mapping[str, ColumnCells],
        where: Callable[[int], str],
    ) -> CellNumbers:
        """Return the number that `way` finds for each cell. Raises DataError for a cell that the
        recipe does not know, unless the feature says what such a cell means.
        """
        column = self.here.column(feature.key)
        try:
            found = way.found(cells, self.form)
        except DataError as error:
            raise DataError(
                f"column {column!r}: {error}", code=error.code, field=feature.key
            ) from None
        if feature.other == REFUSE and found.unknown.any():
            row = int(found.unknown.argmax())
            raise DataError(
                f"{where(row)}, column {column!r}: {_REMEDY[feature.way]}",
                code=UNKNOWN_CELL,
                field=feature.key,
            )
        return found

    def features_of(
        self, numbers: Sequence[FloatArray], where: Callable[[int], str], gap: str
    ) -> list[FloatArray]:
        """Convert the values of each column from its units to the numbers that are clustered, NaN
        if the record is dropped.

        where : as in `numbers`.
        gap : words of the message about a missing cell that is refused.
        """
        arrays, left = list[FloatArray](), iter(zip(self.columns, numbers, strict=True))
        for feature, way in self.used:
            fills = way.gap() or [np.nan] * len(way.columns)
            for fill, (column, values) in zip(fills, left, strict=False):
                missing = np.isnan(values)
                if feature.missing == REFUSE and missing.any():
                    raise DataError(
                        f"{where(int(missing.argmax()))}, feature {feature.key!r}: {gap}",
                        code=MISSING,
                        field=feature.key,
                    )
                arrays.append(np.where(missing, fill, column.clustered(values)))
        return arrays


GAP = (
    "the cell is missing; fill it in, or agree on what replaces it: missing = a number,"
    ' "middle" or "drop"'
)
_REMEDY: Mapping[str | None, str] = {
    None: "not a number; correct the cell, or state how numbers are written (--decimal,"
    " --thousands, --missing-words)",
    "transform": "not a number; correct the cell, or state how numbers are written (--decimal,"
    " --thousands, --missing-words)",
    "values": 'no number is stated for this text; add it to values, or say other = "missing"',
    "categories": 'this text is none of the categories; add it, or say other = "none"',
    "date": "not a date of the stated format; correct the cell, or the format of dates",
}


class RecipeReader(Reader):
    """Features of a recipe, from the columns of another reader.

    If the rows of a person become one record, the reader yields the rows, not the records: numbers
    in the units of the columns, NaN if missing, with the order of the rows as the last column.
    `persons_of` makes the records.
    """

    def __init__(self, reader: Reader, using: Using, source: str) -> None:
        self.names, self.n_rows = reader.names, reader.n_rows
        self.n_ahead, self.ids = reader.n_ahead, reader.ids
        self.has_fixed_separator = reader.has_fixed_separator
        self.place = reader.place  # type: ignore[method-assign]
        self.columns = using.row_names
        self._reader, self._using, self._source = reader, using, source

    def blocks(self) -> Iterator[RealArray | ColumnBlock]:
        """Yield the features of each block. Raises DataError if the recipe refuses a cell."""
        using, before = self._using, 0
        for block in self._reader.cells():
            where = self._where(before)
            using.check_ids(block.ids, where)
            cells = using.cells(block, self._reader.columns)
            numbers = using.numbers(cells, where)
            if using.is_per_person:
                yield ColumnBlock([*numbers, *using.order_days(cells, where)], block.ids)
            else:
                yield ColumnBlock(using.features_of(numbers, where, GAP), block.ids)
            before += len(block)

    def _where(self, before: int) -> Callable[[int], str]:
        return lambda row: f"{self._source}, {self._reader.place(before + row + 1)}"
