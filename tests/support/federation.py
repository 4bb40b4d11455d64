"""What the protocol's tests share: small federations with fixed keys, fixed entropy and known
noise.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from typing import Any

import numpy as np
import pytest

from designs import design_plan
from fastlloyd.base.arrays import IntArray
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain
from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.errors import FastLloydError
from fastlloyd.federation.plan.plan import Client, Masks, Plan, TrustMode
from fastlloyd.federation.positions import SignedPosition
from fastlloyd.federation.protocol.actions import SERVER, Action, ClientResult, Record
from fastlloyd.federation.protocol.client import ClientSession
from fastlloyd.federation.protocol.messages import Broadcast, Limits, Message, decode, encode
from fastlloyd.federation.protocol.server import ServerSession
from fastlloyd.federation.secagg.keys import Identity
from fastlloyd.federation.secagg.pairs import encapsulate
from fastlloyd.federation.transport.in_process import (
    InProcessOutcome,
    Link,
    everything_arrives,
    run_in_process,
)
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.mechanisms.central import run
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD
from fastlloyd.mechanisms.mechanism import Clustering, Evidence
from fastlloyd.mechanisms.moment_lloyd import start
from fastlloyd.mechanisms.moment_lloyd.rounds import MomentAlgorithm
from fastlloyd.mechanisms.persons import Persons
from fastlloyd.mechanisms.private_run import AnyRun
from fastlloyd.mechanisms.queries.query import Query
from fastlloyd.mechanisms.rounds import Answer, AnswerNoise, Round
from fastlloyd.mechanisms.settings import AnyAlgorithm
from fastlloyd.mechanisms.suggestion import NoisyVotes
from fastlloyd.testing import InjectedNoise, repeatable_noise

BEGINNING = b"b" * 16  # of the server of every `Federation`
CAP = 40


@cache
def identity(name: str) -> Identity:
    """The fixed signing key of the client of that name."""
    return Identity.from_private_bytes(hashlib.sha256(f"identity of {name}".encode()).digest())


def signed(name: str, length: int, head: bytes = bytes(32)) -> SignedPosition:
    """A position of its store that the client of that name signed."""
    return SignedPosition.of(length, head, identity(name))


def among(
    names: Sequence[str], broadcast: Broadcast, changes: Mapping[str, bytes | None]
) -> Broadcast:
    """That broadcast with other nonces for some clients; None leaves a client out of the set."""
    included = {**broadcast.included(names), **changes}
    nonces = {name: nonce for name, nonce in included.items() if nonce is not None}
    return Broadcast.of(names, broadcast.round, nonces, broadcast.payload)


def starts_cheaply(monkeypatch: pytest.MonkeyPatch) -> None:
    """MomentLloyd with few public draws and restarts: the same steps, and a start that is worse."""
    for name, value in {
        "DRAWS": 40,
        "FEW_FEATURES_RESTARTS": 2,
        "RESTARTS": 2,
        "GAUSSIAN_STEPS": 3,
        "HISTOGRAM_STEPS": 3,
    }.items():
        monkeypatch.setattr(start, name, value)


class BrokenNoise:
    """A source that fails."""

    private = False

    def gaussian(self, scale: Fraction, size: int) -> IntArray:
        raise FastLloydError(f"the random source failed to give {size} values of scale {scale}")

    def two_sided_geometric(self, scale: Fraction, size: int) -> IntArray:
        return self.gaussian(scale, size)


def make_plan(
    n_clients: int = 3,
    *,
    trust: TrustMode = TrustMode.CLIENT_NOISE,
    max_dropouts: int = 0,
    max_colluding: int = 1,
    ring_bits: int = 64,
    algorithm: AnyAlgorithm = FASTLLOYD,
    n_clusters: int = 2,
    n_features: int = 2,
    n_iterations: int = 3,
    epsilon: float = 2.0,
    names: Sequence[str] | None = None,
    run_id: bytes = b"sixteen bytes :)",
    estimate_loss: bool = False,
    neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    masks: Masks = Masks.GROUP,
    persons: Persons | None = None,
) -> Plan:
    names = [f"c{i}" for i in range(n_clients)] if names is None else names
    return design_plan(
        algorithm,
        Domain(
            features=tuple(f"x{i}" for i in range(n_features)),
            lower=(0.0,) * n_features,
            upper=(1.0,) * n_features,
            fraction_bits=8,
        ),
        clients=tuple(
            Client(name=name, max_records=CAP, signing_key=identity(name).public.hex())
            for name in names
        ),
        run_id=run_id,
        n_clusters=n_clusters,
        epsilon=epsilon,
        public_seed=PublicSeed.from_int(3),
        n_iterations=None if isinstance(algorithm, MomentAlgorithm) else n_iterations,
        trust=trust,
        max_dropouts=max_dropouts,
        max_colluding=max_colluding,
        ring_bits=ring_bits,
        estimate_loss=estimate_loss,
        neighboring_relation=neighboring_relation,
        masks=masks,
        persons=persons,
    )


def entropy(seed: str) -> Callable[[int], bytes]:
    """Bytes that look random and are the same every time."""
    counter = iter(range(1 << 30))
    return lambda n: hashlib.shake_256(f"{seed} {next(counter)}".encode()).digest(n)


def encapsulated(seed: str) -> Callable[[bytes], tuple[bytes, bytes]]:
    """ML-KEM that makes the same secret and ciphertext for a key every time, as long as the tests
    run.
    """
    return partial(_encapsulated, seed)


@cache
def _encapsulated(seed: str, public: bytes) -> tuple[bytes, bytes]:
    return encapsulate(public)


@dataclass(frozen=True)
class Federation:
    """A plan with records and noise for everyone: one noise matrix per round, of the shape of its
    answer.
    """

    plan: Plan
    X: dict[str, IntArray]
    client_noise: dict[str, list[IntArray]]
    server_noise: list[IntArray]

    @repeatable_noise()
    def client(self, name: str, seed: str = "") -> ClientSession:
        noise = injected_by_part(self.plan.mechanism, self.client_noise[name])
        return ClientSession(
            self.plan,
            name,
            LocalRecords(self.plan.mechanism.domain, self.X[name]),
            identity=identity(name),
            noise=noise,
            random_bytes=entropy(name + seed),
            encapsulate=encapsulated(name + seed),
        )

    def clients(self) -> list[ClientSession]:
        return [self.client(name) for name in self.plan.names]

    @repeatable_noise()
    def server(self) -> ServerSession:
        noise = injected_by_part(self.plan.mechanism, self.server_noise)
        return ServerSession(self.plan, noise, random_bytes=lambda _: BEGINNING)

    def total_noise(self, included: Sequence[Sequence[str]]) -> list[IntArray]:
        """The noise in each round's answer when these clients are in it."""
        if self.plan.trust is TrustMode.SERVER_NOISE:
            return self.server_noise
        return [
            np.sum([self.client_noise[name][t] for name in S], axis=0)
            for t, S in enumerate(included)
        ]

    def plain_result(self, included: Sequence[Sequence[str]]) -> Clustering:
        """The clustering by plain integers: no ring, no masks, no messages; whose turn it is
        matters to nobody.
        """
        assert len(included) == self.plan.mechanism.n_rounds
        return run(self.plan.clustering, partial(self._ask, included))

    def plain_centroids(self, included: Sequence[Sequence[str]]) -> IntArray | None:
        """The centroids after the rounds in which these clients were, in the same way; None if
        there are none yet.
        """
        m: AnyRun = self.plan.mechanism
        state = m.start()
        for number in range(len(included)):
            state = m.advance(number, state, *self._ask(included, number, m.query(number, state)))
        return m.centroids(len(included), state) if included else None

    def _ask(
        self, included: Sequence[Sequence[str]], number: int, query: Query
    ) -> tuple[Answer, AnswerNoise]:
        caps = {client.name: client.max_records for client in self.plan.clients}
        S, round = included[number], self.plan.mechanism.all_rounds[number]
        answer = self.total_noise(included)[number] + np.sum(
            [query.evaluate(self.X[name]) for name in S], axis=0
        )
        share = sum(caps[name] for name in S) / sum(caps[name] for name in included[0])
        return answer, AnswerNoise(deviations=self.plan.deviations(round, len(S)), share=share)


