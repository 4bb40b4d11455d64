"""Honest runs are never doubted, whatever the records; a lie is, from a stated size on; how
probable a false warning is.
"""

import math
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from designs import design_mechanism, design_plan
from fastlloyd.base.arrays import IntArray
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain
from fastlloyd.federation.plan.plan import Client, Plan, TrustMode
from fastlloyd.federation.protocol.client import ClientSession
from fastlloyd.federation.protocol.masked_round import Plausible
from fastlloyd.federation.protocol.server import ServerSession
from fastlloyd.federation.transport.in_process import Drops, run_in_process
from fastlloyd.mechanisms import doubt
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.mechanisms.doubt import is_doubtful
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD, GLLOYD, SULLOYD
from fastlloyd.mechanisms.lloyd.mechanism import LloydMechanism
from fastlloyd.mechanisms.mechanism import Mechanism
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD
from fastlloyd.mechanisms.rounds import AnswerNoise
from fastlloyd.mechanisms.settings import AnyAlgorithm
from fastlloyd.testing import SeededNoise
from federation import CAP, entropy, identity, make_federation, make_plan, results, starts_cheaply

pytestmark = pytest.mark.usefixtures("repeatable_noise")

BOTH = [
    (FASTLLOYD, TrustMode.CLIENT_NOISE),
    (FASTLLOYD, TrustMode.SERVER_NOISE),
    (SULLOYD, TrustMode.SERVER_NOISE),
    (GLLOYD, TrustMode.CLIENT_NOISE),
    (MOMENTLLOYD, TrustMode.CLIENT_NOISE),
    (MOMENTLLOYD, TrustMode.SERVER_NOISE),
]


@pytest.fixture(autouse=True)
def _cheap_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    starts_cheaply(monkeypatch)


@lru_cache
def plan_of(algorithm: AnyAlgorithm, trust: TrustMode, n_features: int, epsilon: float) -> Plan:
    return make_plan(
        4,
        algorithm=algorithm,
        trust=trust,
        n_features=n_features,
        n_clusters=3,
        max_dropouts=1,
        epsilon=epsilon,
        estimate_loss=True,
    )


def extreme(plan: Plan, kind: int, generator: np.random.Generator) -> IntArray:
    """A client's records: none, all at one corner, at the corners, at the middle, near a start, or
    anywhere.
    """
    m = plan.mechanism
    B, d = m.domain.half_widths, m.n_features
    match kind:
        case 0:
            return np.zeros((0, d), dtype=np.int64)
        case 1:
            return np.tile(B, (CAP, 1))
        case 2:
            return np.where(generator.integers(2, size=(CAP, d)) == 0, -B, B)
        case 3:
            return np.zeros((CAP, d), dtype=np.int64)
        case 4:  # as far from a centroid as the radius of the first round lets them, along one axis
            if not isinstance(m, LloydMechanism):
                return np.tile(-B, (CAP, 1))
            radius = math.isqrt(m.rounds[0].squared_radius or 0)
            moved = (
                m.start().centroids[generator.integers(3)]
                + radius * np.eye(d, dtype=np.int64)[generator.integers(d)]
            )
            return np.tile(np.clip(moved, -B, B), (CAP, 1))
        case _:
            return generator.integers(-B, B + 1, (CAP, d))


class Lying:
    """Noise to which a client adds an offset in one place of the answers to one round."""

    private = False

    def __init__(self, source: SeededNoise, offsets: Iterable[IntArray]) -> None:
        self._source, self._offsets = source, iter(offsets)

    def gaussian(self, scale: Any, size: int) -> IntArray:
        return self._source.gaussian(scale, size) + next(self._offsets)

    def two_sided_geometric(self, scale: Any, size: int) -> IntArray:
        raise AssertionError(f"{size} of {scale}: clients draw no Laplace noise")


def sessions(plan: Plan, X: list[IntArray], seed: int) -> Iterator[ClientSession]:
    for number, (name, records) in enumerate(zip(plan.names, X, strict=True)):
        noise = SeededNoise(9 * seed + number)
        yield ClientSession(
            plan,
            name,
            LocalRecords(plan.mechanism.domain, records),
            identity=identity(name),
            noise=noise,
            random_bytes=entropy(f"{name}{seed}"),
        )


