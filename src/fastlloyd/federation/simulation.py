"""A federated run in one process: the sessions, messages and masks of a real one, with the clients' records split here.

It protects nobody from whoever runs it, who holds all records; it shows what the clients of such a run would get.
"""

import os
import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np

from fastlloyd.base.randomness import PublicSeed, PublicStream
from fastlloyd.clustering.domain import GridArray
from fastlloyd.dp.noise import NoiseSource, SystemNoise
from fastlloyd.errors import FastLloydError, PlanError
from fastlloyd.federation.plan.plan import Client, Plan
from fastlloyd.federation.protocol.actions import ClientResult
from fastlloyd.federation.protocol.client import ClientSession
from fastlloyd.federation.protocol.messages import Message
from fastlloyd.federation.protocol.server import ServerSession
from fastlloyd.federation.secagg.keys import Identity
from fastlloyd.federation.transport.in_process import Drops, Gone, Link, everything_arrives, run_in_process

DROP = re.compile(r"(?P<client>.+)@(?P<round>[0-9]{1,4})(?P<for_good>\+?)")


class Drop(msgspec.Struct, frozen=True, kw_only=True):
    """A client whose upload of one round does not arrive, or who is gone from that round on."""

    client: str
    round: int
    for_good: bool


def parse_drop(text: str, names: Sequence[str]) -> Drop:
    """Read "client-2@3" (that upload is lost) or "client-2@3+" (gone from round 3 on); a bare number counts the names."""
    match = DROP.fullmatch(text.strip())
    if match is None:
        raise PlanError(f"drop {text!r:.80} is not of the form CLIENT@ROUND, such as {names[-1]}@2 or {names[-1]}@2+")
    client = match["client"]
    if client not in names and client.isdecimal() and 1 <= int(client) <= len(names):
        client = names[int(client) - 1]
    if client not in names:
        raise PlanError(f"drop {text!r:.80} names no client of this run; there are {', '.join(names[:20])}")
    return Drop(client=client, round=int(match["round"]), for_good=bool(match["for_good"]))


def split_evenly(X: GridArray, n_clients: int, seed: PublicSeed) -> list[GridArray]:
    """Shuffle records by a public seed and split them into parts whose sizes differ by at most one, the larger first."""
    order = np.argsort(PublicStream(seed, b"fastlloyd/v1/simulation/split").words(len(X)), kind="stable")
    return np.array_split(X[order], n_clients)


def roster(names: Iterable[str], n_records: int) -> tuple[tuple[Client, ...], dict[str, Identity]]:
    """Clients with fresh identities who share a public cap on all records as evenly as `split_evenly` shares the records."""
    identities = {name: Identity.generate() for name in names}
    each, rest = divmod(n_records, len(identities))
    clients = tuple(
        Client(name=name, max_records=each + (i < rest), signing_key=identity.public.hex())
        for i, (name, identity) in enumerate(identities.items())
    )
    return clients, identities


def simulate(
    plan: Plan,
    identities: Mapping[str, Identity],
    records: Sequence[GridArray],
    *,
    drops: Sequence[Drop] = (),
    noise: NoiseSource | None = None,
) -> ClientResult:
    """Run a plan in this process; what every client that finished ended with.

    records : per client, in the order of the plan, grid points int64 (n_i, n_features). noise None: the system's. Raises
    PlanError for drops outside the run, FastLloydError where the run ends without a result.
    """
    T = plan.mechanism.n_rounds
    for drop in drops:
        if not 1 <= drop.round <= T:
            raise PlanError(f"{drop.client} is to be dropped in round {drop.round}, but the run has rounds 1 to {T}")
    noise = SystemNoise() if noise is None else noise
    sessions = [
        ClientSession(plan, name, X, identity=identities[name], noise=noise, random_bytes=os.urandom)
        for name, X in zip(plan.names, records, strict=True)
    ]
    outcome = run_in_process(ServerSession(plan, noise), sessions, link=_link(drops))
    finished = [result for result in outcome.clients.values() if isinstance(result, ClientResult)]
    if not finished:
        raise FastLloydError(f"the run ended without a result: {outcome.server.reason or 'no client was left at the end'}")
    return finished[0]


def _link(drops: Sequence[Drop]) -> Link:
    if not drops:
        return everything_arrives
    lost = Drops({(drop.client, drop.round) for drop in drops if not drop.for_good})
    latest_first = sorted(drops, key=lambda drop: -drop.round)
    gone = Gone({drop.client: drop.round for drop in latest_first if drop.for_good})

    def link(sender: str, recipient: str, message: Message, data: bytes) -> Iterable[bytes]:
        return [
            arrived for kept in lost(sender, recipient, message, data) for arrived in gone(sender, recipient, message, kept)
        ]

    return link
