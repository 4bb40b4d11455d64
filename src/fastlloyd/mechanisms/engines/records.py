"""Records whose pieces an engine's workers pass over."""

import os
import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fastlloyd.base.arrays import IntArray
from fastlloyd.clustering.domain import Domain
from fastlloyd.clustering.grid_records import Outside
from fastlloyd.errors import DataError, EngineError
from fastlloyd.mechanisms.engines.engine import Engine
from fastlloyd.mechanisms.engines.tasks import Answer, Fault, MakeGrid, Tally
from fastlloyd.mechanisms.queries.query import Query
from fastlloyd.records.pieces import Piece
from fastlloyd.records.record_file import RecordFile
from fastlloyd.records.stores import is_address

_POINT_BYTES = 4  # of a coordinate on the grid


Report = Callable[[int, int], None]


def _silent(_done: int, _of: int) -> None:
    """Tell nobody."""


class EngineRecords:
    """`Records` of a file, folder or pattern, passed over by workers that reach it by the same path.

    As many pieces as fit are kept by the workers as grid points; the others are read anew in each pass. n_outside : as of
    `GridRecords`; a complete pass also sets `dropped` of the file. Raises DataError where the records come through a pipe; a
    pass raises what `RecordFile` and `GridRecords` raise, and EngineError. report : is told how many pieces of a pass are done,
    and of how many.
    """

    def __init__(self, records: RecordFile, domain: Domain, outside: Outside, engine: Engine, report: Report = _silent) -> None:
        if not records.pieces:
            raise DataError(f"{records.source}: workers read files by their paths; write the records to one")
        self.domain, self.n_outside = domain, 0
        self.n: int | None = None
        self._records, self._outside, self._engine, self._report = records, outside, engine, report
        pieces = [part for piece in records.pieces for part in _anywhere(piece).split()]
        kept = _fitting(pieces, engine.kept_bytes // _POINT_BYTES, domain.n_features)
        made = engine.keep(MakeGrid(domain=domain, outside=outside), [pieces[number] for number in kept])
        self._places: list[Any] = list(pieces)
        for number, place in zip(kept, made, strict=True):
            self._places[number] = place
        self._sizes: list[int | None] = [None] * len(pieces)

    def answer(self, query: Query) -> tuple[IntArray, int]:
        """See `Records`: one pass."""
        self._records.check_unchanged()
        total, n, n_outside, dropped = np.zeros(query.question.shape, dtype=np.int64), 0, 0, 0
        for number, tally in self._tallies(Answer(domain=self.domain, outside=self._outside, query=query)):
            if self._sizes[number] not in (None, tally.n):
                raise DataError("the number of records changed between two passes; leave the files alone while they are read")
            self._sizes[number] = tally.n
            total += tally.answer
            n, n_outside, dropped = n + tally.n, n_outside + tally.n_outside, dropped + tally.dropped
        self._records.check_unchanged()
        if not n:
            what = "every record has a missing cell" if dropped else "there are no records"
            raise DataError(f"{self._records.source}: {what}")
        self.n, self.n_outside, self._records.dropped = n, n_outside, dropped
        return total, n

    def _tallies(self, ask: Answer) -> Iterator[tuple[int, Tally]]:
        """What each piece says, once, with its number."""
        left = set(range(len(self._places)))
        for number, found in self._engine.map(ask, self._places):
            if isinstance(found, Fault):
                raise DataError(
                    found.sentence if found.host == platform.node() else f"on worker {found.host}: {found.sentence}"
                )
            if number in left:
                left.remove(number)
                yield number, found
                self._report(len(self._places) - len(left), len(self._places))
        if left:
            raise EngineError(f"{self._engine.name} left out pieces of the records; start the command again")


def _anywhere(piece: Piece) -> Piece:
    """The piece by a path that does not depend on the working directory."""
    return piece if is_address(piece.path) else replace(piece, path=os.path.abspath(piece.path))  # noqa: PTH100 - keeps links


def _fitting(pieces: Sequence[Piece], cells: int, n_features: int) -> list[int]:
    """Numbers of pieces that have no more cells than these together, however few characters a cell of text has."""
    kept = list[int]()
    for number, piece in enumerate(pieces):
        if piece.n_rows is not None:
            most = piece.n_rows * n_features
        elif piece.state is not None and not piece.path.lower().endswith(".gz"):
            most = piece.state.size // 2  # a digit and what separates it from the next
        else:
            continue
        if most <= cells:
            kept.append(number)
            cells -= most
    return kept
