"""Clusters of a result are numbered by released noisy count, the largest first, ties by their
number in the rounds.
"""

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from designs import design_mechanism
from fastlloyd import FastLloyd, GLloyd, Lloyd, MomentLloyd, SuLloyd
from fastlloyd.base.arrays import FloatArray
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain
from fastlloyd.dp.noise import Noise
from fastlloyd.federation.protocol.messages import Confirmation, Message
from fastlloyd.federation.transport.in_process import run_in_process
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.mechanisms.catalogue import AnyMechanism
from fastlloyd.mechanisms.central import cluster
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD, GLLOYD, LLOYD, SULLOYD, Algorithm
from fastlloyd.mechanisms.mechanism import Clustering, Evidence
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD
from fastlloyd.mechanisms.queries.relative import centroids_digest
from fastlloyd.mechanisms.rounds import State
from fastlloyd.mechanisms.settings import AnyAlgorithm
from fastlloyd.testing import SeededNoise
from federation import (
    make_federation,
    make_plan,
    results,
    run_with_ledger,
    same_clustering,
    starts_cheaply,
)

pytestmark = [
    pytest.mark.usefixtures("repeatable_noise"),
    pytest.mark.filterwarnings("ignore::fastlloyd.errors.ClippedRecordsWarning"),
    pytest.mark.filterwarnings("ignore::fastlloyd.errors.NoisyResultWarning"),
]

DOMAIN = Domain(features=("x", "y"), lower=(0.0, 0.0), upper=(10.0, 10.0))
CENTRES = np.array([[1.0, 2.0], [9.0, 1.0], [5.0, 5.0], [2.0, 9.0], [8.0, 8.0]])
SIZES = [40, 200, 90, 400, 20]
LEAST, MOST = -(2**63), 2**63 - 1


@pytest.fixture(autouse=True)
def _cheap_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    starts_cheaply(monkeypatch)


def records() -> np.ndarray[Any, np.dtype[np.float64]]:
    rng = np.random.default_rng(4)
    return np.repeat(CENTRES, SIZES, axis=0) + rng.normal(0, 0.3, (sum(SIZES), 2))


def mechanism(algorithm: AnyAlgorithm, epsilon: float = 5.0) -> AnyMechanism:
    return design_mechanism(
        algorithm,
        DOMAIN,
        n_clusters=len(SIZES),
        n_records=1000,
        epsilon=epsilon,
        public_seed=PublicSeed.from_int(2),
    )


def clustering(counts: list[int], has_evidence: bool) -> Clustering:
    """A clustering of which every row of every field tells its number."""
    k = len(counts)
    number = np.arange(k)
    two = np.stack([number, -number], axis=1)
    fractions: FloatArray = two.astype(np.float64)
    seen = Evidence(
        means=fractions + 0.5,
        deviations=fractions + 0.25,
        sizes=fractions[:, 0],
        radius=3.0,
        hidden=fractions + 0.125,
        crowded=number % 3 == 0,
        above=None,
        below=fractions + 0.75,
    )
    return Clustering(
        two,
        two + 1,
        np.column_stack([two + 2, counts]),
        number % 2 == 0,
        loss=7,
        evidence=seen if has_evidence else None,
    )


@given(
    counts=st.lists(
        st.integers(LEAST, MOST) | st.integers(-2, 2) | st.just(LEAST), min_size=1, max_size=12
    ),
    has_evidence=st.booleans(),
)
def test_the_largest_noisy_count_comes_first_and_equal_ones_keep_their_order(
    counts: list[int], has_evidence: bool
) -> None:
    """And every cluster takes all that is said of it along."""
    before = clustering(counts, has_evidence)
    after = before.by_noisy_count()
    order = sorted(range(len(counts)), key=lambda i: (-counts[i], i))
    assert after.answer[:, -1].tolist() == [counts[i] for i in order]
    expected: dict[str, Any] = {
        name: getattr(before, name)[order]
        for name in ("centroids", "previous", "answer", "updated")
    }
    if before.evidence is not None:
        moved = {
            name: getattr(before.evidence, name)[order]
            for name in ("means", "deviations", "sizes", "hidden", "crowded", "below")
        }
        expected["evidence"] = msgspec.structs.replace(before.evidence, **moved)
    assert same_clustering(after, msgspec.structs.replace(before, **expected))
    assert same_clustering(after.by_noisy_count(), after)


@pytest.mark.parametrize("algorithm", [MOMENTLLOYD, FASTLLOYD, GLLOYD, SULLOYD, LLOYD])
def test_a_result_is_the_last_clustering_in_this_order(
    algorithm: AnyAlgorithm, monkeypatch: pytest.MonkeyPatch
) -> None:
    m, last = mechanism(algorithm), list[Clustering]()
    of_rounds: Callable[[Any, State], Clustering] = type(m).last_clustering

    def noted(m: AnyMechanism, state: State) -> Clustering:
        last.append(of_rounds(m, state))
        return last[-1]

    monkeypatch.setattr(type(m), "last_clustering", noted)
    X = LocalRecords(DOMAIN, DOMAIN.to_grid(records()))
    found = cluster(m, X, SeededNoise(1))
    (before,) = last
    assert (np.diff(before.answer[:, -1]) > 0).any()
    assert (np.diff(found.answer[:, -1]) <= 0).all()
    assert same_clustering(found, before.by_noisy_count())
    if m.noise is Noise.NONE:
        assert found.noisy_counts(m.number_bits).sum() == sum(SIZES)


