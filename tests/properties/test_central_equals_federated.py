"""The strongest test there is: central and federated runs agree bit for bit, whatever the split,
given the same total noise.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastlloyd.base.arrays import IntArray
from fastlloyd.federation.plan.plan import Masks, Plan, TrustMode
from fastlloyd.federation.protocol.actions import SERVER, ClientResult, Ended
from fastlloyd.federation.protocol.client import ClientSession
from fastlloyd.federation.protocol.messages import Hello, Message
from fastlloyd.federation.protocol.server import ServerSession
from fastlloyd.federation.traffic import traffic
from fastlloyd.federation.transport.in_process import (
    Drops,
    Link,
    everything_arrives,
    run_in_process,
)
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.mechanisms.central import cluster, run
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD, GLLOYD, SULLOYD
from fastlloyd.mechanisms.mechanism import Clustering
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD
from fastlloyd.mechanisms.queries.query import Query
from fastlloyd.mechanisms.rounds import Answer, AnswerNoise
from fastlloyd.mechanisms.settings import AnyAlgorithm
from fastlloyd.testing import InjectedNoise, SeededNoise
from federation import (
    CAP,
    Federation,
    entropy,
    identity,
    injected,
    injected_by_part,
    make_federation,
    make_plan,
    same_clustering,
    starts_cheaply,
)

pytestmark = pytest.mark.usefixtures("repeatable_noise")


@pytest.fixture(autouse=True, scope="module")
def _cheap_starts() -> Iterable[None]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        starts_cheaply(monkeypatch)
        yield


@dataclass(frozen=True)
class Absences:
    """Who is not there when.

    never_joined : says no Hello; no_keys : says it, and is gone; gone : from which round on, for
    good; lost : uploads (client, round) that do not arrive.
    """

    never_joined: frozenset[str] = frozenset()
    no_keys: frozenset[str] = frozenset()
    gone: dict[str, int] = field(default_factory=dict)
    lost: frozenset[tuple[str, int]] = frozenset()

    def link(self, sender: str, recipient: str, message: Message, data: bytes) -> Iterable[bytes]:
        client = recipient if sender == SERVER else sender
        if client in self.never_joined or (
            client in self.no_keys and not isinstance(message, Hello)
        ):
            return ()
        return Drops(self.lost, self.gone)(sender, recipient, message, data)

    def included(self, plan: Plan) -> list[tuple[str, ...]]:
        """Of each round who is in the sum."""
        rounds = range(1, plan.mechanism.n_rounds + 1)
        there = [name for name in plan.names if name not in self.never_joined | self.no_keys]
        return [
            tuple(n for n in there if self.gone.get(n, 99) > t and (n, t) not in self.lost)
            for t in rounds
        ]


def federation(plan: Plan, seed: int, sizes: list[int]) -> Federation:
    """Records at random, some on walls and some alike, split as `sizes` says; noise from the
    production samplers, seeded.
    """
    rng = np.random.default_rng(seed)
    m, source = plan.mechanism, SeededNoise(seed)
    B = m.domain.half_widths
    records = rng.integers(-B, B + 1, (sum(sizes), m.n_features))
    records[rng.random(len(records)) < 0.2] = B
    parts = np.split(rng.permutation(records), np.cumsum(sizes)[:-1])
    return Federation(
        plan,
        dict(zip(plan.names, parts, strict=True)),
        {
            name: [plan.draw_client_noise(r, source, plan.n_clients) for r in m.all_rounds]
            for name in plan.names
        },
        [plan.draw_server_noise(r, source) for r in m.all_rounds],
    )


def rings(algorithm: AnyAlgorithm) -> list[int]:
    """Those that hold its sums: squares of offsets need the larger one."""
    return [64] if algorithm is MOMENTLLOYD else [32, 64]


@st.composite
def runs(draw: st.DrawFn) -> tuple[Federation, Absences]:
    """A federation of 1 to 10 clients (2 to 10 in client-noise), and at most so many absent as the
    plan allows.

    With pairwise masks they are absent from the start; with group masks from any step on, or in
    single rounds.
    """
    trust, masks = draw(st.sampled_from(TrustMode)), draw(st.sampled_from(Masks))
    shared = trust is TrustMode.CLIENT_NOISE
    n_clients = draw(st.integers(2 if shared else 1, 10))
    dropouts = draw(st.integers(0, n_clients - 2 if shared else n_clients - 1))
    algorithms: list[AnyAlgorithm] = [FASTLLOYD, GLLOYD, MOMENTLLOYD]
    algorithm = draw(st.sampled_from(algorithms if shared else [*algorithms, SULLOYD]))
    plan = make_plan(
        n_clients,
        trust=trust,
        masks=masks,
        max_dropouts=dropouts,
        ring_bits=draw(st.sampled_from(rings(algorithm))),
        algorithm=algorithm,
        n_clusters=draw(st.integers(1, 4)),
        n_features=draw(st.integers(1, 3)),
        n_iterations=draw(st.integers(1, 4)),
        estimate_loss=draw(st.booleans()),
    )
    sizes = draw(st.lists(st.integers(0, CAP), min_size=n_clients, max_size=n_clients))
    T = plan.mechanism.n_rounds  # the loss, where there is one, may be missed like any round
    absent = draw(st.lists(st.sampled_from(plan.names), max_size=dropouts, unique=True))
    ways = ["never joined", "no keys"] + ["gone", "lost"] * (masks is Masks.GROUP)
    way = {name: draw(st.sampled_from(ways)) for name in absent}
    chosen = {what: frozenset(name for name in absent if way[name] == what) for what in ways}
    absences = Absences(
        never_joined=chosen["never joined"],
        no_keys=chosen["no keys"],
        gone={name: draw(st.integers(1, T)) for name in absent if way[name] == "gone"},
        lost=frozenset((name, draw(st.integers(1, T))) for name in absent if way[name] == "lost"),
    )
    return federation(plan, draw(st.integers(0, 2**32 - 1)), sizes), absences


def play(of: Federation, link: Link) -> dict[str, ClientResult]:
    """Run it; the clients that end with a result."""
    outcome = run_in_process(of.server(), of.clients(), link=link)
    assert outcome.refused == ()
    return {
        name: result for name, result in outcome.clients.items() if isinstance(result, ClientResult)
    }


def central(of: Federation, present: Iterable[str]) -> Clustering:
    """One holder of all records of these clients, who adds their noise, or the server's, and knows
    how much it is.
    """
    names, m = tuple(present), of.plan.clustering
    noise = of.total_noise([names] * m.n_rounds)
    pooled: IntArray = np.concatenate([of.X[name] for name in names])

    def ask(number: int, query: Query) -> tuple[Answer, AnswerNoise]:
        deviations = of.plan.deviations(m.all_rounds[number], len(names))
        return query.evaluate(pooled) + noise[number], AnswerNoise(deviations=deviations, share=1.0)

    return run(m, ask)


@settings(max_examples=75)
@given(run=runs())
def test_a_run_with_absent_clients_is_the_plain_integer_run_over_the_included_sets(
    run: tuple[Federation, Absences],
) -> None:
    of, absences = run
    results, included = play(of, absences.link), absences.included(of.plan)
    away = absences.never_joined | absences.no_keys | set(absences.gone)
    assert set(results) == set(of.plan.names) - away
    expected = of.plain_result(included) if results else None
    for result in results.values():
        assert result.included == tuple(included)
        assert expected is not None
        assert same_clustering(result.clustering, expected)


@settings(max_examples=50)
@given(run=runs())
def test_an_honest_run_is_the_central_run_with_the_same_total_noise_and_has_the_bytes_that_were_foretold(
    run: tuple[Federation, Absences],
) -> None:
    of, _ = run
    m, names = of.plan.clustering, of.plan.names
    sent, received = Counter[str](), Counter[str]()

    def counted(sender: str, recipient: str, _message: Message, data: bytes) -> Iterable[bytes]:
        sent[sender] += len(data)
        received[recipient] += len(data)
        return (data,)

    results, expected = play(of, counted), central(of, names)
    assert set(results) == set(names)
    assert all(same_clustering(result.clustering, expected) for result in results.values())
    if of.plan.trust is TrustMode.SERVER_NOISE:  # what is known of the noise is the mechanism's own
        noise = injected_by_part(m, of.total_noise([names] * m.n_rounds))
        assert same_clustering(
            cluster(m, LocalRecords(m.domain, np.concatenate(list(of.X.values()))), noise), expected
        )
    for name in names:
        foretold = traffic(of.plan, name)
        assert (foretold.sent, foretold.received) == (sent[name], received[name])


EVERY_SET = [
    (algorithm, trust, masks, n_clients)
    for algorithm in (FASTLLOYD, MOMENTLLOYD)
    for trust in TrustMode
    for masks in Masks
    for n_clients in range(2, 6)
]


@pytest.mark.parametrize(("algorithm", "trust", "masks", "n_clients"), EVERY_SET)
def test_whoever_is_missing_when_keys_are_shared_the_run_is_the_central_one_of_the_others(
    algorithm: AnyAlgorithm, trust: TrustMode, masks: Masks, n_clients: int
) -> None:
    """Every set of clients: too large a one ends the run. Some say Hello and are gone, the others
    do not even come.
    """
    plans = [
        make_plan(n_clients, algorithm=algorithm, trust=trust, masks=masks, ring_bits=ring_bits, max_dropouts=n_clients - 2,
                  n_clusters=1, n_features=1, n_iterations=2)
        for ring_bits in rings(algorithm)
    ]  # fmt: skip
    of_ring = [make_federation(plan, seed=n_clients) for plan in plans]
    n_runs = 0
    for n_missing in range(n_clients):
        for missing in combinations(plans[0].names, n_missing):
            of = of_ring[n_runs % len(of_ring)]
            present = [name for name in of.plan.names if name not in missing]
            silent = frozenset(name for i, name in enumerate(missing) if (n_runs + i) % 3)
            absences = Absences(never_joined=silent, no_keys=frozenset(missing) - silent)
            outcome = run_in_process(of.server(), of.clients(), link=absences.link)
            ends = [outcome.clients[name] for name in present]
            n_runs += 1
            if len(present) < of.plan.min_present:
                assert all(isinstance(end, Ended) for end in ends)
                continue
            expected = central(of, present)
            for end in ends:
                assert isinstance(end, ClientResult)
                assert end.included == (tuple(present),) * of.plan.mechanism.n_rounds
                assert same_clustering(end.clustering, expected)


@settings(max_examples=25)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_clients=st.integers(1, 10),
    ring_bits=st.sampled_from([32, 64]),
    masks=st.sampled_from(Masks),
)
def test_two_splits_of_the_same_records_give_the_same_centroids(
    seed: int, n_clients: int, ring_bits: int, masks: Masks
) -> None:
    plan = make_plan(n_clients, trust=TrustMode.SERVER_NOISE, ring_bits=ring_bits, masks=masks)
    rng = np.random.default_rng(seed)
    B = plan.mechanism.domain.half_widths
    records = rng.integers(-B, B + 1, (rng.integers(n_clients, CAP + 1), 2))
    noise = [plan.draw_server_noise(r, SeededNoise(seed)) for r in plan.mechanism.rounds]
    ends: list[Any] = []
    for _ in range(2):
        parts = np.split(
            rng.permutation(records), np.sort(rng.integers(0, len(records) + 1, n_clients - 1))
        )
        sessions = [
            ClientSession(
                plan,
                name,
                LocalRecords(plan.mechanism.domain, X),
                identity=identity(name),
                noise=InjectedNoise([]),
                random_bytes=entropy(name),
            )
            for name, X in zip(plan.names, parts, strict=True)
        ]
        outcome = run_in_process(
            ServerSession(plan, injected(noise)), sessions, link=everything_arrives
        )
        ends.append(
            next(r for r in outcome.clients.values() if isinstance(r, ClientResult)).clustering
        )
    assert same_clustering(*ends)
