"""Client of a run over a network: request, preparation, and its part in the run."""

import asyncio
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, ParamSpec, Protocol, TypeVar

from fastlloyd.base.compiling import n_compiled
from fastlloyd.base.names import choose
from fastlloyd.base.problems import Faults
from fastlloyd.clustering.grid_records import GridRecords, Outside
from fastlloyd.dp.noise import SystemNoise
from fastlloyd.errors import PlanError
from fastlloyd.federation.fingerprint import Fingerprint, PersonsHash, RecordsHash
from fastlloyd.federation.fingerprint_file import FingerprintFile
from fastlloyd.federation.holder import HoldersLedger
from fastlloyd.federation.identity.identity import PrivateIdentity, PublicIdentity
from fastlloyd.federation.ledger import Account, plan_cost
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.protocol.client import ClientSession
from fastlloyd.federation.runs import (
    DurableClient,
    KnownRecords,
    check_may_join,
    own_runs,
)
from fastlloyd.federation.store import Store
from fastlloyd.federation.transport.grpc.client import GrpcClient, check_connection
from fastlloyd.jobs.account import BudgetAccount
from fastlloyd.jobs.fingerprints import fingerprint_file
from fastlloyd.jobs.parties import check_store_exists, der, tls_identity
from fastlloyd.jobs.source import FileSource, TableSource
from fastlloyd.jobs.watching import RecordsFound, Watch, nobody
from fastlloyd.mechanisms.answering import NOTHING, AllRecords, Asked
from fastlloyd.mechanisms.engines.records import EngineRecords
from fastlloyd.mechanisms.private_run import AnyRun
from fastlloyd.mechanisms.queries.query import Query
from fastlloyd.records import Layout
from fastlloyd.records.recipe.rows import Using
from fastlloyd.records.record_file import Block

P = ParamSpec("P")
T = TypeVar("T")

N_TRIED: Final = 1 << 14
"""Number of records on which each query is timed, to find the slowest query."""


@dataclass(frozen=True, kw_only=True)
class ClientRequest:
    """Request of a client to take part in a run. Nothing is read or checked before `prepare`.

    plan : plan of the run.
    member : public identity of the client.
    account : data set, and the holder's ledger. The run is charged both to this ledger and to the
        client's store.
    store : file of the client's store. It is made if it does not exist.
    data : path of the records, as in `FileSource`.
    unit_column, missing, engine, layout : as in `FileSource`.
    outside : treatment of a value outside the bounds, "clip" or "refuse".
    fingerprints : file of fingerprints, by which records are recognised, or None for the file
        beside the records.
    are_fingerprints_lost : whether the owner confirms that fingerprints of earlier runs are lost.
    """

    plan: Plan
    member: PublicIdentity
    account: BudgetAccount
    store: Path
    data: str
    unit_column: str | None = None
    missing: str = "drop"
    outside: str = Outside.CLIP.value
    engine: str | None = None
    recipe: Using | None = None
    layout: Layout | None = None
    fingerprints: Path | None = None
    are_fingerprints_lost: bool = False

    def prepare(self, faults: Faults | None = None) -> "PreparedClient":
        """Open the records, and check the request. No budget is spent, and no file is made.

        faults : faults that the caller found before, or None.

        Raises Problems with every fault.
        """
        faults = Faults() if faults is None else faults
        m = self.plan.mechanism
        with faults.noted("unit_column"):
            check_unit_column(self.plan, self.unit_column)
        if m.persons is not None and self.unit_column is None and m.domain.recipe is not None:
            faults.check()  # other faults of the records would only follow from this one
        outside = faults.value(Outside.CLIP, lambda: choose(Outside, self.outside, "outside"))
        with faults.noted("store"):
            check_store_exists(self.plan, self.member.name, self.store)
            if not self.store.exists():
                # check before a store is made: a refused run would leave a new store in the place
                # of a lost one
                with faults.noted("dataset"):
                    self.check_budget(self.store)
        records = FileSource(
            path=self.data,
            features=None if self.recipe else list(m.domain.features),
            recipe=self.recipe,
            missing=self.missing,
            unit_column=self.unit_column,
            engine=self.engine,
            holds_keys=True,
            layout=self.layout,
        )
        source: TableSource | None = None
        with faults.noted("data"):
            source = records.open()
            source.check_layout(m.neighboring_relation)
            source.load()
        file = faults.value(
            FingerprintFile(Path()),
            lambda: fingerprint_file(self.data, self.fingerprints),
            "fingerprints",
        )
        faults.check()
        with faults.noted("fingerprints"):
            file.check()
        faults.check()
        if source is None:
            raise AssertionError("the source could not be opened, but no fault was noted")
        return PreparedClient(self, source, outside, file)

    def check_budget(
        self, store: Path | Store, watch: Watch = nobody
    ) -> list[tuple[Account, Account]]:
        """Return each account of the data set in the ledger twice, before and after the run.

        store : the client's store, or the path at which the store will be made.
        watch : function that receives the notes of the ledger.

        Raises BudgetError or StateError unless the ledger and the store allow the run.
        """
        dataset, run_id = self.account.dataset, bytes.fromhex(self.plan.run_id)
        cost = plan_cost(self.plan, dataset.rows_are)
        return self.account.holder(watch).rehearse(dataset, store, self.signing_key, cost, run_id)

    @property
    def signing_key(self) -> bytes:
        """Public key that verifies the client's signatures, 32 bytes."""
        return bytes.fromhex(self.member.signing_key)


