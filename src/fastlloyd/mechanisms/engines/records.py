"""Records in parts, which the workers of an engine read."""

import os
import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from fastlloyd.base.arrays import IntArray
from fastlloyd.clustering.domain import Domain
from fastlloyd.clustering.grid_records import Outside
from fastlloyd.clustering.outside import Clipped
from fastlloyd.errors import DataError, EngineError
from fastlloyd.mechanisms.answering import NOTHING, Asked
from fastlloyd.mechanisms.engines.engine import Engine
from fastlloyd.mechanisms.engines.tasks import (
    Ask,
    Fault,
    FilePart,
    Findings,
    MakeGrid,
    Summary,
    Tally,
    Words,
)
from fastlloyd.mechanisms.queries.query import Query
from fastlloyd.records.pieces import Piece
from fastlloyd.records.record_file import RecordFile
from fastlloyd.records.stores import is_address

_POINT_BYTES = 4  # of a coordinate on the grid

Report = Callable[[int, int], None]


def silent(_done: int, _of: int) -> None:
    """Ignore a report of progress."""


class EngineRecords:
    """Records in parts that an engine's workers read, with the interface of `AllRecords`.

    Workers keep parts as grid points while there is room, and read the other parts again in each
    pass. A pass raises DataError if the records cannot be read or have changed, and EngineError if
    the engine fails. Any error of `report` ends the pass, too.

    clipped, dropped : as in `GridRecords` and `RecordFile`, after a complete pass.

    source : name of the records, for error messages.
    parts : the engine's handle of each `Partition`, in the order of their numbers.
    cells : for each part, an upper bound on its number of cells, or None if it is known only after
        reading.
    report : function of the number of finished parts and the number of all parts. It is called from
        time to time, and after each part.
    check_unchanged : function that raises DataError if the records have changed since the
        beginning.
    """

    share_bits: ClassVar[int] = 0

    def __init__(
        self,
        source: str,
        parts: Sequence[Any],
        cells: Sequence[int | None],
        domain: Domain,
        outside: Outside,
        engine: Engine,
        *,
        report: Report = silent,
        check_unchanged: Callable[[], None] = lambda: None,
    ) -> None:
        self.domain, self.clipped, self.dropped = domain, Clipped(), 0
        self.n: int | None = None
        self._source, self._outside, self._engine, self._report = source, outside, engine, report
        self._check_unchanged = check_unchanged
        self._parts, self._cells = parts, cells
        self._places, self._room = list(parts), 0
        self._sizes: list[int | None] = [None] * len(parts)

    @property
    def n_outside(self) -> int:
        """Number of records with a value outside the bounds. Do not publish it."""
        return self.clipped.n_outside

    @classmethod
    def of_files(
        cls,
        records: RecordFile,
        domain: Domain,
        outside: Outside,
        engine: Engine,
        report: Report = silent,
    ) -> "EngineRecords":
        """Return the records of a file, folder or pattern.

        Workers read the files under the same path as this process. Raises DataError for a pipe.
        """
        if not records.pieces:
            raise DataError(
                f"{records.source}: workers read files by their paths; write the records to a file"
            )
        pieces = [part for piece in records.pieces for part in _anywhere(piece).split()]
        parts = [FilePart(number, piece) for number, piece in enumerate(pieces)]
        cells = [_most_cells(piece, domain.n_features) for piece in pieces]
        check = records.check_unchanged
        return cls(
            records.source,
            parts,
            cells,
            domain,
            outside,
            engine,
            report=report,
            check_unchanged=check,
        )

    def answer(self, query: Query) -> tuple[IntArray, int]:
        """Return the exact answer and the number of records, in one pass."""
        return self.total(query)

    def count(self) -> int:
        """Return the number of records, in one pass of the workers."""
        return self.total(NOTHING)[1]

    def total(self, asked: Asked) -> tuple[IntArray, int]:
        """Return the sum of `asked` over the records, and the number of records, in one pass."""
        return self.look(asked)[:2]

    def look(self, asked: Asked, summarize: Summary | None = None) -> tuple[IntArray, int, Words]:
        """Return the sum of `asked` over the records, and the number of records. If `summarize` is
        given, also return the sum of its results over all blocks.

        With `summarize`, all records are read again. Raises DataError if the source changed between
        two passes, or contains no records.
        """
        self._check_unchanged()
        is_read = self.n is None or summarize is not None
        make = MakeGrid(domain=self.domain, outside=self._outside, summarize=summarize)
        if is_read:
            self._places, self._room = list(self._parts), self._engine.kept_bytes // _POINT_BYTES
            self._keep(
                make, ((i, cells) for i, cells in enumerate(self._cells) if cells is not None)
            )
        total, n, found = np.zeros(asked.shape, dtype=np.int64), 0, Findings()
        firsts = () if self.n is None else tuple(np.cumsum([0, *self._sizes])[:-1].tolist())
        ask = Ask(
            domain=self.domain,
            outside=self._outside,
            summarize=summarize,
            asked=asked,
            firsts=firsts,
        )
        for number, tally in self._tallies(ask):
            if self._sizes[number] not in (None, tally.n):
                raise DataError(
                    "the number of records changed between two passes; leave them alone while they"
                    " are read"
                )
            self._sizes[number] = tally.n
            total += tally.answer
            n, found = n + tally.n, found + tally.found
        self._check_unchanged()
        if not n:
            what = "every record has a missing cell" if found.dropped else "there are no records"
            raise DataError(f"{self._source}: {what}")
        self.n, self.clipped, self.dropped = n, found.clipped, found.dropped
        if is_read:
            sizes = (
                (i, (size or 0) * self.domain.n_features) for i, size in enumerate(self._sizes)
            )
            self._keep(make, ((i, cells) for i, cells in sizes if self._cells[i] is None))
        return total, n, found.summary

    def _keep(self, make: MakeGrid, cells: Iterable[tuple[int, int]]) -> None:
        """Let the workers keep parts as grid points, as long as there is room.

        cells : for each part to keep, its index and the largest number of its cells.
        """
        fitting = list[int]()
        for number, most in cells:
            if most <= self._room:
                self._room -= most
                fitting.append(number)
        made = self._engine.keep(make, [self._places[number] for number in fitting])
        for number, place in zip(fitting, made, strict=True):
            self._places[number] = place

    def _tallies(self, ask: Ask) -> Iterator[tuple[int, Tally]]:
        """Yield, once for each part, its index and its `Tally`."""
        left, of = set(range(len(self._places))), len(self._places)
        self._report(0, of)
        for came in self._engine.map(ask, self._places):
            if came is None:
                self._report(of - len(left), of)
                continue
            number, found = came
            if isinstance(found, Fault):
                raise DataError(
                    found.sentence
                    if found.host == platform.node()
                    else f"on worker {found.host}: {found.sentence}",
                    code=found.code,
                    field=found.column,
                )
            if number in left:
                left.remove(number)
                yield number, found
                self._report(of - len(left), of)
        if left:
            raise EngineError(
                f"{self._engine.name} left out pieces of the records; start the command again"
            )


def _anywhere(piece: Piece) -> Piece:
    """Return the piece with a path that does not depend on the working directory."""
    # keeps links
    if is_address(piece.path):
        return piece
    return replace(piece, path=os.path.abspath(piece.path))  # noqa: PTH100


def _most_cells(piece: Piece, n_features: int) -> int | None:
    """Return the largest number of cells that a piece can have, or None if it is known only after
    reading.

    For text, the shortest cells are assumed.
    """
    if piece.n_rows is not None:
        return piece.n_rows * n_features
    if piece.state is not None and not piece.path.lower().endswith(".gz"):
        return piece.state.size // 2  # a digit and what separates it from the next
    return None
