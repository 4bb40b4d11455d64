"""Trial of the possible ways to read a text file (readings). If none of them fits, or if several
give different values, the file is refused.

A reading fits if every line has the same number of cells, two or more, and every chosen cell is a
number or missing. A reading fits a file if it fits each line, given the first line. So one more
record can only make a reading fail, never make another reading fit. If a file is accepted with and
without some record, all other records are read in the same way. A record decides only whether the
file is refused. If readings with a decimal point and with a decimal comma both fit, no chosen cell
has a decimal mark, so both give the same values. Readings with different separators are never both
accepted.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, islice, tee

from fastlloyd.errors import DataError
from fastlloyd.records.cells import has_digits
from fastlloyd.records.columns import NUMERIC, Columns, chosen, numbered
from fastlloyd.records.declared import LAYOUT
from fastlloyd.records.first_line import (
    FirstLine,
    check_header,
    judge,
    misplaced,
    shape_fault,
    spaces_fault,
)
from fastlloyd.records.layout import NO, SEPARATORS, YES, Layout, Reading, alone, readings
from fastlloyd.records.lines import Row, RowSplitter, without_lines

_MARKED = re.compile(rb"[0-9][.,]|[.,][0-9]")  # a number with a decimal mark
LOOKED_AT = 100  # number of records that show the content of a column


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Choices of a reader of a text file.

    columns : names of the chosen columns, None for all columns, or NUMERIC.
    unit : name of the column of the ids, or None.
    text_columns : names of the chosen columns that are read as text.
    layout : what is stated about the format.
    """

    columns: Columns = None
    unit: str | None = None
    text_columns: frozenset[str] = frozenset()
    layout: Layout = field(default_factory=Layout)


