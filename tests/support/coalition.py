"""The attack of a server and t clients that pool all they hold: keys, transcripts and stores.

From these they take off every mask that they can derive from an upload of an honest client. With
group masks that is all of them: what is left is that client's answer and its one share of noise.
With pairwise masks the keys of the pairs of honest clients are left, which cancel only in the sum
over all honest clients; the checksum word tells the attackers what opened.
"""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, combinations
from typing import Self
from unittest.mock import patch

import numpy as np

from auditing import (
    MANY_CLUSTERS,
    N_COMMON,
    BoolArray,
    FloatArray,
    Observations,
    canaries,
    plan_on_the_line,
    watched,
)
from fastlloyd.base.arrays import IntArray
from fastlloyd.dp.noise import SystemNoise
from fastlloyd.federation.plan.plan import Masks, Plan, TrustMode
from fastlloyd.federation.protocol.actions import SERVER
from fastlloyd.federation.protocol.client import ClientSession
from fastlloyd.federation.protocol.masked_round import MaskedRound
from fastlloyd.federation.protocol.messages import Message, Upload
from fastlloyd.federation.protocol.server import ServerSession
from fastlloyd.federation.secagg.keys import Identity
from fastlloyd.federation.secagg.masks import GroupMasks, PairwiseMasks
from fastlloyd.federation.secagg.ring import RingVector
from fastlloyd.federation.transport.in_process import run_in_process
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.mechanisms.lloyd.mechanism import LloydMechanism
from fastlloyd.mechanisms.queries.query import Query
from kinds import lloyd_of


@dataclass
class Pool:
    """What the server and some clients hold together of one run.

    uploads : every upload that the server received, by round and client. programs : of each client
    of the coalition by round, its masks and what they are bound to.
    """

    plan: Plan
    coalition: tuple[str, ...]
    uploads: dict[tuple[int, str], Upload] = field(default_factory=dict)
    programs: dict[tuple[int, str], MaskedRound] = field(default_factory=dict)

    @property
    def honest(self) -> tuple[str, ...]:
        """The clients that are attacked."""
        return tuple(name for name in self.plan.names if name not in self.coalition)

    def overhear(
        self, sender: str, recipient: str, message: Message, data: bytes
    ) -> Iterable[bytes]:
        """The server writes down what it receives: a link of `run_in_process`."""
        if recipient == SERVER and isinstance(message, Upload):
            self.uploads[message.round, sender] = message
        return (data,)

    @contextmanager
    def programs_of_the_coalition(self) -> Iterator[None]:
        """Its clients write down the masks that they use."""
        hide = MaskedRound.hide

        def noted(program: MaskedRound, values: IntArray, client: str, nonce: bytes) -> bytes:
            if client in self.coalition:
                self.programs[program.context.round, client] = program
            return hide(program, values, client, nonce)

        with patch.object(MaskedRound, "hide", noted):
            yield

    def stripped(self, round: int, client: str) -> RingVector:
        """The upload of an honest client, less every mask that the coalition can derive."""
        ring, upload = self.plan.ring, self.uploads[round, client]
        left = ring.from_bytes(
            upload.payload, self.plan.n_words(self.plan.mechanism.all_rounds[round - 1])
        )
        names = self.plan.names
        for attacker in self.coalition:
            program = self.programs[round, attacker]
            masks, context = program.masks, program.context
            if isinstance(masks, GroupMasks):
                return masks.open(left, context, {client: upload.nonce})
            assert isinstance(masks, PairwiseMasks)
            (_, with_earlier), (_, with_later) = masks._pairs
            pairs = dict(
                zip(
                    (name for name in names if name != attacker),
                    (*with_earlier, *with_later),
                    strict=True,
                )
            )
            stream = ring.from_bytes(pairs[client].keystream(context, left.nbytes), left.size)
            add_or_subtract = (
                ring.subtract if names.index(client) < names.index(attacker) else ring.add
            )
            left = add_or_subtract(left, stream)
            if (
                client == names[0] and attacker == self.coalition[-1]
            ):  # the first hid its upload under the group key, too
                left = masks._group.open(left, context, {client: upload.nonce})
        return left

    def try_to_open(self, round: int, clients: Collection[str]) -> IntArray | None:
        """What the uploads of these honest clients add up to; None if the checksum says that masks
        are left.
        """
        ring, program = self.plan.ring, self.programs[round, self.coalition[0]]
        total = ring.zeros(self.plan.n_words(self.plan.mechanism.all_rounds[round - 1]))
        for name in clients:
            total = ring.add(total, self.stripped(round, name))
        if int(total[-1]) != len(clients) * program._word % (1 << ring.bits):
            return None
        return ring.centre(total[:-1]).reshape(
            self.plan.mechanism.shape(self.plan.mechanism.all_rounds[round - 1])
        )

    def opened(self, round: int) -> dict[tuple[str, ...], IntArray]:
        """All sets of honest clients whose sum opens, with the sum."""
        sets = chain.from_iterable(
            combinations(self.honest, n) for n in range(1, len(self.honest) + 1)
        )
        tried = ((clients, self.try_to_open(round, clients)) for clients in sets)
        return {clients: answer for clients, answer in tried if answer is not None}


