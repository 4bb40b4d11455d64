"""Federated runs in one process: who is in which round, and the same centroids as the central
model's.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from designs import design_plan
from fastlloyd.base.arrays import IntArray
from fastlloyd.base.randomness import Keystreams, PublicSeed
from fastlloyd.clustering import reference
from fastlloyd.clustering.domain import Domain
from fastlloyd.errors import DataError, FastLloydError, PlanError
from fastlloyd.federation import simulation
from fastlloyd.federation.dealing import deal
from fastlloyd.federation.plan.plan import Masks, Plan, TrustMode
from fastlloyd.federation.protocol.actions import ClientResult
from fastlloyd.federation.secagg.keys import Identity
from fastlloyd.federation.simulation import Drop, parse_drop, roster
from fastlloyd.mechanisms import central
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.mechanisms.deal import RandomAssignment
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD, GLLOYD, SULLOYD, Algorithm
from fastlloyd.testing import InjectedNoise, SeededNoise
from federation import entropy
from kinds import lloyd_of
from lloyd_queries import around, moved

pytestmark = pytest.mark.usefixtures("repeatable_noise")

DOMAIN = Domain(features=("age", "dose"), lower=(0.0, 0.0), upper=(100.0, 5.0))
SEED = PublicSeed.from_int(3)
T = 3


def simulate(
    plan: Plan, identities: dict[str, Identity], parts: Iterable[IntArray], **options: Any
) -> ClientResult:
    return simulation.simulate(
        plan, identities, [LocalRecords(DOMAIN, part) for part in parts], **options
    )


def _records(n: int) -> IntArray:
    return DOMAIN.to_grid(np.random.default_rng(n).uniform([0, 0], [100, 5], (n, 2)))


def _plan(
    n_clients: int,
    *,
    algorithm: Algorithm = FASTLLOYD,
    trust: TrustMode = TrustMode.CLIENT_NOISE,
    max_dropouts: int = 0,
    ring_bits: int = 64,
    estimate_loss: bool = False,
    masks: Masks = Masks.GROUP,  # of which rounds may lack clients
) -> tuple[Plan, dict[str, Identity]]:
    clients, identities = roster([f"client-{i}" for i in range(1, n_clients + 1)], 500)
    plan = design_plan(
        algorithm,
        DOMAIN,
        clients=clients,
        run_id=bytes(range(16)),
        n_clusters=3,
        n_records=500,
        epsilon=5.0,
        public_seed=SEED,
        trust=trust,
        max_dropouts=max_dropouts,
        ring_bits=ring_bits,
        n_iterations=T,
        estimate_loss=estimate_loss,
        masks=masks,
        simulated=True,
    )
    return plan, identities


def _dealt(X: IntArray, n_clients: int, chance: str = "deal") -> list[IntArray]:
    """The records of each client, by the word of each record's number."""
    clients = RandomAssignment(n_clients, random_bytes=entropy(chance)).of_records(0, len(X))
    return [X[clients == client] for client in range(n_clients)]


def _silence(plan: Plan) -> InjectedNoise:
    """Zeros, in the order in which sums and counts ask for them; enough for every party and
    round.
    """
    k, d = plan.clustering.n_clusters, plan.clustering.n_features
    return InjectedNoise(
        [
            np.zeros(size, dtype=np.int64)
            for _ in range(T * (plan.n_clients + 1))
            for size in (k * d, k)
        ]
    )


def _centroids_of(plan: Plan, run: ClientResult, parts: list[IntArray]) -> IntArray:
    """What the central model finds without noise if every round sees the records of the clients
    that were included.
    """

    m = lloyd_of(plan)
    ended = m.start()
    for round, included in zip(m.rounds, run.included[:T], strict=True):
        X = np.vstack([X for name, X in zip(plan.names, parts, strict=True) if name in included])
        centroids = ended.centroids
        ended = moved(m, round, centroids, around(m, round, centroids).evaluate(X))
    return m.result(ended).centroids


class Blocks:
    """Blocks of records that count how often they are read."""

    def __init__(self, X: IntArray, cuts: list[int]) -> None:
        self.parts, self.n_passes = np.split(X, sorted(min(cut, len(X)) for cut in cuts)), 0

    def __iter__(self) -> Iterator[IntArray]:
        self.n_passes += 1
        return iter(self.parts)