@pytest.mark.parametrize(
    ("algorithm", "trust"), BOTH, ids=lambda value: getattr(value, "name", None)
)
def test_whole_honest_runs_are_never_doubted(algorithm: AnyAlgorithm, trust: TrustMode) -> None:
    """Records at extremes, empty clusters, clients that miss a round; every client says the
    same.
    """

    @settings(max_examples=12)
    @given(
        st.integers(0, 2**32),
        st.sampled_from([1, 2, 12]),
        st.sampled_from([0.3, 1.0, 30.0]),
        st.booleans(),
    )
    def check(seed: int, n_features: int, epsilon: float, misses: bool) -> None:
        plan, generator = (
            plan_of(algorithm, trust, n_features, epsilon),
            np.random.default_rng(seed),
        )
        same = int(generator.integers(6))
        X = [
            extreme(plan, same if generator.integers(2) else int(generator.integers(6)), generator)
            for _ in plan.names
        ]
        server = ServerSession(plan, SeededNoise(seed + 7))
        drops = Drops({("c1", 2), ("c0", plan.mechanism.n_rounds)} if misses else set())
        found = results(
            run_in_process(server, list(sessions(plan, X, seed)), link=drops).clients.values()
        )
        assert len(found) == 4
        assert all(result.doubtful == () for result in found)

    check()


@pytest.mark.parametrize("lie", [0.0, 0.5, 1.0, 2.0, 3.0, 100.0])
def test_a_client_that_adds_to_a_sum_is_warned_about_and_the_result_is_there(lie: float) -> None:
    """In units of what its cap of honest records could add: at this epsilon from 2 on, and far
    beyond the run ends.
    """
    plan = make_plan(4, n_clusters=3, epsilon=30.0, n_iterations=3)
    m, federation = plan.mechanism, make_federation(plan)
    offsets = [
        np.zeros(3 * part.n_columns, dtype=np.int64)
        for round in m.all_rounds
        for part in m.parts(round)
    ]
    offsets[2][0] = int(lie * CAP * m.parts(m.rounds[1])[0].bound)  # the first sum of round 2
    clients = list(sessions(plan, [federation.X[name] for name in plan.names], 5))
    liar: Any = Lying(SeededNoise(1), offsets)
    clients[2] = ClientSession(
        plan,
        "c2",
        LocalRecords(plan.mechanism.domain, federation.X["c2"]),
        identity=identity("c2"),
        noise=liar,
        random_bytes=entropy("c2"),
    )
    outcome = run_in_process(ServerSession(plan, SeededNoise(2)), clients)
    found = results(outcome.clients.values())
    assert len(found) == (0 if lie == 100 else 4)  # then it is above all clients' caps
    assert {result.doubtful for result in found} == (
        {()} if lie <= 1 else set() if lie == 100 else {(2,)}
    )


# At the level of one answer


def mechanism(
    algorithm: AnyAlgorithm,
    *,
    n_records: int = 10_000,
    k: int = 5,
    d: int = 2,
    epsilon: float = 1.0,
) -> Mechanism:
    domain = Domain(features=tuple(map(str, range(d))), lower=(-1.0,) * d, upper=(1.0,) * d)
    settings = {
        "n_clusters": k,
        "n_records": n_records,
        "epsilon": epsilon,
        "public_seed": PublicSeed.from_int(2),
    }
    return design_mechanism(algorithm, domain, estimate_loss=True, **settings)


def asked(
    m: Mechanism, noise: SeededNoise, X: IntArray
) -> Iterator[tuple[int, IntArray, AnswerNoise]]:
    """Every round of a run in the central model: number, exact answer, what is known of the
    noise.
    """
    state = m.start()
    for number, round in enumerate(m.all_rounds):
        exact, known = m.query(number, state).evaluate(X), m.answer_noise(number)
        yield number, exact, known
        state = m.advance(number, state, exact + m.draw_noise(round, noise), known)