@dataclass(frozen=True, kw_only=True)
class Coalition:
    """What is attacked: FastLloyd among M clients, all of them there, the last t of which pool with
    the server.
    """

    masks: Masks
    n_clients: int
    max_colluding: int = 1
    epsilon: float = 1.0
    n_clusters: int = MANY_CLUSTERS
    trust: TrustMode = TrustMode.CLIENT_NOISE

    def plan(self, identities: Mapping[str, Identity]) -> Plan:
        return plan_on_the_line(
            identities,
            n_clusters=self.n_clusters,
            epsilon=self.epsilon,
            trust=self.trust,
            max_colluding=self.max_colluding,
            n_iterations=2,
            masks=self.masks,
        )


@dataclass(frozen=True)
class Attack:
    """A plan with everything but the canaries fixed; all of the known records, and the canaries,
    are the first client's.
    """

    coalition: Coalition
    plan: Plan
    identities: dict[str, Identity]
    canaries: IntArray

    @classmethod
    def of(cls, coalition: Coalition) -> Self:
        identities = {f"c{i}": Identity.generate() for i in range(coalition.n_clients)}
        plan = coalition.plan(identities)
        return cls(coalition, plan, identities, canaries(plan, coalition.n_clients))

    @property
    def seen(self) -> tuple[str, ...]:
        """The honest clients whose sum is the least that the coalition opens with the first client
        in it.
        """
        pairwise = self.coalition.masks is Masks.PAIRWISE
        return (
            self.plan.names[: self.plan.n_clients - self.coalition.max_colluding]
            if pairwise
            else self.plan.names[:1]
        )

    @property
    def deviations(self) -> FloatArray:
        """Standard deviations of the noise in what the coalition opens, (T, 2): sums, counts."""
        scales = [
            self.plan.share_scales(round, self.plan.n_clients)
            for round in lloyd_of(self.plan).rounds
        ]
        return np.asarray(np.array(scales, dtype=np.float64) * len(self.seen) ** 0.5)

    def play(
        self, present: BoolArray
    ) -> tuple[Pool, list[tuple[Query, IntArray]], dict[str, IntArray]]:
        """One run, what the coalition has of it, its queries and answers, and everybody's
        records.
        """
        start = lloyd_of(self.plan).initial_centroids()
        X = dict.fromkeys(self.plan.names, start[:0])
        X["c0"] = np.vstack([np.repeat(start, N_COMMON, axis=0), self.canaries[present]])
        pool = Pool(
            self.plan, self.plan.names[self.plan.n_clients - self.coalition.max_colluding :]
        )
        with watched(LloydMechanism) as view, pool.programs_of_the_coalition():
            clients = [
                ClientSession(
                    self.plan,
                    name,
                    LocalRecords(self.plan.mechanism.domain, X[name]),
                    identity=key,
                    noise=SystemNoise(),
                    random_bytes=os.urandom,
                )
                for name, key in self.identities.items()
            ]
            run_in_process(ServerSession(self.plan, SystemNoise()), clients, link=pool.overhear)
        return pool, view, X


def observe(coalition: Coalition, n_per_side: int) -> Observations:
    """Attack runs until there are at least `n_per_side` trials with and as many without the
    canary.
    """
    attack = Attack.of(coalition)
    start, even = (
        lloyd_of(attack.plan).initial_centroids(),
        np.arange(coalition.n_clusters) % 2 == 0,
    )
    residuals, signals, present = [], [], []
    for number in range(2 * -(-n_per_side // coalition.n_clusters)):
        present.append(even if number % 2 else ~even)
        pool, view, _ = attack.play(present[-1])
        opened = [pool.try_to_open(t, attack.seen) for t in range(1, len(view) + 1)]
        known = [N_COMMON * query.evaluate(start) for query, _ in view]
        residuals.append(
            [
                answer - less
                for answer, less in zip(opened, known, strict=True)
                if answer is not None
            ]
        )
        signals.append([query.evaluate(attack.canaries) for query, _ in view])
    return Observations(
        np.array(residuals), np.array(signals), np.array(present), attack.deviations
    )
