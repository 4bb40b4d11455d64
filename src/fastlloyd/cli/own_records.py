"""A client's records in a run: what the first pass over them finds, how far a pass is, and its end when the owner stops it."""

import time
from collections.abc import Iterator, Sequence
from functools import cache

from fastlloyd.base.names import choose
from fastlloyd.cli.settings import Records
from fastlloyd.clustering.domain import Domain, GridArray
from fastlloyd.clustering.grid_records import Block, GridRecords, Outside
from fastlloyd.federation.fingerprint import Fingerprint, RecordsHash, sorted_fingerprint
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.mechanisms.queries.query import Query
from fastlloyd.records import Table

TRIED = 1 << 14  # records


class Stopped(Exception):  # noqa: N818 - nothing is wrong: the owner wants it
    """A pass was given up because its owner stops the process; the step that needed it never happened."""


class OwnRecords:
    """A client's records, kept on the grid where they are few, else read anew in every pass.

    answers : the `Records` of the session. n_outside, dropped : numbers of records, after the first pass: private.
    seconds : that the first pass took.
    """

    def __init__(self, records: Records, domain: Domain, outside: str) -> None:
        self.records = records
        self._hashed = _Hashed(records)
        self._grid = GridRecords(self._hashed, domain, choose(Outside, outside, "outside"), source=records.source)
        self.answers = LocalRecords(domain, self)
        self.seconds = 0.0
        self._n, self._since, self._is_stopped = 0, 0.0, False

    def look(self, key: bytes, rehearsed: Sequence[Query] = ()) -> Fingerprint:
        """Pass over all records for the first time: count them, find what is wrong with them, and their fingerprint.

        key : of the store. rehearsed : queries, of which the one that takes longest is answered, and the answer forgotten, so
        that the pass takes as long as the longest of a run. Raises DataError, and Stopped.
        """
        slowest = self._slowest(rehearsed)
        self._hashed.hash = known = RecordsHash(key, self.records.columns)
        begun = time.monotonic()
        if slowest is None:
            self.answers.count()
        else:
            self.answers.answer(slowest)
        self.seconds = time.monotonic() - begun
        self._hashed.hash = None
        table = self.records
        if not isinstance(table, Table):
            return Fingerprint(known.digest())
        return Fingerprint(known.digest(), cache(lambda: sorted_fingerprint(key, table.columns, table.values)))

    def _slowest(self, queries: Sequence[Query]) -> Query | None:
        """The query that takes longest for the first records; None if there is none."""
        if not queries:
            return None
        some = next(iter(self))[:TRIED]

        def seconds(query: Query) -> float:
            query.evaluate(some)  # compiled code is loaded
            begun = time.process_time()
            query.evaluate(some)
            return time.process_time() - begun

        return max(queries, key=seconds)

    @property
    def n_outside(self) -> int:
        """How many records have a value outside the bounds: private."""
        return self._grid.n_outside

    @property
    def dropped(self) -> int:
        """How many records were left out because a cell was missing: private."""
        return self.records.dropped or 0

    def stop(self) -> None:
        """Give up the pass that is under way, and every other, at the next block; from any thread."""
        self._is_stopped = True

    def progress(self, *, exact: bool) -> str:
        """How far the pass is that is under way, for people; exact : with the number of records so far, which is private."""
        if not self._since:
            return ""
        seconds = f", at the records for {time.monotonic() - self._since:.0f} s"
        return f"{seconds}: {self._n:,} (exact: NOT PRIVATE)" if exact else seconds

    def __iter__(self) -> Iterator[GridArray]:
        """One pass over the grid points of all records."""
        self._n, self._since = 0, time.monotonic()
        try:
            for block in self._grid:
                if self._is_stopped:
                    raise Stopped
                yield block
                self._n += len(block)
        finally:
            self._since = 0.0


class _Hashed:
    """Blocks of records, which are added to `hash` when they are read, if there is one."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self.n_rows, self.n_ahead, self.check, self.place = records.n_rows, records.n_ahead, records.check, records.place
        self.hash: RecordsHash | None = None

    def blocks_to_check(self) -> Iterator[Block]:
        for first, block in self._records.blocks_to_check():
            if self.hash is not None:
                self.hash.add(block)
            yield first, block
