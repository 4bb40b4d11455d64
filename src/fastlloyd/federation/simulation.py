"""A federated run in one process: the sessions, messages and masks of a real one, with the clients'
records split here.

It protects nobody from whoever runs it, who holds all records; it shows what the clients of such a
run would get.
"""

import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from fastlloyd.base.arrays import IntArray
from fastlloyd.base.randomness import PublicSeed, PublicStream
from fastlloyd.clustering.domain import Domain, GridArray
from fastlloyd.clustering.grid_records import Rows
from fastlloyd.clustering.grouping import grouped
from fastlloyd.dp.noise import NoiseSource, SystemNoise
from fastlloyd.errors import DataError, FastLloydError, PlanError
from fastlloyd.federation.plan.plan import Client, Plan
from fastlloyd.federation.protocol.actions import ClientResult
from fastlloyd.federation.protocol.client import ClientSession
from fastlloyd.federation.protocol.server import ServerSession
from fastlloyd.federation.secagg.keys import Identity
from fastlloyd.federation.secagg.masks import GroupKey, GroupMasks, MaskContext
from fastlloyd.federation.secagg.ring import Ring, RingVector
from fastlloyd.federation.transport.in_process import Drops, run_in_process
from fastlloyd.mechanisms.answering import AllRecords, Records
from fastlloyd.mechanisms.passes.records import DealtPersons
from fastlloyd.mechanisms.persons import max_clients
from fastlloyd.mechanisms.queries.query import Query
from fastlloyd.mechanisms.spread import Deal, person_hashes, spread_key

_SPLIT = b"fastlloyd/v1/simulation/split"  # label of the words that share records out
DROP = re.compile(r"(?P<client>.+)@(?P<round>[0-9]{1,4})(?P<for_good>\+?)")


class Drop(msgspec.Struct, frozen=True, kw_only=True):
    """A client whose upload of one round does not arrive, or who is gone from that round on."""

    client: str
    round: int
    for_good: bool


def parse_drop(text: str, names: Sequence[str]) -> Drop:
    """Read "client-2@3" (that upload is lost) or "client-2@3+" (gone from round 3 on); a bare
    number counts the names.
    """
    match = DROP.fullmatch(text.strip())
    if match is None:
        raise PlanError(
            f"drop {text!r:.80} is not of the form CLIENT@ROUND, such as {names[-1]}@2 or"
            f" {names[-1]}@2+"
        )
    client = match["client"]
    if client not in names and client.isdecimal() and 1 <= int(client) <= len(names):
        client = names[int(client) - 1]
    if client not in names:
        raise PlanError(
            f"drop {text!r:.80} names no client of this run; there are {', '.join(names[:20])}"
        )
    return Drop(client=client, round=int(match["round"]), for_good=bool(match["for_good"]))


def split_evenly(X: GridArray, n_clients: int, seed: PublicSeed) -> list[GridArray]:
    """Shuffle records by a public seed and split them into parts whose sizes differ by at most one,
    the larger first.
    """
    return [X[part] for part in _parts(len(X), n_clients, seed)]


def split(records: AllRecords, n_clients: int, seed: PublicSeed) -> list[Records]:
    """The parts of `split_evenly`, one a client, of records that are never held at once: a pass
    answers for all clients.

    Raises DataError for records of persons, whose rows it would part, and what reading the records
    raises.
    """
    if records.share_bits:
        raise DataError(
            "these are records of persons, and one by one they would be parted from the others of"
            " their person"
        )
    n = records.count() if records.n is None else records.n
    passes = _SharedPasses(_DealtRecords(records, _Owners.of(n, n_clients, seed)))
    return [_Part(passes, client) for client in range(n_clients)]


def deal_persons(
    ids: Sequence[bytes], n_clients: int, max_clients: int, seed: PublicSeed
) -> list[NDArray[np.intp]]:
    """The numbers of each client's rows, from 0, if persons are dealt out (`spread.Deal`). ids : of
    each row.
    """
    numbers: dict[bytes, int] = {}
    places = np.fromiter(
        (numbers.setdefault(each, len(numbers)) for each in ids), dtype=np.intp, count=len(ids)
    )
    persons = person_hashes(list(numbers), spread_key(seed))[places]
    clients, _ = Deal(n_clients, max_clients).clients(persons)
    return [np.flatnonzero(clients == client) for client in range(n_clients)]


