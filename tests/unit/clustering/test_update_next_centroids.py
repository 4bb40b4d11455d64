"""One update against a slow oracle in Python fractions, and the loop against plain k-means."""

import math
import os
from fractions import Fraction
from functools import cache
from unittest import mock

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from designs import design_mechanism
from fastlloyd.base import threads
from fastlloyd.base.arrays import IntArray
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering import reference
from fastlloyd.clustering.domain import Domain, Scaling
from fastlloyd.clustering.update import Postprocessing
from fastlloyd.mechanisms import central
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.mechanisms.catalogue import ALGORITHMS
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD, GLLOYD, LLOYD, SULLOYD, Algorithm
from fastlloyd.mechanisms.lloyd.mechanism import LloydMechanism, LloydRound
from fastlloyd.testing import InjectedNoise, SeededNoise
from lloyd_queries import moved

pytestmark = pytest.mark.usefixtures("repeatable_noise")

BOXES = {
    "square": Domain(features=("x", "y"), lower=(-1.0, 0.0), upper=(1.0, 5.0), fraction_bits=10),
    "oblong": Domain(
        features=("x", "y", "z"),
        lower=(0.0,) * 3,
        upper=(8.0, 3.0, 0.5),
        fraction_bits=12,
        scaling=Scaling.COMMON,
    ),
    "line": Domain(features=("x",), lower=(-1.0,), upper=(1.0,), fraction_bits=16),
}


@cache
def mechanism(
    name: str, box: str, count_bits: int, rule: Postprocessing, min_count: Fraction
) -> LloydMechanism:
    algorithm = ALGORITHMS[name]
    assert isinstance(algorithm, Algorithm)
    return design_mechanism(
        msgspec.structs.replace(algorithm, postprocessing=rule),
        BOXES[box],
        n_clusters=3,
        n_records=500,
        epsilon=1.0,
        public_seed=PublicSeed.from_int(4),
        count_bits=count_bits,
        min_count=min_count,
    )


