"""A client's records in a run: what the first pass over them finds, how far a pass is, and its end
when the owner stops it.
"""

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from fastlloyd.base.arrays import GridArray
from fastlloyd.base.names import choose
from fastlloyd.clustering.domain import Domain
from fastlloyd.clustering.grid_records import GridRecords, Outside
from fastlloyd.clustering.outside import Clipped
from fastlloyd.federation.fingerprint import (
    Fingerprint,
    PersonsHash,
    RecordsHash,
)
from fastlloyd.mechanisms.answering import NOTHING, AllRecords, Asked, LocalRecords, SharedRecords
from fastlloyd.mechanisms.passes.records import PersonsInPasses
from fastlloyd.mechanisms.private_run import AnyRun
from fastlloyd.mechanisms.queries.query import Query
from fastlloyd.records import RecordFile, Table
from fastlloyd.records.ids import Ids
from fastlloyd.records.record_file import Block, SeenRecords

if TYPE_CHECKING:
    from fastlloyd.mechanisms.engines.engine import Engine
    from fastlloyd.mechanisms.engines.records import EngineRecords

Records = Table | RecordFile
TRIED = 1 << 14  # records


class Stopped(Exception):  # noqa: N818 - nothing is wrong: the owner wants it
    """A pass was given up because its owner stops the process; the step that needed it never
    happened.
    """


class OwnRecords:
    """A client's records, kept on the grid where they are few, else read anew in every pass, here
    or by an engine's workers.

    answers : the `Records` of the session; where persons are protected, their records with shares
    after the first pass. clipped, dropped : numbers of records, after the first pass: private.
    seconds : that the last pass took.
    """

    def __init__(
        self,
        records: Records,
        domain: Domain,
        outside: str,
        workers: "Engine | None" = None,
        *,
        of: AnyRun | None = None,
    ) -> None:
        """of : the mechanism that says how shares are spread, where `records` has the ids of
        persons.
        """
        treatment = choose(Outside, outside, "outside")
        self.records = records
        self._seen = SeenRecords(records)
        self._grid = GridRecords(self._seen, domain, treatment, source=records.source)
        self._far = self._passed_over_by(workers, domain, treatment)
        self.domain, self._of = domain, of
        self.answers = self._answering()
        self.seconds = 0.0
        self._how_far, self._since, self._is_stopped = "", 0.0, False

    def look(self, key: bytes, rehearsed: Sequence[Query] = ()) -> Fingerprint:
        """Pass over all records for the first time: count them, find what is wrong with them, and
        their fingerprint.

        key : of the store. rehearsed : queries. The one that takes longest is answered, and the
        answer forgotten, so that the pass takes as long as the longest of a run. Raises DataError,
        and Stopped.
        """
        asked, table = self._slowest(rehearsed), self.records
        known = RecordsHash(key, table.columns)
        whose = PersonsHash(key, table.columns) if has_ids(table) else None
        self._first_pass(known, whose, asked)
        of_persons = None if whose is None else whose.digest()
        if not isinstance(table, Table):
            return Fingerprint(known.digest(), of_persons)
        if self._of is not None and table.ids is not None:
            (grid,) = self._grid
            self.answers = SharedRecords.of_persons(self._of, grid, table.ids.texts())
        return Fingerprint(known.digest(), of_persons)

    def _answering(self) -> AllRecords:
        if self._far is not None:
            return self._far
        if self._of is not None and isinstance(self.records, RecordFile) and has_ids(self.records):
            return PersonsInPasses(self, self._of, source=self.records.source)
        return LocalRecords(self.domain, self)

    def _passed_over_by(
        self, workers: "Engine | None", domain: Domain, outside: Outside
    ) -> "EngineRecords | None":
        if workers is None or isinstance(self.records, Table):
            return None
        from fastlloyd.mechanisms.engines.records import EngineRecords

        return EngineRecords.of_files(self.records, domain, outside, workers, self._report)

    def _first_pass(self, known: RecordsHash, whose: PersonsHash | None, asked: Asked) -> None:
        """Ask this of all records, and add them to the hashes."""
        if self._far is not None:
            begun = time.monotonic()
            _, n, sums = self._far.look(asked, known.lanes)
            known.add_sums(sums, n)
            self.seconds = time.monotonic() - begun
            return

        def see(block: Block) -> None:
            known.add(block)
            if whose is not None:
                whose.add(block)

        self._seen.see = see
        self.answers.total(asked)

    def _slowest(self, queries: Sequence[Query]) -> Asked:
        """The query that takes longest for the first records; nothing if there is none."""
        if not queries:
            return NOTHING
        some = next(iter(self))[:TRIED]

        def seconds(query: Query) -> float:
            query.evaluate(some)  # compiled code is loaded
            begun = time.process_time()
            query.evaluate(some)
            return time.process_time() - begun

        return max(queries, key=seconds)

    @property
    def clipped(self) -> Clipped:
        """Numbers of records and values outside the bounds: private."""
        return self._grid.clipped if self._far is None else self._far.clipped

    @property
    def dropped(self) -> int:
        """Number of records that were left out because a cell was missing: private."""
        return (self.records.dropped or 0) if self._far is None else self._far.dropped

    def stop(self) -> None:
        """Give up the pass that is under way, and every other, at the next block; from any
        thread.
        """
        self._is_stopped = True

    def progress(self, *, exact: bool) -> str:
        """Return the progress of the present pass, for people. exact : with the number of records
        so far, which is private.
        """
        if not self._since:
            return ""
        seconds = f", at the records for {time.monotonic() - self._since:.0f} s"
        return f"{seconds}: {self._how_far} (exact: NOT PRIVATE)" if exact else seconds

    def _report(self, done: int, of: int) -> None:
        """Hear how many parts of a pass workers have done."""
        if self._is_stopped:
            raise Stopped
        self._how_far = f"{done} of {of} pieces"
        if done == 0:
            self._since = self._since or time.monotonic()
        elif done == of:
            self._since = 0.0

    @property
    def are_kept(self) -> bool:
        """Return whether the points of the first pass are kept."""
        return self._grid.are_kept

    def with_ids(self) -> Iterator[tuple[GridArray, Ids | None]]:
        """One pass over the grid points of all records, and whose they are."""
        n, self._how_far, self._since = 0, "0", time.monotonic()
        try:
            for block, ids in self._grid.with_ids():
                if self._is_stopped:
                    raise Stopped
                yield block, ids
                n += len(block)
                self._how_far = f"{n:,}"
            self.seconds = time.monotonic() - self._since
        finally:
            self._since = 0.0

    def __iter__(self) -> Iterator[GridArray]:
        """One pass over the grid points of all records."""
        return (block for block, _ in self.with_ids())


def has_ids(records: Records) -> bool:
    """Return whether each row says whose it is."""
    return (records.ids if isinstance(records, Table) else records.unit) is not None