def split_persons(rows: Rows, plan: Plan, source: str) -> list[Records]:
    """The parts that `deal_persons` deals out, of rows that are read in passes: one pass at once,
    and one for each query.

    Raises what reading the rows raises.
    """
    m = plan.mechanism
    dealt = DealtPersons(rows, m, Deal(plan.n_clients, max_clients(m.persons)), source=source)
    passes = _SharedPasses(dealt)
    return [_Part(passes, client) for client in range(plan.n_clients)]


def _parts(n: int, n_clients: int, seed: PublicSeed) -> list[NDArray[np.intp]]:
    """The numbers of each client's records, from 0."""
    order = np.argsort(PublicStream(seed, _SPLIT).words(n), kind="stable")
    return np.array_split(order, n_clients)


@dataclass(frozen=True, slots=True)
class _Owners:
    """Whose a record is, by its number: plain data. As `_parts`, which shares records out in the
    order of their words.

    words, numbers : of the first record of each client but the first, in that order; sizes : how
    many each client has.
    """

    seed: PublicSeed
    words: NDArray[np.uint64]
    numbers: NDArray[np.intp]
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, n: int, n_clients: int, seed: PublicSeed) -> "_Owners":
        parts = _parts(n, n_clients, seed)
        sizes = tuple(map(len, parts))
        numbers = np.array([part[0] for part in parts[1:] if len(part)], dtype=np.intp)
        return cls(seed, PublicStream(seed, _SPLIT).words(n)[numbers], numbers, sizes)

    def among(self, first: int, n: int) -> NDArray[np.uint16]:
        """The clients of n records from number `first` on."""
        words = PublicStream(self.seed, _SPLIT, first).words(n)
        owners = np.searchsorted(self.words, words, side="right")
        begins = (
            np.append(self.words, np.uint64(0))[owners - 1] == words
        )  # of equal words the earlier record comes first
        for at in np.flatnonzero(begins & (owners > 0)):
            same = slice(np.searchsorted(self.words, words[at], side="left"), owners[at])
            owners[at] -= np.count_nonzero(self.numbers[same] > first + at)
        return owners.astype(np.uint16)


@dataclass(frozen=True, slots=True)
class _ByOwner:
    """A query answered for each client, a row each."""

    query: Query
    owners: _Owners

    @property
    def shape(self) -> tuple[int, int]:
        """Clients, and the entries of an answer."""
        return len(self.owners.sizes), math.prod(self.query.shape)

    def evaluate(self, X: GridArray, first: int) -> IntArray:
        """See `Asked`."""
        found = np.zeros(self.shape, dtype=np.int64)
        for client, mine in grouped(X, self.owners.among(first, len(X))):
            found[client] = self.query.evaluate(mine).ravel()
        return found


class _Dealt(Protocol):
    """Records of all clients, of which each pass answers for all: how many each has, and the
    answers.
    """

    @property
    def domain(self) -> Domain: ...
    @property
    def share_bits(self) -> int: ...
    @property
    def sizes(self) -> tuple[int, ...]: ...
    def answers(self, query: Query) -> list[IntArray]: ...


class _DealtRecords:
    """`_Dealt` of records, each by its number."""

    share_bits = 0

    def __init__(self, records: AllRecords, owners: _Owners) -> None:
        self.domain, self.sizes, self._records, self._owners = (
            records.domain,
            owners.sizes,
            records,
            owners,
        )

    def answers(self, query: Query) -> list[IntArray]:
        """See `_Dealt`."""
        found, n = self._records.total(_ByOwner(query, self._owners))
        if n != sum(self.sizes):
            raise DataError(
                "the number of records changed between two passes; leave the file alone while it is"
                " read"
            )
        return [row.reshape(query.shape) for row in found]