class Trial:
    """One reading of a file, tried on its lines from the beginning.

    line : line number of the first row in the file.
    first : decision about the first row.
    below : some rows below the first row.
    chosen : positions of the chosen columns.
    measured : positions of the chosen columns whose cells are numbers.
    n_rows : number of rows that fit this reading.
    error : reason to refuse the file in this reading, or None.
    is_alone : whether no reading with another separator fits the first line.
    """

    line: int
    first: FirstLine

    def __init__(
        self, path: str, reading: Reading, wanted: Wanted, coming: Iterator[bytes]
    ) -> None:
        self.reading, self.n_rows, self.ended = reading, 0, False
        self.chosen, self.measured, self.below = list[int](), list[int](), list[list[str]]()
        self.error: DataError | None = None
        self.is_alone = True
        self._is_broken = self._is_empty = False
        self._path, self._wanted = path, wanted
        self._coming, self._splitter = begun(path, reading, wanted.layout, coming)
        self._rows: Iterator[Row] = iter(())
        self._cells: list[str] = []

    def start(self) -> bool:
        """Read the first row. Return whether it has as many cells as this reading needs.

        Raises DataError if it cannot be read.
        """
        self._rows = self._splitter.of(self._coming)
        row = next(self._rows, None)
        if row is None:
            return False
        self.line, self._cells = row
        return len(self._cells) > 1 or self.reading.is_stated

    @property
    def width(self) -> int:
        """Number of cells of the first row, 0 without rows."""
        return len(self._cells)

    def look(self) -> None:
        """Decide about the first line, and choose the columns. Raises DataError if that cannot be
        done.
        """
        head = self._head()
        self.below = [cells for _, cells in head]
        notation, wanted = self.reading.notation, self._wanted
        self.first = first = judge(self._cells, self.below, wanted.layout, notation)
        if fault := shape_fault([(self.line, self._cells), *head]):
            raise DataError(f"{self._path}: {fault}", code=LAYOUT, field="header")
        if first.is_header and wanted.layout.header is None and not wanted.text_columns:
            self._check_below()
        above = [] if first.is_header or first.doubt else [(self.line, self._cells)]
        self._rows = chain(above, head, self._rows)
        self._check_stated_header()
        where = self._path if first.is_header else f"{self._path} (no header in its first line)"
        try:
            self.chosen = chosen(
                first.names, wanted.columns, where, "header", self._is_number, wanted.unit
            )
        except DataError:
            if not first.doubt and not self._may_be_a_record():
                raise
            first = self.first
        names = first.names
        if wanted.layout.header is None and self.chosen:
            used = [*self.chosen, *(i for i, name in enumerate(names) if name == wanted.unit)]
            self.first = misplaced(first, used)
        self.measured = [i for i in self.chosen if names[i] not in wanted.text_columns]
        # a header alone fits: with one more record, this reading could be the only one
        self._is_empty = first.is_header and not head
        if not head and first.doubt and not self._fits(self._cells):
            self.check()

    def _check_stated_header(self) -> None:
        """Raise DataError if a first line that is stated to be a header has numbers, and lacks a
        column or has a name twice.

        The line may be a record, so the message shows no part of it.
        """
        wanted, names = self._wanted, self.first.names
        if wanted.layout.header != YES or not any(map(has_digits, names)):
            return
        columns = () if wanted.columns is None or wanted.columns is NUMERIC else wanted.columns
        used = [*columns, *([] if wanted.unit is None else [wanted.unit])]
        lacking = [f"lacks the column {name!r}" for name in used if name not in names]
        if len(set(names)) < len(names):
            lacking.append("has a name twice")
        if lacking:
            raise DataError(
                f"{self._path}: the first line {lacking[0]}, and has numbers; pass --header no if"
                " it is a record, or else correct the names",
                code=LAYOUT,
                field="header",
            )

    def _may_be_a_record(self) -> bool:
        """Return whether a header that lacks the chosen columns could be a record with missing
        cells there. If it could, note this doubt about the first line.

        If a record were above this line, the line would be read as a record, too. So the reading is
        not given up here.
        """
        wanted, names = self._wanted, numbered(self.width)
        if wanted.layout.header is not None or wanted.columns is NUMERIC:
            return False
        with suppress(DataError):
            self.chosen = chosen(names, wanted.columns, self._path, "header", unit=wanted.unit)
            self.measured = [i for i in self.chosen if names[i] not in wanted.text_columns]
            self.first = FirstLine(names, False, "has only missing cells in the chosen columns")
            return self._fits(self._cells)
        return False

    def _head(self) -> list[Row]:
        """Return some rows below the first row, up to the first row that cannot be split into
        cells.
        """
        n = LOOKED_AT if self._wanted.columns is NUMERIC else 1
        head: list[Row] = []
        try:
            head += islice(self._rows, n)
            for chunk in self._coming if len(head) < n else ():
                # the rows of this chunk that are not looked at here stay in the trial
                self._rows = self._splitter.of(chain([chunk], self._coming))
                head += islice(self._rows, n - len(head))
                if len(head) == n:
                    break
            head += islice(self._rows, LOOKED_AT - n)
        except DataError:
            if not head or self._wanted.columns is NUMERIC:
                raise
            self._is_broken = True
        return head

    def _check_below(self) -> None:
        """Raise DataError if neither the first line nor the line below has a number.

        Without a number in it, the first line would count as names of columns, which messages may
        show.
        """
        notation = self.reading.notation
        if self.below and not any(
            notation.is_missing(cell) or notation.is_number(cell) for cell in self.below[0]
        ):
            self.check_second_header(range(self.width))
            raise DataError(
                f"{self._path}: no cell of the first two lines is a number; state how cells are"
                " separated and decimals written with --separator and --decimal, and give at least"
                " one column of numbers"
            )

    def check_second_header(self, columns: Iterable[int]) -> None:
        """Raise DataError if the row below the header has words in some of these columns, and the
        next row has numbers there.
        """
        rows, notation = self.below[:2], self.reading.notation
        if len(rows) > 1 and {self.width} == set(map(len, rows)):
            below, after = rows
            if not any(has_digits(cell) for cell in below) and any(
                not (notation.is_missing(below[i]) or notation.is_number(below[i]))
                and has_digits(after[i])
                for i in columns
            ):
                raise DataError(
                    f"{self._path}: line {self.line + 1} may be a second header, because it has no"
                    " numbers, and the line below it has some; delete it, or delete the line"
                    " above it",
                    code=LAYOUT,
                    field="skip_lines",
                )

    def check(self) -> None:
        """Raise DataError if the first lines are not clear. The message shows no part of them."""
        check_header(self.first, self._path, self.line)
        if self._is_empty:
            raise DataError(f"{self._path}: the file has a header and no records")
        if self.first.is_header:
            self.check_second_header(self.measured)

    def _is_number(self, column: int) -> bool:
        """Return whether a column has numbers in the first records."""
        rows = [*self.below] if self.first.is_header else [self._cells, *self.below]
        cells = [cells[column] for cells in rows if len(cells) == self.width]
        notation = self.reading.notation
        return all(notation.is_missing(cell) or notation.is_number(cell) for cell in cells)

    def fits(self) -> bool:
        """Return whether the reading fits the rows up to the end of the chunk."""
        try:
            for _, cells in self._rows:
                if not self._fits(cells):
                    break
                self.n_rows += 1
            else:
                if not self._is_broken:
                    return True
        except DataError:
            pass
        self.forget()
        return False

    def _fits(self, cells: Sequence[str]) -> bool:
        notation = self.reading.notation
        return len(cells) == self.width and all(
            notation.is_number(cells[i]) or notation.is_missing(cells[i]) for i in self.measured
        )

    def forget(self) -> None:
        """Drop the references to chunks, which other trials may still read."""
        self._coming, self._rows = iter(()), iter(())

    def advance(self, *, by_decimals: bool) -> None:
        """Go to the next chunk.

        by_decimals : whether only a number with a decimal mark can still decide between the
            readings.
        """
        for chunk in self._coming:
            if by_decimals and not _has_decimals(chunk):
                self._splitter.skip(chunk)
                continue
            self._rows = self._splitter.of(chain([chunk], self._coming))
            return
        self._rows, self.ended = iter(()), True


