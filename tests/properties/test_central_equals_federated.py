"""The strongest test there is: central and federated runs agree bit for bit, whatever the split, given the same total noise."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastlloyd.base.arrays import IntArray
from fastlloyd.federation.plan.plan import Plan, TrustMode
from fastlloyd.federation.protocol.actions import ClientResult
from fastlloyd.federation.protocol.client import ClientSession
from fastlloyd.federation.protocol.server import ServerSession
from fastlloyd.federation.transport.in_process import Drops, Gone, run_in_process
from fastlloyd.mechanisms.central import cluster
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD, GLLOYD, SULLOYD
from fastlloyd.testing import InjectedNoise, SeededNoise
from federation import CAP, Federation, entropy, identity, injected, make_plan

pytestmark = pytest.mark.usefixtures("repeatable_noise")


def federation(plan: Plan, seed: int, sizes: list[int]) -> Federation:
    """Records at random, some on walls and some alike, split as `sizes` says; noise from the production samplers, seeded."""
    rng = np.random.default_rng(seed)
    m, source = plan.mechanism, SeededNoise(seed)
    B = m.domain.half_widths
    records = rng.integers(-B, B + 1, (sum(sizes), m.n_features))
    records[rng.random(len(records)) < 0.2] = B
    parts = np.split(rng.permutation(records), np.cumsum(sizes)[:-1])
    return Federation(
        plan,
        dict(zip(plan.names, parts, strict=True)),
        {name: [plan.draw_client_noise(r, source, plan.n_clients) for r in m.all_rounds] for name in plan.names},
        [plan.draw_server_noise(r, source) for r in m.all_rounds],
    )


@st.composite
def runs(draw: st.DrawFn) -> tuple[Federation, dict[str, int], set[tuple[str, int]]]:
    """A federation of 1 to 10 clients (2 to 10 in client-noise), who is gone from which round on, which uploads are lost."""
    trust = draw(st.sampled_from(TrustMode))
    shared = trust is TrustMode.CLIENT_NOISE
    n_clients = draw(st.integers(2 if shared else 1, 10))
    dropouts = draw(st.integers(0, n_clients - 2 if shared else n_clients - 1))
    algorithm = draw(st.sampled_from([FASTLLOYD, GLLOYD] if shared else [FASTLLOYD, GLLOYD, SULLOYD]))
    plan = make_plan(
        n_clients,
        trust=trust,
        max_dropouts=dropouts,
        ring_bits=draw(st.sampled_from([32, 64])),
        algorithm=algorithm,
        n_clusters=draw(st.integers(1, 4)),
        n_features=draw(st.integers(1, 3)),
        n_iterations=draw(st.integers(1, 4)),
        estimate_loss=draw(st.booleans()),
    )
    sizes = draw(st.lists(st.integers(0, CAP), min_size=n_clients, max_size=n_clients))
    T = plan.mechanism.n_rounds  # the loss, where there is one, may be missed like any round
    absent = draw(st.lists(st.sampled_from(plan.names), max_size=dropouts, unique=True))
    gone = {name: draw(st.integers(1, T)) for name in absent if draw(st.booleans())}
    lost = {(name, draw(st.integers(1, T))) for name in absent if name not in gone}
    return federation(plan, draw(st.integers(0, 2**32 - 1)), sizes), gone, lost


def play(of: Federation, gone: dict[str, int], lost: set[tuple[str, int]]) -> dict[str, Any]:
    """Run it; the clients that end with a result."""
    drops, departures = Drops(lost), Gone(gone)

    def link(sender: str, recipient: str, message: Any, data: bytes) -> list[bytes]:
        return [b for a in drops(sender, recipient, message, data) for b in departures(sender, recipient, message, a)]

    outcome = run_in_process(of.server(), of.clients(), link=link)
    assert outcome.refused == ()
    return {name: result for name, result in outcome.clients.items() if isinstance(result, ClientResult)}


def same(first: Any, second: Any) -> bool:
    return all(
        np.array_equal(getattr(first, field), getattr(second, field)) for field in ("centroids", "previous", "answer", "loss")
    )


@settings(max_examples=150)
@given(run=runs())
def test_a_run_with_dropped_clients_is_the_plain_integer_run_over_the_included_sets(
    run: tuple[Federation, dict[str, int], set[tuple[str, int]]],
) -> None:
    of, gone, lost = run
    results = play(of, gone, lost)
    assert set(results) == set(of.plan.names) - set(gone)
    for name, result in results.items():
        for number, included in enumerate(result.included, 1):
            here = {n for n in of.plan.names if gone.get(n, 99) > number and (n, number) not in lost}
            assert set(included) == here, name
        assert same(result.clustering, of.plain_result(result.included))


@settings(max_examples=150)
@given(run=runs())
def test_an_honest_run_is_the_central_run_with_the_same_total_noise(
    run: tuple[Federation, dict[str, int], set[tuple[str, int]]],
) -> None:
    of, _, _ = run
    everyone = [of.plan.names] * of.plan.mechanism.n_rounds
    pooled: IntArray = np.concatenate(list(of.X.values()))
    expected = cluster(of.plan.mechanism, pooled, injected(of.total_noise(everyone)))
    results = play(of, {}, set())
    assert set(results) == set(of.plan.names)
    assert all(same(result.clustering, expected) for result in results.values())


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32 - 1), n_clients=st.integers(1, 10), ring_bits=st.sampled_from([32, 64]))
def test_two_splits_of_the_same_records_give_the_same_centroids(seed: int, n_clients: int, ring_bits: int) -> None:
    plan = make_plan(n_clients, trust=TrustMode.SERVER_NOISE, ring_bits=ring_bits)
    rng = np.random.default_rng(seed)
    B = plan.mechanism.domain.half_widths
    records = rng.integers(-B, B + 1, (rng.integers(n_clients, CAP + 1), 2))
    noise = [plan.draw_server_noise(r, SeededNoise(seed)) for r in plan.mechanism.rounds]
    ends = []
    for _ in range(2):
        parts = np.split(rng.permutation(records), np.sort(rng.integers(0, len(records) + 1, n_clients - 1)))
        sessions = [
            ClientSession(plan, name, X, identity=identity(name), noise=InjectedNoise([]), random_bytes=entropy(name))
            for name, X in zip(plan.names, parts, strict=True)
        ]
        outcome = run_in_process(ServerSession(plan, injected(noise)), sessions)
        ends.append(next(r for r in outcome.clients.values() if isinstance(r, ClientResult)).clustering)
    assert same(*ends)
