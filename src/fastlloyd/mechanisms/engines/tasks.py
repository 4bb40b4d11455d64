"""What workers do with a piece: plain data that can be called. It holds no key, no noise and nothing of a store.

Nothing is raised on a worker, whose logs would quote what was at hand: what is wrong is returned, in one sentence.
"""

import platform
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path

from fastlloyd.base.arrays import IntArray
from fastlloyd.base.randomness import length_prefixed
from fastlloyd.clustering.domain import Domain, GridArray
from fastlloyd.clustering.grid_records import GridRecords, Outside
from fastlloyd.errors import FastLloydError
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.mechanisms.queries.query import Query
from fastlloyd.records.pieces import Piece
from fastlloyd.records.record_file import RecordFile


@cache
def code_digest() -> str:
    """SHA-256 of the package's source files and their names, hex: two machines with the same compute the same integers."""
    package = Path(__file__).parents[2]
    sources = {path.relative_to(package).as_posix(): path for path in package.rglob("*.py")}
    parts = (part for name, path in sorted(sources.items()) for part in (name.encode(), path.read_bytes()))
    return sha256(length_prefixed(*parts)).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The grid points of a piece in blocks, and how many of its records were clipped, or dropped before."""

    blocks: tuple[GridArray, ...] = field(repr=False)
    n_outside: int = field(repr=False)
    dropped: int = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The exact answer of a piece, int64 of the question's shape, and how many records gave it; the rest as of `Grid`."""

    answer: IntArray = field(repr=False)
    n: int = field(repr=False)
    n_outside: int = field(repr=False)
    dropped: int = field(repr=False)


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a piece, or with the worker it fell to: a sentence without a value of a record; host : where."""

    sentence: str
    host: str = field(default_factory=platform.node)


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfPiece:
    """What is done with a piece under a domain, by workers that run the very code of whoever asks (`code`)."""

    domain: Domain
    outside: Outside
    code: str = field(default_factory=code_digest)

    def _grid_records(self, piece: Piece) -> tuple[RecordFile, GridRecords]:
        """The records of a piece, not yet read."""
        records = RecordFile.of_piece(piece)
        return records, GridRecords(records, self.domain, self.outside, source=piece.path, kept_cells=0)

    def _fault(self) -> Fault | None:
        if self.code != code_digest():
            return Fault("the worker runs another version of fastlloyd than this command; install the same one on both")
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeGrid(_OfPiece):
    """Make the grid points of a piece, to be kept."""

    def __call__(self, piece: Piece) -> Grid | Fault:
        """The grid points, or what is wrong with the piece."""
        try:
            if fault := self._fault():
                return fault
            records, X = self._grid_records(piece)
            blocks = tuple(X)
            return Grid(blocks=blocks, n_outside=X.n_outside, dropped=records.dropped or 0)
        except Exception as error:  # noqa: BLE001 - see the module
            return _said(error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(_OfPiece):
    """Answer a query, from grid points that were kept or from a piece, which is read."""

    query: Query

    def __call__(self, piece: Piece | Grid | Fault) -> Tally | Fault:
        """The answer, or what is wrong with the piece."""
        try:
            if isinstance(piece, Fault):
                return piece
            if fault := self._fault():
                return fault
            if isinstance(piece, Grid):
                answer, n = LocalRecords(self.domain, piece.blocks).answer(self.query)
                return Tally(answer=answer, n=n, n_outside=piece.n_outside, dropped=piece.dropped)
            records, X = self._grid_records(piece)
            answer, n = LocalRecords(self.domain, X).answer(self.query)
            return Tally(answer=answer, n=n, n_outside=X.n_outside, dropped=records.dropped or 0)
        except Exception as error:  # noqa: BLE001 - see the module
            return _said(error)


def _said(error: Exception) -> Fault:
    if isinstance(error, FastLloydError):
        return Fault(str(error))
    if isinstance(error, MemoryError):
        return Fault("there is not enough memory on a worker")
    return Fault(f"fastlloyd failed on a worker with an unexpected {type(error).__name__}; please report what you ran")