def slow_next_centroids(
    m: LloydMechanism, round: LloydRound, centroids: IntArray, answer: IntArray
) -> tuple[list[list[int]], list[bool]]:
    """The update as it is written down: one coordinate after another, in Python integers and
    fractions.
    """
    widths, limit = m.domain.half_widths.tolist(), m.domain.saturation
    result, updated = [], []
    for c, row in zip(centroids.tolist(), answer.tolist(), strict=True):
        *R, C = row
        size = Fraction(C, 2**m.count_bits)
        enough = C != 0 if m.min_count == 0 else size >= m.min_count
        updated.append(enough)
        point = c
        if enough:
            move = [math.floor(r / size + Fraction(1, 2)) for r in R]
            n2 = sum(v * v for v in move)
            H2 = round.squared_radius
            if m.algorithm.clipping and H2 is not None and n2 > H2:
                move = [
                    (1 if v >= 0 else -1) * (abs(v) * math.isqrt(H2) // (math.isqrt(n2) + 1))
                    for v in move
                ]
            origin = [0] * len(c) if H2 is None else c
            point = [max(-limit, min(limit, o + v)) for o, v in zip(origin, move, strict=True)]
        match m.algorithm.postprocessing:
            case Postprocessing.TRUNCATE:
                point = [max(-b, min(b, x)) for x, b in zip(point, widths, strict=True)]
            case Postprocessing.FOLD:
                point = [
                    y - b if (y := (x + b) % (4 * b)) <= 2 * b else 3 * b - y
                    for x, b in zip(point, widths, strict=True)
                ]
            case Postprocessing.NONE:
                pass
        result.append(point)
    return result, updated


@settings(max_examples=600)
@given(
    name=st.sampled_from(["fastlloyd", "glloyd", "sulloyd", "lloyd"]),
    box=st.sampled_from(list(BOXES)),
    count_bits=st.integers(0, 10),
    rule=st.sampled_from(Postprocessing),
    min_count=st.sampled_from([Fraction(0), Fraction(1), Fraction(37, 3)]),
    first=st.booleans(),
    size=st.sampled_from([3, 100, 2**20, 2**40, 2**62]),
    counts=st.sampled_from([2, 100, 10**6, 2**50]),
    n_threads=st.integers(1, 4),
    seed=st.integers(0, 2**32),
)
def test_the_update_is_the_written_one_for_every_algorithm_rule_count_grid_and_number_of_threads(
    name: str,
    box: str,
    count_bits: int,
    rule: Postprocessing,
    min_count: Fraction,
    first: bool,
    size: int,
    counts: int,
    n_threads: int,
    seed: int,
) -> None:
    m = mechanism(name, box, count_bits, rule, min_count)
    round = m.rounds[0 if first else -1]
    k, d = m.n_clusters, m.n_features
    generator = np.random.default_rng(seed)
    answer = np.column_stack(
        [generator.integers(-size, size, (k, d)), generator.integers(-counts, counts, k)]
    )
    reach = (
        m.domain.half_widths if rule is not Postprocessing.NONE else np.full(d, m.domain.saturation)
    )
    centroids = generator.integers(-reach, reach + 1, (k, d))
    with (
        mock.patch.dict(os.environ, OMP_NUM_THREADS=str(n_threads)),
        mock.patch.object(threads, "LEAST_NANOSECONDS", 1),
    ):
        found = moved(m, round, centroids, answer)
    points, updated = slow_next_centroids(m, round, centroids, answer)
    assert found.centroids.dtype == np.int64
    assert found.centroids.tolist() == points
    assert found.updated.tolist() == updated
    assert np.array_equal(found.previous, centroids)
    assert np.array_equal(found.answer, answer)
    assert (np.abs(found.centroids) <= m.domain.saturation).all()


def plain_lloyd(m: LloydMechanism, X: IntArray) -> IntArray:
    centroids = m.initial_centroids()
    for _ in m.rounds:
        sums, counts = reference.cluster_statistics(X, centroids, None)
        for j, count in enumerate(counts.tolist()):
            if count:
                mean = [
                    Fraction(int(s), count) + c
                    for s, c in zip(sums[j], centroids[j].tolist(), strict=True)
                ]
                centroids[j] = [math.floor(x + Fraction(1, 2)) for x in mean]
    return centroids[largest_first(counts)]


def largest_first(counts: IntArray) -> list[int]:
    """The clusters in the order of a result."""
    return sorted(range(len(counts)), key=lambda j: (-int(counts[j]), j))


@pytest.mark.parametrize("seed", range(5))
def test_without_noise_the_loop_is_plain_k_means_on_the_grid(seed: int) -> None:
    box = BOXES["square"]
    X = np.random.default_rng(seed).integers(-(2**10), 2**10, (200, 2))
    m = design_mechanism(
        LLOYD, box, n_clusters=4, n_records=200, epsilon=1.0, public_seed=PublicSeed.from_int(seed)
    )
    assert len(m.rounds) == 7
    result = central.cluster(m, LocalRecords(m.domain, X), SeededNoise(0))
    assert np.array_equal(result.centroids, plain_lloyd(m, X))
    sums, counts = reference.cluster_statistics(X, result.previous, None)
    assert np.array_equal(result.answer[:, -1], counts)
    assert np.array_equal(result.answer[:, :-1], sums + counts[:, None] * result.previous)


@pytest.mark.parametrize("algorithm", [FASTLLOYD, GLLOYD, SULLOYD], ids=lambda a: a.name)
def test_the_central_model_is_query_plus_noise_then_update_in_every_round(
    algorithm: Algorithm,
) -> None:
    box = BOXES["line"]
    X = np.random.default_rng(1).integers(-(2**16), 2**16, (100, 1))
    m = design_mechanism(
        algorithm,
        box,
        n_clusters=3,
        n_records=100,
        epsilon=5.0,
        public_seed=PublicSeed.from_int(0),
        n_iterations=4,
    )
    noise = [np.random.default_rng(i).integers(-500, 500, 3) for i in range(8)]
    centroids = m.initial_centroids()
    for number, round in enumerate(m.rounds):
        sums, counts = reference.cluster_statistics(X, centroids, round.squared_radius)
        if round.squared_radius is None:
            sums = sums + counts[:, None] * centroids
        answer = np.column_stack([sums[:, 0] + noise[2 * number], counts + noise[2 * number + 1]])
        centroids = np.array(slow_next_centroids(m, round, centroids, answer)[0])
    assert np.array_equal(
        central.cluster(m, LocalRecords(m.domain, X), InjectedNoise(noise)).centroids,
        centroids[largest_first(answer[:, -1])],
    )


def test_centroids_that_ran_away_stop_where_arithmetic_is_still_exact() -> None:
    # SuLloyd has no post-processing; on little data its centroids were seen 1,558 half widths away.
    box = BOXES["square"]
    m = design_mechanism(
        SULLOYD,
        box,
        n_clusters=2,
        n_records=10,
        epsilon=1.0,
        public_seed=PublicSeed.from_int(0),
        n_iterations=3,
        min_count=Fraction(1),
    )
    X = np.random.default_rng(0).integers(-(2**10), 2**10, (10, 2))
    away = [np.array([2**60, -(2**60), -(2**60), 2**50]), np.array([1, 1])]
    still = [np.zeros(4, dtype=np.int64), np.zeros(2, dtype=np.int64)]
    c = box.saturation
    found = central.cluster(m, LocalRecords(m.domain, X), InjectedNoise([*away, *still, *still]))
    # the first answers sent the centroids to the corners; records tie or not exactly as integers
    # say
    corners = np.array([[c, -c], [-c, c]])
    sums, counts = reference.cluster_statistics(X, corners, None)
    assert counts.sum() == 10
    means = slow_next_centroids(
        m, m.rounds[1], corners, np.column_stack([sums + counts[:, None] * corners, counts])
    )[0]
    sums, counts = reference.cluster_statistics(X, np.array(means), None)
    assert np.array_equal(found.previous, means)
    assert np.array_equal(
        found.answer, np.column_stack([sums + counts[:, None] * np.array(means), counts])
    )