def make_federation(plan: Plan, seed: int = 0) -> Federation:
    rng = np.random.default_rng(seed)
    m = plan.mechanism
    B = int(m.domain.half_widths.max())
    X = {
        name: rng.integers(-B, B, (int(rng.integers(0, CAP + 1)), m.n_features), endpoint=True)
        for name in plan.names
    }

    def noise() -> list[IntArray]:
        # a little noise: enough that answers differ from the exact ones, never more than
        # `Plausible` allows
        return [rng.integers(-9, 9, m.shape(round), endpoint=True) for round in m.all_rounds]

    return Federation(plan, X, {name: noise() for name in plan.names}, noise())


def inboxes(federation: Federation, link: Link = everything_arrives) -> dict[str, list[Message]]:
    """What each client is sent in one run, in order. Runs are deterministic: a fresh client sent
    the same says the same.
    """
    received: dict[str, list[Message]] = {name: [] for name in federation.plan.names}

    def watch(sender: str, recipient: str, message: Message, data: bytes) -> Iterable[bytes]:
        arriving = list(link(sender, recipient, message, data))
        if recipient in received and arriving:
            received[recipient].append(message)
        return arriving

    run_in_process(federation.server(), federation.clients(), link=watch)
    return received


class _Noting:
    """A session that notes in a ledger what it wants recorded, before anything follows from
    that.
    """

    def __init__(
        self, session: ServerSession | ClientSession, party: str, ledger: list[tuple[str, Message]]
    ) -> None:
        self._session, self._party, self._ledger = session, party, ledger

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._session, name)
        return self._noted(found) if name in ("start", "receive", "deadline", "ending") else found

    def _noted(self, step: Callable[..., list[Action]]) -> Callable[..., list[Action]]:
        def call(*arguments: object) -> list[Action]:
            actions = step(*arguments)
            self._ledger.extend(
                [(self._party, action.message) for action in actions if isinstance(action, Record)]
            )
            return actions

        return call