class _SharedPasses:
    """The answers of all clients to a query, in one pass."""

    def __init__(self, dealt: _Dealt) -> None:
        self.dealt = dealt
        self._asked: tuple[object, bytes] | None = None
        self._answers: list[IntArray] = []

    def answers(self, query: Query) -> list[IntArray]:
        """Each client's answer, kept for the others, who ask the same in a round."""
        if self._asked != (query.question, query.digest):
            self._answers, self._asked = self.dealt.answers(query), (query.question, query.digest)
        return self._answers


class _Part:
    """`Records` of one client of a simulation."""

    def __init__(self, passes: _SharedPasses, client: int) -> None:
        self.domain, self.share_bits, self.n = (
            passes.dealt.domain,
            passes.dealt.share_bits,
            passes.dealt.sizes[client],
        )
        self._passes, self._client = passes, client

    def answer(self, query: Query) -> tuple[IntArray, int]:
        """See `Records`."""
        return self._passes.answers(query)[self._client], self.n


def roster(names: Iterable[str], n_records: int) -> tuple[tuple[Client, ...], dict[str, Identity]]:
    """Clients with fresh identities who share a public cap on all records as evenly as
    `split_evenly` shares the records.
    """
    identities = {name: Identity.generate() for name in names}
    each, rest = divmod(n_records, len(identities))
    clients = tuple(
        Client(name=name, max_records=each + (i < rest), signing_key=identity.public.hex())
        for i, (name, identity) in enumerate(identities.items())
    )
    return clients, identities


def check_drops(plan: Plan, drops: Iterable[Drop]) -> None:
    """Raise PlanError for drops outside the run."""
    T = plan.mechanism.n_rounds
    for drop in drops:
        if not 1 <= drop.round <= T:
            raise PlanError(
                f"{drop.client} is to be dropped in round {drop.round}, but the run has rounds 1"
                f" to {T}"
            )


def simulate(
    plan: Plan,
    identities: Mapping[str, Identity],
    records: Sequence[Records],
    *,
    drops: Sequence[Drop] = (),
    noise: NoiseSource | None = None,
) -> ClientResult:
    """Run a plan in this process; what every client that finished ended with.

    records : per client, in the order of the plan. noise None: the system's. Raises PlanError for
    drops outside the run, FastLloydError where the run ends without a result.
    """
    check_drops(plan, drops)
    noise, shared = SystemNoise() if noise is None else noise, partial(_SharedMasks, {})
    sessions = [
        ClientSession(
            plan,
            name,
            mine,
            identity=identities[name],
            noise=noise,
            random_bytes=os.urandom,
            group_masks=shared,
        )
        for name, mine in zip(plan.names, records, strict=True)
    ]
    lost = {(drop.client, drop.round) for drop in drops if not drop.for_good}
    latest_first = sorted(drops, key=lambda drop: -drop.round)
    gone = {drop.client: drop.round for drop in latest_first if drop.for_good}
    outcome = run_in_process(ServerSession(plan, noise), sessions, link=Drops(lost, gone))
    finished = [result for result in outcome.clients.values() if isinstance(result, ClientResult)]
    if not finished:
        raise FastLloydError(
            "the run ended without a result:"
            f" {outcome.server.reason or 'no client was left at the end'}"
        )
    return finished[0]


class _SharedMasks(GroupMasks):
    """Masks of a simulation's clients, who hold one group key: the first to open a sum derives all
    masks, once for all.
    """

    __slots__ = ("_sums",)

    def __init__(self, sums: dict[object, RingVector], group_key: GroupKey, ring: Ring) -> None:
        super().__init__(group_key, ring)
        self._sums = sums

    def open(
        self, total: RingVector, context: MaskContext, included: Mapping[str, bytes]
    ) -> RingVector:
        """See `MaskScheme`; the sum of the last round's masks is kept."""
        what = self._group_key.secret, context, tuple(included.items())
        if what not in self._sums:
            self._sums.clear()
            self._sums[what] = self._ring.subtract(total, super().open(total, context, included))
        return self._ring.subtract(total, self._sums[what])
