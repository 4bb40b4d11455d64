"""Runs of persons beside the central run."""

import numpy as np
import pytest

from fastlloyd.base.arrays import IntArray
from fastlloyd.federation.plan.plan import Masks, Plan, TrustMode
from fastlloyd.federation.protocol.actions import ClientResult
from fastlloyd.federation.protocol.client import ClientSession
from fastlloyd.federation.protocol.server import ServerSession
from fastlloyd.federation.transport.in_process import run_in_process
from fastlloyd.mechanisms.answering import SharedRecords
from fastlloyd.mechanisms.central import run
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD
from fastlloyd.mechanisms.mechanism import Mechanism
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD
from fastlloyd.mechanisms.persons import Persons
from fastlloyd.mechanisms.queries.query import Query
from fastlloyd.mechanisms.rounds import Answer, AnswerNoise
from fastlloyd.mechanisms.settings import AnyAlgorithm
from fastlloyd.testing import InjectedNoise, SeededNoise
from federation import (
    entropy,
    identity,
    injected_by_part,
    make_plan,
    same_clustering,
    starts_cheaply,
)


def drawn(plan: Plan, seed: int) -> tuple[dict[str, IntArray], dict[str, list[bytes]]]:
    """Rows at random, some on walls and some alike, of up to 20 persons at each client."""
    rng, B = np.random.default_rng(seed), plan.mechanism.domain.half_widths
    X, ids = {}, {}
    for name in plan.names:
        sizes = rng.integers(1, 30, rng.integers(0, 21))
        rows = rng.integers(-B, B + 1, (int(sizes.sum()), plan.mechanism.n_features))
        rows[rng.random(len(rows)) < 0.3] = B
        order = rng.permutation(len(rows))
        X[name] = rows[order]
        ids[name] = [
            b"%s of %d" % (name.encode(), person)
            for person in np.repeat(np.arange(len(sizes)), sizes)[order]
        ]
    return X, ids


@pytest.mark.usefixtures("repeatable_noise")
@pytest.mark.parametrize("masks", Masks)
@pytest.mark.parametrize("trust", TrustMode)
@pytest.mark.parametrize("algorithm", [FASTLLOYD, MOMENTLLOYD], ids=lambda a: a.name)
@pytest.mark.parametrize("n_clients", [2, 3, 5])
def test_a_run_of_persons_is_the_central_run_with_the_same_noise_whatever_clients_they_are_at(
    algorithm: AnyAlgorithm,
    trust: TrustMode,
    masks: Masks,
    n_clients: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    starts_cheaply(monkeypatch)
    plan = make_plan(
        n_clients,
        algorithm=algorithm,
        trust=trust,
        masks=masks,
        persons=Persons(),
        estimate_loss=True,
    )
    m, (X, ids) = plan.mechanism, drawn(plan, n_clients)
    assert isinstance(m, Mechanism)
    source = SeededNoise(n_clients)
    shares = {
        name: [plan.draw_client_noise(r, source, n_clients) for r in m.all_rounds]
        for name in plan.names
    }
    of_server = [plan.draw_server_noise(r, source) for r in m.all_rounds]
    sessions = [
        ClientSession(
            plan,
            name,
            SharedRecords.of_persons(m, X[name], ids[name]),
            identity=identity(name),
            noise=(
                injected_by_part(m, shares[name])
                if trust is TrustMode.CLIENT_NOISE
                else InjectedNoise([])
            ),
            random_bytes=entropy(name),
        )
        for name in plan.names
    ]
    outcome = run_in_process(ServerSession(plan, injected_by_part(m, of_server)), sessions)
    results = [result for result in outcome.clients.values() if isinstance(result, ClientResult)]
    assert len(results) == n_clients

    rng = np.random.default_rng(1)
    rows, of_whom = (
        np.concatenate(list(X.values())),
        [person for each in ids.values() for person in each],
    )
    order = rng.permutation(len(rows))
    pooled = SharedRecords.of_persons(m, rows[order], [of_whom[i] for i in order])
    of_all = [np.sum(each, axis=0) for each in zip(*shares.values(), strict=True)]
    total = of_server if trust is TrustMode.SERVER_NOISE else of_all

    def ask(number: int, query: Query) -> tuple[Answer, AnswerNoise]:
        deviations = plan.deviations(m.all_rounds[number], n_clients)
        return pooled.answer(query)[0] + total[number], AnswerNoise(
            deviations=deviations, share=1.0
        )

    expected = run(m, ask)
    assert all(same_clustering(result.clustering, expected) for result in results)
    assert all(result.doubtful == () for result in results)
