"""Federated run within one process, with the sessions, messages and masks of a real run.

The process has all records, so nothing protects them from its user. Readers of the result have the
guarantee of the plan, even if clients are missing, under two conditions. First, the records are
dealt to the clients at random (`federation.dealing`). Second, `drops` are chosen without a look at
the records.
"""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial

import msgspec

from fastlloyd.base.numerals import whole
from fastlloyd.dp.noise import NoiseSource, SystemNoise
from fastlloyd.errors import FastLloydError, PlanError
from fastlloyd.federation.dealing import cap_of_each
from fastlloyd.federation.plan.plan import Client, Plan
from fastlloyd.federation.protocol.actions import ClientResult
from fastlloyd.federation.protocol.client import ClientSession
from fastlloyd.federation.protocol.server import ServerSession
from fastlloyd.federation.secagg.keys import Identity
from fastlloyd.federation.secagg.masks import GroupKey, GroupMasks, MaskContext
from fastlloyd.federation.secagg.ring import Ring, RingVector
from fastlloyd.federation.transport.in_process import Drops, run_in_process
from fastlloyd.mechanisms.answering import Records

DROP = re.compile(r"(?P<client>.+)@(?P<round>[0-9]{1,4})(?P<for_good>\+?)")


class Drop(msgspec.Struct, frozen=True, kw_only=True):
    """Loss of a client: one lost upload, or permanent absence.

    client : name of the client.
    round : number of the round, from 1.
    for_good : whether the client is absent from this round on. Otherwise only its upload of the
        round is lost.
    """

    client: str
    round: int
    for_good: bool


def parse_drop(text: str, names: Sequence[str]) -> Drop:
    """Return the Drop that a text states.

    "client-2@3" means that the upload of round 3 is lost, and "client-2@3+" that the client is
    absent from round 3 on. A bare number in place of the name means the client at that position,
    from 1.

    names : names of all clients, in the order of the plan.

    Raises PlanError for another text or an unknown client.
    """
    match = DROP.fullmatch(text)
    if match is None:
        raise PlanError(
            f"drop {text!r:.80} is not of the form CLIENT@ROUND, such as {names[-1]}@2 or"
            f" {names[-1]}@2+"
        )
    client = match["client"]
    with suppress(ValueError):
        if client not in names and 1 <= (number := whole(client)) <= len(names):
            client = names[number - 1]
    if client not in names:
        raise PlanError(
            f"drop {text!r:.80} names no client of this run; its clients are"
            f" {', '.join(names[:20])}"
        )
    return Drop(client=client, round=int(match["round"]), for_good=bool(match["for_good"]))


def roster(names: Iterable[str], n_records: int) -> tuple[tuple[Client, ...], dict[str, Identity]]:
    """Return clients with fresh keys for the plan of a simulation, and the identity of each client
    by name.

    The cap of each client leaves room for the random number of records that it is dealt.

    n_records : largest number of records of all clients together.
    """
    identities = {name: Identity.generate() for name in names}
    cap = cap_of_each(n_records, len(identities))
    clients = tuple(
        Client(name=name, max_records=cap, signing_key=identity.public.hex())
        for name, identity in identities.items()
    )
    return clients, identities


def check_drops(plan: Plan, drops: Iterable[Drop]) -> None:
    """Raise PlanError if a drop is in a round that the run does not have."""
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
    """Run a plan in this process, and return the result that all clients share.

    plan : plan for a simulation.
    identities : private key of each client, by name.
    records : records of each client, in the order of the plan.
    drops : losses of clients. They must be chosen before the run and without a look at the records,
        otherwise the guarantee does not hold.
    noise : source of the noise, or None for the system's.

    Raises PlanError for drops in rounds that the run does not have, and FastLloydError if the run
    ends without a result.
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
    """Masks of the clients of a simulation, which share one group key. The first client that opens
    a sum derives all masks of the round, and the others use them again.
    """

    __slots__ = ("_sums",)

    def __init__(self, sums: dict[object, RingVector], group_key: GroupKey, ring: Ring) -> None:
        super().__init__(group_key, ring)
        self._sums = sums

    def open(
        self, total: RingVector, context: MaskContext, included: Mapping[str, bytes]
    ) -> RingVector:
        """Return the opened sum. The sum of the masks is kept until the next round."""
        what = self._group_key.secret, context, tuple(included.items())
        if what not in self._sums:
            self._sums.clear()
            self._sums[what] = self._ring.subtract(total, super().open(total, context, included))
        return self._ring.subtract(total, self._sums[what])