def _has_decimals(chunk: bytes) -> bool:
    """Return whether a number in a chunk may have a decimal mark."""
    return (b"," in chunk or b"." in chunk) and bool(_MARKED.search(chunk))


def begun(
    path: str, reading: Reading, layout: Layout, coming: Iterator[bytes]
) -> tuple[Iterator[bytes], RowSplitter]:
    """Return the chunks of a file without the lines to skip, and a splitter that divides these
    chunks into rows.

    coming : chunks of the file from its beginning.
    """
    splitter = RowSplitter(
        path, reading.separator, line=layout.skip_lines, has_header=layout.header != NO
    )
    return without_lines(coming, layout.skip_lines), splitter


def settled(path: str, wanted: Wanted, coming: Iterator[bytes], *, once: bool) -> Trial:
    """Return the `Trial` for the only way to read the file that fits its lines.

    Lines are read until only one way is left. If every way fails at some line, the error is that of
    the way that fitted the most rows.

    coming : chunks of the file from its beginning.
    once : the chunks cannot be read again, so the first of them must decide.

    Raises DataError if no way to read the file fits, or if several do. Also raises DataError if it
    is not clear whether the first line is a header or a record, or if a chosen column is missing.
    """
    possible = readings(wanted.layout, path)
    *copies, other, first = tee(coming, len(possible) + 2)
    _check_text(path, next(without_lines(first, wanted.layout.skip_lines), b""))
    del first
    trials = [
        Trial(path, reading, wanted, copy) for reading, copy in zip(possible, copies, strict=True)
    ]
    del copies
    every, trials = trials, list(filter(_starts, trials))
    errors = [trial.error for trial in every if trial.error is not None]
    del every
    if not trials:
        found = _of_one_column(path, wanted, other, errors)
    elif len(trials) == 1:
        found = trials[0]
    else:
        del other
        marks = {trial.reading.separator for trial in trials}
        for trial in trials:
            trial.is_alone = len(marks) == 1
        found = _only(path, _left(trials, once=once), trials)
        if found.error is not None:
            raise found.error
        found.check()
        return found
    found.look()
    found.check()
    return found