@settings(max_examples=25)
@given(
    n=st.integers(0, 300),
    n_clients=st.integers(2, 12),
    key=st.integers(0, 2**64),
    cuts=st.lists(st.integers(0, 300), max_size=5),
)
def test_one_pass_gives_every_client_the_answer_of_its_part(
    n: int, n_clients: int, key: int, cuts: list[int]
) -> None:
    X, chance = _records(n), f"deal {key}"
    blocks, plan = Blocks(X, cuts), _plan(n_clients)[0]
    shares = deal(plan, LocalRecords(DOMAIN, blocks), random_bytes=entropy(chance))
    parts = _dealt(X, n_clients, chance)
    assert [share.n for share in shares] == [len(part) for part in parts]
    lloyd = lloyd_of(plan)
    for centroids in (lloyd.initial_centroids(), lloyd.initial_centroids() // 2):
        query = around(lloyd, lloyd.rounds[0], centroids)
        for share, part in zip(shares, parts, strict=True):
            answer, size = share.answer(query)
            assert size == len(part)
            assert np.array_equal(answer, query.evaluate(part))
    assert blocks.n_passes == 3  # one to count them


def test_a_simulation_passes_over_the_records_once_a_round_however_many_clients_there_are() -> None:
    plan, identities = _plan(5)
    blocks = Blocks(_records(300), [7, 200])
    shares = deal(plan, LocalRecords(DOMAIN, blocks), random_bytes=entropy("deal"))
    run = simulation.simulate(plan, identities, shares, noise=_silence(plan))
    assert blocks.n_passes == 1 + T
    parts = _dealt(_records(300), 5, "deal")
    assert np.array_equal(run.clustering.centroids, _centroids_of(plan, run, parts))


@pytest.mark.parametrize("n", [299, 301])
def test_records_that_become_more_or_fewer_between_two_rounds_are_refused(n: int) -> None:
    plan, identities = _plan(3)
    blocks = Blocks(_records(300), [150])
    shares = deal(plan, LocalRecords(DOMAIN, blocks))
    blocks.parts = [_records(n)]
    with pytest.raises(DataError, match="between two passes"):
        simulation.simulate(plan, identities, shares)


@pytest.mark.parametrize("ring_bits", [32, 64])
@pytest.mark.parametrize("n_clients", [2, 5, 9])
def test_a_simulated_run_equals_the_central_model_bit_for_bit(
    n_clients: int, ring_bits: int
) -> None:
    """Server noise: the same samples in the same order make the same answers."""
    plan, identities = _plan(n_clients, trust=TrustMode.SERVER_NOISE, ring_bits=ring_bits)
    X = _records(400)
    run = simulate(plan, identities, _dealt(X, n_clients), noise=SeededNoise(1))
    alone = central.cluster(
        plan.clustering, LocalRecords(plan.clustering.domain, X), SeededNoise(1)
    )
    assert np.array_equal(run.clustering.centroids, alone.centroids)
    assert np.array_equal(run.clustering.answer, alone.answer)
    assert run.included == (plan.names,) * T
    assert run.unconfirmed == ()


@pytest.mark.parametrize("algorithm", [FASTLLOYD, GLLOYD])
@pytest.mark.parametrize(
    "drops",
    [
        (),
        ("client-2@2",),
        ("client-2@1", "client-2@3"),
        ("client-4@2+",),
        ("1@3", "client-4@1+"),
        ("2@1+", "2@3+", "3@3"),
    ],
)
def test_dropped_clients_miss_exactly_their_rounds(
    algorithm: Algorithm, drops: tuple[str, ...]
) -> None:
    plan, identities = _plan(5, algorithm=algorithm, max_dropouts=2)
    parts = _dealt(_records(300), 5)
    read = [parse_drop(text, plan.names) for text in drops]
    run = simulate(plan, identities, parts, drops=read, noise=_silence(plan))
    for number, included in enumerate(run.included, 1):
        missing = {
            d.client for d in read if d.round == number or (d.for_good and number >= d.round)
        }
        assert set(included) == set(plan.names) - missing
    assert np.array_equal(run.clustering.centroids, _centroids_of(plan, run, parts))


def test_more_clients_than_records_run_too() -> None:
    plan, identities = _plan(7)
    parts = _dealt(_records(3), 7)
    run = simulate(plan, identities, parts, noise=_silence(plan))
    assert np.array_equal(run.clustering.centroids, _centroids_of(plan, run, parts))


@pytest.mark.parametrize("n_clients", [2, 7, 20])
def test_masks_are_derived_as_often_as_there_are_clients_and_not_as_there_are_pairs(
    n_clients: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    derived, genuine = [], Keystreams.of

    def counted(self: Keystreams, rest: bytes, n_bytes: int) -> bytes:
        derived.append(n_bytes)
        return genuine(self, rest, n_bytes)

    plan, identities = _plan(n_clients)
    monkeypatch.setattr(Keystreams, "of", counted)
    simulate(plan, identities, _dealt(_records(100), n_clients))
    assert len(derived) == T * (
        n_clients + n_clients - 1
    )  # to hide, and to open the sum but for one's own


def test_laplace_noise_is_added_by_the_server() -> None:
    plan, identities = _plan(3, algorithm=SULLOYD, trust=TrustMode.SERVER_NOISE)
    X = _records(200)
    run = simulate(plan, identities, _dealt(X, 3), noise=SeededNoise(2))
    assert np.array_equal(
        run.clustering.centroids,
        central.cluster(
            plan.clustering, LocalRecords(plan.clustering.domain, X), SeededNoise(2)
        ).centroids,
    )


def test_the_noise_of_a_simulation_is_the_systems_unless_given() -> None:
    plan, identities = _plan(3)
    parts = _dealt(_records(100), 3)
    first, second = (simulate(plan, identities, parts).clustering.answer for _ in range(2))
    assert not np.array_equal(first, second)


def test_too_many_dropouts_end_the_run_with_a_reason() -> None:
    plan, identities = _plan(4, max_dropouts=1)
    parts = _dealt(_records(100), 4)
    drops = [parse_drop(text, plan.names) for text in ("1@2", "2@2")]
    with pytest.raises(FastLloydError, match="without a result"):
        simulate(plan, identities, parts, drops=drops)


def test_a_client_with_more_records_than_its_cap_is_refused() -> None:
    plan, identities = _plan(2)
    cap = plan.clients[0].max_records
    with pytest.raises(DataError, match="cap"):
        simulate(plan, identities, [_records(cap + 1), _records(10)])


def test_a_client_that_misses_the_loss_is_missing_in_it_and_nowhere_else() -> None:
    plan, identities = _plan(4, max_dropouts=1, estimate_loss=True)
    parts = _dealt(_records(300), 4)
    silence = [np.zeros(n, dtype=np.int64) for _ in range(T * plan.n_clients) for n in (6, 3)]
    silence += [np.zeros(1, dtype=np.int64)] * plan.n_clients
    run = simulate(
        plan,
        identities,
        parts,
        drops=[parse_drop(f"2@{T + 1}", plan.names)],
        noise=InjectedNoise(silence),
    )
    here = [name for name in plan.names if name != "client-2"]
    assert run.included == (*[plan.names] * T, tuple(here))
    assert np.array_equal(run.clustering.centroids, _centroids_of(plan, run, parts))
    loss = plan.clustering.loss
    assert loss is not None
    X = np.vstack([X for name, X in zip(plan.names, parts, strict=True) if name in here])
    assert run.clustering.loss == reference.clipped_loss(
        X, run.clustering.centroids, loss.squared_cap, loss.shift
    )


def test_a_run_that_loses_too_many_clients_at_the_loss_ends_without_a_result() -> None:
    plan, identities = _plan(4, max_dropouts=1, estimate_loss=True)
    parts = _dealt(_records(100), 4)
    drops = [parse_drop(f"{client}@{T + 1}", plan.names) for client in (1, 2)]
    with pytest.raises(
        FastLloydError,
        match=(
            rf"2 clients answered in round {T + 1} \(missing: client-1, client-2\), and at least 3"
            r" are needed"
        ),
    ):
        simulate(plan, identities, parts, drops=drops)
    with pytest.raises(PlanError, match=f"rounds 1 to {T + 1}"):
        simulate(
            plan, identities, parts, drops=[Drop(client="client-1", round=T + 2, for_good=False)]
        )


@pytest.mark.parametrize("round", [0, T + 1])
def test_drops_outside_the_run_are_refused(round: int) -> None:
    plan, identities = _plan(3, max_dropouts=1)
    with pytest.raises(PlanError, match=f"rounds 1 to {T}"):
        simulate(
            plan,
            identities,
            _dealt(_records(30), 3),
            drops=[Drop(client="client-1", round=round, for_good=False)],
        )


@given(
    client=st.sampled_from(["hospital-a", "b@2", "3"]),
    round=st.integers(0, 9999),
    for_good=st.booleans(),
)
def test_drops_read_back_as_they_are_written(client: str, round: int, for_good: bool) -> None:
    text = f"{client}@{round}{'+' * for_good}"
    assert parse_drop(text, ["hospital-a", "b@2", "3"]) == Drop(
        client=client, round=round, for_good=for_good
    )


def test_a_bare_number_counts_the_clients() -> None:
    assert parse_drop("2@3", ["client-1", "client-2"]) == parse_drop(
        "client-2@3", ["client-1", "client-2"]
    )


@pytest.mark.parametrize(
    "text", ["", "2", "@2", "2@", "2@x", "2@-1", "0@1", "3@1", "client-9@1", "2@1++", "2@12345"]
)
def test_other_drops_are_refused(text: str) -> None:
    with pytest.raises(PlanError, match="drop"):
        parse_drop(text, ["client-1", "client-2"])