def check_unit_column(plan: Plan, column: str | None) -> None:
    """Raise PlanError if the plan protects persons and no column of ids is given, or if it protects
    single records and a column is given.
    """
    m = plan.mechanism
    if m.persons is not None and column is None:
        raise PlanError(
            f"the plan protects {m.unit.many}, not single rows; name the column of ids in your"
            " records with --unit-column"
            + (", or pass --recipe with your file of [here]" if m.domain.recipe else "")
        )
    if m.persons is None and column is not None:
        raise PlanError(
            "the plan protects single records, not persons; leave out --unit-column, or agree on a"
            " plan made with --unit person"
        )


def at_once(work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call `work` in this thread, and return its result. It shows no progress."""
    return work(*args, **kwargs)


class Drive(Protocol):
    """Function that calls a slow function. It may show the progress of the call."""

    def __call__(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of calling `work` with these arguments."""


class PreparedClient(NamedTuple):
    """Client before anything is sent.

    request : request of the client.
    source : opened records.
    outside : treatment of a value outside the bounds.
    file : file of fingerprints.

    Methods take a `watch`, which receives events of the job, and a `drive` (`Drive`), with which
    they call functions that take long.
    """

    request: ClientRequest
    source: TableSource
    outside: Outside
    file: FingerprintFile

    @property
    def plan(self) -> Plan:
        """Plan of the run."""
        return self.request.plan

    def holder(self, watch: Watch) -> HoldersLedger:
        """Return the ledger of the holder. The run is charged both to this ledger and to the
        client's store.
        """
        return self.request.account.holder(watch)

    @contextmanager
    def joined(
        self,
        store: Store,
        identity: PrivateIdentity,
        watch: Watch = nobody,
        drive: Drive = at_once,
    ) -> Iterator[DurableClient]:
        """Read all records once, reserve the cost of the run, and yield the client that answers the
        server. If an earlier process began the run, the client continues it.

        store : store of the client.
        identity : private identity of the client.

        Raises the errors of `DurableClient.join`, and Stopped if the watch was stopped.
        """
        request, plan, dataset = self.request, self.plan, self.request.account.dataset
        name, holder = request.member.name, self.holder(watch)
        holder.check_counts(dataset, store.identity, bytes.fromhex(plan.run_id))
        if check_may_join(store, plan, name, dataset=dataset) is None:
            request.check_budget(store, watch)  # check before the long pass over the records
        known = self.file.opened(own_runs(store), are_lost=request.are_fingerprints_lost)
        with self.own_records(known.hash_key, watch) as own:
            records = KnownRecords(self.look(own, watch, drive), known, self.file)
            session = ClientSession(
                plan,
                name,
                own.answers,
                identity=identity.signing,
                noise=SystemNoise(),
                random_bytes=os.urandom,
            )
            yield DurableClient.join(
                session,
                store,
                identity.signing,
                dataset=dataset,
                records=records,
                holder=holder,
            )

    def own_records(self, key: bytes, watch: Watch) -> "AbstractContextManager[OwnRecords]":
        """Return a context that yields the client's records, prepared for its run.

        key : secret key of the fingerprint.
        """
        return own_records(self.source, self.plan.mechanism, self.outside, key, watch)

    def look(
        self, own: "OwnRecords", watch: Watch, drive: Drive, rehearsed: Sequence[Query] = ()
    ) -> Fingerprint:
        """Count the records, and return their fingerprint.

        rehearsed : as in `OwnRecords.look`.

        Raises DataError if there are more records than the client's cap in the plan.
        """
        found, source = drive(own.look, rehearsed), self.source
        client = self.plan.client(self.request.member.name)
        client.check_cap(own.answers.n or 0, self.plan.mechanism.unit)
        watch(RecordsFound(dropped=source.dropped, clipped=source.clipped, seconds=own.seconds))
        return found


@contextmanager
def own_records(
    source: TableSource, run: AnyRun, outside: Outside, key: bytes, watch: Watch = nobody
) -> "Iterator[OwnRecords]":
    """Context that yields the records of a client, prepared for its run.

    source : opened records.
    run : mechanism of the run.
    outside : treatment of a value outside the bounds.
    key : secret key of the fingerprint.
    watch : function that receives events of the job.
    """
    known = RecordsHash(key, source.columns)
    whose = PersonsHash(key, source.columns) if source.has_ids else None

    def see(block: Block) -> None:
        known.add(block)
        if whose is not None:
            whose.add(block)

    with source.answering(run, outside, watch, see) as answers:
        yield OwnRecords(source, run, answers, known, whose)


class OwnRecords:
    """Records of a client, prepared for its run.

    answers : object that answers the queries of the run.
    seconds : duration of the first pass. In a rehearsal whose first pass compiled code, it is the
        duration of a second pass. If persons are protected, one more pass computes the
        weights of rows (shares). Its time is not included.
    """

    def __init__(
        self,
        source: TableSource,
        run: AnyRun,
        answers: AllRecords,
        known: RecordsHash,
        whose: PersonsHash | None,
    ) -> None:
        self.answers, self.seconds = answers, 0.0
        self._source, self._run, self._known, self._whose = source, run, known, whose

    def look(self, rehearsed: Sequence[Query] = ()) -> Fingerprint:
        """Read all records for the first time: count and check them. Return their fingerprint.

        rehearsed : queries of a rehearsal. The slowest of them is answered in the pass, and the
            answer is discarded. So the pass takes as long as the longest pass of a run.

        Raises DataError, and Stopped if the watch was stopped.
        """
        answers = self.answers
        asked = slowest(rehearsed, self._source, self._run) if rehearsed else NOTHING
        if self._whose is not None:
            answers.count()  # computes the shares of all rows, in a separate pass
        begun, before = time.monotonic(), n_compiled()
        if isinstance(answers, EngineRecords):
            _, n, sums = answers.look(asked, self._known.lanes)
            self._known.add_sums(sums, n)
        else:
            answers.total(asked)
        self.seconds = time.monotonic() - begun
        found = Fingerprint(
            self._known.digest(), None if self._whose is None else self._whose.digest()
        )
        if rehearsed and n_compiled() > before:  # once per installation, and no part of a pass
            begun = time.monotonic()
            answers.total(asked)
            self.seconds = time.monotonic() - begun
        return found


def slowest(queries: Sequence[Query], source: TableSource, run: AnyRun) -> Asked:
    """Return the query that takes longest to answer. The times are measured on the first
    records.
    """
    records = source.records
    some = next(iter(GridRecords(records, run.domain, Outside.CLIP, source=records.source)))
    some = some[:N_TRIED]

    def seconds(query: Query) -> float:
        query.evaluate(some)  # loads compiled code
        begun = time.process_time()
        query.evaluate(some)
        return time.process_time() - begun

    return max(queries, key=seconds)


class Endpoint(NamedTuple):
    """Address of the server, as a client reaches it.

    address : "HOST:PORT".
    is_here : whether the server is on this machine.
    """

    address: str
    is_here: bool = False

    def connection(self, party: DurableClient, plan: Plan, identity: PrivateIdentity) -> GrpcClient:
        """Return the connection of a client to the server.

        party : the client.
        plan : plan of the run.
        identity : private identity of the client.
        """
        return GrpcClient(party, plan, **self._proof(plan, identity))

    def check(self, plan: Plan, identity: PrivateIdentity) -> None:
        """Ask the server whether it serves this plan. Raises NetworkError if it does not, or cannot
        be reached.
        """
        asyncio.run(check_connection(plan, **self._proof(plan, identity)))

    def _proof(self, plan: Plan, identity: PrivateIdentity) -> dict[str, Any]:
        return {
            **self._asdict(),
            "identity": tls_identity(identity),
            "server_certificate": der(plan.server.certificate),
        }


def pass_seconds_to_ask_for(plan: Plan, seconds: float) -> int | None:
    """Return the number of seconds that a new plan should allow for a pass over the records. Return
    None if the plan allows enough.

    The number is twice the measured time, in whole minutes.

    seconds : measured duration of a pass.
    """
    return None if seconds <= plan.timeouts.longest_pass else 60 * math.ceil(2 * seconds / 60)