def _starts(trial: Trial) -> bool:
    try:
        return trial.start()
    except DataError as error:
        trial.error = error
    return False


def _check_text(path: str, chunk: bytes) -> None:
    """Raise DataError if the first chunk is not text, or begins with a note for Excel."""
    if b"\0" in chunk:
        raise DataError(
            f"{path}: the text is not UTF-8, because it has zero bytes; if it is UTF-16, pass"
            " --encoding utf-16",
            code=LAYOUT,
            field="encoding",
        )
    if chunk.lstrip(b'\r\n "')[:4].lower() == b"sep=":
        raise DataError(
            f"{path}: the first line is a note for Excel, not a header; delete it, or pass"
            " --skip-lines 1",
            code=LAYOUT,
            field="skip_lines",
        )


def _of_one_column(
    path: str, wanted: Wanted, coming: Iterator[bytes], errors: Sequence[DataError]
) -> Trial:
    """Return the trial of a file whose first line has one cell.

    errors : errors of the readings with several columns, which could not read the first line.

    Raises DataError if the lines below have more cells. Otherwise raises the first of `errors`, if
    there is any.
    """
    layout = wanted.layout
    for error in errors:
        if error.field == "encoding":
            raise error
    if layout.separator is not None:
        reading = readings(layout, path)[0]
    else:
        reading, (coming, peeked) = alone(layout), tee(coming)
        chunk = next(without_lines(peeked, layout.skip_lines), b"")
        del peeked
        text = io.StringIO(chunk.decode(errors="replace"), newline="")
        lines = list(islice(text, LOOKED_AT))
        faults = [spaces_fault(lines), *(shape_fault(_split(lines, mark)) for mark in SEPARATORS)]
        for fault in filter(None, faults):
            of = "separator" if fault == faults[0] else "skip_lines"
            raise DataError(f"{path}: {fault}", code=LAYOUT, field=of)
    if errors:
        raise errors[0]
    trial = Trial(path, reading, wanted, coming)
    trial.start()
    if not trial.width:
        raise DataError(f"{path}: the file is empty")
    return trial


def _split(lines: Sequence[str], separator: str) -> list[Row]:
    """Split the first lines of a file into rows. Return the rows before the first line that cannot
    be split.
    """
    reader, rows = csv.reader(lines, delimiter=separator, strict=True), list[Row]()
    with suppress(csv.Error):
        for cells in reader:
            if cells:
                rows.append((reader.line_num, cells))
    return rows


def _only(path: str, left: Sequence[Trial], trials: Sequence[Trial]) -> Trial:
    """Return the trial that is left, or, if none is left, the trial that fitted the most rows.

    Raises DataError if trials with different separators are left.
    """
    if not left:
        return max(trials, key=lambda trial: (trial.error is None, trial.n_rows))
    marks = {trial.reading.separator for trial in left}
    names = [name for mark, name in SEPARATORS.items() if mark in marks]
    if len(names) > 1:
        raise DataError(
            f"{path}: cells could be separated by {' or '.join(names)},"
            " because all lines fit each of these; pass --separator, and --decimal if decimals"
            " have commas",
            code=LAYOUT,
            field="separator",
        )
    # of columns of numbers only a proposal is made: the notation that reads more of them
    return max(left, key=lambda trial: len(trial.chosen))


def _left(trials: Sequence[Trial], *, once: bool) -> list[Trial]:
    """Return the trials that fit all lines.

    Reading stops as soon as at most one trial is left. This trial may still fail at a later line.

    once : whether only the first chunk is read.
    """
    left = list[Trial]()
    for trial in trials:
        try:
            trial.look()
            left.append(trial)
        except DataError as error:
            trial.error = error
            trial.forget()
    while len(left := [trial for trial in left if trial.fits()]) > 1 and not once:
        by_decimals = len({trial.reading.separator for trial in left}) == 1
        for trial in left:
            trial.advance(by_decimals=by_decimals)
        if all(trial.ended for trial in left):
            break
    return left