def run_with_ledger(
    server: ServerSession,
    clients: Sequence[ClientSession],
    ledger: list[tuple[str, Message]],
    *,
    link: Link = everything_arrives,
) -> InProcessOutcome:
    """A run whose parties append (party, message) to the ledger for whatever is to be made
    durable.
    """
    noting: list[Any] = [_Noting(client, client.name, ledger) for client in clients]
    answering: Any = _Noting(server, SERVER, ledger)
    return run_in_process(answering, noting, link=link)


def client_after(federation: Federation, name: str, messages: Iterable[Message]) -> ClientSession:
    """A client that said Hello and was sent these."""
    session = federation.client(name)
    session.start()
    for message in messages:
        session.receive(message)
    return session


def injected(rounds: Iterable[IntArray]) -> InjectedNoise:
    """A source that gives these noise matrices in the order in which `draw` asks: sums, then
    counts; the loss at once.
    """
    return InjectedNoise(
        [part for noise in rounds for part in (noise[:, :-1].ravel(), noise[:, -1]) if part.size]
    )


def injected_by_part(m: AnyRun, rounds: Iterable[IntArray]) -> InjectedNoise:
    """The same for any mechanism, whose parts have as many columns as it says; for as many rounds
    as there is noise.
    """
    each = zip(m.all_rounds, rounds, strict=False)
    return InjectedNoise(
        [part.ravel() for round, noise in each for part in parts_of(m, round, noise)]
    )


def parts_of(m: AnyRun, round: Round, noise: IntArray) -> list[IntArray]:
    """The columns of an answer, part by part."""
    ends = np.cumsum([part.n_columns for part in m.parts(round)])[:-1]
    return np.split(noise, ends, axis=1)


def over_the_wire(plan: Plan, message: Message) -> Message:
    return decode(encode(message), Limits.of(plan))


def same_clustering(a: Clustering, b: Clustering) -> bool:
    """Bit for bit, every field, and what all rounds together showed."""
    fields = [field for field in a.__struct_fields__ if field not in ("evidence", "votes")]
    shown = _same(a.evidence, b.evidence) and _same(a.votes, b.votes)
    return shown and all(np.array_equal(getattr(a, field), getattr(b, field)) for field in fields)


def _same(a: Evidence | NoisyVotes | None, b: Evidence | NoisyVotes | None) -> bool:
    if a is None or b is None:
        return a is b
    return all(
        np.array_equal(getattr(a, field), getattr(b, field)) for field in a.__struct_fields__
    )


def results(outcomes: Iterable[object]) -> list[ClientResult]:
    return [outcome for outcome in outcomes if isinstance(outcome, ClientResult)]