@pytest.mark.parametrize("algorithm", [FASTLLOYD, GLLOYD, SULLOYD, LLOYD])
@given(order=st.permutations(range(len(SIZES))), seed=st.integers(0, 2**32 - 1))
def test_initial_centroids_in_another_order_give_the_same_result(
    algorithm: Algorithm, order: list[int], seed: int
) -> None:
    """If their noise goes with them and no two counts are equal."""
    m, rng = mechanism(algorithm), np.random.default_rng(seed)
    X = DOMAIN.to_grid(records())
    noise = [rng.integers(-30, 31, m.shape(round)) for round in m.all_rounds]
    for one in noise:
        one[:, -1] = rng.permutation(len(SIZES)) * 7

    def ended(clusters: list[int]) -> Clustering:
        state = m.start()
        state = msgspec.structs.replace(state, centroids=state.centroids[clusters])
        for number in range(m.n_rounds):
            answer = m.query(number, state).evaluate(X) + noise[number][clusters]
            state = m.advance(number, state, answer, m.answer_noise(number))
        found: Clustering = m.result(state)
        return found

    first = ended(list(range(len(SIZES))))
    if len(set(first.answer[:, -1].tolist())) == len(SIZES):
        assert same_clustering(ended(order), first)


@pytest.mark.parametrize("algorithm", [FASTLLOYD, MOMENTLLOYD])
def test_members_confirm_the_clusters_in_this_order(
    algorithm: AnyAlgorithm, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = make_federation(make_plan(3, algorithm=algorithm, n_clusters=4), seed=5)

    def confirmed() -> dict[str, bytes]:
        said = list[tuple[str, Message]]()
        run_with_ledger(of.server(), of.clients(), said)
        return {party: message.mac for party, message in said if isinstance(message, Confirmation)}

    ended = results(run_in_process(of.server(), of.clients()).clients.values())
    assert len(ended) == 3
    everyone = [of.plan.names] * of.plan.mechanism.n_rounds
    for one in ended:
        counts = one.clustering.answer[:, -1]
        assert (np.diff(counts) <= 0).all()
        assert one.clustering.digest == centroids_digest(one.clustering.centroids)
        assert same_clustering(one.clustering, of.plain_result(everyone))
    in_order = confirmed()
    assert len(in_order) == 3
    monkeypatch.setattr(Clustering, "by_noisy_count", lambda self: self)
    assert not same_clustering(of.plain_result(everyone), ended[0].clustering)
    assert all(mac != in_order[name] for name, mac in confirmed().items())


@pytest.mark.parametrize("estimator", [MomentLloyd, FastLloyd, GLloyd, SuLloyd, Lloyd])
def test_labels_of_an_estimator_have_the_numbers_of_its_counts(
    estimator: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fastlloyd.jobs.fit.SystemNoise", lambda: SeededNoise(3))
    X, public = records(), {"n_records": 1000, "random_state": 2}
    model = estimator(len(SIZES), bounds=(0, 10), epsilon=5.0, **public).fit(X)
    assert (np.diff(model.noisy_counts_) <= 0).all()
    assert np.array_equal(model.labels_, model.predict(X))
    nearest = [model.predict(centre[None])[0] for centre in model.cluster_centers_]
    assert nearest == list(range(len(SIZES)))


def test_the_stage_after_bounds_are_found_has_the_same_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fastlloyd.jobs.fit.SystemNoise", lambda: SeededNoise(3))
    X = records()
    model = MomentLloyd(
        len(SIZES), bounds="private", value_range=(-100, 100), epsilon=5.0, n_records=1000,
        random_state=2,
    ).fit(X)  # fmt: skip
    assert (np.diff(model.noisy_counts_) <= 0).all()
    assert np.array_equal(model.labels_, model.predict(X))
    assert np.abs(np.bincount(model.labels_) - model.noisy_counts_).max() < 30
    assert np.allclose(model.cluster_centers_[0], CENTRES[int(np.argmax(SIZES))], atol=0.5)


def test_the_centroids_of_a_run_that_ends_early_keep_the_order_of_the_rounds() -> None:
    of = make_federation(make_plan(3, n_clusters=4, n_iterations=3), seed=5)
    everyone = [of.plan.names] * 3
    after_all, result = of.plain_centroids(everyone), of.plain_result(everyone)
    assert after_all is not None
    assert not np.array_equal(after_all, result.centroids)
    assert sorted(after_all.tolist()) == sorted(result.centroids.tolist())
