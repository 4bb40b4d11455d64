"""Tasks that workers carry out on a part of the records.

A task is a callable made of plain data, without noise and without data of a store. It raises no
error, because the error in a worker's log could quote values of records. Instead it returns the
fault as one sentence.
"""

import platform
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fastlloyd.base.arrays import GridArray, IntArray
from fastlloyd.base.randomness import length_prefixed
from fastlloyd.clustering.domain import Domain
from fastlloyd.clustering.grid_records import GridRecords, Outside
from fastlloyd.clustering.outside import Clipped
from fastlloyd.errors import FastLloydError
from fastlloyd.mechanisms.answering import Asked, LocalRecords
from fastlloyd.records.pieces import Piece
from fastlloyd.records.record_file import Block, RecordFile, SeenRecords

Words = NDArray[np.uint64]
Summary = Callable[[Block], Words]
"""Function of a block of records in original units. Its results, of one shape for all blocks, are
added up modulo 2**64 while the records are read. The function is a callable made of plain
data, which can be pickled.
"""


@cache
def code_digest() -> str:
    """Return the SHA-256 of the names and contents of the package's source files, hex.

    Two machines with the same digest compute the same integers.
    """
    package = Path(__file__).parents[2]
    sources = {path.relative_to(package).as_posix(): path for path in package.rglob("*.py")}
    parts = (
        part
        for name, path in sorted(sources.items())
        for part in (name.encode(), path.read_bytes())
    )
    return sha256(length_prefixed(*parts)).hexdigest()


class Partition(Protocol):
    """Part of the records, which a worker opens.

    number : number of the part, from 0.
    """

    @property
    def number(self) -> int: ...  # noqa: D102 - see the class
    def open(self) -> RecordFile: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class FilePart:
    """Partition that is a piece of a file or of several files."""

    number: int
    piece: Piece

    def open(self) -> RecordFile:
        """Return the records of the piece. Raises DataError if it cannot be read."""
        return RecordFile.of_piece(self.piece)


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Facts noticed while a part of the records was read: the number of clipped and of dropped
    records, and a summary (`Summary`).

    Two findings can be added. The sum is for both parts together.
    """

    clipped: Clipped = field(default_factory=Clipped)
    dropped: int = field(default=0, repr=False)  # before
    summary: Words = field(default_factory=lambda: np.zeros((), dtype=np.uint64), repr=False)

    def __add__(self, other: "Findings") -> "Findings":
        """Return the findings of both parts together."""
        return Findings(
            clipped=self.clipped + other.clipped,
            dropped=self.dropped + other.dropped,
            summary=np.add(self.summary, other.summary),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Grid points of a part, in blocks.

    number : number of the part.
    found : facts noticed while the part was read.
    """

    number: int
    blocks: tuple[GridArray, ...] = field(repr=False)
    found: Findings


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Answer for one part of the records, int64, with the number n of records in the part and the
    facts noticed while reading it.
    """

    answer: IntArray = field(repr=False)
    n: int = field(repr=False)
    found: Findings


@dataclass(frozen=True, slots=True)
class Fault:
    """Fault in a part of the records, or of its worker.

    sentence : text of the error, without a value of a record.
    code, column : code and column of the error, or None.
    host : name of the worker's machine.
    """

    sentence: str
    code: str | None = None
    column: str | None = None
    host: str = field(default_factory=platform.node)


class _Reading:
    """Grid points of one part of the records, which are read on demand. Once all points have been
    read, `found` contains the `Findings`.
    """

    def __init__(self, task: "_OfPart", part: Partition) -> None:
        self._records, self._summarize = part.open(), task.summarize
        self._summary: Words = np.zeros((), dtype=np.uint64)
        seen = SeenRecords(self._records, None if task.summarize is None else self._add)
        self.points = GridRecords(
            seen, task.domain, task.outside, source=self._records.source, kept_cells=0
        )

    def _add(self, block: Block) -> None:
        if self._summarize is not None:
            self._summary = np.add(self._summary, self._summarize(block))

    @property
    def found(self) -> Findings:
        return Findings(
            clipped=self.points.clipped, dropped=self._records.dropped or 0, summary=self._summary
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfPart:
    """Task on a part of the records under a domain.

    code : digest of the caller's source files (`code_digest`). The worker's source files must have
        the same digest.
    """

    domain: Domain
    outside: Outside
    summarize: Summary | None = field(default=None, repr=False)
    code: str = field(default_factory=code_digest)

    def _fault(self) -> Fault | None:
        if self.code != code_digest():
            return Fault(
                "the worker runs another version of fastlloyd than this command; install the same"
                " one on both"
            )
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeGrid(_OfPart):
    """Task that converts a part of the records to grid points, which the worker keeps."""

    def __call__(self, part: Partition) -> Grid | Fault:
        """Return the grid points of the part. If the part has a fault, return the fault instead."""
        try:
            if fault := self._fault():
                return fault
            read = _Reading(self, part)
            return Grid(number=part.number, blocks=tuple(read.points), found=read.found)
        except Exception as error:  # noqa: BLE001 - see the module
            return _said(error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask(_OfPart):
    """Task that evaluates a sum over kept grid points, or over a part that the worker reads.

    firsts : position of the first record of each part among all records, or () before the records
        are counted.
    """

    asked: Asked = field(repr=False)
    firsts: tuple[int, ...] = field(default=(), repr=False)

    def __call__(self, part: Partition | Grid | Fault) -> Tally | Fault:
        """Return the sum over the part. If the part has a fault, return the fault instead."""
        try:
            if isinstance(part, Fault):
                return part
            if fault := self._fault():
                return fault
            first = self.firsts[part.number] if self.firsts else 0
            if isinstance(part, Grid):
                answer, n = LocalRecords(self.domain, part.blocks).total(self.asked, first)
                return Tally(answer=answer, n=n, found=part.found)
            read = _Reading(self, part)
            answer, n = LocalRecords(self.domain, read.points).total(self.asked, first)
            return Tally(answer=answer, n=n, found=read.found)
        except Exception as error:  # noqa: BLE001 - see the module
            return _said(error)


def _said(error: Exception) -> Fault:
    if isinstance(error, FastLloydError):
        return Fault(str(error), error.code, error.field)
    if isinstance(error, MemoryError):
        return Fault("there is not enough memory on a worker")
    return Fault(
        f"fastlloyd failed on a worker with an unexpected {type(error).__name__}; please report"
        " what you ran"
    )