@pytest.mark.parametrize(
    "algorithm", [FASTLLOYD, SULLOYD, MOMENTLLOYD], ids=lambda algorithm: algorithm.name
)
def test_what_is_doubted_without_noise_is_doubted_with_it_at_twice_the_size(
    algorithm: AnyAlgorithm,
) -> None:
    """In every part of every round, up and down: noise takes no more than the reach that the
    smallest such lie exceeds.
    """
    m = mechanism(algorithm, epsilon=5.0)
    X = m.domain.to_grid(np.random.default_rng(3).uniform(-0.5, 0.5, (8000, 2)))
    source = SeededNoise(4)
    for number, exact, noise in asked(m, source, X):
        answer = exact + m.draw_noise(m.all_rounds[number], source)
        assert not is_doubtful(m, m.all_rounds[number], answer, len(X), noise, 1)
        for place in {
            (0, 0),
            (exact.shape[0] - 1, exact.shape[1] // 2),
            (exact.shape[0] // 2, exact.shape[1] - 1),
        }:
            for sign in (1, -1):
                least = least_doubted(m, number, exact, place, sign, len(X), noise)
                lie = np.zeros_like(exact)
                lie[place] = 2 * sign * least
                assert is_doubtful(m, m.all_rounds[number], answer + lie, len(X), noise, 1)


def least_doubted(
    m: Mechanism,
    number: int,
    exact: IntArray,
    place: tuple[int, ...],
    sign: int,
    n: int,
    noise: AnswerNoise,
    n_draws: int = 1,
) -> int:
    """The least offset of one entry of an exact answer that is doubted."""
    lie = np.zeros_like(exact)

    def doubted(size: int) -> bool:
        lie[place] = sign * size
        return is_doubtful(m, m.all_rounds[number], exact + lie, n, noise, n_draws)

    high = 1
    while not doubted(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if doubted(middle) else (middle, high)
    return high


def test_sums_of_clusters_are_held_to_less_than_what_ends_a_run() -> None:
    """By a factor of 4 and more for every sum of each round, as docs/proofs/doubt.md says of 5
    clusters in the plane.
    """
    domain = mechanism(FASTLLOYD).domain
    clients = tuple(Client(name=f"c{i}", max_records=2000) for i in range(5))
    settings = {
        "n_clusters": 5,
        "epsilon": 1.0,
        "public_seed": PublicSeed.from_int(2),
        "run_id": bytes(16),
    }
    plan = design_plan(FASTLLOYD, domain, clients=clients, **settings)
    X = domain.to_grid(np.random.default_rng(1).uniform(-1, 1, (10_000, 2)))
    limits = Plausible.of(plan)
    for number, exact, _ in asked(plan.clustering, SeededNoise(1), X):
        noise = AnswerNoise(deviations=plan.deviations(plan.mechanism.rounds[number], 5), share=1.0)
        factors = []
        for row in range(5):
            ends = len(X) * limits.bounds[number][0] + limits.reaches[number][0] - exact[row, 0]
            factors.append(
                ends
                / least_doubted(
                    plan.clustering, number, exact, (row, 0), 1, len(X), noise, n_draws=5
                )
            )
        assert np.median(factors) > 4


@pytest.mark.parametrize(
    "algorithm", [FASTLLOYD, SULLOYD, MOMENTLLOYD], ids=lambda algorithm: algorithm.name
)
def test_a_false_warning_is_as_rare_as_reckoned(
    algorithm: AnyAlgorithm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By counting, with 2**-1 in the place of 2**-41: answers of no records at all, where most
    inequalities are equalities.
    """
    monkeypatch.setattr(doubt, "FALSE_ALARM_BITS", 0)
    m, source = mechanism(algorithm, k=3), SeededNoise(8)
    empty = [np.zeros(m.shape(round), dtype=np.int64) for round in m.all_rounds]

    def warns() -> bool:
        return any(
            is_doubtful(m, round, exact + m.draw_noise(round, source), 0, m.answer_noise(number), 1)
            for number, (round, exact) in enumerate(zip(m.all_rounds, empty, strict=True))
        )

    n = 600
    warned = sum(warns() for _ in range(n))
    assert 0 < warned < n / 2
